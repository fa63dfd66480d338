//! The run before this one, if it was interrupted: the job it left behind goes on during this run.

use stemma_document::Collection;
use stemma_engine::jobs::{self, EntryCounts, JobReport, NewestJobs, SavedProgress};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::{JobId, PortResult};

/// The newest job, if it has the label of this run and has not ended.
pub async fn find(
    blobs: &dyn Blobs,
    collection: &Collection,
    label: &str,
    now_ms: Millis,
) -> PortResult<Option<JobId>> {
    let mut newest = NewestJobs::new(now_ms);
    let mut page = newest.next_page(blobs).await?;
    while page.as_ref().is_some_and(Vec::is_empty) {
        page = newest.next_page(blobs).await?;
    }
    let Some(job) = page.and_then(|page| page.into_iter().next()) else {
        return Ok(None);
    };
    if jobs::report(blobs, &job).await?.is_some() {
        return Ok(None);
    }
    let manifest = jobs::manifest(blobs, &job).await?;
    let is_same = manifest.is_some_and(|manifest| {
        manifest.collection == collection.as_str() && manifest.options.label == label
    });
    Ok(Some(job).filter(|_| is_same))
}

/// What became of its documents so far.
pub async fn counts(blobs: &dyn Blobs, job: &JobId) -> PortResult<EntryCounts> {
    match jobs::report(blobs, job).await? {
        Some(JobReport { counts, .. }) => Ok(counts),
        None => {
            let SavedProgress { counts, .. } = jobs::saved_progress(blobs, job).await?;
            Ok(counts)
        }
    }
}
