//! An index on the local disk.
//!
//! ```text
//! {cache}/{collection}/r00000001/lock       held while writing; released when the process ends
//!                                current    name of the generation that is read
//!                                g000007/   an index; files are written once
//! ```
//! A generation grows by atomic commits: after a crash, the last commit counts. A damaged generation, or one far behind a
//! snapshot, is replaced by the next. Readers need no lock.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stemma_document::{Collection, DocId};
use tantivy::directory::{Directory, MmapDirectory};
use tantivy::schema::IndexRecordOption;
use tantivy::{
    DocSet, Index, IndexReader, IndexSettings, ReloadPolicy, Searcher, SegmentReader, TERMINATED,
    TantivyError,
};

use super::IndexError;
use super::commit::CommitPayload;
use super::doc_mapper::DocMapper;
use super::indexed_versions::IndexedVersions;
use super::shard::ShardId;

// Names the snapshot that a generation was made from.
const ORIGIN_FILE: &str = "origin";

// Describes the commit of an index; the only file that is rewritten.
pub(super) const META_FILE: &str = "meta.json";

// Opens the files of a generation.
type OpenDirectory = dyn Fn(&Path) -> Result<Box<dyn Directory>, TantivyError> + Send + Sync;

/// The local index of a shard of a collection, for one revision.
#[derive(Clone)]
pub struct IndexFolder {
    path: PathBuf,
    mapper: Arc<DocMapper>,
    open_directory: Arc<OpenDirectory>,
}

/// The right to write to a folder; released on drop.
pub struct IndexLock(#[expect(dead_code, reason = "held for its lock")] File);

/// An open generation.
#[derive(Clone)]
pub struct IndexGeneration {
    pub(crate) path: PathBuf,
    pub(crate) index: Index,
    reader: IndexReader,
    mapper: Arc<DocMapper>,
}

/// Documents with a version.
pub type DocumentVersions = HashMap<DocId, u64>;

impl IndexFolder {
    /// The folder of a shard of `collection` below `cache`. Creates nothing.
    pub fn new(
        cache: &Path,
        collection: &Collection,
        shard: ShardId,
        mapper: Arc<DocMapper>,
    ) -> Self {
        let name = format!("r{:08x}{}", mapper.revision, shard.suffix());
        Self {
            path: cache.join(collection.as_str()).join(name),
            mapper,
            open_directory: Arc::new(|path| Ok(Box::new(MmapDirectory::open(path)?))),
        }
    }

    /// Has the files of generations opened by `open_directory`.
    #[cfg(test)]
    pub(super) fn with_directories(mut self, open_directory: Arc<OpenDirectory>) -> Self {
        self.open_directory = open_directory;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Acquires the write lock; `None` if another process holds it.
    ///
    /// # Errors
    /// [`IndexError::Disk`] if the folder is not writable.
    pub fn lock(&self) -> Result<Option<IndexLock>, IndexError> {
        fs::create_dir_all(&self.path).map_err(IndexError::disk(&self.path))?;
        let name = self.path.join("lock");
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name);
        let file = file.map_err(IndexError::disk(&name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(IndexLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(IndexError::disk(&name)(error)),
        }
    }

    /// Opens the current generation; `None` before the first.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if it is not an index of this schema.
    pub fn open(&self) -> Result<Option<IndexGeneration>, IndexError> {
        let current = self.path.join("current");
        let name = match fs::read_to_string(&current) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            name => name.map_err(IndexError::disk(&current))?,
        };
        if generation_number(&name).is_none() {
            return Err(IndexError::Damaged(format!(
                "{} does not name a generation",
                current.display()
            )));
        }
        self.open_generation(&self.path.join(name)).map(Some)
    }

    /// Opens the generation at `path`.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if it is not an index of this schema.
    pub(super) fn open_generation(&self, path: &Path) -> Result<IndexGeneration, IndexError> {
        IndexGeneration::open(path, (self.open_directory)(path)?, &self.mapper)
    }

    /// Creates an empty folder for the next generation.
    ///
    /// # Errors
    /// [`IndexError::Disk`].
    pub fn next_path(&self, _lock: &IndexLock) -> Result<PathBuf, IndexError> {
        let newest = self
            .generations()
            .iter()
            .filter_map(|name| generation_number(name))
            .max()
            .unwrap_or(0);
        let path = self.path.join(format!("g{:06}", newest + 1));
        fs::create_dir_all(&path).map_err(IndexError::disk(&path))?;
        Ok(path)
    }

    /// Creates an empty index in `path`.
    ///
    /// # Errors
    /// [`IndexError`] if it cannot be written.
    pub fn create(&self, path: &Path) -> Result<IndexGeneration, IndexError> {
        let schema = self.mapper.schema.clone();
        Index::create(
            (self.open_directory)(path)?,
            schema,
            IndexSettings::default(),
        )?;
        self.open_generation(path)
    }

    /// Removes a generation that could not be completed, so that it takes no space. The current one stays.
    pub(super) fn discard(&self, _lock: &IndexLock, path: &Path) {
        let current = fs::read_to_string(self.path.join("current"));
        if current.is_ok_and(|current| path.ends_with(current)) {
            return;
        }
        if let Err(error) = fs::remove_dir_all(path) {
            tracing::warn!(path = %path.display(), %error, "an incomplete index cannot be removed");
        }
    }

    /// Makes a generation the current one and deletes all others. Readers that have one open keep their files.
    ///
    /// # Errors
    /// [`IndexError::Disk`].
    pub fn activate(
        &self,
        _lock: &IndexLock,
        generation: &IndexGeneration,
    ) -> Result<(), IndexError> {
        let name = generation
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let next = self.path.join("current.next");
        let current = self.path.join("current");
        fs::write(&next, &name)
            .and_then(|()| File::open(&next)?.sync_all())
            .map_err(IndexError::disk(&next))?;
        fs::rename(&next, &current).map_err(IndexError::disk(&current))?;
        for other in self.generations().iter().filter(|other| **other != name) {
            let path = self.path.join(other);
            fs::remove_dir_all(&path).map_err(IndexError::disk(&path))?;
        }
        Ok(())
    }

    // Another process may have activated a newer generation.
    pub(crate) fn is_current(&self, generation: &IndexGeneration) -> bool {
        fs::read_to_string(self.path.join("current"))
            .is_ok_and(|name| generation.path.ends_with(name))
    }

    fn generations(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|name| generation_number(name).is_some())
            .collect()
    }
}

impl IndexGeneration {
    fn open(
        path: &Path,
        directory: Box<dyn Directory>,
        mapper: &Arc<DocMapper>,
    ) -> Result<Self, IndexError> {
        let mut index = Index::open(directory)?;
        mapper.check_schema(&index.schema())?;
        index.set_tokenizers(mapper.tokenizers.clone());
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()?;
        Ok(Self {
            path: path.into(),
            index,
            reader,
            mapper: Arc::clone(mapper),
        })
    }

    /// A searcher of the last commit; later commits do not change it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub fn searcher(&self) -> Result<Searcher, IndexError> {
        self.reader.reload()?;
        Ok(self.reader.searcher())
    }

    /// The document versions in a searcher's commit. Reads one term and one number per document.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub fn versions(&self, searcher: &Searcher) -> Result<IndexedVersions, IndexError> {
        let mut versions = IndexedVersions::default();
        for segment in searcher.segment_readers() {
            self.add_segment_versions(segment, &mut versions)?;
        }
        Ok(versions)
    }

    fn add_segment_versions(
        &self,
        segment: &SegmentReader,
        versions: &mut IndexedVersions,
    ) -> Result<(), IndexError> {
        let seqs = segment.fast_fields().u64(self.mapper.seq_name())?;
        let postings_of = segment.inverted_index(self.mapper.doc)?;
        let mut terms = postings_of.terms().stream().map_err(IndexError::damaged)?;
        while terms.advance() {
            let doc = std::str::from_utf8(terms.key())
                .ok()
                .and_then(|text| text.parse::<DocId>().ok());
            let doc = doc
                .ok_or_else(|| IndexError::Damaged("it contains an invalid document id".into()))?;
            let postings =
                postings_of.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic);
            let mut postings = postings.map_err(IndexError::damaged)?;
            while postings.doc() != TERMINATED && segment.is_deleted(postings.doc()) {
                postings.advance();
            }
            if postings.doc() != TERMINATED {
                let seq = seqs.first(postings.doc()).unwrap_or(0);
                // A document with entries of two versions counts as the older one, so that it is indexed again.
                let older = versions.get(doc).unwrap_or(seq);
                versions.insert(doc, seq.min(older));
            }
        }
        Ok(())
    }

    pub(crate) fn opstamp(&self) -> Result<u64, IndexError> {
        Ok(self.index.load_metas()?.opstamp)
    }

    /// The document versions that could not be read for the last commit.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub fn unreadable(&self) -> Result<DocumentVersions, IndexError> {
        match self.index.load_metas()?.payload {
            // Commits of earlier programs, and of an empty index.
            None => Ok(DocumentVersions::new()),
            Some(json) => serde_json::from_str::<CommitPayload>(&json)
                .map_err(IndexError::damaged)?
                .versions(),
        }
    }

    // The snapshot it was fetched from or uploaded as.
    pub(crate) fn origin(&self) -> Option<u64> {
        fs::read_to_string(self.path.join(ORIGIN_FILE))
            .ok()?
            .parse()
            .ok()
    }

    pub(crate) fn set_origin(&self, seq: u64) -> Result<(), IndexError> {
        let path = self.path.join(ORIGIN_FILE);
        fs::write(&path, seq.to_string()).map_err(IndexError::disk(&path))
    }

    /// Names of altered files. Reads and checks all of them.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if they cannot be checked.
    pub fn corrupt_files(&self) -> Result<Vec<String>, IndexError> {
        let mut altered: Vec<String> = self
            .index
            .validate_checksum()?
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        altered.sort();
        Ok(altered)
    }

    /// Removes the files that no commit has, such as those of a writer that failed. Nothing may write meanwhile.
    ///
    /// # Errors
    /// [`IndexError::Disk`].
    pub(super) fn remove_uncommitted(&self) -> Result<(), IndexError> {
        let mut living = self.index.load_metas()?.list_segment_files();
        living.insert(META_FILE.into());
        self.index.directory().clone().garbage_collect(|| living)?;
        Ok(())
    }

    /// Size on disk.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| metadata.len())
            .sum()
    }
}

fn generation_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('g')?;
    if digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}
