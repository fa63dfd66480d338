//! Garbage collection: finds objects that neither a readable tree nor an open run needs.
//!
//! It retains the last two trees of each document with their text and correction, the claims of these and of the last two
//! versions, all objects of a document whose newest claim has no tree yet, what the run of an open job may need, and
//! everything that became superfluous less than seven days ago. That moment comes from change records and job reports,
//! because stores do not tell the age of an object. Model answers stay as long as their document: trees do not record
//! which answers they used, and answers cost money. Ended jobs go as a whole after a time of their own, and submissions that
//! were broken off after a week ([`JobGarbage`]). Originals stay as long as a claim, a tree or an open job names them, and a
//! week longer ([`OriginalGarbage`]).
//!
//! What is found may be needed again before it is removed: a document is submitted once more, and its run reuses what is
//! there. [`DocumentGarbage::remove`] therefore looks for new claims right before it deletes. Whatever a removal leaves when
//! it is interrupted is found by the next one.

mod documents;
mod failures;
mod history;
mod jobs;
#[cfg(test)]
mod observed_blobs;
mod originals;
#[cfg(test)]
mod retention_tests;
#[cfg(test)]
mod tests;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::Collection;
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

use history::Horizon;

pub use documents::DocumentGarbage;
pub use jobs::JobGarbage;
pub use originals::OriginalGarbage;

/// How long an object stays after it became superfluous.
pub const GRACE_MS: Millis = 7 * DAY_MS;
/// How long an ended job stays, unless said otherwise: a quarter, for whoever asks what happened to a document.
pub const JOB_RETENTION_DAYS: u64 = 90;
const DAY_MS: Millis = 24 * 3_600_000;
const MAX_CONCURRENT_READS: usize = 32;
const MAX_CONCURRENT_DELETES: usize = 16;

/// An object that can be deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbageObject {
    pub key: String,
    /// One of `superseded tree`, `superseded text`, `superseded correction`, `superseded claim`, `removed document`,
    /// `superseded failure`, `ended job`, `unfinished submission`, `unused original`, `mark of an original`.
    pub reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageReport {
    pub documents: Vec<DocumentGarbage>,
    pub jobs: Vec<JobGarbage>,
    /// Failures of runs that a later version superseded.
    pub failures: Vec<GarbageObject>,
    pub originals: OriginalGarbage,
    /// When a document of the collection was last removed.
    pub removed_ms: Option<Millis>,
}

impl GarbageReport {
    /// How many marks are to be written.
    pub fn marks(&self) -> usize {
        let of_jobs = self.jobs.iter().map(|garbage| garbage.marks.len());
        of_jobs.sum::<usize>() + self.originals.marks.len()
    }

    pub fn objects(&self) -> impl Iterator<Item = &GarbageObject> {
        let documents = self.documents.iter().flat_map(|garbage| &garbage.objects);
        let jobs = self.jobs.iter().flat_map(|garbage| &garbage.objects);
        let others = self.failures.iter().chain(&self.originals.objects);
        documents.chain(jobs).chain(others)
    }
}

/// Finds the garbage of a collection as of `now_ms`. Deletes nothing. Ended jobs stay for `job_retention_ms`.
pub async fn find_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
    job_retention_ms: Millis,
) -> PortResult<GarbageReport> {
    // First: a job that has ended by now has made its claims.
    let jobs = jobs::find(blobs, collection, now_ms, job_retention_ms).await?;
    let horizon = Horizon::new(now_ms, &jobs.open);
    let originals = originals::find(blobs, collection, &jobs.open, now_ms).await?;
    let histories = history::load(blobs, collection).await?;
    let removed_ms = history::last_removal_ms(&histories);
    let failures = failures::superseded(blobs, &histories, horizon).await?;
    let documents = stream::iter(histories)
        .map(|(doc, history)| documents::find(blobs, collection, doc, history, horizon, now_ms))
        .buffered(MAX_CONCURRENT_READS)
        .try_filter_map(async |garbage| Ok(garbage))
        .try_collect()
        .await?;
    Ok(GarbageReport {
        documents,
        jobs: jobs.garbage,
        failures,
        originals,
        removed_ms,
    })
}

/// Deletes objects, many at once.
///
/// # Errors
/// [`stemma_engine::PortError`] of the first deletion that failed.
pub async fn delete_all(
    blobs: &dyn Blobs,
    objects: impl IntoIterator<Item = &GarbageObject>,
) -> PortResult<()> {
    stream::iter(objects)
        .map(|garbage| blobs.delete(&garbage.key))
        .buffer_unordered(MAX_CONCURRENT_DELETES)
        .try_collect()
        .await
}

fn is_past_grace(at_ms: Millis, now_ms: Millis) -> bool {
    at_ms + GRACE_MS < now_ms
}
