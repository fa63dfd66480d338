//! Port from the server to the ingestion path. The query service itself only reads: it passes on bytes and ids, and reads
//! what is published.

use std::collections::BTreeMap;

use async_trait::async_trait;
use axum::http::header;
use axum::http::request::Parts;
use bytes::Bytes;
use stemma_archive::ApiError;
use stemma_document::{Collection, DocId};

use crate::admission::RequestPermit;
use crate::problem::Problem;
use crate::state::AppState;

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

/// The upload port, for requests with write access.
// A key header is required even on servers without keys: a cross-site page cannot send it without a CORS preflight.
pub fn upload_port<'a>(site: &'a AppState, parts: &Parts) -> Result<&'a dyn UploadPort, Problem> {
    let Some(intake) = &site.deps.uploads else {
        let detail = "this server only reads: documents are ingested and removed elsewhere";
        return Err(Problem::new(403, "intake.not_here", detail).with_next(
            "`stemma ingest` and `stemma rm` on the store, or a server started by `stemma serve`",
        ));
    };
    let says_key =
        parts.headers.contains_key("api_key") || parts.headers.contains_key(header::AUTHORIZATION);
    if !says_key {
        let detail = "a request that writes says a key, any where none is configured";
        return Err(Problem::new(403, "key.unsaid", detail)
            .with_next("send `api_key: KEY` or `Authorization: Bearer KEY`"));
    }
    if RequestPermit::from_parts(parts)?.may_write() {
        Ok(intake.as_ref())
    } else {
        let detail = "this key may not write: it lacks the scope `write`";
        Err(Problem::new(403, "key.scope", detail)
            .with_next("give it the scope `write` in query.keys"))
    }
}
