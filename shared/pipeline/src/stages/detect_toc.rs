//! Detect_toc: is this page a printed table of contents?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, PageNo};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};

use crate::Filings;
use crate::model::{Contents, Question, fenced, same_text};
use crate::settings::Settings;

/// Asks about one page. Key: its text. Where the page is, and that it is one of the first, is no part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DetectToc {
    /// Digest of the text.
    pub reads: Digest,
    /// The artifact whose blob `source` holds it.
    pub source: TaskKey,
    /// The page.
    pub page: PageNo,
}

pub(super) static QUESTION: Question = Question {
    stage: DetectToc::NAME,
    instructions: "You are shown one page of a document. Decide whether it is a printed table of contents of that document, or a \
         part of one: a list of the document's own sections in their order, mostly with page numbers.\n\
         Lists of figures, tables, charts, abbreviations or notation are none. Neither are indexes in alphabetical order, \
         tables that tell where the items of a form are answered, and running text that mentions sections.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
};

fn properties() -> Value {
    json!({ "is_contents": { "type": "boolean" } })
}

#[derive(Deserialize)]
struct Verdict {
    is_contents: bool,
}

#[async_trait]
impl Stage for DetectToc {
    type Work = Filings;
    type Outcome = Contents;

    const NAME: &'static str = "detect_toc";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Contents>, Failure> {
        let text = task.tools.texts.page(task, &self.source, self.page).await?;
        same_text(Self::NAME, Digest::of(text.as_bytes()), self.reads)?;
        let asked = QUESTION.ask::<Verdict>(task, fenced("Page", &text)).await?;
        let outcome = Contents { is_contents: asked.value.is_contents, spent: asked.spent };
        let (key, record) = asked.record;
        Ok(Output::from(outcome).with_record(key, record))
    }
}
