//! The schedules: which processes there are, what goes wrong and when, and which jobs are submitted.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stemma_engine::flow::{JobEntry, JobManifest};
use stemma_store::env::Millis;
use stemma_store::key::{JobId, Priority};

use crate::fault::{FaultPlan, FaultRates, Outage};

// No fault occurs after this time.
pub(super) const FAULTS_UNTIL_MS: Millis = 900_000;
// Separates the dice of the weather from those of other schedules.
const WEATHER: u64 = 0x7765_6174_6865_7200;
const LONGEST_OUTAGE_MS: Millis = 780_000;
const LONGEST_STALL_MS: Millis = 180_000;
const DAY_MS: i64 = 86_400_000;
// More than a coordinator of the simulation keeps open, many times over.
const MANY_JOBS: u32 = 200;
// Less than the first job costs, several times over.
const SMALL_BUDGET: u64 = 150;
// A job is paused for this long: longer than everything else takes.
pub(super) const LONG_PAUSE_MS: Millis = 5_400_000;

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
    /// No call takes minutes: what then takes long is due to the faults.
    pub no_slow_calls: bool,
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

    /// A schedule of [`Self::from_seed`] in which the first job has a small budget, with losses, crashes and an outage of the
    /// other accounts.
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
        if rng.random_ratio(1, 2) {
            let from = rng.random_range(0..FAULTS_UNTIL_MS / 6);
            script.plan.outages.push(Outage {
                operations: "limiter.",
                during: from..from + rng.random_range(5_000..LONGEST_STALL_MS),
                transient: true,
            });
        }
        script
    }

    /// A schedule of [`Self::from_seed`] in which the first job is paused and resumed, and in two of three cancelled.
    pub fn controlled_from_seed(seed: u64) -> Self {
        let mut script = Self::from_seed(seed);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let mut push_command = |from: Millis, command| {
            let at = from + rng.random_range(0..60_000);
            script
                .fault_events
                .push((at, FaultEvent::Command(0, command)));
            at
        };
        let paused = push_command(0, JobCommand::Pause);
        push_command(paused, JobCommand::Resume);
        if !seed.is_multiple_of(3) {
            push_command(0, JobCommand::Cancel);
        }
        script.fault_events.sort_by_key(|(at, _)| *at);
        script
    }

    /// A schedule of [`Self::from_seed`] in which the first job, which has all slots, is paused for a long time.
    pub fn paused_from_seed(seed: u64) -> Self {
        let mut script = Self::from_seed(seed);
        script.single_jobs = 4;
        let paused_ms = SmallRng::seed_from_u64(!seed).random_range(0..30_000);
        let pause = FaultEvent::Command(0, JobCommand::Pause);
        script.fault_events.push((paused_ms, pause));
        script.fault_events.sort_by_key(|(at, _)| *at);
        let resume = FaultEvent::Command(0, JobCommand::Resume);
        script.fault_events.push((LONG_PAUSE_MS, resume));
        script
    }

    /// A schedule with weather that lasts: ports that are unavailable or refuse for minutes, suspended processes, clocks that are
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

// One job with identical documents, an unreadable one and one listed twice; an interactive job; and one that requests a
// document of the first.
pub(super) fn job_list(small: bool, single_jobs: u32) -> Vec<(JobManifest, Vec<JobEntry>)> {
    let job = |name: &str, collection: &str, priority, documents: &[(u32, u64, u32)]| {
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
            priority,
            entries: entries.len() as u64,
            submitted_ms: 0,
            options: Default::default(),
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
