//! A collection opened for reading at one state of its catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_answers::tree_search::TreeSearcher;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::filter::Filter;
use stemma_catalog::locator::Fragment;
use stemma_catalog::path::{DocumentPart, ResolvedPath};
use stemma_document::{
    Collection, Page, PageNo, PageSpan, PublishedTree, SectionTree, SourceBody, TextLines,
};
use stemma_extract::EncodedSource;
use stemma_reading::document_reading::LineReadings;
use stemma_reading::tables::FigureTable;
use stemma_retrieval::DocumentScope;
use stemma_store::blobs::Blobs;
use stemma_store::env::Env;
use stemma_store::{PortError, PortResult};
use stemma_xbrl::FactTable;

use crate::document_store::BlobDocumentStore;
use crate::error::shell_quoted;
use crate::{ApiError, CollectionCache};

pub use crate::document_store::{OriginalFile, reserve_tree, spawn_cancellable, spawn_cpu};
pub use stemma_store::work::outliving;

// Approximate number of pages in one chunk of an encoded text.
const CHUNK_PAGES: usize = 64;

/// A collection opened for reading: a snapshot of its catalog, and the blob store.
pub struct Archive {
    pub(crate) store: BlobDocumentStore,
    pub collection: Collection,
    pub catalog: Catalog,
    // `None` for an archive without an index.
    pub(crate) cache: Option<Arc<CollectionCache>>,
    // Whether it has some documents of the collection only. Searches are limited to them.
    pub(crate) is_restricted: bool,
}

impl Archive {
    /// Opens a collection at the current state of its catalog.
    pub async fn open(
        env: &Env,
        blobs: Arc<dyn Blobs>,
        collection: Collection,
    ) -> Result<Self, ApiError> {
        let catalog = Catalog::load(blobs.as_ref(), &collection, env.now_ms()).await?;
        Ok(Self::new(blobs, collection, catalog))
    }

    /// Opens a collection with the caches of its index, and the catalog stored next to it.
    pub async fn open_cached(
        env: &Env,
        blobs: Arc<dyn Blobs>,
        collection: Collection,
        cache: Arc<CollectionCache>,
    ) -> Result<Self, ApiError> {
        let folder = cache.catalog_folder();
        let catalog = Catalog::load_from(folder, blobs.as_ref(), &collection, env.now_ms()).await?;
        Ok(Self::new(blobs, collection, catalog).with_cache(cache))
    }

    /// An archive over a catalog that is already loaded.
    pub fn new(blobs: Arc<dyn Blobs>, collection: Collection, catalog: Catalog) -> Self {
        let store = BlobDocumentStore {
            blobs,
            collection: collection.clone(),
        };
        Self {
            store,
            collection,
            catalog,
            cache: None,
            is_restricted: false,
        }
    }

    /// Adds the index and the caches that outlive this archive.
    #[must_use]
    pub fn with_cache(self, cache: Arc<CollectionCache>) -> Self {
        let cache = Some(cache);
        Self { cache, ..self }
    }

    /// The search of section trees with a model; `None` without a model.
    pub fn tree_searcher(&self) -> Option<&Arc<TreeSearcher>> {
        self.cache.as_ref().and_then(|cache| cache.tree_searcher())
    }

    /// An archive of the documents in `within` that match `filter`, with unchanged labels. No read of it returns anything else.
    pub fn restricted(&self, within: &DocumentScope, filter: &Filter) -> PortResult<Self> {
        let mut catalog = self.catalog.clone();
        let is_narrowed = *within != DocumentScope::All || !filter.is_empty();
        if is_narrowed {
            let mut documents = catalog.matching(filter)?;
            if let DocumentScope::Documents(docs) = within {
                documents = documents.and(&catalog.set_of(docs.iter().copied())?);
            }
            catalog = catalog.restricted(&documents);
        }
        Ok(Self {
            store: self.store.clone(),
            collection: self.collection.clone(),
            catalog,
            cache: self.cache.clone(),
            is_restricted: self.is_restricted || is_narrowed,
        })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The documents in `scope`: a document's locator, a folder, or an axis path; empty or `/` for all.
    pub fn documents_in_scope(&self, scope: &str) -> Result<Vec<Arc<CatalogDocument>>, ApiError> {
        let documents = self.scope_set(scope)?;
        Ok(self.catalog.list(&documents).collect::<PortResult<_>>()?)
    }

    // As `documents_in_scope`, without reading the documents.
    pub(crate) fn scope_set(&self, scope: &str) -> Result<DocumentSet, ApiError> {
        Ok(match self.catalog.resolve_path(scope)? {
            ResolvedPath::Folder(scope) => self.catalog.in_scope(&scope)?,
            ResolvedPath::Document { listed, .. } => self.catalog.set_of([listed.doc()])?,
        })
    }

    /// The document and fragment that a locator or path names; a folder is an error.
    pub(crate) fn locate(
        &self,
        text: &str,
    ) -> Result<(Arc<CatalogDocument>, Option<Fragment>), ApiError> {
        let (next, list) = match self.catalog.resolve_path(text)? {
            ResolvedPath::Document { listed, inside } => match inside {
                None => return Ok((listed, None)),
                Some(DocumentPart::Fragment(part)) => return Ok((listed, Some(part))),
                Some(DocumentPart::Items) => ("stemma items", listed.label.clone()),
                Some(DocumentPart::Pages) => ("stemma stat", listed.label.clone()),
            },
            ResolvedPath::Folder(scope) => ("stemma tree", scope.path()),
        };
        let message = format!("`{text}` is a folder, not a document");
        let next = format!("{next} {}", shell_quoted(&list));
        Err(ApiError::new("locator.folder", message, next))
    }

    /// The document that a locator names, its tree and the fragment.
    pub(crate) async fn load_published(
        &self,
        locator: &str,
    ) -> Result<(Arc<CatalogDocument>, Arc<PublishedTree>, Option<Fragment>), ApiError> {
        let (listed, part) = self.locate(locator)?;
        let published = self.require_tree(&listed).await?;
        Ok((listed, published, part))
    }

    /// The latest tree of a document; an error (`document.no_tree`) if it has none.
    pub async fn require_tree(
        &self,
        listed: &CatalogDocument,
    ) -> Result<Arc<PublishedTree>, ApiError> {
        let published = self.load_tree(listed).await?;
        published.ok_or_else(|| no_tree(listed))
    }

    // The whole text of a tree; an error (`document.no_text`) if the store does not have it.
    pub(crate) async fn require_body(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
    ) -> Result<SourceBody, ApiError> {
        let body = self.load_body(published).await?;
        body.ok_or_else(|| no_text(listed))
    }

    /// The latest tree of a document, shared with the cache; `None` when the document has no tree or was removed.
    pub async fn load_tree(
        &self,
        listed: &CatalogDocument,
    ) -> PortResult<Option<Arc<PublishedTree>>> {
        let Some(entry) = listed.entry() else {
            return Ok(None);
        };
        let doc = entry.version.doc;
        let seq = entry.version.seq;
        if let Some(tree) = self.cache.as_ref().and_then(|cache| cache.tree(doc, seq)) {
            return Ok(Some(tree));
        }
        let Some(cache) = &self.cache else {
            let loaded = self.store.load_tree(doc, seq).await?;
            return Ok(loaded.map(|(tree, _)| Arc::new(tree)));
        };
        // Requests for the same tree wait for the first of them instead of reading it again.
        let _loading = cache.tree_loading(doc).await;
        if let Some(tree) = cache.tree(doc, seq) {
            return Ok(Some(tree));
        }
        let Some((tree, json_bytes)) = self.store.load_tree(doc, seq).await? else {
            return Ok(None);
        };
        let tree = Arc::new(tree);
        cache.put_tree(Arc::clone(&tree), json_bytes);
        Ok(Some(tree))
    }

    /// The file a document was read from; `None` where it is not in the store, or was torn by a power loss.
    pub async fn original(&self, listed: &CatalogDocument) -> PortResult<Option<OriginalFile>> {
        self.store.original(listed.version()).await
    }

    /// The encoded text of a tree; `None` when the store does not have it (an imported tree).
    pub async fn load_source(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<EncodedSource>> {
        self.store.load_source(published).await
    }

    /// The tagged facts of a tree's document; `None` if it has none.
    pub async fn load_facts(&self, published: &PublishedTree) -> PortResult<Option<FactTable>> {
        self.store.load_facts(published).await
    }

    /// The tables of a tree's document; `None` when the store does not have its text.
    pub async fn load_tables(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<Vec<FigureTable>>> {
        self.store.load_tables(published).await
    }

    /// The whole text of a tree; `None` when the store does not have it.
    pub async fn load_body(&self, published: &PublishedTree) -> PortResult<Option<SourceBody>> {
        let source = self.store.decode_source(published).await?;
        Ok(source.map(|source| source.body))
    }
}

fn chunk_index(number: u32) -> usize {
    (number as usize - 1) / CHUNK_PAGES
}

// The error for a listed document without a tree; its message says why.
pub(crate) fn no_tree(listed: &CatalogDocument) -> ApiError {
    let label = &listed.label;
    let message = match &listed.failure {
        Some(failure) => format!("`{label}` has no tree: {}", failure.message),
        None => format!("`{label}` has no tree yet: {}", listed.state.as_str()),
    };
    let next = format!("stemma why {}", shell_quoted(label));
    ApiError::new("document.no_tree", message, next).with_document(label)
}

/// The error for a document whose text is not in the store.
pub fn no_text(listed: &CatalogDocument) -> ApiError {
    let label = &listed.label;
    let message = format!("the text of `{label}` is not in the store");
    let next = "stemma ingest the file to have its text";
    ApiError::new("document.no_text", message, next).with_document(label)
}

// Takes the tree out of a published tree. Only a tree that the cache shares is copied.
fn into_section_tree(published: Arc<PublishedTree>) -> SectionTree {
    match Arc::try_unwrap(published) {
        Ok(published) => published.tree,
        Err(shared) => shared.tree.clone(),
    }
}

#[async_trait]
impl DocumentStore for Archive {
    async fn tree(&self, listed: &CatalogDocument) -> PortResult<Option<Arc<SectionTree>>> {
        let published = self.load_tree(listed).await?;
        Ok(published.map(|published| Arc::new(into_section_tree(published))))
    }

    async fn open(&self, listed: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(None);
        };
        let body = self.load_body(&published).await?;
        Ok(Some(OpenDocument {
            tree: into_section_tree(published),
            body,
            readings: None,
            facts: None,
        }))
    }

    async fn pages(
        &self,
        listed: &CatalogDocument,
        numbers: &[u32],
    ) -> PortResult<Vec<(u32, Page)>> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(Vec::new());
        };
        let Some(packed) = self.load_source(&published).await? else {
            return Ok(Vec::new());
        };
        let name = published.version.name.clone();
        let last = published.tree.extent.pages().unwrap_or(0);
        let requested: BTreeSet<u32> = numbers
            .iter()
            .copied()
            .filter(|number| (1..=last).contains(number))
            .collect();
        spawn_cpu(move || {
            let mut pages = Vec::new();
            // Pages of one chunk are decoded together, because decoding any of them decompresses the whole chunk.
            let requested: Vec<u32> = requested.into_iter().collect();
            for near in requested.chunk_by(|one, other| chunk_index(*one) == chunk_index(*other)) {
                let Some(span) = PageSpan::new(near[0], near[near.len() - 1]) else {
                    continue;
                };
                let read = packed.pages(span).map_err(|error| {
                    PortError::permanent("blobs.get", format!("{name}: {error}"))
                })?;
                let numbered = span.pages().map(PageNo::get).zip(read);
                pages.extend(numbered.filter(|(number, _)| near.contains(number)));
            }
            Ok(pages)
        })
        .await?
    }

    async fn facts(&self, listed: &CatalogDocument) -> PortResult<Option<Arc<FactTable>>> {
        match self.load_tree(listed).await? {
            Some(published) => Ok(self.load_facts(&published).await?.map(Arc::new)),
            None => Ok(None),
        }
    }

    async fn readings(&self, listed: &CatalogDocument) -> PortResult<LineReadings> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(LineReadings::default());
        };
        let readings = self.store.load_readings(&published).await?;
        Ok(readings.unwrap_or_default())
    }

    async fn tables(&self, listed: &CatalogDocument) -> PortResult<Arc<Vec<FigureTable>>> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(Arc::default());
        };
        let tables = self.store.load_tables(&published).await?;
        Ok(Arc::new(tables.unwrap_or_default()))
    }

    async fn lines(&self, listed: &CatalogDocument) -> PortResult<Option<Arc<TextLines>>> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(None);
        };
        match self.load_body(&published).await? {
            Some(SourceBody::Lines(lines)) => Ok(Some(Arc::new(lines))),
            _ => Ok(None),
        }
    }
}
