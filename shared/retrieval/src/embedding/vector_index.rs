//! The port of a vector store.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use stemma_document::{DocId, SectionId};

use super::EmbeddingError;

/// The embedding of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionVector {
    pub section: SectionId,
    /// Digest of the embedded text. An equal text in a later version keeps its vector.
    pub digest: u64,
    /// Normalized to length 1.
    pub vector: Vec<f32>,
}

/// A section near a query vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    pub doc: DocId,
    pub section: SectionId,
    /// Cosine similarity, -1 to 1.
    pub score: f32,
}

/// Held while embedding; released on drop.
pub type EmbedLock = Box<dyn Send + Sync>;

/// Stores the vectors of one collection and one model.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// The embedded version of each document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the store cannot be read.
    async fn versions(&self) -> Result<HashMap<DocId, u64>, EmbeddingError>;

    /// Number of vectors.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn count(&self) -> Result<usize, EmbeddingError>;

    /// The vectors of a document; empty if it has none.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn get(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError>;

    /// Atomically replaces the vectors of a document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the store cannot be written.
    async fn put(
        &self,
        doc: DocId,
        version: u64,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError>;

    /// Stores the vectors made so far for an unfinished document, replacing earlier ones. They do not take part in
    /// searches; a later run continues from them. [`VectorIndex::put`] removes them.
    ///
    /// # Errors
    /// As [`VectorIndex::put`].
    async fn put_partial(&self, doc: DocId, rows: Vec<SectionVector>)
    -> Result<(), EmbeddingError>;

    /// The stored vectors of an unfinished document.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn partial(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError>;

    /// Unfinished documents.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn partial_documents(&self) -> Result<Vec<DocId>, EmbeddingError>;

    /// Acquires the right to embed, until the lock is dropped or the process ends; `None` if another process holds it.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the lock cannot be checked.
    async fn lock(&self) -> Result<Option<EmbedLock>, EmbeddingError>;

    /// Removes the vectors of a document, finished or not.
    ///
    /// # Errors
    /// As [`VectorIndex::put`].
    async fn remove(&self, doc: DocId) -> Result<(), EmbeddingError>;

    /// The `most` sections nearest to `vector`, best first; ties ordered by document and section. Searches the documents in
    /// `within` only, if given.
    ///
    /// # Errors
    /// [`EmbeddingError::Dimensions`] if the stored vectors have another length.
    async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Neighbor>, EmbeddingError>;
}
