//! Dead letters: messages that no worker could handle, kept until someone replays them.
//!
//! ```text
//! dead/{id}.json   one per task of a run, and per distinct other message of a queue: the id is their digest
//! ```

use std::marker::PhantomData;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_store::artifact;
use stemma_store::blobs::{Blobs, PutOutcome, list_all, put_json};
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureKind, FailureRecord};
use stemma_store::key::{RunId, RunRef, TaskKey, failure_key, failures_prefix, run_failure_key};
use stemma_store::port_error::{PortError, PortResult};

use crate::consumer::{Disposition, Handler};
use crate::ledger::{Ledger, ScheduledItem, TaskOutcome};
use crate::message::{CoordinatorMessage, TaskMessage, encode};
use crate::message_auth::Refusal;
use crate::metrics;
use crate::outcome::{record_failure, record_outcome};
use crate::ports::Ports;
use crate::queue::{DeadReason, Message, RetryDelay};
use crate::stage::Work;

const PREFIX: &str = "dead/";
// Bytes of the message body that are kept.
const EXCERPT_BYTES: usize = 300;
// Failed tasks of a run whose letters are looked up.
const MAX_FAILED_TASKS: usize = 200;
// Concurrent reads of dead letters.
const READS_AT_ONCE: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// First 16 hexadecimal digits of the BLAKE3 digest of run and task key, or of queue and message body.
    pub id: String,
    pub at_ms: Millis,
    /// The queue it came from; `None` in letters of older versions.
    #[serde(default)]
    pub queue: Option<String>,
    /// How often it was delivered there.
    #[serde(default)]
    pub deliveries: u32,
    /// The run of the message; `None` if it could not be decoded.
    pub run: Option<RunRef>,
    pub key: Option<TaskKey>,
    pub stage: Option<String>,
    /// Failed attempts counted on the message.
    pub attempts: u32,
    /// Why it was dead-lettered.
    pub reason: String,
    /// Start of the body. Messages hold references, never document text (I-6).
    pub begins: String,
}

/// Result of [`replay`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The run is open; the task will be requested again.
    Requested(RunRef),
    /// The run has ended; submit the document again.
    RunEnded(RunRef),
    /// Not a task that can be requested; the dead letter was removed.
    Removed,
}

/// What a message is about that may be believed.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Task(&'a TaskMessage),
    /// Coordinators were told of it.
    Run(&'a RunRef),
    Unknown,
}

/// Stores a message that could not be handled, unless it is stored. It may say anything, so the letter names no run: a replay
/// only removes it. `known` is the reason of a message that does not say why.
pub async fn record(ports: &Ports, message: &Message, known: Option<&str>) -> PortResult<()> {
    store(ports, message, known, Subject::Unknown).await
}

async fn store(
    ports: &Ports,
    message: &Message,
    known: Option<&str>,
    subject: Subject<'_>,
) -> PortResult<()> {
    let dead = message.dead.as_ref();
    let reason = dead.map(|dead| dead.reason.as_str()).or(known);
    let (run, task) = match subject {
        Subject::Task(task) => (Some(&task.run), Some(task)),
        Subject::Run(run) => (Some(run), None),
        Subject::Unknown => (None, None),
    };
    let excerpt = &message.body[..message.body.len().min(EXCERPT_BYTES)];
    let letter = DeadLetter {
        id: letter_id(message, subject),
        at_ms: ports.env.now_ms(),
        queue: dead.map(|dead| dead.queue.clone()),
        deliveries: dead.map_or(1, |dead| dead.deliveries),
        run: run.cloned(),
        key: task.map(|task| task.key),
        stage: task.map(|task| task.stage.clone()),
        attempts: message.attempts,
        reason: reason.unwrap_or("it cannot be read").into(),
        begins: String::from_utf8_lossy(excerpt).into_owned(),
    };
    if put_json(&ports.blobs, &blob_key(&letter.id), &letter).await? == PutOutcome::Created {
        metrics::dead_letter();
    }
    Ok(())
}

/// A refused message for the dead-letter queue. Nobody takes it for a task: it fails none, and a replay does not believe
/// the run that it names.
pub(crate) fn disarm(message: Message) -> Message {
    let excerpt = &message.body[..message.body.len().min(EXCERPT_BYTES)];
    let body = serde_json::json!({
        "refused": String::from_utf8_lossy(excerpt),
        "digest": blake3::hash(&message.body).to_hex().as_str(),
    });
    Message {
        body: body.to_string().into(),
        ..message
    }
}

// Each publication of a task is a message of its own, on one of two queues; they are one letter. What coordinators are told of
// a run has one queue, which only the broker names in full. Any other message on two queues is two letters.
fn letter_id(message: &Message, subject: Subject<'_>) -> String {
    let queue = message.dead.as_ref().map(|dead| dead.queue.as_str());
    let mut hasher = blake3::Hasher::new();
    match subject {
        Subject::Task(task) => return task_letter_id(&task.run.run, &task.key),
        Subject::Run(_) => hasher.update(&message.body),
        Subject::Unknown => hasher
            .update(queue.unwrap_or_default().as_bytes())
            .update(&message.body),
    };
    hasher.finalize().to_hex().as_str()[..16].into()
}

fn task_letter_id(run: &RunId, key: &TaskKey) -> String {
    let digest = blake3::hash(format!("{run} {key}").as_bytes());
    digest.to_hex().as_str()[..16].into()
}

/// The dead letters of a run, latest first: of its failed tasks, and of what coordinators were told of it. They are looked up
/// by their ids, because a store may hold any number of letters.
pub(crate) async fn for_run(blobs: &dyn Blobs, run: &RunRef) -> PortResult<Vec<DeadLetter>> {
    let prefix = failures_prefix(&run.run);
    let failed = blobs.list(&prefix, None, MAX_FAILED_TASKS).await?;
    let tasks = failed.iter().filter_map(|key| {
        let name = key.strip_prefix(&prefix)?.strip_suffix(".json")?;
        Some(task_letter_id(&run.run, &name.parse().ok()?))
    });
    let wake = encode(&CoordinatorMessage::Wake(run.clone()))?;
    let completed = encode(&CoordinatorMessage::Completed(run.clone()))?;
    let notifications = [wake, completed].map(|message| letter_id(&message, Subject::Run(run)));
    let keys = tasks.chain(notifications).map(|id| blob_key(&id)).collect();
    read_all(keys, |key| async move { read(blobs, &key).await }).await
}

/// The dead letters of a store, latest first. Of more than `most`, these are any: their ids are digests.
pub async fn list(blobs: &dyn Blobs, most: usize) -> PortResult<Vec<DeadLetter>> {
    list_with(blobs, most, |key| async move { read(blobs, &key).await }).await
}

/// As [`list`], with letters that `read` returns for their keys: a caller may know some of them.
pub async fn list_with<F>(
    blobs: &dyn Blobs,
    most: usize,
    read: impl Fn(String) -> F,
) -> PortResult<Vec<DeadLetter>>
where
    F: Future<Output = PortResult<Option<DeadLetter>>>,
{
    let keys = blobs.list(PREFIX, None, most).await?;
    read_all(keys, read).await
}

async fn read_all<F>(keys: Vec<String>, read: impl Fn(String) -> F) -> PortResult<Vec<DeadLetter>>
where
    F: Future<Output = PortResult<Option<DeadLetter>>>,
{
    let letters = stream::iter(keys).map(read).buffered(READS_AT_ONCE);
    let letters: Vec<_> = letters.try_collect().await?;
    let mut letters: Vec<DeadLetter> = letters.into_iter().flatten().collect();
    letters.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then(a.id.cmp(&b.id)));
    Ok(letters)
}

/// The letter of a key; `None` if it was removed, or cannot be understood.
pub async fn read(blobs: &dyn Blobs, key: &str) -> PortResult<Option<DeadLetter>> {
    let json = blobs.get(key).await?;
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}

/// The number of dead letters, counted up to `most`.
pub async fn count(blobs: &dyn Blobs, most: usize) -> PortResult<u64> {
    Ok(blobs.list(PREFIX, None, most).await?.len() as u64)
}

/// The keys of the letters written before `before_ms` that belong to the collection `c/{name}/` or to none, among them those
/// that cannot be understood. Reads all letters: for gc.
pub async fn older_than(
    blobs: &dyn Blobs,
    collection: &str,
    before_ms: Millis,
) -> PortResult<Vec<String>> {
    let keys = list_all(blobs, PREFIX).await?;
    let is_garbage = |letter: &DeadLetter| {
        let run = letter.run.as_ref();
        letter.at_ms < before_ms && run.is_none_or(|run| run.scope.starts_with(collection))
    };
    let reads = stream::iter(keys).map(|key| async move {
        let letter = read(blobs, &key).await?;
        let is_garbage = letter.as_ref().is_none_or(is_garbage);
        Ok::<_, PortError>(is_garbage.then_some(key))
    });
    let old: Vec<_> = reads.buffered(READS_AT_ONCE).try_collect().await?;
    Ok(old.into_iter().flatten().collect())
}

/// Replays a dead letter and removes it: deletes the failure recorded for its task, and makes the ledger forget the
/// run, which is then rebuilt from the blobs and requests the task again. A run that has ended is left alone.
///
/// # Errors
/// [`stemma_store::PortError`] when a port is unavailable; replay again.
pub async fn replay(ports: &Ports, letter: &DeadLetter) -> PortResult<ReplayOutcome> {
    let blobs = &ports.blobs;
    let over = match letter.run.as_ref().map(|at| run_failure_key(&at.run)) {
        Some(key) => blobs.size(&key).await?.is_some(),
        None => false,
    };
    let replayed = match (&letter.run, &letter.key) {
        (Some(at), _) if over => ReplayOutcome::RunEnded(at.clone()),
        (Some(at), Some(key)) => {
            let failure = failure_key(&at.run, key);
            blobs.delete(&failure).await?;
            ports.ledger.forget_run(&at.run).await?;
            // A coordinator wakes it. Who replays letters may have no key to sign a message with.
            let item = ScheduledItem::Run(at.clone());
            ports.ledger.schedule(&item, 0).await?;
            ReplayOutcome::Requested(at.clone())
        }
        _ => ReplayOutcome::Removed,
    };
    let key = blob_key(&letter.id);
    blobs.delete(&key).await?;
    Ok(replayed)
}

fn blob_key(id: &str) -> String {
    format!("{PREFIX}{id}.json")
}

/// Consumes the dead-letter queue: stores each message, and fails its task for good so that the flow can go on or fail.
pub struct DeadLetterHandler<W> {
    ports: Ports,
    work: PhantomData<fn() -> W>,
}

#[async_trait]
impl<W: Work> Handler for DeadLetterHandler<W> {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let recorded = self.record(message).await;
        match recorded {
            Ok(()) => Disposition::Ack,
            Err(error) => {
                tracing::warn!(origin = ?message.dead, %error, "cannot record dead letter; trying again");
                Disposition::Retry {
                    delay: RetryDelay::Short,
                    attempts: message.attempts,
                    retry_ms: None,
                }
            }
        }
    }
}

impl<W: Work> DeadLetterHandler<W> {
    pub fn new(ports: Ports) -> Self {
        let work = PhantomData;
        Self { ports, work }
    }

    async fn record(&self, message: &Message) -> PortResult<()> {
        let keys = &self.ports.message_keys;
        if let Ok(task) = serde_json::from_slice::<TaskMessage>(&message.body) {
            return match keys.admit_task::<W>(&task) {
                Ok(()) => self.record_task(&task, message).await,
                Err(refusal) => self.record_refused(message, refusal).await,
            };
        }
        let notification = serde_json::from_slice::<CoordinatorMessage>(&message.body).ok();
        let admitted = notification
            .as_ref()
            .map(|notification| keys.admit_notification::<W>(message, notification));
        if let Some(Err(refusal)) = admitted {
            return self.record_refused(message, refusal).await;
        }
        let run = notification.as_ref().and_then(CoordinatorMessage::run);
        let subject = run.map_or(Subject::Unknown, Subject::Run);
        store(&self.ports, message, None, subject).await
    }

    // Not with the reason that it states: that may be forged as well.
    async fn record_refused(&self, message: &Message, refusal: Refusal) -> PortResult<()> {
        let refused = Message {
            dead: None,
            ..message.clone()
        };
        let reason = refusal.to_string();
        record(&self.ports, &refused, Some(&reason)).await
    }

    async fn record_task(&self, task: &TaskMessage, message: &Message) -> PortResult<()> {
        let stored = artifact::readable_outcome(&self.ports.blobs, &task.run.scope, &task.key);
        if let Some(outcome) = stored.await? {
            return record_outcome(
                &self.ports,
                &task.run,
                &task.key,
                TaskOutcome::Done(outcome),
            )
            .await;
        }
        if message
            .dead
            .as_ref()
            .is_some_and(DeadReason::is_undeliverable)
            && self.may_go_on(task).await?
        {
            tracing::warn!(run = %task.run.run, stage = task.stage, "dropped a message that reached the delivery limit; its task goes on, has ended, or was lost with the ledger");
            return Ok(());
        }
        let poison = poison_failure(&task.stage);
        let subject = Subject::Task(task);
        store(&self.ports, message, Some(&poison.message), subject).await?;
        let record = FailureRecord::new(
            poison,
            &task.stage,
            message.attempts,
            self.ports.env.now_ms(),
        );
        record_failure(&self.ports, &task.run, &task.key, record).await
    }

    // Whether a worker holds the task or gave it back in order, or the ledger does not know it. A connection that breaks again
    // and again loses acknowledgements: the message reaches the delivery limit although its task is healthy, and another message
    // continues it. If that is lost as well, or the ledger is, the coordinator publishes the task again.
    async fn may_go_on(&self, task: &TaskMessage) -> PortResult<bool> {
        let now_ms = self.ports.env.now_ms();
        let open = self.ports.ledger.open_tasks(&task.run.run).await?;
        let task = open.iter().find(|open| open.key == task.key);
        Ok(task.is_none_or(|open| {
            let lease = open.lease.as_ref();
            open.retry.is_some() || lease.is_some_and(|(_, until_ms)| *until_ms > now_ms)
        }))
    }
}

fn poison_failure(stage: &str) -> Failure {
    Failure {
        kind: FailureKind::Poison,
        code: "engine.poison".into(),
        message: format!("no worker could handle {stage}, in several attempts"),
        next: Some("look for crashes in the workers' logs, then run the document again".into()),
    }
}

#[cfg(test)]
mod tests {
    use stemma_store::Env;
    use stemma_store::key::{Priority, RunId};

    use super::*;
    use crate::ledger::{DeliveryKind, Retry, TaskSpec};
    use crate::queue::Lane;

    struct AnyWork;

    impl Work for AnyWork {
        type Settings = ();
        type Tools = ();

        fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
            Some(RunRef {
                run: run.clone(),
                header: "c/x/header".into(),
                scope: scope.into(),
            })
        }
    }

    fn task(published_ms: Millis) -> TaskMessage {
        TaskMessage {
            run: RunRef {
                run: RunId("run".into()),
                header: "c/x/header".into(),
                scope: "c/x/d/1".into(),
            },
            key: TaskKey::builder("read", 1).finish(),
            stage: "read".into(),
            revision: 1,
            settings: "s".into(),
            priority: Priority::Bulk,
            published_ms,
            payload: serde_json::value::RawValue::from_string("{}".into()).unwrap(),
            signature: None,
        }
    }

    async fn request(ports: &Ports, task: &TaskMessage) {
        let spec = [TaskSpec {
            key: task.key,
            stage: task.stage.clone(),
            lane: Lane::Llm,
        }];
        let ledger = ports.ledger.raw();
        let requested = ledger.request_tasks(&task.run.run, &spec, 0, 60_000);
        requested.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn letters_say_queue_deliveries_and_reason_and_differ_by_queue() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let handler = DeadLetterHandler::<AnyWork>::new(ports.clone());
        for queue in ["flow.03", "cpu.bulk"] {
            let dead = DeadReason {
                queue: queue.into(),
                reason: "it is not a task: expected value".into(),
                deliveries: 2,
            };
            let message = Message {
                dead: Some(dead),
                ..Message::new("garbage")
            };
            handler.handle(&message, 0).await;
        }
        let letters = list(ports.blobs.raw().as_ref(), 10).await.unwrap();
        let mut queues: Vec<_> = letters
            .iter()
            .map(|letter| letter.queue.as_deref())
            .collect();
        queues.sort_unstable();
        assert_eq!(queues, [Some("cpu.bulk"), Some("flow.03")]);
        assert!(letters[0].reason.contains("expected value"), "{letters:?}");
        assert_eq!(letters[0].deliveries, 2);
    }

    // The coordinator publishes an overdue task again: another message, of another time and perhaps on another queue.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_comes_again_is_one_letter() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        request(&ports, &task(1)).await;
        let handler = DeadLetterHandler::<AnyWork>::new(ports.clone());
        for (published_ms, queue) in [(1, "cpu.bulk"), (60_001, "cpu.bulk.continuation")] {
            let task = task(published_ms);
            let message = Message {
                dead: Some(DeadReason::undeliverable(queue)),
                ..crate::message::encode(&task).unwrap()
            };
            assert_eq!(handler.handle(&message, 0).await, Disposition::Ack);
        }
        assert_eq!(count(ports.blobs.raw().as_ref(), 10).await.unwrap(), 1);
        let run = task(1).run;
        let wake = CoordinatorMessage::Wake(run.clone());
        let message = Message {
            dead: Some(DeadReason::undeliverable("stemma.flow.01")),
            ..encode(&wake).unwrap()
        };
        handler.handle(&message, 0).await;
        let found = for_run(ports.blobs.raw().as_ref(), &run).await.unwrap();
        assert_eq!(found.len(), 2, "the task and what a coordinator was told");
        let other = RunRef {
            run: RunId("other".into()),
            ..run
        };
        let found = for_run(ports.blobs.raw().as_ref(), &other).await.unwrap();
        assert!(found.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn old_and_unreadable_letters_are_found_for_removal() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let before_ms = env.now_ms() + 1_000;
        for _ in 0..2 {
            let body = format!("garbage at {}", env.now_ms());
            record(&ports, &Message::new(body), None).await.unwrap();
            env.sleep(std::time::Duration::from_secs(2)).await;
        }
        let torn = blob_key("torn");
        ports.blobs.put(&torn, "{".into()).await.unwrap();
        let of_others = task(1);
        let message = encode(&of_others).unwrap();
        let subject = Subject::Task(&of_others);
        let stored = store(&ports, &message, None, subject).await;
        stored.unwrap();
        let blobs = ports.blobs.raw().as_ref();
        let old = older_than(blobs, "c/y/", before_ms).await.unwrap();
        assert_eq!(old.len(), 2);
        assert!(old.contains(&torn));
        let now_ms = env.now_ms() + 1;
        assert_eq!(older_than(blobs, "c/y/", now_ms).await.unwrap().len(), 3);
        assert_eq!(older_than(blobs, "c/x/", now_ms).await.unwrap().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn undeliverable_message_of_a_healthy_task_fails_nothing() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let handler = DeadLetterHandler::<AnyWork>::new(ports.clone());
        let task = task(env.now_ms());
        let run = &task.run.run;
        let key = &task.key;
        let ledger = ports.ledger.raw();
        let now_ms = env.now_ms();
        let dead = |reason: DeadReason| Message {
            dead: Some(reason),
            ..crate::message::encode(&task).unwrap()
        };
        let undeliverable = dead(DeadReason::undeliverable("llm.bulk"));
        let letters = || count(ports.blobs.raw().as_ref(), 10);

        handler.handle(&undeliverable, 0).await;
        assert_eq!(letters().await.unwrap(), 0, "it was lost with the ledger");

        request(&ports, &task).await;
        let lease = ledger.lease(
            run,
            key,
            "worker",
            now_ms,
            now_ms + 30_000,
            DeliveryKind::Published,
        );
        lease.await.unwrap();
        handler.handle(&undeliverable, 0).await;
        assert_eq!(letters().await.unwrap(), 0, "a worker holds it");

        let retry = Retry {
            code: "budget.reserved".into(),
            next_ms: now_ms + 5_000,
            counted: false,
        };
        let release = ledger.release(run, key, "worker", Some(&retry));
        release.await.unwrap();
        handler.handle(&undeliverable, 0).await;
        assert_eq!(letters().await.unwrap(), 0, "a worker gave it back");

        let lease = ledger.lease(
            run,
            key,
            "worker",
            now_ms,
            now_ms + 1,
            DeliveryKind::Published,
        );
        lease.await.unwrap();
        env.sleep(std::time::Duration::from_secs(1)).await;
        handler.handle(&undeliverable, 0).await;
        assert_eq!(letters().await.unwrap(), 1, "its holder is gone");
    }
}
