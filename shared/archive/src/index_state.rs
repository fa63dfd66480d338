//! How far the index of this machine follows the catalog.

use serde::Serialize;
use stemma_engine::PortResult;

use crate::Archive;

/// How far the index of this machine follows the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IndexState {
    /// Documents in the index.
    pub documents: u64,
    /// Size on disk.
    pub bytes: u64,
    /// Documents with a tree that the index lacks.
    pub not_indexed: u64,
    /// Documents whose trees or texts cannot be read.
    pub unreadable: u64,
}

impl Archive {
    /// The state of the index; `None` without one, or before it is opened.
    ///
    /// # Errors
    /// [`stemma_engine::PortError`] when the catalog cannot be read.
    pub fn index_state(&self) -> PortResult<Option<IndexState>> {
        let Some(index) = self.cache.as_ref().map(|cache| cache.index()) else {
            return Ok(None);
        };
        let Some(commit) = index.current_commit() else {
            return Ok(None);
        };
        let missing = index.missing_documents(&commit, self.catalog())?;
        Ok(Some(IndexState {
            documents: commit.documents() as u64,
            bytes: index.bytes(),
            not_indexed: missing.not_indexed.len() as u64,
            unreadable: missing.unreadable.len() as u64,
        }))
    }
}
