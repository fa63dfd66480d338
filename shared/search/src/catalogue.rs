//! What a collection holds now.
//!
//! Change records say what was published and removed; snapshots sum them up, so that a listing of 100,000 documents
//! reads one object and a short tail. Documents without a tree come from their claims and the records of failed runs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use stemma_document::{CatalogueEntry, ChangeKind, Collection, DocId, DocumentVersion};
use stemma_engine::blobs::Blobs;
use stemma_engine::{FailureRecord, PortError};

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
}

impl State {
    /// All states, in the order work passes through them.
    pub const ALL: [State; 5] = [State::Queued, State::Running, State::Done, State::DoneWithGaps, State::Failed];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Done => "done",
            State::DoneWithGaps => "done_with_gaps",
            State::Failed => "failed",
        }
    }
}

/// What is known of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// It has a tree.
    Published(Box<CatalogueEntry>),
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

    /// A document with a tree, not yet labelled.
    pub(crate) fn published(entry: Box<CatalogueEntry>, failure: Option<Box<FailureRecord>>) -> Self {
        let state = if entry.gaps.is_empty() { State::Done } else { State::DoneWithGaps };
        Self { record: Record::Published(entry), state, failure, label: String::new() }
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
        let (mut current, mut mark) = snapshot::latest(blobs, collection).await?;
        let tail = changes::since(blobs, collection, &mark).await?;
        let read = tail.len();
        for (name, kind) in tail {
            mark.add(name);
            current.apply(kind);
        }
        if read > LONG_TAIL.max(current.latest.len() / 10) {
            snapshot::write(blobs, collection, &current, &mark).await;
        }
        let open = open::find(blobs, collection, &current).await?;
        Ok(Self::of(current, open))
    }

    /// A catalogue of these published documents: for readers that have their own source of entries.
    pub fn of_entries(entries: impl IntoIterator<Item = CatalogueEntry>) -> Self {
        let mut current = Current::default();
        for entry in entries {
            current.apply(ChangeKind::Published(Box::new(entry)));
        }
        Self::of(current, open::Open::default())
    }

    fn of(current: Current, mut open: open::Open) -> Self {
        let published = current.latest.into_iter().filter_map(|(doc, latest)| {
            let failure = open.failures.remove(&doc).map(Box::new);
            latest.entry.map(|entry| Listed::published(entry, failure))
        });
        let mut documents: Vec<Listed> = published.collect();
        documents.append(&mut open.documents);
        documents.sort_by(|a, b| (&a.version().path, a.doc()).cmp(&(&b.version().path, b.doc())));
        labels::assign(&mut documents);
        let positions = documents.iter().enumerate().map(|(at, listed)| (listed.doc(), at)).collect();
        Self { documents, positions }
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
#[derive(Debug, Default)]
pub(crate) struct Current {
    pub(crate) latest: HashMap<DocId, Latest>,
    /// Change records this is the sum of.
    pub(crate) changes: u64,
}

#[derive(Debug)]
pub(crate) struct Latest {
    pub(crate) seq: u64,
    /// `None`: a tombstone.
    pub(crate) entry: Option<Box<CatalogueEntry>>,
}

impl Current {
    /// Takes over a change; the highest version number wins, in whatever order records arrive.
    pub(crate) fn apply(&mut self, kind: ChangeKind) {
        self.changes += 1;
        let (doc, latest) = match kind {
            ChangeKind::Published(entry) => (entry.version.doc, Latest { seq: entry.version.seq, entry: Some(entry) }),
            ChangeKind::Removed { doc, seq } => (doc, Latest { seq, entry: None }),
        };
        match self.latest.get(&doc) {
            Some(known) if known.seq >= latest.seq => {}
            _ => {
                self.latest.insert(doc, latest);
            }
        }
    }
}
