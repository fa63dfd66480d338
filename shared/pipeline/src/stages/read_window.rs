//! `read_window`: asks for headings that the rules missed on some pages.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::Digest;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_store::{Failure, TaskKeyBuilder};

use crate::llm::{
    LlmQuestion, WindowHeading, WindowRef, WindowReply, check_digest, check_size, window_prompt,
};
use crate::settings::{Purpose, RunSettings};
use crate::{FilingFlow, FilingTask};

/// Asks about one window. Key: its prompt, which shows the texts of the pages and the known headings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ReadWindow(pub(crate) WindowRef);

pub(crate) static QUESTION: LlmQuestion = LlmQuestion {
    stage: ReadWindow::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown pages of a document. Known headings have a mark such as `[level 2]`; those under which the first page \
         begins come first. List the headings on the pages that have no mark, in their order; an empty list if none is \
         missing.\n\
         Headings are also bold or italic words at the beginning of a paragraph that name its subject. Running heads, \
         captions, column heads and rows of tables, footnotes, addresses, signatures, lists of contents and mentions in the \
         text are no headings.\n\
         number: as printed, with the word before it (`Item 1A`, `2.3`, `Note 4`); empty where it has none.\n\
         title: as printed, without its number. Join a heading printed on several lines.\n\
         page: the number of the page block.\n\
         level: relative to the marks: one more than the heading above it in rank, equal for headings that look alike. \
         Without marks, 1 is the highest.",
    properties,
    max_tokens: |model| model.max_outline_tokens,
    urgency: 2,
};

fn properties() -> Value {
    json!({ "sections": { "type": "array", "items": {
        "type": "object",
        "properties": {
            "number": { "type": "string" }, "title": { "type": "string" },
            "page": { "type": "integer" }, "level": { "type": "integer" },
        },
        "required": ["number", "title", "page", "level"],
        "additionalProperties": false,
    } } })
}

#[derive(Deserialize)]
struct ReadHeadings {
    sections: Vec<ReadHeading>,
}

// Any number parses: an absurd level or page is judged later, and must not cost the other headings.
#[derive(Deserialize)]
struct ReadHeading {
    number: String,
    title: String,
    page: i64,
    level: i64,
}

impl From<ReadHeading> for WindowHeading {
    fn from(heading: ReadHeading) -> Self {
        Self {
            number: heading.number,
            title: heading.title,
            page: u32::try_from(heading.page).unwrap_or(0),
            level: u16::try_from(heading.level.max(1)).unwrap_or(u16::MAX),
        }
    }
}

#[async_trait]
impl Stage for ReadWindow {
    type Work = FilingFlow;
    type Outcome = WindowReply;

    const NAME: &'static str = "read_window";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<WindowReply> {
        let texts = &task.tools.text_cache;
        let windows = texts.windows(task, &self.0.plan).await?;
        let window = windows.get(self.0.at as usize).ok_or_else(|| {
            let message = format!("the plan has no window {}", self.0.at);
            Failure::permanent("model.no_window", message)
        })?;
        let pages = texts.pages(task, &self.0.source, window.span()).await?;
        let prompt = window_prompt(window, window.span().start(), &pages);
        let read = Digest::from_content(prompt.as_bytes());
        check_digest(Self::NAME, read, self.0.reads)?;
        let completed = QUESTION.complete(task, prompt, |reply: ReadHeadings| {
            check_size(
                reply
                    .sections
                    .into_iter()
                    .map(WindowHeading::from)
                    .collect(),
            )
        });
        let completed = completed.await?;
        let reply = WindowReply {
            headings: completed.value,
            usage: completed.usage,
        };
        Ok(StageOutput::from(reply).with_records(completed.records))
    }
}
