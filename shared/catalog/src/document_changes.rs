//! Folds change records into the latest state of a document.

use std::sync::Arc;

use stemma_document::{CatalogEntry, Change, ChangeKind, DocId, DocumentVersion};
use stemma_store::FailureRecord;
use stemma_store::env::Millis;

/// What is known about a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DocumentChanges {
    /// The newest published or removed version.
    pub(crate) finished: Option<FinishedVersion>,
    /// Newer versions without a tree.
    pub(crate) open: Option<Box<OpenVersions>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedVersion {
    pub(crate) seq: u64,
    // `None` for a removed document.
    pub(crate) entry: Option<Arc<CatalogEntry>>,
    // 0 if unknown.
    pub(crate) at_ms: Millis,
}

/// Versions newer than the finished one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenVersions {
    /// The newest claim.
    pub(crate) claim: DocumentVersion,
    pub(crate) claimed_ms: Millis,
    /// The newest failed version: the claimed one, or one before.
    pub(crate) failed: Option<FailedVersion>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FailedVersion {
    pub(crate) version: DocumentVersion,
    pub(crate) record: FailureRecord,
    pub(crate) at_ms: Millis,
}

impl FinishedVersion {
    pub(crate) fn published_ms(&self) -> Option<Millis> {
        (self.at_ms > 0).then_some(self.at_ms)
    }
}

impl OpenVersions {
    /// The failure of the newest claim; `None` while its run is open.
    pub(crate) fn failure(&self) -> Option<&FailureRecord> {
        let failed = self.failed.as_ref()?;
        (failed.version.seq == self.claim.seq).then_some(&failed.record)
    }
}

impl DocumentChanges {
    pub(crate) fn entry(&self) -> Option<&Arc<CatalogEntry>> {
        self.finished.as_ref()?.entry.as_ref()
    }

    /// Whether it has no tree and its newest run is open.
    pub(crate) fn is_queued(&self) -> bool {
        let open = self.open.as_ref();
        self.entry().is_none() && open.is_some_and(|open| open.failure().is_none())
    }

    pub(crate) fn finished_seq(&self) -> u64 {
        self.finished.as_ref().map_or(0, |finished| finished.seq)
    }

    // The highest version wins whatever the order of arrival, because assemblers write concurrently and their clocks
    // differ. Returns whether anything changed.
    fn finish(&mut self, finished: FinishedVersion) -> bool {
        if self.finished_seq() >= finished.seq {
            return false;
        }
        let seq = finished.seq;
        self.finished = Some(finished);
        if let Some(open) = &mut self.open {
            if open.claim.seq <= seq {
                self.open = None;
            } else {
                open.failed.take_if(|failed| failed.version.seq <= seq);
            }
        }
        true
    }

    fn claim(&mut self, version: &DocumentVersion, at_ms: Millis) -> bool {
        let newest = self.open.as_ref().map_or(0, |open| open.claim.seq);
        if version.seq <= self.finished_seq().max(newest) {
            return false;
        }
        let failed = self.open.take().and_then(|open| open.failed);
        self.open = Some(Box::new(OpenVersions {
            claim: version.clone(),
            claimed_ms: at_ms,
            failed,
        }));
        true
    }

    fn fail(&mut self, failed: FailedVersion) -> bool {
        // The claim has no record if it was made by an older program.
        let claimed = self.claim(&failed.version, failed.at_ms);
        match &mut self.open {
            Some(open)
                if failed.version.seq > self.finished.as_ref().map_or(0, |it| it.seq)
                    && open
                        .failed
                        .as_ref()
                        .is_none_or(|known| known.version.seq < failed.version.seq) =>
            {
                open.failed = Some(failed);
                true
            }
            _ => claimed,
        }
    }

    /// Applies a change of the document. Returns whether that changed anything.
    pub(crate) fn apply(&mut self, change: Change) -> bool {
        let at_ms = change.at_ms;
        let (doc, seq) = change.kind.version();
        match change.kind {
            ChangeKind::Published(entry) => self.finish(FinishedVersion {
                seq,
                entry: Some(Arc::from(entry)),
                at_ms,
            }),
            ChangeKind::Removed { .. } => self.finish(FinishedVersion {
                seq,
                entry: None,
                at_ms,
            }),
            ChangeKind::Claimed(version) => self.claim(&version, at_ms),
            ChangeKind::Failed { version, failure } => match serde_json::from_value(failure) {
                Ok(record) => self.fail(FailedVersion {
                    version: *version,
                    record,
                    at_ms,
                }),
                Err(error) => {
                    tracing::warn!(%doc, %error, "a recorded failure cannot be read; its document is listed as queued");
                    self.claim(&version, at_ms)
                }
            },
        }
    }

    /// The changes that lead to this state.
    pub(crate) fn to_changes(&self, doc: DocId) -> Vec<Change> {
        let mut changes = Vec::new();
        if let Some(finished) = &self.finished {
            let kind = match &finished.entry {
                Some(entry) => ChangeKind::Published(Box::new(CatalogEntry::clone(entry))),
                None => ChangeKind::Removed {
                    doc,
                    seq: finished.seq,
                },
            };
            let at_ms = finished.at_ms;
            changes.push(Change { at_ms, kind });
        }
        if let Some(open) = &self.open {
            if let Some(failed) = &open.failed
                && let Ok(failure) = serde_json::to_value(&failed.record)
            {
                let version = Box::new(failed.version.clone());
                let kind = ChangeKind::Failed { version, failure };
                let at_ms = failed.at_ms;
                changes.push(Change { at_ms, kind });
            }
            let kind = ChangeKind::Claimed(Box::new(open.claim.clone()));
            let at_ms = open.claimed_ms;
            changes.push(Change { at_ms, kind });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::entry;

    fn version(seq: u64) -> DocumentVersion {
        DocumentVersion {
            seq,
            ..entry("a").version
        }
    }

    fn changes() -> Vec<ChangeKind> {
        let failure = json!({"code": "x", "message": "m", "next": null, "stage": "s", "attempts": 1, "at_ms": 1});
        let mut second = entry("a");
        second.version.seq = 2;
        vec![
            ChangeKind::Claimed(Box::new(version(1))),
            ChangeKind::Failed {
                version: Box::new(version(1)),
                failure: failure.clone(),
            },
            ChangeKind::Claimed(Box::new(version(2))),
            ChangeKind::Published(Box::new(second)),
            ChangeKind::Claimed(Box::new(version(3))),
            ChangeKind::Failed {
                version: Box::new(version(3)),
                failure,
            },
            ChangeKind::Claimed(Box::new(version(4))),
            ChangeKind::Removed {
                doc: version(1).doc,
                seq: 1,
            },
        ]
    }

    fn fold(kinds: impl IntoIterator<Item = ChangeKind>) -> DocumentChanges {
        let mut changes = DocumentChanges::default();
        for kind in kinds {
            changes.apply(Change { at_ms: 5, kind });
        }
        changes
    }

    #[test]
    fn the_order_of_records_does_not_matter() {
        let expected = fold(changes());
        assert_eq!(expected.finished_seq(), 2);
        let open = expected.open.as_ref().unwrap();
        assert_eq!(open.claim.seq, 4);
        assert_eq!(open.failed.as_ref().unwrap().version.seq, 3);
        assert_eq!(open.failure(), None, "the newest run is open");
        for turn in 0..changes().len() {
            let mut kinds = changes();
            kinds.rotate_left(turn);
            assert_eq!(fold(kinds.clone()), expected, "{turn}");
            kinds.reverse();
            assert_eq!(fold(kinds), expected, "{turn}, reversed");
        }
    }

    #[test]
    fn a_state_equals_its_changes() {
        for end in 1..changes().len() {
            let state = fold(changes().into_iter().take(end));
            let again = state.to_changes(version(1).doc);
            assert_eq!(fold(again.into_iter().map(|change| change.kind)), state);
        }
    }
}
