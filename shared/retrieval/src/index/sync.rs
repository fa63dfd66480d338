//! What a catalogue has and an index has not, and making it so.
//!
//! The difference is taken between what is published now and what the index itself says it holds, so it does not matter
//! how an index came to be where it is: a record that was late, an update that was killed, a snapshot from last week.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use stemma_document::{CatalogEntry, DocId};
use tantivy::indexer::LogMergePolicy;
use tantivy::{IndexWriter, TantivyDocument};

use super::doc_mapper::DocMapper;
use super::folder::{DocumentVersions, IndexGeneration};
use super::{IndexError, run_blocking};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;

/// Documents entered between two commits: what is lost by a kill.
pub const BATCH: usize = 1_000;
/// An update of up to this many documents is one that someone waits for.
const SMALL_UPDATE: usize = 64;
/// What sorting terms may take before they go to disk, in bytes, for all threads.
const SMALL_MEMORY_BYTES: usize = 16 << 20;
const MEMORY_BYTES: usize = 128 << 20;
/// Threads that sort terms in a large update.
const THREADS: usize = 2;
/// Documents read at once.
const READS_AT_ONCE: usize = 4;
/// Segments with more entries are not merged where someone waits.
const SMALL_MERGE_ENTRIES: usize = 20_000;
/// A segment with more deleted entries than this share is written anew.
const MAX_DELETED_SHARE: f32 = 0.3;

/// What an index lacks.
#[derive(Debug, Default)]
pub struct CatalogDiff {
    /// Published and not held, or held in an older version.
    pub add: Vec<Arc<CatalogEntry>>,
    /// Held and published no more.
    pub remove: Vec<DocId>,
}

impl CatalogDiff {
    /// What `held` lacks of `catalog`.
    pub fn between(versions: &DocumentVersions, catalog: &Catalog) -> Self {
        let entries = || {
            catalog
                .documents()
                .iter()
                .filter_map(CatalogDocument::shared_entry)
        };
        let add = entries()
            .filter(|entry: &&Arc<CatalogEntry>| {
                versions
                    .get(&entry.version.doc)
                    .is_none_or(|seq| *seq < entry.version.seq)
            })
            .cloned()
            .collect();
        let document: HashSet<DocId> = entries().map(|entry| entry.version.doc).collect();
        let remove = versions
            .keys()
            .filter(|doc| !document.contains(doc))
            .copied()
            .collect();
        Self { add, remove }
    }

    /// Documents it is about.
    pub fn len(&self) -> usize {
        self.add.len() + self.remove.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What one commit did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommitReport {
    /// Documents entered, with their versions.
    pub indexed: Vec<(DocId, u64)>,
    /// Entries they became.
    pub entries: u64,
    /// Documents that cannot be read: their trees are gone or damaged. They are not in the index.
    pub unreadable: Vec<(DocId, u64)>,
    /// Documents that could not be read because the store was away; what the index has of them stays.
    pub unavailable: usize,
}

/// Enters `add` and removes `remove` in one commit; whoever searches sees all of it or nothing. `total` is the size of the
/// whole update this is a part of: a small one leaves large segments as they are.
///
/// # Errors
/// [`IndexError`]; the index is as before.
pub async fn apply_diff(
    generation: &IndexGeneration,
    shape: &Arc<DocMapper>,
    store: &dyn DocumentStore,
    add: &[Arc<CatalogEntry>],
    remove: &[DocId],
    total: usize,
) -> Result<CommitReport, IndexError> {
    let index = generation.index.clone();
    let small = total <= SMALL_UPDATE;
    let writer = Arc::new(run_blocking(move || index_writer(&index, small)).await?);
    for doc in remove {
        writer.delete_term(shape.term(*doc));
    }
    let mut entered = CommitReport::default();
    let work = add
        .iter()
        .cloned()
        .map(|entry| index_document(&writer, shape, store, entry));
    let mut work = stream::iter(work).buffer_unordered(READS_AT_ONCE);
    while let Some((version, entries)) = work.next().await {
        let entries = match entries {
            Err(IndexError::Port(error)) if error.transient => {
                tracing::warn!(doc = %version.0, %error, "document is entered later");
                entered.unavailable += 1;
                continue;
            }
            entries => entries?,
        };
        match entries {
            Some(entries) => {
                entered.entries += entries;
                entered.indexed.push(version);
            }
            None => {
                writer.delete_term(shape.term(version.0));
                entered.unreadable.push(version);
            }
        }
    }
    drop(work);
    let writer = Arc::into_inner(writer)
        .ok_or_else(|| IndexError::Damaged("its writer is still in use".into()))?;
    run_blocking(move || commit(writer)).await?;
    Ok(entered)
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

/// Commits, and waits for merges: between two updates no file changes.
fn commit(mut writer: IndexWriter) -> Result<(), IndexError> {
    writer.commit()?;
    writer.wait_merging_threads()?;
    Ok(())
}

/// Enters one document in place of its older versions; how many entries it became, `None` when it cannot be read.
async fn index_document(
    writer: &Arc<IndexWriter>,
    shape: &Arc<DocMapper>,
    store: &dyn DocumentStore,
    entry: Arc<CatalogEntry>,
) -> ((DocId, u64), Result<Option<u64>, IndexError>) {
    let version = (entry.version.doc, entry.version.seq);
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
        Err(error) if error.transient => return (version, Err(error.into())),
        Err(error) => {
            tracing::warn!(doc = %version.0, %error, "document cannot be read; it is not in the index");
            return (version, Ok(None));
        }
    };
    let writer = Arc::clone(writer);
    let shape = Arc::clone(shape);
    let entered = run_blocking(move || {
        let documents: Vec<TantivyDocument> = (shape.map)(&entry, &opened);
        writer.delete_term(shape.term(version.0));
        let entries = documents.len() as u64;
        documents
            .into_iter()
            .try_for_each(|document| writer.add_document(document).map(drop))?;
        Ok(Some(entries))
    });
    (version, entered.await)
}
