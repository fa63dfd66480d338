//! Catalog snapshots: compacted change records, so that loading a catalog reads one object and a short tail.
//!
//! Key: `c/{collection}/catalog/{floor:010}-{changes:012}-{digest}.zst`; the last key covers the most records. Content:
//! zstd-compressed JSON lines, first the header (which records are included), then the last [`Change`] of each document,
//! removals included. Snapshots can be deleted at any time: they are rebuilt from the records. Format 1 has no times.

use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, Digest, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::env::Millis;

use crate::change_log::{self, ChangeCursor};
use crate::latest_changes::LatestChanges;

const FORMAT: u32 = 2;
// Lines are `ChangeKind` instead of `Change`.
const FORMAT_WITHOUT_TIMES: u32 = 1;
// Guards against decompression bombs. A million documents unpack to about one gigabyte.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;
const COMPRESSION_LEVEL: i32 = 3;
// Reading this many records one by one takes longer than writing a snapshot, which saves them for the next reader.
const SNAPSHOT_THRESHOLD: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct SnapshotHeader {
    format: u32,
    floor: u64,
    changes: u64,
    #[serde(rename = "seen")]
    names: BTreeSet<String>,
}

/// The newest snapshot with the change records after it, and which records that includes.
pub(crate) async fn load_current(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<(LatestChanges, ChangeCursor)> {
    let (mut current, mut mark) = load_newest(blobs, collection, now_ms).await?;
    let tail = change_log::read_since(blobs, collection, &mark, 0).await?;
    let read = tail.len();
    for (name, change) in tail {
        mark.add(name);
        change.into_iter().for_each(|change| current.apply(change));
    }
    if read > SNAPSHOT_THRESHOLD.max(current.latest.len() / 10) {
        write_snapshot(blobs, collection, &current, &mark.trimmed(now_ms)).await;
    }
    Ok((current, mark))
}

// A snapshot with a floor in the future was written by a clock that was ahead: it would hide the records before.
async fn load_newest(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<(LatestChanges, ChangeCursor)> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    for key in keys.iter().rev().filter(|key| key.ends_with(".zst")) {
        let Some(bytes) = blobs.get(key).await? else {
            continue;
        };
        match tokio::task::spawn_blocking(move || decode(&bytes)).await {
            Ok(Ok((_, cursor))) if cursor.floor > now_ms / 60_000 => {
                tracing::warn!(
                    key,
                    floor = cursor.floor,
                    "catalog snapshot is from the future: check the clocks; trying an older one"
                );
            }
            Ok(Ok(decoded)) => return Ok(decoded),
            Ok(Err(error)) => {
                tracing::warn!(key, %error, "catalog snapshot cannot be read; trying an older one");
            }
            Err(error) => {
                tracing::warn!(key, %error, "catalog snapshot cannot be read; trying an older one");
            }
        }
    }
    Ok((LatestChanges::default(), ChangeCursor::default()))
}

// Best effort: without write access, later readers only have more records to read.
async fn write_snapshot(
    blobs: &dyn Blobs,
    collection: &Collection,
    current: &LatestChanges,
    mark: &ChangeCursor,
) {
    let packed = match encode(current, mark) {
        Ok(packed) => Bytes::from(packed),
        Err(error) => return tracing::debug!(%error, "catalog snapshot was not encoded"),
    };
    let digest = Digest::from_content(&packed).short();
    let prefix = blob_keys::catalog_prefix(collection);
    let key = format!(
        "{prefix}{:010}-{:012}-{digest}.zst",
        mark.floor, current.changes
    );
    if let Err(error) = blobs.put(&key, packed).await {
        tracing::debug!(%error, "catalog snapshot was not written");
    }
}

fn encode(current: &LatestChanges, mark: &ChangeCursor) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
    let head = SnapshotHeader {
        format: FORMAT,
        floor: mark.floor,
        changes: current.changes,
        names: mark.names.clone(),
    };
    write_line(&mut encoder, &head)?;
    let mut docs: Vec<_> = current.latest.iter().collect();
    docs.sort_by_key(|(doc, _)| **doc);
    for (doc, latest) in docs {
        let kind = match &latest.entry {
            Some(entry) => ChangeKind::Published(Box::new(CatalogEntry::clone(entry))),
            None => ChangeKind::Removed {
                doc: *doc,
                seq: latest.seq,
            },
        };
        write_line(
            &mut encoder,
            &Change {
                at_ms: latest.at_ms,
                kind,
            },
        )?;
    }
    encoder.finish()
}

fn write_line<T: Serialize>(to: &mut impl std::io::Write, value: &T) -> std::io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}

fn decode(packed: &[u8]) -> std::io::Result<(LatestChanges, ChangeCursor)> {
    let mut text = Vec::with_capacity(packed.len().saturating_mul(8).min(256 << 20));
    zstd::Decoder::new(packed)?
        .take(MAX_UNPACKED_BYTES)
        .read_to_end(&mut text)?;
    let end = text
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let head: SnapshotHeader = serde_json::from_slice(head)?;
    let changes = match head.format {
        FORMAT => parse(rest)?,
        FORMAT_WITHOUT_TIMES => parse(rest)?
            .into_iter()
            .map(|kind| Change { at_ms: 0, kind })
            .collect(),
        format => {
            return Err(std::io::Error::other(format!(
                "unknown snapshot format {format}"
            )));
        }
    };
    let mut current = LatestChanges::default();
    for change in changes {
        current.apply(change);
    }
    current.changes = head.changes;
    Ok((
        current,
        ChangeCursor {
            floor: head.floor,
            names: head.names,
        },
    ))
}

// Parsing dominates loading a large catalog, so two threads share it.
fn parse<T: DeserializeOwned + Send>(text: &[u8]) -> std::io::Result<Vec<T>> {
    let half = text.len() / 2;
    let cut = text[half..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(text.len(), |at| half + at);
    let (first, second) = text.split_at(cut);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| parse_lines(second));
        (parse_lines(first), second.join())
    });
    let second = second.map_err(|_| std::io::Error::other("parser thread panicked"))?;
    let mut lines = first?;
    lines.append(&mut second?);
    Ok(lines)
}

fn parse_lines<T: DeserializeOwned>(text: &[u8]) -> std::io::Result<Vec<T>> {
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).map_err(std::io::Error::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::entry;

    #[test]
    fn old_snapshot_without_times_is_readable() {
        let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL).unwrap();
        let head = SnapshotHeader {
            format: FORMAT_WITHOUT_TIMES,
            floor: 7,
            changes: 9,
            names: BTreeSet::new(),
        };
        write_line(&mut encoder, &head).unwrap();
        write_line(&mut encoder, &ChangeKind::Published(Box::new(entry("a")))).unwrap();
        let (current, mark) = decode(&encoder.finish().unwrap()).unwrap();
        assert_eq!(current.changes, 9);
        assert_eq!(mark.floor, 7);
        assert_eq!(current.latest.len(), 1);
        assert!(
            current
                .latest
                .values()
                .all(|latest| latest.at_ms == 0 && latest.entry.is_some())
        );
        let (again, _) = decode(&encode(&current, &mark).unwrap()).unwrap();
        assert_eq!(again.changes, 9);
        assert_eq!(again.latest.len(), 1);
    }
}
