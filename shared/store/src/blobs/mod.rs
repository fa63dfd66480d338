//! The object storage port: immutable objects under path-like keys. The source of truth (I-1).
//!
//! Every adapter guarantees: `put` is create-only and atomic, and whoever loses the race reads the winner's object
//! (I-2); reads see preceding writes; listings are in byte order of keys. No adapter can overwrite.

mod folder;
mod memory;
mod open_folder;

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use folder::FolderBlobs;
pub use memory::MemoryBlobs;

use crate::port_error::{PortError, PortResult};

/// Result of a create-only write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    Created,
    /// An object existed already; ours was discarded.
    Exists,
}

/// Object storage. Keys are `/`-separated segments of `A-Z a-z 0-9 - _ . ~ =`, none of them empty, `.` or `..`, at most
/// 512 bytes in total. Other keys fail with a permanent [`PortError`], so no key can become a path outside the store.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Writes an object unless it exists.
    ///
    /// # Errors
    /// [`PortError`]; the object may have been written all the same.
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome>;

    /// Reads an object; `None` if it does not exist.
    async fn get(&self, key: &str) -> PortResult<Option<Bytes>>;

    /// Reads bytes `range` of an object, clipped to its size; `None` if it does not exist.
    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>>;

    /// Size in bytes; `None` if the object does not exist.
    async fn size(&self, key: &str) -> PortResult<Option<u64>>;

    /// Keys that start with `prefix` and sort after `after`, in byte order, at most `limit`. `prefix` ends with `/` or
    /// is empty.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>>;

    /// The distinct next segments below `prefix` that sort after `after`, in byte order, at most `limit`: names of
    /// objects, and names of deeper prefixes with a trailing `/`.
    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>>;

    /// Removes an object; succeeds if it does not exist. For garbage collection, and to replace caches.
    async fn delete(&self, key: &str) -> PortResult<()>;

    /// Returns once all preceding writes survive a power loss. Called once before each publication.
    ///
    /// # Errors
    /// [`PortError`] when the store cannot guarantee that.
    async fn barrier(&self) -> PortResult<()>;
}

/// Reads a whole listing, page by page.
pub async fn list_all(blobs: &dyn Blobs, prefix: &str) -> PortResult<Vec<String>> {
    list_range(blobs, prefix, None, None).await
}

/// Reads the part of a listing that sorts after `after` and before `end`, page by page.
pub async fn list_range(
    blobs: &dyn Blobs,
    prefix: &str,
    after: Option<&str>,
    end: Option<&str>,
) -> PortResult<Vec<String>> {
    const PAGE: usize = 1_000;
    let mut keys: Vec<String> = Vec::new();
    loop {
        let page = blobs
            .list(prefix, keys.last().map(String::as_str).or(after), PAGE)
            .await?;
        let inside = page.partition_point(|key| end.is_none_or(|end| key.as_str() < end));
        keys.extend(page.into_iter().take(inside));
        if inside < PAGE {
            return Ok(keys);
        }
    }
}

/// Writes a value as JSON, create-only.
///
/// # Errors
/// As [`Blobs::put`]; permanent when the value cannot be encoded.
pub async fn put_json(
    blobs: &dyn Blobs,
    key: &str,
    value: &(impl Serialize + Sync + ?Sized),
) -> PortResult<PutOutcome> {
    let json = serde_json::to_vec(value).map_err(|error| {
        PortError::permanent("blobs.put", format!("{key} cannot be written: {error}"))
    })?;
    blobs.put(key, json.into()).await
}

/// Reads a JSON object; `None` if it does not exist.
///
/// # Errors
/// As [`Blobs::get`]; permanent when the object cannot be decoded.
pub async fn get_json<T: DeserializeOwned>(blobs: &dyn Blobs, key: &str) -> PortResult<Option<T>> {
    let Some(json) = blobs.get(key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&json).map(Some).map_err(|error| {
        PortError::permanent("blobs.get", format!("{key} cannot be read: {error}"))
    })
}

/// Whether `key` can be the key of an object, for adapters.
///
/// # Errors
/// A permanent [`PortError`] when it cannot.
pub fn check_key(key: &str) -> PortResult<()> {
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
            "blobs.key",
            format!("`{}` is not a blob key", excerpt.escape_debug()),
        ))
    }
}

/// Whether objects can be listed below `prefix`: it ends at a segment boundary, and stays inside the store.
///
/// # Errors
/// As [`check_key`].
pub fn check_prefix(prefix: &str) -> PortResult<()> {
    match prefix.strip_suffix('/') {
        Some(folder) => check_key(folder),
        None if prefix.is_empty() => Ok(()),
        None => Err(PortError::permanent(
            "blobs.prefix",
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
