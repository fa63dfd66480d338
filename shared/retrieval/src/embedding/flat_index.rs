//! Flat vector index: exact cosine search, O(n) per query, measured to 500,000 sections (ADR 0021).
//!
//! ```text
//! {cache}/{collection}/vectors-{model digest}/{doc}-{version}.vec   written once, renamed into place
//!                                             parts/{doc}.vec       unfinished documents
//!                                             parts/lock            held while embedding; released when the process ends
//! ```
//! A file holds the vectors of one document. A torn file, or one of another dimension, is deleted and computed again. Files
//! of other processes are picked up by the next search: the folder's modification time says whether there are any.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use stemma_document::{Collection, Digest, DocId};

use super::EmbeddingError;
use super::flat_vectors::{FlatVectors, Neighbor};
use super::vector_file::{
    EXTENSION, SectionVector, decode, disk_error, encode, list_files, remove, write,
};

/// Largest number of vectors; exact search was measured with this many (ADR 0021).
pub const MAX_VECTORS: usize = 500_000;
// Unfinished documents.
const PARTIAL_FOLDER: &str = "parts";

/// Held while embedding; released on drop.
pub type EmbedLock = Box<dyn Send + Sync>;

/// The vectors of one collection and one model, in local files.
pub struct FlatIndex {
    folder: PathBuf,
    max_vectors: usize,
    state: Arc<RwLock<Option<FlatVectors>>>,
}

impl FlatIndex {
    /// The vectors of a model below `cache`. Reads and creates nothing yet. Each `model` has a folder of its own.
    pub fn new(cache: &Path, collection: &Collection, model: &str) -> Self {
        let digest: String = Digest::from_content(model.as_bytes())
            .to_string()
            .chars()
            .take(12)
            .collect();
        let folder = cache
            .join(collection.as_str())
            .join(format!("vectors-{digest}"));
        Self {
            folder,
            max_vectors: MAX_VECTORS,
            state: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_max_vectors(mut self, most: usize) -> Self {
        self.max_vectors = most;
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    // Runs `work` on the loaded vectors, on a blocking thread. Loads the files first if that has not happened, or if
    // `follow` asks for changes of other processes.
    async fn with_vectors<T: Send + 'static>(
        &self,
        follow: bool,
        work: impl FnOnce(&mut FlatVectors) -> Result<T, EmbeddingError> + Send + 'static,
    ) -> Result<T, EmbeddingError> {
        let state = Arc::clone(&self.state);
        let folder = self.folder.clone();
        super::run_cpu(move || {
            let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
            let is_new = state.is_none();
            let vectors = state.get_or_insert_default();
            if (is_new || follow)
                && let Err(error) = vectors.refresh(&folder)
            {
                if is_new {
                    *state = None;
                }
                return Err(error);
            }
            work(vectors)
        })
        .await?
    }

    fn partial_path(&self, doc: DocId) -> PathBuf {
        self.folder
            .join(PARTIAL_FOLDER)
            .join(format!("{doc}.{EXTENSION}"))
    }

    fn vector_path(&self, doc: DocId, version: u64) -> PathBuf {
        self.folder.join(format!("{doc}-{version:012}.{EXTENSION}"))
    }

    /// The embedded version of each document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the folder cannot be read.
    pub async fn versions(&self) -> Result<HashMap<DocId, u64>, EmbeddingError> {
        self.with_vectors(true, |vectors| Ok(vectors.versions.clone()))
            .await
    }

    /// Number of vectors.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn count(&self) -> Result<usize, EmbeddingError> {
        self.with_vectors(true, |vectors| Ok(vectors.rows.len()))
            .await
    }

    /// The vectors of a document; empty if it has none.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn get(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError> {
        self.with_vectors(false, move |vectors| Ok(vectors.document_vectors(doc)))
            .await
    }

    /// Atomically replaces the vectors of a document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the folder cannot be written, the vectors have another length, or there are too many.
    pub async fn put(
        &self,
        doc: DocId,
        version: u64,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError> {
        let most = self.max_vectors;
        let path = self.vector_path(doc, version);
        let folder = self.folder.clone();
        let part = self.partial_path(doc);
        self.with_vectors(false, move |vectors| {
            let new = rows
                .first()
                .map_or(vectors.dimensions, |row| row.vector.len());
            let others = vectors
                .rows
                .iter()
                .filter(|(other, ..)| *other != doc)
                .count();
            if others > 0 && new != vectors.dimensions
                || rows.iter().any(|row| row.vector.len() != new)
            {
                return Err(EmbeddingError::Dimensions {
                    stored: vectors.dimensions,
                    new,
                });
            }
            if others + rows.len() > most {
                return Err(EmbeddingError::TooManyVectors {
                    vectors: others + rows.len(),
                    most,
                });
            }
            write(&path, &encode(new, &rows))?;
            let before = vectors
                .versions
                .get(&doc)
                .copied()
                .filter(|before| *before != version);
            vectors.forget(doc);
            vectors.add(doc, version, new, &rows);
            // Should deleting the older file fail, the next refresh deletes it: the newer version wins.
            if let Some(before) = before {
                remove(&folder.join(format!("{doc}-{before:012}.{EXTENSION}")))?;
            }
            remove(&part)
        })
        .await
    }

    /// Stores the vectors made so far for an unfinished document, replacing earlier ones. They do not take part in searches; a later
    /// run continues from them. [`FlatIndex::put`] removes them.
    ///
    /// # Errors
    /// As [`FlatIndex::put`].
    pub async fn put_partial(
        &self,
        doc: DocId,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError> {
        let path = self.partial_path(doc);
        super::run_cpu(move || {
            write(
                &path,
                &encode(rows.first().map_or(0, |row| row.vector.len()), &rows),
            )
        })
        .await?
    }

    /// The stored vectors of an unfinished document.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn partial(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError> {
        let path = self.partial_path(doc);
        super::run_cpu(move || match fs::read(&path) {
            Ok(bytes) => Ok(decode(&bytes).map(|(_, rows)| rows).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(disk_error(&path)(error).into()),
        })
        .await?
    }

    /// Unfinished documents.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn partial_documents(&self) -> Result<Vec<DocId>, EmbeddingError> {
        let folder = self.folder.join(PARTIAL_FOLDER);
        super::run_cpu(move || {
            Ok(list_files(&folder)?
                .into_iter()
                .filter(|path| path.extension().is_some())
                .filter_map(|path: PathBuf| path.file_stem()?.to_str()?.parse().ok())
                .collect())
        })
        .await?
    }

    /// Acquires the right to embed, until the lock is dropped or the process ends; `None` if another process holds it.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the lock cannot be checked.
    pub async fn lock(&self) -> Result<Option<EmbedLock>, EmbeddingError> {
        let folder = self.folder.join(PARTIAL_FOLDER);
        super::run_cpu(move || {
            fs::create_dir_all(&folder).map_err(disk_error(&folder))?;
            let name = folder.join("lock");
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&name)
                .map_err(disk_error(&name))?;
            match file.try_lock() {
                Ok(()) => Ok(Some(Box::new(file) as EmbedLock)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(disk_error(&name)(error).into()),
            }
        })
        .await?
    }

    /// Removes the vectors of a document, finished or not.
    ///
    /// # Errors
    /// As [`FlatIndex::put`].
    pub async fn remove(&self, doc: DocId) -> Result<(), EmbeddingError> {
        let folder = self.folder.clone();
        let part = self.partial_path(doc);
        self.with_vectors(false, move |vectors| {
            if let Some(version) = vectors.versions.get(&doc) {
                remove(&folder.join(format!("{doc}-{version:012}.{EXTENSION}")))?;
            }
            vectors.forget(doc);
            remove(&part)
        })
        .await
    }

    /// The `most` sections nearest to `vector`, best first; ties ordered by document and section. Searches the documents in `within`
    /// only, if given.
    ///
    /// # Errors
    /// [`EmbeddingError::Dimensions`] if the stored vectors have another length.
    pub async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Neighbor>, EmbeddingError> {
        let vector = vector.to_vec();
        let within = within.cloned();
        self.with_vectors(true, move |_| Ok(())).await?;
        let state = Arc::clone(&self.state);
        // The search takes the read lock only, so that searches run in parallel.
        super::run_cpu(move || {
            let state = state.read().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().map_or(Ok(Vec::new()), |vectors| {
                vectors.nearest(&vector, within.as_ref(), most)
            })
        })
        .await?
    }
}
