//! Verify_title: does this title stand where it was located, and does its section start the page?

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity};

use crate::Filings;
use crate::model::{Pointer, Question, Reply, Said, answer};
use crate::settings::{Purpose, Settings};

/// Asks about one entry of the outline. Key: its title, and the text of the page (or the lines) where it was located.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VerifyTitle(pub Pointer);

pub(super) static QUESTION: Question = Question {
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
struct Verdict {
    stands: bool,
    starts_page: bool,
}

#[async_trait]
impl Stage for VerifyTitle {
    type Work = Filings;
    type Outcome = Reply;

    const NAME: &'static str = "verify_title";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.0.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Reply>, Failure> {
        answer(
            &QUESTION,
            task,
            &self.0,
            |Verdict {
                 stands,
                 starts_page,
             }| {
                Ok(Said::Stands {
                    stands,
                    starts_page,
                })
            },
        )
        .await
    }
}
