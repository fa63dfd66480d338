//! `verify_title`: checks that a title is a heading at its located position, and that its section starts the page.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer};
use crate::settings::Purpose;

/// Asks about one outline entry. Key: its title, and the text of the page (or the lines) where it was located.
pub(crate) type VerifyTitle = QuestionStage<VerifyTitleQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct VerifyTitleQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "verify_title",
    purpose: Purpose::Structure,
    instructions: "You are shown a title and one page of a document. Decide two things.\n\
         stands: whether the title stands on the page as the heading of a section. Differences in white space, case, \
         hyphens, ligatures and the number before it do not matter. A mention in running text, in a table of contents or \
         in a list of sections is no heading.\n\
         starts_page: whether that section starts the page: nothing of another section stands above its heading. Where \
         the title does not stand on the page, answer false.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
    urgency: 4,
};

fn properties() -> Value {
    json!({ "stands": { "type": "boolean" }, "starts_page": { "type": "boolean" } })
}

#[derive(Deserialize)]
pub(crate) struct TitleVerdict {
    stands: bool,
    starts_page: bool,
}

impl Question for VerifyTitleQuestion {
    type Reply = TitleVerdict;

    const NAME: &'static str = "verify_title";
    const REVISION: u32 = 2;
    const KIND: QuestionKind = QuestionKind::VerifyTitle;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: TitleVerdict) -> Result<StructureAnswer, String> {
        Ok(StructureAnswer::TitleCheck {
            stands: reply.stands,
            starts_page: reply.starts_page,
        })
    }
}
