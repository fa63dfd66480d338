//! Verify_title: does this title stand where it was located, and does its section start the page?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{LlmQuestion, QuestionRef, StructureAnswer, StructureReply, answer_question};
use crate::settings::{Purpose, RunSettings};

/// Asks about one entry of the outline. Key: its title, and the text of the page (or the lines) where it was located.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VerifyTitle(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: VerifyTitle::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown a title and one page of a document. Decide two things.\n\
         stands: whether the title stands on the page as the heading of a section. Differences in white space, case, \
         hyphens, ligatures and the number before it do not matter. A mention in running text, in a table of contents or \
         in a list of sections is no heading.\n\
         starts_page: whether that section starts the page: nothing of another section stands above its heading. Where \
         the title does not stand on the page, answer false.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
};

fn properties() -> Value {
    json!({ "stands": { "type": "boolean" }, "starts_page": { "type": "boolean" } })
}

#[derive(Deserialize)]
struct TitleVerdict {
    stands: bool,
    starts_page: bool,
}

#[async_trait]
impl Stage for VerifyTitle {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "verify_title";
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
            |TitleVerdict {
                 stands,
                 starts_page,
             }| {
                Ok(StructureAnswer::TitleCheck {
                    stands,
                    starts_page,
                })
            },
        )
        .await
    }
}
