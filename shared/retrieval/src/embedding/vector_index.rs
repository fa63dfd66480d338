//! The port: who keeps vectors, and finds those near another one.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use stemma_document::{DocId, SectionId};

use super::EmbeddingError;

/// A section as a vector.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionVector {
    /// The section.
    pub section: SectionId,
    /// Tells its text from others of the document: the same text has the same vector in a later version.
    pub digest: u64,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// A section near a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The document.
    pub doc: DocId,
    /// The section.
    pub section: SectionId,
    /// Cosine of the angle between both: 1 is the same direction.
    pub score: f32,
}

/// Held by who makes vectors.
pub type EmbedLock = Box<dyn Send + Sync>;

/// Keeps vectors of one collection, of one model.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// The versions of documents that have vectors.
    ///
    /// # Errors
    /// [`EmbeddingError`] when they cannot be read.
    async fn versions(&self) -> Result<HashMap<DocId, u64>, EmbeddingError>;

    /// How many vectors there are.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn count(&self) -> Result<usize, EmbeddingError>;

    /// The vectors of a document; none where it has none.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn get(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError>;

    /// Replaces the vectors of a document by those of a version: all or nothing.
    ///
    /// # Errors
    /// [`EmbeddingError`] when they cannot be kept.
    async fn put(
        &self,
        doc: DocId,
        version: u64,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError>;

    /// Keeps what was made of a document that is not whole yet: it counts nowhere, and is there for who goes on. Replaces
    /// what was kept so before; [`VectorIndex::put`] ends it.
    ///
    /// # Errors
    /// As [`VectorIndex::put`].
    async fn put_partial(&self, doc: DocId, rows: Vec<SectionVector>)
    -> Result<(), EmbeddingError>;

    /// What is kept of a document that is not whole.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn partial(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError>;

    /// Documents of which parts are kept.
    ///
    /// # Errors
    /// As [`VectorIndex::versions`].
    async fn partial_documents(&self) -> Result<Vec<DocId>, EmbeddingError>;

    /// The right to make vectors, until it is dropped or the process ends; `None` while someone else has it.
    ///
    /// # Errors
    /// [`EmbeddingError`] when it cannot be said.
    async fn lock(&self) -> Result<Option<EmbedLock>, EmbeddingError>;

    /// Forgets a document, and parts of it.
    ///
    /// # Errors
    /// As [`VectorIndex::put`].
    async fn remove(&self, doc: DocId) -> Result<(), EmbeddingError>;

    /// The `most` sections nearest to `vector`, best first; equal ones in order of documents and sections. With `within`,
    /// only of these documents.
    ///
    /// # Errors
    /// [`EmbeddingError::Dimensions`] when the vector is of another length than those kept.
    async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Neighbor>, EmbeddingError>;
}
