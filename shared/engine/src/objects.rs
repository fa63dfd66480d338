//! The port to documents in external buckets: their current state, those below a prefix, and their bytes.

use async_trait::async_trait;
use bytes::Bytes;
use stemma_store::env::Millis;
use stemma_store::layered;
use stemma_store::port_error::PortResult;

/// Metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Decoded.
    pub key: String,
    pub size_bytes: u64,
    /// ETag without quotes. It changes with the content, but is not a digest of it.
    pub etag: String,
    /// Last modification; 0 if the server does not report it.
    pub modified_ms: Millis,
    /// Version id in versioned buckets; not set by listings.
    pub version: Option<String>,
}

/// A conditional read of an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest<'a> {
    pub bucket: &'a str,
    /// Decoded.
    pub key: &'a str,
    /// This version, instead of the newest.
    pub version: Option<&'a str>,
    /// Only if the object has this ETag.
    pub etag: Option<&'a str>,
    /// Maximum size.
    pub max_bytes: u64,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchOutcome {
    Read {
        bytes: Bytes,
        /// ETag without quotes.
        etag: String,
    },
    /// No such object or version.
    Missing,
    /// The object has another ETag; nothing was read.
    Changed,
    /// The object is larger than `max_bytes`; nothing was read.
    TooLarge { size_bytes: u64 },
}

/// Looks up objects.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// Metadata of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`PortError`](stemma_store::PortError) when the server is unavailable or refuses.
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>>;

    /// The objects whose keys start with `prefix`, in byte order of keys.
    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>>;

    /// The bytes of an object; `None` if it does not exist or has more than `max_bytes`.
    async fn read(&self, bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>>;

    /// The first `bytes` bytes of an object, or all if it has fewer; empty if it does not exist.
    async fn read_start(&self, bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes>;
}

/// Reads objects as they were submitted.
#[async_trait]
pub trait ObjectReader: Send + Sync {
    /// Reads an object. Size and ETag are checked before the body is read.
    ///
    /// # Errors
    /// [`PortError`](stemma_store::PortError) naming the bucket: transient when the server is unavailable, permanent when
    /// it refuses.
    async fn get(&self, request: &ObjectRequest<'_>) -> PortResult<FetchOutcome>;
}

layered! { ObjectLookup, "bucket":
    head(bucket: &str, key: &str) -> Option<ObjectMeta>;
    list(bucket: &str, prefix: &str) -> Vec<ObjectMeta>;
    read(bucket: &str, key: &str; max_bytes: u64) -> Option<Bytes>;
    read_start(bucket: &str, key: &str; bytes: u64) -> Bytes;
}
