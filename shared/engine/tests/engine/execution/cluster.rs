//! A coordinator and workers over memory ports, for a flow of two stages: `make` writes an artifact, `read` reads it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageOutput, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Ports, settings};
use stemma_engine_testing::fault::{FaultInjector, FaultPlan};
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::env::Millis;
use stemma_store::key::{
    JobId, Priority, RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder, artifact_key,
    run_failure_key,
};
use stemma_store::{Env, Failure, PortResult, artifact};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The work of a program of the flow revision `R`.
pub struct ChainWork<const R: u32 = 1>;

/// What each of the two stages of a small document computes.
pub const SMALL_WORK: Duration = Duration::from_millis(50);

/// The cores of a machine.
pub const CORES: usize = 2;

/// How often each stage ran, by its name and document, and when the cores were used.
pub struct Runs {
    counts: Mutex<BTreeMap<(&'static str, String), u32>>,
    cores: Semaphore,
    /// When a core was first used, and last.
    used: Mutex<Option<(Millis, Millis)>>,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            cores: Semaphore::new(CORES),
            used: Mutex::default(),
        }
    }
}

impl Runs {
    fn count(&self, stage: &'static str, document: &str) {
        let mut counts = self.counts.lock().unwrap();
        *counts.entry((stage, document.into())).or_default() += 1;
    }

    pub fn of(&self, stage: &'static str, document: &str) -> u32 {
        let counts = self.counts.lock().unwrap();
        counts.get(&(stage, document.into())).copied().unwrap_or(0)
    }

    /// Uses a core for so long.
    async fn compute(&self, env: &Env, duration: Duration) {
        let _core = self.cores.acquire().await.unwrap();
        let began_ms = env.now_ms();
        env.sleep(duration).await;
        let mut used = self.used.lock().unwrap();
        let first_ms = used.map_or(began_ms, |(first_ms, _)| first_ms.min(began_ms));
        *used = Some((first_ms, env.now_ms()));
    }

    /// The time from the first use of a core to the last.
    pub fn span(&self) -> Duration {
        let used = self.used.lock().unwrap();
        used.map_or(Duration::ZERO, |(first_ms, last_ms)| {
            Duration::from_millis(last_ms - first_ms)
        })
    }
}

impl<const R: u32> Work for ChainWork<R> {
    type Settings = String;
    type Tools = Runs;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/header"),
            scope: scope.into(),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub struct Make<const R: u32 = 1> {
    pub document: String,
}

#[async_trait]
impl<const R: u32> Stage for Make<R> {
    type Work = ChainWork<R>;
    type Outcome = u32;
    const NAME: &'static str = "make";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.text(&self.document);
    }

    async fn run(&self, task: &TaskContext<'_, ChainWork<R>>) -> StageResult<u32> {
        task.tools.count(Self::NAME, &self.document);
        if self.document.starts_with("small") {
            task.tools.compute(&task.ports.env, SMALL_WORK).await;
            return Ok(StageOutput::new(
                1,
                vec![("text", Bytes::from_static(b"small"))],
            ));
        }
        let seconds = match self.document.split_once('-') {
            Some(("crasher", _)) => 3_600,
            Some(("slow", _)) => 20,
            _ => 2,
        };
        task.ports.env.sleep(Duration::from_secs(seconds)).await;
        if self.document.starts_with("unreadable") {
            return Err(Failure::permanent("probe.unreadable", "it cannot be read"));
        }
        let text = Bytes::copy_from_slice(self.document.as_bytes());
        Ok(StageOutput::new(1, vec![("text", text)]))
    }
}

#[derive(Serialize, Deserialize)]
struct Read<const R: u32> {
    document: String,
    source: TaskKey,
}

#[async_trait]
impl<const R: u32> Stage for Read<R> {
    type Work = ChainWork<R>;
    type Outcome = u32;
    const NAME: &'static str = "read";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.text(&self.document);
    }

    async fn run(&self, task: &TaskContext<'_, ChainWork<R>>) -> StageResult<u32> {
        task.tools.count(Self::NAME, &self.document);
        if self.document.starts_with("small") {
            task.blob(&self.source, "text").await?;
            task.tools.compute(&task.ports.env, SMALL_WORK).await;
            return Ok(1.into());
        }
        task.ports.env.sleep(Duration::from_secs(1)).await;
        let text = task.blob(&self.source, "text").await?;
        Ok(u32::try_from(text.len()).unwrap().into())
    }
}

/// Asks a model: a reply costs money.
#[derive(Serialize, Deserialize)]
struct Ask<const R: u32> {
    document: String,
}

#[async_trait]
impl<const R: u32> Stage for Ask<R> {
    type Work = ChainWork<R>;
    type Outcome = u32;
    const NAME: &'static str = "ask";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, _: &String, identity: &mut TaskKeyBuilder) {
        identity.text(&self.document);
    }

    async fn run(&self, task: &TaskContext<'_, ChainWork<R>>) -> StageResult<u32> {
        task.tools.count(Self::NAME, &self.document);
        let is_long = self.document.starts_with("asks-long");
        let seconds = if is_long { 120 } else { 2 };
        task.ports.env.sleep(Duration::from_secs(seconds)).await;
        let record = (format!("calls/{}", self.document), Bytes::from_static(b"1"));
        let reply = Bytes::from_static(b"a reply");
        Ok(StageOutput::new(1, vec![("reply", reply)]).with_records(vec![record]))
    }
}

#[async_trait]
impl<const R: u32> Flow for ChainWork<R> {
    const REVISION: u32 = R;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let document = run.input.as_str().unwrap_or_default().to_string();
        if document.starts_with("asks") {
            replay.outcome(&Ask::<R> { document })?;
            return Ok(FlowOutput { gaps: 0 });
        }
        let make = Make::<R> {
            document: document.clone(),
        };
        let source = make.key(replay.settings());
        replay.outcome(&make)?;
        replay.outcome(&Read::<R> { document, source })?;
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let document = entry.input.as_str().unwrap_or_default().to_string();
        let scope = scope(&document);
        let header = RunHeader {
            at: RunRef {
                run: RunId(document),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: R,
            priority: job.priority,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        let json = serde_json::to_vec(&header).unwrap();
        ports.blobs.put(&header.at.header, json.into()).await?;
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let json = ports.blobs.get(&run_failure_key(&run.at.run)).await?;
        if let Some(record) = json.and_then(|json| serde_json::from_slice(&json).ok()) {
            return Ok(Some(RunOutcome::from_record(record)));
        }
        let none = String::new();
        let document = run.input.as_str().unwrap_or_default().to_string();
        let last = if document.starts_with("asks") {
            Ask::<R> { document }.key(&none)
        } else {
            let make = Make::<R> {
                document: document.clone(),
            };
            let source = make.key(&none);
            Read::<R> { document, source }.key(&none)
        };
        let outcome = artifact::outcome(&ports.blobs, &run.at.scope, &last).await?;
        Ok(outcome.map(|_| RunOutcome::Done))
    }
}

fn scope(document: &str) -> String {
    format!("c/x/d/{document}")
}

pub struct Cluster {
    pub env: Env,
    pub ports: Ports,
    /// The store below the fault injection.
    pub store: Arc<MemoryBlobs>,
    pub runs: Arc<Runs>,
    pub faults: FaultInjector,
}

impl Cluster {
    pub fn new(plan: FaultPlan) -> Self {
        let env = Env::simulated(1);
        let store = Arc::new(MemoryBlobs::default());
        let faults = FaultInjector::new(env.clone(), plan);
        let ports = faults.wrap(&Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store)));
        Self {
            env,
            ports,
            store,
            runs: Arc::default(),
            faults,
        }
    }

    pub fn coordinator(&self) -> JoinHandle<()> {
        self.coordinator_of_revision::<1>(CancellationToken::new())
    }

    pub fn coordinator_of_revision<const R: u32>(&self, stop: CancellationToken) -> JoinHandle<()> {
        let heartbeat = HeartbeatReporter::new(&self.env, "coordinator", "coordinator");
        let coordinator =
            Coordinator::<ChainWork<R>>::new(self.ports.clone(), 100, Arc::new(|_| ()), heartbeat);
        self.env.spawn(coordinator.run(stop))
    }

    /// A worker on the lanes cpu and llm.
    pub fn worker(&self, name: &str) -> JoinHandle<()> {
        self.worker_until(name, &CancellationToken::new())
    }

    pub fn worker_until(&self, name: &str, stop: &CancellationToken) -> JoinHandle<()> {
        self.worker_with_tasks(name, 4, stop)
    }

    pub fn worker_with_tasks(
        &self,
        name: &str,
        tasks: u16,
        stop: &CancellationToken,
    ) -> JoinHandle<()> {
        let heartbeat = HeartbeatReporter::new(&self.env, name, "worker");
        let executor = self.executor(&heartbeat);
        let consumers = [Lane::Cpu, Lane::Llm].map(|lane| {
            let consumer = Consumer {
                env: self.env.clone(),
                queue: self.ports.queue.clone(),
                name: QueueName::Lane(lane, Priority::Bulk),
                concurrency: tasks,
                grace: Duration::from_secs(1),
                heartbeat: Arc::clone(&heartbeat),
            };
            consumer.run(
                Arc::<TaskExecutor<ChainWork>>::clone(&executor),
                stop.clone(),
            )
        });
        let [cpu, llm] = consumers;
        self.env.spawn(async move {
            tokio::join!(cpu, llm);
        })
    }

    pub fn executor(&self, heartbeat: &Arc<HeartbeatReporter>) -> Arc<TaskExecutor<ChainWork<1>>> {
        let registry = StageRegistry::default()
            .with_stage::<Make<1>>()
            .with_stage::<Read<1>>()
            .with_stage::<Ask<1>>();
        Arc::new(TaskExecutor::new(
            self.ports.clone(),
            registry,
            Arc::clone(&self.runs),
            Arc::clone(heartbeat),
        ))
    }

    pub async fn submit(&self, documents: &[&str]) -> JobId {
        let frozen = String::from("s");
        let digest = settings::freeze::<ChainWork<1>>(&self.ports.blobs, &frozen);
        let manifest = JobManifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: digest.await.unwrap(),
            priority: Priority::Bulk,
            entries: documents.len() as u64,
            submitted_ms: 0,
            options: Default::default(),
        };
        let entries: Vec<_> = documents
            .iter()
            .map(|document| JobEntry {
                weight: 1,
                input: (*document).into(),
            })
            .collect();
        jobs::submit(&self.ports, &manifest, &entries)
            .await
            .unwrap();
        manifest.job
    }

    pub async fn report(&self, job: &JobId, within: Duration) -> JobReport {
        let wait = async {
            loop {
                if let Ok(Some(report)) = jobs::report(self.store.as_ref(), job).await {
                    return report;
                }
                self.env.sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(within, wait)
            .await
            .expect("the job ends in time")
    }

    pub fn is_claimed(&self, document: &str) -> bool {
        self.store.has(&format!("{}/header", scope(document)))
    }

    pub async fn reported(&self, job: &JobId) -> bool {
        let report = jobs::report(self.store.as_ref(), job).await;
        report.unwrap().is_some()
    }

    /// Waits until `make` has stored its artifact for `document`; its key.
    pub async fn made(&self, document: &str) -> String {
        let make = Make::<1> {
            document: document.into(),
        };
        let key = artifact_key(&scope(document), &make.key(&"s".into()));
        while !self.store.has(&key) {
            self.env.sleep(Duration::from_millis(10)).await;
        }
        key
    }

    /// Replaces an object, as bit rot would.
    pub async fn overwrite(&self, key: &str, bytes: Bytes) {
        self.store.delete(key).await.unwrap();
        self.store.put(key, bytes).await.unwrap();
    }
}
