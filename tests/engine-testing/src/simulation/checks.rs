//! The properties that every schedule of a kind must have.

use std::sync::OnceLock;

use stemma_store::env::Millis;

use super::scenario::{FAULTS_UNTIL_MS, LONG_PAUSE_MS};
use super::{SimulationResult, SimulationScenario, simulate};

// After the last fault, a lost message is repeated within this time, and a run learns that its job is paused.
const SETTLED_MS: Millis = FAULTS_UNTIL_MS + 600_000;
// Scopes of documents that jobs other than the first request.
const SHARED_SCOPES: [&str; 3] = ["c/x/d/3/", "c/y/d/0/", "c/y/d/4/"];

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
    let script = SimulationScenario::controlled_from_seed(seed);
    let ended = simulate(&script).map_err(|what| violation(&what, &script))?;
    let mut expected = expected()?.clone();
    if !seed.is_multiple_of(3) {
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

/// Runs a schedule in which the first job, which has all slots, is paused for a long time.
///
/// # Errors
/// The violated property.
pub fn check_paused(seed: u64) -> Result<SimulationResult, String> {
    let script = SimulationScenario::paused_from_seed(seed);
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
