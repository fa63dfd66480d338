//! Port from the server to the ingestion path. The query service itself only reads: it passes on bytes and ids, and reads
//! what is published.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_archive::ApiError;
use stemma_document::{Collection, DocId};
use stemma_operations::RetryCandidate;
use stemma_store::JobId;

const MAX_PATH_BYTES: usize = 800;

/// The routes that take files. With the scope `write`, their bodies are not read before the handler runs.
pub const UPLOAD_PATHS: [&str; 3] = ["/doc/", "/doc", "/upload"];

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

    /// Submits failed documents again as a job, whose id it returns.
    async fn resubmit(
        &self,
        collection: &Collection,
        documents: Vec<RetryCandidate>,
    ) -> Result<JobId, ApiError>;

    /// Removes a document.
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

/// The path of an upload; `None` if it is invalid. Axis segments (`@company`) are not folders.
pub fn upload_path(folder: &str, name: &str) -> Option<String> {
    let segments: Vec<&str> = folder
        .trim_matches('/')
        .split('/')
        .filter(|segment| !segment.is_empty())
        .chain([name])
        .collect();
    let path = segments.join("/");
    (segments.iter().all(|segment: &&str| {
        !segment.is_empty()
            && !matches!(*segment, "." | "..")
            && !segment.starts_with('@')
            && !segment.contains(char::is_control)
    }) && path.len() <= MAX_PATH_BYTES)
        .then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_paths_stay_inside_their_folder() {
        assert_eq!(
            upload_path("/reports/2022/", "a.pdf").as_deref(),
            Some("reports/2022/a.pdf")
        );
        assert_eq!(upload_path("", "边.pdf").as_deref(), Some("边.pdf"));
        for (folder, name) in [
            ("..", "a.pdf"),
            ("x", ".."),
            ("", ""),
            ("@form/10-K", "a.pdf"),
            ("", "a\n.pdf"),
        ] {
            assert_eq!(upload_path(folder, name), None, "{folder} {name}");
        }
        assert_eq!(upload_path(&"x/".repeat(500), "a.pdf"), None);
    }
}
