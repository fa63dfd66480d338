//! Verify_title: does this title stand where it was located, and does its section start the page?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::Digest;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};

use crate::Filings;
use crate::model::{Looked, Question, digest_of, fenced, same_text};
use crate::settings::Settings;

/// Asks about one entry of the outline. Key: its title, and the text of the page (or the lines) where it was located.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VerifyTitle {
    /// Digest of title and text.
    pub reads: Digest,
    /// The artifact that holds the entry.
    pub draft: TaskKey,
    /// The artifact that holds the text.
    pub source: TaskKey,
    /// Index of the entry.
    pub entry: u32,
}

pub(super) static QUESTION: Question = Question {
    stage: VerifyTitle::NAME,
    instructions: "You are shown a title and one page of a document. Decide two things.\n\
         stands: whether the title stands on the page as the heading of a section. Differences in white space, case, \
         hyphens, ligatures and the number before it do not matter. A mention in running text, in a table of contents or \
         in a list of sections is no heading.\n\
         starts_page: whether that section starts the page: nothing of another section stands above its heading. Where \
         the title does not stand on the page, answer false.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
};

fn properties() -> Value {
    json!({ "stands": { "type": "boolean" }, "starts_page": { "type": "boolean" } })
}

#[derive(Deserialize)]
struct Verdict {
    stands: bool,
    starts_page: bool,
}

#[async_trait]
impl Stage for VerifyTitle {
    type Work = Filings;
    type Outcome = Looked;

    const NAME: &'static str = "verify_title";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Looked>, Failure> {
        let texts = &task.tools.texts;
        let blob = texts.draft(task, &self.draft).await?;
        let missing = || Failure::permanent("model.no_entry", format!("the draft has no entry {}", self.entry));
        let located = &blob.draft.outline.entries().get(self.entry as usize).ok_or_else(missing)?.located;
        let title = located.entry.title.as_str();
        let text = texts.entry(task, &self.source, located.place).await?;
        same_text(Self::NAME, digest_of(title, &text), self.reads)?;
        let user = format!("{}\n\n{}", fenced("Title", title), fenced("Page", &text));
        let asked = QUESTION.ask::<Verdict>(task, user).await?;
        let Verdict { stands, starts_page } = asked.value;
        let (key, record) = asked.record;
        Ok(Output::from(Looked { stands, starts_page, spent: asked.spent }).with_record(key, record))
    }
}
