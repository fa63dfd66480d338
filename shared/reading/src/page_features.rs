//! The text of a page, tokenized once, and what ranks it: headings, row labels, column years and statements.

use std::ops::Range;

use crate::lines::LineReading;
use crate::statement_pages::{
    Confidence, STATEMENT_LINES, StatementKind, classify_statements, is_toc,
};
use crate::tokenizer::TokenizedText;

// Bounds for damaged pages; real pages have far fewer.
const MAX_HEADINGS: usize = 40;
const MAX_LABELS: usize = 400;
const LABEL_CHARS: usize = 160;

/// A line of a page with what it was read as.
#[derive(Debug, Clone, Copy)]
pub struct PageLine<'a> {
    pub text: &'a str,
    pub reading: LineReading,
}

/// The text of a page without running heads and footers, and its words.
#[derive(Debug, Default)]
pub struct PageText {
    /// The lines, joined by line breaks.
    pub text: String,
    pub words: TokenizedText,
    /// The byte range of each line in `text`.
    pub lines: Vec<Range<usize>>,
}

impl PageText {
    pub fn new(lines: &[PageLine<'_>]) -> Self {
        let mut page = Self::default();
        for line in lines {
            if !page.lines.is_empty() {
                page.text.push('\n');
            }
            let start = page.text.len();
            page.text.push_str(line.text);
            page.lines.push(start..page.text.len());
        }
        page.words = TokenizedText::new(&page.text);
        page
    }
}

/// The ranking features of a page. Ranges are bytes of its [`PageText`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageFeatures {
    /// Lines that look like headings.
    pub headings: Vec<Range<usize>>,
    /// The text before the numbers of a line, in rows of tables and elsewhere.
    pub labels: Vec<Range<usize>>,
    /// Column years of tables, ascending.
    pub years: Vec<u16>,
    /// Count of numbers.
    pub numbers: usize,
    /// Whether the page is a table of contents.
    pub is_toc: bool,
    pub statements: Vec<(StatementKind, Confidence)>,
}

impl PageFeatures {
    /// Extracts the features of a page from its `text` and the `lines` that this was made from. `page` is 1-based, or 0 for a
    /// section of a document without pages.
    pub fn new(text: &PageText, lines: &[PageLine<'_>], page: u32) -> Self {
        let mut features = Self::default();
        for (line, range) in lines.iter().zip(&text.lines) {
            features.add_numbers(line.text, range.start);
            if features.headings.len() < MAX_HEADINGS && line.reading.is_heading {
                features.headings.push(range.clone());
            }
        }
        features.years.sort_unstable();
        features.years.dedup();
        features.classify_page(text, lines, page);
        features
    }

    fn classify_page(&mut self, text: &PageText, lines: &[PageLine<'_>], page: u32) {
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        self.is_toc = page > 0 && is_toc(&texts);
        if !self.is_toc {
            let words = |parts: &[Range<usize>]| -> Vec<Vec<&str>> {
                parts
                    .iter()
                    .map(|part| text.words.content_words(part))
                    .collect()
            };
            let first = &text.lines[..text.lines.len().min(STATEMENT_LINES)];
            self.statements =
                classify_statements(&words(first), &words(&self.labels), self.numbers);
        }
    }

    // `start` is where the line starts in the text.
    fn add_numbers(&mut self, line: &str, start: usize) {
        let mut words = 0;
        let mut text_words = 0;
        let mut numbers = 0;
        let mut years: Vec<u16> = Vec::new();
        let mut label_end = None;
        let mut words_after = 0;
        for word in line.split_whitespace() {
            words += 1;
            text_words += usize::from(word.chars().any(char::is_alphabetic));
            years.extend(year(word));
            if label_end.is_some() && word.chars().any(char::is_alphabetic) {
                words_after += 1;
            }
            if is_number(word) {
                numbers += 1;
                label_end.get_or_insert(word.as_ptr() as usize - line.as_ptr() as usize);
            }
        }
        // `2022 2021 2020`, `December 31, 2022 2021`, `Fiscal 2023`: a column header has few words other than years and days.
        if !years.is_empty()
            && text_words <= 2 + 3 * years.len()
            && words <= 24
            && numbers <= 3 * years.len() + 1
        {
            self.years.extend(years);
        }
        self.numbers += numbers;
        let label = &line[..label_end.unwrap_or(0)];
        let label = label.trim_end_matches([' ', '$', '€', '£', '¥', '(', '.', ':']);
        // In a sentence, further words follow a number.
        if self.labels.len() < MAX_LABELS
            && words_after <= numbers
            && label.chars().any(char::is_alphabetic)
            && label.len() <= LABEL_CHARS
        {
            self.labels.push(start..start + label.len());
        }
    }
}

/// `1,234`, `(5.6)%`, `$`, `—`: what a cell of figures has.
pub fn is_figure(word: &str) -> bool {
    let has_digits = word.contains(|c: char| c.is_ascii_digit());
    (has_digits && !word.contains(char::is_alphabetic))
        || matches!(word, "$" | "—" | "–" | "%" | "€" | "£" | "¥")
}

// `1,749`, `(2.3)`, `$5` and `12%`, but not `—`.
pub fn is_number(word: &str) -> bool {
    let bare = word.trim_matches(['$', '(', ')', '%', ',', '*', '€', '£', '¥', '+', '-', '–']);
    bare.starts_with(|c: char| c.is_ascii_digit())
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.'))
}

pub fn year(word: &str) -> Option<u16> {
    let bare = word.trim_matches([',', '.', '(', ')', '*', ':']);
    let year = bare.parse::<u16>().ok().filter(|_| bare.len() == 4)?;
    (1980..2050).contains(&year).then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::read_lines;

    fn page(text: &str) -> (PageText, PageFeatures) {
        let lines: Vec<PageLine<'_>> = text
            .lines()
            .zip(read_lines(text.lines()))
            .map(|(text, reading)| PageLine { text, reading })
            .collect();
        let page = PageText::new(&lines);
        let features = PageFeatures::new(&page, &lines, 7);
        (page, features)
    }

    #[test]
    fn rows_have_labels_and_columns_have_years() {
        let (page, features) = page(
            "Years ended December 31\n2022 2021 2020\nNet sales $ 34,229 35,355 32,184\nIn 2019 we sold a mill that had been ours since the year of its building\nTotal (1) 5",
        );
        assert_eq!(features.years, [2020, 2021, 2022]);
        let labels: Vec<&str> = features
            .labels
            .iter()
            .map(|label| &page.text[label.clone()])
            .collect();
        assert_eq!(labels[..2], ["Years ended December", "Net sales"]);
        assert_eq!(features.numbers, 1 + 3 + 3 + 1 + 2);
    }

    #[test]
    fn numbers_in_sentences_make_no_rows() {
        let (page, features) = page(
            "Net sales of $34,229 million fell by 3 percent\nTotal equity (deficit) 14,770 15,117",
        );
        let labels: Vec<&str> = features
            .labels
            .iter()
            .map(|label| &page.text[label.clone()])
            .collect();
        assert_eq!(labels, ["Total equity (deficit)"]);
    }
}
