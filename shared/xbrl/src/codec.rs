//! Stored form of a [`FactTable`]: `version (1 byte) · length of the postcard (u32, little-endian) · postcard in zstd`.
//! Equal tables give equal bytes.

use stemma_document::packed::{PackedError, pack, unpack};

use crate::FactTable;

// Increment when the layout or the content types change.
const VERSION: u8 = 1;
// A table of the largest file that is read (512 MiB) is smaller; larger ones are rejected.
const MAX_RAW_BYTES: u32 = 1 << 30;

/// Invalid stored facts. The input comes from stores and child processes and is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsCodecError {
    #[error("the stored facts have version {0}, this program reads version {VERSION}")]
    Version(u8),
    /// Truncated, altered, or larger than declared.
    #[error("the stored facts are damaged: {0}")]
    Damaged(&'static str),
}

impl From<PackedError> for FactsCodecError {
    fn from(PackedError(reason): PackedError) -> Self {
        Self::Damaged(reason)
    }
}

/// Encodes a table.
///
/// # Errors
/// [`FactsCodecError::Damaged`] for a table over 1 GiB, which the bounds of the reader prevent.
pub fn encode_facts(table: &FactTable) -> Result<Vec<u8>, FactsCodecError> {
    let raw =
        postcard::to_stdvec(table).map_err(|_| FactsCodecError::Damaged("it cannot be encoded"))?;
    let packed = pack(&raw, MAX_RAW_BYTES)?;
    // The limit fits.
    let raw_bytes = u32::try_from(raw.len()).unwrap_or(MAX_RAW_BYTES);
    Ok([&[VERSION][..], &raw_bytes.to_le_bytes(), &packed].concat())
}

/// The size of an encoded table before compression.
///
/// # Errors
/// [`FactsCodecError`].
pub fn raw_facts_bytes(bytes: &[u8]) -> Result<usize, FactsCodecError> {
    let (size, _) = split_size(bytes)?;
    Ok(size as usize)
}

fn split_size(bytes: &[u8]) -> Result<(u32, &[u8]), FactsCodecError> {
    let (version, rest) = bytes
        .split_first()
        .ok_or(FactsCodecError::Damaged("it is empty"))?;
    if *version != VERSION {
        return Err(FactsCodecError::Version(*version));
    }
    let (size, packed) = rest
        .split_first_chunk::<4>()
        .ok_or(FactsCodecError::Damaged("its head is cut short"))?;
    let size = u32::from_le_bytes(*size);
    if size > MAX_RAW_BYTES {
        return Err(FactsCodecError::Damaged("it is larger than allowed"));
    }
    Ok((size, packed))
}

/// Decodes a table and checks that its columns fit together.
///
/// # Errors
/// [`FactsCodecError`].
pub fn decode_facts(bytes: &[u8]) -> Result<FactTable, FactsCodecError> {
    let (size, packed) = split_size(bytes)?;
    let raw = unpack(packed, size)?;
    if raw.len() != size as usize {
        return Err(FactsCodecError::Damaged("its size is not the declared one"));
    }
    let table: FactTable = match postcard::take_from_bytes(&raw) {
        Ok((table, [])) => table,
        _ => return Err(FactsCodecError::Damaged("it has the wrong content")),
    };
    if table.is_consistent() {
        Ok(table)
    } else {
        Err(FactsCodecError::Damaged("its columns do not fit together"))
    }
}
