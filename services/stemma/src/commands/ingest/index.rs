//! Indexes documents while others are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stemma_archive::CollectionCache;
use stemma_catalog::catalog::Catalog;
use stemma_retrieval::index::local_index::SyncReport;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use tokio::sync::watch;

use crate::context::Context;
use crate::error::CommandError;

// Documents of the first update. Each update costs some milliseconds and a segment, so they grow with the index.
const MIN_DOCUMENTS: u64 = 16;
const GROWTH: u64 = 4;

/// Keeps the index up to date during an ingest.
pub struct IngestIndex<'a> {
    cache: Arc<CollectionCache>,
    blobs: &'a Arc<dyn Blobs>,
    context: &'a Context,
    // Documents of this ingest that are indexed.
    indexed: Arc<AtomicU64>,
    env: Env,
}

impl<'a> IngestIndex<'a> {
    /// Counts the documents of this ingest that are indexed in `indexed`.
    pub fn new(
        env: &Env,
        blobs: &'a Arc<dyn Blobs>,
        context: &'a Context,
        indexed: Arc<AtomicU64>,
    ) -> Result<Self, CommandError> {
        let settings = context.index_settings()?;
        Ok(Self {
            cache: CollectionCache::new(env.clone(), &settings, blobs, &context.collection),
            blobs,
            context,
            indexed,
            env: env.clone(),
        })
    }

    /// Updates the index whenever enough documents were `created`, until the channel closes.
    pub async fn follow(&self, mut created: watch::Receiver<u64>) {
        let mut indexed = 0;
        loop {
            let enough = indexed + MIN_DOCUMENTS.max(indexed / GROWTH);
            let reached = created.wait_for(|created| *created >= enough).await;
            let Ok(count) = reached.map(|count| *count) else {
                return;
            };
            self.update(count).await;
            indexed = count;
        }
    }

    /// Indexes all published documents; `created` of them are new. Errors are only noted, because the next search tries
    /// again.
    pub async fn update(&self, created: u64) {
        let synced = async {
            let folder = self.cache.catalog_folder();
            let collection = &self.context.collection;
            let now_ms = self.env.now_ms();
            let catalog =
                Catalog::load_from(folder, self.blobs.as_ref(), collection, now_ms).await?;
            let report = self
                .cache
                .index()
                .sync(&catalog, &|left| {
                    let indexed = created.saturating_sub(left as u64);
                    self.indexed.store(indexed, Ordering::Relaxed);
                })
                .await?;
            Ok::<SyncReport, CommandError>(report)
        };
        if let Err(error) = synced.await {
            let output = &self.context.output;
            output.note(&format!("could not update the index: {error}"));
        }
    }
}
