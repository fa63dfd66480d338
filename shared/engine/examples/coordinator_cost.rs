//! What one large run costs its coordinator: a document of 5,000 pages with 12,000 tasks (rule 4: at most 10 CPU
//! seconds and 200 MB). Every task does nothing; the coordinator has a thread of its own, whose processor time counts.
//!
//! `cargo run --release -p stemma-engine --example coordinator_cost [milliseconds a task takes]`: 64 tasks run at once,
//! so 300 makes a run of a minute, in which completions trickle in. With STEMMA_TEST_REDIS set to a URL, the ledger is
//! there; the coordinator has a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_engine::consume::Consumer;
use stemma_engine::coordinate::{Coordinator, Event};
use stemma_engine::failure::Failure;
use stemma_engine::flow::{Claim, Finish, Flow, JobEntry, Manifest};
use stemma_engine::key::{Class, Identity, JobId, RunHeader, RunId, RunRef};
use stemma_engine::ledger::RedisLedger;
use stemma_engine::message::Ending;
use stemma_engine::perform::Performer;
use stemma_engine::presence::Presence;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::redis_client::{RedisClient, RedisSettings};
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::{Output, Registry, Stage, Task, Work};
use stemma_engine::{Env, PortError, Ports, jobs, settings};
use tokio_util::sync::CancellationToken;

const PAGES: u64 = 5_000;
const NODES: u64 = 7_000;
/// Nodes in one sub-flow: a section and what is below it.
const NODES_PER_SECTION: u64 = 70;

struct Cost;

impl Work for Cost {
    type Settings = String;
    /// How long a task takes.
    type Tools = Duration;
}

/// Looks at one page or node; its outcome is of the usual size.
#[derive(Serialize, Deserialize)]
struct Look {
    digest: String,
    number: u64,
}

#[derive(Serialize, Deserialize)]
struct Seen {
    title: String,
    found: bool,
    page: u64,
}

#[async_trait]
impl Stage for Look {
    type Work = Cost;
    type Outcome = Seen;
    const NAME: &'static str = "look";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &String, identity: &mut Identity) {
        identity
            .text(settings)
            .text(&self.digest)
            .number(self.number);
    }

    async fn run(&self, task: &Task<'_, Cost>) -> Result<Output<Seen>, Failure> {
        task.env.sleep(*task.tools).await;
        Ok(Seen {
            title: format!("Section {} of the document", self.number),
            found: true,
            page: self.number,
        }
        .into())
    }
}

/// The end of the run.
#[derive(Serialize, Deserialize)]
struct Publish(u64);

#[async_trait]
impl Stage for Publish {
    type Work = Cost;
    type Outcome = u64;
    const NAME: &'static str = "publish";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _: &String, identity: &mut Identity) {
        identity.number(self.0);
    }

    async fn run(&self, task: &Task<'_, Cost>) -> Result<Output<u64>, Failure> {
        task.ports
            .blobs
            .put(&format!("{}/tree", task.run.scope), "done".into())
            .await?;
        Ok(self.0.into())
    }
}

fn look(number: u64) -> Look {
    Look {
        digest: format!("{:032x}", u128::from(number) * 0x9e37_79b9_7f4a_7c15),
        number,
    }
}

#[async_trait]
impl Flow for Cost {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, _: &RunHeader) -> Result<Finish, Stop> {
        let pages = replay.sub(
            "pages",
            |_| {},
            |replay| {
                let pages = replay.all((0..PAGES).map(look))?;
                Ok(pages
                    .into_iter()
                    .flatten()
                    .map(|seen| seen.page)
                    .sum::<u64>())
            },
        )?;
        let sections: Vec<_> = (0..NODES / NODES_PER_SECTION)
            .map(|n| PAGES + n * NODES_PER_SECTION)
            .map(|first: u64| {
                let nodes = move |replay: &mut Replay<'_, Self>| {
                    let nodes = replay.all((first..first + NODES_PER_SECTION).map(look))?;
                    Ok(nodes
                        .into_iter()
                        .flatten()
                        .map(|seen| seen.page)
                        .sum::<u64>())
                };
                replay.sub(
                    "section",
                    |identity: &mut Identity| {
                        identity.number(first);
                    },
                    nodes,
                )
            })
            .collect();
        let sections = sections.into_iter().collect::<Result<Vec<_>, Stop>>()?;
        replay.one(&Publish(pages + sections.iter().sum::<u64>()))?;
        Ok(Finish { gaps: 0 })
    }

    async fn claim(
        _: &Env,
        ports: &Ports,
        job: &Manifest,
        entry: &JobEntry,
    ) -> Result<Claim, PortError> {
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
            .map_err(|error| PortError::lasting("blobs", "put", error.to_string()))?;
        ports.blobs.put(&header.at.header, json.into()).await?;
        Ok(Claim::Run(header))
    }

    async fn ending(_: &Env, ports: &Ports, run: &RunHeader) -> Result<Option<Ending>, PortError> {
        Ok(ports
            .blobs
            .size(&format!("{}/tree", run.at.scope))
            .await?
            .map(|_| Ending::Done))
    }
}

/// Processor seconds of this thread.
fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak resident megabytes of this process, from the kernel; 0 where it does not say.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// The ports with a connection of this thread to the ledger in Redis, if one is named.
fn connect(ports: Ports) -> Result<Ports, PortError> {
    let Ok(url) = std::env::var("STEMMA_TEST_REDIS") else {
        return Ok(ports);
    };
    let settings = RedisSettings {
        prefix: format!("cost-{}", std::process::id()),
        ..RedisSettings::new(url.into())
    };
    Ok(Ports {
        ledger: Arc::new(RedisLedger::new(RedisClient::open(&settings)?)),
        ..ports
    })
}

/// Runs the coordinator on a thread of its own; returns its processor seconds and the number of replays.
fn coordinate(ports: Ports, stop: CancellationToken) -> std::io::Result<(f64, u64)> {
    let replays = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&replays);
    let observer = move |event| {
        if matches!(event, Event::Replayed { .. }) {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let env = Env::system();
    let presence = Presence::new(&env, "coordinator", "coordinator");
    runtime.block_on(async {
        let ports = connect(ports).map_err(std::io::Error::other)?;
        Coordinator::<Cost>::new(env, ports, 10, Arc::new(observer), presence)
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
    let ports = Ports::memory();
    let stop = CancellationToken::new();
    let before_mb = peak_mb();
    let latency = std::env::args()
        .nth(1)
        .map_or(Ok(0), |millis| millis.parse())?;
    let latency = Duration::from_millis(latency);
    let theirs = ports.clone();
    let ends = stop.clone();
    let coordinator = std::thread::spawn(move || coordinate(theirs, ends));
    let ports = connect(ports)?;
    let registry = Registry::default().with::<Look>().with::<Publish>();
    let presence = Presence::new(&env, "worker", "worker");
    let tools = Arc::new(latency);
    let performer = Arc::new(Performer::new(
        env.clone(),
        ports.clone(),
        registry,
        tools,
        Arc::clone(&presence),
    ));
    for lane in [Lane::Llm, Lane::Publish] {
        let name = QueueName::Lane(lane, Class::Bulk);
        let queue = Arc::clone(&ports.queue);
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
        env.spawn(consumer.run(Arc::<Performer<Cost>>::clone(&performer), stop.clone()));
    }
    let begun = Instant::now();
    let manifest = Manifest {
        job: JobId("cost".into()),
        collection: "cost".into(),
        settings: settings::freeze::<Cost>(&env, ports.blobs.as_ref(), &"settings".into()).await?,
        class: Class::Bulk,
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
    while jobs::report(ports.blobs.as_ref(), &manifest.job)
        .await?
        .is_none()
    {
        env.sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed();
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
