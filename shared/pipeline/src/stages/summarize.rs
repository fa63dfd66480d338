//! Summarize: what is in this section? Leaves from their text, others from their own text and the summaries of their parts.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, Section, SectionId};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_llm::tokens;

use crate::Filings;
use crate::model::{
    Question, Reads, Spent, Told, Written, digest_of, lead, one_line, own_stretches, parts,
    same_text, shown, summary, titled,
};
use crate::settings::{Purpose, Settings};

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
pub(super) static QUESTION: Question = Question {
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
    type Work = Filings;
    type Outcome = Told;

    const NAME: &'static str = "summarize";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Told>, Failure> {
        let announced = task.tools.packs.announce(task);
        let blob = task.tools.texts.draft(task, &self.draft).await?;
        let section = blob.tree.section(SectionId(self.section)).ok_or_else(|| {
            Failure::permanent(
                "model.no_section",
                format!("the draft has no section {}", self.section),
            )
        })?;
        let named = |failure: Failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        };
        let block = self.read(task, section).await?;
        let packed = task
            .tools
            .packs
            .ask(task, announced, &QUESTION, self.section, block.clone())
            .await;
        match packed
            .map_err(named)?
            .and_then(|summary| one_line(&summary, MAX_CHARS).ok())
        {
            Some(summary) => Ok(self.told(&section.title, &block, summary)),
            None => self.alone(task, section, &block).await.map_err(named),
        }
    }
}

impl Summarize {
    /// Asks about this section and no other.
    async fn alone(
        &self,
        task: &Task<'_, Filings>,
        section: &Section,
        block: &str,
    ) -> Result<Output<Told>, Failure> {
        let asked = QUESTION
            .ask(
                task,
                shown(std::iter::once(block)),
                |written: Written| match written.of(1) {
                    Some(summary) => one_line(summary, MAX_CHARS),
                    None => Err("it holds no summary of the section".into()),
                },
            )
            .await?;
        Ok(self
            .told(&section.title, block, asked.value)
            .with_records(asked.records))
    }

    /// A summary of `block`. What it cost is told by the two alone: the usage of a call is that of all who shared it.
    fn told(&self, title: &str, block: &str, summary: String) -> Output<Told> {
        let spent = Spent {
            prompt_tokens: tokens::count(block),
            output_tokens: tokens::count(&summary),
        };
        // Of a stretch all is read that is said about it, for its section has no other text.
        let read = if self.stretch.is_some() {
            &summary
        } else {
            lead(&summary)
        };
        Output::new(
            Told {
                digest: digest_of(title, read),
                spent,
            },
            vec![("summary", summary.into())],
        )
    }

    /// What the model is shown, checked against what the key says.
    async fn read(&self, task: &Task<'_, Filings>, section: &Section) -> Result<String, Failure> {
        let title = &section.title;
        let (mut block, mut reads);
        if let Some(stretch) = self.stretch {
            let own = task
                .tools
                .texts
                .section(task, &self.source, section, false)
                .await?;
            let stretch = own_stretches(&own, task.settings)
                .get(stretch as usize)
                .copied()
                .unwrap_or_default();
            reads = Reads::of(digest_of(title, stretch), 0);
            block = titled(title, stretch);
        } else if self.own.is_empty() {
            let own = task
                .tools
                .texts
                .section(task, &self.source, section, false)
                .await?;
            reads = Reads::of(digest_of(title, &own), section.children.len());
            block = titled(title, &own);
        } else {
            reads = Reads::of(digest_of(title, ""), section.children.len());
            block = title.clone();
            for key in &self.own {
                let summary = match key {
                    Some(key) => Some(summary(task, key).await?),
                    None => None,
                };
                reads.part(
                    summary
                        .as_ref()
                        .map_or(Digest::of(b""), |summary| digest_of(title, summary)),
                );
                block.push_str(
                    &summary
                        .map(|summary| format!("\n{summary}"))
                        .unwrap_or_default(),
                );
            }
        }
        if self.stretch.is_none() {
            block += &parts(
                task,
                &self.source,
                &section.children,
                &self.parts,
                true,
                &mut reads,
            )
            .await?;
        }
        same_text(Self::NAME, reads.finish(), self.reads)?;
        Ok(block)
    }
}
