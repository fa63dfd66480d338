//! The corpus index: all sections of a collection in a full-text index, kept up to date by its change records.
//!
//! - [`shape`]: what the index of this program looks like, and the revision that keeps it apart from others.
//!
//! The index says nothing that published trees do not say: it is a cache, and whatever is wrong with it is repaired by
//! making it again. What it refuses to do: show half a document, or half an update; a searcher sees one commit.

pub mod shape;

use std::path::PathBuf;

use stemma_engine::PortError;
use tantivy::TantivyError;

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The store was away.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The local disk refused.
    #[error("{}: {error}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// It cannot be read as an index: torn, altered, or not one.
    #[error("the index is damaged: {0}")]
    Damaged(String),
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        Self::Damaged(error.to_string())
    }
}
