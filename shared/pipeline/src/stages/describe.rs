//! `describe`: describes the document in one sentence, and reads facts from its cover.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_llm::tokens;
use stemma_llm::untrusted::delimit;
use stemma_store::{Failure, TaskKeyBuilder};

use crate::llm::{
    DescriptionTask, InputDigest, LlmQuestion, MAX_PARTS, StageUsage, SummaryRef, check_digest,
    own_stretches, part_summaries, single_line, title_digest,
};
use crate::settings::{Purpose, RunSettings};
use crate::{FilingFlow, FilingTask};
use stemma_outline::enrich::{FactValues, LlmFacts};

// In characters.
const MAX_CHARS: usize = 600;
// Bytes from the start of the document that are shown: about the cover page of a form.
const COVER_BYTES: usize = 1_600;

/// Asks about a document. Key: its first text, and the titles and summaries of its top sections.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Describe(pub(crate) DescriptionTask);

/// The blob `described`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DescriptionBlob {
    pub(crate) description: String,
    /// Facts that the shown text confirms.
    pub(crate) facts: FactValues,
    /// Names of stated facts that the shown text does not confirm.
    pub(crate) dropped: Vec<String>,
}

pub(crate) static QUESTION: LlmQuestion = LlmQuestion {
    stage: Describe::NAME,
    purpose: Purpose::Summaries,
    instructions: "You are shown how a document begins, then its sections with what they say. Describe it in one sentence of at \
         most thirty words, in its own language, so that a reader can tell it from others of its kind: what it is, whose, \
         and for which period. Beside it state, as the text does and empty where it does not: issuer (exact name), form \
         (10-K, 8-K/A), fiscal_year (four digits), fiscal_period (FY, Q1 to Q4), period_end (YYYY-MM-DD) and language (ISO \
         639-1).",
    properties,
    max_tokens: |model| model.max_output_tokens,
    urgency: 7,
};

fn properties() -> Value {
    let names = "description issuer form fiscal_year fiscal_period period_end language";
    names
        .split(' ')
        .map(|name| (name.to_string(), json!({ "type": "string" })))
        .collect()
}

#[derive(Deserialize)]
struct DescriptionReply {
    description: String,
    #[serde(flatten)]
    metadata: LlmFacts,
}

#[async_trait]
impl Stage for Describe {
    type Work = FilingFlow;
    type Outcome = SummaryRef;

    const NAME: &'static str = "describe";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<SummaryRef> {
        let blob = task.tools.text_cache.draft(task, &self.0.draft).await?;
        let prompt = self.prompt_block(task, &blob.tree).await?;
        let user = delimit("Document", &prompt);
        let answer = QUESTION.complete(task, user, |reply: DescriptionReply| {
            Ok((single_line(&reply.description, MAX_CHARS)?, reply.metadata))
        });
        let answer = answer.await?;
        let (description, metadata) = answer.value;
        let (facts, dropped) = metadata.verify_against(&prompt);
        let usage = StageUsage {
            prompt_tokens: tokens::count(&prompt),
            output_tokens: tokens::count(&description),
        };
        let blob = DescriptionBlob {
            description,
            facts,
            dropped,
        };
        let json = serde_json::to_vec(&blob)
            .map_err(|error| Failure::permanent("model.description", error.to_string()))?;
        let digest = Digest::from_content(&json);
        let summary = SummaryRef { digest, usage };
        let output = StageOutput::new(summary, vec![("described", json.into())]);
        Ok(output.with_records(answer.records))
    }
}

impl Describe {
    // Builds the prompt, and checks that it is the one that the key names.
    async fn prompt_block(
        &self,
        task: &FilingTask<'_>,
        tree: &SectionTree,
    ) -> Result<String, Failure> {
        let first = tree
            .sections
            .first()
            .ok_or_else(|| Failure::permanent("model.no_section", "the draft has no sections"))?;
        let small = first.tokens < task.settings.sections.summary_tokens_verbatim;
        let texts = &task.tools.text_cache;
        let text = texts.section(task, &self.0.source, first, small).await?;
        let stretches = match small {
            true => Vec::new(),
            false => own_stretches(&text, task.settings),
        };
        let begins = stretches.first().copied().unwrap_or(&text);
        let mut input = InputDigest::new(title_digest(&first.title, begins), tree.sections.len());
        let top = &tree.sections[..tree.sections.len().min(MAX_PARTS)];
        let parts = &self.0.parts;
        let sections = part_summaries(task, &self.0.source, top, parts, false, &mut input).await?;
        check_digest(Self::NAME, input.finish(), self.0.reads)?;
        Ok(format!("{}\n{sections}", opening_lines(begins)))
    }
}

fn opening_lines(text: &str) -> &str {
    if text.len() <= COVER_BYTES {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(COVER_BYTES)];
    cut.rfind('\n').map_or(cut, |end| &cut[..end])
}
