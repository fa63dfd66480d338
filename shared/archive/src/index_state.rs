//! How far the index of this machine follows the catalog.

use serde::Serialize;
use stemma_store::PortResult;

use crate::Archive;

/// How far the index of this machine follows the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IndexState {
    pub documents: u64,
    /// Size on disk.
    pub bytes: u64,
    /// Documents with a tree that the index lacks: it will have them, or they cannot be read.
    pub not_indexed: u64,
}

impl Archive {
    /// The state of the index; `None` without one, or before it is opened. Walks no documents, so those that the index has in an
    /// older version count as indexed.
    pub fn index_state(&self) -> PortResult<Option<IndexState>> {
        let Some(index) = self.cache.as_ref().map(|cache| cache.index()) else {
            return Ok(None);
        };
        let Some(commit) = index.current_commit() else {
            return Ok(None);
        };
        let documents = commit.documents() as u64;
        let with_tree = self.catalog().with_tree()?.len() as u64;
        Ok(Some(IndexState {
            documents,
            bytes: index.bytes(),
            not_indexed: with_tree.saturating_sub(documents),
        }))
    }
}
