//! Port from the server to the ingestion path. The query service itself only reads: it passes on bytes and ids, and reads
//! what is published.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_archive::ApiError;
use stemma_document::{Collection, DocId};

/// Accepts and removes documents.
#[async_trait]
pub trait UploadPort: Send + Sync {
    fn max_bytes(&self) -> u64;

    /// Submits a document as a job, which runs after this returns. A document with a known path becomes a new version; with
    /// the same bytes, nothing changes.
    ///
    /// # Errors
    /// [`ApiError`] if the document cannot be read or the store is unavailable.
    async fn submit(
        &self,
        collection: &Collection,
        upload: Upload,
    ) -> Result<UploadReceipt, ApiError>;

    /// Removes a document.
    ///
    /// # Errors
    /// [`ApiError`] if the store is unavailable.
    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), ApiError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Folders and name, `/`-separated, without a leading slash; no segment is empty, `.` or `..`.
    pub path: String,
    pub bytes: Bytes,
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadReceipt {
    /// The document.
    pub doc: DocId,
    pub job: String,
}
