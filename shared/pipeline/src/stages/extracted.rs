//! What an extraction process returns: the blobs of a document, and its pages that are pictures.
//!
//! `sizes of the parts (u32 each, little-endian) · pages that are pictures (u32 each) · source · reading · facts`

use bytes::Bytes;
use stemma_document::PageNo;

const PARTS: usize = 4;

/// The parts of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedBlobs {
    /// An encoded source.
    pub source: Bytes,
    /// What its lines and tables are, encoded.
    pub reading: Bytes,
    /// Encoded facts of a filing with inline XBRL.
    pub facts: Option<Bytes>,
    /// Pages that are pictures, in order.
    pub pictures: Vec<PageNo>,
}

/// Joins the parts of a reply; `None` if one is larger than 4 GiB.
pub(crate) fn join(
    pictures: &[PageNo],
    source: &[u8],
    reading: &[u8],
    facts: &[u8],
) -> Option<Vec<u8>> {
    let pictures: Vec<u8> = pictures
        .iter()
        .flat_map(|page| page.get().to_le_bytes())
        .collect();
    let parts: [&[u8]; PARTS] = [&pictures, source, reading, facts];
    let mut reply = Vec::new();
    for part in parts {
        reply.extend(u32::try_from(part.len()).ok()?.to_le_bytes());
    }
    reply.extend(parts.concat());
    Some(reply)
}

/// Takes a reply apart; `None` if it is cut short.
pub fn split_extracted(mut reply: Bytes) -> Option<ExtractedBlobs> {
    let mut sizes = [0; PARTS];
    for size in &mut sizes {
        let bytes = *reply.first_chunk::<4>()?;
        *size = usize::try_from(u32::from_le_bytes(bytes)).ok()?;
        reply = reply.slice(4..);
    }
    if sizes
        .iter()
        .try_fold(0usize, |sum, size| sum.checked_add(*size))
        != Some(reply.len())
    {
        return None;
    }
    let [pictures, source, reading, facts] = sizes.map(|size| reply.split_to(size));
    let pictures = pictures
        .as_chunks::<4>()
        .0
        .iter()
        .map(|number| PageNo::new(u32::from_le_bytes(*number)))
        .collect::<Option<Vec<PageNo>>>()?;
    Some(ExtractedBlobs {
        source,
        reading,
        facts: (!facts.is_empty()).then_some(facts),
        pictures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_with_and_without_facts_are_split() {
        let pages = [PageNo::FIRST, PageNo::from_index(299)];
        let joined = Bytes::from(join(&pages, b"\x03source", b"\x01lines", b"\x01facts").unwrap());
        let blobs = split_extracted(joined.clone()).unwrap();
        assert_eq!(blobs.source, &b"\x03source"[..]);
        assert_eq!(blobs.reading, &b"\x01lines"[..]);
        assert_eq!(blobs.facts.as_deref(), Some(&b"\x01facts"[..]));
        assert_eq!(blobs.pictures, pages);
        for end in 0..joined.len() {
            assert_eq!(split_extracted(joined.slice(..end)), None, "cut at {end}");
        }
        let alone = join(&[], b"\x03source", b"\x01lines", b"").unwrap();
        let alone = split_extracted(alone.into()).unwrap();
        assert_eq!((alone.facts, alone.pictures), (None, Vec::new()));
    }
}
