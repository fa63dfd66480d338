//! What an extraction process returns: an encoded source alone, or with the tagged facts of the document.
//!
//! `mark (1 byte) · length of the source (u32, little-endian) · source · facts`. A source alone begins with its version,
//! which is never the mark. Before a source with pages that are pictures: `mark · their number (u32) · page numbers (u32)`.

use bytes::Bytes;
use stemma_document::PageNo;

const WITH_FACTS: u8 = 0xFA;
const WITH_PICTURES: u8 = 0xFB;

/// The parts of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedBlobs {
    /// An encoded source.
    pub source: Bytes,
    /// Encoded facts of a filing with inline XBRL.
    pub facts: Option<Bytes>,
    /// Pages that are pictures, in order.
    pub pictures: Vec<PageNo>,
}

/// Joins an encoded source and encoded facts; `None` if the source is larger than 4 GiB.
pub(crate) fn join(source: &[u8], facts: &[u8]) -> Option<Vec<u8>> {
    let size = u32::try_from(source.len()).ok()?;
    Some([&[WITH_FACTS][..], &size.to_le_bytes(), source, facts].concat())
}

/// Puts the pages that are pictures before an encoded source.
pub(crate) fn with_pictures(pictures: &[PageNo], source: &[u8]) -> Vec<u8> {
    if pictures.is_empty() {
        return source.to_vec();
    }
    let numbers = pictures.iter().map(|page| page.get());
    let count = u32::try_from(pictures.len()).unwrap_or(u32::MAX);
    let mut reply = vec![WITH_PICTURES];
    for number in std::iter::once(count).chain(numbers) {
        reply.extend(number.to_le_bytes());
    }
    reply.extend(source);
    reply
}

/// Takes a reply apart; `None` if it is cut short.
pub fn split_extracted(reply: Bytes) -> Option<ExtractedBlobs> {
    if reply.first() == Some(&WITH_PICTURES) {
        return split_pictures(&reply);
    }
    if reply.first() != Some(&WITH_FACTS) {
        return Some(ExtractedBlobs {
            source: reply,
            facts: None,
            pictures: Vec::new(),
        });
    }
    let size = reply.get(1..)?.first_chunk::<4>()?;
    let end = usize::try_from(u32::from_le_bytes(*size))
        .ok()?
        .checked_add(5)?;
    (end <= reply.len()).then(|| ExtractedBlobs {
        source: reply.slice(5..end),
        facts: Some(reply.slice(end..)),
        pictures: Vec::new(),
    })
}

// Only PDFs have pictures, and only HTML has facts.
fn split_pictures(reply: &Bytes) -> Option<ExtractedBlobs> {
    let number = |at: usize| {
        let bytes = reply.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let end = usize::try_from(number(1)?)
        .ok()?
        .checked_mul(4)?
        .checked_add(5)?;
    let pages = (5..end).step_by(4).map(|at| PageNo::new(number(at)?));
    let pictures = pages.collect::<Option<Vec<PageNo>>>()?;
    Some(ExtractedBlobs {
        source: reply.slice(end..),
        facts: None,
        pictures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_with_and_without_facts_are_split() {
        let joined = Bytes::from(join(b"\x03source", b"\x01facts").unwrap());
        let blobs = split_extracted(joined.clone()).unwrap();
        assert_eq!(blobs.source, &b"\x03source"[..]);
        assert_eq!(blobs.facts.as_deref(), Some(&b"\x01facts"[..]));
        let alone = split_extracted(Bytes::from_static(b"\x03source")).unwrap();
        assert_eq!((alone.source.len(), alone.facts), (7, None));
        let pages = [PageNo::FIRST, PageNo::from_index(299)];
        let pictured = Bytes::from(with_pictures(&pages, b"\x03source"));
        let blobs = split_extracted(pictured.clone()).unwrap();
        assert_eq!(blobs.source, &b"\x03source"[..]);
        assert_eq!(blobs.pictures, pages);
        assert_eq!(split_extracted(pictured.slice(..12)), None);
        for end in 1..12 {
            assert_eq!(split_extracted(joined.slice(..end)), None, "cut at {end}");
        }
    }
}
