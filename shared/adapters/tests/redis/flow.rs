//! A whole job over the Redis ledger: its result depends on the blobs, whatever Redis loses (I-1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_adapters::redis::RedisLedger;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::ledger::{Ledger, ScheduledItem};
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Ports, settings};
use stemma_store::blobs::Blobs;
use stemma_store::failure::Failure;
use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder};
use stemma_store::{Env, PortResult, Retrying};
use tokio_util::sync::CancellationToken;

use crate::server::PrivateRedis;

const DOCUMENTS: u64 = 6;
const PAGES: u64 = 20;
const CONCURRENCY: u16 = 4;

/// Adds up the pages of a document.
struct PageSumWork;

impl Work for PageSumWork {
    type Settings = String;
    // Pages read so far.
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
struct AddPage {
    document: u64,
    number: u64,
}

#[async_trait]
impl Stage for AddPage {
    type Work = PageSumWork;
    type Outcome = u64;
    const NAME: &'static str = "page";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.number(self.document).number(self.number);
    }

    async fn run(&self, task: &TaskContext<'_, PageSumWork>) -> StageResult<u64> {
        task.ports.env.sleep(Duration::from_millis(50)).await;
        task.tools.fetch_add(1, Ordering::SeqCst);
        Ok((self.document * 1_000 + self.number).into())
    }
}

#[derive(Serialize, Deserialize)]
struct AddTotal(u64);

#[async_trait]
impl Stage for AddTotal {
    type Work = PageSumWork;
    type Outcome = u64;
    const NAME: &'static str = "total";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.number(self.0);
    }

    async fn run(&self, task: &TaskContext<'_, PageSumWork>) -> StageResult<u64> {
        let stored = task
            .ports
            .blobs
            .put(
                &format!("{}/total", task.run.scope),
                self.0.to_string().into(),
            )
            .await;
        stored.map(|_| self.0.into()).map_err(Failure::from)
    }
}

#[async_trait]
impl Flow for PageSumWork {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let document = run.input.as_u64().unwrap_or_default();
        let pages = replay.results((0..PAGES).map(|number| AddPage { document, number }))?;
        replay.outcome(&AddTotal(pages.into_iter().flatten().sum()))?;
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let scope = format!("c/x/d/{}", entry.input);
        let header = RunHeader {
            at: RunRef {
                run: RunId(format!("run-{}", entry.input)),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: 1,
            priority: job.priority,
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
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let total = ports.blobs.size(&format!("{}/total", run.at.scope)).await?;
        Ok(total.map(|_| RunOutcome::Done))
    }
}

struct RedisCluster {
    env: Env,
    ports: Ports,
    pages: Arc<AtomicU32>,
    stop: CancellationToken,
}

impl RedisCluster {
    fn start(server: &PrivateRedis) -> Self {
        let ledger = Arc::new(RedisLedger::new(server.client("")));
        let env = Env::system();
        let ports = Ports {
            ledger: Retrying::new(&env, ledger),
            ..Ports::memory(&env)
        };
        let cluster = Self {
            env,
            ports,
            pages: Arc::default(),
            stop: CancellationToken::new(),
        };
        let heartbeat = HeartbeatReporter::new(&cluster.env, "coordinator", "coordinator");
        let coordinator = Coordinator::<PageSumWork>::new(
            cluster.ports.clone(),
            100,
            Arc::new(|_| ()),
            heartbeat,
        );
        cluster.env.spawn(coordinator.run(cluster.stop.clone()));
        let registry = StageRegistry::default()
            .with_stage::<AddPage>()
            .with_stage::<AddTotal>();
        let tools = Arc::clone(&cluster.pages);
        let heartbeat = HeartbeatReporter::new(&cluster.env, "worker", "worker");
        let performer = TaskExecutor::new(
            cluster.ports.clone(),
            registry,
            tools,
            Arc::clone(&heartbeat),
        );
        let consumer = Consumer {
            env: cluster.env.clone(),
            queue: cluster.ports.queue.clone(),
            name: QueueName::Lane(Lane::Cpu, Priority::Bulk),
            concurrency: CONCURRENCY,
            grace: Duration::from_secs(1),
            heartbeat,
        };
        cluster
            .env
            .spawn(consumer.run(Arc::new(performer), cluster.stop.clone()));
        cluster
    }

    async fn submit(&self) -> JobId {
        let manifest = JobManifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: settings::freeze::<PageSumWork>(&self.ports.blobs, &"s".into())
                .await
                .unwrap(),
            priority: Priority::Bulk,
            entries: DOCUMENTS,
            submitted_ms: 0,
            options: stemma_engine::flow::JobOptions::default(),
        };
        let entries: Vec<_> = (0..DOCUMENTS)
            .map(|n| JobEntry {
                weight: 1,
                input: n.into(),
            })
            .collect();
        jobs::submit(&self.ports, &manifest, &entries)
            .await
            .unwrap();
        manifest.job
    }

    async fn pages(&self, at_least: u32) {
        let started = Instant::now();
        while self.pages.load(Ordering::SeqCst) < at_least {
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "the job makes no progress"
            );
            self.env.sleep(Duration::from_millis(10)).await;
        }
    }

    async fn report(&self, job: &JobId) -> JobReport {
        let started = Instant::now();
        loop {
            if let Some(report) = jobs::report(&self.ports.blobs, job).await.unwrap() {
                self.stop.cancel();
                return report;
            }
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "the job does not end"
            );
            self.env.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn read_totals(&self) -> Vec<u64> {
        let mut totals = Vec::new();
        for n in 0..DOCUMENTS {
            let total = self
                .ports
                .blobs
                .get(&format!("c/x/d/{n}/total"))
                .await
                .unwrap()
                .unwrap();
            totals.push(std::str::from_utf8(&total).unwrap().parse().unwrap());
        }
        totals
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn job_result_survives_redis_flush_and_restart() {
    let Some(mut server) = PrivateRedis::start(&[]) else {
        return;
    };
    let cluster = RedisCluster::start(&server);
    let job = cluster.submit().await;
    cluster.pages(30).await;
    server.run("", &["FLUSHALL"]).await;
    cluster.pages(70).await;
    server.restart();
    cluster.pages(100).await;
    // The scan for lost jobs would do this within two minutes.
    cluster
        .ports
        .ledger
        .schedule(&ScheduledItem::Job(job.clone()), 0)
        .await
        .unwrap();
    let report = cluster.report(&job).await;
    assert_eq!((report.counts.done, report.counts.failed), (DOCUMENTS, 0));
    let expected: Vec<u64> = (0..DOCUMENTS)
        .map(|n| PAGES * n * 1_000 + PAGES * (PAGES - 1) / 2)
        .collect();
    assert_eq!(cluster.read_totals().await, expected);
    // What was under way while Redis lost its data, twice, may be done again.
    let pages = u64::from(cluster.pages.load(Ordering::SeqCst));
    let all = DOCUMENTS * PAGES;
    assert!(
        (all..=all + 2 * CONCURRENCY as u64).contains(&pages),
        "{pages}"
    );
}
