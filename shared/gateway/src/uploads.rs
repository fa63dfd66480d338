//! The way of a server to the ingestion path, where it is given one. The query service itself only reads: it hands over
//! bytes and ids, and looks at what is published.

use std::collections::BTreeMap;

use async_trait::async_trait;
use axum::http::header;
use axum::http::request::Parts;
use bytes::Bytes;
use stemma_document::{Collection, DocId};

use crate::admission::RequestPermit;
use crate::problem::Problem;
use crate::state::AppState;
use stemma_archive::ApiError;

/// Takes documents in, and removes them.
#[async_trait]
pub trait UploadPort: Send + Sync {
    /// The largest document in bytes.
    fn max_bytes(&self) -> u64;

    /// Takes a document in: it becomes a job, and is worked on after this has returned. One of the same path is a new
    /// version of it, or, with the same bytes, itself.
    ///
    /// # Errors
    /// [`ApiError`] where it is none that can be read, or the store is away.
    async fn submit(
        &self,
        collection: &Collection,
        upload: Upload,
    ) -> Result<UploadReceipt, ApiError>;

    /// Removes a document.
    ///
    /// # Errors
    /// [`ApiError`] where the store is away.
    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), ApiError>;
}

/// A document that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Folders and name, `/`-separated, without a slash before them; no segment is empty, `.` or `..`.
    pub path: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// Facts that are stated about it, by their names.
    pub metadata: BTreeMap<String, String>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadReceipt {
    /// The document.
    pub doc: DocId,
    /// The job that works on it.
    pub job: String,
}

/// The way in, for who may use it. A request says a key even where none is needed: a web page of another site cannot
/// send that header without being asked for leave first.
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
