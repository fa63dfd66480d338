//! Why a job is not done.

use crate::diagnosis::{Cause, Diagnosis, DiagnosisContext, JobFacts, Server};
use crate::jobs::{CancelReason, JobEndReason, JobWait, PauseReason};
use crate::queue::QueueName;

pub(super) fn ended_job(job: &JobFacts) -> Option<Diagnosis> {
    let report = job.report.as_ref()?;
    let failed = report.counts.failed;
    let cancelled = report.counts.cancelled;
    let nothing = "nothing: it has ended";
    let draft = match report.close {
        JobEndReason::Finished if failed > 0 => Diagnosis::new(
            Cause::Done,
            format!("it has ended; {failed} documents failed"),
            nothing,
        )
        .with_remedy(format!("stemma failures {} --by reason", job.job)),
        JobEndReason::Finished => Diagnosis::new(Cause::Done, "it has ended", nothing),
        JobEndReason::Cancelled => Diagnosis::new(
            Cause::Cancelled,
            format!("it was cancelled; {cancelled} documents were not done"),
            nothing,
        )
        .with_remedy("submit again, under another name if it had one; finished work is reused"),
        JobEndReason::TooManyFailed => Diagnosis::new(
            Cause::Failed,
            format!("it was stopped: {failed} documents failed, more than it allows"),
            nothing,
        )
        .with_remedy(format!("stemma failures {} --by reason", job.job)),
    };
    Some(draft.since(report.ended_ms))
}

pub(super) fn controlled_job(job: &JobFacts) -> Option<Diagnosis> {
    let control = &job.control;
    if let Some(cancelled) = control.cancelled {
        let why = match cancelled.reason {
            CancelReason::Person => "was cancelled",
            CancelReason::TooManyFailed => "was stopped: more documents failed than it allows",
        };
        let next = "running tasks finish and their results are kept";
        return Some(
            Diagnosis::new(Cause::Cancelled, format!("{} {why}", job.job), next)
                .since(cancelled.at_ms),
        );
    }
    let paused = control.paused?;
    let resume = format!("stemma job resume {}", job.job);
    let (cause, why, owner, remedy) = match paused.reason {
        PauseReason::Budget => (
            Cause::Budget,
            "has used up its budget",
            "the owner of the budget",
            format!("raise the budget, then: {resume}"),
        ),
        PauseReason::Credentials => (
            Cause::Paused,
            "is paused: the provider refused the key or the configuration",
            "the owner of the provider key",
            format!("correct the key, then: {resume}"),
        ),
        PauseReason::Person => (
            Cause::Paused,
            "was paused",
            "the person who paused it",
            resume,
        ),
    };
    let draft = Diagnosis::new(
        cause,
        format!("{} {why}", job.job),
        "nothing until it is resumed",
    );
    Some(
        draft
            .since(paused.since_ms)
            .owned_by(owner)
            .with_remedy(remedy),
    )
}

pub(super) fn no_coordinator(facts: &DiagnosisContext) -> Option<Diagnosis> {
    let alive = facts.processes.iter().any(|heartbeat| {
        matches!(heartbeat.service.as_str(), "coordinator" | "all") && !heartbeat.draining
    });
    (!alive).then(|| {
        Diagnosis::new(
            Cause::NoWorker,
            "no coordinator is alive",
            "continues when one is started",
        )
        .owned_by("the operator of the services")
        .with_remedy("start one: stemma coordinator")
    })
}

/// A coordinator lives, and none takes the messages of a job or run.
pub(super) fn untaken_queue(untaken: Option<QueueName>) -> Option<Diagnosis> {
    let queue = untaken?;
    let says = format!("the coordinator does not take its queue {queue}");
    Some(
        Diagnosis::new(
            Cause::NoWorker,
            says,
            "it subscribes to it again within seconds",
        )
        .owned_by("the operator of the services")
        .with_remedy("if it lasts, its log says why; restarting the coordinator loses nothing"),
    )
}

/// A job that has not ended and has no known open run.
pub(super) fn unopened_job(facts: &DiagnosisContext, job: &JobFacts) -> Diagnosis {
    if let Some(draft) = no_coordinator(facts).or_else(|| untaken_queue(job.untaken)) {
        return draft;
    }
    let Some(progress) = facts
        .jobs
        .iter()
        .find(|progress| progress.job == job.job && progress.entries > 0)
    else {
        return Diagnosis::new(
            Cause::Queued,
            "no coordinator has opened it yet",
            "one will within a minute",
        )
        .since(job.submitted_ms);
    };
    if let Some(wait) = &progress.waiting {
        return waiting_job(wait);
    }
    if progress.open > 0 {
        let open = progress.open;
        let ended = progress.counts.ended();
        return Diagnosis::new(
            Cause::Long,
            format!(
                "{open} documents are in progress, {ended} of {} ended",
                progress.entries
            ),
            "it continues",
        );
    }
    let others: u64 = facts
        .jobs
        .iter()
        .filter(|other| other.job != job.job)
        .map(|other| other.open)
        .sum();
    let busiest = facts
        .jobs
        .iter()
        .filter(|other| other.job != job.job)
        .max_by_key(|other| other.open);
    let says = format!("none of its documents is open yet; {others} documents of other jobs are");
    let draft = Diagnosis::new(
        Cause::Queued,
        says,
        "a document is opened when one of them ends",
    )
    .since(job.submitted_ms);
    match busiest {
        Some(other) => draft
            .owned_by(other.job.to_string())
            .with_remedy(format!("stemma job priority {} interactive", job.job)),
        None => draft,
    }
}

// Its coordinator repeats a call to a server that fails.
fn waiting_job(wait: &JobWait) -> Diagnosis {
    let says = format!("its coordinator waits for a server: {}", wait.reason);
    let draft = Diagnosis::new(Cause::ServerTrouble, says, "it is tried again every 5 s")
        .since(wait.since_ms);
    let port = wait.reason.split('.').next().unwrap_or_default();
    match Server::for_port(port) {
        Some(server) => draft
            .owned_by(format!("the operator of {}", server.name()))
            .with_remedy(server.check()),
        None => draft,
    }
}
