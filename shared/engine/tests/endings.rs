//! Runs that might wait forever must end, visibly, and with no more work than necessary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_engine::blobs::{Blobs, MemoryBlobs};
use stemma_engine::consumer::{Consumer, Disposition, Handler};
use stemma_engine::coordinator::Coordinator;
use stemma_engine::dead_letter::{self, ReplayOutcome};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::failure::{Failure, FailureRecord};
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, JobReport, PauseReason};
use stemma_engine::key::{
    JobId, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder, run_failure_key,
};
use stemma_engine::ledger::MemoryLedger;
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, Queue, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Env, PortResult, Ports, Retrying, settings};
use stemma_engine_testing::fault::{FaultInjector, FaultPlan, FaultRates, PortFault};
use tokio_util::sync::CancellationToken;

/// Work with one stage per document, which behaves as its name says.
struct ProbeWork;

impl Work for ProbeWork {
    type Settings = String;
    type Tools = ProbeTools;
}

#[derive(Default)]
struct ProbeTools {
    runs: AtomicU32,
    // Start of the first execution of each task; later ones are duplicates.
    runs_by_task: Mutex<BTreeMap<String, u32>>,
    recovered: AtomicBool,
}

#[derive(Serialize, Deserialize)]
struct Behave {
    how: String,
    ballast: String,
}

#[async_trait]
impl Stage for Behave {
    type Work = ProbeWork;
    type Outcome = u32;
    const NAME: &'static str = "behave";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.text(&self.how);
    }

    async fn run(&self, task: &TaskContext<'_, ProbeWork>) -> StageResult<u32> {
        task.tools.runs.fetch_add(1, Ordering::SeqCst);
        *task
            .tools
            .runs_by_task
            .lock()
            .unwrap()
            .entry(self.how.clone())
            .or_default() += 1;
        match self.how.as_str() {
            "panics" => panic!("bad page 3"),
            "never ends" => std::future::pending().await,
            "fails at length" => Err(Failure::permanent("probe.long", "\"\u{7}".repeat(9_000))),
            "kills until repaired" if !task.tools.recovered.load(Ordering::SeqCst) => {
                std::future::pending().await
            }
            "lasts until repaired" => {
                while !task.tools.recovered.load(Ordering::SeqCst) {
                    task.env.sleep(Duration::from_secs(1)).await;
                }
                Ok(1.into())
            }
            how if how.starts_with("slow") => {
                task.env.sleep(Duration::from_secs(10)).await;
                Ok(1.into())
            }
            _ => Ok(1.into()),
        }
    }
}

#[async_trait]
impl Flow for ProbeWork {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let how = run.input.as_str().unwrap_or_default().to_string();
        assert!(how != "flow panics", "the flow panics");
        let behave = |how: &str| Behave {
            how: how.into(),
            ballast: String::new(),
        };
        match how.as_str() {
            "too large" => replay.outcome(&Behave {
                how,
                ballast: "x".repeat(5_000),
            })?,
            "does without" => {
                let gaps = replay
                    .results([behave("kills until repaired")])?
                    .iter()
                    .filter(|result| result.is_err())
                    .count();
                replay.outcome(&behave("lasts until repaired"))?;
                return Ok(FlowOutput { gaps: gaps as u32 });
            }
            how => replay.outcome(&behave(how))?,
        };
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let name = entry.input.as_str().unwrap_or_default().replace(' ', "-");
        let scope = format!("c/x/d/{name}");
        let header = RunHeader {
            at: RunRef {
                run: RunId(name),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: 1,
            class: job.class,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        ports
            .blobs
            .put(
                &header.at.header,
                serde_json::to_vec(&header).unwrap().into(),
            )
            .await?;
        if header.at.run.0.starts_with("unchanged") {
            return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged));
        }
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let json = ports.blobs.get(&run_failure_key(&run.at.run)).await?;
        Ok(json
            .and_then(|json| serde_json::from_slice(&json).ok())
            .map(RunOutcome::from_record))
    }
}

struct ProbeCluster {
    env: Env,
    ports: Ports,
    counter: Arc<ProbeTools>,
}

impl ProbeCluster {
    fn new(plan: FaultPlan) -> (Self, FaultInjector) {
        let env = Env::simulated(1);
        let faults = FaultInjector::new(env.clone(), plan);
        let ports = faults.wrap(&Ports::embedded(&env, Arc::new(MemoryBlobs::default())));
        (
            Self {
                env,
                ports,
                counter: Arc::default(),
            },
            faults,
        )
    }

    fn coordinator(&self) -> tokio::task::JoinHandle<()> {
        self.coordinator_with_slots(1_000)
    }

    fn coordinator_with_slots(&self, open_documents: usize) -> tokio::task::JoinHandle<()> {
        let env = self.env.clone();
        let presence = HeartbeatReporter::new(&self.env, "coordinator", "coordinator");
        let coordinator = Coordinator::<ProbeWork>::new(
            env,
            self.ports.clone(),
            open_documents,
            Arc::new(|_| ()),
            presence,
        );
        self.env.spawn(coordinator.run(CancellationToken::new()))
    }

    fn executor(&self, presence: &Arc<HeartbeatReporter>) -> Arc<TaskExecutor<ProbeWork>> {
        let registry = StageRegistry::default().with_stage::<Behave>();
        let tools = Arc::clone(&self.counter);
        Arc::new(TaskExecutor::new(
            self.env.clone(),
            self.ports.clone(),
            registry,
            tools,
            Arc::clone(presence),
        ))
    }

    fn worker(&self, name: &str, concurrency: u16) -> tokio::task::JoinHandle<()> {
        self.worker_until(name, concurrency, CancellationToken::new())
    }

    fn worker_until(
        &self,
        name: &str,
        concurrency: u16,
        stop: CancellationToken,
    ) -> tokio::task::JoinHandle<()> {
        let presence = HeartbeatReporter::new(&self.env, name, "worker");
        let performer = self.executor(&presence);
        let consumer = Consumer {
            env: self.env.clone(),
            queue: self.ports.queue.clone(),
            name: QueueName::Lane(Lane::Cpu, Priority::Bulk),
            concurrency,
            grace: Duration::from_secs(1),
            presence,
        };
        self.env.spawn(consumer.run(performer, stop))
    }

    async fn submit(&self, documents: &[String]) -> JobId {
        self.submit_as("job", Priority::Bulk, documents).await
    }

    async fn submit_as(&self, job: &str, class: Priority, documents: &[String]) -> JobId {
        let manifest = JobManifest {
            job: JobId(job.into()),
            collection: "x".into(),
            settings: settings::freeze::<ProbeWork>(&self.ports.blobs, &"s".into())
                .await
                .unwrap(),
            class,
            entries: documents.len() as u64,
            submitted_ms: 0,
            terms: Default::default(),
        };
        let entries: Vec<_> = documents
            .iter()
            .map(|document: &String| JobEntry {
                weight: 1,
                input: document.clone().into(),
            })
            .collect();
        jobs::submit(&self.env, &self.ports, &manifest, &entries)
            .await
            .unwrap();
        manifest.job
    }

    async fn is_claimed(&self, document: &str) -> bool {
        let header = format!("c/x/d/{document}/header");
        self.ports.blobs.get(&header).await.unwrap().is_some()
    }

    async fn report(&self, job: &JobId, within: Duration) -> JobReport {
        let wait = async {
            loop {
                if let Ok(Some(report)) = jobs::report(&self.ports.blobs, job).await {
                    return report;
                }
                self.env.sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(within, wait)
            .await
            .expect("the job ends in time")
    }
}

/// The failure of a job with one document of this behavior, and how often its stage ran.
async fn failure_of(how: &str) -> (FailureRecord, u32) {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster.submit(&[how.into()]).await;
    let report = cluster.report(&job, Duration::from_secs(3 * 3600)).await;
    assert_eq!(report.counts.failed, 1);
    (
        report.failures[0].1.clone(),
        cluster.counter.runs.load(Ordering::SeqCst),
    )
}

#[tokio::test(start_paused = true)]
async fn oversized_task_message_fails_the_task() {
    let (failure, runs) = failure_of("too large").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.message", 0));
}

#[tokio::test(start_paused = true)]
async fn oversized_failure_is_clipped() {
    let (failure, runs) = failure_of("fails at length").await;
    assert_eq!((failure.code.as_str(), runs), ("probe.long", 1));
    assert!(failure.message.len() <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn panicking_flow_fails_the_run() {
    assert_eq!(failure_of("flow panics").await.0.code, "engine.flow_panic");
}

#[tokio::test(start_paused = true)]
async fn panicking_stage_fails_after_five_attempts() {
    let (failure, runs) = failure_of("panics").await;
    assert_eq!(
        (failure.code.as_str(), failure.attempts, runs),
        ("engine.panic", 5, 5)
    );
}

#[tokio::test(start_paused = true)]
async fn stage_past_deadline_fails_after_five_attempts() {
    let (failure, runs) = failure_of("never ends").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.deadline", 5));
}

#[tokio::test(start_paused = true)]
async fn ledger_loss_does_not_duplicate_running_task() {
    let (mut cluster, _) = ProbeCluster::new(FaultPlan::default());
    let ledger = Arc::new(MemoryLedger::default());
    cluster.ports.ledger = Retrying::new(&cluster.env, ledger.clone());
    let coordinator = cluster.coordinator();
    cluster.submit(&["slow".into()]).await;
    let lane = QueueName::Lane(Lane::Cpu, Priority::Bulk);
    let message = cluster
        .ports
        .queue
        .subscribe(lane, 1)
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .message;
    coordinator.abort(); // so that nobody requests the task again
    let performer =
        |name: &str| cluster.executor(&HeartbeatReporter::new(&cluster.env, name, "worker"));
    let first = performer("first");
    let second = performer("second");
    let cut_off = async {
        cluster.env.sleep(Duration::from_secs(1)).await;
        ledger.flush();
        second.handle(&message, 1).await
    };
    let (done, next) = tokio::join!(first.handle(&message, 0), cut_off);
    assert_eq!(done, Disposition::Ack);
    assert!(
        matches!(next, Disposition::Retry { attempts: 0, .. }),
        "{next:?}"
    );
    assert_eq!(cluster.counter.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn task_that_crashes_workers_is_poison() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let job = cluster.submit(&["never ends".into()]).await;
    for life in 0..200 {
        let before = cluster.counter.runs.load(Ordering::SeqCst);
        let worker = cluster.worker(&format!("worker-{life}"), 4);
        cluster.env.sleep(Duration::from_secs(30)).await;
        if cluster.counter.runs.load(Ordering::SeqCst) > before {
            worker.abort(); // like an out-of-memory kill, right after it took the task
        } else {
            cluster.env.sleep(Duration::from_secs(60)).await;
            worker.abort();
        }
        if jobs::report(&cluster.ports.blobs, &job)
            .await
            .unwrap()
            .is_some()
        {
            break;
        }
    }
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.failures[0].1.code, "engine.poison");
    let runs = cluster.counter.runs.load(Ordering::SeqCst);
    assert!((5..=10).contains(&runs), "{runs} workers crashed on it");
}

// A run that continues without a poison task requests it again when its dead letter is replayed.
#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_is_requested_again() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let blobs = cluster.ports.blobs.clone();
    let _coordinator = cluster.coordinator();
    let run_count = |how: &str| {
        cluster
            .counter
            .runs_by_task
            .lock()
            .unwrap()
            .get(how)
            .copied()
    };
    let job = cluster.submit(&["does without".into()]).await;
    for life in 0.. {
        assert!(life < 200, "it never became a dead letter");
        let worker = cluster.worker(&format!("worker-{life}"), 4);
        cluster.env.sleep(Duration::from_secs(90)).await;
        worker.abort();
        if dead_letter::count(&blobs).await.unwrap() > 0 {
            break;
        }
    }
    let before = run_count("kills until repaired");
    let _worker = cluster.worker("worker", 4);
    while run_count("lasts until repaired").is_none() {
        cluster.env.sleep(Duration::from_secs(1)).await;
    }
    let letter = dead_letter::list(&blobs, 10).await.unwrap().remove(0);
    cluster.counter.recovered.store(true, Ordering::SeqCst);
    let replayed = dead_letter::replay(&cluster.ports, &letter).await.unwrap();
    assert_eq!(
        (replayed, letter.stage.as_deref()),
        (
            ReplayOutcome::Requested(letter.run.clone().unwrap()),
            Some("behave")
        )
    );
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (report.counts.done, report.counts.done_with_gaps),
        (1, 0),
        "{report:?}"
    );
    assert_eq!(
        run_count("kills until repaired"),
        before.map(|runs| runs + 1)
    );
    assert_eq!(dead_letter::count(&blobs).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_port_call_does_not_rerun_the_stage() {
    for call in 1..160 {
        let (cluster, _) = ProbeCluster::new(FaultPlan::nth(call, PortFault::FailBefore));
        let _coordinator = cluster.coordinator();
        let _worker = cluster.worker("worker", 4);
        let job = cluster.submit(&["slow-1".into(), "slow-2".into()]).await;
        cluster.report(&job, Duration::from_secs(600)).await;
        assert_eq!(
            cluster.counter.runs.load(Ordering::SeqCst),
            2,
            "call {call}"
        );
    }
}

// An interrupted task is resumed by another worker at once: its lease was released without counting an attempt.
#[tokio::test(start_paused = true)]
async fn drained_task_is_resumed_immediately() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let stop = CancellationToken::new();
    let leaving = cluster.worker_until("leaving", 4, stop.clone());
    let job = cluster.submit(&["slow-1".into()]).await;
    while cluster.counter.runs.load(Ordering::SeqCst) == 0 {
        cluster.env.sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    let _other = cluster.worker("other", 4);
    let stopped_ms = cluster.env.now_ms();
    tokio::time::timeout(Duration::from_secs(2), leaving)
        .await
        .expect("stops when the grace period is over")
        .unwrap();
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    let took_ms = cluster.env.now_ms() - stopped_ms;
    assert_eq!(
        (
            report.counts.done,
            cluster.counter.runs.load(Ordering::SeqCst)
        ),
        (1, 2)
    );
    assert!(
        took_ms <= 13_000,
        "a second of grace, ten of work: {took_ms} ms"
    );
}

// A document listed twice is one run, and both entries end with it.
#[tokio::test(start_paused = true)]
async fn document_listed_twice_is_one_run_and_two_entries() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster
        .submit(&["slow-1".into(), "slow-1".into(), "slow-2".into()])
        .await;
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (
            report.counts.done,
            cluster.counter.runs.load(Ordering::SeqCst)
        ),
        (3, 2)
    );
}

// A backlog of ten times the republish interval causes at most one duplicate per hundred tasks.
#[tokio::test(start_paused = true)]
async fn backlog_is_not_republished() {
    let (cluster, faults) = ProbeCluster::new(FaultPlan::default());
    let published = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&published);
    faults.set_listener(Box::new(move |_, operation, about, _| {
        if operation == "queue.publish" && about.starts_with("cpu") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let documents: Vec<String> = (0..300).map(|n| format!("slow-{n}")).collect();
    let job = cluster.submit(&documents).await;
    let report = cluster.report(&job, Duration::from_secs(3_600)).await;
    assert_eq!(report.counts.done, 300);
    assert!(
        cluster
            .counter
            .runs_by_task
            .lock()
            .unwrap()
            .values()
            .all(|runs| *runs == 1)
    );
    let published = published.load(Ordering::SeqCst);
    assert!(
        published <= 303,
        "{published} publications of 300 tasks over {} s",
        report.ended_ms / 1_000 % 86_400
    );
}

// A store that lost an object must not make wake-ups pile up.
#[tokio::test(start_paused = true)]
async fn unreadable_job_does_not_accumulate_messages() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let broken = Bytes::from_static(b"{ torn");
    cluster
        .ports
        .blobs
        .put("jobs/broken/manifest.json", broken)
        .await
        .unwrap();
    let _coordinator = cluster.coordinator();
    cluster.env.sleep(Duration::from_secs(2 * 3600)).await;
    let depth = cluster
        .ports
        .queue
        .depth(QueueName::flow_for("broken"))
        .await
        .unwrap();
    assert!(
        depth.ready + depth.unacked + depth.delayed <= 8,
        "{depth:?}"
    );
}

fn slow_documents(job: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("slow {job} {n}")).collect()
}

/// D1 of the engine review: the open runs of a paused job held every slot.
#[tokio::test(start_paused = true)]
async fn paused_jobs_take_no_slots() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator_with_slots(2);
    let waiting = cluster
        .submit_as("a", Priority::Bulk, &slow_documents("a", 3))
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    jobs::pause(&cluster.env, &cluster.ports, &waiting, PauseReason::Person)
        .await
        .unwrap();
    cluster.env.sleep(Duration::from_secs(3)).await;
    // No worker runs yet, so the runs of the paused job stay open.
    let other = cluster
        .submit_as("b", Priority::Bulk, &["other".into()])
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    assert!(cluster.is_claimed("other").await);
    let _worker = cluster.worker("worker", 4);
    let report = cluster.report(&other, Duration::from_secs(30)).await;
    assert_eq!(report.counts.done, 1);
    jobs::resume(&cluster.env, &cluster.ports, &waiting)
        .await
        .unwrap();
    let report = cluster.report(&waiting, Duration::from_secs(120)).await;
    assert_eq!(report.counts.done, 3);
}

/// D11 of the engine review: a person waited behind all bulk documents that were open.
#[tokio::test(start_paused = true)]
async fn bulk_jobs_leave_slots_to_interactive_ones() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator_with_slots(8);
    cluster
        .submit_as("bulk", Priority::Bulk, &slow_documents("bulk", 20))
        .await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    cluster
        .submit_as("person", Priority::Interactive, &["person".into()])
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    // No worker runs, so no slot of the bulk job was freed.
    assert!(cluster.is_claimed("person").await);
}

/// D12 of the engine review: one unreadable object of a job stopped admission for all jobs.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_of_a_job_stops_no_other_job() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let control = "jobs/a/control/0000000000001-0-paused.json";
    cluster.ports.blobs.put(control, "{}".into()).await.unwrap();
    cluster
        .submit_as("a", Priority::Bulk, &["unreadable".into()])
        .await;
    cluster
        .ports
        .blobs
        .put("jobs/c/report.json", "{".into())
        .await
        .unwrap();
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let other = cluster
        .submit_as("b", Priority::Bulk, &["other".into()])
        .await;
    let report = cluster.report(&other, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
}

// Every call of a port takes 25 ms on average.
fn distant_ports() -> FaultPlan {
    let rates = FaultRates {
        delay: 1_000,
        max_delay: Duration::from_millis(50),
        ..FaultRates::default()
    };
    FaultPlan::random(1, rates)
}

/// D27 of the engine review: the only lock was held until all unchanged documents of a job had been passed over.
#[tokio::test(start_paused = true)]
async fn a_person_does_not_wait_for_unchanged_documents() {
    let (cluster, _) = ProbeCluster::new(distant_ports());
    let _coordinator = cluster.coordinator();
    let unchanged: Vec<_> = (0..10_000).map(|n| format!("unchanged {n}")).collect();
    let nightly = cluster
        .submit_as("nightly", Priority::Bulk, &unchanged)
        .await;
    cluster.env.sleep(Duration::from_secs(1)).await;
    cluster
        .submit_as("person", Priority::Interactive, &["person".into()])
        .await;
    let began_ms = cluster.env.now_ms();
    while !cluster.is_claimed("person").await {
        cluster.env.sleep(Duration::from_millis(50)).await;
    }
    let waited_ms = cluster.env.now_ms() - began_ms;
    assert!(waited_ms <= 2_000, "{waited_ms} ms");
    let report = cluster.report(&nightly, Duration::from_secs(600)).await;
    assert_eq!(report.counts.unchanged, 10_000);
}

/// D2 and D3 of the engine review: each admitted document cost a listing per job, one after the other.
#[tokio::test(start_paused = true)]
async fn hundreds_of_small_jobs_end_in_seconds() {
    let (cluster, _) = ProbeCluster::new(distant_ports());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 256);
    let submissions = (0..500).map(|n| {
        let cluster = &cluster;
        async move {
            let document = [format!("document {n}")];
            cluster
                .submit_as(&format!("job-{n}"), Priority::Bulk, &document)
                .await
        }
    });
    let submitted = futures::future::join_all(submissions).await;
    let began_ms = cluster.env.now_ms();
    let reports = submitted
        .iter()
        .map(|job| cluster.report(job, Duration::from_secs(600)));
    futures::future::join_all(reports).await;
    let seconds = (cluster.env.now_ms() - began_ms) / 1_000;
    assert!(seconds <= 20, "{seconds} s");
}
