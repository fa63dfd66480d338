//! Artifacts: results of stages. Each is written once as one object, with the outcome first and the blobs behind it.
//!
//! ```text
//! "STA1" · u32 length of header (LE) · 32 bytes BLAKE3 of header · header (JSON) · blob · blob …
//! header = { "outcome": …, "blobs": [ { "name", "bytes", "digest" } ] }
//! ```
//! A single object makes the write atomic on every store. Objects are not synced one by one, so the digests detect what
//! a power loss has torn: a torn artifact counts as missing, and its task runs again. Nothing is deleted, because a role
//! may not be allowed to: the next copy is written next to it as `{key}.1`, and where only a blob is torn, behind an intact
//! header, an empty object `{key}.torn` tells those who read no blobs. An object of an unknown format is not torn: a newer
//! program wrote it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::blobs::{Blobs, PutOutcome};
use crate::failure::Failure;
use crate::key::{TaskKey, artifact_key};
use crate::port_error::{PortError, PortResult};
use crate::work;

/// Maximum size of an outcome in bytes of JSON: outcomes travel through the ledger.
pub const MAX_OUTCOME_BYTES: usize = 64 * 1024;

const MAGIC: &[u8; 4] = b"STA1";
const PREFIX_BYTES: usize = 4 + 4 + 32;
// Size of the first read; most headers fit in it.
const FIRST_READ_BYTES: u64 = 8 * 1024;
// No program writes a larger header, so a length above this one is torn.
const MAX_HEADER_BYTES: usize = 16 << 20;
// Copies of an artifact. A store that tears so many loses what it is given, and a person has to look at it.
const MAX_COPIES: u32 = 5;

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

    /// The artifact and its records as bytes that [`Self::from_bytes`] reads: name and content of each, the artifact
    /// first and without a name, each with its length (u32, LE).
    pub fn to_bytes(&self) -> Bytes {
        let artifact = (String::new(), self.object.clone());
        let mut bytes = Vec::new();
        for (name, content) in std::iter::once(&artifact).chain(&self.records) {
            for part in [name.as_bytes(), content] {
                bytes.extend_from_slice(
                    &u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes(),
                );
                bytes.extend_from_slice(part);
            }
        }
        bytes.into()
    }

    /// `None` if the bytes are damaged, or of another program.
    pub fn from_bytes(bytes: &Bytes) -> Option<Self> {
        let mut at = 0;
        let mut next = || {
            let length = bytes.get(at..)?.first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let part = at + 4..(at + 4).checked_add(length)?;
            at = part.end;
            (part.end <= bytes.len()).then(|| bytes.slice(part))
        };
        next()?;
        let object = next()?;
        let head = intact_header(&object, header_length(&object)?)?;
        let head: ArtifactHeader = serde_json::from_slice(head).ok()?;
        let mut records = Vec::new();
        while let Some(name) = next() {
            records.push((String::from_utf8(name.to_vec()).ok()?, next()?));
        }
        Some(Self {
            outcome: head.into_outcome(),
            object,
            records,
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
        let mut name = artifact_key(scope, key);
        for _ in 0..=MAX_COPIES {
            if blobs.put(&name, self.object.clone()).await? == PutOutcome::Created {
                return Ok(self.outcome.clone());
            }
            match find_copy(blobs, scope, key).await? {
                Lookup::Found(head) => return Ok(head.into_outcome()),
                Lookup::Missing { next } => name = next,
            }
        }
        Err(PortError::transient(
            "blobs.put",
            format!("{name}: exists, but cannot be read"),
        ))
    }
}

/// The outcome of an artifact; `None` when it does not exist, or is torn.
///
/// # Errors
/// [`PortError`]: permanent when a newer program wrote the artifact, or all its copies are torn.
pub async fn outcome(blobs: &dyn Blobs, scope: &str, key: &TaskKey) -> PortResult<Option<Bytes>> {
    Ok(match find_copy(blobs, scope, key).await? {
        Lookup::Found(head) => Some(head.into_outcome()),
        Lookup::Missing { .. } => None,
    })
}

/// Fails if the artifact is stored: for a task that waited before it pays for a call. If the ledger was lost meanwhile,
/// another worker may have executed the task.
///
/// # Errors
/// Throttled (not counted) if the artifact is stored, or the store is unavailable.
pub async fn ensure_missing(blobs: &dyn Blobs, scope: &str, key: &TaskKey) -> Result<(), Failure> {
    if readable_outcome(blobs, scope, key).await?.is_none() {
        return Ok(());
    }
    let message = "another worker has stored the result";
    Err(Failure::throttled(
        "engine.already_stored",
        message,
        Duration::ZERO,
    ))
}

/// As [`outcome`], but `None` for an artifact that this process can never read either: whoever executes the task decides
/// what becomes of it.
pub async fn readable_outcome(
    blobs: &dyn Blobs,
    scope: &str,
    key: &TaskKey,
) -> PortResult<Option<Bytes>> {
    match outcome(blobs, scope, key).await {
        Err(error) if error.is_permanent() => {
            tracing::warn!(scope, %key, %error, "artifact cannot be read");
            Ok(None)
        }
        read => read,
    }
}

/// A blob of an artifact, whose memory is reserved before it is read; `None` when either does not exist, or is torn.
///
/// # Errors
/// As [`outcome`] and [`work::reserve`].
pub async fn blob(
    blobs: &dyn Blobs,
    scope: &str,
    key: &TaskKey,
    blob: &str,
) -> PortResult<Option<Bytes>> {
    for name in copy_keys(scope, key) {
        let (head, mut at) = match read_header(blobs, &name).await? {
            HeaderRead::Whole(head, at) => (head, at),
            HeaderRead::Missing => return Ok(None),
            HeaderRead::Torn => continue,
        };
        let entry = head.blobs.into_iter().find(|entry: &BlobEntry| {
            let found = entry.name == blob;
            at += if found { 0 } else { entry.bytes };
            found
        });
        let Some(entry) = entry else {
            return Ok(None);
        };
        work::reserve(usize::try_from(entry.bytes).unwrap_or(usize::MAX)).await?;
        let bytes = blobs
            .get_range(&name, at..at + entry.bytes)
            .await?
            .unwrap_or_default();
        if blake3::hash(&bytes).to_hex().as_str() == entry.digest {
            return Ok(Some(bytes));
        }
        tracing::warn!(
            artifact = name,
            blob,
            "torn artifact; its task will run again"
        );
        blobs.put(&torn_mark(&name), Bytes::new()).await?;
    }
    Ok(None)
}

impl ArtifactHeader {
    fn into_outcome(self) -> Bytes {
        Bytes::from(Box::<str>::from(self.outcome).into_string())
    }
}

enum Lookup {
    Found(ArtifactHeader),
    Missing {
        /// The key of the next copy.
        next: String,
    },
}

fn copy_keys(scope: &str, key: &TaskKey) -> impl Iterator<Item = String> {
    let name = artifact_key(scope, key);
    (0..MAX_COPIES).map(move |n| {
        if n == 0 {
            name.clone()
        } else {
            format!("{name}.{n}")
        }
    })
}

// An object next to a copy with a torn blob, although the header of the copy is whole.
fn torn_mark(name: &str) -> String {
    format!("{name}.torn")
}

/// The first copy that is not torn.
async fn find_copy(blobs: &dyn Blobs, scope: &str, key: &TaskKey) -> PortResult<Lookup> {
    for name in copy_keys(scope, key) {
        match read_header(blobs, &name).await? {
            HeaderRead::Missing => return Ok(Lookup::Missing { next: name }),
            HeaderRead::Whole(head, _)
                if head.blobs.is_empty() || blobs.size(&torn_mark(&name)).await?.is_none() =>
            {
                return Ok(Lookup::Found(head));
            }
            HeaderRead::Whole(..) => {}
            HeaderRead::Torn => {
                tracing::warn!(artifact = name, "torn artifact; its task will run again");
            }
        }
    }
    let name = artifact_key(scope, key);
    Err(PortError::permanent(
        "blobs.get",
        format!("{name}: {MAX_COPIES} copies of this artifact are torn; check the store"),
    ))
}

enum HeaderRead {
    Missing,
    Torn,
    /// The header, and the offset of the first blob.
    Whole(ArtifactHeader, u64),
}

async fn read_header(blobs: &dyn Blobs, name: &str) -> PortResult<HeaderRead> {
    let Some(mut bytes) = blobs.get_range(name, 0..FIRST_READ_BYTES).await? else {
        return Ok(HeaderRead::Missing);
    };
    // A power loss leaves files that are cut off, or zeros where nothing was written.
    let magic = bytes.get(..MAGIC.len()).unwrap_or_default();
    if magic != MAGIC && !magic.iter().all(|byte| *byte == 0) {
        return Err(unknown_format(name));
    }
    let Some(length) = header_length(&bytes) else {
        return Ok(HeaderRead::Torn);
    };
    if PREFIX_BYTES + length > bytes.len() {
        let range = 0..(PREFIX_BYTES + length) as u64;
        bytes = blobs.get_range(name, range).await?.unwrap_or_default();
    }
    let Some(head) = intact_header(&bytes, length) else {
        return Ok(HeaderRead::Torn);
    };
    let head = serde_json::from_slice(head).map_err(|_| unknown_format(name))?;
    Ok(HeaderRead::Whole(head, (PREFIX_BYTES + length) as u64))
}

fn header_length(first: &[u8]) -> Option<usize> {
    let length = first.strip_prefix(MAGIC)?.first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (length <= MAX_HEADER_BYTES).then_some(length)
}

// The JSON of the header if its digest is right.
fn intact_header(bytes: &[u8], length: usize) -> Option<&[u8]> {
    let digest = bytes.get(8..PREFIX_BYTES)?;
    let head = bytes.get(PREFIX_BYTES..PREFIX_BYTES + length)?;
    (blake3::hash(head).as_bytes() == digest).then_some(head)
}

fn unknown_format(name: &str) -> PortError {
    PortError::permanent(
        "blobs.get",
        format!(
            "{name}: the format of this artifact is unknown; a newer program wrote it, so upgrade this one"
        ),
    )
}

fn invalid_outcome(error: &serde_json::Error) -> Failure {
    Failure::permanent("engine.outcome_invalid", error.to_string())
}

#[cfg(test)]
mod tests;
