//! A commit of the index: what searches read, and what is known about its documents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_document::{CatalogEntry, DocId};
use tantivy::Searcher;

use super::IndexError;
use super::folder::DocumentVersions;
use super::indexed_versions::IndexedVersions;

/// One commit of the index. It stays readable and unchanged while it is held.
pub struct IndexCommit {
    /// Reads the commit.
    pub searcher: Searcher,
    pub(super) versions: IndexedVersions,
    pub(super) unreadable: Arc<DocumentVersions>,
    /// Folder of its generation, and its number there, by tantivy.
    pub(super) generation: PathBuf,
    pub(super) opstamp: u64,
    pub(super) number: u64,
}

impl IndexCommit {
    /// The indexed version of a document. A hit in another version than the catalog lists is stale.
    pub fn version(&self, doc: DocId) -> Option<u64> {
        self.versions.get(doc)
    }

    /// Number of the commit in this process; any change of the index increases it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of documents.
    pub fn documents(&self) -> usize {
        self.versions.len()
    }

    /// Number of index entries.
    pub fn entries(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Whether no document was indexed, and none was found unreadable.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.unreadable.is_empty()
    }

    /// The documents that it does not have in the version of `catalog`. Walks the whole catalog.
    pub fn missing_documents(&self, catalog: &Catalog) -> MissingDocuments {
        let documents = catalog.documents().iter();
        self.missing_of(documents.filter_map(CatalogDocument::entry))
    }

    /// Those of these documents that it does not have in the version of `catalog`.
    pub(super) fn missing_among(
        &self,
        catalog: &Catalog,
        docs: impl IntoIterator<Item = DocId>,
    ) -> MissingDocuments {
        let listed = docs.into_iter().filter_map(|doc| catalog.get(doc));
        self.missing_of(listed.filter_map(CatalogDocument::entry))
    }

    fn missing_of<'a>(&self, entries: impl Iterator<Item = &'a CatalogEntry>) -> MissingDocuments {
        let mut missing = MissingDocuments::default();
        for entry in entries {
            let doc = entry.version.doc;
            let seq = Some(entry.version.seq);
            if self.unreadable.get(&doc).copied() == seq {
                missing.unreadable.push(doc);
            } else if self.versions.get(doc) != seq {
                missing.not_indexed.push(doc);
            }
        }
        missing
    }
}

/// Documents of a catalog that a commit does not have in their current version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingDocuments {
    /// They will be indexed.
    pub not_indexed: Vec<DocId>,
    /// Their trees or texts could not be read.
    pub unreadable: Vec<DocId>,
}

/// What a commit says beside its entries; stored in `meta.json`, and so in snapshots.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CommitPayload {
    // Documents that could not be read, with their version.
    unreadable: BTreeMap<String, u64>,
}

impl CommitPayload {
    pub(super) fn new(unreadable: &DocumentVersions) -> Self {
        let documents = unreadable.iter();
        Self {
            unreadable: documents
                .map(|(doc, seq)| (doc.to_string(), *seq))
                .collect(),
        }
    }

    pub(super) fn versions(self) -> Result<DocumentVersions, IndexError> {
        let documents = self.unreadable.into_iter();
        documents
            .map(|(doc, seq)| Ok((doc.parse::<DocId>().map_err(IndexError::damaged)?, seq)))
            .collect()
    }
}
