//! Catalog snapshots: compacted change records, so that loading a catalog reads a few objects and a short tail.
//!
//! Key of a manifest: `c/{collection}/catalogue/{floor:010}-{changes:012}-{digest}.json`; the last key covers the most
//! records. It names parts of some megabytes: zstd-compressed JSON lines, the [`Change`]s of each document, removals and
//! open runs included, ordered by document. Neither writer nor reader holds more than a few parts in memory. Snapshots can
//! be deleted at any time: they are rebuilt from the records. Formats 1 and 2 are one object (`.zst`), and lack open runs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_document::{Change, ChangeKind, Collection, Digest, DocId, blob_keys};
use stemma_engine::blobs::{Blobs, list_all, put_json};
use stemma_engine::env::Millis;
use stemma_engine::{PortError, PortResult};

use crate::change_log::{self, ChangeCursor, Extent};
use crate::latest_changes::{DocumentChanges, LatestChanges};
use crate::state_walk;

const FORMAT: u32 = 3;
// One object without open runs.
const FORMAT_OF_ONE_OBJECT: u32 = 2;
// Its lines are `ChangeKind` instead of `Change`.
const FORMAT_WITHOUT_TIMES: u32 = 1;
// A part is complete at this size: some 8,000 documents. Tests have many parts of few documents.
const PART_BYTES: usize = if cfg!(test) { 8 << 10 } else { 8 << 20 };
// Guards against decompression bombs. A part has one document more than its size at most.
const MAX_PART_BYTES: u64 = 64 << 20;
const COMPRESSION_LEVEL: i32 = 3;
const PARTS_AT_ONCE: usize = 4;
// Reading this many records one by one takes longer than writing a snapshot, which saves them for the next reader.
const SNAPSHOT_THRESHOLD: usize = 1_000;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotManifest {
    #[serde(skip)]
    key: String,
    format: u32,
    pub(crate) floor: u64,
    changes: u64,
    #[serde(rename = "seen")]
    names: BTreeSet<String>,
    /// Keys.
    #[serde(default)]
    parts: Vec<String>,
}

impl SnapshotManifest {
    /// Whether the object is this manifest or one of its parts.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.key == key || self.parts.iter().any(|part| part == key)
    }
}

/// What a snapshot says, or the empty catalog.
#[derive(Default)]
struct LoadedSnapshot {
    current: LatestChanges,
    cursor: ChangeCursor,
    // Whether documents without a tree are in it.
    has_open_runs: bool,
}

/// The newest snapshot with the change records after it, and which records that includes.
pub(crate) async fn load_current(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<(LatestChanges, ChangeCursor)> {
    let LoadedSnapshot {
        mut current,
        mut cursor,
        has_open_runs,
    } = load_newest(blobs, collection, now_ms).await?;
    let apply = |change| {
        current.apply(change);
    };
    let mut read =
        change_log::apply_new(blobs, collection, &mut cursor, Extent::All, apply).await?;
    if !has_open_runs {
        for change in state_walk::unrecorded_changes(blobs, collection, &current).await? {
            current.apply(change);
        }
        read = read.max(current.latest.len());
    }
    if read > SNAPSHOT_THRESHOLD.max(current.latest.len() / 10) {
        let written = write(blobs, collection, &current, &cursor.trimmed(now_ms)).await;
        // Without write access, later readers only have more records to read.
        if let Err(error) = written {
            tracing::debug!(%error, "catalog snapshot was not written");
        }
    }
    Ok((current, cursor))
}

/// The newest snapshots that are complete, at most `count`.
pub(crate) async fn newest_readable(
    blobs: &dyn Blobs,
    collection: &Collection,
    count: usize,
) -> PortResult<Vec<SnapshotManifest>> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    let mut readable = Vec::new();
    for key in keys.iter().rev().filter(|key| key.ends_with(".json")) {
        if readable.len() == count {
            break;
        }
        match read_manifest(blobs, key).await {
            Ok(manifest) if manifest.parts.iter().all(|part| keys.contains(part)) => {
                readable.push(SnapshotManifest {
                    key: key.clone(),
                    ..manifest
                });
            }
            Ok(_) => tracing::warn!(key, "catalog snapshot lacks a part"),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => tracing::warn!(key, %error, "catalog snapshot cannot be read"),
        }
    }
    Ok(readable)
}

/// The floor of the newest snapshot, readable or not; `None` without one.
pub(crate) async fn newest_floor(
    blobs: &dyn Blobs,
    collection: &Collection,
) -> PortResult<Option<u64>> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    let manifests = keys.iter().rev().filter(|key| key.ends_with(".json"));
    Ok(manifests.filter_map(|key| floor_of_key(key)).next())
}

/// The floor of the snapshot that a manifest or part belongs to.
pub(crate) fn floor_of_key(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.split('-').next()?.parse().ok()
}

// A snapshot with a floor in the future was written by a clock that was ahead: it would hide what older programs write.
async fn load_newest(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<LoadedSnapshot> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    for key in keys.iter().rev() {
        let loaded = match key.rsplit('.').next() {
            Some("json") => load_parts(blobs, key).await,
            Some("zst") => load_one_object(blobs, key).await,
            _ => continue,
        };
        match loaded {
            Ok(loaded) if loaded.cursor.floor > now_ms / 60_000 => {
                let floor = loaded.cursor.floor;
                tracing::warn!(
                    key,
                    floor,
                    "catalog snapshot is from the future: check the clocks; trying an older one"
                );
            }
            Ok(loaded) => return Ok(loaded),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(key, %error, "catalog snapshot cannot be read; trying an older one");
            }
        }
    }
    Ok(LoadedSnapshot::default())
}

async fn read_manifest(blobs: &dyn Blobs, key: &str) -> PortResult<SnapshotManifest> {
    let bytes = get(blobs, key).await?;
    let manifest: SnapshotManifest =
        serde_json::from_slice(&bytes).map_err(|error| damaged(key, &error))?;
    if manifest.format != FORMAT {
        let format = format!("unknown snapshot format {}", manifest.format);
        return Err(damaged(key, &format));
    }
    Ok(manifest)
}

async fn load_parts(blobs: &dyn Blobs, key: &str) -> PortResult<LoadedSnapshot> {
    let manifest = read_manifest(blobs, key).await?;
    let parts = manifest.parts.into_iter().map(|key| load_part(blobs, key));
    let mut parts = stream::iter(parts).buffered(PARTS_AT_ONCE);
    let mut current = LatestChanges::default();
    while let Some(changes) = parts.try_next().await? {
        for change in changes {
            current.apply(change);
        }
    }
    current.changes = manifest.changes;
    Ok(LoadedSnapshot {
        current,
        cursor: ChangeCursor {
            floor: manifest.floor,
            names: manifest.names,
        },
        has_open_runs: true,
    })
}

async fn load_part(blobs: &dyn Blobs, key: String) -> PortResult<Vec<Change>> {
    let packed = get(blobs, &key).await?;
    let changes = tokio::task::spawn_blocking(move || decode_part(&packed)).await;
    changes
        .map_err(|error| damaged(&key, &error))?
        .map_err(|error| damaged(&key, &error))
}

async fn load_one_object(blobs: &dyn Blobs, key: &str) -> PortResult<LoadedSnapshot> {
    let packed = get(blobs, key).await?;
    let loaded = tokio::task::spawn_blocking(move || decode_one_object(&packed)).await;
    loaded
        .map_err(|error| damaged(key, &error))?
        .map_err(|error| damaged(key, &error))
}

async fn get(blobs: &dyn Blobs, key: &str) -> PortResult<Bytes> {
    let bytes = blobs.get(key).await?;
    bytes.ok_or_else(|| damaged(key, &"it does not exist"))
}

fn damaged(key: &str, error: &dyn std::fmt::Display) -> PortError {
    PortError::permanent("blobs.get", format!("{key} cannot be read: {error}"))
}

// Parts first: a manifest never names a missing one.
pub(crate) async fn write(
    blobs: &dyn Blobs,
    collection: &Collection,
    current: &LatestChanges,
    cursor: &ChangeCursor,
) -> PortResult<()> {
    let stem = format!(
        "{}{:010}-{:012}",
        blob_keys::catalog_prefix(collection),
        cursor.floor,
        current.changes
    );
    let failed = |error: std::io::Error| PortError::permanent("blobs.put", error.to_string());
    let mut documents: Vec<(&DocId, &DocumentChanges)> = current.latest.iter().collect();
    documents.sort_unstable_by_key(|(doc, _)| **doc);
    let mut documents = documents.into_iter().peekable();
    let mut parts = Vec::new();
    while documents.peek().is_some() {
        let packed = encode_part(&mut documents).map_err(failed)?;
        let key = format!("{stem}-{}.part", Digest::from_content(&packed).short());
        blobs.put(&key, packed.into()).await?;
        parts.push(key);
    }
    let digest = Digest::from_content(parts.join("\n").as_bytes()).short();
    let key = format!("{stem}-{digest}.json");
    let manifest = SnapshotManifest {
        key: key.clone(),
        format: FORMAT,
        floor: cursor.floor,
        changes: current.changes,
        names: cursor.names.clone(),
        parts,
    };
    put_json(blobs, &key, &manifest).await?;
    Ok(())
}

// Takes documents until the part is complete.
fn encode_part<'a>(
    documents: &mut impl Iterator<Item = (&'a DocId, &'a DocumentChanges)>,
) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
    let mut line = Vec::new();
    let mut bytes = 0;
    for (doc, document) in documents {
        line.clear();
        for change in document.to_changes(*doc) {
            serde_json::to_writer(&mut line, &change)?;
            line.push(b'\n');
        }
        encoder.write_all(&line)?;
        bytes += line.len();
        if bytes >= PART_BYTES {
            break;
        }
    }
    encoder.finish()
}

fn decode_part(packed: &[u8]) -> std::io::Result<Vec<Change>> {
    let reader = zstd::Decoder::new(packed)?.take(MAX_PART_BYTES);
    let lines = BufReader::new(reader).split(b'\n');
    lines
        .map(|line| serde_json::from_slice(&line?).map_err(std::io::Error::from))
        .collect()
}

fn decode_one_object(packed: &[u8]) -> std::io::Result<LoadedSnapshot> {
    let mut lines = BufReader::new(zstd::Decoder::new(packed)?).split(b'\n');
    let head = lines.next().transpose()?.unwrap_or_default();
    let head: SnapshotManifest = serde_json::from_slice(&head)?;
    let mut current = LatestChanges::default();
    for line in lines {
        let line = line?;
        current.apply(match head.format {
            FORMAT_OF_ONE_OBJECT => serde_json::from_slice(&line)?,
            FORMAT_WITHOUT_TIMES => {
                let kind: ChangeKind = serde_json::from_slice(&line)?;
                Change { at_ms: 0, kind }
            }
            format => {
                let message = format!("unknown snapshot format {format}");
                return Err(std::io::Error::other(message));
            }
        });
    }
    current.changes = head.changes;
    Ok(LoadedSnapshot {
        current,
        cursor: ChangeCursor {
            floor: head.floor,
            names: head.names,
        },
        has_open_runs: false,
    })
}

#[cfg(test)]
mod tests {
    use stemma_engine::blobs::MemoryBlobs;

    use super::*;
    use crate::fixtures::{entry, failure};

    // As programs before format 3 wrote them.
    fn one_object(format: u32, lines: &[impl Serialize]) -> Bytes {
        let head = SnapshotManifest {
            key: String::new(),
            format,
            floor: 7,
            changes: 9,
            names: BTreeSet::new(),
            parts: Vec::new(),
        };
        let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL).unwrap();
        serde_json::to_writer(&mut encoder, &head).unwrap();
        for line in lines {
            encoder.write_all(b"\n").unwrap();
            serde_json::to_writer(&mut encoder, line).unwrap();
        }
        encoder.finish().unwrap().into()
    }

    fn published(path: &str) -> ChangeKind {
        ChangeKind::Published(Box::new(entry(path)))
    }

    #[tokio::test]
    async fn snapshots_of_older_programs_are_readable() {
        let collection = Collection::default();
        let change = Change {
            at_ms: 3,
            kind: published("a"),
        };
        for (packed, at_ms) in [
            (one_object(1, &[published("a")]), 0),
            (one_object(2, &[change]), 3),
        ] {
            let blobs = MemoryBlobs::default();
            let prefix = blob_keys::catalog_prefix(&collection);
            let key = format!("{prefix}0000000007-000000000009-00000000.zst");
            blobs.put(&key, packed).await.unwrap();
            let (current, cursor) = load_current(&blobs, &collection, 8 * 60_000).await.unwrap();
            assert_eq!((current.changes, cursor.floor), (9, 7));
            let document = &current.latest[&entry("a").version.doc];
            let finished = document.finished.as_ref().unwrap();
            assert_eq!(finished.at_ms, at_ms);
            assert!(finished.entry.is_some());
        }
    }

    /// D9 of the engine review: a snapshot of more than 4 GiB was written and could not be read.
    #[tokio::test]
    async fn a_snapshot_of_many_parts_is_read_part_by_part() {
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        let mut current = LatestChanges::default();
        for n in 0..20 {
            let mut entry = entry(&format!("{n:02}"));
            entry.description = Some("d".repeat(PART_BYTES / 4));
            let kind = ChangeKind::Published(Box::new(entry));
            current.apply(Change { at_ms: 5, kind });
        }
        let open = entry("open").version;
        for kind in [
            failure(open.clone()),
            ChangeKind::Claimed(Box::new(stemma_document::DocumentVersion {
                seq: 2,
                ..open
            })),
            ChangeKind::Removed {
                doc: entry("removed").version.doc,
                seq: 3,
            },
        ] {
            current.apply(Change { at_ms: 6, kind });
        }
        let cursor = ChangeCursor {
            floor: 4,
            names: BTreeSet::from(["0000000005/x".to_owned()]),
        };
        write(&blobs, &collection, &current, &cursor).await.unwrap();
        let keys = list_all(&blobs, &blob_keys::catalog_prefix(&collection))
            .await
            .unwrap();
        let parts = keys.iter().filter(|key| key.ends_with(".part"));
        assert!((4..=20).contains(&parts.count()), "{keys:?}");
        let loaded = load_newest(&blobs, &collection, 10 * 60_000).await.unwrap();
        assert!(loaded.has_open_runs);
        assert_eq!(loaded.current.latest, current.latest);
        assert_eq!(loaded.current.changes, current.changes);
        assert_eq!(loaded.cursor.names, cursor.names);
    }
}
