//! Cache bounded in bytes and age, with LRU eviction.
//!
//! Keys contain all that a value depends on, such as the number of an index commit or the version of a tree. So an entry
//! never becomes wrong: changed state has another key, and old entries age out.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;
use parking_lot::Mutex;

use crate::env::Millis;

// Counted for each entry in addition to its value.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// A cache of values that are cheap to clone.
pub struct Cache<K, V> {
    max_bytes: usize,
    max_entry_bytes: usize,
    max_age_ms: Millis,
    entries: Mutex<Entries<K, V>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Entries<K, V> {
    by_use: LruCache<K, CacheEntry<V>>,
    bytes: usize,
}

struct CacheEntry<V> {
    value: V,
    bytes: usize,
    created_ms: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStats {
    pub entries: u64,
    /// As stated by [`Cache::put`], with an overhead for each entry.
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq,
    V: Clone,
{
    /// An empty cache of at most `max_bytes`; values expire after `max_age_ms`. An entry has at most an eighth of it: a larger
    /// one would evict too many others.
    pub fn new(max_bytes: usize, max_age_ms: Millis) -> Self {
        let entries = Entries {
            by_use: LruCache::unbounded(),
            bytes: 0,
        };
        Self {
            max_bytes,
            max_entry_bytes: max_bytes / 8,
            max_age_ms,
            entries: Mutex::new(entries),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Allows entries of up to `bytes`.
    #[must_use]
    pub fn with_max_entry_bytes(mut self, bytes: usize) -> Self {
        self.max_entry_bytes = bytes;
        self
    }

    /// The cached value, unless it has expired.
    pub fn get(&self, key: &K, now_ms: Millis) -> Option<V> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.by_use.get(key) {
            if entry.created_ms + self.max_age_ms > now_ms {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Some(entry.value.clone());
            }
            let expired = entries.by_use.pop(key);
            entries.release(expired.as_ref());
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Caches a value of `bytes`, and says whether it did: not if it is larger than an entry may be.
    pub fn put(&self, key: K, value: V, bytes: usize, now_ms: Millis) -> bool {
        let bytes = bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        if bytes > self.max_entry_bytes {
            return false;
        }
        let entry = CacheEntry {
            value,
            bytes,
            created_ms: now_ms,
        };
        // Dropped after the lock: a value may be a large tree.
        let mut dropped = Vec::new();
        let mut entries = self.entries.lock();
        entries.bytes += bytes;
        let replaced = entries.by_use.put(key, entry);
        entries.release(replaced.as_ref());
        dropped.extend(replaced);
        while let Some((_, oldest)) = entries.by_use.peek_lru()
            && (entries.bytes > self.max_bytes || oldest.created_ms + self.max_age_ms <= now_ms)
        {
            let evicted = entries.by_use.pop_lru().map(|(_, entry)| entry);
            entries.release(evicted.as_ref());
            dropped.extend(evicted);
        }
        drop(entries);
        true
    }

    pub fn stats(&self) -> CacheStats {
        let entries = self.entries.lock();
        CacheStats {
            entries: entries.by_use.len() as u64,
            bytes: entries.bytes as u64,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

impl<K, V> Entries<K, V> {
    fn release(&mut self, entry: Option<&CacheEntry<V>>) {
        self.bytes -= entry.map_or(0, |entry| entry.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 1_000 - ENTRY_OVERHEAD_BYTES;

    #[test]
    fn least_recently_used_is_evicted_and_bytes_are_bounded() {
        let cache = Cache::new(10_000, 1_000);
        for key in 0..10 {
            cache.put(key, key, LARGE, 0);
        }
        assert_eq!(cache.stats().entries, 10);
        assert_eq!(cache.stats().bytes, 10_000);
        assert_eq!(cache.get(&0, 1), Some(0));
        cache.put(10, 10, LARGE, 1);
        assert_eq!(cache.stats().bytes, 10_000);
        assert_eq!(cache.get(&0, 2), Some(0));
        assert_eq!(cache.get(&1, 2), None);
        assert_eq!(cache.get(&10, 2), Some(10));
        // A replaced value is counted once, and a value that is too large is not cached.
        assert!(cache.put(10, 11, 10, 2));
        assert!(!cache.put(99, 99, 2_000, 2));
        assert_eq!(cache.get(&10, 2), Some(11));
        assert_eq!(cache.get(&99, 2), None);
        let stats = CacheStats {
            entries: 10,
            bytes: 9_138,
            hits: 4,
            misses: 2,
        };
        assert_eq!(cache.stats(), stats);
    }

    #[test]
    fn expired_entries_are_dropped() {
        let cache = Cache::new(10_000, 1_000);
        cache.put("a", 1, 10, 5_000);
        assert_eq!(cache.get(&"a", 5_999), Some(1));
        assert_eq!(cache.get(&"a", 6_000), None);
        assert_eq!(cache.stats().entries, 0);
        assert_eq!(cache.stats().bytes, 0);
    }
}
