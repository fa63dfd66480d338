//! What change records tell of the versions of documents, and which of them are past.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, ChangeKind, Collection, DocId, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

use super::jobs::OpenJob;
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

    fn last_removal_ms(&self) -> Option<Millis> {
        let removals = self.0.values();
        removals
            .filter(|(_, ending)| *ending == Ending::Removed)
            .map(|(at_ms, _)| *at_ms)
            .max()
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

/// Reads all change records of a collection.
pub(super) async fn load(
    blobs: &dyn Blobs,
    collection: &Collection,
) -> PortResult<BTreeMap<DocId, DocumentHistory>> {
    const PAGE: usize = 1_000;
    let prefix = blob_keys::changes_prefix(collection);
    let mut histories: BTreeMap<DocId, DocumentHistory> = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = blobs.list(&prefix, after.as_deref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(histories);
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
                let (doc, seq) = change.kind.version();
                let history = histories.entry(doc).or_default();
                history.record(seq, change.at_ms, ending);
            }
        }
    }
}

/// When a document of the collection was last removed.
pub(super) fn last_removal_ms(histories: &BTreeMap<DocId, DocumentHistory>) -> Option<Millis> {
    let removals = histories.values();
    removals.filter_map(DocumentHistory::last_removal_ms).max()
}
