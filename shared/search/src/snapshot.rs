//! Snapshots of a catalogue: immutable sums of change records, so that a listing reads one object and a short tail.
//!
//! `c/{collection}/catalogue/{floor:010}-{changes:012}-{digest}.zst`: zstd over lines of JSON, first the mark (which
//! records are in it), then one [`ChangeKind`] per document, tombstones included. The last key sums up most. They hold
//! nothing that the records do not say: deleting all of them costs time only.

use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{CatalogueEntry, ChangeKind, Collection, Digest, layout};
use stemma_engine::PortError;
use stemma_engine::blobs::{Blobs, list_all};

use crate::catalogue::Current;
use crate::changes::Mark;

const FORMAT: u32 = 1;
/// A snapshot of a million documents unpacks to about one gigabyte.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;
const LEVEL: i32 = 3;

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    floor: u64,
    changes: u64,
    seen: BTreeSet<String>,
}

/// The newest snapshot that can be read, or nothing.
pub(crate) async fn latest(blobs: &dyn Blobs, collection: &Collection) -> Result<(Current, Mark), PortError> {
    let keys = list_all(blobs, &layout::catalogue_prefix(collection)).await?;
    for key in keys.iter().rev().filter(|key| key.ends_with(".zst")) {
        let Some(bytes) = blobs.get(key).await? else { continue };
        match tokio::task::spawn_blocking(move || unpack(&bytes)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => tracing::warn!(key, %error, "snapshot cannot be read; an older one is used"),
            Err(error) => tracing::warn!(key, %error, "snapshot cannot be read; an older one is used"),
        }
    }
    Ok((Current::default(), Mark::default()))
}

/// Leaves a snapshot. Who may not write only reads more next time.
pub(crate) async fn write(blobs: &dyn Blobs, collection: &Collection, current: &Current, mark: &Mark) {
    let mark = mark.shortened();
    let packed = match pack(current, &mark) {
        Ok(packed) => Bytes::from(packed),
        Err(error) => return tracing::debug!(%error, "no snapshot of the catalogue"),
    };
    let digest = Digest::of(&packed).short();
    let prefix = layout::catalogue_prefix(collection);
    let key = format!("{prefix}{:010}-{:012}-{digest}.zst", mark.floor, current.changes);
    if let Err(error) = blobs.put(&key, packed).await {
        tracing::debug!(%error, "no snapshot of the catalogue");
    }
}

fn pack(current: &Current, mark: &Mark) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    let head = Head { format: FORMAT, floor: mark.floor, changes: current.changes, seen: mark.seen.clone() };
    write_line(&mut encoder, &head)?;
    let mut docs: Vec<_> = current.latest.iter().collect();
    docs.sort_by_key(|(doc, _)| **doc);
    for (doc, latest) in docs {
        match &latest.entry {
            Some(entry) => write_line(&mut encoder, &ChangeKind::Published(Box::new(CatalogueEntry::clone(entry))))?,
            None => write_line(&mut encoder, &ChangeKind::Removed { doc: *doc, seq: latest.seq })?,
        }
    }
    encoder.finish()
}

fn write_line<T: Serialize>(to: &mut impl std::io::Write, value: &T) -> std::io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}

fn unpack(packed: &[u8]) -> std::io::Result<(Current, Mark)> {
    let mut text = Vec::with_capacity(packed.len().saturating_mul(8).min(256 << 20));
    zstd::Decoder::new(packed)?.take(MAX_UNPACKED_BYTES).read_to_end(&mut text)?;
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let head: Head = serde_json::from_slice(head)?;
    if head.format != FORMAT {
        return Err(std::io::Error::other(format!("format {} is not known", head.format)));
    }
    let mut current = Current::default();
    for kind in parse(rest)? {
        current.apply(kind);
    }
    current.changes = head.changes;
    Ok((current, Mark { floor: head.floor, seen: head.seen }))
}

/// Parses lines on two threads: this is most of the time of a large listing.
fn parse(text: &[u8]) -> std::io::Result<Vec<ChangeKind>> {
    let half = text.len() / 2;
    let cut = text[half..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| half + at);
    let (first, second) = text.split_at(cut);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| parse_lines(second));
        (parse_lines(first), second.join())
    });
    let second = second.map_err(|_| std::io::Error::other("a parsing thread ended early"))?;
    let mut kinds = first?;
    kinds.append(&mut second?);
    Ok(kinds)
}

fn parse_lines(text: &[u8]) -> std::io::Result<Vec<ChangeKind>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(std::io::Error::from)).collect()
}
