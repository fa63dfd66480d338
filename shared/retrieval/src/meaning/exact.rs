//! Vectors in files beside the index, all compared with each question: exact, and fast enough up to a measured number.
//!
//! ```text
//! {cache}/{collection}/vectors-{digest of the model}/{doc}-{version}.vec     written once, renamed into place
//!                                                    parts/{doc}.vec         of a document that is not whole
//!                                                    parts/lock              held by who makes vectors; ends with the process
//! ```
//! A file holds the rows of one document. One that is torn, or of another length, is left out and made again. What another
//! process made is read when it is asked for next: the folder's time says whether there is any.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use stemma_document::{Collection, Digest, DocId, SectionId};
use stemma_engine::PortError;

use super::MeaningError;
use super::nearest;
use super::vectors::{Lock, Near, Row, Vectors};

/// Vectors kept at most: what the largest archive was measured with (ADR 0021).
pub const MOST: usize = 500_000;
/// Rows that one thread compares.
const PART: usize = 20_000;
/// The first bytes of a file: what it is, and in which form.
const MAGIC: &[u8; 8] = b"stvec\0\0\x01";
const ENDING: &str = "vec";
/// The folder of what is not whole.
const PARTS: &str = "parts";
/// How old the folder's time must be to say that nothing was changed since: file systems count it in steps.
const STEP: Duration = Duration::from_millis(100);

/// The adapter.
pub struct ExactVectors {
    folder: PathBuf,
    most: usize,
    state: Arc<RwLock<Option<Held>>>,
}

/// All vectors in memory, document after document.
#[derive(Default)]
struct Held {
    dimensions: usize,
    numbers: Vec<f32>,
    rows: Vec<(DocId, SectionId, u64)>,
    versions: HashMap<DocId, u64>,
    /// The folder's time when it was read.
    seen: Option<SystemTime>,
}

impl ExactVectors {
    /// The vectors of a model below `cache`; nothing is read or made yet. `model` names what made them: another model has
    /// other ones.
    pub fn new(cache: &Path, collection: &Collection, model: &str) -> Self {
        let digest: String = Digest::of(model.as_bytes())
            .to_string()
            .chars()
            .take(12)
            .collect();
        let folder = cache
            .join(collection.as_str())
            .join(format!("vectors-{digest}"));
        Self {
            folder,
            most: MOST,
            state: Arc::default(),
        }
    }

    /// The same for at most so many vectors.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Works on what is held, off the threads that serve IO; it is read from the files where it is not held yet, or where
    /// `follow` says that what others changed counts.
    async fn with<T: Send + 'static>(
        &self,
        follow: bool,
        work: impl FnOnce(&mut Held) -> Result<T, MeaningError> + Send + 'static,
    ) -> Result<T, MeaningError> {
        let state = Arc::clone(&self.state);
        let folder = self.folder.clone();
        super::aside(move || {
            let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
            let is_new = state.is_none();
            let held = state.get_or_insert_default();
            if (is_new || follow)
                && let Err(error) = held.follow(&folder)
            {
                if is_new {
                    *state = None;
                }
                return Err(error);
            }
            work(held)
        })
        .await?
    }

    fn part_file(&self, doc: DocId) -> PathBuf {
        self.folder.join(PARTS).join(format!("{doc}.{ENDING}"))
    }

    fn file(&self, doc: DocId, version: u64) -> PathBuf {
        self.folder.join(format!("{doc}-{version:012}.{ENDING}"))
    }
}

#[async_trait]
impl Vectors for ExactVectors {
    async fn held(&self) -> Result<HashMap<DocId, u64>, MeaningError> {
        self.with(true, |held| Ok(held.versions.clone())).await
    }

    async fn count(&self) -> Result<usize, MeaningError> {
        self.with(true, |held| Ok(held.rows.len())).await
    }

    async fn of(&self, doc: DocId) -> Result<Vec<Row>, MeaningError> {
        self.with(false, move |held| Ok(held.of(doc))).await
    }

    async fn put(&self, doc: DocId, version: u64, rows: Vec<Row>) -> Result<(), MeaningError> {
        let most = self.most;
        let path = self.file(doc, version);
        let folder = self.folder.clone();
        let part = self.part_file(doc);
        self.with(false, move |held| {
            let new = rows.first().map_or(held.dimensions, |row| row.vector.len());
            let others = held.rows.iter().filter(|(other, ..)| *other != doc).count();
            if others > 0 && new != held.dimensions
                || rows.iter().any(|row| row.vector.len() != new)
            {
                return Err(MeaningError::Dimensions {
                    kept: held.dimensions,
                    new,
                });
            }
            if others + rows.len() > most {
                return Err(MeaningError::TooMany {
                    vectors: others + rows.len(),
                    most,
                });
            }
            write(&path, &encoded(new, &rows))?;
            let before = held
                .versions
                .get(&doc)
                .copied()
                .filter(|before| *before != version);
            held.forget(doc);
            held.add(doc, version, new, &rows);
            // The newer one counts already; what is left of the older one is removed at the next reading, too.
            if let Some(before) = before {
                remove(&folder.join(format!("{doc}-{before:012}.{ENDING}")))?;
            }
            remove(&part)
        })
        .await
    }

    async fn keep_part(&self, doc: DocId, rows: Vec<Row>) -> Result<(), MeaningError> {
        let path = self.part_file(doc);
        super::aside(move || {
            write(
                &path,
                &encoded(rows.first().map_or(0, |row| row.vector.len()), &rows),
            )
        })
        .await?
    }

    async fn part(&self, doc: DocId) -> Result<Vec<Row>, MeaningError> {
        let path = self.part_file(doc);
        super::aside(move || match fs::read(&path) {
            Ok(bytes) => Ok(decoded(&bytes).map(|(_, rows)| rows).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(disk(&path)(error).into()),
        })
        .await?
    }

    async fn parts(&self) -> Result<Vec<DocId>, MeaningError> {
        let folder = self.folder.join(PARTS);
        super::aside(move || {
            Ok(listed(&folder)?
                .into_iter()
                .filter(|path| path.extension().is_some())
                .filter_map(|path: PathBuf| path.file_stem()?.to_str()?.parse().ok())
                .collect())
        })
        .await?
    }

    async fn lock(&self) -> Result<Option<Lock>, MeaningError> {
        let folder = self.folder.join(PARTS);
        super::aside(move || {
            fs::create_dir_all(&folder).map_err(disk(&folder))?;
            let name = folder.join("lock");
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&name)
                .map_err(disk(&name))?;
            match file.try_lock() {
                Ok(()) => Ok(Some(Box::new(file) as Lock)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(disk(&name)(error).into()),
            }
        })
        .await?
    }

    async fn remove(&self, doc: DocId) -> Result<(), MeaningError> {
        let folder = self.folder.clone();
        let part = self.part_file(doc);
        self.with(false, move |held| {
            if let Some(version) = held.versions.get(&doc) {
                remove(&folder.join(format!("{doc}-{version:012}.{ENDING}")))?;
            }
            held.forget(doc);
            remove(&part)
        })
        .await
    }

    async fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Near>, MeaningError> {
        let vector = vector.to_vec();
        let within = within.cloned();
        self.with(true, move |_| Ok(())).await?; // is read
        let state = Arc::clone(&self.state);
        // Comparing takes no one's turn: only readers.
        super::aside(move || {
            let state = state.read().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().map_or(Ok(Vec::new()), |held| {
                held.nearest(&vector, within.as_ref(), most)
            })
        })
        .await?
    }
}

impl Held {
    /// Brings what is held up to the files of the folder; of two versions of a document the newer one counts.
    fn follow(&mut self, folder: &Path) -> Result<(), MeaningError> {
        // The time is read first: what is written while the folder is read is read again.
        let changed = match fs::metadata(folder).and_then(|folder| folder.modified()) {
            Ok(changed) => changed,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                *self = Self::default();
                return Ok(());
            }
            Err(error) => return Err(disk(folder)(error).into()),
        };
        if self.seen == Some(changed) {
            return Ok(());
        }
        let mut newest: HashMap<DocId, (u64, PathBuf)> = HashMap::new();
        for path in listed(folder)? {
            let Some((doc, version)) = named(&path) else {
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
        let mut found: Vec<(DocId, (u64, PathBuf))> = newest.into_iter().collect();
        found.retain(|(doc, (version, _))| self.versions.get(doc) != Some(version));
        found.sort_unstable();
        for (doc, (version, path)) in found {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                // A newer version took its place meanwhile: the folder has another time by then.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(disk(&path)(error).into()),
            };
            self.forget(doc);
            match decoded(&bytes) {
                Some((dimensions, rows))
                    if self.rows.is_empty() || self.dimensions == dimensions || rows.is_empty() =>
                {
                    self.add(doc, version, dimensions, &rows);
                }
                _ => {
                    tracing::warn!(file = %path.display(), "vectors that cannot be read are made again");
                    remove(&path)?;
                }
            }
        }
        let settled = SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > STEP);
        self.seen = settled.then_some(changed);
        Ok(())
    }

    fn add(&mut self, doc: DocId, version: u64, dimensions: usize, rows: &[Row]) {
        if !rows.is_empty() {
            self.dimensions = dimensions;
        }
        self.versions.insert(doc, version);
        for row in rows {
            self.rows.push((doc, row.section, row.digest));
            self.numbers.extend_from_slice(&row.vector);
        }
    }

    fn forget(&mut self, doc: DocId) {
        let dimensions = self.dimensions;
        if self.versions.remove(&doc).is_none() || dimensions == 0 {
            return;
        }
        // The rows of a document stand together.
        if let Some(first) = self.rows.iter().position(|(other, ..)| *other == doc) {
            let count = self.rows[first..]
                .iter()
                .take_while(|(other, ..)| *other == doc)
                .count();
            self.rows.drain(first..first + count);
            self.numbers
                .drain(first * dimensions..(first + count) * dimensions);
        }
    }

    fn of(&self, doc: DocId) -> Vec<Row> {
        let of_doc = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, (other, ..))| *other == doc);
        of_doc
            .map(
                |(at, (_, section, digest)): (usize, &(DocId, SectionId, u64))| {
                    let vector =
                        self.numbers[at * self.dimensions..(at + 1) * self.dimensions].to_vec();
                    Row {
                        section: *section,
                        digest: *digest,
                        vector,
                    }
                },
            )
            .collect()
    }

    fn nearest(
        &self,
        vector: &[f32],
        within: Option<&HashSet<DocId>>,
        most: usize,
    ) -> Result<Vec<Near>, MeaningError> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        if vector.len() != self.dimensions {
            return Err(MeaningError::Dimensions {
                kept: self.dimensions,
                new: vector.len(),
            });
        }
        let place = |at: usize| (self.rows[at].0, self.rows[at].1);
        let parts: Vec<(usize, &[f32])> = self
            .numbers
            .chunks(PART * self.dimensions)
            .enumerate()
            .collect();
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(parts.len());
        let mut found: Vec<(usize, f32)> = std::thread::scope(|scope| {
            let working: Vec<_> = (0..threads)
                .map(|thread: usize| {
                    let mine: Vec<_> = parts
                        .iter()
                        .copied()
                        .skip(thread)
                        .step_by(threads)
                        .collect();
                    scope.spawn(move || {
                        mine.into_iter()
                            .flat_map(|(number, numbers): (usize, &[f32])| {
                                let found = nearest::best(
                                    numbers,
                                    vector,
                                    most,
                                    |at: usize| {
                                        within.is_none_or(|docs| {
                                            docs.contains(&self.rows[number * PART + at].0)
                                        })
                                    },
                                    |at: usize| place(number * PART + at),
                                );
                                found
                                    .into_iter()
                                    .map(|(at, score)| (number * PART + at, score))
                                    .collect::<Vec<_>>()
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
        found.sort_unstable_by(|a, b| {
            b.1.total_cmp(&a.1)
                .then_with(|| place(a.0).cmp(&place(b.0)))
        });
        found.truncate(most);
        Ok(found
            .into_iter()
            .map(|(at, score): (usize, f32)| Near {
                doc: self.rows[at].0,
                section: self.rows[at].1,
                score,
            })
            .collect())
    }
}

/// Document and version of a file.
fn named(path: &Path) -> Option<(DocId, u64)> {
    let stem = path
        .file_name()?
        .to_str()?
        .strip_suffix(ENDING)?
        .strip_suffix('.')?;
    let (doc, version) = stem.rsplit_once('-')?;
    Some((doc.parse().ok()?, version.parse().ok()?))
}

/// Magic, numbers of a vector, rows; section and digest of each row; all vectors. Little-endian.
fn encoded(dimensions: usize, rows: &[Row]) -> Vec<u8> {
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

/// What [`encoded`] wrote; `None` for anything else.
fn decoded(bytes: &[u8]) -> Option<(usize, Vec<Row>)> {
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
    let number = |four: &[u8]| four.try_into().map(f32::from_le_bytes).unwrap_or_default();
    let rows: Option<Vec<Row>> = (0..count)
        .map(|at: usize| {
            let (section, digest) = heads
                .get(at * 12..(at + 1) * 12)?
                .split_first_chunk::<4>()?;
            let vector: Vec<f32> = numbers
                .get(at * 4 * dimensions..(at + 1) * 4 * dimensions)?
                .chunks_exact(4)
                .map(number)
                .collect();
            let sound = vector.iter().all(|number| number.is_finite());
            let digest = u64::from_le_bytes(digest.try_into().ok()?);
            sound.then_some(Row {
                section: SectionId(u32::from_le_bytes(*section)),
                digest,
                vector,
            })
        })
        .collect();
    Some((dimensions, rows?))
}

/// The files of a folder; none where there is no folder.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, MeaningError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(disk(folder)(error).into()),
    };
    entries
        .map(|entry| Ok(entry.map_err(disk(folder))?.path()))
        .collect()
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), MeaningError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(disk(folder))?;
    }
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).map_err(disk(&beside))?;
    fs::rename(&beside, path).map_err(disk(path))?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), MeaningError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(disk(path)(error).into()),
        _ => Ok(()),
    }
}

fn disk(path: &Path) -> impl Fn(std::io::Error) -> PortError {
    let path = path.display().to_string();
    move |error| PortError::lasting("vectors", "file", format!("{path}: {error}"))
}
