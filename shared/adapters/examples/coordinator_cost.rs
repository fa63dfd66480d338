//! Measures what one large run costs its coordinator: a document of 5,000 pages with 12,000 tasks (budget: at most 10
//! CPU seconds and 200 MB). Tasks do nothing; the coordinator has a thread of its own, whose CPU time counts.
//!
//! `cargo run --release -p stemma-adapters --example coordinator_cost [milliseconds per task]`. 64 tasks run
//! concurrently, so 300 ms make a run of a minute. With STEMMA_TEST_REDIS set, the ledger is in Redis, and the
//! coordinator has a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_adapters::redis::{RedisClient, RedisLedger, RedisSettings};
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::{Coordinator, CoordinatorEvent};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Ports, jobs, settings};
use stemma_store::blobs::Blobs;
use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder};
use stemma_store::{Env, PortError, PortResult, Retrying};
use tokio_util::sync::CancellationToken;

const PAGES: u64 = 5_000;
const NODES: u64 = 7_000;
// Nodes in one sub-flow: a section and its subsections.
const NODES_PER_SECTION: u64 = 70;

struct CostWork;

impl Work for CostWork {
    type Settings = String;
    // Duration of a task.
    type Tools = Duration;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/header"),
            scope: scope.into(),
        })
    }
}

/// Checks one page or node, with an outcome of typical size.
#[derive(Serialize, Deserialize)]
struct CheckPage {
    digest: String,
    number: u64,
}

#[derive(Serialize, Deserialize)]
struct PageCheck {
    title: String,
    #[serde(rename = "found")]
    is_present: bool,
    page: u64,
}

#[async_trait]
impl Stage for CheckPage {
    type Work = CostWork;
    type Outcome = PageCheck;
    const NAME: &'static str = "look";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &String, identity: &mut TaskKeyBuilder) {
        identity
            .text(settings)
            .text(&self.digest)
            .number(self.number);
    }

    async fn run(&self, task: &TaskContext<'_, CostWork>) -> StageResult<PageCheck> {
        task.env.sleep(*task.tools).await;
        Ok(PageCheck {
            title: format!("Section {} of the document", self.number),
            is_present: true,
            page: self.number,
        }
        .into())
    }
}

#[derive(Serialize, Deserialize)]
struct PublishTotal(u64);

#[async_trait]
impl Stage for PublishTotal {
    type Work = CostWork;
    type Outcome = u64;
    const NAME: &'static str = "publish";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.number(self.0);
    }

    async fn run(&self, task: &TaskContext<'_, CostWork>) -> StageResult<u64> {
        task.ports
            .blobs
            .put(&format!("{}/tree", task.run.scope), "done".into())
            .await?;
        Ok(self.0.into())
    }
}

fn check_page(number: u64) -> CheckPage {
    CheckPage {
        digest: format!("{:032x}", u128::from(number) * 0x9e37_79b9_7f4a_7c15),
        number,
    }
}

#[async_trait]
impl Flow for CostWork {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, _: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let pages = replay.sub_flow(
            "pages",
            |_| {},
            |replay| {
                let pages = replay.results((0..PAGES).map(check_page))?;
                Ok(pages
                    .into_iter()
                    .flatten()
                    .map(|page_check| page_check.page)
                    .sum::<u64>())
            },
        )?;
        let sections: Vec<_> = (0..NODES / NODES_PER_SECTION)
            .map(|n| PAGES + n * NODES_PER_SECTION)
            .map(|first: u64| {
                let nodes = move |replay: &mut Replay<'_, Self>| {
                    let nodes =
                        replay.results((first..first + NODES_PER_SECTION).map(check_page))?;
                    Ok(nodes
                        .into_iter()
                        .flatten()
                        .map(|page_check| page_check.page)
                        .sum::<u64>())
                };
                replay.sub_flow(
                    "section",
                    |identity: &mut TaskKeyBuilder| {
                        identity.number(first);
                    },
                    nodes,
                )
            })
            .collect();
        let sections = sections.into_iter().collect::<Result<Vec<_>, FlowStop>>()?;
        replay.outcome(&PublishTotal(pages + sections.iter().sum::<u64>()))?;
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let scope = "c/cost/d/1".to_string();
        let header = RunHeader {
            at: RunRef {
                run: RunId("cost".into()),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: Self::REVISION,
            class: job.class,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        let json = serde_json::to_vec(&header)
            .map_err(|error| PortError::permanent("blobs.put", error.to_string()))?;
        ports.blobs.put(&header.at.header, json.into()).await?;
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        Ok(ports
            .blobs
            .size(&format!("{}/tree", run.at.scope))
            .await?
            .map(|_| RunOutcome::Done))
    }
}

/// CPU seconds of this thread.
fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak resident memory of this process in MB; 0 if the kernel does not report it.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// The ports, with a separate connection to Redis if one is configured.
fn connect(env: &Env, ports: Ports) -> PortResult<Ports> {
    let Ok(url) = std::env::var("STEMMA_TEST_REDIS") else {
        return Ok(ports);
    };
    let settings = RedisSettings {
        prefix: format!("cost-{}", std::process::id()),
        ..RedisSettings::new(url.into())
    };
    Ok(Ports {
        ledger: Retrying::new(
            env,
            Arc::new(RedisLedger::new(RedisClient::open(&settings)?)),
        ),
        ..ports
    })
}

/// Runs the coordinator on its own thread; returns its CPU seconds and the number of replays.
fn coordinate(ports: Ports, stop: CancellationToken) -> std::io::Result<(f64, u64)> {
    let replays = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&replays);
    let observer = move |event| {
        if matches!(event, CoordinatorEvent::Replayed { .. }) {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let env = Env::system();
    let presence = HeartbeatReporter::new(&env, "coordinator", "coordinator");
    runtime.block_on(async {
        let ports = connect(&env, ports).map_err(std::io::Error::other)?;
        Coordinator::<CostWork>::new(env, ports, 10, Arc::new(observer), presence)
            .run(stop)
            .await;
        Ok::<_, std::io::Error>(())
    })?;
    Ok((
        thread_seconds(),
        replays.load(std::sync::atomic::Ordering::Relaxed),
    ))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = Env::system();
    let ports = Ports::memory(&env);
    let stop = CancellationToken::new();
    let before_mb = peak_mb();
    let latency = std::env::args()
        .nth(1)
        .map_or(Ok(0), |millis| millis.parse())?;
    let latency = Duration::from_millis(latency);
    let theirs = ports.clone();
    let ends = stop.clone();
    let coordinator = std::thread::spawn(move || coordinate(theirs, ends));
    let ports = connect(&env, ports)?;
    let registry = StageRegistry::default()
        .with_stage::<CheckPage>()
        .with_stage::<PublishTotal>();
    let presence = HeartbeatReporter::new(&env, "worker", "worker");
    let tools = Arc::new(latency);
    let performer = Arc::new(TaskExecutor::new(
        env.clone(),
        ports.clone(),
        registry,
        tools,
        Arc::clone(&presence),
    ));
    for lane in [Lane::Llm, Lane::Publish] {
        let name = QueueName::Lane(lane, Priority::Bulk);
        let queue = ports.queue.clone();
        let world = env.clone();
        let presence = Arc::clone(&presence);
        let grace = Duration::from_secs(1);
        let consumer = Consumer {
            env: world,
            queue,
            name,
            concurrency: 64,
            grace,
            presence,
        };
        env.spawn(consumer.run(
            Arc::<TaskExecutor<CostWork>>::clone(&performer),
            stop.clone(),
        ));
    }
    let started = Instant::now();
    let manifest = JobManifest {
        job: JobId("cost".into()),
        collection: "cost".into(),
        settings: settings::freeze::<CostWork>(&ports.blobs, &"settings".into()).await?,
        class: Priority::Bulk,
        entries: 1,
        submitted_ms: env.now_ms(),
        terms: Default::default(),
    };
    jobs::submit(
        &env,
        &ports,
        &manifest,
        &[JobEntry {
            weight: 1,
            input: serde_json::Value::Null,
        }],
    )
    .await?;
    while jobs::report(&ports.blobs, &manifest.job).await?.is_none() {
        env.sleep(Duration::from_millis(50)).await;
    }
    let took = started.elapsed();
    stop.cancel();
    let (seconds, replays) = coordinator
        .join()
        .map_err(|_| "the coordinator panicked")??;
    println!("tasks            {}", PAGES + NODES + 1);
    println!("replays          {replays}");
    println!("coordinator      {seconds:.2} CPU s");
    println!("wall             {:.1} s", took.as_secs_f64());
    println!(
        "peak memory      {:.0} MB ({before_mb:.0} MB before; store, queue and workers included)",
        peak_mb()
    );
    Ok(())
}
