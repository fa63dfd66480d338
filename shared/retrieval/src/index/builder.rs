//! Builds the index for all processes: brings the shards of a local index up to date and uploads a snapshot of each.
//!
//! Builders are elected by claims, one for each shard (`claim.rs`), so that several builders share the work. A claim only saves work: if two builders work on the same number, one
//! of them creates the manifest, and the other continues from it.

use stemma_store::Env;
use stemma_store::blobs::Blobs;

use super::shard_index::{OnProgress, ShardIndex, SyncReport};
use super::snapshot::SnapshotUpload;
use super::{IndexError, claim};
use stemma_catalog::catalog::Catalog;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildOutcome {
    /// The newest snapshot matches the catalog.
    UpToDate,
    /// Another builder works on this snapshot number of the shard, or finished it first.
    InProgress(u64),
    Uploaded(SyncReport, SnapshotUpload),
}

/// Brings a shard up to date with `catalog` and uploads a snapshot, if there are changes and no other builder is at work on it.
///
/// # Errors
/// [`IndexError`] if the store or the disk fails.
pub async fn build(
    env: &Env,
    blobs: &dyn Blobs,
    index: &ShardIndex,
    catalog: &Catalog,
    on_progress: OnProgress<'_>,
) -> Result<BuildOutcome, IndexError> {
    let newest = index.snapshots().newest().await?;
    if let Some(newest) = &newest {
        index.rebase_on(newest).await?;
        if index.matches(&newest.1, catalog).await? {
            return Ok(BuildOutcome::UpToDate);
        }
    }
    let seq = newest.as_ref().map_or(0, |(seq, _)| *seq) + 1;
    let claims = index.snapshots().folder_key("claims");
    let Some(attempt) = claim::acquire(env, blobs, &claims, seq).await? else {
        return Ok(BuildOutcome::InProgress(seq));
    };
    // A snapshot is shared, so it must be complete: nothing is uploaded while documents are unavailable.
    let work = async {
        let report = index.sync(catalog, on_progress).await?;
        let uploaded = if report.missing > 0 {
            None
        } else {
            index.upload_snapshot(newest.as_ref(), env.now_ms()).await?
        };
        Ok(uploaded.map_or(BuildOutcome::InProgress(seq), |uploaded| {
            BuildOutcome::Uploaded(report, uploaded)
        }))
    };
    tokio::select! {
        built = work => built,
        lost = claim::renew(env, blobs, &claims, seq, attempt) => Err(lost),
    }
}
