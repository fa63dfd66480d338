//! Files of vectors, one for each document.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stemma_document::{DocId, SectionId};
use stemma_store::PortError;

use super::EmbeddingError;

// File type and format version.
const MAGIC: &[u8; 8] = b"stvec\0\0\x01";
pub(super) const EXTENSION: &str = "vec";

/// The embedding of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionVector {
    pub section: SectionId,
    /// Digest of the embedded text. An equal text in a later version keeps its vector.
    pub digest: u64,
    /// Normalized to length 1.
    pub vector: Vec<f32>,
}

pub(super) fn parse_file_name(path: &Path) -> Option<(DocId, u64)> {
    let stem = path
        .file_name()?
        .to_str()?
        .strip_suffix(EXTENSION)?
        .strip_suffix('.')?;
    let (doc, version) = stem.rsplit_once('-')?;
    Some((doc.parse().ok()?, version.parse().ok()?))
}

// Layout, little-endian: magic, dimensions, number of rows; section id and digest of each row; all vectors.
pub(super) fn encode(dimensions: usize, rows: &[SectionVector]) -> Vec<u8> {
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
pub(super) fn decode(bytes: &[u8]) -> Option<(usize, Vec<SectionVector>)> {
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
pub(super) fn list_files(folder: &Path) -> Result<Vec<PathBuf>, EmbeddingError> {
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
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), EmbeddingError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(disk_error(folder))?;
    }
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes).map_err(disk_error(&temporary))?;
    fs::rename(&temporary, path).map_err(disk_error(path))?;
    Ok(())
}

pub(super) fn remove(path: &Path) -> Result<(), EmbeddingError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(disk_error(path)(error).into()),
        _ => Ok(()),
    }
}

pub(super) fn disk_error(path: &Path) -> impl Fn(std::io::Error) -> PortError {
    let path = path.display().to_string();
    move |error| PortError::permanent("vectors.file", format!("{path}: {error}"))
}
