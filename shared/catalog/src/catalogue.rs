//! What a collection holds now.
//!
//! Change records say what was published and removed; snapshots sum them up, so that a listing of 100,000 documents
//! reads one object and a short tail. Documents without a tree come from their claims and the records of failed runs.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::{CatalogueEntry, Change, ChangeKind, Collection, DocId, DocumentVersion};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{FailureRecord, PortError};

use crate::changes::Mark;
use crate::{changes, labels, open, snapshot};

/// Change records read one by one before a new snapshot is worth writing.
const LONG_TAIL: usize = 1_000;

/// The state of a document, as far as the store alone can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Claimed; nothing was made of it yet.
    Queued,
    /// Parts of it were made.
    Running,
    /// Its tree is published.
    Done,
    /// Its tree is published and names what is missing.
    DoneWithGaps,
    /// Its last run ended without a tree, and it has none from before.
    Failed,
    /// The job that asked for it was cancelled before it had a tree.
    Cancelled,
}

impl State {
    /// All states, in the order work passes through them.
    pub const ALL: [State; 6] = [
        State::Queued,
        State::Running,
        State::Done,
        State::DoneWithGaps,
        State::Failed,
        State::Cancelled,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Done => "done",
            State::DoneWithGaps => "done_with_gaps",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }
}

/// What is known of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// It has a tree.
    Published(Arc<CatalogueEntry>),
    /// It was claimed and has no tree.
    Claimed(Box<DocumentVersion>),
}

/// One document of a catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What is known of it.
    pub record: Record,
    /// Its state.
    pub state: State,
    /// How its last run failed; with a tree from before, the document is still [`State::Done`].
    pub failure: Option<Box<FailureRecord>>,
    /// What to print for it: unique in the catalogue, and a locator when pasted back.
    pub label: String,
    /// When the tree that is listed was published, in milliseconds since 1970-01-01 UTC by the clock of who published it; `None`
    /// without a tree, and where no record says.
    pub published_ms: Option<Millis>,
}

impl Listed {
    /// The version that is listed.
    pub fn version(&self) -> &DocumentVersion {
        match &self.record {
            Record::Published(entry) => &entry.version,
            Record::Claimed(version) => version,
        }
    }

    /// The document.
    pub fn doc(&self) -> DocId {
        self.version().doc
    }

    /// What a listing shows of its tree; `None` when it has none.
    pub fn entry(&self) -> Option<&CatalogueEntry> {
        match &self.record {
            Record::Published(entry) => Some(entry),
            Record::Claimed(_) => None,
        }
    }

    /// The same, to be kept beyond the catalogue.
    pub fn shared_entry(&self) -> Option<&Arc<CatalogueEntry>> {
        match &self.record {
            Record::Published(entry) => Some(entry),
            Record::Claimed(_) => None,
        }
    }

    /// A document with a tree, not yet labelled.
    pub fn published(
        entry: Arc<CatalogueEntry>,
        failure: Option<Box<FailureRecord>>,
        published_ms: Option<Millis>,
    ) -> Self {
        let state = if entry.gaps.is_empty() {
            State::Done
        } else {
            State::DoneWithGaps
        };
        Self {
            record: Record::Published(entry),
            state,
            failure,
            label: String::new(),
            published_ms,
        }
    }
}

/// All current documents of a collection, in order of their paths.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    documents: Vec<Listed>,
    positions: HashMap<DocId, usize>,
}

impl Catalogue {
    /// Reads the newest snapshot and the change records after it, and looks for documents without a tree. Where many
    /// records had to be read one by one it leaves a snapshot for the next reader; a reader without the right to write
    /// does without.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say. A record that cannot be read is left out and logged.
    pub async fn load(blobs: &dyn Blobs, collection: &Collection) -> Result<Self, PortError> {
        let (current, _) = Current::load(blobs, collection).await?;
        let open = open::find(blobs, collection, &current).await?;
        Ok(Self::of(&current, &open))
    }

    /// A catalogue of these published documents: for readers that have their own source of entries.
    pub fn of_entries(entries: impl IntoIterator<Item = CatalogueEntry>) -> Self {
        let mut current = Current::default();
        for entry in entries {
            current.apply(Change {
                at_ms: 0,
                kind: ChangeKind::Published(Box::new(entry)),
            });
        }
        Self::of(&current, &open::Open::default())
    }

    /// The catalogue of what is current; entries are shared, not copied.
    pub(crate) fn of(current: &Current, open: &open::Open) -> Self {
        let published = current.latest.iter().filter_map(|(doc, latest)| {
            let failure = open.failures.get(doc).cloned().map(Box::new);
            latest
                .entry
                .clone()
                .map(|entry| Listed::published(entry, failure, latest.published_ms()))
        });
        let superseded = |listed: &&Listed| {
            current
                .latest
                .get(&listed.doc())
                .is_some_and(|latest| latest.entry.is_some())
        };
        let mut documents: Vec<Listed> = published.collect();
        documents.extend(
            open.documents
                .iter()
                .filter(|listed| !superseded(listed))
                .cloned(),
        );
        documents.sort_by(|a, b| (&a.version().path, a.doc()).cmp(&(&b.version().path, b.doc())));
        labels::assign(&mut documents);
        let positions = documents
            .iter()
            .enumerate()
            .map(|(at, listed)| (listed.doc(), at))
            .collect();
        Self {
            documents,
            positions,
        }
    }

    /// The same with only some of the documents, each under the name it has here.
    #[must_use]
    pub fn narrowed(&self, keep: impl Fn(&Listed) -> bool) -> Self {
        let documents: Vec<Listed> = self
            .documents
            .iter()
            .filter(|listed| keep(listed))
            .cloned()
            .collect();
        let positions = documents
            .iter()
            .enumerate()
            .map(|(at, listed)| (listed.doc(), at))
            .collect();
        Self {
            documents,
            positions,
        }
    }

    /// The documents in order of their paths, then ids.
    pub fn documents(&self) -> &[Listed] {
        &self.documents
    }

    /// The document with this id.
    pub fn get(&self, doc: DocId) -> Option<&Listed> {
        self.documents.get(*self.positions.get(&doc)?)
    }
}

/// What change records come to: the latest state of each document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Current {
    pub(crate) latest: HashMap<DocId, Latest>,
    /// Change records this is the sum of.
    pub(crate) changes: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Latest {
    pub(crate) seq: u64,
    /// `None`: a tombstone.
    pub(crate) entry: Option<Arc<CatalogueEntry>>,
    /// When its record was written; 0 where that is not known.
    pub(crate) at_ms: Millis,
}

impl Latest {
    fn published_ms(&self) -> Option<Millis> {
        (self.at_ms > 0).then_some(self.at_ms)
    }
}

impl Current {
    /// Sums up the newest snapshot and the records after it.
    pub(crate) async fn load(
        blobs: &dyn Blobs,
        collection: &Collection,
    ) -> Result<(Self, Mark), PortError> {
        let (mut current, mut mark) = snapshot::latest(blobs, collection).await?;
        let tail = changes::since(blobs, collection, &mark, 0).await?;
        let read = tail.len();
        for (name, change) in tail {
            mark.add(name);
            change.into_iter().for_each(|change| current.apply(change));
        }
        if read > LONG_TAIL.max(current.latest.len() / 10) {
            snapshot::write(blobs, collection, &current, &mark).await;
        }
        Ok((current, mark))
    }

    /// Takes over a change; the highest version number wins, in whatever order records arrive.
    pub(crate) fn apply(&mut self, change: Change) {
        self.changes += 1;
        let at_ms = change.at_ms;
        let (doc, latest) = match change.kind {
            ChangeKind::Published(entry) => (
                entry.version.doc,
                Latest {
                    seq: entry.version.seq,
                    entry: Some(Arc::from(entry)),
                    at_ms,
                },
            ),
            ChangeKind::Removed { doc, seq } => (
                doc,
                Latest {
                    seq,
                    entry: None,
                    at_ms,
                },
            ),
        };
        match self.latest.get(&doc) {
            Some(known) if known.seq >= latest.seq => {}
            _ => {
                self.latest.insert(doc, latest);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use stemma_document::layout;
    use stemma_engine::blobs::{MemoryBlobs, list_all};

    use super::*;
    use crate::fixtures::entry;

    async fn record(blobs: &MemoryBlobs, at_ms: u64, kind: ChangeKind) {
        let key = layout::change_key(&Collection::default(), at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    async fn paths(blobs: &MemoryBlobs) -> Vec<String> {
        let catalogue = Catalogue::load(blobs, &Collection::default())
            .await
            .unwrap();
        catalogue
            .documents()
            .iter()
            .map(|listed| listed.version().path.clone())
            .collect()
    }

    #[tokio::test]
    async fn a_snapshot_says_what_its_records_said_and_late_records_count() {
        let blobs = MemoryBlobs::default();
        let removed = entry("00000");
        for n in 0..1_200u64 {
            record(
                &blobs,
                3_600_000 + n * 1_000,
                ChangeKind::Published(Box::new(entry(&format!("{n:05}")))),
            )
            .await;
        }
        record(
            &blobs,
            3_500_000,
            ChangeKind::Removed {
                doc: removed.version.doc,
                seq: 2,
            },
        )
        .await;
        let before = paths(&blobs).await;
        assert_eq!((before.len(), before[0].as_str()), (1_199, "00001"));
        let snapshots = layout::catalogue_prefix(&Collection::default());
        assert_eq!(list_all(&blobs, &snapshots).await.unwrap().len(), 1);
        // The old records are not needed any more, and one whose clock was five minutes behind is still seen.
        blobs
            .delete(&layout::change_key(
                &Collection::default(),
                3_600_000,
                3_600_000,
            ))
            .await
            .unwrap();
        record(
            &blobs,
            4_799_000 - 300_001,
            ChangeKind::Published(Box::new(entry("late"))),
        )
        .await;
        let catalogue = Catalogue::load(&blobs, &Collection::default())
            .await
            .unwrap();
        let times: Vec<_> = [0, 1_198, 1_199]
            .map(|at| catalogue.documents()[at].published_ms)
            .into();
        assert_eq!(
            times,
            [Some(3_601_000), Some(4_799_000), Some(4_799_000 - 300_001)],
            "of snapshot and records"
        );
        let after = paths(&blobs).await;
        assert_eq!(
            (after.len(), after.last().unwrap().as_str()),
            (1_200, "late")
        );
        assert_eq!(after[..1_199], before);
    }

    #[tokio::test]
    async fn a_damaged_snapshot_or_record_costs_time_only() {
        let blobs = MemoryBlobs::default();
        record(&blobs, 60_000, ChangeKind::Published(Box::new(entry("a")))).await;
        let snapshot = format!(
            "{}9999999999-000000000009-00000000.zst",
            layout::catalogue_prefix(&Collection::default())
        );
        blobs
            .put(&snapshot, bytes::Bytes::from_static(b"torn"))
            .await
            .unwrap();
        let key = layout::change_key(&Collection::default(), 60_001, 1);
        blobs
            .put(&key, bytes::Bytes::from_static(b"{"))
            .await
            .unwrap();
        assert_eq!(paths(&blobs).await, ["a"]);
    }

    #[tokio::test]
    async fn the_highest_version_wins_in_whatever_order() {
        let blobs = MemoryBlobs::default();
        let mut second = entry("a");
        second.version.seq = 2;
        second.gaps = vec!["pdf.no_text".into()];
        record(&blobs, 60_000, ChangeKind::Published(Box::new(second))).await;
        record(&blobs, 120_000, ChangeKind::Published(Box::new(entry("a")))).await;
        let catalogue = Catalogue::load(&blobs, &Collection::default())
            .await
            .unwrap();
        assert_eq!(catalogue.documents()[0].state, State::DoneWithGaps);
    }
}
