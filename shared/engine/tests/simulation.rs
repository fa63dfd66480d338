//! Simulated schedules full of faults must all end with the same bytes.
//!
//! Few run for a change, others each night (`tests/run schedules`). `STEMMA_SCHEDULES=100000` runs that many; `STEMMA_SEED=n` runs
//! one and prints its port calls.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stemma_engine_testing::fault::{FaultPlan, FaultRates, Outage, PortFault};
use stemma_engine_testing::simulation::{self, FaultEvent, SimulationScenario};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn print_calls(script: &SimulationScenario) {
    let listener = |n: u64, operation: &str, about: &str, fault: Option<PortFault>| {
        let fault = fault.map(|fault| format!("{fault:?}")).unwrap_or_default();
        println!("{n:6} {operation:20} {about} {fault}");
    };
    let ended = simulation::simulate_with_listener(script, Some(Box::new(listener)));
    println!("{:?}", ended.map(|ended| ended.counts));
}

#[test]
fn every_schedule_ends_with_the_same_bytes() {
    if let Some(seed) = number("STEMMA_SEED") {
        print_calls(&SimulationScenario::from_seed(seed));
        simulation::check(seed).unwrap_or_else(|violated| panic!("{violated}"));
        return;
    }
    let first = number("STEMMA_FIRST").unwrap_or(1);
    let schedules = number("STEMMA_SCHEDULES").unwrap_or(100);
    let started = std::time::Instant::now();
    in_parallel(first..first + schedules, |seed| {
        let ended = simulation::check(seed).unwrap_or_else(|violated| panic!("{violated}"));
        if seed % 50 == 0 {
            assert_eq!(
                simulation::check(seed).unwrap().log,
                ended.log,
                "seed {seed} was not reproducible"
            );
        }
    });
    println!(
        "{schedules} schedules in {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn paused_and_cancelled_jobs_do_not_affect_others() {
    if let Some(seed) = number("STEMMA_SEED") {
        print_calls(&SimulationScenario::controlled_from_seed(seed));
        simulation::check_controlled(seed).unwrap_or_else(|violated| panic!("{violated}"));
        return;
    }
    let first = number("STEMMA_FIRST").unwrap_or(1);
    let schedules = number("STEMMA_SCHEDULES").unwrap_or(60);
    let cut_short = AtomicU64::new(0);
    in_parallel(first..first + schedules, |seed| {
        let ended =
            simulation::check_controlled(seed).unwrap_or_else(|violated| panic!("{violated}"));
        cut_short.fetch_add(u64::from(ended.counts[0].cancelled > 0), Ordering::Relaxed);
    });
    let cut_short = cut_short.into_inner();
    println!("{cut_short} of {schedules} schedules ended early");
    assert!(
        cut_short > schedules / 4,
        "only {cut_short} of {schedules} schedules ended early"
    );
}

/// Ports away for minutes, refusals, suspended processes, wrong clocks, many small jobs.
#[test]
fn weather_that_lasts_changes_no_result() {
    if let Some(seed) = number("STEMMA_SEED") {
        print_calls(&SimulationScenario::weather_from_seed(seed));
        simulation::check_weather(seed).unwrap_or_else(|violated| panic!("{violated}"));
        return;
    }
    let first = number("STEMMA_FIRST").unwrap_or(1);
    let schedules = number("STEMMA_SCHEDULES").unwrap_or(12);
    in_parallel(first..first + schedules, |seed| {
        simulation::check_weather(seed).unwrap_or_else(|violated| panic!("{violated}"));
    });
}

/// What exceeds a budget is at most what was under way at a loss, no reservation stays, and a larger budget lets the job go on.
#[test]
fn a_budget_is_kept_through_losses_of_redis_and_workers() {
    if let Some(seed) = number("STEMMA_SEED") {
        print_calls(&SimulationScenario::budget_from_seed(seed));
        simulation::check_budget(seed).unwrap_or_else(|violated| panic!("{violated}"));
        return;
    }
    let first = number("STEMMA_FIRST").unwrap_or(1);
    let schedules = number("STEMMA_SCHEDULES").unwrap_or(20);
    let raises = AtomicU64::new(0);
    in_parallel(first..first + schedules, |seed| {
        let ended = simulation::check_budget(seed).unwrap_or_else(|violated| panic!("{violated}"));
        raises.fetch_add(u64::from(ended.raises), Ordering::Relaxed);
    });
    let raises = raises.into_inner();
    println!("{raises} raises in {schedules} schedules");
    assert!(raises >= 2 * schedules, "{raises} raises");
}

#[test]
fn any_single_port_call_may_fail() {
    let quiet = SimulationScenario {
        small: true,
        ..SimulationScenario::quiet()
    };
    let expected = simulation::simulate(&quiet).unwrap();
    in_parallel(1..expected.calls + 1, |call| {
        for fault in [
            PortFault::FailBefore,
            PortFault::FailAfter,
            PortFault::Duplicate,
            PortFault::Lose,
        ] {
            let script = SimulationScenario {
                plan: FaultPlan::nth(call, fault),
                ..quiet.clone()
            };
            let compared = simulation::simulate(&script)
                .and_then(|ended| simulation::compare(&ended, &expected));
            compared.unwrap_or_else(|violated| panic!("call {call}, {fault:?}: {violated}"));
        }
    });
    println!("{} calls", expected.calls);
}

/// Every message comes twice, so that two handlers do the same at once; one of them stops right before or right after each
/// create, while the other goes on to its end, or until leases have expired.
#[test]
fn handlers_of_one_message_may_pass_each_other_at_every_create() {
    let chances = FaultRates {
        duplicate: 1_000,
        ..FaultRates::default()
    };
    let quiet = SimulationScenario {
        small: number("STEMMA_SCHEDULES").is_none(),
        ..SimulationScenario::quiet()
    };
    let twice = SimulationScenario {
        plan: FaultPlan::random(1, chances),
        coordinators: 2,
        workers: 2,
        ..quiet.clone()
    };
    let creates = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&creates);
    let listener = Box::new(
        move |n: u64, operation: &str, _: &str, _: Option<PortFault>| {
            if operation == "blobs.put" {
                found.lock().unwrap().push(n);
            }
        },
    );
    simulation::simulate_with_listener(&twice, Some(listener)).unwrap();
    let creates = std::mem::take(&mut *creates.lock().unwrap());
    assert!(creates.len() > 20, "{} creates", creates.len());
    let holds = [1, 45, 150].map(Duration::from_secs);
    let faults = holds.map(|hold| [PortFault::Delay(hold), PortFault::DelayResult(hold)]);
    let expected = simulation::simulate(&quiet).unwrap();
    in_parallel(0..creates.len() as u64, |number| {
        let call = creates[number as usize];
        for fault in faults.into_iter().flatten() {
            let mut script = twice.clone();
            script.plan.calls.insert(call, fault);
            let compared = simulation::simulate(&script)
                .and_then(|ended| simulation::compare(&ended, &expected));
            compared.unwrap_or_else(|violated| panic!("call {call}, {fault:?}: {violated}"));
        }
    });
    println!("{} creates, {} orders", creates.len(), 6 * creates.len());
}

/// A job that has all slots is paused for long: others end meanwhile, and nothing of it is executed.
#[test]
fn a_paused_job_with_full_slots_stops_no_other() {
    if let Some(seed) = number("STEMMA_SEED") {
        print_calls(&SimulationScenario::paused_from_seed(seed));
        simulation::check_paused(seed).unwrap_or_else(|violated| panic!("{violated}"));
        return;
    }
    let first = number("STEMMA_FIRST").unwrap_or(1);
    let schedules = number("STEMMA_SCHEDULES").unwrap_or(12);
    in_parallel(first..first + schedules, |seed| {
        simulation::check_paused(seed).unwrap_or_else(|violated| panic!("{violated}"));
    });
}

#[test]
fn every_message_may_be_delivered_twice() {
    let chances = FaultRates {
        duplicate: 1_000,
        ..FaultRates::default()
    };
    let script = SimulationScenario {
        plan: FaultPlan::random(1, chances),
        ..SimulationScenario::quiet()
    };
    let ended = simulation::simulate(&script).unwrap();
    simulation::compare(&ended, simulation::expected().unwrap()).unwrap();
}

// Every task outlasts the outage, however often it is delivered meanwhile. Returns the longest time from its end until
// everything was done.
fn check_outage(operations: &'static str, during: Range<u64>, transient: bool) -> u64 {
    check_outage_in(&SimulationScenario::quiet(), operations, during, transient)
}

#[expect(clippy::panic, reason = "a test")]
fn check_outage_in(
    script: &SimulationScenario,
    operations: &'static str,
    during: Range<u64>,
    transient: bool,
) -> u64 {
    let longest_ms = AtomicU64::new(0);
    in_parallel(1..5, |seed| {
        let outage = Outage {
            operations,
            during: during.clone(),
            transient,
        };
        let script = SimulationScenario {
            seed,
            workers: 3,
            plan: FaultPlan {
                outages: vec![outage],
                ..FaultPlan::default()
            },
            ..script.clone()
        };
        let compared = simulation::simulate(&script).and_then(|ended| {
            let after_ms = ended.took_ms.saturating_sub(during.end);
            longest_ms.fetch_max(after_ms, Ordering::Relaxed);
            simulation::compare(&ended, simulation::expected()?)
        });
        compared.unwrap_or_else(|violated| panic!("seed {seed}, {operations}: {violated}"));
    });
    longest_ms.into_inner()
}

/// Suspended by their machine or by a debugger: their leases expire twice meanwhile, and they go on as if nothing had been.
#[test]
fn workers_that_are_all_frozen_for_71_seconds_fail_no_document() {
    for start in [2_000, 5_000, 12_000] {
        in_parallel(1..5, |seed| {
            let frozen = (1..=3).map(|worker| (start, FaultEvent::Stall(worker, 71_000)));
            let script = SimulationScenario {
                seed,
                workers: 3,
                fault_events: frozen.collect(),
                ..SimulationScenario::quiet()
            };
            let compared = simulation::simulate(&script)
                .and_then(|ended| simulation::compare(&ended, simulation::expected()?));
            compared.unwrap_or_else(|violated| panic!("seed {seed}, at {start}: {violated}"));
        });
    }
}

#[test]
fn a_store_that_is_away_for_minutes_fails_no_document() {
    // A call that takes minutes would say nothing about the outage.
    let script = SimulationScenario {
        no_slow_calls: true,
        ..SimulationScenario::quiet()
    };
    let after_ms = check_outage_in(&script, "blobs.", 5_000..900_000, true);
    assert!(
        after_ms <= 120_000,
        "done {after_ms} ms after fifteen minutes"
    );
}

#[test]
fn a_ledger_that_is_away_for_minutes_fails_no_document() {
    check_outage("ledger.", 5_000..600_000, true);
}

// Leases expire during the outage. Whoever calls the ledger first after it must leave running tasks to their holders.
#[test]
fn a_ledger_that_is_away_or_refuses_starts_no_task_twice() {
    for transient in [true, false] {
        for start in [3_000, 20_000] {
            for length in (86_000..=92_000).step_by(2_000) {
                check_outage("ledger.", start..start + length, transient);
            }
        }
    }
}

#[test]
fn a_store_that_refuses_access_fails_no_document() {
    for operations in ["blobs.put", "blobs."] {
        for start in [3_000, 20_000] {
            check_outage(operations, start..start + 90_000, false);
        }
    }
}

/// Runs `work` for every number, on all cores.
fn in_parallel(numbers: Range<u64>, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}
