//! A coordinator and workers in one process and in virtual time, over ports whose calls can be made to fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest, JobOptions};
use stemma_engine::heartbeat::{HeartbeatExtras, HeartbeatReporter, send_heartbeats};
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Ports, settings};
use stemma_engine_testing::fault::{FaultInjector, FaultPlan};
use stemma_store::blobs::{Blobs, MemoryBlobs, get_json};
use stemma_store::failure::Failure;
use stemma_store::key::{
    JobId, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder, failure_key, run_failure_key,
};
use stemma_store::{Env, PortResult, artifact};
use tokio_util::sync::CancellationToken;

/// Work with one stage per document, which behaves as its name says.
pub(crate) struct ProbeWork;

impl Work for ProbeWork {
    type Settings = String;
    type Tools = ProbeTools;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/header"),
            scope: scope.into(),
        })
    }
}

#[derive(Default)]
pub(crate) struct ProbeTools {
    pub(crate) runs: AtomicU32,
    // Start of the first execution of each task; later ones are duplicates.
    pub(crate) runs_by_task: Mutex<BTreeMap<String, u32>>,
    pub(crate) recovered: AtomicBool,
}

#[derive(Serialize, Deserialize)]
struct Behave {
    how: String,
    ballast: String,
}

impl Behave {
    fn new(how: &str) -> Self {
        Self {
            how: how.into(),
            ballast: String::new(),
        }
    }
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
                    task.ports.env.sleep(Duration::from_secs(1)).await;
                }
                Ok(1.into())
            }
            how if how.starts_with("slow") => {
                task.ports.env.sleep(Duration::from_secs(10)).await;
                Ok(1.into())
            }
            _ => Ok(1.into()),
        }
    }
}

/// A stage of lane llm, which no worker of this cluster executes.
#[derive(Serialize, Deserialize)]
struct AskModel;

#[async_trait]
impl Stage for AskModel {
    type Work = ProbeWork;
    type Outcome = u32;
    const NAME: &'static str = "ask_model";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, _: &String, _: &mut TaskKeyBuilder) {}

    async fn run(&self, _: &TaskContext<'_, ProbeWork>) -> StageResult<u32> {
        Ok(1.into())
    }
}

#[async_trait]
impl Flow for ProbeWork {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let how = run.input.as_str().unwrap_or_default().to_string();
        assert!(how != "flow panics", "the flow panics");
        match how.as_str() {
            "too large" => replay.outcome(&Behave {
                how,
                ballast: "x".repeat(5_000),
            })?,
            "does without" => {
                let gaps = replay
                    .results([Behave::new("kills until repaired")])?
                    .iter()
                    .filter(|result| result.is_err())
                    .count();
                replay.outcome(&Behave::new("lasts until repaired"))?;
                return Ok(FlowOutput { gaps: gaps as u32 });
            }
            "asks a model" => replay.outcome(&AskModel)?,
            how => replay.outcome(&Behave::new(how))?,
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
        if header.at.run.0.starts_with("unchanged") {
            return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged));
        }
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let failure = run_failure_key(&run.at.run);
        if let Some(record) = get_json(&ports.blobs, &failure).await? {
            return Ok(Some(RunOutcome::from_record(record)));
        }
        let none = String::new();
        let tasks = match run.input.as_str().unwrap_or_default() {
            "asks a model" => vec![AskModel.key(&none)],
            "does without" => ["kills until repaired", "lasts until repaired"]
                .map(|how| Behave::new(how).key(&none))
                .to_vec(),
            how => vec![Behave::new(how).key(&none)],
        };
        for task in tasks {
            let outcome = artifact::outcome(&ports.blobs, &run.at.scope, &task).await?;
            let failure = failure_key(&run.at.run, &task);
            if outcome.is_none() && ports.blobs.size(&failure).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(RunOutcome::Done))
    }
}

pub(crate) struct ProbeCluster {
    pub(crate) env: Env,
    pub(crate) ports: Ports,
    pub(crate) counter: Arc<ProbeTools>,
}

impl ProbeCluster {
    pub(crate) fn new(plan: FaultPlan) -> (Self, FaultInjector) {
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

    pub(crate) fn coordinator(&self) -> tokio::task::JoinHandle<()> {
        self.coordinator_with_slots(1_000)
    }

    pub(crate) fn coordinator_with_slots(
        &self,
        open_documents: usize,
    ) -> tokio::task::JoinHandle<()> {
        let heartbeat = HeartbeatReporter::new(&self.env, "coordinator", "coordinator");
        let coordinator = self.coordinator_of(heartbeat, open_documents);
        self.env.spawn(coordinator.run(CancellationToken::new()))
    }

    /// One of several coordinators, with heartbeats.
    pub(crate) fn member(
        &self,
        name: &str,
        open_documents: usize,
        stop: CancellationToken,
    ) -> tokio::task::JoinHandle<()> {
        let heartbeat = HeartbeatReporter::new(&self.env, name, "coordinator");
        let coordinator = self.coordinator_of(Arc::clone(&heartbeat), open_documents);
        let (env, ledger) = (self.env.clone(), self.ports.ledger.raw().clone());
        self.env.spawn(async move {
            let beating = send_heartbeats(
                env,
                ledger,
                heartbeat,
                HeartbeatExtras::default,
                stop.clone(),
            );
            tokio::join!(coordinator.run(stop), beating);
        })
    }

    pub(crate) fn coordinator_of(
        &self,
        heartbeat: Arc<HeartbeatReporter>,
        open_documents: usize,
    ) -> Arc<Coordinator<ProbeWork>> {
        Coordinator::<ProbeWork>::new(
            self.ports.clone(),
            open_documents,
            Arc::new(|_| ()),
            heartbeat,
        )
    }

    pub(crate) fn executor(
        &self,
        heartbeat: &Arc<HeartbeatReporter>,
    ) -> Arc<TaskExecutor<ProbeWork>> {
        let registry = StageRegistry::default().with_stage::<Behave>();
        let tools = Arc::clone(&self.counter);
        Arc::new(TaskExecutor::new(
            self.ports.clone(),
            registry,
            tools,
            Arc::clone(heartbeat),
        ))
    }

    pub(crate) fn worker(&self, name: &str, concurrency: u16) -> tokio::task::JoinHandle<()> {
        self.worker_until(name, concurrency, CancellationToken::new())
    }

    pub(crate) fn worker_until(
        &self,
        name: &str,
        concurrency: u16,
        stop: CancellationToken,
    ) -> tokio::task::JoinHandle<()> {
        let heartbeat = HeartbeatReporter::new(&self.env, name, "worker");
        let performer = self.executor(&heartbeat);
        let consumer = Consumer {
            env: self.env.clone(),
            queue: self.ports.queue.clone(),
            name: QueueName::Lane(Lane::Cpu, Priority::Bulk),
            concurrency,
            grace: Duration::from_secs(1),
            heartbeat,
        };
        self.env.spawn(consumer.run(performer, stop))
    }

    pub(crate) async fn submit(&self, documents: &[String]) -> JobId {
        self.submit_as("job", Priority::Bulk, documents).await
    }

    pub(crate) async fn submit_as(
        &self,
        job: &str,
        priority: Priority,
        documents: &[String],
    ) -> JobId {
        self.submit_to("x", job, priority, documents).await
    }

    pub(crate) async fn submit_to(
        &self,
        collection: &str,
        job: &str,
        priority: Priority,
        documents: &[String],
    ) -> JobId {
        let manifest = JobManifest {
            job: JobId(job.into()),
            collection: collection.into(),
            priority,
            ..self.manifest(JobOptions::default(), documents).await
        };
        self.submit_job(manifest, documents).await
    }

    pub(crate) async fn submit_with(&self, options: JobOptions, documents: &[String]) -> JobId {
        let manifest = self.manifest(options, documents).await;
        self.submit_job(manifest, documents).await
    }

    async fn manifest(&self, options: JobOptions, documents: &[String]) -> JobManifest {
        JobManifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: settings::freeze::<ProbeWork>(&self.ports.blobs, &"s".into())
                .await
                .unwrap(),
            priority: Priority::Bulk,
            entries: documents.len() as u64,
            submitted_ms: 0,
            options,
        }
    }

    async fn submit_job(&self, manifest: JobManifest, documents: &[String]) -> JobId {
        let entries: Vec<_> = documents
            .iter()
            .map(|document: &String| JobEntry {
                weight: 1,
                input: document.clone().into(),
            })
            .collect();
        jobs::submit(&self.ports, &manifest, &entries)
            .await
            .unwrap();
        manifest.job
    }

    pub(crate) async fn is_claimed(&self, document: &str) -> bool {
        let header = format!("c/x/d/{document}/header");
        self.ports.blobs.get(&header).await.unwrap().is_some()
    }

    pub(crate) async fn report(&self, job: &JobId, within: Duration) -> JobReport {
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
