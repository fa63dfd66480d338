//! Plain text to [`Source`].

use std::collections::BTreeMap;

use stemma_document::{Source, SourceFormat};
use stemma_reading::text_headings::find_headings;

use crate::decode::DecodedText;
use crate::edgar::tags::{PartCleaner, is_table_mark};
use crate::text_pages::text_pages;
use crate::{ExtractError, Limits};

const FORM_FEED: char = '\u{c}';

/// Extracts plain text, with the headings that [`find_headings`] finds. A document of an old filing, whose tables have tags, is cleaned as
/// those of submissions are.
///
/// # Errors
///
/// `limits.bytes` and `limits.lines`.
pub fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Source, ExtractError> {
    let decoded = DecodedText::read(bytes, limits)?;
    if has_pages(&decoded.text) {
        return Ok(text_pages(decoded, SourceFormat::Text, limits));
    }
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

// Whether form feeds divide the text, as printers do.
fn has_pages(text: &str) -> bool {
    text.trim().contains(FORM_FEED)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use stemma_document::SourceBody;
    use stemma_reading::document_reading::DocumentReading;

    use super::*;

    #[test]
    fn form_feeds_divide_a_text_into_pages() {
        let pages = |text: &str| match read(text.into(), &Limits::default()).unwrap().body {
            SourceBody::Pages(pages) => pages.iter().map(|page| page.text()).collect(),
            SourceBody::Lines(_) => Vec::new(),
        };
        let text = "1. SCOPE\n\nA < b.\n\u{c}2. METHOD\nText.\n\u{c}\n3. RESULT\n";
        assert_eq!(
            pages(text),
            ["1. SCOPE\nA < b.", "2. METHOD\nText.", "3. RESULT"]
        );
        assert_eq!(pages("\u{c}One page.\n\u{c}"), [""; 0]);
    }

    #[test]
    fn tags_of_an_old_filing_are_no_text_and_its_table_is_one() {
        let filing = "\
<PAGE>
                    SELECTED FINANCIAL DATA
<TABLE>
<CAPTION>                             1997          1996
                                  --------      --------
                                       (In thousands)
<S>                               <C>           <C>
Net sales...................      $ 41,200      $ 38,100
Cost of sales...............        30,100        27,650
Income taxes (benefit)<F1>..          (410)          320
<FN>
<F1> Restated.
</TABLE>
";
        let source = read(filing.into(), &Limits::default()).unwrap();
        let SourceBody::Lines(text) = &source.body else {
            panic!("no lines");
        };
        assert!(!text.lines.concat().contains('<'), "{:?}", text.lines);
        assert!(text.headings.iter().all(|heading| heading.line < 3));
        let tables = DocumentReading::new(&source.body).tables;
        assert_eq!(tables.len(), 1, "{tables:?}");
        let columns = tables[0].columns.iter();
        let periods: Vec<_> = columns.map(|column| column.period.as_deref()).collect();
        assert_eq!(periods, [Some("1997"), Some("1996")]);
        assert_eq!(tables[0].scale, Some(1_000));
        let values = |row: usize| {
            let cells = tables[0].rows[row].cells.iter().flatten();
            cells.map(|cell| cell.value.clone().unwrap()).collect()
        };
        let rows: [Vec<String>; 3] = [0, 1, 2].map(values);
        assert_eq!(
            rows,
            [["41200", "38100"], ["30100", "27650"], ["-410", "320"]]
        );
    }

    #[test]
    fn other_texts_keep_what_looks_like_a_tag() {
        let source = read("a <b> and <s>".into(), &Limits::default()).unwrap();
        let SourceBody::Lines(text) = &source.body else {
            panic!("no lines");
        };
        assert_eq!(text.lines, ["a <b> and <s>"]);
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(bytes, &Limits::default()).is_ok());
        }
    }
}
