//! Second parser: files that the first parser cannot open or reads as noise are rewritten by lopdf and read again.
//!
//! This way one interpreter serves both; lopdf only repairs objects and offsets.

use hayro_syntax::Pdf;
use lopdf::{Document, LoadOptions};

use crate::Limits;

// lopdf keeps all objects in memory, so larger files are not rewritten.
const MAX_BYTES: usize = 64 << 20;

/// Rewrites the file; `None` if lopdf cannot read it.
pub(super) fn rewrite(bytes: &[u8], password: &str, limits: &Limits) -> Option<Pdf> {
    if bytes.len() > MAX_BYTES || nesting_depth(bytes) > limits.max_object_depth as usize {
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

/// Replaces numbers like `1e9`, which are not valid PDF and break the parser, with nines of the same length, so that
/// offsets stay valid. `None` if there are none.
pub(super) fn patch_exponents(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut start = 0;
    for token in bytes.split(|byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b'/' | b'<' | b'>')
    }) {
        let end = start + token.len();
        let digits = token.strip_prefix(b"-").unwrap_or(token);
        if has_exponent(digits) {
            let patched = out.get_or_insert_with(|| bytes.to_vec());
            if let Some(number) = patched.get_mut(end - digits.len()..end) {
                number.fill(b'9');
            }
        }
        start = end + 1;
    }
    out
}

fn has_exponent(token: &[u8]) -> bool {
    let parts: Vec<&[u8]> = token.split(|byte| matches!(byte, b'e' | b'E')).collect();
    token.len() <= 12
        && parts.len() == 2
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

// An upper bound: binary data can only increase it.
fn nesting_depth(bytes: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut deepest = 0usize;
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
    use super::super::fixture::PdfFixture;
    use super::*;

    #[test]
    fn exponents_keep_their_length() {
        assert_eq!(
            patch_exponents(b"[-1e9 0 12e3 7]").as_deref(),
            Some(&b"[-999 0 9999 7]"[..])
        );
        assert_eq!(patch_exponents(b"[1 2 e9 1e]"), None);
    }

    #[test]
    fn deeply_nested_files_are_not_rewritten() {
        let bytes = PdfFixture::with_pages(&["BT /F1 10 Tf (text) Tj ET"])
            .object("[[[[[[[[1]]]]]]]]")
            .build();
        let within = |max_object_depth| {
            rewrite(
                &bytes,
                "",
                &Limits {
                    max_object_depth,
                    ..Limits::default()
                },
            )
            .is_some()
        };
        assert!(within(8) && !within(7));
    }

    #[test]
    fn nesting_is_counted_per_object() {
        assert_eq!(
            nesting_depth(b"1 0 obj [[<</A [1]>>]] endobj 2 0 obj [1] endobj"),
            4
        );
        assert_eq!(nesting_depth(&b"[".repeat(5001)), 5000);
    }
}
