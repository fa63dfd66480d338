//! The port: who keeps vectors, and finds those near another one.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use stemma_document::{DocId, SectionId};

use super::MeaningError;

/// A section as a vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The section.
    pub section: SectionId,
    /// Tells its text from others of the document: the same text has the same vector in a later version.
    pub digest: u64,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// A section near a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The document.
    pub doc: DocId,
    /// The section.
    pub section: SectionId,
    /// Cosine of the angle between both: 1 is the same direction.
    pub score: f32,
}

/// Held by who makes vectors.
pub type Lock = Box<dyn Send + Sync>;

/// Keeps vectors of one collection, of one model.
#[async_trait]
pub trait Vectors: Send + Sync {
    /// The versions of documents that have vectors.
    ///
    /// # Errors
    /// [`MeaningError`] when they cannot be read.
    async fn held(&self) -> Result<HashMap<DocId, u64>, MeaningError>;

    /// How many vectors there are.
    ///
    /// # Errors
    /// As [`Vectors::held`].
    async fn count(&self) -> Result<usize, MeaningError>;

    /// The vectors of a document; none where it has none.
    ///
    /// # Errors
    /// As [`Vectors::held`].
    async fn of(&self, doc: DocId) -> Result<Vec<Row>, MeaningError>;

    /// Replaces the vectors of a document by those of a version: all or nothing.
    ///
    /// # Errors
    /// [`MeaningError`] when they cannot be kept.
    async fn put(&self, doc: DocId, version: u64, rows: Vec<Row>) -> Result<(), MeaningError>;

    /// Keeps what was made of a document that is not whole yet: it counts nowhere, and is there for who goes on. Replaces
    /// what was kept so before; [`Vectors::put`] ends it.
    ///
    /// # Errors
    /// As [`Vectors::put`].
    async fn keep_part(&self, doc: DocId, rows: Vec<Row>) -> Result<(), MeaningError>;

    /// What is kept of a document that is not whole.
    ///
    /// # Errors
    /// As [`Vectors::held`].
    async fn part(&self, doc: DocId) -> Result<Vec<Row>, MeaningError>;

    /// Documents of which parts are kept.
    ///
    /// # Errors
    /// As [`Vectors::held`].
    async fn parts(&self) -> Result<Vec<DocId>, MeaningError>;

    /// The right to make vectors, until it is dropped or the process ends; `None` while someone else has it.
    ///
    /// # Errors
    /// [`MeaningError`] when it cannot be said.
    async fn lock(&self) -> Result<Option<Lock>, MeaningError>;

    /// Forgets a document, and parts of it.
    ///
    /// # Errors
    /// As [`Vectors::put`].
    async fn remove(&self, doc: DocId) -> Result<(), MeaningError>;

    /// The `most` sections nearest to `vector`, best first; equal ones in order of documents and sections. With `within`,
    /// only of these documents.
    ///
    /// # Errors
    /// [`MeaningError::Dimensions`] when the vector is of another length than those kept.
    async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Near>, MeaningError>;
}
