//! What was answered or read lately, kept for a while: bounded in bytes and in time, the least lately used goes first.
//!
//! An entry never says that it is out of date: what can change stands in the key (a commit of the index, a version of a
//! tree), so that the newer state asks under another key and the old one is forgotten in time.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stemma_engine::env::Millis;

/// Counted for each entry beside its value, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// A cache of values that are cheap to clone.
pub struct Cache<K, V> {
    max_bytes: usize,
    max_age_ms: Millis,
    lru: Mutex<LruList<K, V>>,
}

struct LruList<K, V> {
    entries: HashMap<K, LruEntry<V>>,
    /// Keys by when they were used last.
    by_last_use: BTreeMap<u64, K>,
    clock: u64,
    bytes: usize,
    hits: u64,
    misses: u64,
}

struct LruEntry<V> {
    value: V,
    bytes: usize,
    created_ms: Millis,
    last_used: u64,
}

/// How a cache is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStats {
    /// Values held.
    pub entries: usize,
    /// Their size in bytes, as stated when they were put.
    pub bytes: usize,
    /// Questions answered since the start.
    pub hits: u64,
    /// Questions not answered since the start.
    pub misses: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// An empty cache of at most `max_bytes`, values at most `max_age_ms` old.
    pub fn new(max_bytes: usize, max_age_ms: Millis) -> Self {
        let lru = LruList {
            entries: HashMap::new(),
            by_last_use: BTreeMap::new(),
            clock: 0,
            bytes: 0,
            hits: 0,
            misses: 0,
        };
        Self {
            max_bytes,
            max_age_ms,
            lru: Mutex::new(lru),
        }
    }

    /// The value of `key`, if it is held and young enough.
    pub fn get(&self, key: &K, now_ms: Millis) -> Option<V> {
        let mut lru = self.lru();
        match lru.entries.get(key) {
            Some(entry) if entry.created_ms + self.max_age_ms > now_ms => {
                let value = entry.value.clone();
                lru.touch(key);
                lru.hits += 1;
                Some(value)
            }
            found => {
                if found.is_some() {
                    lru.remove(key);
                }
                lru.misses += 1;
                None
            }
        }
    }

    /// Keeps a value of `bytes`; one that is larger than an eighth of the cache is not kept: it would push out the rest.
    pub fn put(&self, key: K, value: V, bytes: usize, now_ms: Millis) {
        let bytes = bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        if bytes > self.max_bytes / 8 {
            return;
        }
        let mut lru = self.lru();
        lru.remove(&key);
        while lru.bytes + bytes > self.max_bytes {
            let Some((_, oldest)) = lru.by_last_use.pop_first() else {
                break;
            };
            lru.remove(&oldest);
        }
        lru.clock += 1;
        let used = lru.clock;
        lru.by_last_use.insert(used, key.clone());
        lru.bytes += bytes;
        lru.entries.insert(
            key,
            LruEntry {
                value,
                bytes,
                created_ms: now_ms,
                last_used: used,
            },
        );
    }

    /// How it is doing.
    pub fn stats(&self) -> CacheStats {
        let lru = self.lru();
        CacheStats {
            entries: lru.entries.len(),
            bytes: lru.bytes,
            hits: lru.hits,
            misses: lru.misses,
        }
    }

    fn lru(&self) -> MutexGuard<'_, LruList<K, V>> {
        self.lru.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone, V> LruList<K, V> {
    fn touch(&mut self, key: &K) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(entry) = self.entries.get_mut(key) {
            self.by_last_use.remove(&entry.last_used);
            entry.last_used = clock;
            self.by_last_use.insert(clock, key.clone());
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_last_use.remove(&entry.last_used);
            self.bytes -= entry.bytes;
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
        assert_eq!((cache.stats().entries, cache.stats().bytes), (10, 10_000));
        assert_eq!(cache.get(&0, 1), Some(0));
        cache.put(10, 10, LARGE, 1);
        assert_eq!(
            (cache.get(&0, 2), cache.get(&1, 2), cache.get(&10, 2)),
            (Some(0), None, Some(10))
        );
        // What is put again takes its own place only, and what is far too large none.
        cache.put(10, 11, 10, 2);
        cache.put(99, 99, 2_000, 2);
        assert_eq!((cache.get(&10, 2), cache.get(&99, 2)), (Some(11), None));
        assert_eq!(
            cache.stats(),
            CacheStats {
                entries: 10,
                bytes: 9_138,
                hits: 4,
                misses: 2
            }
        );
    }

    #[test]
    fn expired_entries_are_dropped() {
        let cache = Cache::new(10_000, 1_000);
        cache.put("a", 1, 10, 5_000);
        assert_eq!(
            (cache.get(&"a", 5_999), cache.get(&"a", 6_000)),
            (Some(1), None)
        );
        assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
    }
}
