//! The CPU time of a page.

use std::time::Duration;

use stemma_extract::{CpuTime, RecognizeRequest};

// For laying out the page, and for what this process used before it began to count.
const RESERVE: Duration = Duration::from_secs(2);

/// What is left for a page, over this process and the programs that it starts.
#[derive(Debug)]
pub(crate) struct CpuBudget {
    seconds: u64,
    before: Duration,
}

impl CpuBudget {
    pub(crate) fn start() -> Self {
        Self::for_seconds(RecognizeRequest::MAX_SECONDS.into())
    }

    pub(crate) fn for_seconds(seconds: u64) -> Self {
        Self {
            seconds,
            before: used(),
        }
    }

    /// Whether what can be left out has to be, so that the page is done before its process is ended.
    pub(crate) fn is_nearly_used_up(&self) -> bool {
        used().saturating_sub(self.before) + RESERVE >= Duration::from_secs(self.seconds)
    }

    /// Whole seconds, as limits of processes are; `None` if the budget is used up.
    pub(crate) fn seconds_left(&self) -> Option<u64> {
        let used = used().saturating_sub(self.before).as_secs_f64().round() as u64;
        let left = self.seconds.saturating_sub(used);
        (left > 0).then_some(left)
    }
}

// Where the system does not tell, each program has the whole budget.
fn used() -> Duration {
    let time = CpuTime::for_process(std::process::id()).unwrap_or_default();
    time.own + time.children
}
