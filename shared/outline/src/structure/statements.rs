//! Titles of financial statements.

use stemma_reading::vocabulary::{REPORT_OWNERS, STATEMENT_KEYS};

use super::line_features::{LineFeatures, LineTable};
use super::titles;

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
