//! The indexed version of each document, in buckets that successive commits share.
//!
//! A commit of one document copies one bucket, and not the versions of a million documents.

use std::collections::HashMap;
use std::sync::Arc;

use stemma_document::DocId;

// Ids are digests, so their last bytes spread them evenly, also within a shard of the index, where first bytes are alike.
const BUCKETS: usize = 256;

type Bucket = Arc<HashMap<DocId, u64>>;

/// The indexed version of each document. Clones share their memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedVersions {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Default for IndexedVersions {
    fn default() -> Self {
        Self {
            buckets: vec![Bucket::default(); BUCKETS],
            len: 0,
        }
    }
}

impl IndexedVersions {
    pub fn get(&self, doc: DocId) -> Option<u64> {
        self.buckets[bucket_of(doc)].get(&doc).copied()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn docs(&self) -> impl Iterator<Item = DocId> {
        self.buckets
            .iter()
            .flat_map(|bucket| bucket.keys().copied())
    }

    pub(super) fn insert(&mut self, doc: DocId, seq: u64) {
        let bucket = Arc::make_mut(&mut self.buckets[bucket_of(doc)]);
        if bucket.insert(doc, seq).is_none() {
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, doc: DocId) {
        let bucket = &mut self.buckets[bucket_of(doc)];
        if bucket.contains_key(&doc) {
            Arc::make_mut(bucket).remove(&doc);
            self.len -= 1;
        }
    }
}

fn bucket_of(doc: DocId) -> usize {
    usize::from(doc.as_bytes().last().copied().unwrap_or(0)) % BUCKETS
}

#[cfg(test)]
mod tests {
    use stemma_document::Collection;

    use super::*;

    fn doc(number: u64) -> DocId {
        DocId::new(&Collection::default(), &format!("file:///{number}"))
    }

    #[test]
    fn a_commit_of_one_document_copies_one_bucket() {
        let mut before = IndexedVersions::default();
        for number in 0..10_000 {
            before.insert(doc(number), 1);
        }
        let mut after = before.clone();
        after.insert(doc(7), 2);
        after.remove(doc(10_001));
        let buckets = before.buckets.iter().zip(&after.buckets);
        let copied = buckets.filter(|(before, after)| !Arc::ptr_eq(before, after));
        assert_eq!(copied.count(), 1);
        assert_eq!((before.get(doc(7)), after.get(doc(7))), (Some(1), Some(2)));
    }

    #[test]
    fn the_length_is_the_number_of_documents() {
        let mut versions = IndexedVersions::default();
        assert!(versions.is_empty());
        for number in 0..300 {
            versions.insert(doc(number), 1);
            versions.insert(doc(number), 2);
        }
        versions.remove(doc(5));
        versions.remove(doc(5));
        assert_eq!(versions.len(), 299);
        assert_eq!(versions.docs().count(), 299);
        assert_eq!(versions.get(doc(5)), None);
    }
}
