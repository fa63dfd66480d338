//! Cache bounded in bytes and age, with LRU eviction.
//!
//! Keys contain all that a value depends on, such as the number of an index commit or the version of a tree. So an entry
//! never becomes wrong: changed state has another key, and old entries age out.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync;
use stemma_store::env::Millis;

// Counted for each entry in addition to its value.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// A cache of values that are cheap to clone.
pub struct Cache<K, V> {
    max_entry_bytes: usize,
    max_age_ms: Millis,
    entries: sync::Cache<K, CacheEntry<V>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct CacheEntry<V> {
    value: V,
    bytes: u32,
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
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty cache of at most `max_bytes`; values expire after `max_age_ms`. An entry has at most an eighth of it: a larger
    /// one would evict too many others.
    pub fn new(max_bytes: usize, max_age_ms: Millis) -> Self {
        let entries = sync::Cache::builder()
            .max_capacity(max_bytes as u64)
            .weigher(|_, entry: &CacheEntry<V>| entry.bytes)
            // Frees memory. The age of a value is checked by the caller's clock, which tests simulate.
            .time_to_live(Duration::from_millis(max_age_ms))
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self {
            max_entry_bytes: max_bytes / 8,
            max_age_ms,
            entries,
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
        let entry = self.entries.get(key);
        if let Some(entry) = entry {
            if entry.created_ms + self.max_age_ms > now_ms {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Some(entry.value);
            }
            self.entries.invalidate(key);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Caches a value of `bytes`, and says whether it did: not if it is larger than an entry may be.
    pub fn put(&self, key: K, value: V, bytes: usize, now_ms: Millis) -> bool {
        let bytes = bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        let Ok(entry_bytes) = u32::try_from(bytes) else {
            return false;
        };
        if bytes > self.max_entry_bytes {
            return false;
        }
        let entry = CacheEntry {
            value,
            bytes: entry_bytes,
            created_ms: now_ms,
        };
        self.entries.insert(key, entry);
        true
    }

    pub fn stats(&self) -> CacheStats {
        // Counts are only exact after pending evictions.
        self.entries.run_pending_tasks();
        CacheStats {
            entries: self.entries.entry_count(),
            bytes: self.entries.weighted_size(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
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
