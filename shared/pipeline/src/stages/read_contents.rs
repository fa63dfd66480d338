//! Read_contents: what does this table of contents list?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{
    LlmQuestion, QuestionRef, StructureAnswer, StructureReply, TocEntry, answer_question,
    check_size,
};
use crate::settings::{Purpose, RunSettings};

/// Asks about the pages of one table of contents. Key: their texts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadContents(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: ReadContents::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown the pages of a printed table of contents. List its entries in their order, and leave none out.\n\
         number: the number of the section as printed, with the word before it (`Item 1A`, `2.3`, `Chapter IV`); empty \
         where it has none.\n\
         title: the title as printed, without number and page number. Join a title that is printed on several lines.\n\
         label: the page number printed beside it (`12`, `xiv`, `F-3`), of a range the first; empty where there is none.\n\
         level: how deep the entry lies, counted from 1 for the highest. Go by the numbers of the sections, then by \
         indentation and type.\n\
         Leave out the title of the table itself, the heads of its columns, and lists of figures or tables.",
    properties,
    max_tokens: |model| model.max_outline_tokens,
};

fn properties() -> Value {
    json!({ "entries": { "type": "array", "items": {
        "type": "object",
        "properties": {
            "number": { "type": "string" }, "title": { "type": "string" },
            "label": { "type": "string" }, "level": { "type": "integer" },
        },
        "required": ["number", "title", "label", "level"],
        "additionalProperties": false,
    } } })
}

#[derive(Deserialize)]
struct ContentsReply {
    entries: Vec<TocEntry>,
}

#[async_trait]
impl Stage for ReadContents {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "read_contents";
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
        answer_question(&QUESTION, task, &self.0, |reply: ContentsReply| {
            check_size(StructureAnswer::Entries(reply.entries))
        })
        .await
    }
}
