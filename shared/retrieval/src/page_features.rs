//! What ranking looks at on a page besides its words: its head, headings, labels of rows, columns of years, numbers, and
//! what place it is.

use stemma_document::Line;

use crate::page_class::{
    Confidence, PageClass, classes_of_heading, classify_statements, is_cover, is_toc,
};
use crate::tokenizer::content_words;

/// Lines of the head.
const HEAD_LINES: usize = 8;
/// Headings and labels of one page at most.
const MAX_HEADINGS: usize = 40;
const MAX_LABELS: usize = 400;
/// Words of a heading, and characters of a label, at most.
const HEADING_WORDS: usize = 14;
const LABEL_CHARS: usize = 160;
/// A heading's letters are so much larger than those of most lines.
const HEADING_SIZE_RATIO: f32 = 1.12;

/// A line of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageLine<'a> {
    /// Its text.
    pub text: &'a str,
    /// How it stands there, where that is known.
    pub layout: Option<&'a Line>,
}

/// What ranking looks at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageFeatures {
    /// The first lines.
    pub head: String,
    /// Lines that look like headings.
    pub headings: Vec<String>,
    /// The words before the numbers of rows.
    pub labels: Vec<String>,
    /// Years that head columns.
    pub years: Vec<u16>,
    /// Numbers.
    pub numbers: usize,
    /// Whether it is a table of contents.
    pub is_toc: bool,
    /// What place it is.
    pub page_classes: Vec<(PageClass, Confidence)>,
}

impl PageFeatures {
    /// Reads a page without its running heads. `page` is its number from 1, or 0 for a section of a text.
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

    /// Finds the kinds of sections from headings on the page and from the titles above it.
    pub fn classify(&mut self, path: &[&str]) {
        if self.is_toc {
            return;
        }
        let mut add = |place: PageClass, confidence: Confidence| {
            if !self
                .page_classes
                .iter()
                .any(|(existing, _)| *existing == place)
            {
                self.page_classes.push((place, confidence));
            }
        };
        let on_page: Vec<PageClass> = self
            .headings
            .iter()
            .flat_map(|heading| classes_of_heading(heading))
            .collect();
        on_page
            .into_iter()
            .for_each(|place| add(place, Confidence::Strong));
        path.iter()
            .flat_map(|title| classes_of_heading(title))
            .for_each(|place| add(place, Confidence::Weak));
    }

    fn add_row(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let first = words.iter().position(|word| is_number(word));
        let numbers = words.iter().filter(|word| is_number(word)).count();
        let years: Vec<u16> = words.iter().filter_map(|word| year(word)).collect();
        let others = words
            .iter()
            .filter(|word| word.chars().any(char::is_alphabetic))
            .count();
        // `2022 2021 2020`, `December 31, 2022 2021`, `Fiscal 2023`: few words, and nothing but years and days.
        if !years.is_empty()
            && others <= 2 + 3 * years.len()
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

/// The size most letters have, in points.
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

/// Cells such as `1,749` and `$`, but not the number of a note or a year.
fn is_number_cell(word: &str) -> bool {
    word == "$"
        || is_number(word)
            && year(word).is_none()
            && (word.contains([',', '(', '%']) || word.len() > 3)
}

/// `1,749`, `(2.3)`, `$5`, `12%`, `—` is none.
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
