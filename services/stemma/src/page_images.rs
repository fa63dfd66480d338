//! Draws pages for the commands and servers that read an archive.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_adapters::s3::LazyBucketReader;
use stemma_archive::{ApiError, PageImages, SourceFiles};
use stemma_document::DocumentVersion;
use stemma_extract::Pool;
use stemma_pipeline::sources::{SchemeRouter, SourceStore};
use stemma_store::Env;

use crate::children::child_settings;
use crate::context::Context;
use crate::error::CommandError;

// Pages drawn at once. Reading and searching need the other cores, and each child may use the memory of one document.
const PLACES: usize = 2;

/// Draws pages of the documents in the store of `context`. No child starts before the first image is asked for.
pub fn page_images(context: &Context) -> Result<Arc<PageImages>, CommandError> {
    let config = context.config()?;
    let mut settings = child_settings(&config.local)
        .map_err(|error| CommandError::new("system.start", error.to_string()))?;
    settings.size = PLACES;
    let buckets = LazyBucketReader::new(config.servers.s3.settings());
    // A bucket is shared: paths that others wrote into it mean files of their machines.
    let router = match context.store.folder() {
        Some(_) => SchemeRouter::new(buckets),
        None => SchemeRouter::for_cluster(buckets),
    };
    Ok(PageImages::new(
        Env::system(),
        Arc::new(Pool::new(settings)),
        Arc::new(FilesOfSources(router)),
        stemma_render::REVISION,
        PLACES,
    ))
}

struct FilesOfSources(SchemeRouter);

#[async_trait]
impl SourceFiles for FilesOfSources {
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, ApiError> {
        self.0.read(version, max_bytes).await.map_err(|failure| {
            let message = format!("the store does not have the file, and {}", failure.message);
            let next = failure.next.unwrap_or_default();
            ApiError::new("source.not_available", message, next)
        })
    }
}
