//! A reader of buckets that connects late.

use async_trait::async_trait;
use stemma_engine::objects::{FetchOutcome, ObjectReader, ObjectRequest};
use stemma_store::PortResult;
use tokio::sync::OnceCell;

use super::{BucketReader, S3, S3Settings};

/// Reads objects of any bucket. Connects at the first read: most laptops have no S3, and should not look for it.
pub struct LazyBucketReader {
    settings: S3Settings,
    buckets: OnceCell<BucketReader>,
}

impl LazyBucketReader {
    pub fn new(settings: S3Settings) -> Self {
        Self {
            settings,
            buckets: OnceCell::new(),
        }
    }
}

#[async_trait]
impl ObjectReader for LazyBucketReader {
    async fn get(&self, request: &ObjectRequest<'_>) -> PortResult<FetchOutcome> {
        let buckets = self
            .buckets
            .get_or_try_init(async || S3::connect(&self.settings).await.map(BucketReader::new))
            .await?;
        buckets.get(request).await
    }
}
