//! Detect_toc: is this page a printed table of contents, and does it print page numbers?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{LlmQuestion, QuestionRef, StructureAnswer, StructureReply, answer_question};
use crate::settings::{Purpose, RunSettings};

/// Asks about one page. Key: its text. Where the page is, and that it is one of the first, is no part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DetectToc(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: DetectToc::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown one page of a document. Decide two things.\n\
         is_contents: whether it is a printed table of contents of that document, or a part of one: a list of the \
         document's own sections in their order.\n\
         has_page_numbers: whether its entries carry page numbers. Where it is no table of contents, answer false.\n\
         Lists of figures, tables, charts, abbreviations or notation are none. Neither are indexes in alphabetical order, \
         tables that tell where the items of a form are answered, and running text that mentions sections.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
};

fn properties() -> Value {
    json!({ "is_contents": { "type": "boolean" }, "has_page_numbers": { "type": "boolean" } })
}

#[derive(Deserialize)]
struct TocVerdict {
    is_contents: bool,
    has_page_numbers: bool,
}

#[async_trait]
impl Stage for DetectToc {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "detect_toc";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<StructureReply>, Failure> {
        answer_question(
            &QUESTION,
            task,
            &self.0,
            |TocVerdict {
                 is_contents,
                 has_page_numbers,
             }| {
                Ok(StructureAnswer::Contents {
                    is_contents,
                    has_page_numbers,
                })
            },
        )
        .await
    }
}
