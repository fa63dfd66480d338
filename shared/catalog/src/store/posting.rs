//! Sets of document numbers as they are stored.
//!
//! The set of a value is one row while it is small, and a row for each 65,536 numbers when it is large. Counting many rare
//! values then reads a row of each, and a publication writes a few kilobytes of a frequent one.

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use super::tables::damaged;

/// The part of a set that has all of its numbers.
pub(super) const WHOLE: u16 = 0;
// A set of as many numbers takes 8 KB, as the largest part of a divided one does.
const MAX_WHOLE: u64 = 4_096;

/// The part of a divided set that a number belongs to.
pub(super) fn part_of(number: u32) -> u16 {
    // A catalog has far fewer documents than the last part can number.
    ((number >> 16) as u16).saturating_add(1)
}

pub(super) fn is_small(numbers: &RoaringBitmap) -> bool {
    numbers.len() <= MAX_WHOLE
}

/// Divides a set into the parts it is stored in.
pub(super) fn divided(numbers: &RoaringBitmap) -> Vec<(u16, RoaringBitmap)> {
    let mut parts: Vec<(u16, RoaringBitmap)> = Vec::new();
    for number in numbers {
        let part = part_of(number);
        match parts.last_mut() {
            Some((last, numbers)) if *last == part => {
                numbers.insert(number);
            }
            _ => parts.push((part, RoaringBitmap::from_iter([number]))),
        }
    }
    parts
}

// Few numbers take less room as they are. Most values of most facets have one document.
const MAX_PLAIN: u64 = 8;
const PLAIN: u8 = 0;
const BITMAP: u8 = 1;

pub(super) fn encode(numbers: &RoaringBitmap) -> PortResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1 + numbers.serialized_size());
    if numbers.len() <= MAX_PLAIN {
        bytes.push(PLAIN);
        bytes.extend(numbers.iter().flat_map(u32::to_le_bytes));
    } else {
        bytes.push(BITMAP);
        numbers.serialize_into(&mut bytes).map_err(damaged)?;
    }
    Ok(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> PortResult<RoaringBitmap> {
    match bytes.split_first() {
        Some((&PLAIN, numbers)) => {
            let numbers = numbers.as_chunks::<4>().0.iter();
            Ok(numbers.map(|bytes| u32::from_le_bytes(*bytes)).collect())
        }
        Some((&BITMAP, bitmap)) => RoaringBitmap::deserialize_from(bitmap).map_err(damaged),
        _ => Err(damaged("a set of documents has an unknown form")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_set_are_the_set() {
        let numbers: RoaringBitmap = [1, 65_535, 65_536, 65_537, 400_000].into();
        let parts = divided(&numbers);
        let named: Vec<u16> = parts.iter().map(|(part, _)| *part).collect();
        assert_eq!(named, [1, 2, 7]);
        let joined = parts
            .into_iter()
            .fold(RoaringBitmap::new(), |all, part| all | part.1);
        assert_eq!(joined, numbers);
    }

    #[test]
    fn sets_of_any_size_are_read_back() {
        for count in [0, 1, 8, 9, 5_000, 65_536] {
            let numbers: RoaringBitmap = (70_000..70_000 + count).collect();
            let bytes = encode(&numbers).unwrap();
            assert_eq!(decode(&bytes).unwrap(), numbers, "{count}");
        }
        assert!(decode(&[]).is_err());
        assert!(decode(&[BITMAP, 1, 2]).is_err());
    }
}
