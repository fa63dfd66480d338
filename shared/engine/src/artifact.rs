//! Artifacts: results of stages. Each is written once as one object, with the outcome first and the blobs behind it.
//!
//! ```text
//! "STA1" · u32 length of header (LE) · 32 bytes BLAKE3 of header · header (JSON) · blob · blob …
//! header = { "outcome": …, "blobs": [ { "name", "bytes", "digest" } ] }
//! ```
//! A single object makes the write atomic on every store. Objects are not synced one by one, so the digests detect what
//! a power loss has torn: a torn artifact is removed and counts as missing, and its task runs again.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::blobs::{Blobs, PutOutcome};
use crate::failure::Failure;
use crate::key::{TaskKey, artifact_key};
use crate::port_error::{PortError, PortResult};

/// Maximum size of an outcome in bytes of JSON: outcomes travel through the ledger.
pub const MAX_OUTCOME_BYTES: usize = 64 * 1024;

const MAGIC: &[u8; 4] = b"STA1";
const PREFIX_BYTES: usize = 4 + 4 + 32;
// Size of the first read; most headers fit in it.
const FIRST_READ_BYTES: u64 = 8 * 1024;

#[derive(Serialize, Deserialize)]
struct ArtifactHeader {
    outcome: Box<RawValue>,
    blobs: Vec<BlobEntry>,
}

#[derive(Serialize, Deserialize)]
struct BlobEntry {
    name: String,
    bytes: u64,
    digest: String,
}

/// A result of a stage, ready to be stored.
pub struct Artifact {
    /// The outcome as JSON.
    pub outcome: Bytes,
    object: Bytes,
    // Separate objects written together with the artifact.
    records: Vec<(String, Bytes)>,
}

impl Artifact {
    /// Encodes an outcome and its blobs.
    ///
    /// # Errors
    /// A permanent [`Failure`] when the outcome is invalid JSON or larger than [`MAX_OUTCOME_BYTES`].
    pub fn new(outcome: &[u8], blobs: &[(&'static str, Bytes)]) -> Result<Self, Failure> {
        if outcome.len() > MAX_OUTCOME_BYTES {
            let message = format!(
                "an outcome of {} bytes is over the limit of {MAX_OUTCOME_BYTES}",
                outcome.len()
            );
            return Err(Failure::permanent("engine.outcome_too_large", message));
        }
        let head = ArtifactHeader {
            outcome: serde_json::from_slice(outcome).map_err(|error| invalid_outcome(&error))?,
            blobs: blobs
                .iter()
                .map(|(name, bytes): &(&'static str, Bytes)| BlobEntry {
                    name: (*name).into(),
                    bytes: bytes.len() as u64,
                    digest: blake3::hash(bytes).to_hex().to_string(),
                })
                .collect(),
        };
        let head = serde_json::to_vec(&head).map_err(|error| invalid_outcome(&error))?;
        let length = u32::try_from(head.len())
            .map_err(|error| Failure::permanent("engine.head", error.to_string()))?;
        let mut object = Vec::with_capacity(PREFIX_BYTES + head.len());
        object.extend_from_slice(MAGIC);
        object.extend_from_slice(&length.to_le_bytes());
        object.extend_from_slice(blake3::hash(&head).as_bytes());
        object.extend_from_slice(&head);
        for (_, bytes) in blobs {
            object.extend_from_slice(bytes);
        }
        Ok(Self {
            outcome: Bytes::copy_from_slice(outcome),
            object: object.into(),
            records: Vec::new(),
        })
    }

    /// Adds objects to be written together with the artifact.
    #[must_use]
    pub fn with_records(self, records: Vec<(String, Bytes)>) -> Self {
        Self { records, ..self }
    }

    /// Stores the artifact and its records concurrently, each create-only. Returns the outcome that counts: ours, or
    /// that of the writer who was first (I-2).
    pub async fn store(&self, blobs: &dyn Blobs, scope: &str, key: &TaskKey) -> PortResult<Bytes> {
        let records = self
            .records
            .iter()
            .map(|(name, bytes)| blobs.put(name, bytes.clone()));
        let (outcome, records) = tokio::join!(
            self.store_object(blobs, scope, key),
            futures::future::try_join_all(records)
        );
        records.and(outcome)
    }

    async fn store_object(
        &self,
        blobs: &dyn Blobs,
        scope: &str,
        key: &TaskKey,
    ) -> PortResult<Bytes> {
        let name = artifact_key(scope, key);
        for _ in 0..2 {
            if blobs.put(&name, self.object.clone()).await? == PutOutcome::Created {
                return Ok(self.outcome.clone());
            }
            // An existing artifact that cannot be read is torn: reading removes it, and ours takes its place.
            if let Some(outcome) = outcome(blobs, scope, key).await? {
                return Ok(outcome);
            }
        }
        Err(PortError::transient(
            "blobs.put",
            format!("{name}: exists, but cannot be read"),
        ))
    }
}

/// The outcome of an artifact; `None` when it does not exist (a torn one is removed).
pub async fn outcome(blobs: &dyn Blobs, scope: &str, key: &TaskKey) -> PortResult<Option<Bytes>> {
    let name = artifact_key(scope, key);
    let head = read_header(blobs, &name).await?;
    Ok(head.map(|(head, _)| Bytes::from(Box::<str>::from(head.outcome).into_string())))
}

/// A blob of an artifact; `None` when either does not exist.
///
/// # Errors
/// [`PortError`] when the store cannot be read, or the blob is torn (the artifact is then removed).
pub async fn blob(
    blobs: &dyn Blobs,
    scope: &str,
    key: &TaskKey,
    blob: &str,
) -> PortResult<Option<Bytes>> {
    let name = artifact_key(scope, key);
    let Some((head, mut at)) = read_header(blobs, &name).await? else {
        return Ok(None);
    };
    for entry in head.blobs {
        if entry.name == blob {
            let bytes = blobs
                .get_range(&name, at..at + entry.bytes)
                .await?
                .unwrap_or_default();
            if blake3::hash(&bytes).to_hex().as_str() == entry.digest {
                return Ok(Some(bytes));
            }
            remove_torn(blobs, &name).await?;
            return Err(PortError::permanent(
                "blobs.get",
                format!("{name}: blob `{blob}` is torn; run again to recreate it"),
            ));
        }
        at += entry.bytes;
    }
    Ok(None)
}

/// The header, and the offset of the first blob.
async fn read_header(blobs: &dyn Blobs, name: &str) -> PortResult<Option<(ArtifactHeader, u64)>> {
    let Some(first) = blobs.get_range(name, 0..FIRST_READ_BYTES).await? else {
        return Ok(None);
    };
    let parsed = match header_length(&first) {
        None => None,
        Some(length) if PREFIX_BYTES + length <= first.len() => parse_header(&first, length),
        Some(length) => {
            let whole = blobs
                .get_range(name, 0..(PREFIX_BYTES + length) as u64)
                .await?
                .unwrap_or_default();
            parse_header(&whole, length)
        }
    };
    if parsed.is_none() {
        remove_torn(blobs, name).await?;
    }
    Ok(parsed)
}

fn header_length(first: &[u8]) -> Option<usize> {
    let length = first.strip_prefix(MAGIC)?.first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (length <= 4 * MAX_OUTCOME_BYTES).then_some(length)
}

fn parse_header(bytes: &[u8], length: usize) -> Option<(ArtifactHeader, u64)> {
    let digest = bytes.get(8..PREFIX_BYTES)?;
    let head = bytes.get(PREFIX_BYTES..PREFIX_BYTES + length)?;
    if blake3::hash(head).as_bytes() != digest {
        return None;
    }
    Some((
        serde_json::from_slice(head).ok()?,
        (PREFIX_BYTES + length) as u64,
    ))
}

async fn remove_torn(blobs: &dyn Blobs, name: &str) -> PortResult<()> {
    tracing::warn!(
        artifact = name,
        "removed a torn artifact; its task will run again"
    );
    blobs.delete(name).await
}

fn invalid_outcome(error: &serde_json::Error) -> Failure {
    Failure::permanent("engine.outcome_invalid", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::MemoryBlobs;

    fn key() -> TaskKey {
        TaskKey::builder("test", 1).finish()
    }

    fn artifact() -> Artifact {
        Artifact::new(
            br#"{"n":1}"#,
            &[
                ("a", Bytes::from_static(b"first")),
                ("b", Bytes::from_static(b"second")),
            ],
        )
        .unwrap()
    }

    #[tokio::test]
    async fn stored_artifact_can_be_read() {
        let blobs = MemoryBlobs::default();
        artifact().store(&blobs, "c/d", &key()).await.unwrap();
        assert_eq!(
            outcome(&blobs, "c/d", &key())
                .await
                .unwrap()
                .unwrap()
                .as_ref(),
            br#"{"n":1}"#
        );
        assert_eq!(
            blob(&blobs, "c/d", &key(), "b")
                .await
                .unwrap()
                .unwrap()
                .as_ref(),
            b"second"
        );
        assert_eq!(blob(&blobs, "c/d", &key(), "c").await.unwrap(), None);
    }

    #[tokio::test]
    async fn losing_writer_gets_the_stored_outcome() {
        let blobs = MemoryBlobs::default();
        artifact().store(&blobs, "s", &key()).await.unwrap();
        let second = Artifact::new(br#"{"n":2}"#, &[]).unwrap();
        assert_eq!(
            second.store(&blobs, "s", &key()).await.unwrap().as_ref(),
            br#"{"n":1}"#
        );
    }

    #[tokio::test]
    async fn torn_artifact_is_removed_and_can_be_rewritten() {
        for torn in [&b""[..], b"STA1", &[0u8; 100], b"STA1\xff\xff\xff\xff"] {
            let blobs = MemoryBlobs::default();
            blobs
                .put(&artifact_key("s", &key()), Bytes::from(torn.to_vec()))
                .await
                .unwrap();
            assert_eq!(outcome(&blobs, "s", &key()).await.unwrap(), None);
            assert_eq!(
                artifact()
                    .store(&blobs, "s", &key())
                    .await
                    .unwrap()
                    .as_ref(),
                br#"{"n":1}"#
            );
        }
    }

    #[tokio::test]
    async fn records_are_written_once() {
        let blobs = MemoryBlobs::default();
        let recorded =
            artifact().with_records(vec![("calls/one".into(), Bytes::from_static(b"1"))]);
        for _ in 0..2 {
            recorded.store(&blobs, "s", &key()).await.unwrap();
        }
        assert_eq!(
            blobs.get("calls/one").await.unwrap().unwrap().as_ref(),
            b"1"
        );
        assert_eq!(blobs.snapshot().len(), 2);
    }

    #[tokio::test]
    async fn large_header_is_read_in_two_requests() {
        let blobs = MemoryBlobs::default();
        let large = format!("\"{}\"", "x".repeat(60_000));
        Artifact::new(large.as_bytes(), &[])
            .unwrap()
            .store(&blobs, "s", &key())
            .await
            .unwrap();
        assert_eq!(
            outcome(&blobs, "s", &key()).await.unwrap().unwrap().len(),
            large.len()
        );
        assert!(Artifact::new(format!("\"{}\"", "x".repeat(70_000)).as_bytes(), &[]).is_err());
    }
}
