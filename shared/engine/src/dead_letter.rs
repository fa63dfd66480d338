//! Dead letters: what no one could handle, kept until a person replays it.
//!
//! ```text
//! dead/{id}.json   one per message, by the digest of its body: a message that dies twice is one letter
//! ```

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::blobs::{Blobs, list_all};
use crate::coordinator::run_failure_key;
use crate::env::{Env, Millis};
use crate::key::{RunRef, TaskKey, failure_key};
use crate::message::{CoordinatorMessage, TaskMessage};
use crate::port_error::{PortError, with_retry};
use crate::ports::Ports;
use crate::queue::{Message, QueueName};

/// Bytes of a message that are shown.
const EXCERPT_BYTES: usize = 300;
/// Letters read at once.
const READS_AT_ONCE: usize = 16;

/// A message no one could handle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Names it, and sorts by nothing.
    pub id: String,
    /// When it was buried.
    pub at_ms: Millis,
    /// The run it is of; `None` where it could not be read.
    pub run: Option<RunRef>,
    /// The task.
    pub key: Option<TaskKey>,
    /// The stage.
    pub stage: Option<String>,
    /// Failed attempts on the message.
    pub attempts: u32,
    /// Why it was given up.
    pub reason: String,
    /// How it begins. Messages hold references, never text of documents (I-6).
    pub begins: String,
}

/// What replaying a dead letter came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// Its run is open: the task is asked for again.
    Requested(RunRef),
    /// Its run has ended: submit the document again.
    RunEnded(RunRef),
    /// It is no task that can be asked for; the letter was removed.
    Removed,
}

/// Keeps a message that no one could handle.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn record(
    env: &Env,
    blobs: &dyn Blobs,
    message: &Message,
    reason: &str,
) -> Result<(), PortError> {
    let task = serde_json::from_slice::<TaskMessage>(&message.body).ok();
    let run = match (
        &task,
        serde_json::from_slice::<CoordinatorMessage>(&message.body),
    ) {
        (Some(task), _) => Some(task.run.clone()),
        (
            None,
            Ok(
                CoordinatorMessage::Completed(run)
                | CoordinatorMessage::Wake(run)
                | CoordinatorMessage::Abandoned { run, .. },
            ),
        ) => Some(run),
        _ => None,
    };
    let excerpt = &message.body[..message.body.len().min(EXCERPT_BYTES)];
    let letter = DeadLetter {
        id: blake3::hash(&message.body).to_hex().as_str()[..16].into(),
        at_ms: env.now_ms(),
        run,
        key: task.as_ref().map(|task| task.key),
        stage: task.map(|task| task.stage),
        attempts: message.attempts,
        reason: reason.into(),
        begins: String::from_utf8_lossy(excerpt).into_owned(),
    };
    let json = serde_json::to_vec(&letter)
        .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
    let key = blob_key(&letter.id);
    with_retry(env, || blobs.put(&key, json.clone().into()))
        .await
        .map(|_| ())
}

/// The dead letters of a store, latest first; of more than `most` only so many.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn list(blobs: &dyn Blobs, most: usize) -> Result<Vec<DeadLetter>, PortError> {
    let keys = blobs.list("dead/", None, most).await?;
    let read = |key: String| async move { blobs.get(&key).await };
    let letters: Vec<_> = stream::iter(keys)
        .map(read)
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await?;
    let read = letters
        .into_iter()
        .flatten()
        .filter_map(|json| serde_json::from_slice::<DeadLetter>(&json).ok());
    let mut letters: Vec<DeadLetter> = read.collect();
    letters.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then(a.id.cmp(&b.id)));
    Ok(letters)
}

/// How many dead letters there are.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn count(blobs: &dyn Blobs) -> Result<u64, PortError> {
    Ok(list_all(blobs, "dead/").await?.len() as u64)
}

/// Replays a dead letter, which removes it. The failure that stands for it in its run is taken back; the run is then
/// taken up anew from the blobs, and asks for the task again. A run that is over stays over.
///
/// # Errors
/// [`PortError`] when a port is away; replay it again.
pub async fn replay(
    env: &Env,
    ports: &Ports,
    letter: &DeadLetter,
) -> Result<ReplayOutcome, PortError> {
    let blobs = ports.blobs.as_ref();
    let remove = async |key: String| with_retry(env, || blobs.delete(&key)).await;
    let over = match letter.run.as_ref().map(|at| run_failure_key(&at.run)) {
        Some(key) => with_retry(env, || blobs.size(&key)).await?.is_some(),
        None => false,
    };
    let replayed = match (&letter.run, &letter.key) {
        (Some(at), _) if over => ReplayOutcome::RunEnded(at.clone()),
        (Some(at), Some(key)) => {
            remove(failure_key(&at.run, key)).await?;
            with_retry(env, || ports.ledger.forget_run(&at.run)).await?;
            let wake = crate::message::encode(&CoordinatorMessage::Wake(at.clone()))?;
            with_retry(env, || {
                ports
                    .queue
                    .publish(QueueName::for_run(&at.run), vec![wake.clone()])
            })
            .await?;
            ReplayOutcome::Requested(at.clone())
        }
        _ => ReplayOutcome::Removed,
    };
    remove(blob_key(&letter.id)).await?;
    Ok(replayed)
}

fn blob_key(id: &str) -> String {
    format!("dead/{id}.json")
}
