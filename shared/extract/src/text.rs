//! Plain text to [`Source`].

use std::collections::BTreeMap;

use stemma_document::{Source, SourceFormat};
use stemma_reading::text_headings::find_headings;

use crate::decode::DecodedText;
use crate::{ExtractError, Limits};

/// Extracts plain text, with the headings that [`find_headings`] finds.
///
/// # Errors
///
/// `limits.bytes` and `limits.lines`.
pub fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Source, ExtractError> {
    let decoded = DecodedText::read(bytes, limits)?;
    let lines = decoded.lines();
    let headings = find_headings(&lines, |_| true, &[]);
    Ok(limits.source_of_lines(
        SourceFormat::Text,
        lines,
        headings,
        BTreeMap::new(),
        decoded.defects,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(bytes, &Limits::default()).is_ok());
        }
    }
}
