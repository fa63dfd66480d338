//! Declared page labels (ISO 32000-2, 12.4.2).

use std::collections::BTreeMap;

use hayro_syntax::object::{Array, Dict, Name, String as PdfString};
use stemma_document::PageLabel;
use stemma_document::roman_numerals::format_roman;

use super::destinations::tree_nodes;
use super::strings::decode_text_string;

// Longer labels are ignored.
const MAX_CHARACTERS: usize = 40;
// Larger numbers are written as digits.
const MAX_SPELLED: u32 = 4_999;

/// Returns the declared label of each page.
pub(super) fn read_labels(root: &Dict<'_>, count: usize) -> Vec<Option<PageLabel>> {
    let ranges = read_ranges(root, count);
    let mut current: Option<(usize, &LabelRange)> = None;
    (0..count)
        .map(|index| {
            if let Some(range) = ranges.get(&index) {
                current = Some((index, range));
            }
            let (start, range) = current?;
            let label = range.label(u32::try_from(index - start).ok()?)?;
            (!label.is_empty() && label.chars().count() <= MAX_CHARACTERS)
                .then_some(PageLabel(label))
        })
        .collect()
}

struct LabelRange {
    style: Option<u8>,
    prefix: String,
    first: u32,
}

fn read_ranges(root: &Dict<'_>, count: usize) -> BTreeMap<usize, LabelRange> {
    let mut ranges = BTreeMap::new();
    for node in tree_nodes(
        root.get::<Dict<'_>>("PageLabels"),
        count.saturating_mul(2) + 16,
    ) {
        let mut entries = node
            .get::<Array<'_>>("Nums")
            .unwrap_or_default()
            .flex_iter();
        while let (Some(index), Some(range)) = (entries.next::<u32>(), entries.next::<Dict<'_>>()) {
            if (index as usize) < count {
                ranges
                    .entry(index as usize)
                    .or_insert_with(|| LabelRange::from_dict(&range));
            }
        }
    }
    ranges
}

impl LabelRange {
    fn from_dict(dict: &Dict<'_>) -> Self {
        Self {
            style: dict
                .get::<Name<'_>>("S")
                .and_then(|name| name.as_ref().first().copied()),
            prefix: dict
                .get::<PdfString<'_>>("P")
                .map(|text| decode_text_string(text.as_bytes()))
                .unwrap_or_default(),
            first: dict.get::<u32>("St").unwrap_or(1).max(1),
        }
    }

    fn label(&self, offset: u32) -> Option<String> {
        let number = self.first.checked_add(offset)?;
        let digits = match self.style {
            None => String::new(),
            Some(b'R') if number <= MAX_SPELLED => format_roman(number),
            Some(b'r') if number <= MAX_SPELLED => format_roman(number).to_ascii_lowercase(),
            Some(b'A') if number <= MAX_SPELLED => to_letters(number, b'A'),
            Some(b'a') if number <= MAX_SPELLED => to_letters(number, b'a'),
            Some(_) => number.to_string(),
        };
        Some(format!("{}{digits}", self.prefix))
    }
}

// A to Z, then AA to ZZ (the letter repeated), and so on.
fn to_letters(number: u32, first: u8) -> String {
    let repeats = (number - 1) / 26 + 1;
    let letter = ((number - 1) % 26) as u8;
    char::from(first + letter)
        .to_string()
        .repeat(repeats as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_the_pdf_standard() {
        assert_eq!(to_letters(1, b'a'), "a");
        assert_eq!(to_letters(28, b'A'), "BB");
        let range = LabelRange {
            style: Some(b'D'),
            prefix: "F-".into(),
            first: 3,
        };
        assert_eq!(range.label(2).as_deref(), Some("F-5"));
        assert_eq!(
            LabelRange {
                style: None,
                prefix: "Cover".into(),
                first: 1
            }
            .label(0)
            .as_deref(),
            Some("Cover")
        );
    }
}
