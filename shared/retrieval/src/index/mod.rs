//! The full-text index of a collection, kept current with its catalog.
//!
//! - [`schema`] and [`entry`]: the fields, and the index entries of a document.
//! - [`doc_mapper`]: schema, mapping and revision of an index.
//! - [`shard`]: which shard of an index has a document.
//! - [`folder`]: a shard on the local disk: generations and the write lock.
//! - [`commit`]: what searches read, and what a commit lacks.
//! - [`sync`]: the difference between catalog and index, and applying it.
//! - [`snapshot`]: immutable copies in the blob store, made of content-addressed parts that copies share.
//! - [`shard_index`]: one shard in one process, kept current.
//! - [`local_index`]: all shards in one process, and [`searcher`]: reads them as one index.
//! - [`builder`]: builds an index for all processes and uploads snapshots.
//! - [`query`], [`route`] and `ranking`: searching and ranking.
//!
//! The index is a cache of published trees; a damaged one is rebuilt. A search sees one commit: never half a document, and
//! never half an update.

pub mod builder;
mod claim;
pub mod commit;
pub mod doc_mapper;
mod document_filter;
mod document_fit;
pub mod entry;
mod evidence;
#[cfg(test)]
mod figure_tests;
pub mod folder;
mod hits;
mod indexed_versions;
mod item_index;
pub mod local_index;
mod missing;
mod near_terms;
mod open_shards;
mod operators;
mod passage;
pub mod query;
#[cfg(test)]
mod query_tests;
mod ranking;
pub mod route;
pub mod schema;
pub mod searcher;
pub mod shard;
pub mod shard_index;
pub mod snapshot;
mod stored_passage;
pub mod sync;
#[cfg(test)]
mod tests;
mod word_splitter;

use std::path::{Path, PathBuf};

use stemma_engine::PortError;
use tantivy::TantivyError;

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The blob store failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The local disk failed.
    #[error("{}: {error}", path.display())]
    Disk {
        path: PathBuf,
        error: std::io::Error,
    },
    /// Another update holds the writer.
    #[error("the index is being written to")]
    Busy,
    /// Not a readable index: torn, altered or of another schema.
    #[error("the index is damaged: {0}")]
    Damaged(String),
}

impl IndexError {
    fn disk(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::Disk {
            path: path.clone(),
            error,
        }
    }

    fn damaged(error: impl std::fmt::Display) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::LockFailure(..) => Self::Busy,
            TantivyError::IoError(error) => Self::Disk {
                path: "index".into(),
                error: std::io::Error::other(error),
            },
            other => Self::damaged(other),
        }
    }
}

// Runs work on index files on a blocking thread. A panic over damaged bytes counts as damage.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(IndexError::damaged(error)),
    }
}
