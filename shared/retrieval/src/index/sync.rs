//! Brings an index up to date with a catalog.
//!
//! The difference is taken between the catalog and the versions in the index itself. So it does not matter how the index
//! got into its state: by a late record, an interrupted update or an old snapshot.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use stemma_document::{CatalogEntry, DocId};
use stemma_store::PortResult;
use tantivy::indexer::LogMergePolicy;

use super::commit::CommitPayload;
use super::doc_mapper::DocMapper;
use super::entry_queue::{EntryQueue, QueuedEntry};
use super::folder::{DocumentVersions, IndexGeneration};
use super::indexed_versions::IndexedVersions;
use super::shard_index::OnProgress;
use super::{IndexError, run_blocking};
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::document_store::DocumentStore;

/// Documents per commit. A crash loses at most this much work.
pub const BATCH: usize = 1_000;
// Users wait for updates of up to this many documents.
const SMALL_UPDATE: usize = 64;
// Memory for sorting terms before they are written to disk, in bytes, over all threads.
const SMALL_MEMORY_BYTES: usize = 16 << 20;
const MEMORY_BYTES: usize = 64 << 20;
// Indexing threads of a large update.
const THREADS: usize = 2;
// Documents read at once. A decoded one has up to 100 MB; more of them hide the latency of a remote store.
const SMALL_READS: usize = 2;
const READS: usize = 4;
// In a small update, larger segments are not merged, because users wait for it.
const SMALL_MERGE_ENTRIES: usize = 20_000;
// Segments with a larger share of deleted entries are rewritten.
const MAX_DELETED_SHARE: f32 = 0.3;

/// The difference between a catalog and an index.
#[derive(Debug, Default)]
pub struct CatalogDiff {
    /// Published documents that the index lacks or has in an older version, with their version.
    pub add: Vec<(DocId, u64)>,
    /// Indexed documents that are no longer published.
    pub remove: Vec<DocId>,
}

impl CatalogDiff {
    /// Compares the indexed versions with `docs` of a catalog, which are all that the index should have.
    ///
    /// # Errors
    /// [`PortError`](stemma_store::PortError) if the catalog cannot be read.
    pub fn between(
        versions: &IndexedVersions,
        catalog: &Catalog,
        docs: &DocumentSet,
    ) -> PortResult<Self> {
        let mut difference = Self::default();
        for version in catalog.tree_versions(docs) {
            let (doc, seq) = version?;
            if versions.get(doc).is_none_or(|indexed| indexed < seq) {
                difference.add.push((doc, seq));
            }
        }
        for doc in versions.docs() {
            if catalog.tree_version(doc)?.is_none() {
                difference.remove.push(doc);
            }
        }
        Ok(difference)
    }

    /// Compares the indexed versions of some documents with a catalog.
    ///
    /// # Errors
    /// As [`CatalogDiff::between`].
    pub fn for_documents(
        versions: &IndexedVersions,
        catalog: &Catalog,
        docs: impl IntoIterator<Item = DocId>,
    ) -> PortResult<Self> {
        let mut difference = Self::default();
        for doc in docs {
            match (versions.get(doc), catalog.tree_version(doc)?) {
                (Some(indexed), Some(seq)) if indexed >= seq => {}
                (_, Some(seq)) => difference.add.push((doc, seq)),
                (Some(_), None) => difference.remove.push(doc),
                (None, None) => {}
            }
        }
        Ok(difference)
    }

    /// Number of documents that differ.
    pub fn len(&self) -> usize {
        self.add.len() + self.remove.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The changes of one commit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommitReport {
    /// Indexed documents and their versions.
    pub indexed: Vec<(DocId, u64)>,
    /// Number of their index entries.
    pub entries: u64,
    /// Documents whose trees are missing or damaged. They are removed from the index.
    pub unreadable: Vec<(DocId, u64)>,
    /// All documents that the commit lacks because they could not be read, also before.
    pub known_unreadable: DocumentVersions,
    /// Documents not read because the store was unavailable. Their old entries stay.
    pub unavailable: usize,
}

type IndexWriter = tantivy::IndexWriter<QueuedEntry>;

/// The changes of one commit.
pub struct CommitPlan<'a> {
    /// Documents to index.
    pub add: &'a [Arc<CatalogEntry>],
    /// Documents to delete.
    pub remove: &'a [DocId],
    /// Documents of the commit before that could not be read, as far as they are still listed in that version.
    pub known_unreadable: DocumentVersions,
    /// Documents of the whole update that this commit is a part of: a small update leaves large segments alone.
    pub total: usize,
}

/// Makes one commit. `on_document` is called with the number of documents read so far.
///
/// # Errors
/// [`IndexError`]; the index stays as it was.
pub async fn apply_diff(
    generation: &IndexGeneration,
    mapper: &Arc<DocMapper>,
    store: &dyn DocumentStore,
    plan: CommitPlan<'_>,
    on_document: OnProgress<'_>,
) -> Result<CommitReport, IndexError> {
    let committed = write_commit(generation, mapper, store, plan, on_document).await;
    if committed.is_err() {
        // What a failed writer leaves behind may be what fills the disk.
        let generation = generation.clone();
        if let Err(error) = run_blocking(move || generation.remove_uncommitted()).await {
            tracing::debug!(%error, "files of a failed update could not be removed");
        }
    }
    committed
}

async fn write_commit(
    generation: &IndexGeneration,
    mapper: &Arc<DocMapper>,
    store: &dyn DocumentStore,
    plan: CommitPlan<'_>,
    on_document: OnProgress<'_>,
) -> Result<CommitReport, IndexError> {
    let index = generation.index.clone();
    let small = plan.total <= SMALL_UPDATE;
    let writer = Arc::new(run_blocking(move || index_writer(&index, small)).await?);
    for doc in plan.remove {
        writer.delete_term(mapper.term(*doc));
    }
    let mut report = CommitReport {
        known_unreadable: plan.known_unreadable,
        ..CommitReport::default()
    };
    let queue = Arc::new(EntryQueue::new());
    let work = plan
        .add
        .iter()
        .cloned()
        .map(|entry| index_document(&writer, &queue, mapper, store, entry));
    let mut work = stream::iter(work)
        .buffer_unordered(if small { SMALL_READS } else { READS })
        .enumerate();
    let mut failure = None;
    while let Some((before, (version, entries))) = work.next().await {
        on_document(before + 1);
        match entries {
            Ok(Some(entries)) => {
                report.entries += entries;
                report.known_unreadable.remove(&version.0);
                report.indexed.push(version);
            }
            Ok(None) => {
                writer.delete_term(mapper.term(version.0));
                report.known_unreadable.insert(version.0, version.1);
                report.unreadable.push(version);
            }
            Err(IndexError::Port(error)) if error.is_transient() => {
                tracing::warn!(doc = %version.0, %error, "document unavailable; it will be indexed later");
                report.unavailable += 1;
            }
            Err(error) => {
                queue.close(); // ends the work on the other documents, which holds the writer
                failure.get_or_insert(error);
            }
        }
    }
    drop(work);
    let writer = Arc::into_inner(writer)
        .ok_or_else(|| IndexError::Damaged("its writer is still in use".into()))?;
    let payload = serde_json::to_string(&CommitPayload::new(&report.known_unreadable))
        .map_err(IndexError::damaged)?;
    run_blocking(move || match failure {
        None => commit(writer, &payload),
        Some(failure) => Err(cause(writer, failure)),
    })
    .await?;
    Ok(report)
}

fn index_writer(index: &tantivy::Index, small: bool) -> Result<IndexWriter, IndexError> {
    let (threads, memory) = if small {
        (1, SMALL_MEMORY_BYTES)
    } else {
        (THREADS, MEMORY_BYTES)
    };
    let writer = index.writer_with_num_threads(threads, memory)?;
    let mut merges = LogMergePolicy::default();
    merges.set_del_docs_ratio_before_merge(MAX_DELETED_SHARE);
    if small {
        merges.set_max_docs_before_merge(SMALL_MERGE_ENTRIES);
    }
    writer.set_merge_policy(Box::new(merges));
    Ok(writer)
}

// Waits for merges, so that files do not change between updates.
fn commit(mut writer: IndexWriter, payload: &str) -> Result<(), IndexError> {
    let mut prepared = writer.prepare_commit()?;
    prepared.set_payload(payload);
    prepared.commit()?;
    writer.wait_merging_threads()?;
    Ok(())
}

// Why a writer failed. To who adds an entry it only says that one of its threads has failed; the thread itself says why.
fn cause(mut writer: IndexWriter, failure: IndexError) -> IndexError {
    match writer.prepare_commit() {
        Err(error) => error.into(),
        Ok(_) => failure,
    }
}

// Replaces the entries of a document. Returns their number, or `None` if the document cannot be read.
async fn index_document(
    writer: &Arc<IndexWriter>,
    queue: &Arc<EntryQueue>,
    mapper: &Arc<DocMapper>,
    store: &dyn DocumentStore,
    entry: Arc<CatalogEntry>,
) -> ((DocId, u64), Result<Option<u64>, IndexError>) {
    let version = (entry.version.doc, entry.version.seq);
    if queue.is_closed() {
        return (version, Err(IndexError::Busy)); // never reported: the update has failed before
    }
    let opened = match store
        .open(&CatalogDocument::from_published(
            Arc::clone(&entry),
            None,
            None,
        ))
        .await
    {
        Ok(Some(opened)) => opened,
        Ok(None) => return (version, Ok(None)),
        Err(error) if error.is_transient() => return (version, Err(error.into())),
        Err(error) => {
            tracing::warn!(doc = %version.0, %error, "document cannot be read; it is not indexed");
            return (version, Ok(None));
        }
    };
    let writer = Arc::clone(writer);
    let queue = Arc::clone(queue);
    let mapper = Arc::clone(mapper);
    let indexed = run_blocking(move || {
        writer.delete_term(mapper.term(version.0));
        let mut entries = Ok(0);
        (mapper.map)(&entry, &opened, &mut |document| {
            if let Ok(count) = &mut entries {
                match queue.add(&writer, document) {
                    Ok(()) => *count += 1,
                    Err(error) => entries = Err(error),
                }
            }
        });
        entries.map(Some)
    });
    (version, indexed.await)
}
