//! `read_window`: lists the sections that begin on consecutive pages.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer, WindowSection, check_size};
use crate::settings::Purpose;

/// Asks for the sections on consecutive pages, and shows the page before them. Key: the texts of all these pages.
pub(crate) type ReadWindow = QuestionStage<ReadWindowQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct ReadWindowQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "read_window",
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
pub(crate) struct WindowReply {
    sections: Vec<WindowSection>,
}

impl Question for ReadWindowQuestion {
    type Reply = WindowReply;

    const NAME: &'static str = "read_window";
    const REVISION: u32 = 1;
    const KIND: QuestionKind = QuestionKind::ReadWindow;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: WindowReply) -> Result<StructureAnswer, String> {
        check_size(StructureAnswer::Sections(reply.sections))
    }
}
