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
pub mod document_entry;
mod document_filter;
mod document_fit;
pub mod entry;
mod entry_queue;
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
mod passage_set;
pub mod query;
#[cfg(test)]
mod query_tests;
mod ranking;
pub mod route;
pub mod schema;
mod scope_statistics;
pub mod searcher;
pub mod shard;
pub mod shard_index;
pub mod snapshot;
mod stored_passage;
pub mod sync;
#[cfg(test)]
mod tests;
mod word_splitter;

use std::io;
use std::path::{Path, PathBuf};

use stemma_store::PortError;
use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError, OpenWriteError};

/// Why an index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The blob store failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The local disk failed, for example because it is full. The index is as good as before.
    #[error("{}: {error}", path.display())]
    Disk { path: PathBuf, error: io::Error },
    /// Another update holds the writer.
    #[error("the index is being written to")]
    Busy,
    /// Not a readable index: torn, altered or of another schema.
    #[error("the index is damaged: {0}")]
    Damaged(String),
}

impl IndexError {
    fn disk(path: &Path) -> impl Fn(io::Error) -> Self {
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

impl IndexError {
    // Tantivy names files relative to the folder of the index, or not at all.
    fn in_folder(self, folder: &Path) -> Self {
        match self {
            Self::Disk { path, error } => Self::Disk {
                path: folder.join(path),
                error,
            },
            other => other,
        }
    }
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        match &error {
            TantivyError::LockFailure(LockError::LockBusy, _) => return Self::Busy,
            TantivyError::SystemError(message) if message.starts_with("Failed to spawn") => {
                return Self::disk(Path::new(""))(io::Error::other(message.clone()));
            }
            _ => {}
        }
        let disk = disk_failure(&error).map(|(path, failure)| Self::disk(path)(failure));
        disk.unwrap_or_else(|| Self::damaged(error))
    }
}

// The failure of the disk that an error reports, and the file.
fn disk_failure(error: &TantivyError) -> Option<(&Path, io::Error)> {
    let unnamed = Path::new("");
    let (path, failure) = match error {
        TantivyError::IoError(error)
        | TantivyError::LockFailure(LockError::IoError(error), _)
        | TantivyError::OpenDirectoryError(OpenDirectoryError::FailedToCreateTempDir(error)) => {
            (unnamed, error)
        }
        TantivyError::OpenDirectoryError(OpenDirectoryError::IoError {
            io_error,
            directory_path,
        }) => (directory_path.as_path(), io_error),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, filepath })
        | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, filepath }) => {
            (filepath.as_path(), io_error)
        }
        // What is left of an error of the system.
        TantivyError::InternalError(message) => {
            let failure = system_error(message)?;
            return is_of_disk(&failure).then_some((unnamed, failure));
        }
        _ => return None,
    };
    is_of_disk(failure).then(|| (path, io::Error::new(failure.kind(), failure.to_string())))
}

// The error of the system with this message, which ends as in `No space left on device (os error 28)`.
fn system_error(message: &str) -> Option<io::Error> {
    let (_, code) = message.strip_suffix(')')?.rsplit_once("(os error ")?;
    Some(io::Error::from_raw_os_error(code.parse().ok()?))
}

// Whether the system failed: a full or broken disk, missing permission, too many open files. Otherwise a file is missing, or
// its content is wrong.
fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidData, InvalidInput, IsADirectory, NotADirectory, NotFound, Other,
        UnexpectedEof,
    };
    match error.kind() {
        AlreadyExists | InvalidData | InvalidInput | IsADirectory | NotADirectory | NotFound
        | UnexpectedEof => false,
        Other => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            inner.is_some_and(is_of_disk)
                || system_error(&error.to_string()).is_some_and(|error| is_of_disk(&error))
        }
        _ => true,
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
