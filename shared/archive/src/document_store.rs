//! Trees and texts read straight from the blob store, without a catalog or a cache.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_document::{
    Collection, DocId, DocumentVersion, PublishedTree, Source, TreeObject, blob_keys,
};
use stemma_extract::EncodedSource;
use stemma_reading::document_reading::{
    DocumentReading, LineReadings, ReadingCodecError, ReadingSizes,
};
use stemma_reading::tables::FigureTable;
use stemma_store::blobs::Blobs;
use stemma_store::work::{self, Cancellation};
use stemma_store::{PortError, PortResult, TaskKey, artifact};
use stemma_xbrl::FactTable;

// What a tree takes in memory while it is read, by the size of its JSON: the JSON itself, titles, and the nodes.
const TREE_BYTES_PER_JSON_BYTE: usize = 3;
// What a section takes in a response with the whole tree, and that as JSON.
const SECTION_BYTES: usize = 2 << 10;
// A text in memory, what a response takes of it, and that as JSON; or two texts that are searched or compared at once.
const COPIES_OF_TEXT: usize = 3;
// A table of facts as it is stored, without compression, and in memory.
const COPIES_OF_FACTS: usize = 2;
// Tables as JSON, and in memory.
const COPIES_OF_TABLES: usize = 4;

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
        if work::is_limited() {
            let size = self.blobs.size(&key).await?.unwrap_or(0);
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            work::reserve(size.saturating_mul(TREE_BYTES_PER_JSON_BYTE)).await?;
        }
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
        let damaged = |error| PortError::permanent("blobs.get", format!("{scope}: {error}"));
        let raw_bytes = stemma_xbrl::raw_facts_bytes(&bytes).map_err(damaged)?;
        work::reserve(raw_bytes.saturating_mul(COPIES_OF_FACTS)).await?;
        let table = spawn_cpu(move || stemma_xbrl::decode_facts(&bytes)).await?;
        table.map(Some).map_err(damaged)
    }

    /// What the lines of the text are; `None` as in `load_source`.
    pub(crate) async fn load_readings(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<LineReadings>> {
        let decode = DocumentReading::decode_lines;
        let stored = self.load_reading(published, |sizes| sizes.lines, decode);
        match stored.await? {
            Some(readings) => Ok(Some(readings)),
            None => Ok(self
                .read_source(published)
                .await?
                .map(|reading| reading.lines)),
        }
    }

    /// The tables of the text; `None` as in `load_source`.
    pub(crate) async fn load_tables(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<Vec<FigureTable>>> {
        let decode = DocumentReading::decode_tables;
        let size = |sizes: ReadingSizes| sizes.tables.saturating_mul(COPIES_OF_TABLES);
        match self.load_reading(published, size, decode).await? {
            Some(tables) => Ok(Some(tables)),
            None => Ok(self
                .read_source(published)
                .await?
                .map(|reading| reading.tables)),
        }
    }

    // A part of the stored reading; `None` in a store that an older program wrote.
    async fn load_reading<T: Send + 'static>(
        &self,
        published: &PublishedTree,
        memory: impl Fn(ReadingSizes) -> usize,
        decode: fn(&[u8]) -> Result<T, ReadingCodecError>,
    ) -> PortResult<Option<T>> {
        let Ok(key) = published.text_artifact.parse::<TaskKey>() else {
            return Ok(None);
        };
        let scope = blob_keys::document_scope(&self.collection, published.version.doc);
        let bytes = artifact::blob(self.blobs.as_ref(), &scope, &key, "reading").await?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let decoded = match DocumentReading::raw_sizes(&bytes) {
            Ok(sizes) => {
                work::reserve(memory(sizes)).await?;
                spawn_cpu(move || decode(&bytes)).await?
            }
            Err(error) => Err(error),
        };
        match decoded {
            Ok(part) => Ok(Some(part)),
            Err(ReadingCodecError::Version(_)) => Ok(None),
            Err(error @ ReadingCodecError::Damaged(_)) => Err(PortError::permanent(
                "blobs.get",
                format!("{scope}: {error}"),
            )),
        }
    }

    async fn read_source(&self, published: &PublishedTree) -> PortResult<Option<DocumentReading>> {
        let Some(source) = self.decode_source(published).await? else {
            return Ok(None);
        };
        let reading = spawn_cancellable(move |cancelled| {
            DocumentReading::new_until(&source.body, &|| cancelled.is_set())
        });
        reading.await.map(Some)
    }

    /// The decoded text; `None` as in `load_source`.
    pub(crate) async fn decode_source(
        &self,
        published: &PublishedTree,
    ) -> PortResult<Option<Source>> {
        let Some(packed) = self.load_source(published).await? else {
            return Ok(None);
        };
        let text_bytes = packed.raw_bytes().saturating_mul(COPIES_OF_TEXT);
        work::reserve(text_bytes.saturating_add(tree_bytes(published))).await?;
        let source = spawn_cpu(move || packed.decode()).await?;
        source.map(Some).map_err(|error| {
            PortError::permanent("blobs.get", format!("{}: {error}", published.version.name))
        })
    }
}

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
        let source = self.decode_source(&published).await?;
        let facts = self.load_facts(&published).await?;
        let readings = self.load_readings(&published).await?;
        Ok(Some(OpenDocument {
            tree: published.tree,
            body: source.map(|source| source.body),
            readings,
            facts,
        }))
    }
}

/// Reserves the memory for a response with all sections of a tree.
pub async fn reserve_tree(published: &PublishedTree) -> PortResult<()> {
    work::reserve(tree_bytes(published)).await
}

fn tree_bytes(published: &PublishedTree) -> usize {
    published.tree.walk().count().saturating_mul(SECTION_BYTES)
}

/// Runs CPU-bound work on the threads for it, within the share of the current client.
pub async fn spawn_cpu<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> PortResult<T> {
    spawn_cancellable(|_| work()).await
}

/// Like [`spawn_cpu`], for work that may take long: its loops look at [`Cancellation`], which is set when nobody waits any more.
pub async fn spawn_cancellable<T: Send + 'static>(
    work: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> PortResult<T> {
    work::compute(work)
        .await
        .map_err(|error| PortError::permanent("query.compute", error.to_string()))
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use parking_lot::Mutex;
    use stemma_document::{FilingFacts, SourceBody};
    use stemma_sample_store as store;
    use stemma_store::blobs::MemoryBlobs;
    use stemma_store::port_layer::{Layered, PortLayer};
    use stemma_store::work::{ClientShare, RESERVE_OPERATION, WorkScope};

    use super::*;

    #[derive(Clone, Default)]
    struct CallRecorder(Arc<Mutex<Vec<&'static str>>>);

    impl CallRecorder {
        fn take(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.0.lock())
        }
    }

    impl PortLayer for CallRecorder {
        async fn call<'a, T, F>(
            &'a self,
            operation: &'static str,
            _about: impl Fn() -> String + Send + 'a,
            mut call: F,
        ) -> PortResult<T>
        where
            T: Send + 'a,
            F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
        {
            self.0.lock().push(operation);
            call().await
        }
    }

    #[tokio::test]
    async fn a_text_without_a_stored_reading_is_read_again() {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let page = stemma_filings::monospaced_page(
            "                 2023     2022\nGoodwill          500      400\nTotal           1,500    1,400",
        );
        let body = SourceBody::Pages(vec![page]);
        store::publish(blobs.as_ref(), "a.pdf", body, FilingFacts::default()).await;
        let documents = BlobDocumentStore {
            blobs: Arc::clone(&blobs),
            collection: Collection::default(),
        };
        let doc = store::version("a.pdf", 1).doc;
        let (stored, _) = documents.load_tree(doc, 1).await.unwrap().unwrap();
        let tables = documents.load_tables(&stored).await.unwrap();
        assert_eq!(tables.as_ref().unwrap()[0].rows[1].label, "Total");
        let scope = blob_keys::document_scope(&documents.collection, doc);
        let key: TaskKey = stored.text_artifact.parse().unwrap();
        let source = artifact::blob(blobs.as_ref(), &scope, &key, "source");
        let source = source.await.unwrap().unwrap();
        let older = TaskKey::builder("paginate", 0).finish();
        let parts = [("source", source)];
        let artifact = artifact::Artifact::new(b"{}", &parts).unwrap();
        artifact
            .store(blobs.as_ref(), &scope, &older)
            .await
            .unwrap();
        let before = PublishedTree {
            text_artifact: older.to_string(),
            ..stored.clone()
        };
        assert_eq!(documents.load_tables(&before).await.unwrap(), tables);
        assert_eq!(
            documents.load_readings(&before).await.unwrap(),
            documents.load_readings(&stored).await.unwrap()
        );
        let imported = PublishedTree {
            text_artifact: String::new(),
            ..stored
        };
        assert_eq!(documents.load_tables(&imported).await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_memory_has_read_no_object() {
        let port: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let body = store::pages(&["# Part\ntext"]);
        let facts = FactTable::default();
        let about = FilingFacts::default();
        store::publish_with_facts(port.as_ref(), "a.pdf", body, about, Some(&facts)).await;
        let calls = CallRecorder::default();
        let layer = calls.clone();
        let documents = BlobDocumentStore {
            blobs: Arc::new(Layered { layer, port }),
            collection: Collection::default(),
        };
        let doc = store::version("a.pdf", 1).doc;
        let (published, _) = documents.load_tree(doc, 1).await.unwrap().unwrap();
        assert!(documents.load_facts(&published).await.unwrap().is_some());
        calls.take();
        let share = ClientShare::for_several_clients();
        let _others = WorkScope::new(&share).hold(usize::MAX).unwrap();
        let request = WorkScope::new(&share);
        let tree = request.enter(documents.load_tree(doc, 1)).await.err();
        assert_eq!(tree.unwrap().operation, RESERVE_OPERATION);
        assert_eq!(calls.take(), ["blobs.size"]);
        // Only the header of an artifact is read, which has the sizes.
        let text = request
            .enter(documents.decode_source(&published))
            .await
            .err();
        assert_eq!(text.unwrap().operation, RESERVE_OPERATION);
        assert_eq!(calls.take(), ["blobs.get_range"]);
        let facts = request.enter(documents.load_facts(&published)).await.err();
        assert_eq!(facts.unwrap().operation, RESERVE_OPERATION);
        assert_eq!(calls.take(), ["blobs.get_range"]);
    }
}
