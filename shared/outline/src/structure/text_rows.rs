//! Lines of text without the marks that converters leave: Markdown, cells of tables, links.

use stemma_reading::vocabulary::REFERENCE_ENDS;

use super::page_labels::is_page_number;
use super::titles;

// Bytes of a line that are read; a heading is shorter.
const ROW_BYTES: usize = 800;
// A line with more words above another goes on there, unless it ends a sentence.
const SHORT_WORDS: usize = 8;
// Rows and words over which a title may go on.
const TITLE_ROWS: usize = 3;
const TITLE_ROW_WORDS: usize = 14;

/// A line that is not blank.
pub(super) struct TextRow {
    /// Its index in the text.
    pub(super) line: usize,
    pub(super) text: String,
    /// Words of the whole line.
    pub(super) words: usize,
    /// Whether it ends with the number of a page, as rows of contents do.
    pub(super) listed: bool,
    /// Whether a sentence or a cell ends with the line.
    ended: bool,
    /// Whether its last word needs another one.
    goes_on: bool,
}

pub(super) struct TextRows {
    pub(super) rows: Vec<TextRow>,
    /// Words before each row, and of all.
    before: Vec<usize>,
}

impl TextRows {
    pub(super) fn new(lines: &[String]) -> Self {
        let mut rows = Vec::new();
        let mut before = vec![0];
        for (line, raw) in lines.iter().enumerate() {
            let (text, listed) = plain(raw);
            if text.is_empty() {
                continue;
            }
            let words = raw.split_whitespace().count();
            before.push(before.last().copied().unwrap_or(0) + words);
            let (ended, goes_on) = end_of(raw, words);
            rows.push(TextRow {
                line,
                text,
                words,
                listed,
                ended,
                goes_on,
            });
        }
        Self { rows, before }
    }

    /// Words of rows `from..to`.
    pub(super) fn words_between(&self, from: usize, to: usize) -> usize {
        let at = |row: usize| self.before[row.min(self.rows.len())];
        at(to).saturating_sub(at(from))
    }

    /// Whether little is between two rows.
    pub(super) fn is_near(
        &self,
        row: usize,
        next: usize,
        most_rows: usize,
        most_words: usize,
    ) -> bool {
        next <= row + 1 + most_rows && self.words_between(row + 1, next) <= most_words
    }

    /// Whether no sentence goes on from the row above.
    // Lines that are wrapped at a width are long where their sentence goes on.
    pub(super) fn is_free(&self, row: usize) -> bool {
        let Some(above) = row.checked_sub(1).map(|above| &self.rows[above]) else {
            return true;
        };
        let blank = above.line + 1 < self.rows[row].line;
        blank || above.ended || above.listed || above.words <= SHORT_WORDS && !above.goes_on
    }

    /// Rows right below in which a title may go on.
    pub(super) fn title_rows_below(&self, row: usize) -> impl Iterator<Item = usize> {
        let below = row + 1..self.rows.len().min(row + 1 + TITLE_ROWS);
        let mut line = self.rows[row].line;
        below.take_while(move |next| {
            let next = &self.rows[*next];
            let close = next.line <= line + 2 && next.words <= TITLE_ROW_WORDS;
            line = next.line;
            close && super::item_grammar::parse_heading(&next.text).is_none()
        })
    }
}

/// Whether a sentence or a cell ends with a line, and whether its last word needs another one.
fn end_of(line: &str, words: usize) -> (bool, bool) {
    let line = line.trim_end_matches(['*', '_', '`', ' ', '\u{a0}', '\t']);
    let ended = line.ends_with(['.', ':', ';', '!', '?', ')', '”', '"', '|']);
    let last = line.rsplit(' ').next().unwrap_or_default();
    let is_reference = words > 2 && REFERENCE_ENDS.contains(last);
    let goes_on = line.ends_with([',', '-', '“', '(']) || last.starts_with(char::is_lowercase);
    (ended, goes_on || is_reference)
}

/// The text of a line, and whether it ends with the number of a page.
fn plain(line: &str) -> (String, bool) {
    let line = titles::truncate_bytes(line.trim(), ROW_BYTES);
    let cells = line.split('|').map(without_marks);
    let cells: Vec<String> = cells
        .filter(|cell| !cell.bytes().all(|b| b" -:=_*+".contains(&b)))
        .collect();
    let text = cells.join(" ");
    let label = text.rsplit([' ', '.']).next().unwrap_or_default();

    let front = line.trim_end_matches(['|', ' ']);
    let front = front.strip_suffix(label).unwrap_or(front);
    let set_off = front.ends_with("  ")
        || front.ends_with(['\t', '.']) && front.contains("..")
        || front.ends_with(". ");
    let own_cell = cells.len() > 1 && cells.last().is_some_and(|last| last == label);
    let listed = is_page_number(label) && (own_cell || set_off) && text.len() > label.len();
    (titles::fold_whitespace(&text), listed)
}

/// A cell without emphasis, anchors and the targets of links.
fn without_marks(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut rest = cell.trim().trim_start_matches(['#', '>', ' ']);
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        // `[Item 1.](#item1)` and `<a id="item1"></a>`; other brackets stay, such as those of `[Reserved]`.
        let skipped = match c {
            ']' => behind
                .strip_prefix('(')
                .and_then(|target| target.split_once(')')),
            '<' => behind.split_once('>'),
            _ => None,
        };
        if let Some((_, after)) = skipped {
            if c == ']'
                && let Some(open) = text.rfind('[')
            {
                text.remove(open);
            }
            rest = after;
            continue;
        }
        if !matches!(c, '*' | '`' | '\\') {
            text.push(c);
        }
        rest = behind;
    }
    text.trim_matches(['_', ' ', '\u{a0}']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_converters_are_left_out() {
        for (line, text, listed) in [
            ("## Item 1. Business", "Item 1. Business", false),
            (
                "**Item 1A.** **Risk Factors**",
                "Item 1A. Risk Factors",
                false,
            ),
            ("| Item 2. | Properties |", "Item 2. Properties", false),
            (
                "| [Item 3.](#i3) | [Legal Proceedings](#i3) | [12](#i3) |",
                "Item 3. Legal Proceedings 12",
                true,
            ),
            (
                "Item 5. Market for Equity ........ 17",
                "Item 5. Market for Equity ........ 17",
                true,
            ),
            (
                "Item 6.    [Reserved]      F-3",
                "Item 6. [Reserved] F-3",
                true,
            ),
            ("<a id=\"i7\"></a>__Item 7\\. MD&A__", "Item 7. MD&A", false),
            ("Sales rose in 2024", "Sales rose in 2024", false),
            ("|---|:--:|", "", false),
        ] {
            assert_eq!(plain(line), (text.to_owned(), listed), "{line}");
        }
    }

    #[test]
    fn a_line_that_goes_on_is_not_free() {
        let rows = |lines: &[&str]| {
            TextRows::new(
                &lines
                    .iter()
                    .map(|line| (*line).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        for (above, free) in [
            (
                "We have more than one business, and we tell about them in",
                false,
            ),
            (
                "for more information about our results of operations, refer to Part II",
                false,
            ),
            ("We have more than one business.", true),
            ("37", true),
            ("RISK FACTORS", true),
            ("as described in", false),
        ] {
            assert_eq!(
                rows(&[above, "Item 7. Management's Discussion"]).is_free(1),
                free,
                "{above}"
            );
        }
    }
}
