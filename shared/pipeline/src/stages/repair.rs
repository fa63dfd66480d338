//! Repair: on which of these pages does this title stand, if on any?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{LlmQuestion, QuestionRef, StructureAnswer, StructureReply, answer_question};
use crate::settings::{Purpose, RunSettings};

/// Asks for the place of one title that was not found where it was looked for. Key: the title and the texts of the pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repair(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: Repair::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown the title of a section and consecutive pages of the same document. Answer with the number of the page \
         on which the title stands as the heading of a section, and with 0 where it stands on none of them. Differences in \
         white space, case, hyphens, ligatures and the number before it do not matter. A mention in running text or in a \
         table of contents is no heading.",
    properties,
    max_tokens: |model| model.max_verdict_tokens,
};

fn properties() -> Value {
    json!({ "page": { "type": "integer" } })
}

#[derive(Deserialize)]
struct RepairReply {
    page: u32,
}

#[async_trait]
impl Stage for Repair {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "repair";
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
        answer_question(&QUESTION, task, &self.0, |reply: RepairReply| {
            Ok(StructureAnswer::Page(reply.page))
        })
        .await
    }
}
