//! What is kept between two readers of one collection: its index, answers to questions, and trees that were read lately.
//!
//! A [`Reader`](crate::Reader) is made anew whenever something is published; these are not. An answer is kept under the
//! state of the index it was read from, a tree under its version: what was published since asks under another key.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use stemma_answers::reason::{AnswerModel, Reasoner};
use stemma_catalog::catalogue::Catalogue;
use stemma_document::{Collection, DocId, PublishedTree};
use stemma_engine::blobs::Blobs;
use stemma_engine::{Env, PortError};
use stemma_retrieval::cache::Cache;
use stemma_retrieval::index::corpus::{Corpus, Edition};
use stemma_retrieval::index::{query, schema};
use stemma_retrieval::meaning::Meaning;
use stemma_retrieval::{FindError, Found, Query};
use tokio::sync::Semaphore;

use crate::Reader;
use crate::compare::{Aligned, AlignedKey};
use crate::reader::aside;

/// Answers kept: bytes, and for how long.
const ANSWERS_BYTES: usize = 32 << 20;
const ANSWERS_MS: u64 = 10 * 60_000;
/// Trees kept: bytes, and for how long.
const TREES_BYTES: usize = 128 << 20;
const TREES_MS: u64 = 60 * 60_000;
/// A tree takes about so many times the bytes of its JSON.
const TREE_BYTES_PER_JSON_BYTE: usize = 2;
/// How long a question waits for the first part of an index.
const PATIENCE: Duration = Duration::from_secs(5);
/// Alignments kept: bytes, and for how long.
const ALIGNED_BYTES: usize = 64 << 20;
const ALIGNED_MS: u64 = 10 * 60_000;
/// What a hit takes beside its texts, in bytes.
const HIT_BYTES: usize = 600;

/// What is kept of a collection for as long as a process runs.
pub struct Kept {
    env: Env,
    corpus: Corpus,
    meaning: Option<Arc<Meaning>>,
    answers: Cache<(u64, String), Arc<Found>>,
    trees: Cache<(DocId, u64), Arc<PublishedTree>>,
    aligned: Cache<AlignedKey, Arc<Aligned>>,
    /// What walks trees with a model; `None` where none is configured.
    reasoner: Option<Arc<Reasoner>>,
    /// Searches keep a core busy: more of them at once than cores only make all of them late.
    cores: Semaphore,
}

impl Kept {
    /// Nothing yet; the files of the index lie below `cache`. Nothing is read or made before it is asked for.
    pub fn new(
        env: Env,
        cache: &Path,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Arc<Self> {
        Self::equipped(env, cache, blobs, collection, None, None)
    }

    /// The same, which routes questions by meaning where no name in them says which documents they are for, and has a model
    /// that may be asked.
    pub fn equipped(
        env: Env,
        cache: &Path,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        meaning: Option<Arc<Meaning>>,
        model: Option<&AnswerModel>,
    ) -> Arc<Self> {
        let reasoner = model.map(|model| model.reasoner(&env, blobs, collection));
        let shelf = Reader::over(Arc::clone(blobs), collection.clone(), Catalogue::default());
        let shape = Arc::new(schema::shape());
        Arc::new(Self {
            env,
            meaning,
            reasoner,
            corpus: Corpus::new(cache, Arc::clone(blobs), collection, Arc::new(shelf), shape),
            answers: Cache::new(ANSWERS_BYTES, ANSWERS_MS),
            trees: Cache::new(TREES_BYTES, TREES_MS),
            aligned: Cache::new(ALIGNED_BYTES, ALIGNED_MS),
            cores: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
        })
    }

    /// What routes by meaning; `None` where no endpoint for embeddings is configured.
    pub(crate) fn meaning(&self) -> Option<&Meaning> {
        self.meaning.as_deref()
    }

    /// What walks trees with a model; `None` where none is configured.
    pub fn reasoner(&self) -> Option<&Arc<Reasoner>> {
        self.reasoner.as_ref()
    }

    /// The index.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Asks the index. What `catalogue` lists in another version, or no more, is left out: an index is behind for as long as
    /// it takes to enter what was published, and never shows what was superseded.
    pub(crate) async fn find(
        &self,
        catalogue: &Catalogue,
        query: &Query,
    ) -> Result<Found, FindError> {
        let edition = self.edition(catalogue).await?;
        let key = (edition.number(), normalized(query));
        let now_ms = self.env.now_ms();
        let found = match self.answers.get(&key, now_ms) {
            Some(found) => found,
            None => {
                let found = Arc::new(self.ask(&edition, query).await?);
                self.answers
                    .put(key, Arc::clone(&found), bytes_of(&found), now_ms);
                found
            }
        };
        let mut found = Found::clone(&found);
        found.hits.retain(|hit| {
            let listed = catalogue.get(hit.doc).and_then(|listed| listed.entry());
            listed.is_some_and(|entry| entry.version.seq == hit.version)
        });
        Ok(found)
    }

    /// The index as it is; where it is only being made, what is made first is waited for.
    async fn edition(&self, catalogue: &Catalogue) -> Result<Arc<Edition>, FindError> {
        let mut shown = self.corpus.shown();
        if self.corpus.edition().is_none()
            && let Err(error) = self.corpus.open().await
        {
            tracing::warn!(%error, "the index cannot be opened");
        }
        let nothing = catalogue
            .documents()
            .iter()
            .all(|listed| listed.entry().is_none());
        let mut patience = pin!(self.env.sleep(PATIENCE));
        loop {
            if let Some(edition) = self
                .corpus
                .edition()
                .filter(|edition| nothing || edition.documents() > 0)
            {
                return Ok(edition);
            }
            tokio::select! {
                () = &mut patience => return Err(PortError::passing("index", "open", "the index is being made").into()),
                _ = shown.changed() => {}
            }
        }
    }

    async fn ask(&self, edition: &Arc<Edition>, query: &Query) -> Result<Found, FindError> {
        let _core = self
            .cores
            .acquire()
            .await
            .map_err(|error: tokio::sync::AcquireError| {
                PortError::passing("index", "search", error.to_string())
            })?;
        let held = Arc::clone(edition);
        let asked = query.clone();
        let searched =
            tokio::task::spawn_blocking(move || query::find(&held.searcher, &asked)).await;
        let unreadable = match searched {
            Ok(Err(FindError::Port(error))) => error.message,
            Ok(found) => return found,
            Err(error) => error.to_string(),
        };
        self.corpus.doubt();
        Err(PortError::passing("index", "search", format!("it is made again: {unreadable}")).into())
    }

    /// Work that keeps a core busy, in its turn among searches.
    pub(crate) async fn beside_searches<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PortError> {
        let _core = self
            .cores
            .acquire()
            .await
            .map_err(|error: tokio::sync::AcquireError| {
                PortError::passing("query", "compute", error.to_string())
            })?;
        aside(work).await
    }

    /// An alignment that was made lately.
    pub(crate) fn aligned(&self, key: &AlignedKey) -> Option<Arc<Aligned>> {
        self.aligned.get(key, self.env.now_ms())
    }

    /// Keeps an alignment of about so many bytes.
    pub(crate) fn keep_aligned(&self, key: AlignedKey, aligned: &Arc<Aligned>, bytes: usize) {
        self.aligned
            .put(key, Arc::clone(aligned), bytes, self.env.now_ms());
    }

    /// A tree that was read lately.
    pub(crate) fn tree(&self, doc: DocId, seq: u64) -> Option<Arc<PublishedTree>> {
        self.trees.get(&(doc, seq), self.env.now_ms())
    }

    /// Keeps a tree whose JSON has `json_bytes`.
    pub(crate) fn keep_tree(&self, tree: &PublishedTree, json_bytes: usize) {
        let key = (tree.version.doc, tree.version.seq);
        let bytes = json_bytes * TREE_BYTES_PER_JSON_BYTE;
        self.trees
            .put(key, Arc::new(tree.clone()), bytes, self.env.now_ms());
    }
}

/// A question as it is compared: white space folded; whom it is for and how it is ranked included.
fn normalized(query: &Query) -> String {
    let text = query.text.split_whitespace().collect::<Vec<_>>().join(" ");
    serde_json::to_string(&Query {
        text,
        ..query.clone()
    })
    .unwrap_or_default()
}

/// About what an answer takes in memory.
fn bytes_of(found: &Found) -> usize {
    found
        .hits
        .iter()
        .map(|hit: &stemma_retrieval::Hit| {
            let path: usize = hit.path.iter().map(String::len).sum();
            HIT_BYTES
                + path
                + hit.name.len()
                + hit.why.len()
                + hit.excerpt.text.len()
                + 80 * hit.best_pages.len()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests as store;

    struct Desk {
        kept: Arc<Kept>,
        blobs: Arc<dyn Blobs>,
        _cache: tempfile::TempDir,
    }

    impl Desk {
        async fn new() -> Self {
            let cache = tempfile::tempdir().unwrap();
            let blobs = store::store().await;
            let blobs: Arc<dyn Blobs> = blobs;
            let kept = Kept::new(Env::system(), cache.path(), &blobs, &Collection::default());
            let desk = Self {
                kept,
                blobs,
                _cache: cache,
            };
            desk.kept
                .corpus()
                .bring_up_to(&desk.catalogue().await, &|_| {})
                .await
                .unwrap();
            desk
        }

        async fn catalogue(&self) -> Catalogue {
            Catalogue::load(self.blobs.as_ref(), &Collection::default())
                .await
                .unwrap()
        }

        async fn names(&self, catalogue: &Catalogue) -> BTreeSet<String> {
            let found = self
                .kept
                .find(catalogue, &Query::of("anvils  and rockets"))
                .await
                .unwrap();
            found.hits.into_iter().map(|hit| hit.name).collect()
        }
    }

    #[tokio::test]
    async fn an_answer_is_kept_until_something_is_published() {
        let desk = Desk::new().await;
        let catalogue = desk.catalogue().await;
        let both = desk.names(&catalogue).await;
        assert!(both.contains("ACME_2022.pdf"), "{both:?}");
        assert_eq!(desk.names(&catalogue).await, both);
        assert_eq!(
            (
                desk.kept.answers.state().hits,
                desk.kept.answers.state().misses
            ),
            (1, 1)
        );
        store::publish_now(
            desk.blobs.as_ref(),
            "10-K/NEW_2023.pdf",
            desk.kept.env.now_ms(),
        )
        .await;
        let newer = desk.catalogue().await;
        assert!(!desk.names(&newer).await.contains("NEW_2023.pdf"));
        desk.kept
            .corpus()
            .bring_up_to(&newer, &|_| {})
            .await
            .unwrap();
        assert!(desk.names(&newer).await.contains("NEW_2023.pdf"));
    }

    #[tokio::test]
    async fn what_is_listed_no_more_or_in_another_version_is_not_shown() {
        let desk = Desk::new().await;
        let catalogue = desk.catalogue().await;
        let entries = || {
            catalogue
                .documents()
                .iter()
                .filter_map(|listed| listed.entry().cloned())
        };
        let newer = entries()
            .filter(|entry| entry.version.name != "ACME_2021.pdf")
            .map(|mut entry| {
                entry.version.seq += u64::from(entry.version.name == "ACME_2022.pdf");
                entry
            });
        // The index knows of neither yet.
        assert_eq!(
            desk.names(&Catalogue::of_entries(newer)).await,
            BTreeSet::new()
        );
        assert!(!desk.names(&catalogue).await.is_empty());
    }

    #[tokio::test]
    async fn a_tree_is_read_once_and_kept_under_its_version() {
        let desk = Desk::new().await;
        let catalogue = desk.catalogue().await;
        let reader = Reader::over(
            Arc::clone(&desk.blobs),
            Collection::default(),
            catalogue.clone(),
        );
        let reader = reader.keeping(Arc::clone(&desk.kept));
        let listed = catalogue
            .documents()
            .iter()
            .find(|listed| listed.entry().is_some())
            .unwrap();
        let first = reader.tree_of(listed).await.unwrap();
        assert_eq!(reader.tree_of(listed).await.unwrap(), first);
        assert_eq!(
            (
                desk.kept.trees.state().entries,
                desk.kept.trees.state().hits
            ),
            (1, 1)
        );
        assert!(desk.kept.tree(listed.doc(), 2).is_none());
    }
}
