//! Runs that could wait for ever, and must not: each ends, visibly, and with no more work than was called for.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and what they stand on"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_engine::blobs::MemoryBlobs;
use stemma_engine::consume::{Consumer, Disposition, Handler};
use stemma_engine::coordinate::{Coordinator, run_failure_key};
use stemma_engine::dead_letter::{self, Replayed};
use stemma_engine::failure::{Failure, FailureRecord};
use stemma_engine::flow::{Claim, Finish, Flow, JobEntry, Manifest};
use stemma_engine::jobs::{self, Report};
use stemma_engine::key::{Class, Identity, JobId, RunHeader, RunId, RunRef};
use stemma_engine::ledger::MemoryLedger;
use stemma_engine::message::Ending;
use stemma_engine::perform::Performer;
use stemma_engine::presence::Presence;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::{Output, Registry, Stage, Task, Work};
use stemma_engine::{Env, PortError, Ports, settings};
use stemma_engine_testing::fault::{Fault, Faults, Plan};
use tokio_util::sync::CancellationToken;

/// A work of one stage per document, which behaves as its name says.
struct Probe;

impl Work for Probe {
    type Settings = String;
    type Tools = Counter;
}

#[derive(Default)]
struct Counter {
    runs: AtomicU32,
    /// Of the first run of each task, when it began: the rest are duplicates.
    seen: Mutex<BTreeMap<String, u32>>,
    mended: AtomicBool,
}

#[derive(Serialize, Deserialize)]
struct Behave {
    how: String,
    ballast: String,
}

#[async_trait]
impl Stage for Behave {
    type Work = Probe;
    type Outcome = u32;
    const NAME: &'static str = "behave";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut Identity) {
        identity.text(&self.how);
    }

    async fn run(&self, task: &Task<'_, Probe>) -> Result<Output<u32>, Failure> {
        task.tools.runs.fetch_add(1, Ordering::SeqCst);
        *task
            .tools
            .seen
            .lock()
            .unwrap()
            .entry(self.how.clone())
            .or_default() += 1;
        match self.how.as_str() {
            "panics" => panic!("a worm in page 3"),
            "never ends" => std::future::pending().await,
            "fails at length" => Err(Failure::permanent("probe.long", "\"\u{7}".repeat(9_000))),
            "kills until mended" if !task.tools.mended.load(Ordering::SeqCst) => {
                std::future::pending().await
            }
            "lasts until mended" => {
                while !task.tools.mended.load(Ordering::SeqCst) {
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
impl Flow for Probe {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<Finish, Stop> {
        let how = run.input.as_str().unwrap_or_default().to_string();
        assert!(how != "flow panics", "a worm in the flow");
        let behave = |how: &str| Behave {
            how: how.into(),
            ballast: String::new(),
        };
        match how.as_str() {
            "too large" => replay.one(&Behave {
                how,
                ballast: "x".repeat(5_000),
            })?,
            "does without" => {
                let gaps = replay
                    .all([behave("kills until mended")])?
                    .iter()
                    .filter(|told| told.is_err())
                    .count();
                replay.one(&behave("lasts until mended"))?;
                return Ok(Finish { gaps: gaps as u32 });
            }
            how => replay.one(&behave(how))?,
        };
        Ok(Finish { gaps: 0 })
    }

    async fn claim(
        _: &Env,
        ports: &Ports,
        job: &Manifest,
        entry: &JobEntry,
    ) -> Result<Claim, PortError> {
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
        Ok(Claim::Run(header))
    }

    async fn ending(_: &Env, ports: &Ports, run: &RunHeader) -> Result<Option<Ending>, PortError> {
        let json = ports.blobs.get(&run_failure_key(&run.at.run)).await?;
        Ok(json
            .and_then(|json| serde_json::from_slice(&json).ok())
            .map(Ending::of_record))
    }
}

struct House {
    env: Env,
    ports: Ports,
    counter: Arc<Counter>,
}

impl House {
    fn new(plan: Plan) -> (Self, Faults) {
        let env = Env::simulated(1);
        let faults = Faults::new(env.clone(), plan);
        let ports = faults.wrap(&Ports::embedded(Arc::new(MemoryBlobs::default())));
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
        let env = self.env.clone();
        let presence = Presence::new(&self.env, "coordinator", "coordinator");
        let coordinator =
            Coordinator::<Probe>::new(env, self.ports.clone(), 1_000, Arc::new(|_| ()), presence);
        self.env.spawn(coordinator.run(CancellationToken::new()))
    }

    fn performer(&self, presence: &Arc<Presence>) -> Arc<Performer<Probe>> {
        let registry = Registry::default().with::<Behave>();
        let tools = Arc::clone(&self.counter);
        Arc::new(Performer::new(
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
        let presence = Presence::new(&self.env, name, "worker");
        let performer = self.performer(&presence);
        let consumer = Consumer {
            env: self.env.clone(),
            queue: Arc::clone(&self.ports.queue),
            name: QueueName::Lane(Lane::Cpu, Class::Bulk),
            concurrency,
            grace: Duration::from_secs(1),
            presence,
        };
        self.env.spawn(consumer.run(performer, stop))
    }

    async fn submit(&self, documents: &[String]) -> JobId {
        let manifest = Manifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: settings::freeze::<Probe>(&self.env, self.ports.blobs.as_ref(), &"s".into())
                .await
                .unwrap(),
            class: Class::Bulk,
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

    async fn report(&self, job: &JobId, within: Duration) -> Report {
        let wait = async {
            loop {
                if let Ok(Some(report)) = jobs::report(self.ports.blobs.as_ref(), job).await {
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

/// The failure of a job of one document that behaves like this, and how often its stage ran.
async fn failure_of(how: &str) -> (FailureRecord, u32) {
    let (house, _) = House::new(Plan::default());
    let _coordinator = house.coordinator();
    let _worker = house.worker("worker", 4);
    let job = house.submit(&[how.into()]).await;
    let report = house.report(&job, Duration::from_secs(3 * 3600)).await;
    assert_eq!(report.counts.failed, 1);
    (
        report.failures[0].1.clone(),
        house.counter.runs.load(Ordering::SeqCst),
    )
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fits_in_no_message_fails() {
    let (failure, runs) = failure_of("too large").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.message", 0));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_fits_in_no_message_is_cut() {
    let (failure, runs) = failure_of("fails at length").await;
    assert_eq!((failure.code.as_str(), runs), ("probe.long", 1));
    assert!(failure.message.len() <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_panics_fails() {
    assert_eq!(failure_of("flow panics").await.0.code, "engine.flow_panic");
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_panics_fails_after_five_attempts() {
    let (failure, runs) = failure_of("panics").await;
    assert_eq!(
        (failure.code.as_str(), failure.attempts, runs),
        ("engine.panic", 5, 5)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stage_past_its_deadline_fails_after_five_attempts() {
    let (failure, runs) = failure_of("never ends").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.deadline", 5));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_work_when_the_ledger_forgets_is_not_done_by_the_next_who_gets_its_message() {
    let (mut house, _) = House::new(Plan::default());
    let ledger = Arc::new(MemoryLedger::default());
    house.ports.ledger = ledger.clone();
    let coordinator = house.coordinator();
    house.submit(&["slow".into()]).await;
    let lane = QueueName::Lane(Lane::Cpu, Class::Bulk);
    let message = house
        .ports
        .queue
        .subscribe(lane, 1)
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .message;
    coordinator.abort(); // no one wants the task anew
    let performer = |name: &str| house.performer(&Presence::new(&house.env, name, "worker"));
    let first = performer("first");
    let second = performer("second");
    let cut_off = async {
        house.env.sleep(Duration::from_secs(1)).await;
        ledger.flush();
        second.handle(&message, 1).await
    };
    let (done, next) = tokio::join!(first.handle(&message, 0), cut_off);
    assert_eq!(done, Disposition::Ack);
    assert!(
        matches!(next, Disposition::Later { attempts: 0, .. }),
        "{next:?}"
    );
    assert_eq!(house.counter.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_its_workers_down_is_poison() {
    let (house, _) = House::new(Plan::default());
    let _coordinator = house.coordinator();
    let job = house.submit(&["never ends".into()]).await;
    for life in 0..200 {
        let before = house.counter.runs.load(Ordering::SeqCst);
        let worker = house.worker(&format!("worker-{life}"), 4);
        house.env.sleep(Duration::from_secs(30)).await;
        if house.counter.runs.load(Ordering::SeqCst) > before {
            worker.abort(); // out of memory, as soon as it took the task up
        } else {
            house.env.sleep(Duration::from_secs(60)).await;
            worker.abort();
        }
        if jobs::report(house.ports.blobs.as_ref(), &job)
            .await
            .unwrap()
            .is_some()
        {
            break;
        }
    }
    let report = house.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.failures[0].1.code, "engine.poison");
    let runs = house.counter.runs.load(Ordering::SeqCst);
    assert!((5..=10).contains(&runs), "{runs} workers went down with it");
}

/// A run that does without a poisonous task takes it up again when its dead letter is replayed.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_replayed_is_asked_for_again() {
    let (house, _) = House::new(Plan::default());
    let blobs = Arc::clone(&house.ports.blobs);
    let _coordinator = house.coordinator();
    let seen = |how: &str| house.counter.seen.lock().unwrap().get(how).copied();
    let job = house.submit(&["does without".into()]).await;
    for life in 0.. {
        assert!(life < 200, "it is no dead letter");
        let worker = house.worker(&format!("worker-{life}"), 4);
        house.env.sleep(Duration::from_secs(90)).await;
        worker.abort();
        if dead_letter::count(blobs.as_ref()).await.unwrap() > 0 {
            break;
        }
    }
    let before = seen("kills until mended");
    let _worker = house.worker("worker", 4);
    while seen("lasts until mended").is_none() {
        house.env.sleep(Duration::from_secs(1)).await;
    }
    let letter = dead_letter::list(blobs.as_ref(), 10)
        .await
        .unwrap()
        .remove(0);
    house.counter.mended.store(true, Ordering::SeqCst);
    let replayed = dead_letter::replay(&house.env, &house.ports, &letter)
        .await
        .unwrap();
    assert_eq!(
        (replayed, letter.stage.as_deref()),
        (Replayed::Again(letter.run.clone().unwrap()), Some("behave"))
    );
    let report = house.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (report.counts.done, report.counts.done_with_gaps),
        (1, 0),
        "{report:?}"
    );
    assert_eq!(seen("kills until mended"), before.map(|runs| runs + 1));
    assert_eq!(dead_letter::count(blobs.as_ref()).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_hiccups_costs_no_second_run() {
    for call in 1..160 {
        let (house, _) = House::new(Plan::nth(call, Fault::FailBefore));
        let _coordinator = house.coordinator();
        let _worker = house.worker("worker", 4);
        let job = house.submit(&["slow-1".into(), "slow-2".into()]).await;
        house.report(&job, Duration::from_secs(600)).await;
        assert_eq!(house.counter.runs.load(Ordering::SeqCst), 2, "call {call}");
    }
}

/// A task that the grace period cut off is taken up by another worker at once: its lease was given up, uncounted.
#[tokio::test(start_paused = true)]
async fn a_task_cut_off_by_a_drain_is_taken_up_at_once() {
    let (house, _) = House::new(Plan::default());
    let _coordinator = house.coordinator();
    let stop = CancellationToken::new();
    let leaving = house.worker_until("leaving", 4, stop.clone());
    let job = house.submit(&["slow-1".into()]).await;
    while house.counter.runs.load(Ordering::SeqCst) == 0 {
        house.env.sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    let _other = house.worker("other", 4);
    let left = house.env.now_ms();
    tokio::time::timeout(Duration::from_secs(2), leaving)
        .await
        .expect("leaves when its grace is over")
        .unwrap();
    let report = house.report(&job, Duration::from_secs(60)).await;
    let took_ms = house.env.now_ms() - left;
    assert_eq!(
        (
            report.counts.done,
            house.counter.runs.load(Ordering::SeqCst)
        ),
        (1, 2)
    );
    assert!(
        took_ms <= 13_000,
        "a second of grace, ten of work: {took_ms} ms"
    );
}

/// A document listed twice is one run, and both its entries end with it.
#[tokio::test(start_paused = true)]
async fn a_document_listed_twice_ends_twice() {
    let (house, _) = House::new(Plan::default());
    let _coordinator = house.coordinator();
    let _worker = house.worker("worker", 4);
    let job = house
        .submit(&["slow-1".into(), "slow-1".into(), "slow-2".into()])
        .await;
    let report = house.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (
            report.counts.done,
            house.counter.runs.load(Ordering::SeqCst)
        ),
        (3, 2)
    );
}

/// Rule 9: a backlog ten times the interval adds at most one duplicate in a hundred.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_not_published_again() {
    let (house, faults) = House::new(Plan::default());
    let published = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&published);
    faults.listen(Box::new(move |_, operation, about, _| {
        if operation == "queue.publish" && about.starts_with("cpu") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let _coordinator = house.coordinator();
    let _worker = house.worker("worker", 4);
    let documents: Vec<String> = (0..300).map(|n| format!("slow-{n}")).collect();
    let job = house.submit(&documents).await;
    let report = house.report(&job, Duration::from_secs(3_600)).await;
    assert_eq!(report.counts.done, 300);
    assert!(
        house
            .counter
            .seen
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

/// A store that lost an object must not make wake-ups pile up.
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_does_not_pile_up_messages() {
    let (house, _) = House::new(Plan::default());
    let broken = Bytes::from_static(b"{ torn");
    house
        .ports
        .blobs
        .put("jobs/broken/manifest.json", broken)
        .await
        .unwrap();
    let _coordinator = house.coordinator();
    house.env.sleep(Duration::from_secs(2 * 3600)).await;
    let depth = house
        .ports
        .queue
        .depth(QueueName::flow("broken"))
        .await
        .unwrap();
    assert!(
        depth.ready + depth.unacked + depth.delayed <= 8,
        "{depth:?}"
    );
}
