//! What searches read: a commit of each shard of the index, and what is known about their documents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_catalog::catalog::{Catalog, DocumentSet};
use stemma_document::DocId;
use stemma_store::PortResult;
use tantivy::Searcher;

use super::IndexError;
use super::folder::DocumentVersions;
use super::indexed_versions::IndexedVersions;
use super::searcher::IndexSearcher;
use super::shard::ShardCount;

/// The commits of all shards of an index at one moment. They stay readable and unchanged while they are held.
pub struct IndexCommit {
    /// Reads all of them.
    pub searcher: IndexSearcher,
    pub(super) count: ShardCount,
    // One for each shard; `None` before its first commit.
    pub(super) shards: Vec<Option<Arc<ShardCommit>>>,
    pub(super) number: u64,
}

impl IndexCommit {
    /// The indexed version of a document. A hit in another version than the catalog lists is stale.
    pub fn version(&self, doc: DocId) -> Option<u64> {
        let commit = self.shards[self.count.shard_of(doc).number()].as_ref()?;
        commit.versions.get(doc)
    }

    /// Number of the newest commit in this process; any change of the index increases it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of documents.
    pub fn documents(&self) -> usize {
        self.commits().map(|commit| commit.versions.len()).sum()
    }

    /// Number of index entries.
    pub fn entries(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Whether no document was indexed, and none was found unreadable.
    pub fn is_empty(&self) -> bool {
        self.commits()
            .all(|commit| commit.versions.is_empty() && commit.unreadable.is_empty())
    }

    fn commits(&self) -> impl Iterator<Item = &ShardCommit> {
        self.shards.iter().filter_map(Option::as_deref)
    }
}

/// One commit of a shard.
pub(super) struct ShardCommit {
    pub(super) searcher: Searcher,
    pub(super) versions: IndexedVersions,
    pub(super) unreadable: Arc<DocumentVersions>,
    /// Folder of its generation, and its number there, by tantivy.
    pub(super) generation: PathBuf,
    pub(super) opstamp: u64,
    pub(super) number: u64,
}

impl ShardCommit {
    /// Those of these documents that it does not have in the version of `catalog`. Walks all of them.
    pub(super) fn missing_in(
        &self,
        catalog: &Catalog,
        docs: &DocumentSet,
    ) -> PortResult<MissingDocuments> {
        self.missing_of(catalog.tree_versions(docs))
    }

    /// As [`missing_in`](Self::missing_in), of a few documents.
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

/// What a commit says in addition to its entries; stored in `meta.json`, and so in snapshots.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CommitPayload {
    // Documents that could not be read, with their version.
    unreadable: BTreeMap<String, u64>,
}

impl CommitPayload {
    pub(super) fn new(unreadable: &DocumentVersions) -> Self {
        Self {
            unreadable: unreadable
                .iter()
                .map(|(doc, seq)| (doc.to_string(), *seq))
                .collect(),
        }
    }

    pub(super) fn versions(self) -> Result<DocumentVersions, IndexError> {
        self.unreadable
            .into_iter()
            .map(|(doc, seq)| Ok((doc.parse::<DocId>().map_err(IndexError::damaged)?, seq)))
            .collect()
    }
}
