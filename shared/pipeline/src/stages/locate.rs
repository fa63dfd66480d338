//! `locate`: finds the pages on which titles begin.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer, check_size};
use crate::settings::Purpose;

/// Asks on which of some consecutive pages each title begins. Key: the titles and the texts of the pages.
pub(crate) type Locate = QuestionStage<LocateQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct LocateQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "locate",
    purpose: Purpose::Structure,
    instructions: "You are shown titles of sections and consecutive pages of the same document. Tell for each title on which page its \
         section begins: where the title stands as a heading. Differences in white space, case, hyphens, ligatures and the \
         number before it do not matter. A mention in running text or in a table of contents is no heading.\n\
         entry: the number of the title.\n\
         page: the number of the page. Leave out titles that stand on none of the pages.",
    properties,
    max_tokens: |model| model.max_outline_tokens,
    urgency: 3,
};

fn properties() -> Value {
    json!({ "found": { "type": "array", "items": {
        "type": "object",
        "properties": { "entry": { "type": "integer" }, "page": { "type": "integer" } },
        "required": ["entry", "page"],
        "additionalProperties": false,
    } } })
}

#[derive(Deserialize)]
pub(crate) struct LocateReply {
    #[serde(rename = "found")]
    titles: Vec<TitlePage>,
}

#[derive(Deserialize)]
struct TitlePage {
    entry: u32,
    page: u32,
}

impl Question for LocateQuestion {
    type Reply = LocateReply;

    const NAME: &'static str = "locate";
    const REVISION: u32 = 1;
    const KIND: QuestionKind = QuestionKind::Locate;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: LocateReply) -> Result<StructureAnswer, String> {
        let pages = reply
            .titles
            .into_iter()
            .map(|title| (title.entry, title.page));
        check_size(StructureAnswer::Located(pages.collect()))
    }
}
