//! Sets of document numbers as they are stored.

use roaring::RoaringBitmap;
use stemma_engine::PortResult;

use super::tables::damaged;

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
