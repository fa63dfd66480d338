//! The index of one process: what searches read, brought up to a catalogue.
//!
//! An update works on the files of one folder, under its lock; a search reads the [`Edition`] of the last commit, which
//! does not change under it. Where another process on this machine has the lock, its commits are read.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use stemma_document::{CatalogueEntry, Collection, DocId};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use tantivy::Searcher;
use tokio::sync::watch;

use super::folder::{Folder, Generation, Held, Lock};
use super::shape::Shape;
use super::snapshot::{Manifest, Snapshots, Uploaded};
use super::update::{self, BATCH, Difference, Entered};
use super::{IndexError, aside};
use stemma_catalog::catalogue::Catalogue;
use stemma_catalog::shelf::Shelf;

/// Documents from which on fetching a snapshot is tried before they are entered one by one.
const FAR_BEHIND: usize = 500;

/// One commit of the index: consistent, and as it is for as long as it is held.
pub struct Edition {
    /// Reads it.
    pub searcher: Searcher,
    held: Arc<Held>,
    /// The number of the commit, in its generation.
    commit: u64,
    number: u64,
}

impl Edition {
    /// The version of a document that it holds. A hit in another version than the catalogue lists is stale.
    pub fn version(&self, doc: DocId) -> Option<u64> {
        self.held.get(&doc).copied()
    }

    /// Its number, in this process: what is entered or removed changes it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Documents in it.
    pub fn documents(&self) -> usize {
        self.held.len()
    }

    /// Entries in it.
    pub fn entries(&self) -> u64 {
        self.searcher.num_docs()
    }
}

/// How far an update came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brought {
    /// Documents entered.
    pub entered: usize,
    /// Entries they became.
    pub entries: u64,
    /// Documents removed.
    pub removed: usize,
    /// Documents that cannot be read.
    pub unreadable: usize,
    /// Documents still lacking: another process is at work, or the store is away.
    pub behind: usize,
    /// Whether the index that was there could not be read, and was made again.
    pub remade: bool,
    /// Bytes fetched from a snapshot.
    pub fetched_bytes: u64,
}

impl Brought {
    fn add(&mut self, entered: &Entered, removed: usize) {
        self.removed += removed;
        self.entered += entered.documents.len();
        self.entries += entered.entries;
        self.unreadable += entered.unreadable.len();
        self.behind += entered.missed;
    }
}

/// The index of a collection in this process.
pub struct Corpus {
    folder: Folder,
    shape: Arc<Shape>,
    pub(super) snapshots: Snapshots,
    shelf: Arc<dyn Shelf>,
    open: RwLock<Option<(Generation, Arc<Edition>)>>,
    /// Versions of documents that could not be read; they are not tried again.
    unreadable: Mutex<HashMap<DocId, u64>>,
    writing: tokio::sync::Mutex<()>,
    /// Whether a search could not read it.
    doubted: AtomicBool,
    /// Editions shown so far.
    shown: watch::Sender<u64>,
}

/// Told how many documents are left.
pub type Heard<'a> = &'a (dyn Fn(usize) + Send + Sync);

impl Corpus {
    /// The index below `cache`, of what `shelf` opens. Reads nothing yet.
    pub fn new(
        cache: &Path,
        blobs: Arc<dyn Blobs>,
        collection: &Collection,
        shelf: Arc<dyn Shelf>,
        shape: Arc<Shape>,
    ) -> Self {
        Self {
            folder: Folder::new(cache, collection, Arc::clone(&shape)),
            snapshots: Snapshots::new(blobs, collection, shape.revision),
            shape,
            shelf,
            open: RwLock::new(None),
            unreadable: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            doubted: AtomicBool::new(false),
            shown: watch::Sender::new(0),
        }
    }

    /// The last commit this process knows; `None` before [`Corpus::open`] found one.
    pub fn edition(&self) -> Option<Arc<Edition>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|(_, edition)| Arc::clone(edition))
    }

    /// Hears of editions.
    pub fn shown(&self) -> watch::Receiver<u64> {
        self.shown.subscribe()
    }

    /// Where it lies.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its snapshots in the store.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.generation().map_or(0, |generation| generation.bytes())
    }

    /// Names of files that were altered since they were written; opens the index and reads all of it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when that cannot be told.
    pub async fn altered(&self) -> Result<Vec<String>, IndexError> {
        self.open().await?;
        let Some(generation) = self.generation() else {
            return Ok(Vec::new());
        };
        aside(move || generation.altered()).await
    }

    /// Opens what lies in the folder, without looking whether it is up to date: milliseconds.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when it cannot be read; [`Corpus::bring_up_to`] makes it again.
    pub async fn open(&self) -> Result<Option<Arc<Edition>>, IndexError> {
        let folder = self.folder.clone();
        let Some(generation) = aside(move || folder.open()).await? else {
            return Ok(None);
        };
        self.show(generation, None).await.map(Some)
    }

    /// Enters what `catalogue` has and the index has not; `heard` is told after each commit how many documents are left.
    /// Every commit is shown to searches. A damaged index is made again.
    ///
    /// # Errors
    /// [`IndexError`] when the store or the disk could not; what was committed stays.
    pub async fn bring_up_to(
        &self,
        catalogue: &Catalogue,
        heard: Heard<'_>,
    ) -> Result<Brought, IndexError> {
        let _writing = self.writing.lock().await;
        let doubted = self.doubted.swap(false, Ordering::Relaxed);
        match self.attempt(catalogue, doubted, heard).await {
            Err(IndexError::Damaged(message)) => {
                tracing::warn!(message, "the index cannot be read and is made again");
                self.attempt(catalogue, true, heard).await
            }
            done => done,
        }
    }

    /// Says that a search could not read the index: the next update makes it again.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    async fn attempt(
        &self,
        catalogue: &Catalogue,
        remake: bool,
        heard: Heard<'_>,
    ) -> Result<Brought, IndexError> {
        let mut brought = Brought {
            remade: remake,
            ..Brought::default()
        };
        if !remake {
            brought.behind = self.lacking(catalogue).await?.len();
            if brought.behind == 0 && self.edition().is_some() {
                return Ok(brought);
            }
        }
        let Some(lock) = self.folder.lock()? else {
            self.open().await?;
            brought.behind = self.lacking(catalogue).await?.len();
            return Ok(brought);
        };
        let generation = self
            .generation_to_write(&lock, &mut brought, catalogue)
            .await?;
        brought.behind = 0;
        self.enter(&generation, catalogue, brought, heard).await
    }

    /// The generation that is there, one made of a snapshot where that saves work, or an empty one.
    async fn generation_to_write(
        &self,
        lock: &Lock,
        brought: &mut Brought,
        catalogue: &Catalogue,
    ) -> Result<Generation, IndexError> {
        let known = if brought.remade {
            None
        } else {
            self.known().await?
        };
        if let Some(known) = &known
            && self.lacking(catalogue).await?.add.len() < FAR_BEHIND
        {
            return Ok(known.clone());
        }
        if let Some(newest) = self.snapshots.newest().await?
            && let Some((generation, bytes)) = self.fetch(lock, &newest, known.as_ref()).await?
        {
            brought.fetched_bytes = bytes;
            return Ok(generation);
        }
        match known {
            Some(known) => Ok(known),
            None => self.begin(lock).await,
        }
    }

    async fn enter(
        &self,
        generation: &Generation,
        catalogue: &Catalogue,
        mut brought: Brought,
        heard: Heard<'_>,
    ) -> Result<Brought, IndexError> {
        let Difference { add, mut remove } = self.lacking(catalogue).await?;
        let total = add.len() + remove.len();
        let mut left = total;
        let alone: &[Arc<CatalogueEntry>] = &[];
        let batches = if add.is_empty() && !remove.is_empty() {
            vec![alone]
        } else {
            add.chunks(BATCH).collect()
        };
        for batch in batches {
            let removed = std::mem::take(&mut remove);
            let entered = update::enter(
                generation,
                &self.shape,
                self.shelf.as_ref(),
                batch,
                &removed,
                total,
            )
            .await?;
            self.show(generation.clone(), Some((&entered, &removed)))
                .await?;
            left -= batch.len() + removed.len();
            brought.add(&entered, removed.len());
            self.unreadable
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(entered.unreadable);
            heard(left);
        }
        Ok(brought)
    }

    /// The generation that is there, as it is now: another process may have written to it, or replaced it.
    async fn known(&self) -> Result<Option<Generation>, IndexError> {
        let open = self
            .open
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((generation, edition)) = open
            && self.folder.is_current(&generation)
            && generation.commit()? == edition.commit
        {
            return Ok(Some(generation));
        }
        self.open().await?;
        Ok(self.generation())
    }

    /// The generation that is read.
    pub(super) fn generation(&self) -> Option<Generation> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|(generation, _)| generation.clone())
    }

    /// What the last commit lacks, also one of another process.
    async fn lacking(&self, catalogue: &Catalogue) -> Result<Difference, IndexError> {
        let Some(edition) = (match self.edition() {
            Some(edition) => Some(edition),
            None => self.open().await?,
        }) else {
            return Ok(self.readable(Difference::between(&Held::new(), catalogue)));
        };
        Ok(self.readable(Difference::between(&edition.held, catalogue)))
    }

    /// Without what could not be read before.
    fn readable(&self, mut difference: Difference) -> Difference {
        let unreadable = self
            .unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = |entry: &Arc<CatalogueEntry>| {
            unreadable.get(&entry.version.doc) == Some(&entry.version.seq)
        };
        difference.add.retain(|entry| !known(entry));
        difference
    }

    /// A generation made of a snapshot; `None` when it cannot be used, or `near` was made of it.
    async fn fetch(
        &self,
        lock: &Lock,
        (seq, manifest): &(u64, Manifest),
        near: Option<&Generation>,
    ) -> Result<Option<(Generation, u64)>, IndexError> {
        if near.is_some_and(|near| near.origin() == Some(*seq)) {
            return Ok(None);
        }
        let room = self.folder.room(lock)?;
        let fetched = self
            .snapshots
            .fetch(manifest, &room, near.map(|near| near.path.as_path()))
            .await;
        let opened = fetched.and_then(|bytes| Ok((Generation::open(&room, &self.shape)?, bytes)));
        match opened {
            Ok((generation, bytes)) => {
                generation.set_origin(*seq)?;
                self.folder.adopt(lock, &generation)?;
                self.show(generation.clone(), None).await?;
                Ok(Some((generation, bytes)))
            }
            Err(IndexError::Damaged(message)) => {
                tracing::warn!(
                    seq,
                    message,
                    "the snapshot cannot be used; documents are read instead"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// For a builder: what is built goes on from the newest snapshot, so that both share their files.
    pub(super) async fn stand_on(&self, newest: &(u64, Manifest)) -> Result<(), IndexError> {
        let _writing = self.writing.lock().await;
        let Some(lock) = self.folder.lock()? else {
            return Ok(());
        };
        let known = self.known().await.unwrap_or_default();
        self.fetch(&lock, newest, known.as_ref()).await.map(drop)
    }

    /// Whether the index is at the commit of a snapshot, and lacks nothing of `catalogue`.
    pub(super) async fn says_what(
        &self,
        newest: &Manifest,
        catalogue: &Catalogue,
    ) -> Result<bool, IndexError> {
        let Some(generation) = self.generation() else {
            return Ok(false);
        };
        Ok(newest.is_commit_of(&generation)? && self.lacking(catalogue).await?.is_empty())
    }

    /// Leaves a snapshot after `base`; `None` when another was first, or another process writes to the index.
    pub(super) async fn upload(
        &self,
        base: Option<&(u64, Manifest)>,
        at_ms: Millis,
    ) -> Result<Option<Uploaded>, IndexError> {
        let _writing = self.writing.lock().await;
        let Some(_lock) = self.folder.lock()? else {
            return Ok(None);
        };
        let (Some(generation), Some(edition)) = (self.known().await?, self.edition()) else {
            return Ok(None);
        };
        let counts = (edition.documents() as u64, edition.entries());
        let uploaded = self
            .snapshots
            .upload(&generation, base, counts, at_ms)
            .await?;
        if let Some(uploaded) = &uploaded {
            generation.set_origin(uploaded.seq)?;
        }
        Ok(uploaded)
    }

    /// An empty generation.
    async fn begin(&self, lock: &Lock) -> Result<Generation, IndexError> {
        let room = self.folder.room(lock)?;
        let generation = self.folder.empty(&room)?;
        self.folder.adopt(lock, &generation)?;
        self.show(generation.clone(), None).await?;
        Ok(generation)
    }

    /// Takes the next edition from `generation`; with what was done to the one before, or reading what it holds.
    async fn show(
        &self,
        generation: Generation,
        done: Option<(&Entered, &[DocId])>,
    ) -> Result<Arc<Edition>, IndexError> {
        let before = self.edition().filter(|_| done.is_some());
        let opened = generation.clone();
        let (commit, searcher, held) = aside(move || {
            let commit = opened.commit()?; // one that comes in between is noticed by its number
            let searcher = opened.searcher()?;
            let held = match before {
                Some(before) => Held::clone(&before.held),
                None => opened.held(&searcher)?,
            };
            Ok((commit, searcher, held))
        })
        .await?;
        let held = match done {
            Some((entered, removed)) => after(held, entered, removed),
            None => held,
        };
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, edition)) = open.as_ref()
            && known.path == generation.path
            && edition.commit > commit
        {
            return Ok(Arc::clone(edition)); // shown while this one was read
        }
        let number = *self.shown.borrow() + 1;
        let edition = Arc::new(Edition {
            searcher,
            held: Arc::new(held),
            commit,
            number,
        });
        *open = Some((generation, Arc::clone(&edition)));
        self.shown.send_replace(number);
        Ok(edition)
    }
}

/// What is held after an update.
fn after(mut held: Held, entered: &Entered, removed: &[DocId]) -> Held {
    for doc in removed
        .iter()
        .chain(entered.unreadable.iter().map(|(doc, _)| doc))
    {
        held.remove(doc);
    }
    held.extend(entered.documents.iter().copied());
    held
}
