//! `withdraw`: writes a tombstone for a document that was removed at its source, then a change record.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::DocId;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageResult};
use stemma_store::TaskKeyBuilder;

use super::publish::write_tombstone;
use crate::settings::RunSettings;
use crate::versions::{PublishOutcome, WITHDRAW, identify_version, published_collection};
use crate::{FilingFlow, FilingTask};

/// Key: the document and its version. A higher revision repeats nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Withdraw {
    pub(crate) doc: DocId,
    /// The version number of the tombstone.
    pub(crate) seq: u64,
}

#[async_trait]
impl Stage for Withdraw {
    type Work = FilingFlow;
    type Outcome = PublishOutcome;

    const NAME: &'static str = WITHDRAW.0;
    const REVISION: u32 = WITHDRAW.1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identify_version(identity, self.doc, self.seq);
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<PublishOutcome> {
        let collection = published_collection(task.run, self.doc, self.seq)?;
        write_tombstone(task.ports, &collection, self.doc, self.seq).await?;
        Ok(PublishOutcome { gaps: 0 }.into())
    }
}
