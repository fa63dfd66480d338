//! Tests of the caches over a hand-made store.

use std::collections::BTreeSet;

use super::*;
use crate::Archive;
use crate::tests as store;
use stemma_catalog::fixtures;

struct CacheFixture {
    cache: Arc<CollectionCache>,
    blobs: Arc<dyn Blobs>,
    _cache: tempfile::TempDir,
}

impl CacheFixture {
    async fn new() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let blobs = store::store().await;
        let blobs: Arc<dyn Blobs> = blobs;
        let index = IndexSettings::for_folder(cache.path());
        let collection_cache =
            CollectionCache::new(Env::system(), &index, &blobs, &Collection::default());
        let fixture = Self {
            cache: collection_cache,
            blobs,
            _cache: cache,
        };
        fixture
            .cache
            .index()
            .sync(&fixture.catalog().await, &|_| {})
            .await
            .unwrap();
        fixture
    }

    async fn catalog(&self) -> Catalog {
        Catalog::load(self.blobs.as_ref(), &Collection::default(), 0)
            .await
            .unwrap()
    }

    /// Without the cache.
    fn archive(&self, catalog: &Catalog) -> Archive {
        let blobs = Arc::clone(&self.blobs);
        Archive::new(blobs, Collection::default(), catalog.clone())
    }

    async fn search(&self, catalog: &Catalog, query: &Query) -> SearchResults {
        self.cache.search(catalog, query, None).await.unwrap()
    }

    async fn names(&self, catalog: &Catalog) -> BTreeSet<String> {
        let response = self
            .search(catalog, &Query::new("anvils  and rockets"))
            .await;
        response.hits.into_iter().map(|hit| hit.name).collect()
    }
}

#[tokio::test]
async fn search_results_are_cached_until_a_publication() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    let both = fixture.names(&catalog).await;
    assert!(both.contains("ACME_2022.pdf"), "{both:?}");
    assert_eq!(fixture.names(&catalog).await, both);
    assert_eq!(
        (
            fixture.cache.results.stats().hits,
            fixture.cache.results.stats().misses
        ),
        (1, 1)
    );
    store::publish_now(
        fixture.blobs.as_ref(),
        "10-K/NEW_2023.pdf",
        fixture.cache.env.now_ms(),
    )
    .await;
    let newer = fixture.catalog().await;
    assert!(!fixture.names(&newer).await.contains("NEW_2023.pdf"));
    fixture.cache.index().sync(&newer, &|_| {}).await.unwrap();
    assert!(fixture.names(&newer).await.contains("NEW_2023.pdf"));
}

#[tokio::test]
async fn an_index_behind_the_catalog_does_not_tell_what_is_missing() {
    let fixture = CacheFixture::new().await;
    let query = Query::new("zyzzyva");
    let complete = fixture.search(&fixture.catalog().await, &query).await;
    assert_eq!(complete.missing_terms[0].term, "zyzzyva");
    assert_eq!(complete.has_low_evidence(), Some(true));
    store::publish_now(
        fixture.blobs.as_ref(),
        "10-K/NEW_2023.pdf",
        fixture.cache.env.now_ms(),
    )
    .await;
    let newer = fixture.catalog().await;
    let behind = fixture.search(&newer, &query).await;
    assert_eq!(behind.stats.documents_not_indexed, 1);
    assert_eq!(behind.notes[0].code, "search.index_behind");
    assert_eq!(behind.missing_terms, []);
    assert_eq!((behind.evidence, behind.has_low_evidence()), (None, None));
    // The new document is not in this scope.
    let other = newer.resolve("ACME_2021").unwrap().doc();
    let within = DocumentScope::Documents(vec![other]);
    let scoped = fixture
        .search(
            &newer,
            &Query {
                within,
                ..query.clone()
            },
        )
        .await;
    assert_eq!(scoped.stats.documents_not_indexed, 0);
    assert_eq!(scoped.missing_terms[0].term, "zyzzyva");
    fixture.cache.index().sync(&newer, &|_| {}).await.unwrap();
    let synced = fixture.search(&newer, &query).await;
    assert_eq!(synced.missing_terms[0].term, "zyzzyva");
    assert_eq!(synced.notes, []);
}

#[tokio::test]
async fn a_panic_of_a_search_is_no_damage() {
    let fixture = CacheFixture::new().await;
    let index = fixture.cache.index();
    let commit = index.current_commit().unwrap();
    let panicked = compute(|_| -> Result<(), SearchError> { panic!("a mistake") });
    let error = fixture.cache.checked(&commit, panicked.await).unwrap_err();
    assert!(matches!(error, SearchError::Port(error) if !error.is_transient()));
    let catalog = fixture.catalog().await;
    let report = index.sync(&catalog, &|_| {}).await.unwrap();
    assert!(!report.is_rebuilt);
}

#[tokio::test]
async fn hits_of_removed_or_superseded_documents_are_dropped() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    let entries = || {
        let documents = fixtures::documents(&catalog).into_iter();
        documents.filter_map(|listed| listed.entry().cloned())
    };
    let newer = entries()
        .filter(|entry| entry.version.name != "ACME_2021.pdf")
        .map(|mut entry| {
            entry.version.seq += u64::from(entry.version.name == "ACME_2022.pdf");
            entry
        });
    // The index knows of neither yet.
    assert_eq!(
        fixture.names(&Catalog::from_entries(newer)).await,
        BTreeSet::new()
    );
    assert!(!fixture.names(&catalog).await.is_empty());
}

#[tokio::test]
async fn trees_are_cached_by_version() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    let archive = fixture.archive(&catalog);
    let archive = archive.with_cache(Arc::clone(&fixture.cache));
    let listed = fixtures::documents(&catalog)
        .into_iter()
        .find(|listed| listed.entry().is_some())
        .unwrap();
    let first = archive.load_tree(&listed).await.unwrap();
    assert_eq!(archive.load_tree(&listed).await.unwrap(), first);
    assert_eq!(
        (
            fixture.cache.trees.stats().entries,
            fixture.cache.trees.stats().hits
        ),
        (1, 1)
    );
    assert!(fixture.cache.tree(listed.doc(), 2).is_none());
}

#[tokio::test]
async fn a_large_tree_is_cached_and_evicts_only_large_ones() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    let archive = fixture.archive(&catalog);
    let mut trees = Vec::new();
    for listed in fixtures::documents(&catalog) {
        trees.extend(archive.load_tree(&listed).await.unwrap());
    }
    let [small, first, second, ..] = trees.as_slice() else {
        panic!("{} trees", trees.len());
    };
    let json_bytes = TREES_BYTES / TREE_BYTES_PER_JSON_BYTE * 3 / 4;
    fixture.cache.put_tree(Arc::clone(small), 1_000);
    fixture.cache.put_tree(Arc::clone(first), json_bytes);
    fixture.cache.put_tree(Arc::clone(second), json_bytes);
    let cached = |tree: &PublishedTree| {
        let cached = fixture.cache.tree(tree.version.doc, tree.version.seq);
        cached.is_some()
    };
    // Evictions are pending until then.
    fixture.cache.large_trees.stats();
    let is_cached = [cached(small), cached(first), cached(second)];
    assert_eq!(is_cached, [true, false, true]);
}

#[tokio::test]
async fn a_tree_too_large_for_the_cache_is_shared_while_a_request_holds_it() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    let archive = fixture.archive(&catalog);
    let listed = fixtures::documents(&catalog)
        .into_iter()
        .find(|listed| listed.entry().is_some())
        .unwrap();
    let doc = listed.doc();
    let seq = listed.version().seq;
    let tree = archive.load_tree(&listed).await.unwrap().unwrap();
    fixture.cache.put_tree(Arc::clone(&tree), TREES_BYTES);
    assert_eq!(fixture.cache.trees.stats().entries, 0);
    let shared = fixture.cache.tree(doc, seq).unwrap();
    assert!(Arc::ptr_eq(&shared, &tree));
    drop((shared, tree));
    assert!(fixture.cache.tree(doc, seq).is_none());
}

#[tokio::test]
async fn a_search_without_threads_is_tried_again() {
    let fixture = CacheFixture::new().await;
    let index = fixture.cache.index();
    let commit = index.current_commit().unwrap();
    let done: Result<Result<(), SearchError>, _> = Err(ComputeError::NoThreads("none".into()));
    let error = fixture.cache.checked(&commit, done).unwrap_err();
    assert!(matches!(error, SearchError::Port(error) if error.is_transient()));
    let reported = tokio::time::timeout(Duration::ZERO, index.damage_reported()).await;
    assert!(reported.is_err());
}

#[tokio::test]
async fn the_catalog_is_compared_once_with_each_commit() {
    let fixture = CacheFixture::new().await;
    let catalog = fixture.catalog().await;
    for text in ["anvils", "rockets", "hedging"] {
        fixture.search(&catalog, &Query::new(text)).await;
    }
    // A clone has the same documents.
    fixture.search(&catalog.clone(), &Query::new("risk")).await;
    let stats = fixture.cache.missing.stats();
    assert_eq!(stats.misses, 1);
    assert_eq!(stats.hits, 3);
    fixture
        .search(&fixture.catalog().await, &Query::new("risk"))
        .await;
    assert_eq!(fixture.cache.missing.stats().misses, 2);
}

#[tokio::test]
async fn documents_that_cannot_be_read_are_noted_in_every_process() {
    let blobs: Arc<dyn Blobs> = store::store().await;
    let collection = Collection::default();
    let catalog = Catalog::load(blobs.as_ref(), &collection, 0).await.unwrap();
    let doc = catalog.resolve("ACME_2022").unwrap().doc();
    let tree = stemma_document::blob_keys::tree_key(&collection, doc, 1);
    blobs.delete(&tree).await.unwrap();
    let cache = tempfile::tempdir().unwrap();
    let index = IndexSettings::for_folder(cache.path());
    let open = || CollectionCache::new(Env::system(), &index, &blobs, &collection);
    let first = open();
    first.index().sync(&catalog, &|_| {}).await.unwrap();
    // Another process, which never writes to the index.
    for process in [first, open()] {
        let query = Query::new("zyzzyva");
        let results = process.search(&catalog, &query, None).await.unwrap();
        assert_eq!(results.stats.documents_not_indexed, 0);
        assert_eq!(results.stats.documents_unreadable, 1);
        assert_eq!(results.notes[0].code, "search.unreadable");
        assert_eq!(results.missing_terms[0].term, "zyzzyva");
        let other = catalog.resolve("ACME_2021").unwrap().doc();
        let within = DocumentScope::Documents(vec![other]);
        let query = Query { within, ..query };
        let results = process.search(&catalog, &query, None).await.unwrap();
        assert_eq!(results.notes, []);
    }
}

#[tokio::test]
async fn a_store_without_readable_documents_does_not_wait_for_its_index() {
    let blobs: Arc<dyn Blobs> = store::store().await;
    let collection = Collection::default();
    let catalog = Catalog::load(blobs.as_ref(), &collection, 0).await.unwrap();
    for entry in fixtures::documents(&catalog)
        .iter()
        .filter_map(|listed| listed.entry())
    {
        let version = &entry.version;
        let tree = stemma_document::blob_keys::tree_key(&collection, version.doc, version.seq);
        blobs.delete(&tree).await.unwrap();
    }
    let cache = tempfile::tempdir().unwrap();
    let index = IndexSettings::for_folder(cache.path());
    let process = CollectionCache::new(Env::system(), &index, &blobs, &collection);
    process.index().sync(&catalog, &|_| {}).await.unwrap();
    let query = Query::new("anvils");
    let results = process.search(&catalog, &query, None).await.unwrap();
    assert_eq!(results.stats.documents_unreadable, 3);
    assert_eq!(results.hits, []);
}
