//! Flat vector index: exact cosine search, O(n) per query, measured to 500,000 sections (ADR 0021).
//!
//! ```text
//! {cache}/{collection}/vectors-{model digest}/{doc}-{version}.vec   written once, renamed into place
//!                                             parts/{doc}.vec       unfinished documents
//!                                             parts/lock            held while embedding; released when the process ends
//! ```
//! A file holds the vectors of one document. A torn file, or one of another dimension, is deleted and computed again. Files
//! of other processes are picked up by the next search: the folder's modification time says whether there are any.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use stemma_document::{Collection, Digest, DocId, SectionId};
use stemma_store::PortError;

use super::EmbeddingError;
use super::knn;

/// Largest number of vectors; exact search was measured with this many (ADR 0021).
pub const MAX_VECTORS: usize = 500_000;
// Rows that a thread compares at a time.
const ROWS_PER_THREAD: usize = 20_000;
// File type and format version.
const MAGIC: &[u8; 8] = b"stvec\0\0\x01";
const EXTENSION: &str = "vec";
// Unfinished documents.
const PARTIAL_FOLDER: &str = "parts";
// File systems round modification times. A folder changed more recently than this may have changed again unnoticed.
const MTIME_GRANULARITY: Duration = Duration::from_millis(100);

/// The embedding of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionVector {
    pub section: SectionId,
    /// Digest of the embedded text. An equal text in a later version keeps its vector.
    pub digest: u64,
    /// Normalized to length 1.
    pub vector: Vec<f32>,
}

/// A section near a query vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    pub doc: DocId,
    pub section: SectionId,
    /// Cosine similarity, -1 to 1.
    pub score: f32,
}

/// Held while embedding; released on drop.
pub type EmbedLock = Box<dyn Send + Sync>;

/// The vectors of one collection and one model, in local files.
pub struct FlatIndex {
    folder: PathBuf,
    max_vectors: usize,
    state: Arc<RwLock<Option<FlatVectors>>>,
}

// All vectors in memory, grouped by document.
#[derive(Default)]
struct FlatVectors {
    dimensions: usize,
    values: Vec<f32>,
    rows: Vec<(DocId, SectionId, u64)>,
    versions: HashMap<DocId, u64>,
    // Modification time of the folder when it was read; `None` if it may have changed since.
    folder_mtime: Option<SystemTime>,
}

impl FlatIndex {
    /// The vectors of a model below `cache`. Reads and creates nothing yet. Each `model` has a folder of its own.
    pub fn new(cache: &Path, collection: &Collection, model: &str) -> Self {
        let digest: String = Digest::from_content(model.as_bytes())
            .to_string()
            .chars()
            .take(12)
            .collect();
        let folder = cache
            .join(collection.as_str())
            .join(format!("vectors-{digest}"));
        Self {
            folder,
            max_vectors: MAX_VECTORS,
            state: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_max_vectors(mut self, most: usize) -> Self {
        self.max_vectors = most;
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    // Runs `work` on the loaded vectors, on a blocking thread. Loads the files first if that has not happened, or if
    // `follow` asks for changes of other processes.
    async fn with_vectors<T: Send + 'static>(
        &self,
        follow: bool,
        work: impl FnOnce(&mut FlatVectors) -> Result<T, EmbeddingError> + Send + 'static,
    ) -> Result<T, EmbeddingError> {
        let state = Arc::clone(&self.state);
        let folder = self.folder.clone();
        super::run_cpu(move || {
            let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
            let is_new = state.is_none();
            let vectors = state.get_or_insert_default();
            if (is_new || follow)
                && let Err(error) = vectors.refresh(&folder)
            {
                if is_new {
                    *state = None;
                }
                return Err(error);
            }
            work(vectors)
        })
        .await?
    }

    fn partial_path(&self, doc: DocId) -> PathBuf {
        self.folder
            .join(PARTIAL_FOLDER)
            .join(format!("{doc}.{EXTENSION}"))
    }

    fn vector_path(&self, doc: DocId, version: u64) -> PathBuf {
        self.folder.join(format!("{doc}-{version:012}.{EXTENSION}"))
    }

    /// The embedded version of each document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the folder cannot be read.
    pub async fn versions(&self) -> Result<HashMap<DocId, u64>, EmbeddingError> {
        self.with_vectors(true, |vectors| Ok(vectors.versions.clone()))
            .await
    }

    /// Number of vectors.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn count(&self) -> Result<usize, EmbeddingError> {
        self.with_vectors(true, |vectors| Ok(vectors.rows.len()))
            .await
    }

    /// The vectors of a document; empty if it has none.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn get(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError> {
        self.with_vectors(false, move |vectors| Ok(vectors.document_vectors(doc)))
            .await
    }

    /// Atomically replaces the vectors of a document.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the folder cannot be written, the vectors have another length, or there are too many.
    pub async fn put(
        &self,
        doc: DocId,
        version: u64,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError> {
        let most = self.max_vectors;
        let path = self.vector_path(doc, version);
        let folder = self.folder.clone();
        let part = self.partial_path(doc);
        self.with_vectors(false, move |vectors| {
            let new = rows
                .first()
                .map_or(vectors.dimensions, |row| row.vector.len());
            let others = vectors
                .rows
                .iter()
                .filter(|(other, ..)| *other != doc)
                .count();
            if others > 0 && new != vectors.dimensions
                || rows.iter().any(|row| row.vector.len() != new)
            {
                return Err(EmbeddingError::Dimensions {
                    stored: vectors.dimensions,
                    new,
                });
            }
            if others + rows.len() > most {
                return Err(EmbeddingError::TooManyVectors {
                    vectors: others + rows.len(),
                    most,
                });
            }
            write(&path, &encode(new, &rows))?;
            let before = vectors
                .versions
                .get(&doc)
                .copied()
                .filter(|before| *before != version);
            vectors.forget(doc);
            vectors.add(doc, version, new, &rows);
            // Should deleting the older file fail, the next refresh deletes it: the newer version wins.
            if let Some(before) = before {
                remove(&folder.join(format!("{doc}-{before:012}.{EXTENSION}")))?;
            }
            remove(&part)
        })
        .await
    }

    /// Stores the vectors made so far for an unfinished document, replacing earlier ones. They do not take part in searches; a later
    /// run continues from them. [`FlatIndex::put`] removes them.
    ///
    /// # Errors
    /// As [`FlatIndex::put`].
    pub async fn put_partial(
        &self,
        doc: DocId,
        rows: Vec<SectionVector>,
    ) -> Result<(), EmbeddingError> {
        let path = self.partial_path(doc);
        super::run_cpu(move || {
            write(
                &path,
                &encode(rows.first().map_or(0, |row| row.vector.len()), &rows),
            )
        })
        .await?
    }

    /// The stored vectors of an unfinished document.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn partial(&self, doc: DocId) -> Result<Vec<SectionVector>, EmbeddingError> {
        let path = self.partial_path(doc);
        super::run_cpu(move || match fs::read(&path) {
            Ok(bytes) => Ok(decode(&bytes).map(|(_, rows)| rows).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(disk_error(&path)(error).into()),
        })
        .await?
    }

    /// Unfinished documents.
    ///
    /// # Errors
    /// As [`FlatIndex::versions`].
    pub async fn partial_documents(&self) -> Result<Vec<DocId>, EmbeddingError> {
        let folder = self.folder.join(PARTIAL_FOLDER);
        super::run_cpu(move || {
            Ok(list_files(&folder)?
                .into_iter()
                .filter(|path| path.extension().is_some())
                .filter_map(|path: PathBuf| path.file_stem()?.to_str()?.parse().ok())
                .collect())
        })
        .await?
    }

    /// Acquires the right to embed, until the lock is dropped or the process ends; `None` if another process holds it.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the lock cannot be checked.
    pub async fn lock(&self) -> Result<Option<EmbedLock>, EmbeddingError> {
        let folder = self.folder.join(PARTIAL_FOLDER);
        super::run_cpu(move || {
            fs::create_dir_all(&folder).map_err(disk_error(&folder))?;
            let name = folder.join("lock");
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&name)
                .map_err(disk_error(&name))?;
            match file.try_lock() {
                Ok(()) => Ok(Some(Box::new(file) as EmbedLock)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(disk_error(&name)(error).into()),
            }
        })
        .await?
    }

    /// Removes the vectors of a document, finished or not.
    ///
    /// # Errors
    /// As [`FlatIndex::put`].
    pub async fn remove(&self, doc: DocId) -> Result<(), EmbeddingError> {
        let folder = self.folder.clone();
        let part = self.partial_path(doc);
        self.with_vectors(false, move |vectors| {
            if let Some(version) = vectors.versions.get(&doc) {
                remove(&folder.join(format!("{doc}-{version:012}.{EXTENSION}")))?;
            }
            vectors.forget(doc);
            remove(&part)
        })
        .await
    }

    /// The `most` sections nearest to `vector`, best first; ties ordered by document and section. Searches the documents in `within`
    /// only, if given.
    ///
    /// # Errors
    /// [`EmbeddingError::Dimensions`] if the stored vectors have another length.
    pub async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Neighbor>, EmbeddingError> {
        let vector = vector.to_vec();
        let within = within.cloned();
        self.with_vectors(true, move |_| Ok(())).await?;
        let state = Arc::clone(&self.state);
        // The search takes the read lock only, so that searches run in parallel.
        super::run_cpu(move || {
            let state = state.read().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().map_or(Ok(Vec::new()), |vectors| {
                vectors.nearest(&vector, within.as_ref(), most)
            })
        })
        .await?
    }
}

impl FlatVectors {
    // Loads the files of the folder. Of two versions of a document, the newer one counts.
    fn refresh(&mut self, folder: &Path) -> Result<(), EmbeddingError> {
        // Take the time before listing the files: a file written meanwhile then triggers another refresh.
        let changed = match fs::metadata(folder).and_then(|folder| folder.modified()) {
            Ok(changed) => changed,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                *self = Self::default();
                return Ok(());
            }
            Err(error) => return Err(disk_error(folder)(error).into()),
        };
        if self.folder_mtime == Some(changed) {
            return Ok(());
        }
        let mut newest: HashMap<DocId, (u64, PathBuf)> = HashMap::new();
        for path in list_files(folder)? {
            let Some((doc, version)) = parse_file_name(&path) else {
                continue;
            };
            let older = match newest.get(&doc) {
                Some((known, _)) if *known >= version => Some(path),
                _ => newest.insert(doc, (version, path)).map(|(_, path)| path),
            };
            if let Some(older) = older {
                remove(&older)?;
            }
        }
        let gone: Vec<DocId> = self
            .versions
            .keys()
            .filter(|doc| !newest.contains_key(doc))
            .copied()
            .collect();
        gone.into_iter().for_each(|doc| self.forget(doc));
        let mut newest_files: Vec<(DocId, (u64, PathBuf))> = newest.into_iter().collect();
        newest_files.retain(|(doc, (version, _))| self.versions.get(doc) != Some(version));
        newest_files.sort_unstable();
        for (doc, (version, path)) in newest_files {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                // Replaced by a newer version meanwhile, which changes the folder's time and triggers another refresh.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(disk_error(&path)(error).into()),
            };
            self.forget(doc);
            match decode(&bytes) {
                Some((dimensions, rows))
                    if self.rows.is_empty() || self.dimensions == dimensions || rows.is_empty() =>
                {
                    self.add(doc, version, dimensions, &rows);
                }
                _ => {
                    tracing::warn!(file = %path.display(), "vector file cannot be read; its document will be embedded again");
                    remove(&path)?;
                }
            }
        }
        let is_settled = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > MTIME_GRANULARITY);
        self.folder_mtime = is_settled.then_some(changed);
        Ok(())
    }

    fn add(&mut self, doc: DocId, version: u64, dimensions: usize, rows: &[SectionVector]) {
        if !rows.is_empty() {
            self.dimensions = dimensions;
        }
        self.versions.insert(doc, version);
        for row in rows {
            self.rows.push((doc, row.section, row.digest));
            self.values.extend_from_slice(&row.vector);
        }
    }

    fn forget(&mut self, doc: DocId) {
        let dimensions = self.dimensions;
        if self.versions.remove(&doc).is_none() || dimensions == 0 {
            return;
        }
        // The rows of a document are adjacent.
        if let Some(first) = self.rows.iter().position(|(other, ..)| *other == doc) {
            let count = self.rows[first..]
                .iter()
                .take_while(|(other, ..)| *other == doc)
                .count();
            self.rows.drain(first..first + count);
            self.values
                .drain(first * dimensions..(first + count) * dimensions);
        }
    }

    fn document_vectors(&self, doc: DocId) -> Vec<SectionVector> {
        let of_doc = self
            .rows
            .iter()
            .zip(self.values.chunks(self.dimensions.max(1)))
            .filter(|((other, ..), _)| *other == doc);
        of_doc
            .map(|((_, section, digest), vector)| SectionVector {
                section: *section,
                digest: *digest,
                vector: vector.to_vec(),
            })
            .collect()
    }

    fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Neighbor>, EmbeddingError> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        if vector.len() != self.dimensions {
            return Err(EmbeddingError::Dimensions {
                stored: self.dimensions,
                new: vector.len(),
            });
        }
        let parts: Vec<(usize, &[f32])> = self
            .values
            .chunks(ROWS_PER_THREAD * self.dimensions)
            .enumerate()
            .map(|(number, values)| (number * ROWS_PER_THREAD, values))
            .collect();
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(parts.len());
        let mut scored: Vec<(usize, f32)> = std::thread::scope(|scope| {
            let working: Vec<_> = (0..threads)
                .map(|thread| {
                    let mine = parts.iter().copied().skip(thread).step_by(threads);
                    scope.spawn(move || {
                        mine.flat_map(|(first, values)| {
                            self.nearest_rows(first, values, vector, within, most)
                        })
                        .collect::<Vec<_>>()
                    })
                })
                .collect();
            working
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_default())
                .collect()
        });
        scored.sort_unstable_by(|a, b| {
            b.1.total_cmp(&a.1)
                .then_with(|| self.row_id(a.0).cmp(&self.row_id(b.0)))
        });
        scored.truncate(most);
        Ok(scored
            .into_iter()
            .map(|(at, score)| Neighbor {
                doc: self.rows[at].0,
                section: self.rows[at].1,
                score,
            })
            .collect())
    }

    // The best rows of a part, which begins with row `first`.
    fn nearest_rows(
        &self,
        first: usize,
        values: &[f32],
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Vec<(usize, f32)> {
        let mut rows = knn::top_k(
            values,
            vector,
            most,
            |at| within.is_none_or(|docs| docs.contains(&self.rows[first + at].0)),
            |at| self.row_id(first + at),
        );
        rows.iter_mut().for_each(|(at, _)| *at += first);
        rows
    }

    fn row_id(&self, at: usize) -> (DocId, SectionId) {
        (self.rows[at].0, self.rows[at].1)
    }
}

fn parse_file_name(path: &Path) -> Option<(DocId, u64)> {
    let stem = path
        .file_name()?
        .to_str()?
        .strip_suffix(EXTENSION)?
        .strip_suffix('.')?;
    let (doc, version) = stem.rsplit_once('-')?;
    Some((doc.parse().ok()?, version.parse().ok()?))
}

// Layout, little-endian: magic, dimensions, number of rows; section id and digest of each row; all vectors.
fn encode(dimensions: usize, rows: &[SectionVector]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + rows.len() * (12 + 4 * dimensions));
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(dimensions as u32).to_le_bytes());
    bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    for row in rows {
        bytes.extend_from_slice(&row.section.0.to_le_bytes());
        bytes.extend_from_slice(&row.digest.to_le_bytes());
    }
    rows.iter()
        .flat_map(|row| &row.vector)
        .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes
}

// `None` for anything that `encode` cannot have written, so that a torn file is never searched.
fn decode(bytes: &[u8]) -> Option<(usize, Vec<SectionVector>)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (dimensions, rest) = rest.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let dimensions = u32::from_le_bytes(*dimensions) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    let heads_bytes = count.checked_mul(12)?;
    let (heads, numbers) = rest.split_at_checked(heads_bytes)?;
    if numbers.len() != count.checked_mul(dimensions)?.checked_mul(4)?
        || dimensions == 0 && count > 0
    {
        return None;
    }
    let rows: Option<Vec<SectionVector>> = (0..count)
        .map(|at: usize| {
            let (section, digest) = heads
                .get(at * 12..(at + 1) * 12)?
                .split_first_chunk::<4>()?;
            let vector: Vec<f32> = numbers
                .get(at * 4 * dimensions..(at + 1) * 4 * dimensions)?
                .chunks_exact(4)
                .map(|bytes| bytes.try_into().map(f32::from_le_bytes).unwrap_or_default())
                .collect();
            let is_finite = vector.iter().all(|number| number.is_finite());
            let digest = u64::from_le_bytes(digest.try_into().ok()?);
            is_finite.then_some(SectionVector {
                section: SectionId(u32::from_le_bytes(*section)),
                digest,
                vector,
            })
        })
        .collect();
    Some((dimensions, rows?))
}

// Empty if the folder does not exist.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>, EmbeddingError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(disk_error(folder)(error).into()),
    };
    entries
        .map(|entry| Ok(entry.map_err(disk_error(folder))?.path()))
        .collect()
}

// Writes atomically: readers see the whole file or none.
fn write(path: &Path, bytes: &[u8]) -> Result<(), EmbeddingError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(disk_error(folder))?;
    }
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes).map_err(disk_error(&temporary))?;
    fs::rename(&temporary, path).map_err(disk_error(path))?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), EmbeddingError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(disk_error(path)(error).into()),
        _ => Ok(()),
    }
}

fn disk_error(path: &Path) -> impl Fn(std::io::Error) -> PortError {
    let path = path.display().to_string();
    move |error| PortError::permanent("vectors.file", format!("{path}: {error}"))
}
