//! Opens the collection: for reading, or with an updated search index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stemma_archive::{Archive, CollectionCache};
use stemma_boot::store::Store;
use stemma_catalog::catalog::Catalog;
use stemma_catalog::filter::Filter;
use stemma_retrieval::index::local_index::{LocalIndex, SyncReport};
use stemma_store::Env;

use crate::context::Context;
use crate::error::CommandError;
use crate::model_clients::ReadModels;
use crate::output::{Output, clean};
use crate::table::counted;

// Another process may be updating the index. After this time, search an incomplete index rather than wait longer.
const INDEX_WAIT: Duration = Duration::from_secs(10);

// Between notes about a long update.
const NOTE_SECONDS: u64 = 5;

/// The collection, opened for reading.
pub async fn open(context: &Context) -> Result<Archive, CommandError> {
    context.archive(&context.open_store().await?.blobs).await
}

/// The collection with an updated index. Waits a while if another process is updating it.
pub async fn open_indexed(context: &Context) -> Result<Archive, CommandError> {
    index_archive(context.open_store().await?, context).await
}

/// As [`open_indexed`], over a store that is open.
pub async fn index_archive(store: Store, context: &Context) -> Result<Archive, CommandError> {
    let env = Env::system();
    let limiter = context.config()?.servers.limiter(&env)?;
    let models = ReadModels::connect(context, &env, &limiter, "cli")?;
    let collection = &context.collection;
    let cache = CollectionCache::with_models(
        env.clone(),
        &context.index_settings()?,
        &store.blobs,
        collection,
        models.embeddings.router(&store.blobs, collection),
        models.answers.as_ref(),
    );
    let archive =
        Archive::open_cached(&env, store.blobs, collection.clone(), Arc::clone(&cache)).await?;
    let began = Instant::now();
    let missing = loop {
        let report = sync_index(cache.index(), archive.catalog(), context).await?;
        let missing = report.missing;
        if missing == 0 || began.elapsed() >= INDEX_WAIT {
            break missing;
        }
        env.sleep(INDEX_WAIT / 50).await;
    };
    if missing > 0 {
        let documents = counted(missing, "document");
        let note = format!("{documents} not indexed yet: another process is indexing them");
        context.output.note(&note);
    }
    Ok(archive)
}

/// Says which condition of a filter no document meets. The filter is valid.
pub fn note_unmet(
    conditions: &str,
    archive: &Archive,
    output: &Output,
) -> Result<(), CommandError> {
    let filter = Filter::parse(conditions).unwrap_or_default();
    for condition in filter.conditions() {
        let single = Filter::Condition(condition.clone());
        if archive.catalog().matching(&single)?.is_empty() {
            output.note(&clean(&format!("no document has {condition}")));
        }
    }
    Ok(())
}

/// Updates the index and reports progress if that takes long.
pub async fn sync_index(
    index: &LocalIndex,
    catalog: &Catalog,
    context: &Context,
) -> Result<SyncReport, CommandError> {
    let began = Instant::now();
    let notes = AtomicU64::new(0);
    let note_remaining = |remaining: usize| {
        let seconds = began.elapsed().as_secs();
        let due = seconds / NOTE_SECONDS;
        if remaining > 0 && notes.fetch_max(due, Ordering::Relaxed) < due {
            let left = counted(remaining, "document");
            context
                .output
                .note(&format!("index: {left} left · {seconds} s"));
        }
    };
    Ok(index.sync(catalog, &note_remaining).await?)
}
