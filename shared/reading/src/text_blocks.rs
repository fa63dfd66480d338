//! Splits lines of a text into tables and paragraphs, and finds the column heads of tables.
//!
//! Lines are the only evidence, so it works the same for stored texts and for pages with positions.

use std::ops::Range;

use stemma_document::english_words::MONTHS;

use crate::page_features::{is_number, year};
use crate::vocabulary::{COLUMN_PERIODS, EMPTY_CELLS, STATED_SCALES};

/// What a line is within a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A row of a table: it ends with cells.
    Row,
    /// Years, periods or the unit above the columns of a table.
    ColumnHead,
    /// A heading, or the label of rows.
    Label,
    Prose,
}

/// A table or a paragraph, with the labels above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextBlock {
    pub is_table: bool,
    /// Indexes of its lines.
    pub lines: Range<usize>,
}

// Fewer rows are figures in a text.
const MIN_ROWS: usize = 2;
// A label with more words is a sentence.
const LABEL_WORDS: usize = 12;
// A column head has dates, units and little else.
const COLUMN_HEAD_WORDS: usize = 18;
// A paragraph without a visible end is split after a sentence.
const PARAGRAPH_LINES: usize = 12;
// The last line of a paragraph is this much shorter than the longest line.
const SHORT_LINE: f32 = 0.85;
// Lines of labels and column heads above a row.
const MAX_LABEL_LINES: usize = 8;
// Lines of column heads above one row.
const MAX_HEAD_LINES: usize = 3;

/// The kinds of all lines.
pub fn line_kinds(lines: &[&str]) -> Vec<LineKind> {
    let mut kinds: Vec<LineKind> = lines.iter().map(|line| line_kind(line)).collect();
    // A sentence in a narrow column has lines as short as a label.
    for (at, line) in lines.iter().enumerate().skip(1) {
        let continues = line.starts_with(char::is_lowercase) && kinds[at] == LineKind::Prose;
        if continues && kinds[at - 1] == LineKind::Label {
            kinds[at - 1] = LineKind::Prose;
        }
    }
    kinds
}

fn line_kind(line: &str) -> LineKind {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ends_sentence = line.trim_end().ends_with(['.', ';', ',']);
    if is_column_head(line, &words) {
        return LineKind::ColumnHead;
    }
    let label = words.len() - trailing_cells(&words).len();
    let cells: Vec<&str> = words[label..]
        .iter()
        .copied()
        .filter(|word| is_cell(word))
        .collect();
    let is_amount = |word: &&str| {
        year(word).is_none() && (word.contains([',', '.', '(', '%', '$']) || is_dash(word))
    };
    // One number ends many lines of a text. A cell of its own stands after a short label or a currency.
    let is_row = cells.len() >= 2
        || cells.len() == 1
            && label <= LABEL_WORDS
            && !ends_sentence
            && (cells.iter().any(is_amount) || words[label..].contains(&"$"));
    if is_row {
        return LineKind::Row;
    }
    let starts_as_label = line
        .chars()
        .find(|c| c.is_alphabetic())
        .is_some_and(char::is_uppercase);
    let is_label = words.len() <= LABEL_WORDS && !ends_sentence && starts_as_label;
    if is_label || line.trim_end().ends_with(':') && words.len() <= LABEL_WORDS {
        LineKind::Label
    } else {
        LineKind::Prose
    }
}

// The words at the end of a line that are cells of a table or belong to one, such as `$`.
fn trailing_cells<'w, 't>(words: &'w [&'t str]) -> &'w [&'t str] {
    let belongs = |word: &&str| {
        is_cell(word) || matches!(*word, "$" | "€" | "£" | "¥" | "%" | ")" | "(" | "*" | "#")
    };
    let count = words.iter().rev().take_while(|word| belongs(word)).count();
    &words[words.len() - count..]
}

fn is_cell(word: &str) -> bool {
    is_number(word) || is_dash(word)
}

fn is_dash(word: &str) -> bool {
    matches!(word, "—" | "–" | "-" | "$—" | "$–" | "$-" | "—%") || EMPTY_CELLS.contains(word)
}

// `2022 2021 2020`, `Three months ended June 30,`, `(Dollars in millions, except per share amounts)`.
fn is_column_head(line: &str, words: &[&str]) -> bool {
    if words.is_empty() || words.len() > COLUMN_HEAD_WORDS || line.trim_end().ends_with('.') {
        return false;
    }
    // All numbers are years or days, so that a row labeled by a year is none.
    let only_dates = words.iter().filter(|word| is_number(word)).all(|word| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_digit());
        year(word).is_some()
            || bare.parse::<u8>().is_ok_and(|day| day <= 31) && !word.contains(['%', '$', '('])
    });
    if !only_dates {
        return false;
    }
    let lower = line.to_lowercase();
    let years = words.iter().filter(|word| year(word).is_some()).count();
    let lettered = words
        .iter()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count();
    // `December 31,` stands above the years.
    let is_open_period = || {
        let mut period_words = MONTHS.iter().chain(COLUMN_PERIODS.iter());
        (lower.trim_end().ends_with(',') || lower.contains("ended"))
            && period_words.any(|word| lower.contains(word))
    };
    let is_dates = years > 0 && lettered <= 2 + 3 * years || lettered <= 6 && is_open_period();
    states_scale(&lower, words) || is_dates && !words.contains(&"$")
}

/// Whether a line states the unit of a table: `(Dollars in millions, except per share amounts)`.
pub fn is_unit(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() <= COLUMN_HEAD_WORDS && states_scale(&line.to_lowercase(), &words)
}

fn states_scale(lower: &str, words: &[&str]) -> bool {
    STATED_SCALES.iter().any(|scale| lower.contains(scale))
        && (lower.contains("in ") || lower.starts_with('(') || words.len() <= 4)
        && !lower.trim_end().ends_with('.')
        && !words
            .iter()
            .any(|word| is_number(word) && word.contains([',', '.']))
}

/// Splits lines of these kinds into tables and paragraphs. The blocks cover all lines in order.
pub fn text_blocks(lines: &[&str], kinds: &[LineKind]) -> Vec<TextBlock> {
    let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let end = table_end(lines, kinds, start);
        let is_table = end.is_some();
        let end = end.unwrap_or_else(|| paragraph_end(lines, kinds, start, longest));
        blocks.push(TextBlock {
            is_table,
            lines: start..end,
        });
        start = end;
    }
    blocks
}

// The end of the table whose heads, labels and rows begin at `start`.
fn table_end(lines: &[&str], kinds: &[LineKind], start: usize) -> Option<usize> {
    let mut rows = 0;
    let mut last_row = start;
    for at in start..lines.len() {
        match kinds[at] {
            LineKind::Row => {
                rows += 1;
                last_row = at;
            }
            // Text that begins a table is a paragraph before it.
            LineKind::Prose if rows == 0 || !is_wrapped_label(lines, kinds, at) => break,
            // Labels without rows are headings of what follows, or a list.
            _ if at > last_row + MAX_LABEL_LINES => break,
            _ => {}
        }
    }
    // A footnote's mark or a total may stand alone, but two rows in a row of labels make a table.
    (rows >= MIN_ROWS).then_some(last_row + 1)
}

// A label of two lines, the second of which has the cells.
fn is_wrapped_label(lines: &[&str], kinds: &[LineKind], at: usize) -> bool {
    !lines[at].trim_end().ends_with('.') && kinds.get(at + 1) == Some(&LineKind::Row)
}

fn paragraph_end(lines: &[&str], kinds: &[LineKind], start: usize, longest: usize) -> usize {
    let mut has_text = false;
    for at in start..lines.len() {
        let may_begin_table = match kinds[at] {
            LineKind::Prose => false,
            LineKind::Label => is_after_sentence(lines, kinds, at),
            LineKind::Row | LineKind::ColumnHead => true,
        };
        let begins_other = may_begin_table && table_end(lines, kinds, at).is_some();
        if at > start
            && (begins_other
                || has_text && kinds[at] == LineKind::Label && is_after_sentence(lines, kinds, at))
        {
            return at;
        }
        has_text |= kinds[at] == LineKind::Prose;
        let line = lines[at].trim_end();
        let is_short = (line.len() as f32) < SHORT_LINE * longest as f32;
        if has_text
            && line.ends_with(['.', '!', '?'])
            && (is_short || at + 1 - start >= PARAGRAPH_LINES)
        {
            return at + 1;
        }
    }
    lines.len()
}

// Whether the line before `at` ends a sentence or is no text.
fn is_after_sentence(lines: &[&str], kinds: &[LineKind], at: usize) -> bool {
    at == 0
        || lines[at - 1]
            .trim_end()
            .ends_with(['.', '!', '?', ':', ';'])
        || kinds[at - 1] != LineKind::Prose
}

/// The lines of column heads that apply to line `at` of a table: the nearest ones above it.
pub fn column_heads(kinds: &[LineKind], table: &TextBlock, at: usize) -> Range<usize> {
    let above = table.lines.start..at.min(table.lines.end);
    let Some(last) = above
        .clone()
        .rev()
        .find(|line| kinds[*line] == LineKind::ColumnHead)
    else {
        return at..at;
    };
    let lines = above.rev().skip_while(|line| *line > last);
    let count = lines
        .take_while(|line| kinds[*line] == LineKind::ColumnHead)
        .take(MAX_HEAD_LINES)
        .count();
    last + 1 - count..last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: [&str; 12] = [
        "Results of operations were affected by the sale of a mill in 2021 and by the prices of wood, which",
        "rose by a tenth. We expect this to continue.",
        "Consolidated Statement of Income",
        "Years ended December 31",
        "(Millions, except per share amounts)",
        "2022 2021 2020",
        "Net sales $ 34,229 $ 35,355 $ 32,184",
        "Operating expenses",
        "Cost of sales 19,232 18,795 16,605",
        "Total operating expenses 27,690 27,986 25,023",
        "The accompanying notes are an integral part of this statement, and the statement is one of",
        "four.",
    ];

    #[test]
    fn tables_and_paragraphs_are_told_apart() {
        let kinds = line_kinds(&PAGE);
        let blocks = text_blocks(&PAGE, &kinds);
        let found: Vec<(bool, Range<usize>)> = blocks
            .iter()
            .map(|block| (block.is_table, block.lines.clone()))
            .collect();
        assert_eq!(found, [(false, 0..2), (true, 2..10), (false, 10..12)]);
        assert_eq!(column_heads(&kinds, &blocks[1], 8), 3..6);
        assert_eq!(kinds[7], LineKind::Label);
    }

    #[test]
    fn rows_labeled_by_years_are_no_column_heads() {
        assert_eq!(line_kind("Fiscal 2023 8,211 9,122"), LineKind::Row);
        assert_eq!(line_kind("2024 $ 1,800"), LineKind::Row);
        assert_eq!(line_kind("Fiscal 2023 Fiscal 2022"), LineKind::ColumnHead);
        assert_eq!(line_kind("December 31,"), LineKind::ColumnHead);
        assert_eq!(
            line_kind("$ in millions, except per share amounts"),
            LineKind::ColumnHead
        );
        assert_eq!(line_kind("Net income 7,514 8,060 (546) #"), LineKind::Row);
        assert_eq!(
            line_kind("Three Months Ended June 30,"),
            LineKind::ColumnHead
        );
        assert_eq!(
            line_kind("net sales of $1,749 million in the year that ended on May 31 and sales of"),
            LineKind::Prose
        );
    }
}
