//! Why a run is not done.

use super::job::{no_coordinator, untaken_queue};
use super::task::{open_task, task_since};
use crate::diagnosis::{Cause, Diagnosis, DiagnosisContext, RunFacts};
use crate::ledger::OpenTask;
use crate::message::RunOutcome;

// With fewer outcomes than this, the last open tasks do not count as stragglers.
const MIN_OUTCOMES: u64 = 4;

// The outcome of an ended run explains it.
pub(super) fn ended_run(run: &RunFacts) -> Option<Diagnosis> {
    let nothing = "nothing: it has ended";
    Some(match run.outcome.as_ref()? {
        RunOutcome::Done | RunOutcome::Unchanged => {
            Diagnosis::new(Cause::Done, "it is done", nothing)
        }
        RunOutcome::DoneWithGaps(gaps) => Diagnosis::new(
            Cause::Done,
            format!("it is done, with {gaps} gaps"),
            nothing,
        ),
        RunOutcome::Cancelled => Diagnosis::new(
            Cause::Cancelled,
            "the job that asked for it was cancelled",
            nothing,
        )
        .with_remedy("submit it again; finished work is reused"),
        RunOutcome::Failed(record) => {
            let says = format!(
                "{} failed: {}: {}",
                record.stage, record.code, record.message
            );
            match run.dead.first() {
                Some(letter) => dead_letter(&letter.id, &says).since(letter.at_ms),
                None if record.code == "engine.poison" => {
                    dead_letter("", &says).since(record.at_ms)
                }
                None => {
                    let draft = Diagnosis::new(Cause::Failed, says, nothing).since(record.at_ms);
                    Diagnosis {
                        remedy: record.next.clone(),
                        ..draft
                    }
                }
            }
        }
    })
}

fn dead_letter(id: &str, says: &str) -> Diagnosis {
    let replay = if id.is_empty() {
        "stemma dead-letters list".into()
    } else {
        format!("stemma dead-letters replay {id}")
    };
    Diagnosis::new(
        Cause::DeadLetter,
        format!("a task of it is a dead letter: {says}"),
        "nothing until it is replayed",
    )
    .owned_by("the operator of the workers")
    .with_remedy(format!(
        "look for crashes in the workers' logs, then: {replay}"
    ))
}

/// An open run: the hardest reason among its open tasks.
pub(super) fn unfinished_run(facts: &DiagnosisContext, run: &RunFacts) -> Diagnosis {
    if let Some(draft) = no_coordinator(facts).or_else(|| untaken_queue(run.untaken)) {
        return draft;
    }
    if run.tasks.is_empty() {
        if let Some(letter) = run.dead.first() {
            return dead_letter(&letter.id, &letter.reason).since(letter.at_ms);
        }
        let admitted = facts.jobs.iter().any(|job| job.runs.contains(&run.run));
        let (cause, says) = match admitted {
            true => (Cause::Long, "its next tasks are being determined"),
            false => (
                Cause::Queued,
                "it is claimed, but its first task has not been requested",
            ),
        };
        return Diagnosis::new(cause, says, "a coordinator checks it within a minute");
    }
    let reasons = run.tasks.iter().map(|task| open_task(facts, run, task));
    let hardest = reasons.min_by_key(|draft| (draft.cause, draft.since_ms));
    match hardest {
        Some(draft) if draft.cause == Cause::Long => straggler_or_busy(facts, run, draft),
        Some(draft) => draft,
        None => Diagnosis::new(Cause::Long, "it is in progress", "it continues"),
    }
}

/// Every open task is running or next in line: either a straggler, or simply much to do.
fn straggler_or_busy(facts: &DiagnosisContext, run: &RunFacts, draft: Diagnosis) -> Diagnosis {
    let open = run.tasks.len() as u64;
    let oldest = run
        .tasks
        .iter()
        .filter(|task: &&OpenTask| {
            task.lease
                .as_ref()
                .is_some_and(|(_, until_ms)| *until_ms > facts.now_ms)
        })
        .filter_map(|task| {
            let (holder, _) = task.lease.as_ref()?;
            let heartbeat = facts
                .processes
                .iter()
                .find(|heartbeat| heartbeat.process == *holder)?;
            Some((task_since(heartbeat, task)?, task, heartbeat))
        });
    let Some((since_ms, task, heartbeat)) = oldest.min_by_key(|(since_ms, ..)| *since_ms) else {
        return with_progress(run, draft);
    };
    let usual = facts
        .processes
        .iter()
        .filter_map(|heartbeat| heartbeat.stages.get(&task.stage))
        .map(|stage| stage.p95_ms)
        .max();
    let age = facts.now_ms.saturating_sub(since_ms);
    if run.present >= MIN_OUTCOMES
        && 10 * open <= run.present.max(10)
        && age > usual.unwrap_or(0).max(1_000)
    {
        let says = format!(
            "everything else is done; waiting for {open} of {} tasks: {}",
            run.present + open,
            task.stage
        );
        return Diagnosis::new(
            Cause::SiblingStage,
            says,
            "its next stage begins when that ends",
        )
        .owned_by(heartbeat.process.as_str())
        .since(since_ms);
    }
    let usual = usual
        .map(|p95| format!(" (p95 {:.1} s)", p95 as f64 / 1e3))
        .unwrap_or_default();
    let says = format!("{}{usual}", with_progress(run, draft.clone()).says);
    Diagnosis { says, ..draft }
}

fn with_progress(run: &RunFacts, draft: Diagnosis) -> Diagnosis {
    let open = run.tasks.len() as u64;
    let says = format!(
        "{}; {} of at least {} tasks are done",
        draft.says,
        run.present,
        run.present + open
    );
    Diagnosis { says, ..draft }
}
