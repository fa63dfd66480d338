//! Titles of financial statements.

use std::sync::LazyLock;

use stemma_reading::section_names::{TitlePattern, title_key};
use stemma_reading::vocabulary::{
    INDEXED_TITLES, REPORT_OWNERS, STATEMENT_INDEXES, STATEMENT_KEYS, WordList,
};

use super::item_grammar::parse_heading;
use super::line_features::{LineFeatures, LineTable};
use super::numbering::{NumberClass, first_number};
use super::titles;

static INDEXES: LazyLock<Vec<TitlePattern>> = LazyLock::new(|| patterns(&STATEMENT_INDEXES));
static INDEXED: LazyLock<Vec<TitlePattern>> = LazyLock::new(|| patterns(&INDEXED_TITLES));

fn patterns(titles: &WordList) -> Vec<TitlePattern> {
    titles
        .iter()
        .map(|title| TitlePattern::new(title))
        .collect()
}

/// Lines at the top of a page among which a statement has its title.
pub(super) const STATEMENT_TOP: usize = 8;

/// Whether the row is the title of a statement, such as `Condensed Consolidated Balance Sheets`.
// Statement titles need a rule of their own: they are often set small, below the company's name and right above a table,
// where every general heading rule would reject them.
pub(super) fn is_statement_title(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    let fit = names_statement(row) && row.words <= 14 && !row.running && !row.prose && !row.figures;
    let placed = row.caps || row.bold || row.centered;
    let top = lines.rows_on(row.page as usize).start + STATEMENT_TOP > at;
    fit && !row.text.ends_with('.')
        && !row.key.ends_with("continued")
        && placed
        && top
        && lines
            .next_on_page(at)
            .is_some_and(|next| !next.text.starts_with(char::is_lowercase))
}

pub(super) fn names_statement(row: &LineFeatures<'_>) -> bool {
    is_statement_key(&row.key)
}

/// Whether a normalized title is that of a statement.
pub(super) fn is_statement_key(key: &str) -> bool {
    STATEMENT_KEYS.iter().any(|word| {
        key.starts_with(word) || key.get(..24).is_some_and(|front| front.contains(word))
    })
}

/// Whether a title is that of a report of auditors or management.
pub(super) fn names_report(title: &str) -> bool {
    let key = titles::normalize_key(title);
    key.contains("report") && REPORT_OWNERS.starts(&key)
}

/// Whether it is the heading above the notes to the statements.
pub(super) fn names_notes(title: &str) -> bool {
    titles::normalize_key(title).starts_with("notesto")
}

/// Lowers the reports, statements and notes behind the index to the financial statements of a prospectus, which holds them. Each
/// of them is one level below the index. Behind an Item, they are parts of that Item.
pub(super) fn nest_under_index(titles: &[&str], levels: &mut [u16]) {
    let mut index: Option<u16> = None;
    let mut is_lowered = false;
    let mut in_notes = false;
    for (title, level) in titles.iter().zip(levels) {
        if parse_heading(title).is_some_and(|head| !head.tags.is_empty()) && index.is_none() {
            return;
        }
        let key = title_key(title);
        if INDEXES.iter().any(|pattern| pattern.fits(&key)) {
            (index, is_lowered, in_notes) = (Some(*level), false, false);
            continue;
        }
        let Some(above) = index else { continue };
        let is_indexed = INDEXED.iter().any(|pattern| pattern.fits(&key));
        let is_note = is_note_title(title);
        if *level < above || *level == above && !is_indexed && !is_note {
            index = None;
            continue;
        }
        is_lowered |= *level == above;
        *level += u16::from(is_lowered);
        if is_indexed {
            in_notes = names_notes(title);
        } else if is_note && !in_notes {
            // A statement holds no notes.
            *level = above + 1;
        }
    }
}

fn is_note_title(title: &str) -> bool {
    first_number(title)
        .is_some_and(|number| matches!(number.class, NumberClass::Note | NumberClass::Decimal(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(headings: &[(&str, u16)]) -> Vec<u16> {
        let titles: Vec<&str> = headings.iter().map(|(title, _)| *title).collect();
        let mut levels: Vec<u16> = headings.iter().map(|(_, level)| *level).collect();
        nest_under_index(&titles, &mut levels);
        levels
    }

    #[test]
    fn the_index_of_a_prospectus_holds_reports_statements_and_notes() {
        let flat = [
            ("Experts", 1),
            ("INDEX TO CONSOLIDATED FINANCIAL STATEMENTS", 1),
            ("Report of Independent Registered Public Accounting Firm", 1),
            ("Consolidated Balance Sheets", 1),
            ("Consolidated Statements of Operations", 1),
            ("1. Description of Business", 2),
            ("2. Accounting Policies", 2),
            ("Revenue", 3),
            ("Information Not Required in Prospectus", 1),
            ("Balance Sheets of others", 1),
        ];
        assert_eq!(nested(&flat), [1, 1, 2, 2, 2, 2, 2, 4, 1, 1]);
        let with_notes = [
            ("Index to Financial Statements", 2),
            ("Balance Sheet", 2),
            ("Notes to Financial Statements", 2),
            ("Note 1 – Organization", 3),
            ("Exhibits", 2),
        ];
        assert_eq!(nested(&with_notes), [2, 3, 3, 4, 2]);
        let right = [
            ("Index to Financial Statements", 1),
            ("Balance Sheet", 2),
            ("1. Organization", 2),
        ];
        assert_eq!(nested(&right), [1, 2, 2]);
    }

    #[test]
    fn statements_of_an_item_stay_where_they_are() {
        let report = [
            ("Item 8. Financial Statements", 1),
            ("Index to Consolidated Financial Statements", 2),
            ("Consolidated Balance Sheets", 2),
        ];
        assert_eq!(nested(&report), [1, 2, 2]);
    }
}
