//! `repair`: finds the page of a title that failed verification.

use serde::Deserialize;
use serde_json::{Value, json};

use super::question_stage::{Question, QuestionStage};
use crate::llm::{LlmQuestion, QuestionKind, StructureAnswer};
use crate::settings::Purpose;

/// Asks for the page of one title that failed verification. Key: the title and the texts of the candidate pages.
pub(crate) type Repair = QuestionStage<RepairQuestion>;

#[derive(Debug, Clone)]
pub(crate) struct RepairQuestion;

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: "repair",
    purpose: Purpose::Structure,
    instructions: "You are shown the title of a section and consecutive pages of the same document. Answer with the number of the page \
         on which the title stands as the heading of a section, and with 0 where it stands on none of them. Differences in \
         white space, case, hyphens, ligatures and the number before it do not matter. A mention in running text or in a \
         table of contents is no heading.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
    urgency: 5,
};

fn properties() -> Value {
    json!({ "page": { "type": "integer" } })
}

#[derive(Deserialize)]
pub(crate) struct RepairReply {
    page: u32,
}

impl Question for RepairQuestion {
    type Reply = RepairReply;

    const NAME: &'static str = "repair";
    const REVISION: u32 = 1;
    const KIND: QuestionKind = QuestionKind::Repair;

    fn question() -> &'static LlmQuestion {
        &QUESTION
    }

    fn parse(reply: RepairReply) -> Result<StructureAnswer, String> {
        Ok(StructureAnswer::Page(reply.page))
    }
}
