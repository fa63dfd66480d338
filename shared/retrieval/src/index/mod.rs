//! The corpus index: all sections of a collection in a full-text index, kept up to date by its change records.
//!
//! - [`schema`] and [`entry`]: the fields, and what one tree becomes in them.
//! - [`doc_mapper`]: what the index of this program looks like, and the revision that keeps it apart from others.
//! - [`folder`]: an index on the local disk: generations, the lock, what it holds.
//! - [`sync`]: what a catalogue has and an index has not, and making it so.
//! - [`snapshot`]: immutable copies in the store; parts are content-addressed and shared between copies.
//! - [`local_index`]: the index of one process, brought up to a catalogue: what searches read.
//! - [`builder`]: who builds for all, and leaves snapshots.
//!
//! The index says nothing that published trees do not say: it is a cache, and whatever is wrong with it is repaired by
//! making it again. What it refuses to do: show half a document, or half an update; a searcher sees one commit.

pub mod builder;
pub mod doc_mapper;
pub mod entry;
pub mod folder;
pub mod local_index;
pub mod query;
pub mod route;
pub mod schema;
mod score;
pub mod snapshot;
pub mod sync;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

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
    /// Another update of it has not ended yet.
    #[error("the index is being written to")]
    Busy,
    /// It cannot be read as an index: torn, altered, or not one.
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
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::LockFailure(..) => Self::Busy,
            TantivyError::IoError(error) => Self::Disk {
                path: "index".into(),
                error: std::io::Error::other(error),
            },
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// Work on index files, off the threads that serve IO. A panic over damaged bytes is damage.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(IndexError::Damaged(error.to_string())),
    }
}
