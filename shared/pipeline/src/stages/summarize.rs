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
    BatchUse, InputDigest, LlmQuestion, StageUsage, SummaryBatch, SummaryRef, SummaryTask,
    check_digest, delimit_sections, first_sentence, load_summary, own_stretches, part_summaries,
    single_line, title_digest, with_title,
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
                Failure::permanent(
                    "model.no_section",
                    format!("the draft has no section {}", self.0.section),
                )
            })?;
        let with_section = |failure: Failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        };
        let block = self.prompt_block(task, section).await?;
        // Which sections share a call is chance, so in batches of the provider each is a request of its own.
        if BatchUse::for_task(task).await? != BatchUse::Never {
            drop(expected);
            return self
                .summarize_alone(task, section, &block)
                .await
                .map_err(with_section);
        }
        let batched = task
            .tools
            .batcher
            .summarize(task, expected, &QUESTION, self.0.section, block.clone())
            .await;
        match batched
            .map_err(with_section)?
            .and_then(|summary| single_line(&summary, MAX_CHARS).ok())
        {
            Some(summary) => Ok(self.summary_output(&section.title, &block, summary)),
            None => self
                .summarize_alone(task, section, &block)
                .await
                .map_err(with_section),
        }
    }
}

impl Summarize {
    async fn summarize_alone(
        &self,
        task: &FilingTask<'_>,
        section: &Section,
        block: &str,
    ) -> StageResult<SummaryRef> {
        let answer = QUESTION
            .complete(
                task,
                delimit_sections(std::iter::once(block)),
                |reply: SummaryBatch| match reply.summary_for(1) {
                    Some(summary) => single_line(summary, MAX_CHARS),
                    None => Err("it holds no summary of the section".into()),
                },
            )
            .await?;
        Ok(self
            .summary_output(&section.title, block, answer.value)
            .with_records(answer.records))
    }

    // The usage counts this prompt and summary only: the tokens of a batch call belong to all its sections.
    fn summary_output(&self, title: &str, block: &str, summary: String) -> StageOutput<SummaryRef> {
        let usage = StageUsage {
            prompt_tokens: tokens::count(block),
            output_tokens: tokens::count(&summary),
        };
        // The summary of a stretch is read in full, because it represents text that its section does not show
        // otherwise.
        let visible = if self.0.stretch.is_some() {
            &summary
        } else {
            first_sentence(&summary)
        };
        StageOutput::new(
            SummaryRef {
                digest: title_digest(title, visible),
                usage,
            },
            vec![("summary", summary.into())],
        )
    }

    // Builds the prompt, and checks that it is the one that the key names.
    async fn prompt_block(
        &self,
        task: &FilingTask<'_>,
        section: &Section,
    ) -> Result<String, Failure> {
        let title = &section.title;
        let (mut block, mut input);
        if let Some(stretch) = self.0.stretch {
            let own = task
                .tools
                .text_cache
                .section(task, &self.0.source, section, false)
                .await?;
            let stretch = own_stretches(&own, task.settings)
                .get(stretch as usize)
                .copied()
                .unwrap_or_default();
            input = InputDigest::new(title_digest(title, stretch), 0);
            block = with_title(title, stretch);
        } else if self.0.own.is_empty() {
            let own = task
                .tools
                .text_cache
                .section(task, &self.0.source, section, false)
                .await?;
            input = InputDigest::new(title_digest(title, &own), section.children.len());
            block = with_title(title, &own);
        } else {
            input = InputDigest::new(title_digest(title, ""), section.children.len());
            block = title.clone();
            for key in &self.0.own {
                let summary = match key {
                    Some(key) => Some(load_summary(task, key).await?),
                    None => None,
                };
                input.add_part(
                    summary
                        .as_ref()
                        .map_or(Digest::from_content(b""), |summary| {
                            title_digest(title, summary)
                        }),
                );
                block.push_str(
                    &summary
                        .map(|summary| format!("\n{summary}"))
                        .unwrap_or_default(),
                );
            }
        }
        if self.0.stretch.is_none() {
            block += &part_summaries(
                task,
                &self.0.source,
                &section.children,
                &self.0.parts,
                true,
                &mut input,
            )
            .await?;
        }
        check_digest(Self::NAME, input.finish(), self.0.reads)?;
        Ok(block)
    }
}
