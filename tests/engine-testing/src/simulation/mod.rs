//! Simulated schedules on one thread and virtual time, from a seed: coordinators and workers over memory ports, with
//! faults, crashes, drains and losses of the ledger. Every schedule must end with the same bytes.

mod checks;
mod invariants;
mod scenario;
mod spending;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::JobManifest;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, CancelReason, EntryCounts, PauseReason};
use stemma_engine::ledger::MemoryLedger;
use stemma_engine::ports::Ports;
use stemma_engine::queue::{Lane, MemoryQueue, QueueName};
use stemma_engine::settings;
use stemma_store::Retrying;
use stemma_store::blobs::MemoryBlobs;
use stemma_store::env::{Env, Millis};
use stemma_store::key::{JobId, Priority};
use stemma_store::limit::MemoryLimiter;
use stemma_store::spend::JobBudget;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::fault::{FaultInjector, Stall};

use scenario::{FAULTS_UNTIL_MS, job_list};
use spending::SharedSpending;

pub use checks::{
    check, check_budget, check_controlled, check_paused, check_weather, compare, expected,
};
pub use scenario::{FaultEvent, JobCommand, SimulationScenario};
pub use work::{SimulatedDocument, SimulatedSettings, SimulatedTools, SimulatedWork};

// A schedule must end within this virtual time.
const TIME_LIMIT: Duration = Duration::from_secs(6 * 3600);
// Virtual time after the end, in which late workers finish and leftover state expires.
const COOLDOWN: Duration = Duration::from_secs(900);

/// Result of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationResult {
    pub objects: BTreeMap<String, Bytes>,
    /// Counts of each job's report.
    pub counts: Vec<EntryCounts>,
    /// Number of port calls.
    pub calls: u64,
    pub log: String,
    /// Virtual time until the last report, in milliseconds.
    pub took_ms: Millis,
    /// Number of started stage executions.
    pub starts: u32,
    /// When each job ended, in milliseconds of virtual time.
    pub ended_ms: Vec<Millis>,
    /// When which scope's tasks were started.
    pub start_times: Vec<(Millis, String)>,
    /// How often a budget was raised.
    pub raises: u32,
}

/// Runs a schedule.
///
/// # Errors
/// The violated property.
pub fn simulate(script: &SimulationScenario) -> Result<SimulationResult, String> {
    simulate_with_listener(script, None)
}

/// Runs a schedule and reports every port call to `listener`.
///
/// # Errors
/// The violated property.
pub fn simulate_with_listener(
    script: &SimulationScenario,
    listener: Option<crate::fault::CallListener>,
) -> Result<SimulationResult, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async { Simulation::new(script, listener).run(script).await })
}

struct Simulation {
    env: Env,
    store: Arc<MemoryBlobs>,
    ledger: Arc<MemoryLedger>,
    limiter: Arc<MemoryLimiter>,
    faults: FaultInjector,
    sound: Ports,
    ports: Ports,
    clocks_ahead_ms: Vec<i64>,
    tools: SimulatedTools,
    // `None` without a budget.
    spending: Option<SharedSpending>,
    processes: Vec<SimulatedProcess>,
    // Processes that were asked to stop and are still busy.
    draining: JoinSet<()>,
    started_ms: Millis,
    spawn_count: u32,
}

struct SimulatedProcess {
    is_coordinator: bool,
    stall: Stall,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Simulation {
    fn new(script: &SimulationScenario, listener: Option<crate::fault::CallListener>) -> Self {
        let env = Env::simulated(script.seed);
        let store = Arc::new(MemoryBlobs::default());
        let ledger = Arc::new(MemoryLedger::default());
        let limiter = Arc::new(MemoryLimiter::default());
        let sound = Ports::new(
            &env,
            Arc::new(MemoryQueue::default()),
            Arc::<MemoryLedger>::clone(&ledger),
            Arc::<MemoryBlobs>::clone(&store),
            Arc::<MemoryLimiter>::clone(&limiter),
        );
        let faults = FaultInjector::new(env.clone(), script.plan.clone());
        if let Some(listener) = listener {
            faults.set_listener(listener);
        }
        let ports = faults.wrap(&sound);
        let tools = SimulatedTools::new(Arc::clone(&store), script.no_slow_calls);
        let processes = Vec::new();
        let draining = JoinSet::new();
        let started_ms = env.now_ms();
        Self {
            env,
            store,
            ledger,
            limiter,
            faults,
            sound,
            ports,
            clocks_ahead_ms: script.clocks_ahead_ms.clone(),
            tools,
            spending: script.budget_tokens.map(|_| SharedSpending::default()),
            processes,
            draining,
            started_ms,
            spawn_count: 0,
        }
    }

    async fn run(mut self, script: &SimulationScenario) -> Result<SimulationResult, String> {
        for n in 0..script.coordinators + script.workers {
            let member = self.spawn_process(n, n < script.coordinators, 0);
            self.processes.push(member);
        }
        let manifests = self.submit(script).await;
        let raising = self.spending.clone().map(|spending| {
            let job = manifests[0].job.clone();
            let raising = spending.raise_budgets(self.sound.clone(), job);
            self.env.spawn(raising)
        });
        let rest = self.env.clone();
        let faults = self.faults.clone();
        let patience = self.started_ms + FAULTS_UNTIL_MS;
        let peace = self.env.spawn(async move {
            rest.sleep(Duration::from_millis(
                patience.saturating_sub(rest.now_ms()),
            ))
            .await;
            faults.disable();
        });
        for (at, event) in &script.fault_events {
            self.wait_until(*at).await;
            match event {
                FaultEvent::Command(job, command) => {
                    self.send_command(&manifests[*job].job, *command).await?;
                }
                event => self.apply_fault(*event),
            }
        }
        let reports = tokio::time::timeout(TIME_LIMIT, self.reports(&manifests)).await;
        let reports =
            reports.map_err(|_| format!("not ended after {} h", TIME_LIMIT.as_secs() / 3600))?;
        let (counts, ended_ms) = reports?.into_iter().unzip();
        let took_ms = self.env.now_ms() - self.started_ms;
        let calls = self.faults.calls();
        let log = self.faults.digest();
        peace.abort();
        if let Some(raising) = raising {
            let raised = raising.await.map_err(|error| error.to_string())?;
            raised.map_err(|error| error.to_string())?;
        }
        self.faults.disable();
        self.env.sleep(COOLDOWN).await;
        self.check_invariants(script)?;
        let objects = self.store.snapshot().into_iter();
        let is_result = |key: &str| {
            let kinds = ["/a/", "/trees/", "/changes/"];
            kinds.iter().any(|kind| key.contains(kind))
        };
        let results = objects.filter(|(key, _)| is_result(key));
        let history = self.tools.history();
        let starts = history.starts.values().sum();
        let since_start = history.start_times.iter().map(|(at, scope)| {
            let at_ms = at.saturating_sub(self.started_ms);
            (at_ms, scope.clone())
        });
        Ok(SimulationResult {
            objects: results.collect(),
            counts,
            ended_ms,
            start_times: since_start.collect(),
            calls,
            log,
            took_ms,
            starts,
            raises: self.spending.map_or(0, |spending| spending.lock().raises),
        })
    }

    async fn wait_until(&self, at: Millis) {
        let wait = (self.started_ms + at).saturating_sub(self.env.now_ms());
        self.env.sleep(Duration::from_millis(wait)).await;
    }

    // Retries until every port call succeeds.
    async fn submit(&self, script: &SimulationScenario) -> Vec<JobManifest> {
        let mut manifests = Vec::new();
        let mut jobs = job_list(script.small, script.single_jobs);
        if let (Some(tokens), Some(spending)) = (script.budget_tokens, &self.spending) {
            let first = &mut jobs[0].0;
            spending.set_budget(&first.job, tokens);
            first.options.budget = Some(JobBudget {
                tokens: Some(tokens),
                nanodollars: None,
            });
        }
        for (manifest, entries) in jobs {
            loop {
                let digest = settings::freeze::<SimulatedWork>(
                    &self.ports.blobs,
                    &SimulatedSettings { salt: 1 },
                );
                let Ok(digest) = digest.await else { continue };
                let manifest = JobManifest {
                    settings: digest,
                    ..manifest.clone()
                };
                if jobs::submit(&self.ports, &manifest, &entries).await.is_ok() {
                    manifests.push(manifest);
                    break;
                }
            }
        }
        manifests
    }

    // Waits for all reports. The bulk jobs share a document, which may be unchanged for whichever comes second, so only
    // the sum of their counts is certain.
    async fn reports(
        &self,
        manifests: &[JobManifest],
    ) -> Result<Vec<(EntryCounts, Millis)>, String> {
        let mut counts = Vec::new();
        for manifest in manifests {
            let report = loop {
                match jobs::report(self.store.as_ref(), &manifest.job)
                    .await
                    .map_err(|error| error.to_string())?
                {
                    Some(report) => break report,
                    None => self.env.sleep(Duration::from_secs(1)).await,
                }
            };
            let EntryCounts {
                done,
                done_with_gaps,
                unchanged,
                failed,
                cancelled,
            } = report.counts;
            let ended_ms = report.ended_ms.saturating_sub(self.started_ms);
            let these = match manifest.priority {
                Priority::Interactive => report.counts,
                Priority::Bulk => EntryCounts {
                    done: done + done_with_gaps + unchanged,
                    failed,
                    cancelled,
                    ..EntryCounts::default()
                },
            };
            counts.push((these, ended_ms));
        }
        Ok(counts)
    }

    // Sent without fault injection: a user repeats a command until it succeeds.
    async fn send_command(&self, job: &JobId, command: JobCommand) -> Result<(), String> {
        let ports = Ports {
            blobs: Retrying::new(&self.env, Arc::<MemoryBlobs>::clone(&self.store)),
            ..self.ports.clone()
        };
        let result = match command {
            JobCommand::Cancel => jobs::cancel(&ports, job, CancelReason::Person).await,
            JobCommand::Pause => jobs::pause(&ports, job, PauseReason::Person).await,
            JobCommand::Resume => jobs::resume(&ports, job).await,
        };
        result.map_err(|error| error.to_string())
    }

    fn apply_fault(&mut self, event: FaultEvent) {
        if let Some(spending) = &self.spending {
            spending.lock().lose();
        }
        match event {
            FaultEvent::Command(..) => {}
            FaultEvent::Flush => {
                self.ledger.flush();
                self.limiter.flush();
            }
            FaultEvent::Stall(process, length_ms) => {
                let until_ms = self.env.now_ms() + length_ms;
                self.processes[process].stall.suspend_until(until_ms);
            }
            FaultEvent::Crash(process, after) => {
                self.processes[process].task.abort();
                self.processes[process] =
                    self.spawn_process(process, self.processes[process].is_coordinator, after);
            }
            FaultEvent::Drain(process) => {
                let next = self.spawn_process(process, self.processes[process].is_coordinator, 0);
                let last = std::mem::replace(&mut self.processes[process], next);
                last.stop.cancel();
                self.draining.spawn(async move { drop(last.task.await) });
            }
        }
    }

    /// Starts a process in place `n` after `after` milliseconds.
    fn spawn_process(&mut self, n: usize, coordinates: bool, after: Millis) -> SimulatedProcess {
        self.spawn_count += 1;
        let stop = CancellationToken::new();
        let stall = Stall::default();
        let env = match self.clocks_ahead_ms.get(n) {
            Some(ahead_ms) => self.env.with_clock_ahead(*ahead_ms),
            None => self.env.clone(),
        };
        let ports = self.faults.for_process(&stall).wrap_for(&env, &self.sound);
        let ends = stop.clone();
        let heartbeat =
            HeartbeatReporter::new(&env, format!("member-{}", self.spawn_count), "rehearsal");
        let task = if coordinates {
            self.env.spawn(async move {
                env.sleep(Duration::from_millis(after)).await;
                Coordinator::<SimulatedWork>::new(ports, 3, Arc::new(|_| ()), heartbeat)
                    .run(ends)
                    .await;
            })
        } else {
            let performer = TaskExecutor::new(
                ports.clone(),
                work::registry(),
                Arc::new(self.tools.for_process(&stall, self.spending.as_ref())),
                Arc::clone(&heartbeat),
            );
            self.env.spawn(async move {
                env.sleep(Duration::from_millis(after)).await;
                run_worker(ports, Arc::new(performer), heartbeat, ends).await;
            })
        };
        SimulatedProcess {
            is_coordinator: coordinates,
            stall,
            task,
            stop,
        }
    }
}

/// Runs a worker on all lanes and priorities.
async fn run_worker(
    ports: Ports,
    performer: Arc<TaskExecutor<SimulatedWork>>,
    heartbeat: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let mut lanes = JoinSet::new();
    for lane in Lane::ALL {
        for priority in [Priority::Bulk, Priority::Interactive] {
            let name = QueueName::Lane(lane, priority);
            let queue = ports.queue.clone();
            let heartbeat = Arc::clone(&heartbeat);
            let consumer = Consumer {
                env: ports.env.clone(),
                queue,
                name,
                concurrency: 3,
                grace: Duration::from_secs(10),
                heartbeat,
            };
            let performer = Arc::<TaskExecutor<SimulatedWork>>::clone(&performer);
            lanes.spawn(consumer.run(performer, stop.clone()));
        }
    }
    while lanes.join_next().await.is_some() {}
}
