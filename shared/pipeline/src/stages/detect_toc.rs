//! `detect_toc`: asks whether a page is a printed table of contents, and whether it prints page numbers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer};
use crate::settings::Purpose;

/// Asks whether one page is a printed table of contents. Key: the text of the page, not its number.
pub(crate) type DetectToc = QuestionStage<DetectTocQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct DetectTocQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "detect_toc",
    purpose: Purpose::Structure,
    instructions: "You are shown one page of a document. Decide two things.\n\
         is_contents: whether it is a printed table of contents of that document, or a part of one: a list of the \
         document's own sections in their order.\n\
         has_page_numbers: whether its entries carry page numbers. Where it is no table of contents, answer false.\n\
         Lists of figures, tables, charts, abbreviations or notation are none. Neither are indexes in alphabetical order, \
         tables that tell where the items of a form are answered, and running text that mentions sections.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
    urgency: 0,
};

fn properties() -> Value {
    json!({ "is_contents": { "type": "boolean" }, "has_page_numbers": { "type": "boolean" } })
}

#[derive(Deserialize)]
pub(crate) struct TocVerdict {
    is_contents: bool,
    has_page_numbers: bool,
}

impl Question for DetectTocQuestion {
    type Reply = TocVerdict;

    const NAME: &'static str = "detect_toc";
    const REVISION: u32 = 2;
    const KIND: QuestionKind = QuestionKind::DetectToc;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: TocVerdict) -> Result<StructureAnswer, String> {
        Ok(StructureAnswer::Contents {
            is_contents: reply.is_contents,
            has_page_numbers: reply.has_page_numbers,
        })
    }
}
