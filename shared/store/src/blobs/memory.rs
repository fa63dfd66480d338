//! Blobs in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::{Blobs, PutOutcome, check_key, check_prefix};
use crate::port_error::PortResult;

/// Object storage in memory.
#[derive(Default)]
pub struct MemoryBlobs(Mutex<BTreeMap<String, Bytes>>);

impl MemoryBlobs {
    /// All objects in key order.
    pub fn snapshot(&self) -> BTreeMap<String, Bytes> {
        self.0.lock().clone()
    }

    /// Whether an object exists.
    pub fn has(&self, key: &str) -> bool {
        self.0.lock().contains_key(key)
    }
}

/// Start of a listing of `prefix` after `after`.
fn start<'a>(prefix: &'a str, after: Option<&'a str>) -> Bound<&'a str> {
    match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    }
}

fn clamp(at: u64, len: usize) -> usize {
    usize::try_from(at).unwrap_or(len).min(len)
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        check_key(key)?;
        let mut objects = self.0.lock();
        if objects.contains_key(key) {
            return Ok(PutOutcome::Exists);
        }
        objects.insert(key.into(), bytes);
        Ok(PutOutcome::Created)
    }

    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        Ok(self.0.lock().get(key).cloned())
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        Ok(self.0.lock().get(key).map(|bytes| {
            let end = clamp(range.end, bytes.len());
            bytes.slice(clamp(range.start, bytes.len()).min(end)..end)
        }))
    }

    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        check_key(key)?;
        Ok(self.0.lock().get(key).map(|bytes| bytes.len() as u64))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        let objects = self.0.lock();
        let keys = objects
            .range::<str, _>((start(prefix, after), Bound::Unbounded))
            .map(|(key, _)| key);
        Ok(keys
            .take_while(|key| key.starts_with(prefix))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        let objects = self.0.lock();
        let mut names: Vec<String> = Vec::new();
        for key in objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(key, _)| key)
        {
            let Some(rest) = key.strip_prefix(prefix) else {
                break;
            };
            let name = rest.split_inclusive('/').next().unwrap_or(rest);
            if after.is_some_and(|after| name <= after)
                || names.last().is_some_and(|last| last == name)
            {
                continue;
            }
            if names.len() == limit {
                break;
            }
            names.push(name.into());
        }
        Ok(names)
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        check_key(key)?;
        self.0.lock().remove(key);
        Ok(())
    }

    async fn barrier(&self) -> PortResult<()> {
        Ok(())
    }
}
