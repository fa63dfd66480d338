//! One document of a catalog.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::{CatalogEntry, DocId, DocumentVersion, Gap};
use stemma_store::FailureRecord;
use stemma_store::env::Millis;

use crate::document_changes::DocumentChanges;

/// Processing state of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    /// Claimed; processing has not started.
    Queued,
    /// Some stages have produced artifacts.
    Running,
    Done,
    /// Published with warnings: gaps by which content is missing or doubtful, such as pages without text.
    DoneWithGaps,
    /// The last run failed and no earlier version is published.
    Failed,
    /// The job was cancelled before a tree was published.
    Cancelled,
}

impl DocumentState {
    pub fn for_published(entry: &CatalogEntry) -> Self {
        if entry.gaps.iter().any(|code| Gap::is_warning(code)) {
            DocumentState::DoneWithGaps
        } else {
            DocumentState::Done
        }
    }

    /// All states, in processing order.
    pub const ALL: [DocumentState; 6] = [
        DocumentState::Queued,
        DocumentState::Running,
        DocumentState::Done,
        DocumentState::DoneWithGaps,
        DocumentState::Failed,
        DocumentState::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DocumentState::Queued => "queued",
            DocumentState::Running => "running",
            DocumentState::Done => "done",
            DocumentState::DoneWithGaps => "done_with_gaps",
            DocumentState::Failed => "failed",
            DocumentState::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum DocumentRecord {
    Published(Arc<CatalogEntry>),
    /// Claimed, without a published tree.
    Claimed(Box<DocumentVersion>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CatalogDocument {
    pub record: DocumentRecord,
    pub state: DocumentState,
    /// Failure of the last run. The state is still [`DocumentState::Done`] if an earlier tree is published.
    pub failure: Option<Box<FailureRecord>>,
    /// Display name: unique in the catalog, and a valid locator.
    pub label: String,
    /// When the published tree was written, in Unix milliseconds by the publisher's clock; `None` without a tree or for
    /// entries of old snapshots, which have no times.
    pub published_ms: Option<Millis>,
}

impl CatalogDocument {
    pub fn version(&self) -> &DocumentVersion {
        match &self.record {
            DocumentRecord::Published(entry) => &entry.version,
            DocumentRecord::Claimed(version) => version,
        }
    }

    pub fn doc(&self) -> DocId {
        self.version().doc
    }

    /// The published entry; `None` without a tree.
    pub fn entry(&self) -> Option<&CatalogEntry> {
        match &self.record {
            DocumentRecord::Published(entry) => Some(entry),
            DocumentRecord::Claimed(_) => None,
        }
    }

    /// Like [`CatalogDocument::entry`], as a shared pointer.
    pub fn shared_entry(&self) -> Option<&Arc<CatalogEntry>> {
        match &self.record {
            DocumentRecord::Published(entry) => Some(entry),
            DocumentRecord::Claimed(_) => None,
        }
    }

    /// The document of these changes; `None` if it was removed. `has_started` says whether its open run has begun.
    pub(crate) fn from_changes(changes: &DocumentChanges, has_started: bool) -> Option<Self> {
        let open = changes.open.as_deref();
        if let Some(entry) = changes.entry() {
            let failed = open.and_then(|open| open.failed.as_ref());
            let failure = failed.map(|failed| Box::new(failed.record.clone()));
            let published_ms = changes.finished.as_ref()?.published_ms();
            return Some(Self::from_published(
                Arc::clone(entry),
                failure,
                published_ms,
            ));
        }
        let open = open?;
        let state = match open.failure() {
            Some(record) if record.is_cancelled() => DocumentState::Cancelled,
            Some(_) => DocumentState::Failed,
            None if has_started => DocumentState::Running,
            None => DocumentState::Queued,
        };
        Some(Self {
            record: DocumentRecord::Claimed(Box::new(open.claim.clone())),
            state,
            failure: open.failure().cloned().map(Box::new),
            label: String::new(),
            published_ms: None,
        })
    }

    /// A published document; its label is assigned later.
    pub fn from_published(
        entry: Arc<CatalogEntry>,
        failure: Option<Box<FailureRecord>>,
        published_ms: Option<Millis>,
    ) -> Self {
        let state = DocumentState::for_published(&entry);
        Self {
            record: DocumentRecord::Published(entry),
            state,
            failure,
            label: String::new(),
            published_ms,
        }
    }
}
