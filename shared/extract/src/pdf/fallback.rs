//! The second parser: what the first cannot open, or reads as noise, is read and written anew by lopdf, then read again.
//!
//! One interpreter serves both ways; lopdf only supplies a file whose objects and offsets are in order.

use hayro_syntax::Pdf;
use lopdf::{Document, LoadOptions};

use crate::Limits;

/// Files above this are not read a second time, in bytes: lopdf keeps every object in memory.
const MAX_BYTES: usize = 64 << 20;
/// Nesting that lopdf's recursive parser is trusted with.
const MAX_NESTING: usize = 200;

/// The file written anew; `None` when lopdf cannot read it either.
pub(super) fn rewritten(bytes: &[u8], password: &str, limits: &Limits) -> Option<Pdf> {
    if bytes.len() > MAX_BYTES || nesting(bytes) > MAX_NESTING {
        return None;
    }
    let options = LoadOptions {
        password: Some(password.to_owned()),
        max_decompressed_size: usize::try_from(limits.max_content_bytes).ok(),
        ..LoadOptions::default()
    };
    let mut document = Document::load_mem_with_options(bytes, options).ok()?;
    let mut out = Vec::new();
    document.save_to(&mut out).ok()?;
    Pdf::new(out).ok()
}

/// How deeply arrays and dictionaries seem to nest. Binary data can only make it look deeper.
fn nesting(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for pair in bytes.windows(2) {
        match pair {
            [b'[', _] | [b'<', b'<'] => depth += 1,
            [b']', _] | [b'>', b'>'] => depth = depth.saturating_sub(1),
            [b'e', b'n'] => depth = 0,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_per_object() {
        assert_eq!(nesting(b"1 0 obj [[<</A [1]>>]] endobj 2 0 obj [1] endobj"), 4);
        assert!(nesting(&b"[".repeat(5000)) > MAX_NESTING);
    }
}
