//! The collections a server answers from: a snapshot of each, replaced as documents are published.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::gauge;
use parking_lot::RwLock;
use stemma_answers::tree_search::AnswerModel;
use stemma_catalog::catalog::Catalog;
use stemma_catalog::watcher::CatalogWatcher;
use stemma_document::Collection;
use stemma_retrieval::embedding::SemanticRouter;
use stemma_retrieval::index::IndexError;
use stemma_retrieval::index::local_index::{IndexSettings, SyncReport};
use stemma_store::blobs::Blobs;
use stemma_store::port_monitor::PortTrouble;
use stemma_store::{Env, PortResult};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::index_disk::report_free_space;
use crate::{Archive, CollectionCache};

// Interval of polls for change records, so that a publication is visible within two seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(700);
// Every so many polls the whole catalog is scanned, to find late records and running documents.
const POLLS_PER_FULL_SCAN: u32 = 40;
// The pause after a refresh is at least this multiple of its duration, so refreshing uses at most a third of the time.
const REFRESH_PAUSE_FACTOR: u32 = 2;
// The longest pause after an update of an index that failed or rebuilt it. The first is `POLL_INTERVAL`; they double.
const MAX_INDEX_PAUSE: Duration = Duration::from_secs(30);
// A failure of updates that lasts is logged this often.
const INDEX_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The newest archive of each collection; a collection is missing until its catalog is first loaded.
pub struct Collections {
    collections: Vec<Collection>,
    caches: HashMap<Collection, Arc<CollectionCache>>,
    // Wakes the task that follows the catalog of a collection.
    refresh_requests: HashMap<Collection, Notify>,
    archives: RwLock<HashMap<Collection, Arc<Archive>>>,
}

impl Collections {
    /// Loads the collections and keeps them up to date in background tasks until `stop`.
    pub fn start(
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collections: Vec<Collection>,
        semantic_routers: &[(Collection, Arc<SemanticRouter>)],
        index: &IndexSettings,
        model: Option<&AnswerModel>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let caches = collections.iter().map(|collection| {
            let router = semantic_routers
                .iter()
                .find(|(routed, _)| routed == collection)
                .map(|(_, router)| Arc::clone(router));
            let cache =
                CollectionCache::with_models(env.clone(), index, blobs, collection, router, model);
            (collection.clone(), cache)
        });
        let caches = caches.collect();
        let wakes = collections
            .iter()
            .map(|collection| (collection.clone(), Notify::new()))
            .collect();
        let archive = Arc::new(Self {
            collections: collections.clone(),
            caches,
            refresh_requests: wakes,
            archives: RwLock::default(),
        });
        let measuring = report_free_space(env.clone(), index.folder.clone(), stop.clone());
        drop(env.spawn(measuring)); // ends with `stop`
        for collection in collections {
            let tasks = env.clone();
            let changes = watch::Sender::new(());
            let changed = changes.subscribe();
            let ended = stop.clone();
            let readers = Arc::clone(&archive);
            let of = collection.clone();
            let clock = env.clone();
            let indexing = async move { readers.sync_index(&clock, &of, changed, &ended).await };
            drop(tasks.spawn(indexing)); // ends with `stop`
            let env = env.clone();
            let blobs = Arc::clone(blobs);
            let archive = Arc::clone(&archive);
            let stop = stop.clone();
            let following = async move {
                archive
                    .follow_catalog(&env, &blobs, &collection, &changes, &stop)
                    .await;
            };
            drop(tasks.spawn(following)); // ends with `stop`
        }
        archive
    }

    // Syncs the index with each new catalog. It runs in its own task, so document reads do not wait for it.
    async fn sync_index(
        &self,
        env: &Env,
        collection: &Collection,
        mut changed: watch::Receiver<()>,
        stop: &CancellationToken,
    ) {
        let Some(cache) = self.caches.get(collection) else {
            return;
        };
        if let Err(error) = cache.index().open().await {
            tracing::warn!(%collection, %error, "the index cannot be opened");
        }
        let mut failures = 0;
        let mut logged = None;
        loop {
            let mut again = false;
            if let Some(archive) = self.get(collection) {
                let updated = update_index(collection, cache, archive.catalog()).await;
                again = updated.as_ref().is_ok_and(|report| report.missing > 0); // another process on this machine indexes them
                let is_first = cache.note_index_update(&updated);
                match &updated {
                    Ok(report) if report.is_rebuilt => failures += 1,
                    Ok(_) => failures = 0,
                    Err(_) => failures += 1,
                }
                if let Err(error) = &updated
                    && (is_first
                        || logged.is_none_or(|at: Instant| at.elapsed() >= INDEX_LOG_INTERVAL))
                {
                    logged = Some(Instant::now());
                    let next = match error {
                        IndexError::Disk { .. } => "free disk space, and make the folder writable",
                        _ => "see `stemma doctor`",
                    };
                    tracing::warn!(%collection, %error, next, "the index cannot be brought up to date; answering from what it has, and trying again");
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = env.sleep(index_pause(failures)), if again || failures > 0 => {}
                () = cache.index().damage_reported(), if failures == 0 => {}
                change = changed.changed(), if failures == 0 => if change.is_err() { return },
            }
        }
    }

    /// The collections whose index cannot be brought up to date, and why.
    pub fn index_troubles(&self) -> Vec<PortTrouble> {
        self.caches
            .values()
            .filter_map(|cache| cache.index_trouble())
            .collect()
    }

    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The newest archive of a collection; `None` until its catalog is first loaded.
    pub fn get(&self, collection: &Collection) -> Option<Arc<Archive>> {
        self.archives.read().get(collection).cloned()
    }

    /// Requests an early full scan of a collection, after this process changed it.
    pub fn refresh_soon(&self, collection: &Collection) {
        if let Some(wake) = self.refresh_requests.get(collection) {
            wake.notify_one();
        }
    }

    async fn refresh_requested(&self, collection: &Collection) {
        match self.refresh_requests.get(collection) {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
    }

    async fn follow_catalog(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        changes: &watch::Sender<()>,
        stop: &CancellationToken,
    ) {
        let mut follower = None;
        let mut polls = 0;
        let mut readable = true;
        loop {
            let began = Instant::now();
            let is_loaded = follower.is_some();
            polls += 1;
            let refreshed = self
                .refresh(env, blobs, collection, &mut follower, &mut polls)
                .await;
            if let Ok(true) = refreshed {
                changes.send_replace(());
            }
            match &refreshed {
                Err(error) if readable => {
                    tracing::warn!(%collection, %error, "the catalog cannot be read; answering from what is known");
                }
                Ok(_) if !readable => {
                    tracing::info!(%collection, "the catalog can be read again");
                }
                _ => {}
            }
            readable = refreshed.is_ok();
            // What was published while the catalog was loaded is read at once.
            let factor = if is_loaded { REFRESH_PAUSE_FACTOR } else { 0 };
            let pause = POLL_INTERVAL
                .saturating_sub(began.elapsed())
                .max(began.elapsed() * factor);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.refresh_requested(collection) => polls = POLLS_PER_FULL_SCAN,
                () = env.sleep(pause.min(30 * POLL_INTERVAL)) => {}
            }
        }
    }

    async fn refresh(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        follower: &mut Option<CatalogWatcher>,
        polls: &mut u32,
    ) -> PortResult<bool> {
        let changed = match follower {
            None => {
                let folder = self
                    .caches
                    .get(collection)
                    .map(|cache| cache.catalog_folder());
                let (new, catalog) =
                    CatalogWatcher::start(folder, blobs.as_ref(), collection.clone(), env.now_ms())
                        .await?;
                *follower = Some(new);
                Some(catalog)
            }
            Some(follower) if *polls >= POLLS_PER_FULL_SCAN => {
                *polls = 0;
                follower.full_scan(blobs.as_ref(), env.now_ms()).await?
            }
            Some(follower) => follower.poll(blobs.as_ref()).await?,
        };
        let Some(catalog) = changed else {
            return Ok(false);
        };
        let mut archive = Archive::new(Arc::clone(blobs), collection.clone(), catalog);
        if let Some(cache) = self.caches.get(collection) {
            archive = archive.with_cache(Arc::clone(cache));
        }
        self.archives
            .write()
            .insert(collection.clone(), Arc::new(archive));
        Ok(true)
    }
}

async fn update_index(
    collection: &Collection,
    cache: &CollectionCache,
    catalog: &Catalog,
) -> Result<SyncReport, IndexError> {
    let missing = gauge!("stemma_index_documents_missing", "collection" => collection.to_string());
    let began = Instant::now();
    let index = cache.index();
    let updated = index.sync(catalog, &|left| missing.set(left as f64)).await;
    let left = match &updated {
        Ok(report) => Ok(report.missing),
        Err(_) => index.count_changes(catalog).await,
    };
    if let Ok(left) = left {
        missing.set(left as f64);
    }
    if let Ok(report) = &updated
        && report.indexed + report.removed > 0
    {
        let entered = report.indexed;
        let removed = report.removed;
        let millis = began.elapsed().as_millis();
        tracing::info!(%collection, entered, removed, millis, "index brought up to date");
    }
    updated
}

// The pause before the next update of an index, after this many updates in a row that failed or rebuilt it.
fn index_pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    MAX_INDEX_PAUSE.min(POLL_INTERVAL * (1 << doublings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SearchRequest;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn pauses_between_failing_updates_grow_up_to_half_a_minute() {
        let pauses = [0, 1, 2, 3, 7, 100].map(|failures| index_pause(failures).as_millis());
        assert_eq!(pauses, [700, 700, 1_400, 2_800, 30_000, 30_000]);
    }

    #[tokio::test]
    async fn a_damaged_index_is_rebuilt_while_the_catalog_stays() {
        let env = Env::system();
        let folder = tempfile::tempdir().unwrap();
        let blobs: Arc<dyn Blobs> = crate::tests::store().await;
        let stop = CancellationToken::new();
        let only = Collection::default();
        let named = vec![only.clone()];
        let collections = Collections::start(
            &env,
            &blobs,
            named,
            &[],
            &IndexSettings::for_folder(folder.path()),
            None,
            &stop,
        );
        let index = collections.caches[&only].index();
        let mut commits = index.subscribe();
        let indexed =
            commits.wait_for(|_| index.current_commit().is_some_and(|it| it.documents() == 3));
        tokio::time::timeout(LIMIT, indexed).await.unwrap().unwrap();
        let damaged = index.current_commit().unwrap();
        index.report_damage(&damaged);
        let rebuilt = commits.wait_for(|_| {
            let current = index.current_commit();
            current.is_some_and(|it| it.number() > damaged.number() + 1 && it.documents() == 3)
        });
        tokio::time::timeout(LIMIT, rebuilt).await.unwrap().unwrap();
        let request = SearchRequest {
            query: "currency".into(),
            ..SearchRequest::default()
        };
        let found = collections
            .get(&only)
            .unwrap()
            .search(&request)
            .await
            .unwrap();
        assert_eq!(found.searched.documents_not_indexed, 0);
        assert!(!found.hits.is_empty());
        stop.cancel();
    }
}
