//! Claims of builders on snapshot numbers.
//!
//! The builder that first creates `claims/{seq}-{attempt}` makes snapshot `seq`, and renews the claim by further attempts.
//! Others wait until the snapshot exists, or claim it themselves once the claim has not been renewed for two minutes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_store::Env;
use stemma_store::blobs::{Blobs, PutOutcome, list_all};
use stemma_store::env::Millis;

use super::IndexError;

const RENEW_INTERVAL: Duration = Duration::from_secs(30);
// Four missed renewals mean that the builder has died.
const CLAIM_TTL_MS: Millis = 120_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BuildClaim {
    pub(super) at_ms: Millis,
}

// Returns the attempt that won, or `None` if another builder holds a live claim.
pub(super) async fn acquire(
    env: &Env,
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
) -> Result<Option<u64>, IndexError> {
    let now_ms = env.now_ms();
    let attempt = match newest(blobs, claims).await? {
        Some((number, attempt, claim)) if number == seq => {
            if claim.is_some_and(|claim| claim.at_ms + CLAIM_TTL_MS > now_ms) {
                return Ok(None);
            }
            attempt + 1
        }
        _ => 1,
    };
    Ok(put(blobs, claims, seq, attempt, now_ms)
        .await?
        .then_some(attempt))
}

// Renews a claim while it is polled. Ends only if the store refuses permanently.
pub(super) async fn renew(
    env: &Env,
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
    mut attempt: u64,
) -> IndexError {
    loop {
        env.sleep(RENEW_INTERVAL).await;
        attempt += 1;
        match put(blobs, claims, seq, attempt, env.now_ms()).await {
            Ok(_) => {}
            Err(IndexError::Port(error)) if error.is_transient() => {}
            Err(error) => return error,
        }
    }
}

async fn put(
    blobs: &dyn Blobs,
    claims: &str,
    seq: u64,
    attempt: u64,
    at_ms: Millis,
) -> Result<bool, IndexError> {
    let json = serde_json::to_vec(&BuildClaim { at_ms }).map_err(IndexError::damaged)?;
    Ok(blobs
        .put(&format!("{claims}{seq:012}-{attempt:06}.json"), json.into())
        .await?
        == PutOutcome::Created)
}

// Snapshot number, attempt and content of the newest claim; no content if it cannot be parsed. Nobody renews such a claim.
pub(super) async fn newest(
    blobs: &dyn Blobs,
    claims: &str,
) -> Result<Option<(u64, u64, Option<BuildClaim>)>, IndexError> {
    let keys = list_all(blobs, claims).await?;
    let newest = keys.iter().rev();
    let newest = newest
        .filter_map(|key| Some((key, parse_numbers(key)?)))
        .next();
    let Some((key, (seq, attempt))) = newest else {
        return Ok(None);
    };
    let claim = blobs
        .get(key)
        .await?
        .and_then(|json| serde_json::from_slice(&json).ok());
    Ok(Some((seq, attempt, claim)))
}

fn parse_numbers(key: &str) -> Option<(u64, u64)> {
    let name = key.rsplit('/').next()?.strip_suffix(".json")?;
    let (seq, attempt) = name.split_once('-')?;
    Some((seq.parse().ok()?, attempt.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use stemma_store::blobs::MemoryBlobs;

    use super::*;

    #[tokio::test]
    async fn a_claim_that_cannot_be_parsed_is_taken_over() {
        let env = Env::system();
        let blobs = MemoryBlobs::default();
        assert_eq!(acquire(&env, &blobs, "claims/", 7).await.unwrap(), Some(1));
        assert_eq!(acquire(&env, &blobs, "claims/", 7).await.unwrap(), None);
        let torn = bytes::Bytes::from_static(b"{\"at_ms\":");
        let key = format!("claims/{:012}-{:06}.json", 7, 2);
        blobs.put(&key, torn).await.unwrap();
        assert_eq!(acquire(&env, &blobs, "claims/", 7).await.unwrap(), Some(3));
    }
}
