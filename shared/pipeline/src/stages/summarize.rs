//! `summarize`: summarizes a section, from its own text and the summaries of its sub-sections.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, Section, SectionId};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_llm::tokens;
use stemma_store::{Failure, TaskKeyBuilder};

use crate::llm::{
    BatchUse, ExpectedItem, InputDigest, LlmQuestion, StageUsage, SummaryBatch, SummaryRef,
    SummaryTask, check_digest, delimit_sections, first_sentence, load_summary, own_stretches,
    part_summaries, single_line, title_digest, with_title,
};
use crate::settings::{Purpose, RunSettings};
use crate::{FilingFlow, FilingTask};

// A longer reply is not accepted as a summary.
const MAX_CHARS: usize = 2_000;

/// Asks about one section. Key: its title and own text, and for each sub-section its summary (its text, if it
/// is too short to be summarized).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Summarize(pub(crate) SummaryTask);

pub(crate) static QUESTION: LlmQuestion = LlmQuestion {
    stage: Summarize::NAME,
    purpose: Purpose::Summaries,
    instructions: "Summarize each section in at most fifty words, in its own language: its subject, and the periods, amounts and \
         names that matter most. Lines that begin with `-` tell of its parts. Take nothing from elsewhere.",
    properties,
    max_tokens: |model| model.max_output_tokens,
    urgency: 6,
};

fn properties() -> Value {
    let one = json!({
        "type": "object",
        "properties": { "section": { "type": "integer" }, "summary": { "type": "string" } },
        "required": ["section", "summary"],
        "additionalProperties": false,
    });
    json!({ "summaries": { "type": "array", "items": one } })
}

#[async_trait]
impl Stage for Summarize {
    type Work = FilingFlow;
    type Outcome = SummaryRef;

    const NAME: &'static str = "summarize";
    const REVISION: u32 = 3;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<SummaryRef> {
        // Announced before the text is read, so that batches wait for sections that are still loading.
        let expected = task.tools.batcher.expect_item(task);
        let blob = task.tools.text_cache.draft(task, &self.0.draft).await?;
        let section = blob
            .tree
            .section(SectionId(self.0.section))
            .ok_or_else(|| {
                let message = format!("the draft has no section {}", self.0.section);
                Failure::permanent("model.no_section", message)
            })?;
        let block = self.prompt_block(task, section).await?;
        let output = self.summarize(task, expected, section, &block).await;
        output.map_err(|failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        })
    }
}

impl Summarize {
    async fn summarize(
        &self,
        task: &FilingTask<'_>,
        expected: ExpectedItem,
        section: &Section,
        block: &str,
    ) -> StageResult<SummaryRef> {
        // Which sections share a call is chance, so in batches of the provider each is a request of its own.
        if BatchUse::for_task(task).await? != BatchUse::Never {
            drop(expected);
            return self.summarize_alone(task, section, block).await;
        }
        let batcher = &task.tools.batcher;
        let batched =
            batcher.summarize(task, expected, &QUESTION, self.0.section, block.to_owned());
        match batched
            .await?
            .and_then(|summary| single_line(&summary, MAX_CHARS).ok())
        {
            Some(summary) => Ok(self.summary_output(&section.title, block, summary)),
            None => self.summarize_alone(task, section, block).await,
        }
    }

    async fn summarize_alone(
        &self,
        task: &FilingTask<'_>,
        section: &Section,
        block: &str,
    ) -> StageResult<SummaryRef> {
        let user = delimit_sections(std::iter::once(block));
        let answer = QUESTION.complete(task, user, |reply: SummaryBatch| {
            match reply.summary_for(1) {
                Some(summary) => single_line(summary, MAX_CHARS),
                None => Err("it holds no summary of the section".into()),
            }
        });
        let answer = answer.await?;
        let output = self.summary_output(&section.title, block, answer.value);
        Ok(output.with_records(answer.records))
    }

    // The usage counts this prompt and summary only: the tokens of a batch call belong to all its sections.
    fn summary_output(&self, title: &str, block: &str, summary: String) -> StageOutput<SummaryRef> {
        let usage = StageUsage {
            prompt_tokens: tokens::count(block),
            output_tokens: tokens::count(&summary),
        };
        // The summary of a stretch is read in full, because it represents text that its section does not show
        // otherwise.
        let visible = match self.0.stretch {
            Some(_) => &summary,
            None => first_sentence(&summary),
        };
        let digest = title_digest(title, visible);
        let summary = vec![("summary", summary.into())];
        StageOutput::new(SummaryRef { digest, usage }, summary)
    }

    // Builds the prompt, and checks that it is the one that the key names.
    async fn prompt_block(
        &self,
        task: &FilingTask<'_>,
        section: &Section,
    ) -> Result<String, Failure> {
        let title = &section.title;
        let children = &section.children;
        let SummaryTask { source, parts, .. } = &self.0;
        let (mut block, mut input);
        if self.0.own.is_empty() {
            let texts = &task.tools.text_cache;
            let own = texts.section(task, source, section, false).await?;
            let stretches = own_stretches(&own, task.settings);
            let (shown, part_count) = match self.0.stretch {
                Some(at) => (stretches.get(at as usize).copied().unwrap_or_default(), 0),
                None => (own.as_str(), children.len()),
            };
            input = InputDigest::new(title_digest(title, shown), part_count);
            block = with_title(title, shown);
        } else {
            input = InputDigest::new(title_digest(title, ""), children.len());
            block = title.clone();
            for key in &self.0.own {
                input.add_part(match key {
                    Some(key) => {
                        let summary = load_summary(task, key).await?;
                        block += &format!("\n{summary}");
                        title_digest(title, &summary)
                    }
                    None => Digest::from_content(b""),
                });
            }
        }
        if self.0.stretch.is_none() {
            block += &part_summaries(task, source, children, parts, true, &mut input).await?;
        }
        check_digest(Self::NAME, input.finish(), self.0.reads)?;
        Ok(block)
    }
}
