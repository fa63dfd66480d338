//! Looking up the current state of an object.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BucketReader, ObjectMeta};
use crate::env::Env;
use crate::port_error::PortResult;
use crate::port_retry::with_retry;

/// Looks up objects.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// Metadata of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`crate::PortError`] when the server is unavailable or refuses.
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>>;
}

#[async_trait]
impl ObjectLookup for BucketReader {
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        BucketReader::head(self, bucket, key, None).await
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
}
