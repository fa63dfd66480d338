//! Withdraw: a document that was removed where it came from gets a tombstone, and then a change record says so.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{DocId, blob_keys};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};

use super::PublishOutcome;
use super::publish::{identify_version, write_tombstone};
use crate::FilingFlow;
use crate::settings::RunSettings;

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
    type Work = FilingFlow;
    type Outcome = PublishOutcome;

    const NAME: &'static str = "withdraw";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identify_version(identity, self.doc, self.seq);
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<PublishOutcome>, Failure> {
        let collection = blob_keys::parse_collection(&task.run.scope)
            .map_err(|error| Failure::permanent("publish.scope", error.to_string()))?;
        write_tombstone(task.env, task.ports, &collection, self.doc, self.seq).await?;
        Ok(PublishOutcome { gaps: 0 }.into())
    }
}
