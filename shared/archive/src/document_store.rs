//! Trees and texts read straight from the blob store, without a catalog or a cache.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_document::{
    Collection, DocId, DocumentVersion, PublishedTree, SourceBody, TreeObject, blob_keys,
};
use stemma_engine::blobs::Blobs;
use stemma_engine::{PortError, PortResult, TaskKey, artifact};
use stemma_extract::EncodedSource;
use stemma_xbrl::FactTable;

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

/// Runs CPU-bound work off the threads that serve I/O.
///
/// # Errors
/// [`PortError`] when the work panics.
pub async fn spawn_cpu<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> PortResult<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PortError::permanent("query.compute", error.to_string()))
}
