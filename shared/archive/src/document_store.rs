//! Trees and texts read straight from the blob store, without a catalog or a cache.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_document::{
    Collection, DocId, DocumentVersion, PublishedTree, SourceBody, TreeObject, blob_keys,
};
use stemma_engine::blobs::Blobs;
use stemma_engine::work::{self, Cancellation};
use stemma_engine::{PortError, PortResult, TaskKey, artifact};
use stemma_extract::EncodedSource;
use stemma_xbrl::FactTable;

// What a tree takes in memory while it is read, by the size of its JSON: the JSON itself, titles, and the nodes.
const TREE_BYTES_PER_JSON_BYTE: usize = 3;
// What a section takes in a response with the whole tree, and that as JSON.
const SECTION_BYTES: usize = 2 << 10;
// A text in memory, what a response takes of it, and that as JSON.
const COPIES_OF_TEXT: usize = 3;

/// The documents of one collection in a blob store.
#[derive(Clone)]
pub(crate) struct BlobDocumentStore {
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) collection: Collection,
}

impl BlobDocumentStore {
    // The tree of one version and the size of its JSON in bytes, by which the cache estimates memory.
    pub(crate) async fn load_tree(
        &self,
        doc: DocId,
        seq: u64,
    ) -> PortResult<Option<(PublishedTree, usize)>> {
        let key = blob_keys::tree_key(&self.collection, doc, seq);
        let Some(bytes) = self.blobs.get(&key).await? else {
            return Ok(None);
        };
        let json_bytes = bytes.len();
        work::reserve(json_bytes.saturating_mul(TREE_BYTES_PER_JSON_BYTE)).await?;
        match spawn_cpu(move || serde_json::from_slice::<TreeObject>(&bytes)).await? {
            Ok(TreeObject::Published(published)) => Ok(Some((*published, json_bytes))),
            Ok(TreeObject::Removed) => Ok(None),
            Err(error) => Err(PortError::permanent("blobs.get", format!("{key}: {error}"))),
        }
    }

    pub(crate) async fn load_source(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<EncodedSource>> {
        // Imported trees name no task as the origin of their text.
        let Ok(key) = published.text_artifact.parse::<TaskKey>() else {
            return Ok(None);
        };
        let scope = blob_keys::document_scope(&self.collection, published.version.doc);
        let Some(bytes) = artifact::blob(self.blobs.as_ref(), &scope, &key, "source").await? else {
            return Ok(None);
        };
        EncodedSource::open(bytes)
            .map(Some)
            .map_err(|error: stemma_extract::CodecError| {
                PortError::permanent("blobs.get", format!("{scope}: {error}"))
            })
    }

    /// The file of a version; `None` where it is not in the store, or was torn by a power loss.
    pub(crate) async fn original(
        &self,
        version: &DocumentVersion,
    ) -> PortResult<Option<OriginalFile>> {
        for key in blob_keys::original_keys(&self.collection, version.source) {
            let size_bytes = self.blobs.size(&key).await?;
            if let Some(size_bytes) = size_bytes.filter(|size| *size == version.size_bytes) {
                return Ok(Some(OriginalFile {
                    blobs: Arc::clone(&self.blobs),
                    key,
                    size_bytes,
                }));
            }
        }
        Ok(None)
    }

    /// `None` for documents without tagged facts.
    pub(crate) async fn load_facts(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<FactTable>> {
        let Ok(key) = published.text_artifact.parse::<TaskKey>() else {
            return Ok(None);
        };
        let scope = blob_keys::document_scope(&self.collection, published.version.doc);
        let Some(bytes) = artifact::blob(self.blobs.as_ref(), &scope, &key, "facts").await? else {
            return Ok(None);
        };
        let table = spawn_cpu(move || stemma_xbrl::decode_facts(&bytes)).await?;
        table
            .map(Some)
            .map_err(|error| PortError::permanent("blobs.get", format!("{scope}: {error}")))
    }

    pub(crate) async fn load_body(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<SourceBody>> {
        let Some(packed) = self.load_source(published).await? else {
            return Ok(None);
        };
        work::reserve(packed.raw_bytes().saturating_mul(COPIES_OF_TEXT)).await?;
        match spawn_cpu(move || packed.decode()).await? {
            Ok(source) => Ok(Some(source.body)),
            Err(error) => Err(PortError::permanent(
                "blobs.get",
                format!("{}: {error}", published.version.name),
            )),
        }
    }
}

/// The original file of a document in the store.
pub struct OriginalFile {
    blobs: Arc<dyn Blobs>,
    key: String,
    pub size_bytes: u64,
}

impl OriginalFile {
    /// Reads a byte range; `None` when the file was removed meanwhile.
    pub async fn read(&self, range: std::ops::Range<u64>) -> PortResult<Option<bytes::Bytes>> {
        self.blobs.get_range(&self.key, range).await
    }
}

// The index opens each document once to add it, so neither a tree cache nor reads of single pages would help it.
#[async_trait]
impl DocumentStore for BlobDocumentStore {
    async fn open(&self, listed: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        let Some(entry) = listed.entry() else {
            return Ok(None);
        };
        let loaded = self.load_tree(entry.version.doc, entry.version.seq).await?;
        let Some((published, _)) = loaded else {
            return Ok(None);
        };
        let body = self.load_body(&published).await?;
        let facts = self.load_facts(&published).await?;
        Ok(Some(OpenDocument {
            tree: published.tree,
            body,
            facts,
        }))
    }
}

/// Reserves the memory for a response with all sections of a tree.
///
/// # Errors
/// [`PortError`] while other requests hold the memory.
pub async fn reserve_tree(published: &PublishedTree) -> PortResult<()> {
    let sections = published.tree.walk().count();
    work::reserve(sections.saturating_mul(SECTION_BYTES)).await
}

/// Runs CPU-bound work on the threads for it, within the share of the current client.
///
/// # Errors
/// [`PortError`] when the work panics.
pub async fn spawn_cpu<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> PortResult<T> {
    spawn_cancellable(|_| work()).await
}

/// Like [`spawn_cpu`], for work that may take long: its loops look at [`Cancellation`], which is set when nobody waits any more.
///
/// # Errors
/// [`PortError`] when the work panics.
pub async fn spawn_cancellable<T: Send + 'static>(
    work: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> PortResult<T> {
    work::compute(work)
        .await
        .map_err(|error| PortError::permanent("query.compute", error.to_string()))
}
