//! The port to object storage: immutable objects under path-like keys. The truth (I-1).
//!
//! What every adapter promises: `put` is create-only and atomic, whoever loses the race reads the winner (I-2); a read
//! after a successful write sees it; listings are in byte order of keys. What none offers: overwriting.

mod folder;
mod memory;
mod s3;

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

pub use folder::FolderBlobs;
pub use memory::MemoryBlobs;
pub use s3::S3Blobs;

use crate::port_error::PortError;

/// Whether a create-only write created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object is ours.
    Created,
    /// There was one already; ours was discarded.
    Exists,
}

/// Object storage. Keys are `/`-separated, of `A-Z a-z 0-9 - _ . ~ =`, without empty, `.` or `..` segments, at most
/// 512 bytes; anything else is refused with a lasting [`PortError`], so that no name becomes a path outside the store.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Writes an object unless one exists.
    ///
    /// # Errors
    /// [`PortError`]; the object may exist all the same.
    async fn put(&self, key: &str, bytes: Bytes) -> Result<PutOutcome, PortError>;

    /// Reads an object; `None` when there is none.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, PortError>;

    /// Reads bytes `range` of an object, cut at its end; `None` when there is no object.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, PortError>;

    /// The size in bytes; `None` when there is no object.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    async fn size(&self, key: &str) -> Result<Option<u64>, PortError>;

    /// Keys that start with `prefix` and sort after `after`, in byte order, at most `limit`. `prefix` ends at a
    /// segment border (`…/`) or is empty.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, PortError>;

    /// The distinct next segments below `prefix` (`…/`) that sort after `after`, in byte order, at most `limit`:
    /// names of objects, and names of deeper prefixes with a trailing `/`.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, PortError>;

    /// Removes an object; fine when there is none. Called by garbage collection, and where a torn answer, which is a cache, is put
    /// anew.
    ///
    /// # Errors
    /// [`PortError`] when the store could not.
    async fn delete(&self, key: &str) -> Result<(), PortError>;

    /// Returns once everything written before survives a power loss. Called once before each publication.
    ///
    /// # Errors
    /// [`PortError`] when the store could not promise it.
    async fn barrier(&self) -> Result<(), PortError>;
}

/// Reads a whole listing, page by page.
///
/// # Errors
/// As [`Blobs::list`].
pub async fn list_all(blobs: &dyn Blobs, prefix: &str) -> Result<Vec<String>, PortError> {
    const PAGE: usize = 1_000;
    let mut keys: Vec<String> = Vec::new();
    loop {
        let page = blobs
            .list(prefix, keys.last().map(String::as_str), PAGE)
            .await?;
        let last_page = page.len() < PAGE;
        keys.extend(page);
        if last_page {
            return Ok(keys);
        }
    }
}

/// Refuses keys that are not keys.
fn check_key(key: &str) -> Result<(), PortError> {
    if key.len() <= 512
        && key.split('/').all(|s: &str| {
            !s.is_empty()
                && s != "."
                && s != ".."
                && s.len() <= 255
                && s.bytes().all(|b: u8| {
                    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b'=')
                })
        })
    {
        Ok(())
    } else {
        let excerpt: String = key.chars().take(80).collect();
        Err(PortError::permanent(
            "blobs",
            "key",
            format!("`{}` is not a blob key", excerpt.escape_debug()),
        ))
    }
}

/// Refuses prefixes that do not end at a segment border, or would leave the store.
fn check_prefix(prefix: &str) -> Result<(), PortError> {
    match prefix.strip_suffix('/') {
        Some(folder) => check_key(folder),
        None if prefix.is_empty() => Ok(()),
        None => Err(PortError::permanent(
            "blobs",
            "prefix",
            "a prefix ends with `/`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_outside_the_store_are_rejected() {
        for bad in [
            "",
            "/",
            "a//b",
            "../x",
            "a/../b",
            "a/.",
            "/etc",
            "a/",
            "a\0b",
            "a b",
            "é",
            &"x".repeat(300),
        ] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
        assert!(check_key("c/default/d/00ff/a/k.json").is_ok());
    }
}
