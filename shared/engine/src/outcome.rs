//! Recording how a task ended, and notifying the coordinator of its run.

use crate::env::Env;
use crate::failure::FailureRecord;
use crate::key::{RunRef, TaskKey, failure_key};
use crate::ledger::TaskOutcome;
use crate::message::{CoordinatorMessage, encode};
use crate::port_error::{PortError, with_retry};
use crate::ports::Ports;

/// Stores a final failure of a task, records it in the ledger and notifies the coordinator.
pub(crate) async fn record_failure(
    env: &Env,
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    record: FailureRecord,
) -> Result<(), PortError> {
    // The blob comes first: the ledger may forget, and is then rebuilt from the blobs (I-1).
    store_failure(env, ports, &failure_key(&run.run, key), &record).await?;
    record_outcome(env, ports, run, key, TaskOutcome::Failed(record)).await
}

pub(crate) async fn store_failure(
    env: &Env,
    ports: &Ports,
    blob_key: &str,
    record: &FailureRecord,
) -> Result<(), PortError> {
    let json = serde_json::to_vec(record)
        .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
    with_retry(env, || ports.blobs.put(blob_key, json.clone().into()))
        .await
        .map(|_| ())
}

/// Records an outcome whose artifact or failure is already stored, then notifies the coordinator (I-3).
pub(crate) async fn record_outcome(
    env: &Env,
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    outcome: TaskOutcome,
) -> Result<(), PortError> {
    with_retry(env, || ports.ledger.record(&run.run, key, outcome.clone())).await?;
    notify_coordinator(env, ports, &CoordinatorMessage::Completed(run.clone())).await
}

/// Publishes a message to the flow queue of the run or job that it addresses.
pub(crate) async fn notify_coordinator(
    env: &Env,
    ports: &Ports,
    message: &CoordinatorMessage,
) -> Result<(), PortError> {
    let encoded = encode(message)?;
    with_retry(env, || {
        ports.queue.publish(message.queue(), vec![encoded.clone()])
    })
    .await
}
