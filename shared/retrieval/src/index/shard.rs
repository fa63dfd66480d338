//! Shards of an index: the first bits of a document's id choose the one that has it.
//!
//! Ids are digests, so shards have about the same size. Each is an index of its own, with its own folder, lock, commits and
//! snapshots. So merges and uploads are bounded by a shard, several builders share the work, and threads search side by side.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use stemma_document::DocId;

/// The number of shards of an index: a power of two up to 256, so that doubling it divides each shard in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct ShardCount(u16);

/// The number of shards is not a power of two, or larger than 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an index cannot have {0} shards: use a power of two from 1 to 256")]
pub struct InvalidShardCount(u16);

impl ShardCount {
    const MAX: u16 = 256;

    /// All shards, in the order of the ids that they have.
    pub fn shards(self) -> impl ExactSizeIterator<Item = ShardId> {
        (0..self.0).map(move |number| ShardId {
            number,
            count: self,
        })
    }

    /// The shard that has a document.
    pub fn shard_of(self, doc: DocId) -> ShardId {
        let first = doc.as_bytes().first().copied().unwrap_or(0);
        ShardId {
            number: u16::from(first) >> (8 - self.bits()),
            count: self,
        }
    }

    // Number of leading bits of an id that choose a shard.
    fn bits(self) -> u32 {
        self.0.trailing_zeros()
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u16> for ShardCount {
    type Error = InvalidShardCount;

    fn try_from(count: u16) -> Result<Self, InvalidShardCount> {
        if count.is_power_of_two() && count <= Self::MAX {
            Ok(Self(count))
        } else {
            Err(InvalidShardCount(count))
        }
    }
}

impl From<ShardCount> for u16 {
    fn from(count: ShardCount) -> Self {
        count.0
    }
}

/// One of the shards of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardId {
    number: u16,
    count: ShardCount,
}

impl ShardId {
    /// Position among the shards of the index, from 0.
    pub fn number(self) -> usize {
        self.number.into()
    }

    /// The shards of the index.
    pub(super) fn count(self) -> ShardCount {
        self.count
    }

    /// Whether the shard has this document.
    pub fn has(self, doc: DocId) -> bool {
        self.count.shard_of(doc) == self
    }

    /// The smallest and the largest id of documents that the shard has, as big-endian numbers.
    pub fn ids(self) -> RangeInclusive<u128> {
        let width = u128::MAX >> self.count.bits();
        // `width` is one less than the number of ids.
        let first = u128::from(self.number) * width + u128::from(self.number);
        first..=first + width
    }

    /// What folders and keys of the shard have behind the revision of the index. Nothing if it is the only shard: such an
    /// index is the same as in programs without shards.
    pub(super) fn suffix(self) -> String {
        match self.count.0 {
            1 => String::new(),
            count => format!("-{:03}of{count:03}", self.number),
        }
    }

    /// The shard that has this suffix.
    pub(super) fn from_suffix(suffix: &str) -> Option<Self> {
        let count = match suffix.rsplit_once("of") {
            None => ShardCount::default(),
            Some((_, count)) => ShardCount::try_from(count.parse::<u16>().ok()?).ok()?,
        };
        count.shards().find(|shard| shard.suffix() == suffix)
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::Collection;

    use super::*;

    fn counts() -> impl Iterator<Item = ShardCount> {
        (0..=8).map(|bits| ShardCount::try_from(1 << bits).unwrap())
    }

    #[test]
    fn each_document_is_in_the_shard_whose_range_has_its_id() {
        for number in 0..200 {
            let doc = DocId::new(&Collection::default(), &format!("file:///{number}"));
            let id = u128::from_be_bytes(doc.as_bytes().try_into().unwrap());
            for count in counts() {
                let having: Vec<ShardId> = count.shards().filter(|shard| shard.has(doc)).collect();
                let in_range = count.shards().filter(|shard| shard.ids().contains(&id));
                assert_eq!(having.len(), 1);
                assert_eq!(having, in_range.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_ranges_of_all_shards_cover_all_ids_once() {
        for count in counts() {
            let mut next = Some(0);
            for shard in count.shards() {
                assert_eq!(Some(*shard.ids().start()), next);
                next = shard.ids().end().checked_add(1);
            }
            assert_eq!(next, None);
        }
    }

    #[test]
    fn suffixes_name_shards() {
        for shard in counts().flat_map(ShardCount::shards) {
            assert_eq!(ShardId::from_suffix(&shard.suffix()), Some(shard));
        }
        for unknown in ["-", "-000of001", "-2of002", "-002of002", "-000of003", "x"] {
            assert_eq!(ShardId::from_suffix(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_powers_of_two_up_to_256_are_accepted() {
        for count in [0, 3, 255, 512] {
            assert_eq!(ShardCount::try_from(count), Err(InvalidShardCount(count)));
        }
    }
}
