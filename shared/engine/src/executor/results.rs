//! Results that were paid for: stored, or handed on with their task.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use stemma_store::artifact::Artifact;
use stemma_store::env::Millis;
use stemma_store::port_error::PortResult;

use super::TaskExecutor;
use crate::ledger::Ledger;
use crate::message::TaskMessage;
use crate::stage::Work;

// How long the ledger keeps a result that is not stored yet: longer than most outages of a store.
const HOLD_DURATION: Duration = Duration::from_secs(3_600);
// A larger result is not kept: replies of models are smaller.
const MAX_HELD_BYTES: usize = 256 * 1024;

impl<W: Work> TaskExecutor<W> {
    // A process may end at any moment, and the store may be slow or away: what was paid for is in the ledger until it is
    // stored, so that the next process stores it (ADR 0031).
    pub(super) async fn store_or_hand_on(
        &self,
        task: &TaskMessage,
        artifact: &Artifact,
        store: impl Future<Output = PortResult<Bytes>>,
    ) -> PortResult<Bytes> {
        let ledger = &self.ports.ledger;
        let now = self.ports.env.now_ms();
        let hold = async {
            let bytes = artifact.to_bytes();
            if bytes.len() > MAX_HELD_BYTES {
                return std::future::pending::<Infallible>().await;
            }
            let until = now + HOLD_DURATION.as_millis() as Millis;
            let hold = ledger.hold_result(&task.run.run, &task.key, bytes, now, until);
            if let Err(error) = hold.await {
                tracing::warn!(run = %task.run.run, stage = task.stage, %error, "cannot hand a result on while it is being stored");
            }
            std::future::pending().await
        };
        let stored = tokio::select! {
            biased;
            stored = store => stored,
            never = hold => match never {},
        };
        // What is left expires.
        if let (Ok(_), Err(error)) = (
            &stored,
            ledger.raw().drop_result(&task.run.run, &task.key).await,
        ) {
            tracing::debug!(stage = task.stage, %error, "cannot drop a result that is stored");
        }
        stored
    }

    pub(super) async fn held_artifact(&self, task: &TaskMessage) -> PortResult<Option<Artifact>> {
        let ledger = &self.ports.ledger;
        let result = ledger.held_result(&task.run.run, &task.key, self.ports.env.now_ms());
        Ok(result.await?.as_ref().and_then(Artifact::from_bytes))
    }
}
