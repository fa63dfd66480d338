//! Stored form of a reading: `version (1 byte) · for lines and tables each: size before compression, size of the frame (u32,
//! little-endian) · frame of the lines · frame of the tables`. The lines are postcard, the tables JSON.

use stemma_document::packed::{PackedError, pack, unpack};

use super::{DocumentReading, LineReadings};
use crate::tables::FigureTable;

// Increment when the layout or the content types change.
const VERSION: u8 = 2;
// Larger readings are rejected.
const MAX_RAW_BYTES: u32 = 1 << 30;
const HEAD_BYTES: usize = 17;

/// Invalid stored reading. The input comes from stores and child processes and is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadingCodecError {
    #[error("the stored reading has version {0}, this program reads version {VERSION}")]
    Version(u8),
    /// Truncated, altered, or larger than declared.
    #[error("the stored reading is damaged: {0}")]
    Damaged(&'static str),
}

impl From<PackedError> for ReadingCodecError {
    fn from(PackedError(reason): PackedError) -> Self {
        Self::Damaged(reason)
    }
}

/// Sizes of a stored reading before compression.
#[derive(Debug, Clone, Copy)]
pub struct ReadingSizes {
    pub lines: usize,
    pub tables: usize,
}

struct Frames<'a> {
    raw_sizes: [u32; 2],
    lines: &'a [u8],
    tables: &'a [u8],
}

impl<'a> Frames<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, ReadingCodecError> {
        let cut_short = ReadingCodecError::Damaged("it is cut short");
        let version = *bytes.first().ok_or(cut_short.clone())?;
        if version != VERSION {
            return Err(ReadingCodecError::Version(version));
        }
        let (head, frames) = bytes
            .split_at_checked(HEAD_BYTES)
            .ok_or(cut_short.clone())?;
        let mut sizes = [0; 4];
        for (size, bytes) in sizes.iter_mut().zip(head[1..].as_chunks::<4>().0) {
            *size = u32::from_le_bytes(*bytes);
        }
        let [raw_lines, lines, raw_tables, tables] = sizes;
        let (lines, rest) = frames
            .split_at_checked(lines as usize)
            .filter(|(_, rest)| rest.len() == tables as usize)
            .ok_or(cut_short)?;
        Ok(Self {
            raw_sizes: [raw_lines, raw_tables],
            lines,
            tables: rest,
        })
    }
}

impl DocumentReading {
    /// Encodes a reading.
    ///
    /// # Errors
    /// [`ReadingCodecError::Damaged`] for a reading over 1 GiB.
    pub fn encode(&self) -> Result<Vec<u8>, ReadingCodecError> {
        let not_encoded = ReadingCodecError::Damaged("it cannot be encoded");
        let lines = postcard::to_stdvec(&self.lines).map_err(|_| not_encoded.clone())?;
        let tables = serde_json::to_vec(&self.tables).map_err(|_| not_encoded)?;
        let mut bytes = vec![VERSION];
        let mut frames = Vec::new();
        for raw in [lines, tables] {
            let frame = pack(&raw, MAX_RAW_BYTES)?;
            for size in [raw.len(), frame.len()] {
                let size = u32::try_from(size).map_err(|_| PackedError("it is too large"))?;
                bytes.extend(size.to_le_bytes());
            }
            frames.extend(frame);
        }
        bytes.extend(frames);
        Ok(bytes)
    }

    /// The sizes of a stored reading in memory, about.
    ///
    /// # Errors
    /// [`ReadingCodecError`].
    pub fn raw_sizes(bytes: &[u8]) -> Result<ReadingSizes, ReadingCodecError> {
        let [lines, tables] = Frames::split(bytes)?.raw_sizes;
        Ok(ReadingSizes {
            lines: lines as usize,
            tables: tables as usize,
        })
    }

    /// Decodes the lines of a stored reading.
    ///
    /// # Errors
    /// [`ReadingCodecError`].
    pub fn decode_lines(bytes: &[u8]) -> Result<LineReadings, ReadingCodecError> {
        let frames = Frames::split(bytes)?;
        let raw = unpack(frames.lines, frames.raw_sizes[0].min(MAX_RAW_BYTES))?;
        match postcard::take_from_bytes(&raw) {
            Ok((lines, [])) => Ok(lines),
            _ => Err(ReadingCodecError::Damaged(
                "its lines have the wrong content",
            )),
        }
    }

    /// Decodes the tables of a stored reading.
    ///
    /// # Errors
    /// [`ReadingCodecError`].
    pub fn decode_tables(bytes: &[u8]) -> Result<Vec<FigureTable>, ReadingCodecError> {
        let frames = Frames::split(bytes)?;
        let raw = unpack(frames.tables, frames.raw_sizes[1].min(MAX_RAW_BYTES))?;
        serde_json::from_slice(&raw)
            .map_err(|_| ReadingCodecError::Damaged("its tables have the wrong content"))
    }
}
