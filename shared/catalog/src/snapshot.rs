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
use stemma_store::blobs::{Blobs, list_all, put_json};
use stemma_store::env::Millis;
use stemma_store::{PortError, PortResult};

use crate::change_log::{self, ChangeCursor};
use crate::store::{CatalogStore, StoreBatch, StoreReader};

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
// A decoded part has some 30 MB.
const PARTS_AT_ONCE: usize = 2;
// Changes of one transaction, and documents read at once.
const CHANGES_AT_ONCE: usize = 4_000;
const DOCUMENTS_AT_ONCE: usize = 64;
// Reading this many records one by one takes longer than writing a snapshot, which saves them for the next reader.
const SNAPSHOT_THRESHOLD: u64 = 1_000;

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

/// What a loaded snapshot covers.
#[derive(Default)]
pub(crate) struct LoadedSnapshot {
    pub(crate) cursor: ChangeCursor,
    // Whether documents without a tree are in it.
    pub(crate) has_open_runs: bool,
}

/// Loads the newest snapshot into an empty store; without one, the store stays empty.
pub(crate) async fn load(
    blobs: &dyn Blobs,
    collection: &Collection,
    store: &mut CatalogStore,
    now_ms: Millis,
) -> PortResult<LoadedSnapshot> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    for key in keys.iter().rev() {
        let is_in_parts = match key.rsplit('.').next() {
            Some("json") => true,
            Some("zst") => false,
            _ => continue,
        };
        // A floor in the future was written by a clock that was ahead: it would hide what older programs write.
        if let Some(floor) = floor_of_key(key).filter(|floor| *floor > now_ms / 60_000) {
            tracing::warn!(
                key,
                floor,
                "catalog snapshot is from the future: check the clocks; trying an older one"
            );
            continue;
        }
        let loaded = if is_in_parts {
            load_parts(blobs, key, store).await
        } else {
            load_one_object(blobs, key, store).await
        };
        match loaded {
            Ok(loaded) => return Ok(loaded),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(key, %error, "catalog snapshot cannot be read; trying an older one");
                *store = store.clone().emptied()?;
            }
        }
    }
    Ok(LoadedSnapshot::default())
}

/// Writes a snapshot if reading the changes behind the newest one takes longer, or `is_needed`.
pub(crate) async fn write_if_due(
    blobs: &dyn Blobs,
    collection: &Collection,
    store: &CatalogStore,
    cursor: &ChangeCursor,
    is_needed: bool,
) -> PortResult<()> {
    let reader = store.reader()?;
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    let newest = keys.iter().rev().find(|key| key.ends_with(".json"));
    let covered = newest.and_then(|key| changes_of_key(key)).unwrap_or(0);
    let behind = reader.state.changes.saturating_sub(covered);
    if is_needed || behind > SNAPSHOT_THRESHOLD.max(reader.state.listed / 10) {
        let written = write(blobs, collection, &reader, cursor).await;
        // Without write access, later readers only have more records to read.
        if let Err(error) = written {
            tracing::debug!(%error, "catalog snapshot was not written");
        }
    }
    Ok(())
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

// How many changes the snapshot of a manifest has.
fn changes_of_key(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.split('-').nth(1)?.parse().ok()
}

/// The floor of the snapshot that a manifest or part belongs to.
pub(crate) fn floor_of_key(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.split('-').next()?.parse().ok()
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

async fn load_parts(
    blobs: &dyn Blobs,
    key: &str,
    store: &CatalogStore,
) -> PortResult<LoadedSnapshot> {
    let manifest = read_manifest(blobs, key).await?;
    let parts = manifest.parts.into_iter().map(|key| load_part(blobs, key));
    let mut parts = stream::iter(parts).buffered(PARTS_AT_ONCE);
    while let Some(changes) = parts.try_next().await? {
        apply_changes(store, changes).await?;
    }
    let cursor = ChangeCursor {
        floor: manifest.floor,
        names: manifest.names,
    };
    finish(store, &cursor, manifest.changes).await?;
    Ok(LoadedSnapshot {
        cursor,
        has_open_runs: true,
    })
}

async fn apply_changes(store: &CatalogStore, changes: Vec<Change>) -> PortResult<()> {
    let mut changes = changes.into_iter().peekable();
    while changes.peek().is_some() {
        let batch = StoreBatch {
            changes: changes.by_ref().take(CHANGES_AT_ONCE).collect(),
            is_durable: true,
            ..StoreBatch::default()
        };
        change_log::apply_batch(store, batch).await?;
    }
    Ok(())
}

// Records what the snapshot covers.
async fn finish(store: &CatalogStore, cursor: &ChangeCursor, changes: u64) -> PortResult<()> {
    let batch = StoreBatch {
        names: cursor.names.iter().cloned().collect(),
        floor: Some(cursor.floor),
        change_count: Some(changes),
        is_durable: true,
        ..StoreBatch::default()
    };
    change_log::apply_batch(store, batch).await.map(drop)
}

async fn load_part(blobs: &dyn Blobs, key: String) -> PortResult<Vec<Change>> {
    let packed = get(blobs, &key).await?;
    let changes = tokio::task::spawn_blocking(move || decode_part(&packed)).await;
    changes
        .map_err(|error| damaged(&key, &error))?
        .map_err(|error| damaged(&key, &error))
}

async fn load_one_object(
    blobs: &dyn Blobs,
    key: &str,
    store: &CatalogStore,
) -> PortResult<LoadedSnapshot> {
    let packed = get(blobs, key).await?;
    let loaded = tokio::task::spawn_blocking(move || decode_one_object(&packed)).await;
    let (head, changes) = loaded
        .map_err(|error| damaged(key, &error))?
        .map_err(|error| damaged(key, &error))?;
    apply_changes(store, changes).await?;
    let cursor = ChangeCursor {
        floor: head.floor,
        names: head.names,
    };
    finish(store, &cursor, head.changes).await?;
    Ok(LoadedSnapshot {
        cursor,
        has_open_runs: false,
    })
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
    reader: &StoreReader,
    cursor: &ChangeCursor,
) -> PortResult<()> {
    let changes = reader.state.changes;
    let stem = format!(
        "{}{:010}-{changes:012}",
        blob_keys::catalog_prefix(collection),
        cursor.floor,
    );
    let mut last = None;
    let mut parts = Vec::new();
    while let Some((packed, doc)) = encode_part(reader, last)? {
        let key = format!("{stem}-{}.part", Digest::from_content(&packed).short());
        blobs.put(&key, packed.into()).await?;
        parts.push(key);
        last = Some(doc);
    }
    let digest = Digest::from_content(parts.join("\n").as_bytes()).short();
    let key = format!("{stem}-{digest}.json");
    let manifest = SnapshotManifest {
        key: key.clone(),
        format: FORMAT,
        floor: cursor.floor,
        changes,
        names: cursor.names.clone(),
        parts,
    };
    put_json(blobs, &key, &manifest).await?;
    Ok(())
}

// The part with the documents behind an id, and its last document; `None` behind the last one.
fn encode_part(reader: &StoreReader, after: Option<DocId>) -> PortResult<Option<(Vec<u8>, DocId)>> {
    let failed = |error: std::io::Error| PortError::permanent("blobs.put", error.to_string());
    let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL).map_err(failed)?;
    let mut line = Vec::new();
    let mut bytes = 0;
    let mut last = after;
    while bytes < PART_BYTES {
        let documents = reader.stored_after(last, DOCUMENTS_AT_ONCE)?;
        if documents.is_empty() {
            break;
        }
        for (doc, document) in documents {
            line.clear();
            for change in document.to_changes(doc) {
                serde_json::to_writer(&mut line, &change).map_err(|error| failed(error.into()))?;
                line.push(b'\n');
            }
            encoder.write_all(&line).map_err(failed)?;
            bytes += line.len();
            last = Some(doc);
            if bytes >= PART_BYTES {
                break;
            }
        }
    }
    let last = last.filter(|_| bytes > 0);
    Ok(match last {
        Some(last) => Some((encoder.finish().map_err(failed)?, last)),
        None => None,
    })
}

fn decode_part(packed: &[u8]) -> std::io::Result<Vec<Change>> {
    let reader = zstd::Decoder::new(packed)?.take(MAX_PART_BYTES);
    let lines = BufReader::new(reader).split(b'\n');
    lines
        .map(|line| serde_json::from_slice(&line?).map_err(std::io::Error::from))
        .collect()
}

fn decode_one_object(packed: &[u8]) -> std::io::Result<(SnapshotManifest, Vec<Change>)> {
    let mut lines = BufReader::new(zstd::Decoder::new(packed)?).split(b'\n');
    let head = lines.next().transpose()?.unwrap_or_default();
    let head: SnapshotManifest = serde_json::from_slice(&head)?;
    let mut changes = Vec::new();
    for line in lines {
        let line = line?;
        changes.push(match head.format {
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
    Ok((head, changes))
}

#[cfg(test)]
mod tests {
    use stemma_store::blobs::MemoryBlobs;

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
            let mut store = CatalogStore::in_memory().unwrap();
            let loaded = load(&blobs, &collection, &mut store, 8 * 60_000)
                .await
                .unwrap();
            let reader = store.reader().unwrap();
            assert_eq!((reader.state.changes, loaded.cursor.floor), (9, 7));
            assert!(!loaded.has_open_runs);
            let document = reader.changes(entry("a").version.doc).unwrap();
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
        let mut changes = Vec::new();
        for n in 0..20 {
            let mut entry = entry(&format!("{n:02}"));
            entry.description = Some("d".repeat(PART_BYTES / 4));
            let kind = ChangeKind::Published(Box::new(entry));
            changes.push(Change { at_ms: 5, kind });
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
            changes.push(Change { at_ms: 6, kind });
        }
        let cursor = ChangeCursor {
            floor: 4,
            names: BTreeSet::from(["0000000005/x".to_owned()]),
        };
        let store = CatalogStore::in_memory().unwrap();
        apply_changes(&store, changes).await.unwrap();
        let reader = store.reader().unwrap();
        write(&blobs, &collection, &reader, &cursor).await.unwrap();
        let keys = list_all(&blobs, &blob_keys::catalog_prefix(&collection))
            .await
            .unwrap();
        let parts = keys.iter().filter(|key| key.ends_with(".part"));
        assert!((4..=20).contains(&parts.count()), "{keys:?}");
        let mut again = CatalogStore::in_memory().unwrap();
        let loaded = load(&blobs, &collection, &mut again, 10 * 60_000)
            .await
            .unwrap();
        assert!(loaded.has_open_runs);
        let again = again.reader().unwrap();
        let all = |reader: &StoreReader| reader.stored_after(None, 100).unwrap();
        assert_eq!(all(&again), all(&reader));
        assert_eq!(all(&again).len(), 22);
        assert_eq!(again.state.changes, reader.state.changes);
        assert_eq!(loaded.cursor.names, cursor.names);
    }
}
