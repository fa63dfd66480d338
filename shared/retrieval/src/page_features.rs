//! Extracts ranking features of a page: its head, headings, row labels, column years, numbers and page classes.

use stemma_document::Line;

use crate::page_class::{
    Confidence, PageClass, classes_of_heading, classify_statements, is_cover, is_toc,
};
use crate::tokenizer::content_words;

const HEAD_LINES: usize = 8;
// Bounds for damaged pages; real pages have far fewer.
const MAX_HEADINGS: usize = 40;
const MAX_LABELS: usize = 400;
// Longer lines are text.
const HEADING_WORDS: usize = 14;
const LABEL_CHARS: usize = 160;
// A heading is at least this much larger than the body text.
const HEADING_SIZE_RATIO: f32 = 1.12;

#[derive(Debug, Clone, Copy)]
pub struct PageLine<'a> {
    pub text: &'a str,
    /// Position and style, if known.
    pub layout: Option<&'a Line>,
}

/// The ranking features of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageFeatures {
    /// The first lines, joined by line breaks.
    pub head: String,
    /// Lines that look like headings.
    pub headings: Vec<String>,
    /// The text before the numbers of table rows.
    pub labels: Vec<String>,
    /// Column years of tables, ascending.
    pub years: Vec<u16>,
    /// Count of numbers.
    pub numbers: usize,
    /// Whether the page is a table of contents.
    pub is_toc: bool,
    pub page_classes: Vec<(PageClass, Confidence)>,
}

impl PageFeatures {
    /// Extracts the features of a page without running heads and footers. `page` is 1-based, or 0 for a section of a
    /// document without pages.
    pub fn new(lines: &[PageLine<'_>], page: u32) -> Self {
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        let mut features = Self {
            head: texts
                .iter()
                .take(HEAD_LINES)
                .copied()
                .collect::<Vec<_>>()
                .join("\n"),
            ..Self::default()
        };
        let usual = body_size(lines);
        for line in lines {
            features.add_row(line.text);
            if features.headings.len() < MAX_HEADINGS && is_heading(line, usual) {
                features.headings.push(line.text.to_owned());
            }
        }
        features.years.sort_unstable();
        features.years.dedup();
        let labels: Vec<Vec<String>> = features
            .labels
            .iter()
            .map(|label| content_words(label))
            .collect();
        features.is_toc = page > 0 && is_toc(&texts);
        features.page_classes = if features.is_toc {
            Vec::new()
        } else {
            classify_statements(&texts, &labels, features.numbers)
        };
        if is_cover(&texts, page) {
            features
                .page_classes
                .push((PageClass::Cover, Confidence::Strong));
        }
        features
    }

    /// Adds the classes announced by headings on the page and by the titles in `path`. Call it after [`PageFeatures::new`],
    /// once the section of the page is known.
    pub fn classify(&mut self, path: &[&str]) {
        if self.is_toc {
            return;
        }
        let on_page = self
            .headings
            .iter()
            .flat_map(|heading| classes_of_heading(heading))
            .map(|class| (class, Confidence::Strong));
        let announced = path
            .iter()
            .flat_map(|title| classes_of_heading(title))
            .map(|class| (class, Confidence::Weak));
        for (class, confidence) in on_page.chain(announced) {
            if !self
                .page_classes
                .iter()
                .any(|(existing, _)| *existing == class)
            {
                self.page_classes.push((class, confidence));
            }
        }
    }

    fn add_row(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let first = words.iter().position(|word| is_number(word));
        let numbers = words.iter().filter(|word| is_number(word)).count();
        let years: Vec<u16> = words.iter().filter_map(|word| year(word)).collect();
        let text_words = words
            .iter()
            .filter(|word| word.chars().any(char::is_alphabetic))
            .count();
        // `2022 2021 2020`, `December 31, 2022 2021`, `Fiscal 2023`: a column header has few words beside years and days.
        if !years.is_empty()
            && text_words <= 2 + 3 * years.len()
            && words.len() <= 24
            && numbers <= 3 * years.len() + 1
        {
            self.years.extend(years);
        }
        self.numbers += numbers;
        let Some(first) = first.filter(|first| *first > 0) else {
            return;
        };
        let label = words[..first].join(" ");
        let label = label
            .trim_end_matches([' ', '$', '€', '£', '¥', '(', '.', ':'])
            .to_owned();
        if self.labels.len() < MAX_LABELS
            && label.chars().any(char::is_alphabetic)
            && label.len() <= LABEL_CHARS
        {
            self.labels.push(label);
        }
    }
}

// The font size of most characters, in points.
fn body_size(lines: &[PageLine<'_>]) -> f32 {
    let mut sizes: Vec<(f32, usize)> = Vec::new();
    for line in lines {
        let Some(layout) = line.layout else { continue };
        let size = layout.style().size.points();
        match sizes
            .iter_mut()
            .find(|(existing, _)| (*existing - size).abs() < 0.05)
        {
            Some((_, letters)) => *letters += line.text.len(),
            None => sizes.push((size, line.text.len())),
        }
    }
    sizes
        .into_iter()
        .max_by_key(|(_, letters)| *letters)
        .map_or(0.0, |(size, _)| size)
}

fn is_heading(line: &PageLine<'_>, usual: f32) -> bool {
    let Some(layout) = line.layout else {
        return false;
    };
    let style = layout.style();
    let words = line.text.split_whitespace().count();
    let lettered = line.text.chars().filter(|c| c.is_alphabetic()).count() * 2 > line.text.len();
    let stands_out = style.bold
        || style.italic
        || usual > 0.0 && style.size.points() > HEADING_SIZE_RATIO * usual;
    lettered
        && (1..=HEADING_WORDS).contains(&words)
        && stands_out
        && !line.text.split_whitespace().skip(1).any(is_number_cell)
}

// Cells such as `1,749` and `$`, but not the number of a note or a year, which headings may have.
fn is_number_cell(word: &str) -> bool {
    word == "$"
        || is_number(word)
            && year(word).is_none()
            && (word.contains([',', '(', '%']) || word.len() > 3)
}

// `1,749`, `(2.3)`, `$5` and `12%`, but not `—`.
fn is_number(word: &str) -> bool {
    let bare = word.trim_matches(['$', '(', ')', '%', ',', '*', '€', '£', '¥', '+', '-', '–']);
    bare.starts_with(|c: char| c.is_ascii_digit())
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.'))
}

fn year(word: &str) -> Option<u16> {
    let bare = word.trim_matches([',', '.', '(', ')', '*', ':']);
    let year = bare.parse::<u16>().ok().filter(|_| bare.len() == 4)?;
    (1980..2050).contains(&year).then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(text: &str) -> PageFeatures {
        let lines: Vec<PageLine<'_>> = text
            .lines()
            .map(|text| PageLine { text, layout: None })
            .collect();
        PageFeatures::new(&lines, 7)
    }

    #[test]
    fn rows_have_labels_and_columns_have_years() {
        let features = features(
            "Years ended December 31\n2022 2021 2020\nNet sales $ 34,229 35,355 32,184\nIn 2019 we sold a mill that had been ours since the year of its building\nTotal (1) 5",
        );
        assert_eq!(features.years, [2020, 2021, 2022]);
        assert_eq!(features.labels[..2], ["Years ended December", "Net sales"]);
        assert_eq!(features.numbers, 1 + 3 + 3 + 1 + 2);
        assert_eq!(features.head.lines().count(), 5);
    }

    #[test]
    fn page_headings_outweigh_titles_above() {
        let mut features = features("text");
        features.headings.push("Note 7. Income Taxes".into());
        features.classify(&["Legal Proceedings", "Income Taxes"]);
        assert_eq!(
            features.page_classes,
            [
                (PageClass::Taxes, Confidence::Strong),
                (PageClass::Legal, Confidence::Weak)
            ]
        );
    }
}
