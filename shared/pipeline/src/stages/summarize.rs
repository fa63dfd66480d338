//! Summarize: what is in this section? Leaves from their text, others from their own text and the summaries of their parts.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, Section, SectionId};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKey, TaskKeyBuilder};
use stemma_llm::tokens;

use crate::FilingFlow;
use crate::llm::{
    InputDigest, LlmQuestion, StageUsage, SummaryBatch, SummaryRef, check_digest, delimit_sections,
    first_sentence, load_summary, own_stretches, part_summaries, single_line, title_digest,
    with_title,
};
use crate::settings::{Purpose, RunSettings};

/// The longest summary in characters: what is longer is no summary.
const MAX_CHARS: usize = 2_000;

/// Asks about one section. Key: its title and own text, and of each of its parts the summary (the text, where a part is so
/// short that it is its own summary).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summarize {
    /// Digest of all that.
    pub reads: Digest,
    /// The artifact that holds the sections.
    pub draft: TaskKey,
    /// The artifact that holds the text.
    pub source: TaskKey,
    /// Index of the section.
    pub section: u32,
    /// Asks about this stretch of its own text alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stretch: Option<u32>,
    /// The artifacts of the summaries that stand for its own text, where that is asked about in stretches; `None`: one has
    /// no summary.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub own: Vec<Option<TaskKey>>,
    /// The artifacts of its parts' summaries, by the index of the part among its siblings. Of parts that are not here the
    /// text is read where they are small, else the title alone.
    pub parts: Vec<(u32, TaskKey)>,
}

/// Asked about one section, or about several at once.
pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: Summarize::NAME,
    purpose: Purpose::Summaries,
    instructions: "Summarize each section in at most fifty words, in its own language: its subject, and the periods, amounts and \
         names that matter most. Lines that begin with `-` tell of its parts. Take nothing from elsewhere.",
    properties,
    max_tokens: |model| model.max_output_tokens,
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
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<SummaryRef>, Failure> {
        let expected = task.tools.batcher.expect_item(task);
        let blob = task.tools.text_cache.draft(task, &self.draft).await?;
        let section = blob.tree.section(SectionId(self.section)).ok_or_else(|| {
            Failure::permanent(
                "model.no_section",
                format!("the draft has no section {}", self.section),
            )
        })?;
        let with_section = |failure: Failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        };
        let block = self.prompt_block(task, section).await?;
        let batched = task
            .tools
            .batcher
            .summarize(task, expected, &QUESTION, self.section, block.clone())
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
    /// Asks about this section and no other.
    async fn summarize_alone(
        &self,
        task: &TaskContext<'_, FilingFlow>,
        section: &Section,
        block: &str,
    ) -> Result<StageOutput<SummaryRef>, Failure> {
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

    /// A summary of `block`. What it cost is told by the two alone: the usage of a call is that of all who shared it.
    fn summary_output(&self, title: &str, block: &str, summary: String) -> StageOutput<SummaryRef> {
        let usage = StageUsage {
            prompt_tokens: tokens::count(block),
            output_tokens: tokens::count(&summary),
        };
        // Of a stretch all is read that is said about it, for its section has no other text.
        let visible = if self.stretch.is_some() {
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

    /// What the model is shown, checked against what the key says.
    async fn prompt_block(
        &self,
        task: &TaskContext<'_, FilingFlow>,
        section: &Section,
    ) -> Result<String, Failure> {
        let title = &section.title;
        let (mut block, mut input);
        if let Some(stretch) = self.stretch {
            let own = task
                .tools
                .text_cache
                .section(task, &self.source, section, false)
                .await?;
            let stretch = own_stretches(&own, task.settings)
                .get(stretch as usize)
                .copied()
                .unwrap_or_default();
            input = InputDigest::new(title_digest(title, stretch), 0);
            block = with_title(title, stretch);
        } else if self.own.is_empty() {
            let own = task
                .tools
                .text_cache
                .section(task, &self.source, section, false)
                .await?;
            input = InputDigest::new(title_digest(title, &own), section.children.len());
            block = with_title(title, &own);
        } else {
            input = InputDigest::new(title_digest(title, ""), section.children.len());
            block = title.clone();
            for key in &self.own {
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
        if self.stretch.is_none() {
            block += &part_summaries(
                task,
                &self.source,
                &section.children,
                &self.parts,
                true,
                &mut input,
            )
            .await?;
        }
        check_digest(Self::NAME, input.finish(), self.reads)?;
        Ok(block)
    }
}
