//! What was read a moment ago and does not change: pages that are open read it again every two seconds.

use stemma_engine::dead_letter::DeadLetter;
use stemma_store::JobId;
use stemma_store::cache::Cache;
use stemma_store::env::Millis;

use crate::JobStatus;

// Of each: more than the newest jobs that a page counts, and the letters that it shows.
const MAX_BYTES: usize = 2 << 20;
/// What an entry takes, about.
pub(crate) const ENTRY_BYTES: usize = 2 << 10;
// `stemma gc` removes old jobs.
const JOB_AGE_MS: Millis = 600_000;
// The task of a letter that was replayed may become a letter again, with the same key.
const LETTER_AGE_MS: Millis = 60_000;

/// Jobs that have ended, with their collection, and dead letters by key.
pub(crate) struct RecentReads {
    pub(crate) ended_jobs: Cache<JobId, (String, JobStatus)>,
    pub(crate) letters: Cache<String, DeadLetter>,
}

impl Default for RecentReads {
    fn default() -> Self {
        Self {
            ended_jobs: Cache::new(MAX_BYTES, JOB_AGE_MS),
            letters: Cache::new(MAX_BYTES, LETTER_AGE_MS),
        }
    }
}
