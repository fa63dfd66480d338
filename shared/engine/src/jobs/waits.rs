//! Why a job does not go on: port calls that failed and are repeated until they succeed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use stemma_store::env::Millis;
use stemma_store::port_error::PortError;

// How long a job is left alone after a failed call. The call itself was repeated for about three seconds.
const RETRY_AFTER_MS: Millis = 5_000;

/// Why admission of a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobWait {
    /// The error of the failed call, as a sentence.
    pub reason: String,
    /// The first of the failed calls.
    pub since_ms: Millis,
}

/// What a coordinator does for a job. A later success ends the wait that a failure of the same step began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobStep {
    Load,
    ReadControl,
    ReadEntries,
    ClaimEntry,
    StartRun,
    Save,
}

/// The failed steps of a job.
#[derive(Debug, Default)]
pub(crate) struct JobWaits(BTreeMap<JobStep, (JobWait, Millis)>);

impl JobWaits {
    /// Notes a failure. Returns whether the step did not fail before.
    pub(crate) fn failed(&mut self, step: JobStep, error: &PortError, now: Millis) -> bool {
        let is_new = !self.0.contains_key(&step);
        let (wait, retry_ms) = self.0.entry(step).or_insert_with(|| {
            let wait = JobWait {
                reason: String::new(),
                since_ms: now,
            };
            (wait, now)
        });
        wait.reason = error.to_string();
        *retry_ms = now + RETRY_AFTER_MS;
        is_new
    }

    pub(crate) fn succeeded(&mut self, step: JobStep) {
        self.0.remove(&step);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the job waits and nothing is to be tried yet.
    pub(crate) fn holds(&self, now: Millis) -> bool {
        self.0.values().any(|(_, retry_ms)| *retry_ms > now)
    }

    /// The wait that began first.
    pub(crate) fn longest(&self) -> Option<&JobWait> {
        let waits = self.0.values().map(|(wait, _)| wait);
        waits.min_by_key(|wait| wait.since_ms)
    }
}
