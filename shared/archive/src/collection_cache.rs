//! Caches of one collection that outlive its archives: the index, search results, trees and alignments.
//!
//! An [`Archive`](crate::Archive) is replaced after every publication; its cache is not. Search results are keyed by the
//! commit of the index and trees by version, so no cached entry outlives a publication.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use stemma_answers::tree_search::{AnswerModel, TreeSearcher};
use stemma_catalog::catalog::{Catalog, DocumentSet};
use stemma_catalog::document_store::DocumentStore;
use stemma_document::{Collection, Digest, DocId, PublishedTree};
use stemma_retrieval::embedding::SemanticRouter;
use stemma_retrieval::embedding::routing::RoutedDocuments;
use stemma_retrieval::index::commit::{IndexCommit, MissingDocuments};
use stemma_retrieval::index::doc_mapper::DocMapper;
use stemma_retrieval::index::local_index::{IndexSettings, LocalIndex};
use stemma_retrieval::index::{IndexError, query};
use stemma_retrieval::usage::CallAccount;
use stemma_retrieval::{
    AppliedFilter, DocumentScope, Query, SearchError, SearchHit, SearchHitPage, SearchResults,
};
use stemma_store::blobs::Blobs;
use stemma_store::cache::Cache;
use stemma_store::port_monitor::{PortTrouble, TroubleKind};
use stemma_store::work::{self, ClientId, ComputeError, compute};
use stemma_store::{Env, PortError, PortResult};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::alias_names::{AliasNames, AliasReader};
use crate::compare::aligned::{AlignedDocuments, AlignmentKey};
use crate::document_store::BlobDocumentStore;

// Limits of the cache of search results.
const RESULTS_BYTES: usize = 32 << 20;
const RESULTS_MS: u64 = 10 * 60_000;
// Limits of the two caches of trees, each.
const TREES_BYTES: usize = 128 << 20;
const TREES_MS: u64 = 60 * 60_000;
// Estimated memory of a parsed tree per byte of its JSON.
const TREE_BYTES_PER_JSON_BYTE: usize = 2;
// How long a search waits for the first commit of a new index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(5);
// Limits of the cache of documents that commits lack.
const MISSING_BYTES: usize = 64 << 20;
const MISSING_MS: u64 = 10 * 60_000;
// Limits of the cache of alignments.
const ALIGNMENTS_BYTES: usize = 64 << 20;
const ALIGNMENTS_MS: u64 = 10 * 60_000;
// Estimated memory of a hit without its texts.
const HIT_BYTES: usize = 600;

// A document and its version.
type TreeKey = (DocId, u64);
// Locked by the request that reads the tree.
type TreeLoad = Weak<AsyncMutex<()>>;

/// Index and caches of a collection for the lifetime of the process.
pub struct CollectionCache {
    env: Env,
    index: LocalIndex,
    // Why the index cannot be brought up to date.
    index_trouble: Mutex<Option<PortTrouble>>,
    aliases: AliasReader,
    semantic_router: Option<Arc<SemanticRouter>>,
    results: Cache<(u64, Digest), Arc<SearchResults>>,
    // By commit and catalog.
    missing: Cache<(u64, u64), Arc<MissingDocuments>>,
    trees: Cache<TreeKey, Arc<PublishedTree>>,
    // The last trees that are too large for `trees`, where they would evict many others.
    large_trees: Cache<TreeKey, Arc<PublishedTree>>,
    // Trees too large to be cached at all, as long as a request holds them: its other reads, and other requests, take them from here.
    open_trees: Mutex<HashMap<TreeKey, Weak<PublishedTree>>>,
    alignments: Cache<AlignmentKey, Arc<AlignedDocuments>>,
    tree_searcher: Option<Arc<TreeSearcher>>,
    // Requests wait for others of their client that read the same tree: one that waits for its share keeps out no other client.
    tree_loads: Mutex<HashMap<(ClientId, DocId), TreeLoad>>,
}

impl CollectionCache {
    /// Creates empty caches; the index is opened on first use.
    pub fn new(
        env: Env,
        index: &IndexSettings,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Arc<Self> {
        Self::with_models(env, index, blobs, collection, None, None)
    }

    /// Creates empty caches with an optional semantic router, for queries that name no company, and an optional model.
    pub fn with_models(
        env: Env,
        index: &IndexSettings,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        semantic_router: Option<Arc<SemanticRouter>>,
        model: Option<&AnswerModel>,
    ) -> Arc<Self> {
        let documents: Arc<dyn DocumentStore> = Arc::new(BlobDocumentStore {
            blobs: Arc::clone(blobs),
            collection: collection.clone(),
        });
        let mapper = Arc::new(DocMapper::current());
        let index = LocalIndex::new(index, blobs, collection, &documents, &mapper);
        let tree_searcher = model.map(|model| model.tree_searcher(&env, blobs, collection));
        let aliases = AliasReader::new(env.clone(), blobs, collection);
        Arc::new(Self {
            env,
            index,
            index_trouble: Mutex::default(),
            aliases,
            semantic_router,
            results: Cache::new(RESULTS_BYTES, RESULTS_MS),
            missing: Cache::new(MISSING_BYTES, MISSING_MS),
            trees: Cache::new(TREES_BYTES, TREES_MS),
            large_trees: Cache::new(TREES_BYTES, TREES_MS).with_max_entry_bytes(TREES_BYTES),
            open_trees: Mutex::default(),
            alignments: Cache::new(ALIGNMENTS_BYTES, ALIGNMENTS_MS),
            tree_searcher,
            tree_loads: Mutex::default(),
        })
    }

    /// The search of section trees with a model; `None` without a model.
    pub fn tree_searcher(&self) -> Option<&Arc<TreeSearcher>> {
        self.tree_searcher.as_ref()
    }

    pub fn index(&self) -> &LocalIndex {
        &self.index
    }

    /// Notes how an update of the index ended. Returns whether it is the first failure after a success.
    pub(crate) fn note_index_update<T>(&self, updated: &Result<T, IndexError>) -> bool {
        let mut trouble = self.index_trouble.lock();
        let before = trouble.take();
        *trouble = updated.as_ref().err().map(|error| PortTrouble {
            operation: "index.write".into(),
            kind: TroubleKind::Refused,
            since_ms: before
                .as_ref()
                .map_or_else(|| self.env.now_ms(), |it| it.since_ms),
            error: match error {
                IndexError::Disk { error, .. } => format!("the index cannot be written: {error}"),
                error => error.to_string(),
            },
        });
        before.is_none() && trouble.is_some()
    }

    /// Why the index cannot be brought up to date; `None` while it can.
    pub(crate) fn index_trouble(&self) -> Option<PortTrouble> {
        self.index_trouble.lock().clone()
    }

    /// Where the catalog is stored: next to the index.
    pub fn catalog_folder(&self) -> &Path {
        self.index.path()
    }

    // Searches the index. It lags behind the catalog until it is synced, so hits of documents that `catalog` lists in
    // another version, or no longer lists, are dropped, and the result says how many documents in scope it lacks.
    pub(crate) async fn search(
        &self,
        catalog: &Catalog,
        query: &Query,
        account: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError> {
        let commit = self.current_commit(catalog).await?;
        let missing = self.missing_documents(&commit, catalog)?;
        let not_indexed = count_in_scope(catalog, query, &missing.not_indexed)?;
        let unreadable = count_in_scope(catalog, query, &missing.unreadable)?;
        let aliases = self.aliases.names().await?;
        let routing = self
            .route_by_meaning(&commit, &aliases, catalog, query, account)
            .await?;
        let nearest = routing.as_ref().and_then(|routing| routing.nearest(query));
        let query = nearest.unwrap_or_else(|| query.clone());
        let key = (commit.number(), cache_key(&query, aliases.digest));
        let now_ms = self.env.now_ms();
        let mut results = match self.results.get(&key, now_ms) {
            Some(cached) => SearchResults::clone(&cached),
            None => {
                let index = Arc::clone(&commit);
                let searched =
                    compute(move |_| query::search(&index.searcher, &aliases.names, &query));
                let results = Arc::new(self.checked(&commit, searched.await)?);
                self.results
                    .put(key, Arc::clone(&results), size_bytes(&results), now_ms);
                SearchResults::clone(&results)
            }
        };
        let mut current = Vec::with_capacity(results.hits.len());
        for hit in std::mem::take(&mut results.hits) {
            if catalog.tree_version(hit.doc_id)? == Some(hit.version) {
                current.push(hit);
            }
        }
        results.hits = current;
        if let Some(routing) = routing {
            routing.add_to(&mut results);
        }
        if not_indexed > 0 {
            results.set_index_behind(not_indexed);
        }
        if unreadable > 0 {
            results.set_unreadable(unreadable);
        }
        Ok(results)
    }

    // A walk over a catalog takes long for a million documents, so it is done once at most for each commit and catalog.
    fn missing_documents(
        &self,
        commit: &IndexCommit,
        catalog: &Catalog,
    ) -> PortResult<Arc<MissingDocuments>> {
        let key = (commit.number(), catalog.id());
        let now_ms = self.env.now_ms();
        if let Some(missing) = self.missing.get(&key, now_ms) {
            return Ok(missing);
        }
        let missing = Arc::new(self.index.missing_documents(commit, catalog)?);
        let documents = missing.not_indexed.len() + missing.unreadable.len();
        let bytes = documents * size_of::<DocId>();
        self.missing.put(key, Arc::clone(&missing), bytes, now_ms);
        Ok(missing)
    }

    // Whether each of these sections meets the operators of the query.
    pub(crate) async fn meets_operators(
        &self,
        catalog: &Catalog,
        query: &Query,
        hits: &[SearchHit],
    ) -> Result<Vec<bool>, SearchError> {
        let commit = self.current_commit(catalog).await?;
        let names = self.aliases.names().await?.names;
        let query = query.clone();
        let hits = hits.to_vec();
        let index = Arc::clone(&commit);
        let tested =
            compute(move |_| query::meets_operators(&index.searcher, &names, &query, &hits));
        self.checked(&commit, tested.await)
    }

    // The documents nearest in meaning to a query that names no issuer; `None` where routing would leave nothing out.
    async fn route_by_meaning(
        &self,
        commit: &Arc<IndexCommit>,
        aliases: &AliasNames,
        catalog: &Catalog,
        query: &Query,
        account: Option<&dyn CallAccount>,
    ) -> Result<Option<MeaningRouting>, SearchError> {
        let Some(router) = &self.semantic_router else {
            return Ok(None);
        };
        let versions = versions_in_scope(catalog, query)?;
        if !router.narrows(versions.len()) {
            return Ok(None);
        }
        let index = Arc::clone(commit);
        let names = Arc::clone(&aliases.names);
        let owned_query = query.clone();
        let read = compute(move |_| query::query_scope(&index.searcher, &names, &owned_query));
        let scope = self.checked(commit, read.await)?;
        if scope.names_issuer {
            return Ok(None);
        }
        let routed = if query.free_only {
            Err("not_paid_for")
        } else {
            let routed = router.route(&query.text, &versions, account.map(CallAccount::run));
            routed.await.map_err(|error| {
                tracing::warn!(%error, "a query is not routed by meaning");
                "unavailable"
            })
        };
        if let (Some(account), Ok(routed)) = (account, &routed) {
            account.charge(routed.usage);
        }
        let value = match &routed {
            Ok(_) => "nearest",
            Err(reason) => reason,
        };
        let documents = routed
            .as_ref()
            .map_or(versions.len(), |routed| routed.documents.len());
        let filter = AppliedFilter {
            facet: "meaning".into(),
            value: value.into(),
            from: query.text.chars().take(80).collect(),
            narrows: routed.is_ok(),
            documents: Some(documents),
            ..AppliedFilter::default()
        };
        Ok(Some(MeaningRouting {
            filter,
            routed: routed.ok(),
            documents_in_scope: scope.documents_in_scope,
        }))
    }

    // The current commit. While the index is being built, waits for the first commit that has documents.
    async fn current_commit(&self, catalog: &Catalog) -> Result<Arc<IndexCommit>, SearchError> {
        let mut commits = self.index.subscribe();
        if self.index.current_commit().is_none()
            && let Err(error) = self.index.open().await
        {
            tracing::warn!(%error, "the index cannot be opened");
        }
        let is_empty = catalog.with_tree()?.is_empty();
        let mut timeout = pin!(self.env.sleep(INDEX_TIMEOUT));
        loop {
            if let Some(commit) = self
                .index
                .current_commit()
                .filter(|commit| is_empty || !commit.is_empty())
            {
                return Ok(commit);
            }
            tokio::select! {
                () = &mut timeout => {
                    let trouble = self.index_trouble().map(|trouble| trouble.error);
                    let why = trouble.unwrap_or_else(|| "the index is being built".into());
                    return Err(PortError::transient("index.open", why).into());
                }
                _ = commits.changed() => {}
            }
        }
    }

    // The result of work on the index. An index that cannot be read is rebuilt. Other failures may be errors in the code: the
    // index is rebuilt only if its files were altered.
    fn checked<T>(
        &self,
        commit: &IndexCommit,
        done: Result<Result<T, SearchError>, ComputeError>,
    ) -> Result<T, SearchError> {
        match done {
            Ok(Err(SearchError::Port(error))) if error.operation == query::DAMAGED => {
                self.index.report_damage(commit);
                let message = format!("rebuilding the index: {}", error.message);
                Err(PortError::transient("index.search", message).into())
            }
            Ok(Err(SearchError::Port(error))) => {
                self.index.report_failure(commit);
                Err(error.into())
            }
            Ok(result) => result,
            Err(error @ ComputeError::NoThreads(_)) => {
                Err(PortError::transient("query.search", error.to_string()).into())
            }
            Err(error) => {
                tracing::error!(%error, "a search ended with a panic");
                self.index.report_failure(commit);
                Err(PortError::permanent("index.search", "the search failed").into())
            }
        }
    }

    pub(crate) fn alignments(&self, key: &AlignmentKey) -> Option<Arc<AlignedDocuments>> {
        self.alignments.get(key, self.env.now_ms())
    }

    pub(crate) fn put_alignment(
        &self,
        key: AlignmentKey,
        aligned: &Arc<AlignedDocuments>,
        bytes: usize,
    ) {
        self.alignments
            .put(key, Arc::clone(aligned), bytes, self.env.now_ms());
    }

    pub(crate) fn tree(&self, doc: DocId, seq: u64) -> Option<Arc<PublishedTree>> {
        let key = (doc, seq);
        let now_ms = self.env.now_ms();
        let cached = self.trees.get(&key, now_ms);
        let cached = cached.or_else(|| self.large_trees.get(&key, now_ms));
        cached.or_else(|| {
            let open = self.open_trees.lock();
            open.get(&key).and_then(Weak::upgrade)
        })
    }

    // Held by the request that reads the tree of `doc`.
    pub(crate) async fn tree_loading(&self, doc: DocId) -> OwnedMutexGuard<()> {
        let key = (work::current_client(), doc);
        let loading = {
            let mut loads = self.tree_loads.lock();
            loads.retain(|_, load| load.strong_count() > 0);
            let running = loads.get(&key).and_then(Weak::upgrade);
            running.unwrap_or_else(|| {
                let load = Arc::default();
                loads.insert(key, Arc::downgrade(&load));
                load
            })
        };
        loading.lock_owned().await
    }

    pub(crate) fn put_tree(&self, tree: Arc<PublishedTree>, json_bytes: usize) {
        let key = (tree.version.doc, tree.version.seq);
        let bytes = json_bytes * TREE_BYTES_PER_JSON_BYTE;
        let weak = Arc::downgrade(&tree);
        let now_ms = self.env.now_ms();
        if !self.trees.put(key, Arc::clone(&tree), bytes, now_ms)
            && !self.large_trees.put(key, tree, bytes, now_ms)
        {
            let mut open = self.open_trees.lock();
            open.retain(|_, tree| tree.strong_count() > 0);
            open.insert(key, weak);
        }
    }
}

// The documents that a query was narrowed to by meaning, or why it was not.
struct MeaningRouting {
    filter: AppliedFilter,
    routed: Option<RoutedDocuments>,
    documents_in_scope: usize,
}

impl MeaningRouting {
    fn nearest(&self, query: &Query) -> Option<Query> {
        let routed = self.routed.as_ref()?;
        Some(Query {
            within: DocumentScope::Documents(routed.documents.clone()),
            ..query.clone()
        })
    }

    fn add_to(self, results: &mut SearchResults) {
        if let Some(routed) = self.routed {
            results.stats.documents = routed.documents.len();
            results.stats.documents_in_scope = self.documents_in_scope;
        }
        results.applied_filters.push(self.filter);
    }
}

// The documents in scope, each with the version of its tree.
fn versions_in_scope(catalog: &Catalog, query: &Query) -> PortResult<HashMap<DocId, u64>> {
    catalog.tree_versions(&query_set(catalog, query)?).collect()
}

fn count_in_scope(catalog: &Catalog, query: &Query, docs: &[DocId]) -> PortResult<usize> {
    if docs.is_empty() {
        return Ok(0); // most searches, and a scope can have a million ids
    }
    let docs = catalog.set_of(docs.iter().copied())?;
    Ok(docs.and(&query_set(catalog, query)?).len())
}

// The documents that a query covers.
fn query_set(catalog: &Catalog, query: &Query) -> PortResult<DocumentSet> {
    let matching = catalog.matching(&query.filter)?;
    Ok(match &query.within {
        DocumentScope::All => matching,
        DocumentScope::Documents(docs) => catalog.set_of(docs.iter().copied())?.and(&matching),
    })
}

// Two queries share a result when they differ in white space only. The key is a digest because the JSON of a query with a
// scope lists every document id, which is megabytes for a large collection.
fn cache_key(query: &Query, aliases: Digest) -> Digest {
    let text = query.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let folded = Query {
        text,
        ..query.clone()
    };
    Digest::from_content(&serde_json::to_vec(&(folded, aliases)).unwrap_or_default())
}

// Estimated memory of a search result, in bytes.
fn size_bytes(response: &SearchResults) -> usize {
    response
        .hits
        .iter()
        .map(|hit: &SearchHit| {
            let path: usize = hit.path.iter().map(String::len).sum();
            HIT_BYTES
                + path
                + hit.name.len()
                + hit.why.len()
                + hit.excerpt.text.len()
                + size_of::<SearchHitPage>() * hit.best_pages.len()
        })
        .sum()
}

#[cfg(test)]
mod tests;
