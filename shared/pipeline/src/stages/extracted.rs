//! What an extraction process returns: an encoded source alone, or with the tagged facts of the document.
//!
//! `mark (1 byte) · length of the source (u32, little-endian) · source · facts`. A source alone begins with its version,
//! which is never the mark.

use bytes::Bytes;

const WITH_FACTS: u8 = 0xFA;

/// The parts of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedBlobs {
    /// An encoded source.
    pub source: Bytes,
    /// Encoded facts of a filing with inline XBRL.
    pub facts: Option<Bytes>,
}

/// Joins an encoded source and encoded facts; `None` if the source is larger than 4 GiB.
pub(crate) fn join(source: &[u8], facts: &[u8]) -> Option<Vec<u8>> {
    let size = u32::try_from(source.len()).ok()?;
    Some([&[WITH_FACTS][..], &size.to_le_bytes(), source, facts].concat())
}

/// Takes a reply apart; `None` if it is cut short.
pub fn split_extracted(reply: Bytes) -> Option<ExtractedBlobs> {
    if reply.first() != Some(&WITH_FACTS) {
        return Some(ExtractedBlobs {
            source: reply,
            facts: None,
        });
    }
    let size = reply.get(1..)?.first_chunk::<4>()?;
    let end = usize::try_from(u32::from_le_bytes(*size))
        .ok()?
        .checked_add(5)?;
    (end <= reply.len()).then(|| ExtractedBlobs {
        source: reply.slice(5..end),
        facts: Some(reply.slice(end..)),
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
        for end in 1..12 {
            assert_eq!(split_extracted(joined.slice(..end)), None, "cut at {end}");
        }
    }
}
