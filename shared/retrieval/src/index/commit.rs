//! A commit of the index: what searches read, and what is known about its documents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_catalog::catalog::Catalog;
use stemma_document::DocId;
use stemma_engine::PortResult;
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
    ///
    /// # Errors
    /// [`PortError`](stemma_engine::PortError) if the catalog cannot be read.
    pub fn missing_documents(&self, catalog: &Catalog) -> PortResult<MissingDocuments> {
        self.missing_of(catalog.tree_versions(&catalog.with_tree()?))
    }

    /// Those of these documents that it does not have in the version of `catalog`.
    pub(super) fn missing_among(
        &self,
        catalog: &Catalog,
        docs: impl IntoIterator<Item = DocId>,
    ) -> PortResult<MissingDocuments> {
        let versions = docs.into_iter().filter_map(|doc| {
            let seq = catalog.tree_version(doc).transpose()?;
            Some(seq.map(|seq| (doc, seq)))
        });
        self.missing_of(versions)
    }

    fn missing_of(
        &self,
        versions: impl Iterator<Item = PortResult<(DocId, u64)>>,
    ) -> PortResult<MissingDocuments> {
        let mut missing = MissingDocuments::default();
        for version in versions {
            let (doc, seq) = version?;
            let seq = Some(seq);
            if self.unreadable.get(&doc).copied() == seq {
                missing.unreadable.push(doc);
            } else if self.versions.get(doc) != seq {
                missing.not_indexed.push(doc);
            }
        }
        Ok(missing)
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
