//! What each line of a text is: a row of a table, the head of columns, a label or prose.
//!
//! Only the words of lines are evidence here. Where tables are known by the cells of a file or the positions of words,
//! [`DocumentReading`](crate::document_reading::DocumentReading) takes the kinds of their lines from them.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_document::english_words::MONTHS;

use crate::cells::{cell_spans, has_leader};
use crate::page_features::{is_number, year};
use crate::vocabulary::{COLUMN_PERIODS, STATED_SCALES};

/// What a line is within a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LineKind {
    /// A row of a table.
    Row,
    /// Years, periods or the unit above the columns of a table.
    ColumnHead,
    /// A heading, or the label of rows.
    Label,
    #[default]
    Prose,
}

impl LineKind {
    const CODES: [(Self, char); 4] = [
        (Self::Row, 'r'),
        (Self::ColumnHead, 'h'),
        (Self::Label, 'l'),
        (Self::Prose, 'p'),
    ];

    /// For JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::ColumnHead => "column_head",
            Self::Label => "label",
            Self::Prose => "prose",
        }
    }

    /// For stored lists of kinds.
    pub fn code(self) -> char {
        let known = Self::CODES.into_iter().find(|(kind, _)| *kind == self);
        known.map_or('p', |(_, code)| code)
    }

    /// Prose for an unknown code.
    pub fn from_code(code: char) -> Self {
        let known = Self::CODES.into_iter().find(|(_, known)| *known == code);
        known.map(|(kind, _)| kind).unwrap_or_default()
    }
}

/// What a line was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LineReading {
    pub kind: LineKind,
    /// Whether it looks like a heading.
    pub is_heading: bool,
    /// Byte at which the label of a row ends.
    pub label_end: u32,
}

impl LineReading {
    /// The label of a row, before its cells.
    pub fn label<'t>(&self, text: &'t str) -> Option<&'t str> {
        (self.kind == LineKind::Row).then(|| text.get(..self.label_end as usize).unwrap_or(text))
    }
}

// A label with more words is a sentence.
pub(crate) const LABEL_WORDS: usize = 12;
// A column head has dates, units and little else.
const COLUMN_HEAD_WORDS: usize = 18;
// Lines of heads and labels between a column head and the rows below it.
const MAX_LINES_TO_ROWS: usize = 8;

/// Reads lines that follow each other.
pub fn read_lines<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<LineReading> {
    let mut lines: Vec<LineReading> = Vec::new();
    for text in texts {
        let line = read_line(text);
        // A sentence in a narrow column has lines as short as a label.
        let continues = text.starts_with(char::is_lowercase) && line.kind == LineKind::Prose;
        if let Some(above) = lines.last_mut()
            && continues
            && above.kind == LineKind::Label
        {
            above.kind = LineKind::Prose;
        }
        lines.push(line);
    }
    drop_heads_without_rows(&mut lines);
    lines
}

// In a sentence, a line may have little but a date: `December 31, 2022 and 2021,`.
fn drop_heads_without_rows(lines: &mut [LineReading]) {
    let mut to_rows = usize::MAX;
    for at in (0..lines.len()).rev() {
        to_rows = match lines[at].kind {
            LineKind::Row => 0,
            LineKind::Prose => usize::MAX,
            LineKind::Label | LineKind::ColumnHead => to_rows.saturating_add(1),
        };
        let follows_prose = at > 0 && lines[at - 1].kind == LineKind::Prose;
        if lines[at].kind == LineKind::ColumnHead && follows_prose && to_rows > MAX_LINES_TO_ROWS {
            lines[at].kind = LineKind::Prose;
            to_rows = usize::MAX;
        }
    }
}

fn read_line(text: &str) -> LineReading {
    let (label_end, cells) = cell_spans(text);
    LineReading {
        kind: line_kind(text, label_end, &cells),
        is_heading: false,
        label_end: u32::try_from(label_end).unwrap_or(u32::MAX),
    }
}

fn line_kind(text: &str, label_end: usize, cells: &[Range<usize>]) -> LineKind {
    let ends_sentence = text.trim_end().ends_with(['.', ';', ',']);
    if is_column_head(text) {
        return LineKind::ColumnHead;
    }
    let label_words = text[..label_end].split_whitespace().count();
    // One number ends many lines of a text. A single cell follows a short label, and is an amount.
    let is_row = match cells {
        [] => text.trim_start().starts_with('|'),
        [cell] => {
            let cell = &text[cell.clone()];
            label_words <= LABEL_WORDS
                && !ends_sentence
                && year(cell).is_none()
                && !cell.chars().all(|c| c.is_ascii_digit())
        }
        _ => true,
    };
    if is_row || !cells.is_empty() && has_leader(text) {
        return LineKind::Row;
    }
    let starts_as_label = text
        .chars()
        .find(|c| c.is_alphabetic())
        .is_some_and(char::is_uppercase);
    let is_short = || text.split_whitespace().count() <= LABEL_WORDS;
    if (!ends_sentence && starts_as_label || text.trim_end().ends_with(':')) && is_short() {
        LineKind::Label
    } else {
        LineKind::Prose
    }
}

// `2022 2021 2020`, `Three months ended June 30,`, `(Dollars in millions, except per share amounts)`.
fn is_column_head(line: &str) -> bool {
    let words: Vec<&str> = line
        .split_whitespace()
        .take(COLUMN_HEAD_WORDS + 1)
        .collect();
    if words.is_empty() || words.len() > COLUMN_HEAD_WORDS || line.trim_end().ends_with('.') {
        return false;
    }
    // All its numbers are years or days: a row labeled by a year has others.
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
    // `December 31,` above the years.
    let is_open_period = || {
        let mut period_words = MONTHS.iter().chain(COLUMN_PERIODS.iter());
        (lower.trim_end().ends_with(',') || lower.contains("ended"))
            && period_words.any(|word| lower.contains(word))
    };
    let is_dates = years > 0 && lettered <= 2 + 3 * years || lettered <= 6 && is_open_period();
    states_scale(&lower, &words) || is_dates && !words.contains(&"$")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> LineKind {
        read_line(line).kind
    }

    #[test]
    fn rows_labeled_by_years_are_no_column_heads() {
        assert_eq!(kind("Fiscal 2023 8,211 9,122"), LineKind::Row);
        assert_eq!(kind("2024 $ 1,800"), LineKind::Row);
        assert_eq!(kind("Fiscal 2023 Fiscal 2022"), LineKind::ColumnHead);
        assert_eq!(kind("December 31,"), LineKind::ColumnHead);
        assert_eq!(
            kind("$ in millions, except per share amounts"),
            LineKind::ColumnHead
        );
        assert_eq!(kind("Net income 7,514 8,060 (546) #"), LineKind::Row);
        assert_eq!(kind("Three Months Ended June 30,"), LineKind::ColumnHead);
        assert_eq!(
            kind("net sales of $1,749 million in the year that ended on May 31 and sales of"),
            LineKind::Prose
        );
    }

    #[test]
    fn one_cell_makes_a_row_where_it_is_an_amount() {
        assert_eq!(kind("Total debt 1,749"), LineKind::Row);
        assert_eq!(kind("Dividends —"), LineKind::Row);
        assert_eq!(kind("Gross margin 43%"), LineKind::Row);
        assert_eq!(kind("Note 5"), LineKind::Label);
        assert_eq!(kind("Legal proceedings . . . . . . . 25"), LineKind::Row);
        assert_eq!(kind("| Name | Title |"), LineKind::Row);
    }

    #[test]
    fn a_column_head_has_rows_below() {
        let kinds = |lines: &[&str]| -> Vec<LineKind> {
            let lines = read_lines(lines.iter().copied());
            lines.iter().map(|line| line.kind).collect()
        };
        let text =
            "The following table shows what was sold by all of our segments in the years ended";
        let date = "December 31, 2022 and 2021";
        assert_eq!(
            kinds(&[text, date, "and is not audited."]),
            [LineKind::Prose; 3]
        );
        assert_eq!(
            kinds(&[text, date, "Products", "Net sales 1,749 1,603"])[1],
            LineKind::ColumnHead
        );
    }

    #[test]
    fn a_row_has_a_label() {
        let line = "Net sales, net . . . $ 34,229 35,355";
        assert_eq!(read_line(line).label(line), Some("Net sales, net"));
        assert_eq!(read_line("Net sales").label("Net sales"), None);
    }
}
