//! Recording how a task ended, and notifying the coordinator of its run.

use stemma_store::blobs::put_json;
use stemma_store::failure::FailureRecord;
use stemma_store::key::{RunRef, TaskKey, failure_key};
use stemma_store::port_error::PortResult;

use crate::ledger::{Ledger, TaskOutcome};
use crate::message::{CoordinatorMessage, encode_notification};
use crate::ports::Ports;
use crate::queue::Queue;

/// Stores a final failure of a task, records it in the ledger and notifies the coordinator.
pub(crate) async fn record_failure(
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    record: FailureRecord,
) -> PortResult<()> {
    // The blob comes first: the ledger may forget, and is then rebuilt from the blobs (I-1).
    store_failure(ports, &failure_key(&run.run, key), &record).await?;
    record_outcome(ports, run, key, TaskOutcome::Failed(record)).await
}

pub(crate) async fn store_failure(
    ports: &Ports,
    blob_key: &str,
    record: &FailureRecord,
) -> PortResult<()> {
    put_json(&ports.blobs, blob_key, record).await.map(drop)
}

/// Records an outcome whose artifact or failure is already stored, then notifies the coordinator (I-3).
pub(crate) async fn record_outcome(
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    outcome: TaskOutcome,
) -> PortResult<()> {
    ports.ledger.record(&run.run, key, outcome).await?;
    notify_coordinator(ports, &CoordinatorMessage::Completed(run.clone())).await
}

/// Has the coordinator load a run again from the blobs, as after a loss of the ledger: an outcome that it knows has lost
/// its artifact.
pub(crate) async fn reload_run(ports: &Ports, run: &RunRef) -> PortResult<()> {
    let watchers = ports.ledger.watchers(&run.run).await?;
    ports.ledger.forget_run(&run.run).await?;
    for job in watchers {
        ports.ledger.add_watcher(&run.run, &job).await?;
    }
    notify_coordinator(ports, &CoordinatorMessage::Completed(run.clone())).await
}

/// Publishes a message to the flow queue of the run or job that it addresses.
pub(crate) async fn notify_coordinator(
    ports: &Ports,
    message: &CoordinatorMessage,
) -> PortResult<()> {
    let encoded = encode_notification(&ports.message_keys, message)?;
    ports.queue.publish(message.queue(), vec![encoded]).await
}
