//! Withdraw: a document that was removed where it came from gets a tombstone, and then a change record says so.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{DocId, layout};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity};

use super::Published;
use super::publish::{identify, withdraw};
use crate::Filings;
use crate::settings::Settings;

/// Writes a tombstone. Key: the document and its version. Nothing is indexed anew when its revision rises.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Withdraw {
    /// The document.
    pub doc: DocId,
    /// The version that is the tombstone.
    pub seq: u64,
}

#[async_trait]
impl Stage for Withdraw {
    type Work = Filings;
    type Outcome = Published;

    const NAME: &'static str = "withdraw";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _settings: &Settings, identity: &mut Identity) {
        identify(identity, self.doc, self.seq);
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Published>, Failure> {
        let collection = layout::collection_of(&task.run.scope)
            .map_err(|error| Failure::permanent("publish.scope", error.to_string()))?;
        withdraw(task.env, task.ports, &collection, self.doc, self.seq).await?;
        Ok(Published { gaps: 0 }.into())
    }
}
