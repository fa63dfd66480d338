//! Locate: on which of these pages do these sections begin?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{
    LlmQuestion, QuestionRef, StructureAnswer, StructureReply, answer_question, check_size,
};
use crate::settings::{Purpose, RunSettings};

/// Asks for the places of some titles on consecutive pages. Key: the titles and the texts of the pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Locate(pub QuestionRef);

pub(super) static QUESTION: LlmQuestion = LlmQuestion {
    stage: Locate::NAME,
    purpose: Purpose::Structure,
    instructions: "You are shown titles of sections and consecutive pages of the same document. Tell for each title on which page its \
         section begins: where the title stands as a heading. Differences in white space, case, hyphens, ligatures and the \
         number before it do not matter. A mention in running text or in a table of contents is no heading.\n\
         entry: the number of the title.\n\
         page: the number of the page. Leave out titles that stand on none of the pages.",
    properties,
    max_tokens: |model| model.max_outline_tokens,
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
struct LocateReply {
    #[serde(rename = "found")]
    titles: Vec<TitlePage>,
}

#[derive(Deserialize)]
struct TitlePage {
    entry: u32,
    page: u32,
}

#[async_trait]
impl Stage for Locate {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = "locate";
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
        answer_question(&QUESTION, task, &self.0, |reply: LocateReply| {
            check_size(StructureAnswer::Located(
                reply
                    .titles
                    .into_iter()
                    .map(|place| (place.entry, place.page))
                    .collect(),
            ))
        })
        .await
    }
}
