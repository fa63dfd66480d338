//! Describe: one sentence that tells the document from others, and what it says it is.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_llm::fence::fenced;
use stemma_llm::tokens;

use crate::Filings;
use crate::model::{
    MAX_PARTS, Question, Reads, Spent, Told, digest_of, one_line, own_stretches, parts, same_text,
};
use crate::settings::{Purpose, Settings};
use stemma_outline::sections::{Metadata, Values};

/// The longest description in characters.
const MAX_CHARS: usize = 600;
/// Bytes of the document's beginning that are shown: what the cover of a form says of the document.
const COVER_BYTES: usize = 1_600;

/// Asks about a document. Key: how it begins, and the titles and summaries of its top sections.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Describe {
    /// Digest of all that.
    pub reads: Digest,
    /// The artifact that holds the sections.
    pub draft: TaskKey,
    /// The artifact that holds the text.
    pub source: TaskKey,
    /// The artifacts of the top sections' summaries, by the index of the section among them; of others the title is read.
    pub parts: Vec<(u32, TaskKey)>,
}

/// What the model says of a document: the blob `described`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Described {
    /// One sentence.
    pub(crate) description: String,
    /// What stands in the text it was shown.
    pub(crate) facts: Values,
    /// Names of what it said and does not stand there.
    pub(crate) dropped: Vec<String>,
}

pub(super) static QUESTION: Question = Question {
    stage: Describe::NAME,
    purpose: Purpose::Summaries,
    instructions: "You are shown how a document begins, then its sections with what they say. Describe it in one sentence of at \
         most thirty words, in its own language, so that a reader can tell it from others of its kind: what it is, whose, \
         and for which period. Beside it state, as the text does and empty where it does not: issuer (exact name), form \
         (10-K, 8-K/A), fiscal_year (four digits), fiscal_period (FY, Q1 to Q4), period_end (YYYY-MM-DD) and language (ISO \
         639-1).",
    properties,
    max_tokens: |model| model.max_output_tokens,
};

fn properties() -> Value {
    let names = [
        "description",
        "issuer",
        "form",
        "fiscal_year",
        "fiscal_period",
        "period_end",
        "language",
    ];
    names
        .into_iter()
        .map(|name| (name.to_string(), json!({ "type": "string" })))
        .collect()
}

#[derive(Deserialize)]
struct Written {
    description: String,
    #[serde(flatten)]
    metadata: Metadata,
}

#[async_trait]
impl Stage for Describe {
    type Work = Filings;
    type Outcome = Told;

    const NAME: &'static str = "describe";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Told>, Failure> {
        let blob = task.tools.texts.draft(task, &self.draft).await?;
        let shown = self.read(task, &blob.tree).await?;
        let asked = QUESTION
            .ask(task, fenced("Document", &shown), |written: Written| {
                Ok((one_line(&written.description, MAX_CHARS)?, written.metadata))
            })
            .await?;
        let (description, metadata) = asked.value;
        let (facts, dropped) = metadata.standing_in(&shown);
        let spent = Spent {
            prompt_tokens: tokens::count(&shown),
            output_tokens: tokens::count(&description),
        };
        let json = serde_json::to_vec(&Described {
            description,
            facts,
            dropped,
        });
        let json =
            json.map_err(|error| Failure::permanent("model.description", error.to_string()))?;
        let told = Told {
            digest: Digest::of(&json),
            spent,
        };
        Ok(Output::new(told, vec![("described", json.into())]).with_records(asked.records))
    }
}

impl Describe {
    /// What the model is shown, checked against what the key says.
    async fn read(&self, task: &Task<'_, Filings>, tree: &SectionTree) -> Result<String, Failure> {
        let first = tree
            .sections
            .first()
            .ok_or_else(|| Failure::permanent("model.no_section", "the draft has no sections"))?;
        let small = first.tokens < task.settings.sections.summary_tokens_verbatim;
        let text = task
            .tools
            .texts
            .section(task, &self.source, first, small)
            .await?;
        let stretches = if small {
            Vec::new()
        } else {
            own_stretches(&text, task.settings)
        };
        let begins = stretches.first().copied().unwrap_or(&text);
        let mut reads = Reads::of(digest_of(&first.title, begins), tree.sections.len());
        let top = &tree.sections[..tree.sections.len().min(MAX_PARTS)];
        let sections = parts(task, &self.source, top, &self.parts, false, &mut reads).await?;
        same_text(Self::NAME, reads.finish(), self.reads)?;
        Ok(format!("{}\n{sections}", cover(begins)))
    }
}

/// The first lines of a text.
fn cover(text: &str) -> &str {
    if text.len() <= COVER_BYTES {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(COVER_BYTES)];
    cut.rfind('\n').map_or(cut, |end| &cut[..end])
}
