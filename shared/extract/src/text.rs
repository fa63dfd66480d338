//! Plain text to [`Source`].

use std::collections::BTreeMap;

use stemma_document::{Source, SourceFormat};
use stemma_reading::text_headings::find_headings;

use crate::decode::DecodedText;
use crate::edgar::{PartCleaner, is_table_mark};
use crate::{ExtractError, Limits};

/// Extracts plain text, with the headings that [`find_headings`] finds. A document of an old filing, whose tables have tags, is cleaned as
/// those of submissions are.
///
/// # Errors
///
/// `limits.bytes` and `limits.lines`.
pub fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Source, ExtractError> {
    let decoded = DecodedText::read(bytes, limits)?;
    let mut lines = decoded.lines();
    let is_text: Vec<bool> = match lines.iter().any(|line| is_table_mark(line)) {
        true => {
            let mut cleaner = PartCleaner::default();
            lines.iter_mut().map(|line| cleaner.clean(line)).collect()
        }
        false => vec![true; lines.len()],
    };
    let headings = find_headings(&lines, |line| is_text.get(line) != Some(&false), &[]);
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
