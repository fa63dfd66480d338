//! Simulated schedules on one thread and virtual time, from a seed: coordinators and workers over memory ports, with
//! faults, crashes, drains and losses of the ledger. Every schedule must end with the same bytes.

mod spending;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::fault::{FaultInjector, FaultPlan, FaultRates, Outage, Stall};
use stemma_engine::blobs::MemoryBlobs;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::env::{Env, Millis};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, CancelReason, EntryCounts, JobBudget, PauseReason};
use stemma_engine::key::{JobId, Priority};
use stemma_engine::ledger::MemoryLedger;
use stemma_engine::limit::MemoryLimiter;
use stemma_engine::ports::{Ports, Retrying};
use stemma_engine::queue::{Lane, MemoryQueue, QueueName};
use stemma_engine::settings;

use spending::SharedSpending;

pub use work::{SimulatedDocument, SimulatedSettings, SimulatedTools, SimulatedWork};

// A schedule must end within this virtual time.
const TIME_LIMIT: Duration = Duration::from_secs(6 * 3600);
// No fault occurs after this time.
const FAULTS_UNTIL_MS: Millis = 900_000;
// Separates the dice of the weather from those of other schedules.
const WEATHER: u64 = 0x7765_6174_6865_7200;
const LONGEST_OUTAGE_MS: Millis = 780_000;
const LONGEST_STALL_MS: Millis = 180_000;
const DAY_MS: i64 = 86_400_000;
// More than a coordinator of the simulation keeps open, many times over.
const MANY_JOBS: u32 = 60;
// Virtual time after the end, in which late workers finish and leftover state expires.
const COOLDOWN: Duration = Duration::from_secs(900);

/// A schedule: the processes, and what goes wrong.
#[derive(Debug, Clone, Default)]
pub struct SimulationScenario {
    pub seed: u64,
    pub plan: FaultPlan,
    pub coordinators: usize,
    pub workers: usize,
    /// Events by time.
    pub fault_events: Vec<(Millis, FaultEvent)>,
    /// Submit one small job only.
    pub small: bool,
    /// Submit this many jobs of one document more.
    pub single_jobs: u32,
    /// By how much the clock of each process is ahead, in milliseconds; that of the others is right.
    pub clocks_ahead_ms: Vec<i64>,
    /// Gives the first job a budget of this many tokens, which is raised whenever the job was paused for it.
    pub budget_tokens: Option<u64>,
}

/// An event during a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEvent {
    /// A process disappears; another replaces it after this many milliseconds.
    Crash(usize, Millis),
    /// A process is asked to stop and drains; another replaces it at once.
    Drain(usize),
    /// A process is suspended for this many milliseconds, and goes on.
    Stall(usize, Millis),
    /// Ledger and limiter lose everything.
    Flush,
    /// A command for a job, by its position in the job list.
    Command(usize, JobCommand),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCommand {
    Cancel,
    Pause,
    Resume,
}

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

impl SimulationScenario {
    /// A schedule without faults.
    pub fn quiet() -> Self {
        Self {
            coordinators: 1,
            workers: 1,
            ..Self::default()
        }
    }

    /// A schedule with many faults.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut some = |most: u32| {
            if rng.random_ratio(1, 2) {
                rng.random_range(0..=most)
            } else {
                0
            }
        };
        let chances = FaultRates {
            fail_before: some(100),
            fail_after: some(100),
            delay: some(150),
            duplicate: some(150),
            lose: some(200),
            overtaken: some(100),
            max_delay: Duration::from_millis(u64::from(50 + some(20_000))),
        };
        let coordinators = rng.random_range(1..=2);
        let workers = rng.random_range(1..=3);
        let mut fault_events: Vec<_> = (0..rng.random_range(0..7))
            .map(|_| random_fault_event(&mut rng, coordinators + workers))
            .collect();
        fault_events.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            plan: FaultPlan::random(seed, chances),
            coordinators,
            workers,
            fault_events,
            ..Self::default()
        }
    }

    /// A schedule of [`Self::from_seed`] in which the first job has a small budget, with losses and crashes beside it.
    pub fn budget_from_seed(seed: u64) -> Self {
        let mut script = Self::from_seed(seed);
        script.budget_tokens = Some(SMALL_BUDGET);
        let mut rng = SmallRng::seed_from_u64(!seed);
        for _ in 0..rng.random_range(1..=4) {
            let worker = script.coordinators + rng.random_range(0..script.workers);
            let event = match rng.random_range(0..3) {
                0 => FaultEvent::Stall(worker, rng.random_range(20_000..LONGEST_STALL_MS)),
                1 => FaultEvent::Crash(worker, rng.random_range(0..30_000)),
                _ => FaultEvent::Flush,
            };
            let at_ms = rng.random_range(0..FAULTS_UNTIL_MS / 3);
            script.fault_events.push((at_ms, event));
        }
        script.fault_events.sort_by_key(|(at, _)| *at);
        script
    }

    /// A schedule with weather that lasts: ports that are away or refuse for minutes, suspended processes, clocks that are
    /// wrong, and many small jobs.
    pub fn weather_from_seed(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ WEATHER);
        let coordinators = rng.random_range(1..=2);
        let workers = rng.random_range(1..=3);
        let processes = coordinators + workers;
        let outages = (0..rng.random_range(1..=3))
            .map(|_| {
                let from = rng.random_range(0..FAULTS_UNTIL_MS / 2);
                let ports = ["blobs.", "blobs.put", "ledger.", "queue.publish", "queue."];
                Outage {
                    operations: ports[rng.random_range(0..ports.len())],
                    during: from..from + rng.random_range(30_000..LONGEST_OUTAGE_MS),
                    transient: rng.random_ratio(2, 3),
                }
            })
            .collect();
        let mut fault_events: Vec<_> = (0..rng.random_range(0..5))
            .map(|_| random_fault_event(&mut rng, processes))
            .collect();
        for _ in 0..rng.random_range(0..4) {
            let stall = FaultEvent::Stall(
                rng.random_range(0..processes),
                rng.random_range(20_000..LONGEST_STALL_MS),
            );
            fault_events.push((rng.random_range(0..FAULTS_UNTIL_MS / 3), stall));
        }
        fault_events.sort_by_key(|(at, _)| *at);
        let mut clocks_ahead_ms: Vec<i64> = (0..processes)
            .map(|_| rng.random_range(-90_000..=90_000))
            .collect();
        match seed % 3 {
            0 => clocks_ahead_ms.clear(),
            1 => clocks_ahead_ms[rng.random_range(0..processes)] = DAY_MS,
            _ => {}
        }
        Self {
            seed,
            plan: FaultPlan {
                outages,
                seed,
                ..FaultPlan::default()
            },
            coordinators,
            workers,
            fault_events,
            single_jobs: if seed.is_multiple_of(4) { MANY_JOBS } else { 0 },
            clocks_ahead_ms,
            ..Self::default()
        }
    }
}

fn random_fault_event(rng: &mut SmallRng, process_count: usize) -> (Millis, FaultEvent) {
    // Most of the work is done early, so most events should be early too.
    let latest = if rng.random_ratio(2, 3) {
        FAULTS_UNTIL_MS / 10
    } else {
        FAULTS_UNTIL_MS
    };
    let at = rng.random_range(0..latest);
    let process = rng.random_range(0..process_count);
    let event = match rng.random_range(0..5) {
        0 => FaultEvent::Flush,
        1 => FaultEvent::Drain(process),
        _ => FaultEvent::Crash(process, rng.random_range(0..30_000)),
    };
    (at, event)
}

/// Runs the schedule of a seed.
///
/// # Errors
/// The violated property, and how to replay the schedule.
pub fn check(seed: u64) -> Result<SimulationResult, String> {
    let script = SimulationScenario::from_seed(seed);
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    compare(&ended, expected()?).map_err(|what| violation(&what, &script))?;
    Ok(ended)
}

fn violation(what: &str, script: &SimulationScenario) -> String {
    let seed = script.seed;
    format!(
        "{what}\n{script:?}\nreplay: STEMMA_SEED={seed} cargo test -p stemma-engine --test simulation"
    )
}

/// Runs the weather of a seed.
///
/// # Errors
/// The violated property.
pub fn check_weather(seed: u64) -> Result<SimulationResult, String> {
    static OF_MANY: OnceLock<Result<SimulationResult, String>> = OnceLock::new();
    let script = SimulationScenario::weather_from_seed(seed);
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    let quiet = SimulationScenario {
        single_jobs: script.single_jobs,
        ..SimulationScenario::quiet()
    };
    let expected = if script.single_jobs == 0 {
        expected()?
    } else {
        let of_many = OF_MANY.get_or_init(|| simulate(&quiet));
        of_many.as_ref().map_err(Clone::clone)?
    };
    compare(&ended, expected).map_err(|what| violation(&what, &script))?;
    Ok(ended)
}

/// The result that every schedule must have.
///
/// # Errors
/// The property that the schedule without faults violated.
pub fn expected() -> Result<&'static SimulationResult, String> {
    static EXPECTED: OnceLock<Result<SimulationResult, String>> = OnceLock::new();
    EXPECTED
        .get_or_init(|| simulate(&SimulationScenario::quiet()))
        .as_ref()
        .map_err(Clone::clone)
}

/// Runs a schedule in which jobs are paused and resumed, and some cancelled.
///
/// # Errors
/// The violated property.
pub fn check_controlled(seed: u64) -> Result<SimulationResult, String> {
    let mut script = SimulationScenario::from_seed(seed);
    let mut rng = SmallRng::seed_from_u64(!seed);
    let mut push_command = |from: Millis, job, command| {
        let at = from + rng.random_range(0..60_000);
        script
            .fault_events
            .push((at, FaultEvent::Command(job, command)));
        at
    };
    let paused = push_command(0, 0, JobCommand::Pause);
    push_command(paused, 0, JobCommand::Resume);
    let cancels = seed % 3;
    if cancels > 0 {
        push_command(0, 0, JobCommand::Cancel);
    }
    script.fault_events.sort_by_key(|(at, _)| *at);
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    let mut expected = expected()?.clone();
    if cancels > 0 {
        // Only what the cancelled job alone requested may be missing; everything else must be identical.
        expected.objects.retain(|key, _| {
            ended.objects.contains_key(key) || SHARED_SCOPES.iter().any(|at| key.starts_with(at))
        });
        let counts = &ended.counts[0];
        let all = expected.counts[0].ended();
        if counts.ended() != all {
            return Err(violation(&format!("{counts:?} of {all} entries"), &script));
        }
        expected.counts[0] = counts.clone();
    }
    compare(&ended, &expected).map_err(|what| violation(&what, &script))?;
    Ok(ended)
}

// A job is paused for this long: longer than everything else takes.
const LONG_PAUSE_MS: Millis = 5_400_000;
// After the last fault, a lost message is repeated within this time, and a run learns that its job is paused.
const SETTLED_MS: Millis = FAULTS_UNTIL_MS + 600_000;

/// Runs a schedule in which the first job, which has all slots, is paused for a long time.
///
/// # Errors
/// The violated property.
pub fn check_paused(seed: u64) -> Result<SimulationResult, String> {
    let mut script = SimulationScenario::from_seed(seed);
    script.single_jobs = 4;
    let mut rng = SmallRng::seed_from_u64(!seed);
    let paused_ms = rng.random_range(0..30_000);
    let pause = FaultEvent::Command(0, JobCommand::Pause);
    script.fault_events.push((paused_ms, pause));
    script.fault_events.sort_by_key(|(at, _)| *at);
    let resume = FaultEvent::Command(0, JobCommand::Resume);
    script.fault_events.push((LONG_PAUSE_MS, resume));
    let quiet = SimulationScenario {
        single_jobs: script.single_jobs,
        ..SimulationScenario::quiet()
    };
    static QUIET: OnceLock<Result<SimulationResult, String>> = OnceLock::new();
    let expected = QUIET.get_or_init(|| simulate(&quiet));
    let expected = expected.as_ref().map_err(Clone::clone)?;
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    compare(&ended, expected).map_err(|what| violation(&what, &script))?;
    let first_ended = ended.ended_ms[0] < LONG_PAUSE_MS; // before it was paused
    if let Some(late) = ended.ended_ms[1..].iter().find(|ms| **ms >= LONG_PAUSE_MS) {
        let what = format!("another job ended only after {late} ms");
        return Err(violation(&what, &script));
    }
    let is_paused = |(at_ms, scope): &&(Millis, String)| {
        let is_shared = SHARED_SCOPES.iter().any(|shared| shared.starts_with(scope));
        let is_of_first = scope.starts_with("c/x/d/") && !is_shared;
        (SETTLED_MS..LONG_PAUSE_MS).contains(at_ms) && is_of_first
    };
    match ended.start_times.iter().find(is_paused) {
        Some((at_ms, scope)) if !first_ended => {
            let what = format!("a task of {scope} was started at {at_ms} ms, of a paused job");
            Err(violation(&what, &script))
        }
        _ => Ok(ended),
    }
}

// Less than the first job costs, several times over.
const SMALL_BUDGET: u64 = 150;

/// Runs a schedule in which the first job has a small budget, which is raised whenever the job was paused for it. Redis is
/// flushed, and workers crash and are suspended, while calls are under way.
///
/// # Errors
/// The violated property.
pub fn check_budget(seed: u64) -> Result<SimulationResult, String> {
    let script = SimulationScenario::budget_from_seed(seed);
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    compare(&ended, expected()?).map_err(|what| violation(&what, &script))?;
    Ok(ended)
}

// Scopes of documents that other jobs request besides the first.
const SHARED_SCOPES: [&str; 3] = ["c/x/d/3/", "c/y/d/0/", "c/y/d/4/"];

/// Compares two results.
///
/// # Errors
/// The first difference.
pub fn compare(ended: &SimulationResult, expected: &SimulationResult) -> Result<(), String> {
    for (key, bytes) in &expected.objects {
        match ended.objects.get(key) {
            None => return Err(format!("{key} is missing")),
            Some(actual) if actual != bytes => {
                return Err(format!("{key} differs: {actual:?} instead of {bytes:?}"));
            }
            Some(_) => {}
        }
    }
    if let Some(key) = ended
        .objects
        .keys()
        .find(|key| !expected.objects.contains_key(*key))
    {
        return Err(format!("{key} should not exist"));
    }
    if ended.counts != expected.counts {
        return Err(format!(
            "counts {:?} instead of {:?}",
            ended.counts, expected.counts
        ));
    }
    Ok(())
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
        let tools = SimulatedTools::new(Arc::clone(&store));
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
            let raising = spending.raise_budgets(self.env.clone(), self.sound.clone(), job);
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
        let results = objects.filter(|(key, _)| key.contains("/a/") || key.contains("/trees/"));
        let history = self.tools.history();
        let starts = history.starts.values().sum();
        let since_start = history.start_times.iter();
        let since_start = since_start.map(|(at, scope)| {
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
            first.terms.budget = Some(JobBudget {
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
                if jobs::submit(&self.env, &self.ports, &manifest, &entries)
                    .await
                    .is_ok()
                {
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
            let these = match manifest.class {
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
            JobCommand::Cancel => jobs::cancel(&self.env, &ports, job, CancelReason::Person).await,
            JobCommand::Pause => jobs::pause(&self.env, &ports, job, PauseReason::Person).await,
            JobCommand::Resume => jobs::resume(&self.env, &ports, job).await,
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
        let presence =
            HeartbeatReporter::new(&env, format!("member-{}", self.spawn_count), "rehearsal");
        let task = if coordinates {
            self.env.spawn(async move {
                env.sleep(Duration::from_millis(after)).await;
                Coordinator::<SimulatedWork>::new(env, ports, 3, Arc::new(|_| ()), presence)
                    .run(ends)
                    .await;
            })
        } else {
            let performer = TaskExecutor::new(
                env.clone(),
                ports.clone(),
                work::registry(),
                Arc::new(self.tools.for_process(&stall, self.spending.as_ref())),
                Arc::clone(&presence),
            );
            self.env.spawn(async move {
                env.sleep(Duration::from_millis(after)).await;
                run_worker(env, ports, Arc::new(performer), presence, ends).await;
            })
        };
        SimulatedProcess {
            is_coordinator: coordinates,
            stall,
            task,
            stop,
        }
    }

    /// Checks what must hold for every schedule.
    fn check_invariants(&self, script: &SimulationScenario) -> Result<(), String> {
        let history = self.tools.history();
        // Unfinished work of a cancelled run may be repeated by the next run of the same document.
        let cancelled = script
            .fault_events
            .iter()
            .any(|(_, event)| matches!(event, FaultEvent::Command(_, JobCommand::Cancel)));
        if let Some(redundant) = history.redundant_starts.first().filter(|_| !cancelled) {
            return Err(format!(
                "started although its artifact existed: {redundant}"
            ));
        }
        let blows = script
            .fault_events
            .iter()
            .filter(|(_, event)| !matches!(event, FaultEvent::Drain(_)))
            .count();
        let cut_off = script
            .fault_events
            .iter()
            .filter(|(_, event)| matches!(event, FaultEvent::Drain(_)))
            .count();
        for (task, starts) in &history.starts {
            let failures = history.failures.get(task).copied().unwrap_or(0);
            let most = 1 + failures as usize + blows + cut_off;
            // A process whose clock is wrong sees leases end early.
            if *starts as usize > most && script.clocks_ahead_ms.is_empty() {
                return Err(format!(
                    "{task:?} was started {starts} times, expected at most {most}"
                ));
            }
        }
        if script.plan.rates.lose == 0 && self.ledger.runs() > 0 {
            return Err(format!(
                "the ledger still holds {} runs",
                self.ledger.runs()
            ));
        }
        if let Some(violation) = self.spending.iter().find_map(|all| all.lock().violation()) {
            return Err(violation);
        }
        let reserved = self.limiter.reserved_total(self.env.now_ms());
        if reserved > 0 {
            return Err(format!("{reserved} tokens are still reserved"));
        }
        if self.ledger.scheduled() > 0 {
            return Err(format!(
                "{} items are still scheduled",
                self.ledger.scheduled()
            ));
        }
        Ok(())
    }
}

/// Runs a worker on all lanes and classes.
async fn run_worker(
    env: Env,
    ports: Ports,
    performer: Arc<TaskExecutor<SimulatedWork>>,
    presence: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let mut lanes = JoinSet::new();
    for lane in Lane::ALL {
        for class in [Priority::Bulk, Priority::Interactive] {
            let name = QueueName::Lane(lane, class);
            let queue = ports.queue.clone();
            let env = env.clone();
            let presence = Arc::clone(&presence);
            let consumer = Consumer {
                env,
                queue,
                name,
                concurrency: 3,
                grace: Duration::from_secs(10),
                presence,
            };
            let performer = Arc::<TaskExecutor<SimulatedWork>>::clone(&performer);
            lanes.spawn(consumer.run(performer, stop.clone()));
        }
    }
    while lanes.join_next().await.is_some() {}
}

// One job with identical documents, an unreadable one and one listed twice; an interactive job; and one that requests a
// document of the first.
fn job_list(small: bool, single_jobs: u32) -> Vec<(JobManifest, Vec<JobEntry>)> {
    let job = |name: &str, collection: &str, class, documents: &[(u32, u64, u32)]| {
        let entries: Vec<_> = documents
            .iter()
            .map(|(name, content, parts): &(u32, u64, u32)| JobEntry {
                weight: 100,
                input: serde_json::json!({ "name": name, "content": content, "parts": parts }),
            })
            .collect();
        let manifest = JobManifest {
            job: JobId(name.into()),
            collection: collection.into(),
            settings: String::new(),
            class,
            entries: entries.len() as u64,
            submitted_ms: 0,
            terms: Default::default(),
        };
        (manifest, entries)
    };
    if small {
        return vec![job(
            "job-0",
            "x",
            Priority::Interactive,
            &[(0, 100, 4), (1, 7, 0)],
        )];
    }
    let mut jobs = vec![
        job(
            "job-1",
            "x",
            Priority::Bulk,
            &[
                (0, 100, 5),
                (1, 100, 5),
                (2, 7, 0),
                (3, 300, 4),
                (0, 100, 5),
            ],
        ),
        job(
            "job-2",
            "y",
            Priority::Interactive,
            &[(0, 300, 4), (4, 17, 3)],
        ),
        job("job-3", "x", Priority::Bulk, &[(3, 300, 4)]),
    ];
    jobs.extend((0..single_jobs).map(|n| {
        let document = (100 + n, 1_000 + u64::from(n), 1);
        job(
            &format!("job-single-{n:03}"),
            "z",
            Priority::Bulk,
            &[document],
        )
    }));
    jobs
}
