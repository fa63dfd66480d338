//! Who builds for all: brings an index up to date and leaves a snapshot of it.
//!
//! Builders are elected by claims: whoever creates `claims/{seq}-{attempt}` first makes snapshot `seq`, and renews the claim
//! by further attempts; others wait until the snapshot is there, or until the claim was not renewed for two minutes, and
//! then claim it themselves. The claim only saves work: of two builders of one number, wrong clocks or not, one creates the
//! manifest, and the other reads it and goes on from there.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_engine::Env;
use stemma_engine::blobs::{Blobs, PutOutcome, list_all};
use stemma_engine::env::Millis;

use super::IndexError;
use super::local_index::{LocalIndex, OnProgress, SyncReport};
use super::snapshot::SnapshotUpload;
use stemma_catalog::catalog::Catalog;

/// A claim is renewed this often.
const RENEW_INTERVAL: Duration = Duration::from_secs(30);
/// A claim that was not renewed for so long was its owner's last.
const CLAIM_TTL_MS: Millis = 120_000;

/// Who makes a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BuildClaim {
    /// Since when, in milliseconds since 1970-01-01 UTC.
    pub(super) at_ms: Millis,
}

/// What a builder did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildOutcome {
    /// The newest snapshot says what the catalogue says.
    UpToDate,
    /// Another builder is at work on this number, or was first.
    InProgress(u64),
    /// A snapshot was left.
    Uploaded(SyncReport, SnapshotUpload),
}

/// Brings `local_index` up to `catalog` and leaves a snapshot, where there is something new and no one else is at it.
///
/// # Errors
/// [`IndexError`] when the store or the disk could not.
pub async fn build(
    env: &Env,
    blobs: &dyn Blobs,
    index: &LocalIndex,
    catalog: &Catalog,
    on_progress: OnProgress<'_>,
) -> Result<BuildOutcome, IndexError> {
    let newest = index.snapshots.newest().await?;
    if let Some(newest) = &newest {
        index.rebase_on(newest).await?;
        if index.matches(&newest.1, catalog).await? {
            return Ok(BuildOutcome::UpToDate);
        }
    }
    let seq = newest.as_ref().map_or(0, |(seq, _)| *seq) + 1;
    let claims = index.snapshots.folder_key("claims");
    let Some(attempt) = acquire_claim(env, blobs, &claims, seq).await? else {
        return Ok(BuildOutcome::InProgress(seq));
    };
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
        lost = renew_claim(env, blobs, &claims, seq, attempt) => Err(lost),
    }
}

/// Claims a number; the attempt that won, `None` when someone else is at it.
async fn acquire_claim(
    env: &Env,
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
) -> Result<Option<u64>, IndexError> {
    let now_ms = env.now_ms();
    let attempt = match newest_build_claim(blobs, claims).await? {
        Some((number, _, claim)) if number == seq && claim.at_ms + CLAIM_TTL_MS > now_ms => {
            return Ok(None);
        }
        Some((number, attempt, _)) if number == seq => attempt + 1,
        _ => 1,
    };
    Ok(put_claim(blobs, claims, seq, attempt, now_ms)
        .await?
        .then_some(attempt))
}

/// Renews a claim for as long as it is polled; ends when the store refuses.
async fn renew_claim(
    env: &Env,
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
    mut attempt: u64,
) -> IndexError {
    loop {
        env.sleep(RENEW_INTERVAL).await;
        attempt += 1;
        match put_claim(blobs, claims, seq, attempt, env.now_ms()).await {
            Ok(_) => {}
            Err(IndexError::Port(error)) if error.transient => {}
            Err(error) => return error,
        }
    }
}

async fn put_claim(
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
    attempt: u64,
    at_ms: Millis,
) -> Result<bool, IndexError> {
    let json = serde_json::to_vec(&BuildClaim { at_ms })
        .map_err(|error| IndexError::Damaged(error.to_string()))?;
    Ok(blobs
        .put(&format!("{claims}{seq:012}-{attempt:06}.json"), json.into())
        .await?
        == PutOutcome::Created)
}

/// The newest claim: number, attempt, and since when.
pub(super) async fn newest_build_claim(
    blobs: &dyn Blobs,
    claims: &str,
) -> Result<Option<(u64, u64, BuildClaim)>, IndexError> {
    let keys = list_all(blobs, claims).await?;
    let Some(key) = keys.last() else {
        return Ok(None);
    };
    let name = key
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".json");
    let numbers = name
        .split_once('-')
        .and_then(|(seq, attempt)| Some((seq.parse().ok()?, attempt.parse().ok()?)));
    let claim = blobs
        .get(key)
        .await?
        .and_then(|json| serde_json::from_slice(&json).ok());
    Ok(numbers
        .zip(claim)
        .map(|((seq, attempt), claim)| (seq, attempt, claim)))
}
