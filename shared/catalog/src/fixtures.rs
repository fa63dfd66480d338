//! Catalog entries for tests of this and other crates.

#![expect(clippy::expect_used, reason = "tests")]

use serde_json::json;
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, DocumentVersion, Extent, Fact,
    FilingFacts, Method,
};

use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;

use std::sync::Arc;

use crate::catalog::{Catalog, CatalogDocument};
use crate::change_log::ChangeCursor;
use crate::snapshot;
use crate::store::{CatalogStore, StoreBatch};

/// All documents of a catalog that can be read.
pub fn documents(catalog: &Catalog) -> Vec<Arc<CatalogDocument>> {
    let documents: PortResult<Vec<_>> = catalog.documents().collect();
    documents.expect("the catalog can be read")
}

impl Catalog {
    /// A catalog in memory of published documents.
    ///
    /// # Panics
    /// If memory cannot be written to.
    pub fn from_entries(entries: impl IntoIterator<Item = CatalogEntry>) -> Self {
        Self::from_changes(entries.into_iter().map(|entry| Change {
            at_ms: 0,
            kind: ChangeKind::Published(Box::new(entry)),
        }))
    }

    /// A catalog in memory after some changes.
    ///
    /// # Panics
    /// If memory cannot be written to.
    pub(crate) fn from_changes(changes: impl IntoIterator<Item = Change>) -> Self {
        let store = CatalogStore::in_memory().expect("memory can be written to");
        let batch = StoreBatch {
            changes: changes.into_iter().collect(),
            ..StoreBatch::default()
        };
        store.apply(batch).expect("memory can be written to");
        Self::from_store(&store).expect("memory can be read")
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::from_entries([])
    }
}

pub fn entry(path: &str) -> CatalogEntry {
    let uri = format!("file:///{path}");
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let version = DocumentVersion {
        doc: DocId::new(&Collection::default(), &uri),
        seq: 1,
        uri,
        name,
        path: path.into(),
        source: Digest::from_content(b""),
        origin: Default::default(),
        size_bytes: 0,
        settings: "".into(),
        sidecar_facts: Default::default(),
        filing_facts: Default::default(),
        correction: None,
        labels: None,
    };
    CatalogEntry {
        version,
        extent: Extent::Pages(1),
        sections: 1,
        tokens: 1,
        method: Method::Layout,
        doubt: Some(0.0),
        gaps: Vec::new(),
        facts: FilingFacts::default(),
        description: None,
    }
}

pub fn company_entry(path: &str, company: &str) -> CatalogEntry {
    let mut entry = entry(path);
    entry.facts.issuer = Some(Fact::from_text(company, None));
    entry
}

/// A catalog of documents whose only run failed.
pub fn failed(paths: &[&str]) -> Catalog {
    let kinds = paths.iter().map(|path| failure(entry(path).version));
    Catalog::from_changes(kinds.map(|kind| Change { at_ms: 0, kind }))
}

/// The change that says that the run of a version failed.
pub fn failure(version: DocumentVersion) -> ChangeKind {
    ChangeKind::Failed {
        version: Box::new(version),
        failure: json!({
            "code": "pdf.truncated", "message": "it ends early", "next": null, "stage": "paginate", "attempts": 1,
            "at_ms": 1,
        }),
    }
}

/// Writes a snapshot of published documents, and no records of them.
pub async fn write_snapshot(
    blobs: &dyn Blobs,
    collection: &Collection,
    entries: Vec<CatalogEntry>,
    now_ms: Millis,
) -> PortResult<()> {
    let changes = entries.into_iter().map(|entry| Change {
        at_ms: now_ms,
        kind: ChangeKind::Published(Box::new(entry)),
    });
    let mut changes = changes.peekable();
    let store = CatalogStore::in_memory()?;
    while changes.peek().is_some() {
        store.apply(StoreBatch {
            changes: changes.by_ref().take(4_000).collect(),
            ..StoreBatch::default()
        })?;
    }
    let cursor = ChangeCursor {
        floor: now_ms / 60_000,
        ..ChangeCursor::default()
    };
    snapshot::write(blobs, collection, &store.reader()?, &cursor).await
}
