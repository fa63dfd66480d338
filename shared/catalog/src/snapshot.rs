//! Snapshots of a catalogue: immutable sums of change records, so that a listing reads one object and a short tail.
//!
//! `c/{collection}/catalog/{floor:010}-{change_log:012}-{digest}.zst`: zstd over lines of JSON, first the mark (which
//! records are in it), then the last [`Change`] of each document, tombstones included. The last key sums up most. They hold
//! nothing that the records do not say: deleting all of them costs time only. Lines of format 1 say what, and not when.

use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, Digest, blob_keys};
use stemma_engine::PortError;
use stemma_engine::blobs::{Blobs, list_all};

use crate::catalog::LatestChanges;
use crate::change_log::ChangeCursor;

const FORMAT: u32 = 2;
/// Snapshots from before lines said when.
const FORMAT_WITHOUT_TIMES: u32 = 1;
/// A snapshot of a million documents unpacks to about one gigabyte.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;
const COMPRESSION_LEVEL: i32 = 3;

#[derive(Serialize, Deserialize)]
struct SnapshotHeader {
    format: u32,
    floor: u64,
    changes: u64,
    #[serde(rename = "seen")]
    names: BTreeSet<String>,
}

/// The newest snapshot that can be read, or nothing.
pub(crate) async fn load_latest(
    blobs: &dyn Blobs,
    collection: &Collection,
) -> Result<(LatestChanges, ChangeCursor), PortError> {
    let keys = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
    for key in keys.iter().rev().filter(|key| key.ends_with(".zst")) {
        let Some(bytes) = blobs.get(key).await? else {
            continue;
        };
        match tokio::task::spawn_blocking(move || decode(&bytes)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => {
                tracing::warn!(key, %error, "snapshot cannot be read; an older one is used")
            }
            Err(error) => {
                tracing::warn!(key, %error, "snapshot cannot be read; an older one is used")
            }
        }
    }
    Ok((LatestChanges::default(), ChangeCursor::default()))
}

/// Leaves a snapshot. Who may not write only reads more next time.
pub(crate) async fn write_snapshot(
    blobs: &dyn Blobs,
    collection: &Collection,
    current: &LatestChanges,
    mark: &ChangeCursor,
) {
    let mark = mark.trimmed();
    let packed = match encode(current, &mark) {
        Ok(packed) => Bytes::from(packed),
        Err(error) => return tracing::debug!(%error, "no snapshot of the catalogue"),
    };
    let digest = Digest::from_content(&packed).short();
    let prefix = blob_keys::catalog_prefix(collection);
    let key = format!(
        "{prefix}{:010}-{:012}-{digest}.zst",
        mark.floor, current.changes
    );
    if let Err(error) = blobs.put(&key, packed).await {
        tracing::debug!(%error, "no snapshot of the catalogue");
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
                "format {format} is not known"
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

/// Parses lines on two threads: this is most of the time of a large listing.
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
    let second = second.map_err(|_| std::io::Error::other("a parsing thread ended early"))?;
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
        assert_eq!(
            (current.changes, mark.floor, current.latest.len()),
            (9, 7, 1)
        );
        assert!(
            current
                .latest
                .values()
                .all(|latest| latest.at_ms == 0 && latest.entry.is_some())
        );
        let (again, _) = decode(&encode(&current, &mark).unwrap()).unwrap();
        assert_eq!((again.changes, again.latest.len()), (9, 1));
    }
}
