//! Read_window: which sections begin on these pages?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{
    LlmQuestion, QuestionRef, StructureAnswer, StructureReply, WindowSection, answer_question,
    check_size,
};
use crate::settings::{Purpose, RunSettings};

/// Asks about consecutive pages, and shows the page before them. Key: their texts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadWindow(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: ReadWindow::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown consecutive pages of a document, and perhaps the page before them. List the sections whose headings \
         stand on the numbered pages, in their order.\n\
         number: the number of the section as printed, with the word before it (`Item 1A`, `2.3`, `Chapter IV`); empty \
         where it has none.\n\
         title: the heading as printed, without its number. Join a heading that is printed on several lines.\n\
         page: the number of the block in which the heading stands.\n\
         level: how deep the section lies, counted from 1 for the highest sections of the document. Go by the numbers of \
         the sections, then by what holds what.\n\
         The page `Before` is only there to show what the first page goes on with: list nothing from it. Running heads, \
         entries of a table of contents, titles of tables and mentions in running text are no headings. Where no section \
         begins, answer with an empty list.",
    properties,
    max_tokens: |model| model.max_outline_tokens,
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
struct WindowReply {
    sections: Vec<WindowSection>,
}

#[async_trait]
impl Stage for ReadWindow {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "read_window";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<StructureReply>, Failure> {
        answer_question(&QUESTION, task, &self.0, |reply: WindowReply| {
            check_size(StructureAnswer::Sections(reply.sections))
        })
        .await
    }
}
