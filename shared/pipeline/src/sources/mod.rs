//! Where the bytes of documents come from: local files, objects in buckets, and originals in the blob store.

mod blob_sources;
mod denials;
mod local;
mod s3;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{
    CompanionFile, Digest, DocumentVersion, Origin, SourceFormat, blob_keys, name_extensions,
};
use stemma_edgar::SkipReason;
use stemma_engine::objects::ObjectReader;
use stemma_store::{Failure, FailureKind, FailureRecord};

pub use blob_sources::SourceWriter;
pub use local::{LocalFiles, file_path, file_uri, open_regular};
pub use s3::{BucketObjects, object_uri, parse_object_uri};

use crate::FilingTask;

/// A reader of source documents.
#[async_trait]
pub trait SourceStore: Send + Sync {
    /// Reads the bytes of a version from its URI, at most `max_bytes`. Refuses an object with another ETag.
    /// The caller checks the digest of the bytes.
    ///
    /// # Errors
    /// A permanent `input.*` failure if the document is missing, too large or not readable; one that does not
    /// count as an attempt if the source is unavailable.
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, Failure>;
}

// The extension of full submissions of EDGAR, whose format their content says.
const SUBMISSION_EXTENSION: &str = "nc";

/// Whether a path or key has the extension of a document, and is no XML for machines by its name, such as a linkbase. Files that
/// are named one by one may have any name.
pub fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_supported = SourceFormat::from_extension(extension).is_some()
            || extension.eq_ignore_ascii_case(SUBMISSION_EXTENSION);
        let is_machine_xml = SourceFormat::from_extension(extension) == Some(SourceFormat::Xml)
            && SkipReason::from_file_name(name).is_some();
        !stem.is_empty() && is_supported && !is_machine_xml
    })
}

/// The usual extensions of documents, for a message: `.pdf, .htm, .md, .txt or .nc`.
pub fn document_extensions(conjunction: &str) -> String {
    let extensions = SourceFormat::usual_extensions().chain([SUBMISSION_EXTENSION]);
    name_extensions(extensions, conjunction)
}

/// Selects local files or buckets by the scheme of the URI.
pub struct SchemeRouter {
    // `None` on a cluster.
    files: Option<LocalFiles>,
    objects: BucketObjects,
}

impl SchemeRouter {
    /// Reads local files and objects: for a process that works on files of its own user.
    pub fn new(buckets: impl ObjectReader + 'static) -> Self {
        Self {
            files: Some(LocalFiles),
            ..Self::for_cluster(buckets)
        }
    }

    /// Reads objects only. Jobs come from other machines here, and a path that they name is a file of this one.
    /// Submission stores the bytes of files, which are read before the source is asked.
    pub fn for_cluster(buckets: impl ObjectReader + 'static) -> Self {
        Self {
            files: None,
            objects: BucketObjects::new(buckets),
        }
    }
}

#[async_trait]
impl SourceStore for SchemeRouter {
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, Failure> {
        match (version.uri.split_once("://"), &self.files) {
            (Some(("file", _)), Some(files)) => files.read(version, max_bytes).await,
            (Some(("file", _)), None) => Err(Failure::permanent(
                "input.denied",
                format!(
                    "{} is a local file, which a cluster does not read",
                    version.uri
                ),
            )
            .with_next("submit it with `stemma submit`, which stores its bytes")),
            (Some(("s3", _)), _) => self.objects.read(version, max_bytes).await,
            _ => Err(Failure::permanent(
                "input.unreachable",
                format!("cannot read {}: unknown scheme", version.uri),
            )
            .with_next("submit a file, or an object in a bucket")),
        }
    }
}

/// Reads the bytes of a version: the stored original, else the source if it has not changed.
///
/// # Errors
/// Like [`SourceStore::read`]; `input.changed` if the bytes differ from those submitted.
pub(crate) async fn read_source(
    task: &FilingTask<'_>,
    version: &DocumentVersion,
) -> Result<Bytes, Failure> {
    read_at_most(task, version, task.settings.limits.max_bytes).await
}

async fn read_at_most(
    task: &FilingTask<'_>,
    version: &DocumentVersion,
    max_bytes: u64,
) -> Result<Bytes, Failure> {
    if version.origin != Origin::Content {
        return task.tools.sources.read(version, max_bytes).await;
    }
    let collection = blob_keys::parse_collection(&task.run.scope)
        .map_err(|error| Failure::permanent("engine.header_invalid", error.to_string()))?;
    if let Some(bytes) =
        blob_sources::read_stored(&task.ports.blobs, &collection, version, max_bytes).await?
    {
        return Ok(bytes);
    }
    let bytes = task.tools.sources.read(version, max_bytes).await?;
    if Digest::from_content(&bytes) == version.source {
        Ok(bytes)
    } else {
        Err(changed_error("file"))
    }
}

/// Larger companions of documents are not read. A label linkbase has some thousand labels of some hundred bytes.
pub const MAX_COMPANION_BYTES: u64 = 16 << 20;

/// Reads a companion of a version. The inner error says why it cannot be read: a document is read without it.
///
/// # Errors
/// Failures that do not count as an attempt: the source is unavailable.
pub(crate) async fn read_companion(
    task: &FilingTask<'_>,
    version: &DocumentVersion,
    companion: &CompanionFile,
) -> Result<Result<Bytes, String>, Failure> {
    // Submission does not store what is too large.
    if companion.size_bytes > MAX_COMPANION_BYTES {
        let error = too_large_error("file", companion.size_bytes, MAX_COMPANION_BYTES);
        return Ok(Err(error.message));
    }
    let file = companion_version(version, companion);
    match read_at_most(task, &file, MAX_COMPANION_BYTES).await {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(failure) if matches!(failure.kind, FailureKind::Throttled { .. }) => Err(failure),
        Err(failure) => Ok(Err(failure.message)),
    }
}

// A companion as a document of its own, which is read like one.
fn companion_version(version: &DocumentVersion, companion: &CompanionFile) -> DocumentVersion {
    let folder = version
        .uri
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    DocumentVersion {
        uri: format!("{folder}/{}", percent_encode(companion.name.as_bytes())),
        name: companion.name.clone(),
        source: companion.source,
        origin: companion.origin.clone(),
        size_bytes: companion.size_bytes,
        ..version.clone()
    }
}

fn changed_error(what: &str) -> Failure {
    Failure::permanent(
        FailureRecord::INPUT_CHANGED,
        format!("the {what} changed after it was submitted"),
    )
    .with_next("submit it again")
}

fn too_large_error(what: &str, size_bytes: u64, max_bytes: u64) -> Failure {
    let message = format!("the {what} has {size_bytes} bytes, over the limit of {max_bytes}");
    Failure::permanent("limits.bytes", message).with_next("raise limits.max_bytes")
}

// Percent-encodes everything but unreserved bytes and `/` (RFC 3986 §2.1).
fn percent_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

// `None` if the encoding is malformed.
fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.bytes();
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use stemma_engine::objects::{FetchOutcome, ObjectRequest};
    use stemma_store::PortResult;

    use super::*;

    /// For tests that read no object.
    pub(super) struct NoBuckets;

    #[async_trait]
    impl ObjectReader for NoBuckets {
        async fn get(&self, request: &ObjectRequest<'_>) -> PortResult<FetchOutcome> {
            panic!("s3://{}/{} is read", request.bucket, request.key)
        }
    }

    pub(super) fn version(uri: &str, bytes: &[u8]) -> DocumentVersion {
        DocumentVersion {
            doc: stemma_document::DocId::new(&stemma_document::Collection::default(), uri),
            seq: 1,
            uri: uri.into(),
            name: "a.md".into(),
            path: "a.md".into(),
            source: Digest::from_content(bytes),
            origin: Origin::Content,
            size_bytes: bytes.len() as u64,
            settings: "s".into(),
            sidecar_facts: Default::default(),
            filing_facts: Default::default(),
            correction: None,
            labels: None,
        }
    }

    #[tokio::test]
    async fn unreadable_uri_has_error_code() {
        let router = SchemeRouter::new(NoBuckets);
        for (uri, code) in [
            ("https://filings/a.md", "input.unreachable"),
            ("a.md", "input.unreachable"),
            ("s3://filings", "input.unreachable"),
            ("file:///no/such/file", "input.unreadable"),
        ] {
            let failure = router.read(&version(uri, b""), 10).await.unwrap_err();
            assert_eq!(failure.code, code, "{uri}");
            assert!(failure.next.is_some(), "{failure}");
        }
    }

    #[tokio::test]
    async fn local_files_without_a_digest_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "key").unwrap();
        let origin = Origin::Object {
            etag: "x".into(),
            version: None,
        };
        let forged = DocumentVersion {
            origin,
            ..version(&file_uri(&path), b"")
        };
        let router = SchemeRouter::new(NoBuckets);
        let failure = router.read(&forged, 10).await.unwrap_err();
        assert_eq!(failure.code, "input.denied");
        let submitted = version(&file_uri(&path), b"key");
        assert_eq!(router.read(&submitted, 10).await.unwrap(), "key");
    }

    // A digest would otherwise tell whether a guess of a secret is right.
    #[tokio::test]
    async fn clusters_read_no_local_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "key").unwrap();
        let router = SchemeRouter::for_cluster(NoBuckets);
        let guessed = version(&file_uri(&path), b"key");
        let failure = router.read(&guessed, 10).await.unwrap_err();
        assert_eq!(failure.code, "input.denied");
        assert!(failure.next.is_some(), "{failure}");
    }
}
