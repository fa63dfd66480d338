//! Looking up objects: their current state, those below a prefix, and small ones whole.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_store::env::Env;
use stemma_store::port_error::PortResult;
use stemma_store::port_retry::with_retry;

use super::{BucketReader, FetchOutcome, ObjectMeta, ObjectRequest};

/// Looks up objects.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// Metadata of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the server is unavailable or refuses.
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>>;

    /// The objects whose keys start with `prefix`, in byte order of keys.
    ///
    /// # Errors
    /// As [`ObjectLookup::head`].
    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>>;

    /// The bytes of an object; `None` if it does not exist or has more than `max_bytes`.
    ///
    /// # Errors
    /// As [`ObjectLookup::head`].
    async fn read(&self, bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>>;

    /// The first `bytes` bytes of an object, or all if it has fewer; empty if it does not exist.
    ///
    /// # Errors
    /// As [`ObjectLookup::head`].
    async fn read_start(&self, bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes>;
}

#[async_trait]
impl ObjectLookup for BucketReader {
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        BucketReader::head(self, bucket, key, None).await
    }

    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let mut found: Vec<ObjectMeta> = Vec::new();
        loop {
            let after = found.last().map(|object| object.key.as_str());
            let page = self.list_page(bucket, prefix, after).await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page);
        }
    }

    async fn read(&self, bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>> {
        let request = ObjectRequest {
            bucket,
            key,
            version: None,
            etag: None,
            max_bytes,
        };
        Ok(match self.get(&request).await? {
            FetchOutcome::Read { bytes, .. } => Some(bytes),
            FetchOutcome::Missing | FetchOutcome::Changed | FetchOutcome::TooLarge { .. } => None,
        })
    }

    async fn read_start(&self, bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes> {
        BucketReader::read_start(self, bucket, key, bytes).await
    }
}

/// Retries lookups that fail with a transient error.
pub struct RetryingLookup {
    pub env: Env,
    pub objects: Arc<dyn ObjectLookup>,
}

#[async_trait]
impl ObjectLookup for RetryingLookup {
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        with_retry(&self.env, || self.objects.head(bucket, key)).await
    }

    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        with_retry(&self.env, || self.objects.list(bucket, prefix)).await
    }

    async fn read(&self, bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>> {
        with_retry(&self.env, || self.objects.read(bucket, key, max_bytes)).await
    }

    async fn read_start(&self, bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes> {
        with_retry(&self.env, || self.objects.read_start(bucket, key, bytes)).await
    }
}
