//! Stored values: bytes in a zstd frame. A reader declares how large they may become, because stores and child processes are not
//! trusted.

use std::io::Read;

// Initial allocation: memory grows with the actual content, not with the declared size.
const MAX_RESERVE_BYTES: u32 = 16 << 20;

/// A frame that cannot be written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PackedError(pub &'static str);

/// Compresses at most `limit` bytes.
///
/// # Errors
/// [`PackedError`] for more bytes.
pub fn pack(raw: &[u8], limit: u32) -> Result<Vec<u8>, PackedError> {
    if raw.len() > limit as usize {
        return Err(PackedError("it is too large"));
    }
    zstd::bulk::compress(raw, 3).map_err(|_| PackedError("it cannot be compressed"))
}

/// Decompresses a frame of at most `limit` bytes.
///
/// # Errors
/// [`PackedError`] for a damaged or larger one.
pub fn unpack(frame: &[u8], limit: u32) -> Result<Vec<u8>, PackedError> {
    let mut raw = Vec::with_capacity(limit.min(MAX_RESERVE_BYTES) as usize);
    zstd::stream::read::Decoder::with_buffer(frame)
        .and_then(|decoder| {
            decoder
                .single_frame()
                .take(u64::from(limit) + 1)
                .read_to_end(&mut raw)
        })
        .map_err(|_| PackedError("it cannot be unpacked"))?;
    if raw.len() > limit as usize {
        return Err(PackedError("it is larger than declared"));
    }
    Ok(raw)
}
