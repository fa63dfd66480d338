//! Tasks that no coordinator with the key signed are neither executed nor believed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_engine::consumer::{Consumer, Disposition, Handler};
use stemma_engine::coordinator::Coordinator;
use stemma_engine::dead_letter::{self, DeadLetter, ReplayOutcome};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{MessageKeys, Ports, settings};
use stemma_store::blobs::Blobs;
use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder};
use stemma_store::{Env, PortResult, Secret, artifact};
use tokio_util::sync::CancellationToken;

const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";
const LANE: QueueName = QueueName::Lane(Lane::Cpu, Priority::Bulk);

/// Work with one stage.
struct OneStage;

impl Work for OneStage {
    type Settings = String;
    type Tools = AtomicU32;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/header"),
            scope: scope.into(),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Count {
    text: String,
}

#[async_trait]
impl Stage for Count {
    type Work = OneStage;
    type Outcome = usize;
    const NAME: &'static str = "count";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.text(&self.text);
    }

    async fn run(&self, task: &TaskContext<'_, OneStage>) -> StageResult<usize> {
        task.tools.fetch_add(1, Ordering::SeqCst);
        Ok(self.text.len().into())
    }
}

#[async_trait]
impl Flow for OneStage {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let text = run.input.as_str().unwrap_or_default().into();
        replay.outcome(&Count { text })?;
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let scope = "c/x/d/document".to_string();
        let header = RunHeader {
            at: RunRef {
                run: RunId("document-1".into()),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: 1,
            priority: job.priority,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        let json = serde_json::to_vec(&header).unwrap();
        ports.blobs.put(&header.at.header, json.into()).await?;
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let text = run.input.as_str().unwrap_or_default().into();
        let key = Count { text }.key(&String::new());
        let outcome = artifact::outcome(&ports.blobs, &run.at.scope, &key).await?;
        Ok(outcome.map(|_| RunOutcome::Done))
    }
}

/// Records messages instead of handling them.
#[derive(Default)]
struct Tap(parking_lot::Mutex<Vec<Message>>);

#[async_trait]
impl Handler for Tap {
    async fn handle(&self, message: &Message, _: u32) -> Disposition {
        self.0.lock().push(message.clone());
        Disposition::Ack
    }
}

fn keys(current: &str, previous: &str, accept_unsigned: bool) -> MessageKeys {
    MessageKeys::new(
        &Secret::from(current),
        &Secret::from(previous),
        accept_unsigned,
    )
    .unwrap()
}

/// Coordinator and worker over the same ports, each with its keys.
struct Fleet {
    env: Env,
    ports: Ports,
    executions: Arc<AtomicU32>,
}

impl Fleet {
    async fn start(coordinator: MessageKeys) -> Self {
        let env = Env::simulated(1);
        let ports = Ports {
            message_keys: coordinator,
            ..Ports::memory(&env)
        };
        let heartbeat = HeartbeatReporter::new(&env, "coordinator", "coordinator");
        let running = Coordinator::<OneStage>::new(ports.clone(), 10, Arc::new(|_| ()), heartbeat);
        env.spawn(running.run(CancellationToken::new()));
        let fleet = Self {
            env,
            ports,
            executions: Arc::default(),
        };
        let text = "s".to_string();
        let frozen = settings::freeze::<OneStage>(&fleet.ports.blobs, &text);
        let manifest = JobManifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: frozen.await.unwrap(),
            priority: Priority::Bulk,
            entries: 1,
            submitted_ms: 0,
            options: Default::default(),
        };
        let entry = JobEntry {
            weight: 1,
            input: "text".into(),
        };
        jobs::submit(&fleet.ports, &manifest, &[entry])
            .await
            .unwrap();
        fleet
    }

    fn consume(&self, handler: Arc<dyn Handler>, stop: CancellationToken) {
        let consumer = Consumer {
            env: self.env.clone(),
            queue: self.ports.queue.clone(),
            name: LANE,
            concurrency: 4,
            grace: Duration::from_secs(1),
            heartbeat: HeartbeatReporter::new(&self.env, "worker", "worker"),
        };
        self.env.spawn(consumer.run(handler, stop));
    }

    fn add_worker(&self, keys: MessageKeys) -> CancellationToken {
        let ports = Ports {
            message_keys: keys,
            ..self.ports.clone()
        };
        let executor = TaskExecutor::new(
            ports,
            StageRegistry::default().with_stage::<Count>(),
            Arc::clone(&self.executions),
            HeartbeatReporter::new(&self.env, "worker", "worker"),
        );
        let stop = CancellationToken::new();
        self.consume(Arc::new(executor), stop.clone());
        stop
    }

    /// The task that the coordinator published, taken from its queue.
    async fn take_task(&self) -> Value {
        let tap = Arc::new(Tap::default());
        let stop = CancellationToken::new();
        self.consume(Arc::clone(&tap) as Arc<dyn Handler>, stop.clone());
        let taken = loop {
            self.env.sleep(Duration::from_millis(10)).await;
            if let Some(message) = tap.0.lock().pop() {
                break message;
            }
        };
        stop.cancel();
        serde_json::from_slice(&taken.body).unwrap()
    }

    async fn publish(&self, queue: QueueName, task: &Value) {
        let message = Message::new(task.to_string());
        self.ports
            .queue
            .publish(queue, vec![message])
            .await
            .unwrap();
    }

    /// The report of the job after half a minute, before a task is published again; `None` if it has not ended.
    async fn report(&self) -> Option<JobReport> {
        self.env.sleep(Duration::from_secs(30)).await;
        jobs::report(&self.ports.blobs, &JobId("job".into()))
            .await
            .unwrap()
    }

    async fn assert_done(&self) {
        let counts = self.report().await.unwrap().counts;
        assert_eq!((counts.done, counts.failed), (1, 0));
    }

    async fn letters(&self) -> Vec<DeadLetter> {
        dead_letter::list(&self.ports.blobs, 100).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_with_one_key_works() {
    let fleet = Fleet::start(keys(NEW, "", false)).await;
    fleet.add_worker(keys(NEW, "", false));
    fleet.assert_done().await;
    assert_eq!(fleet.letters().await, []);
}

#[tokio::test(start_paused = true)]
async fn unsigned_and_forged_tasks_become_dead_letters() {
    let fleet = Fleet::start(keys(NEW, "", false)).await;
    let signed = fleet.take_task().await;
    fleet.add_worker(keys(NEW, "", false));
    let change = |field: &str, value: Value| {
        let mut task = signed.clone();
        task[field] = value;
        task
    };
    let mut run = signed["run"].clone();
    run["header"] = "jobs/forged/header.json".into();
    let forged = [
        change("signature", Value::Null),
        change("signature", "x".into()),
        change("signature", "00".repeat(32).into()),
        change("payload", serde_json::json!({ "text": "forged" })),
        change("run", run),
        change("key", "0".repeat(32).into()),
        change("stage", "other".into()),
        change("revision", 2.into()),
        change("settings", "other".into()),
        change("class", "interactive".into()),
        change("published_ms", 1.into()),
    ];
    for task in &forged {
        fleet.publish(LANE, task).await;
    }
    assert_eq!(fleet.report().await, None);
    assert_eq!(fleet.executions.load(Ordering::SeqCst), 0);
    let letters = fleet.letters().await;
    let reasons: Vec<_> = letters.iter().map(|letter| &letter.reason).collect();
    assert_eq!(letters.len(), forged.len(), "{reasons:?}");
    for letter in &letters {
        assert!(letter.reason.contains("sign"), "{letter:?}");
        assert!(letter.begins.starts_with('{'), "{letter:?}");
        let replayed = dead_letter::replay(&fleet.ports, letter).await.unwrap();
        assert_eq!(replayed, ReplayOutcome::Removed, "its run is not believed");
    }
    fleet.publish(LANE, &signed).await;
    fleet.assert_done().await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_dead_letter_fails_no_task() {
    let fleet = Fleet::start(keys(NEW, "", false)).await;
    let signed = fleet.take_task().await;
    let mut forged = signed.clone();
    forged["signature"] = Value::Null;
    fleet.publish(QueueName::Dead, &forged).await;
    assert_eq!(fleet.report().await, None);
    assert_eq!(fleet.letters().await.len(), 1);
    fleet.publish(LANE, &signed).await;
    fleet.add_worker(keys(NEW, "", false));
    fleet.assert_done().await;
}

// A worker that got its key too early costs time, not documents.
#[tokio::test(start_paused = true)]
async fn a_coordinator_without_the_key_fails_no_document() {
    let fleet = Fleet::start(MessageKeys::default()).await;
    let refusing = fleet.add_worker(keys(NEW, "", false));
    assert_eq!(fleet.report().await, None);
    assert_eq!(fleet.executions.load(Ordering::SeqCst), 0);
    assert!(!fleet.letters().await.is_empty());
    refusing.cancel();
    fleet.add_worker(MessageKeys::default());
    let mut report = None;
    for _ in 0..10 {
        report = report.or(fleet.report().await);
    }
    assert_eq!(report.unwrap().counts.done, 1);
}

#[tokio::test(start_paused = true)]
async fn unsigned_tasks_are_accepted_while_a_fleet_gets_its_first_key() {
    let fleet = Fleet::start(MessageKeys::default()).await;
    fleet.add_worker(keys(NEW, "", true));
    fleet.assert_done().await;
    // Workers without a key take signed tasks.
    let fleet = Fleet::start(keys(NEW, "", true)).await;
    fleet.add_worker(MessageKeys::default());
    fleet.assert_done().await;
}

#[tokio::test(start_paused = true)]
async fn both_keys_are_accepted_while_a_key_is_replaced() {
    for signing in [OLD, NEW] {
        let fleet = Fleet::start(keys(signing, "", false)).await;
        fleet.add_worker(keys(NEW, OLD, false));
        fleet.assert_done().await;
    }
    let fleet = Fleet::start(keys(OLD, "", false)).await;
    fleet.add_worker(keys(NEW, "", false));
    assert_eq!(fleet.report().await, None);
    assert_eq!(fleet.executions.load(Ordering::SeqCst), 0);
}

#[test]
fn short_and_lonely_keys_are_refused() {
    let new = |current: &str, previous: &str| {
        MessageKeys::new(&Secret::from(current), &Secret::from(previous), false)
    };
    assert!(new("short", "").is_err());
    assert!(new(NEW, "short").is_err());
    assert!(new("", OLD).is_err());
    assert!(new("", "").is_ok());
}
