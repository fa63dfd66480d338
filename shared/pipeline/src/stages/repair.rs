//! Repair: on which of these pages does this title stand, if on any?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity};

use crate::Filings;
use crate::model::{Pointer, Question, Reply, Said, answer};
use crate::settings::{Purpose, Settings};

/// Asks for the place of one title that was not found where it was looked for. Key: the title and the texts of the pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repair(pub Pointer);

pub(super) static QUESTION: Question = Question {
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
struct Place {
    page: u32,
}

#[async_trait]
impl Stage for Repair {
    type Work = Filings;
    type Outcome = Reply;

    const NAME: &'static str = "repair";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Reply>, Failure> {
        answer(&QUESTION, task, &self.0, |place: Place| {
            Ok(Said::Page(place.page))
        })
        .await
    }
}
