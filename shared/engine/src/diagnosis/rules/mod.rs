//! The diagnosis rules. Each open task of a run has one reason; the cause is the reason that is hardest to overcome.
//! Reasons that pass by themselves within seconds never outrank one that does not.

mod job;
mod provider;
mod run;
mod server;
mod task;

use stemma_store::env::Millis;

use super::{Cause, Diagnosis, DiagnosisContext};
use job::{controlled_job, ended_job, unopened_job};
use provider::{last_minute_usage, models};
use run::{ended_run, unfinished_run};
use server::server_trouble;

/// Explains why the run, or else the job, is not done.
pub fn diagnose(facts: &DiagnosisContext) -> Diagnosis {
    let draft = match (&facts.run, &facts.job) {
        (Some(run), job) => ended_run(run)
            .or_else(|| job.as_ref().and_then(controlled_job))
            .or_else(|| server_trouble(facts))
            .unwrap_or_else(|| unfinished_run(facts, run)),
        (None, Some(job)) => ended_job(job)
            .or_else(|| controlled_job(job))
            .or_else(|| server_trouble(facts))
            .unwrap_or_else(|| unopened_job(facts, job)),
        (None, None) => server_trouble(facts).unwrap_or_else(|| {
            Diagnosis::new(
                Cause::Queued,
                "it has not been opened yet",
                "a coordinator will open it",
            )
        }),
    };
    Diagnosis {
        not_the_cause: ruled_out(facts, draft.cause),
        ..draft
    }
}

impl Diagnosis {
    fn new(cause: Cause, says: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            cause,
            says: says.into(),
            since_ms: None,
            owner: None,
            next: next.into(),
            next_ms: None,
            not_the_cause: Vec::new(),
            remedy: None,
        }
    }

    fn since(mut self, at_ms: Millis) -> Self {
        self.since_ms = Some(at_ms);
        self
    }

    fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    fn next_at(mut self, next_ms: Millis) -> Self {
        self.next_ms = Some(next_ms);
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Checks that passed.
fn ruled_out(facts: &DiagnosisContext, cause: Cause) -> Vec<String> {
    let mut fine = Vec::new();
    if matches!(cause, Cause::Done | Cause::Failed | Cause::Cancelled) {
        return fine;
    }
    let workers = facts
        .processes
        .iter()
        .filter(|heartbeat| matches!(heartbeat.service.as_str(), "worker" | "all"))
        .count();
    if workers > 0 && !matches!(cause, Cause::NoWorker | Cause::SilentWorker) {
        fine.push(format!("{workers} workers alive"));
    }
    if models(facts).next().is_some() {
        if models(facts).all(|(_, model)| {
            model
                .breaker_open_until_ms
                .is_none_or(|until| until <= facts.now_ms)
        }) {
            fine.push("breaker closed".into());
        }
        if cause != Cause::RateLimit {
            fine.extend(models(facts).next().map(|(name, model)| {
                format!(
                    "{name}: {} of {} requests in the last minute",
                    last_minute_usage(facts, name).0,
                    model.requests_limit
                )
            }));
        }
        if cause != Cause::ProviderSlow {
            let p95 = models(facts)
                .map(|(_, model)| model.p95_ms)
                .max()
                .unwrap_or(0);
            fine.push(format!("provider p95 {:.1} s", p95 as f64 / 1e3));
        }
    }
    let retrying = facts
        .run
        .iter()
        .flat_map(|run| &run.tasks)
        .any(|task| task.retry.is_some());
    if facts.run.is_some() && !retrying {
        fine.push("no retry pending".into());
    }
    if facts
        .job
        .as_ref()
        .is_some_and(|job| job.control.is_running())
    {
        fine.push("the job is neither paused nor cancelled".into());
    }
    fine
}
