//! What was read a moment ago and does not change: pages that are open read it again every two seconds.

use std::time::Duration;

use moka::sync::Cache;
use stemma_engine::dead_letter::DeadLetter;
use stemma_store::JobId;

use crate::JobStatus;

// More than the newest jobs that a page counts, and the letters that it shows.
const MAX_ENTRIES: u64 = 1_000;
// `stemma gc` removes old jobs.
const JOB_AGE: Duration = Duration::from_secs(600);
// The task of a letter that was replayed may become a letter again, with the same key.
const LETTER_AGE: Duration = Duration::from_secs(60);

/// Jobs that have ended, with their collection, and dead letters by key.
pub(crate) struct RecentReads {
    pub(crate) ended_jobs: Cache<JobId, (String, JobStatus)>,
    pub(crate) letters: Cache<String, DeadLetter>,
}

impl Default for RecentReads {
    fn default() -> Self {
        let jobs = Cache::builder().max_capacity(MAX_ENTRIES);
        let letters = Cache::builder().max_capacity(MAX_ENTRIES);
        Self {
            ended_jobs: jobs.time_to_live(JOB_AGE).build(),
            letters: letters.time_to_live(LETTER_AGE).build(),
        }
    }
}
