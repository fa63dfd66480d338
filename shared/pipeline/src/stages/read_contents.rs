//! `read_contents`: lists the entries of a printed table of contents.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer, TocEntry, check_size};
use crate::settings::Purpose;

/// Asks for the entries of one table of contents. Key: the texts of its pages.
pub(crate) type ReadContents = QuestionStage<ReadContentsQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct ReadContentsQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "read_contents",
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
    urgency: 1,
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
pub(crate) struct ContentsReply {
    entries: Vec<TocEntry>,
}

impl Question for ReadContentsQuestion {
    type Reply = ContentsReply;

    const NAME: &'static str = "read_contents";
    const REVISION: u32 = 1;
    const KIND: QuestionKind = QuestionKind::ReadContents;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: ContentsReply) -> Result<StructureAnswer, String> {
        check_size(StructureAnswer::Entries(reply.entries))
    }
}
