//! What change records tell of the versions of documents, and which of them are past.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, ChangeKind, Collection, DocId, blob_keys};
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;

use super::jobs::OpenJob;
use super::sorted_records::{RecordSorter, SortedRecords};
use super::{DAY_MS, GRACE_MS, MAX_CONCURRENT_READS};

/// The moment before which something must have become superfluous to be garbage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Horizon(Millis);

impl Horizon {
    /// A job waits for the run of a version that was the newest when it asked. So no open job waits for a version if a newer
    /// one ended before the job was submitted. The clock of whoever submits may be behind by a day.
    pub(super) fn new(now_ms: Millis, open: &[OpenJob]) -> Self {
        let submitted = open.iter().filter_map(|job| job.submitted_ms);
        let submitted = submitted.map(|at_ms| at_ms.saturating_sub(DAY_MS));
        Self(submitted.fold(now_ms.saturating_sub(GRACE_MS), Millis::min))
    }

    pub(super) fn is_past(self, at_ms: Millis) -> bool {
        at_ms < self.0
    }
}

/// How a version ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Published,
    Removed,
    Failed,
}

/// When and how the versions of a document ended, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct DocumentHistory(BTreeMap<u64, (Millis, Ending)>);

impl DocumentHistory {
    /// The number of the newest version that ended, 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// The newest tree or tombstone: its number, when it was written, and whether it is a tombstone.
    pub(super) fn last_tree(&self) -> Option<(u64, Millis, bool)> {
        let mut newest = self.0.iter().rev();
        newest
            .find(|(_, (_, ending))| *ending != Ending::Failed)
            .map(|(seq, (at_ms, ending))| (*seq, *at_ms, *ending == Ending::Removed))
    }

    /// Trees and tombstones of versions after `seq`, and when they were written.
    pub(super) fn trees_after(&self, seq: u64) -> impl Iterator<Item = (u64, Millis)> {
        let newer = self.0.range(seq + 1..);
        newer
            .filter(|(_, (_, ending))| *ending != Ending::Failed)
            .map(|(seq, (at_ms, _))| (*seq, *at_ms))
    }

    /// Whether two newer versions exist, and the first ended before the horizon. Numbers have no gaps, so the number of
    /// the newest tells how many there are. One without a record was claimed before the next that has one.
    pub(super) fn is_settled(&self, seq: u64, horizon: Horizon) -> bool {
        let ended_ms = self.0.range(seq + 1..).map(|(_, (at_ms, _))| *at_ms).min();
        seq + 2 <= self.newest() && ended_ms.is_some_and(|at_ms| horizon.is_past(at_ms))
    }

    /// Whether a record says that the version ended.
    pub(super) fn has_ended(&self, seq: u64) -> bool {
        self.0.contains_key(&seq)
    }

    fn record(&mut self, seq: u64, at_ms: Millis, ending: Ending) {
        // A crash between tree and record publishes twice. The later record counts, so that nothing is deleted too early.
        let recorded = self.0.entry(seq).or_insert((at_ms, ending));
        recorded.0 = recorded.0.max(at_ms);
        if ending != Ending::Failed {
            recorded.1 = ending;
        }
    }
}

// A document, the number of a version, when it ended, and how: in this order.
const RECORD_BYTES: usize = 16 + 8 + 8 + 1;

/// The histories of all documents of a collection, in the order of their ids. Memory does not grow with documents.
pub(super) struct Histories {
    records: SortedRecords<RECORD_BYTES>,
    /// When a document of the collection was last removed.
    pub(super) removed_ms: Option<Millis>,
}

impl Histories {
    /// Reads all change records of a collection.
    pub(super) async fn load(blobs: &dyn Blobs, collection: &Collection) -> PortResult<Self> {
        const PAGE: usize = 1_000;
        let prefix = blob_keys::changes_prefix(collection);
        let mut sorter = RecordSorter::new();
        let mut removed_ms = None;
        let mut after: Option<String> = None;
        loop {
            let page = blobs.list(&prefix, after.as_deref(), PAGE).await?;
            let Some(last) = page.last().cloned() else {
                return Ok(Self {
                    records: sorter.finish()?,
                    removed_ms,
                });
            };
            after = Some(last);
            let mut changes = stream::iter(page)
                .map(async |key: String| blobs.get(&key).await)
                .buffered(MAX_CONCURRENT_READS);
            while let Some(json) = changes.try_next().await? {
                let changes = json.iter().flat_map(|json| Change::decode_record(json));
                for change in changes.flatten() {
                    let ending = match change.kind {
                        ChangeKind::Published(_) => Ending::Published,
                        ChangeKind::Removed { .. } => Ending::Removed,
                        ChangeKind::Failed { .. } => Ending::Failed,
                        ChangeKind::Claimed(_) => continue,
                    };
                    if ending == Ending::Removed {
                        removed_ms = removed_ms.max(Some(change.at_ms));
                    }
                    let (doc, seq) = change.kind.version();
                    sorter.push(encode(doc, seq, change.at_ms, ending))?;
                }
            }
        }
    }

    /// Passes over the documents up to `doc`.
    pub(super) fn skip_to(&mut self, doc: DocId) -> PortResult<()> {
        while self
            .records
            .peek()
            .is_some_and(|record| decode(record).0 <= doc)
        {
            self.records.next()?;
        }
        Ok(())
    }

    /// The histories of the next `most` documents; none after the last.
    pub(super) fn next_page(
        &mut self,
        most: usize,
    ) -> PortResult<BTreeMap<DocId, DocumentHistory>> {
        let mut page: BTreeMap<DocId, DocumentHistory> = BTreeMap::new();
        while let Some(record) = self.records.peek() {
            let (doc, seq, at_ms, ending) = decode(record);
            if page.len() == most && !page.contains_key(&doc) {
                break;
            }
            page.entry(doc).or_default().record(seq, at_ms, ending);
            self.records.next()?;
        }
        Ok(page)
    }
}

fn encode(doc: DocId, seq: u64, at_ms: Millis, ending: Ending) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..16].copy_from_slice(doc.as_bytes());
    record[16..24].copy_from_slice(&seq.to_be_bytes());
    record[24..32].copy_from_slice(&at_ms.to_be_bytes());
    record[32] = ending as u8;
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> (DocId, u64, Millis, Ending) {
    let number = |from: usize| {
        let bytes = record[from..].first_chunk().copied();
        u64::from_be_bytes(bytes.unwrap_or_default())
    };
    let doc = u128::from(number(0)) << 64 | u128::from(number(8));
    let ending = [Ending::Published, Ending::Removed, Ending::Failed];
    let ending = ending
        .into_iter()
        .find(|ending| *ending as u8 == record[32]);
    (
        DocId::from_u128(doc),
        number(16),
        number(24),
        ending.unwrap_or(Ending::Failed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_what_a_change_says_and_sort_by_document_and_version() {
        let doc = DocId::new(&Collection::default(), "file:///a.md");
        for ending in [Ending::Published, Ending::Removed, Ending::Failed] {
            let record = encode(doc, 1 << 40, 1_790_000_000_000, ending);
            assert_eq!(decode(&record), (doc, 1 << 40, 1_790_000_000_000, ending));
        }
        let next = encode(doc, 3, 0, Ending::Published);
        assert!(encode(doc, 2, u64::MAX, Ending::Failed) < next);
        let other = DocId::from_u128(doc.to_u128() + 1);
        assert!(next < encode(other, 1, 0, Ending::Published));
    }
}
