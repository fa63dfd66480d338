//! The vectors of a collection in memory: loaded from files, and searched one by one.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stemma_document::{DocId, SectionId};

use super::EmbeddingError;
use super::knn;
use super::vector_file::{SectionVector, decode, disk_error, list_files, parse_file_name, remove};

// Rows that a thread compares at a time.
const ROWS_PER_THREAD: usize = 20_000;
// File systems round modification times. A folder changed more recently than this may have changed again unnoticed.
const MTIME_GRANULARITY: Duration = Duration::from_millis(100);

/// A section near a query vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    pub doc: DocId,
    pub section: SectionId,
    /// Cosine similarity, -1 to 1.
    pub score: f32,
}

// All vectors in memory, grouped by document.
#[derive(Default)]
pub(super) struct FlatVectors {
    pub(super) dimensions: usize,
    values: Vec<f32>,
    pub(super) rows: Vec<(DocId, SectionId, u64)>,
    pub(super) versions: HashMap<DocId, u64>,
    // Modification time of the folder when it was read; `None` if it may have changed since.
    folder_mtime: Option<SystemTime>,
}

impl FlatVectors {
    // Loads the files of the folder. Of two versions of a document, the newer one counts.
    pub(super) fn refresh(&mut self, folder: &Path) -> Result<(), EmbeddingError> {
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

    pub(super) fn add(
        &mut self,
        doc: DocId,
        version: u64,
        dimensions: usize,
        rows: &[SectionVector],
    ) {
        if !rows.is_empty() {
            self.dimensions = dimensions;
        }
        self.versions.insert(doc, version);
        for row in rows {
            self.rows.push((doc, row.section, row.digest));
            self.values.extend_from_slice(&row.vector);
        }
    }

    pub(super) fn forget(&mut self, doc: DocId) {
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

    pub(super) fn document_vectors(&self, doc: DocId) -> Vec<SectionVector> {
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

    pub(super) fn nearest(
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
