//! Folds change records into the latest state of each document.

use std::collections::HashMap;
use std::sync::Arc;

use stemma_document::{CatalogEntry, Change, ChangeKind, DocId};
use stemma_engine::env::Millis;

/// The latest change of each document.
#[derive(Debug, Clone, Default)]
pub(crate) struct LatestChanges {
    pub(crate) latest: HashMap<DocId, LatestChange>,
    // How many change records were applied; orders snapshots of the same minute.
    pub(crate) changes: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct LatestChange {
    pub(crate) seq: u64,
    // `None` for a removed document.
    pub(crate) entry: Option<Arc<CatalogEntry>>,
    // 0 if unknown.
    pub(crate) at_ms: Millis,
}

impl LatestChange {
    pub(crate) fn published_ms(&self) -> Option<Millis> {
        (self.at_ms > 0).then_some(self.at_ms)
    }
}

impl LatestChanges {
    pub(crate) fn is_published(&self, doc: DocId) -> bool {
        self.latest
            .get(&doc)
            .is_some_and(|latest| latest.entry.is_some())
    }

    /// Applies a change. The highest version wins whatever the order of arrival, because assemblers write concurrently and
    /// their clocks differ.
    pub(crate) fn apply(&mut self, change: Change) {
        self.changes += 1;
        let at_ms = change.at_ms;
        let (doc, latest) = match change.kind {
            ChangeKind::Published(entry) => (
                entry.version.doc,
                LatestChange {
                    seq: entry.version.seq,
                    entry: Some(Arc::from(entry)),
                    at_ms,
                },
            ),
            ChangeKind::Removed { doc, seq } => (
                doc,
                LatestChange {
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
