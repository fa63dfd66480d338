//! Printed page labels: reads them from headers and footers, and maps them back to pages.
//!
//! Printed and physical pages usually differ, and the difference drifts inside a document (plates, blank pages, restarted
//! counts). Every page is therefore read by itself, and labels are looked up instead of computed with one offset.

use std::collections::BTreeMap;

use stemma_document::roman_numerals::format_roman;
use stemma_document::{Page, PageLabel};
use stemma_reading::numerals::parse_roman;

use super::line_features::LineTable;

/// A page label as a series (arabic, roman, `F-`, `A-` …) and a number in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SeriesLabel {
    /// Empty for arabic, `roman`, or the letters before the hyphen.
    pub(super) series: String,
    pub(super) number: u32,
}

impl SeriesLabel {
    /// Reads `12`, `xiv`, `F-12`, `A3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text
            .trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '–' | '—' | '.' | '|'));
        if text.is_empty() || text.len() > 8 || !text.is_ascii() {
            return None;
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return text
                .parse()
                .ok()
                .filter(|n| *n <= 9_999 && !text.starts_with('0'))
                .map(|number| Self::new("", number));
        }
        if let Some(number) =
            parse_roman(text).filter(|_| text.bytes().all(|b| b.is_ascii_lowercase()))
        {
            return Some(Self::new("roman", number));
        }
        let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = text[letters..].trim_start_matches(['-', ' ']);
        let prefixed = (1..=2).contains(&letters)
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit());
        let hyphened = text[letters..].starts_with(['-', ' ']);
        if prefixed && hyphened && digits.len() <= 4 {
            return Some(Self::new(&text[..letters], digits.parse().ok()?));
        }
        None
    }

    fn new(series: &str, number: u32) -> Self {
        Self {
            series: series.into(),
            number,
        }
    }
}

/// Whether a word is the number of a page: `12`, `F-12`. Figures of tables have separators or signs.
pub(crate) fn is_page_number(word: &str) -> bool {
    let digits = word.strip_prefix("F-").unwrap_or(word);
    (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
}

#[derive(Debug, Default)]
pub(super) struct PageLabels {
    by_page: Vec<Option<SeriesLabel>>,
    by_label: BTreeMap<SeriesLabel, Vec<u32>>,
}

impl PageLabels {
    /// Reads the labels of all pages.
    // Headers and footers hold other numbers, too: years, Items, dates. A number is a label only if a page within five pages
    // has one that counts on with the pages; the candidate with most such neighbors wins.
    pub(super) fn read(lines: &LineTable<'_>, pages: &[Page]) -> Self {
        let candidates: Vec<Vec<SeriesLabel>> = (0..lines.pages())
            .map(|page| label_candidates(lines, pages, page))
            .collect();
        let mut labels = Self {
            by_page: vec![None; candidates.len()],
            by_label: BTreeMap::new(),
        };
        for page in 0..candidates.len() {
            let best = candidates[page]
                .iter()
                .map(|label| {
                    let near = page.saturating_sub(5)..(page + 6).min(candidates.len());
                    let votes = near
                        .filter(|other| {
                            *other != page
                                && candidates[*other]
                                    .iter()
                                    .any(|it| agrees(label, page, it, *other))
                        })
                        .count();
                    (votes, label)
                })
                .max_by_key(|(votes, _)| *votes);
            if let Some((_, label)) = best.filter(|(votes, _)| *votes > 0) {
                labels
                    .by_label
                    .entry(label.clone())
                    .or_default()
                    .push(page as u32);
                labels.by_page[page] = Some(label.clone());
            }
        }
        labels
    }

    /// The label of each page, as printed.
    pub(super) fn printed(&self) -> Vec<Option<PageLabel>> {
        self.by_page
            .iter()
            .map(|label| label.as_ref().map(format_label))
            .collect()
    }

    /// The page (from 0) inside `pages` with the label `label`.
    // If no page prints a label, the number itself is the best guess. A page without a printed label is counted from the
    // nearest label of its series, first from below, then from above. Beyond 30 pages the offset may have drifted, and no
    // answer is better than a wrong page.
    pub(super) fn page_of(&self, label: &SeriesLabel, pages: std::ops::Range<u32>) -> Option<u32> {
        if self.by_label.is_empty() {
            let page = label.number.saturating_sub(1);
            return Some(page).filter(|page| label.series.is_empty() && pages.contains(page));
        }
        let printed = self.by_label.get(label);
        if let Some(page) = printed.and_then(|at| first_in(at, &pages)) {
            return Some(page);
        }
        let start = SeriesLabel {
            series: label.series.clone(),
            number: 0,
        };
        let below = self
            .by_label
            .range(start..label.clone())
            .rev()
            .find_map(|(l, at)| Some((l.number, first_in(at, &pages)?)));
        if let Some((number, page)) = below.filter(|(number, _)| label.number - number <= 30) {
            return Some(page + (label.number - number)).filter(|page| pages.contains(page));
        }
        let end = SeriesLabel {
            series: label.series.clone(),
            number: label.number.saturating_add(30),
        };
        let (number, page) = self
            .by_label
            .range(label..&end)
            .find_map(|(l, at)| Some((l.number, first_in(at, &pages)?)))?;
        page.checked_sub(number - label.number)
            .filter(|page| pages.contains(page))
    }
}

fn first_in(pages_of_label: &[u32], pages: &std::ops::Range<u32>) -> Option<u32> {
    pages_of_label
        .iter()
        .copied()
        .find(|page| pages.contains(page))
}

fn format_label(label: &SeriesLabel) -> PageLabel {
    match label.series.as_str() {
        "" => PageLabel(label.number.to_string()),
        "roman" => PageLabel(format_roman(label.number).to_lowercase()),
        series => PageLabel(format!("{series}-{}", label.number)),
    }
}

fn agrees(a: &SeriesLabel, page_a: usize, b: &SeriesLabel, page_b: usize) -> bool {
    a.series == b.series
        && i64::from(a.number) - page_a as i64 == i64::from(b.number) - page_b as i64
}

/// Possible labels of a page: whole lines and first and last words of the lines at its edges.
fn label_candidates(lines: &LineTable<'_>, pages: &[Page], page: usize) -> Vec<SeriesLabel> {
    let height = pages[page].height.points().max(1.0);
    let mut labels = Vec::new();
    for at in lines.rows_on(page) {
        let row = &lines.rows[at];
        if !(row.y1 < 0.12 * height || row.y0 > 0.86 * height) || row.words > 25 {
            continue;
        }
        labels.extend(SeriesLabel::parse(row.text));
        let words: Vec<&str> = row.text.split_whitespace().collect();
        labels.extend(
            words
                .iter()
                .take(1)
                .filter_map(|word| SeriesLabel::parse(word)),
        );
        labels.extend(
            words
                .iter()
                .skip(1)
                .next_back()
                .and_then(|word| SeriesLabel::parse(word)),
        );
        // `Page 3 of 12`
        if let [first, second, ..] = words[..]
            && first.eq_ignore_ascii_case("page")
        {
            labels.extend(SeriesLabel::parse(second));
        }
    }
    labels.sort();
    labels.dedup();
    labels
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    #[test]
    fn labels_of_all_series_parse() {
        for (text, series, number) in [
            ("12", "", 12),
            ("xiv", "roman", 14),
            ("F-12", "F", 12),
            ("- 7 -", "", 7),
            ("A-3", "A", 3),
        ] {
            assert_eq!(
                SeriesLabel::parse(text),
                Some(SeriesLabel {
                    series: series.into(),
                    number
                }),
                "{text}"
            );
        }
        for text in ["", "Page", "1,234", "007", "F", "ABC-1", "99999"] {
            assert_eq!(SeriesLabel::parse(text), None, "{text}");
        }
    }

    #[test]
    fn drifting_page_offset_is_followed() {
        let mut doc = Doc::new(12);
        for page in 0..12u32 {
            // Two unnumbered plates behind page 6.
            let label = if page < 6 {
                Some(page + 1)
            } else {
                (page >= 8).then(|| page - 1)
            };
            doc.prose(page as usize, 10.0, 5);
            if let Some(label) = label {
                doc.add(page as usize, line(&label.to_string()).at(300.0, 770.0));
            }
        }
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let labels = PageLabels::read(&lines, doc.pages(&source));
        let page = |number| {
            labels.page_of(
                &SeriesLabel {
                    series: String::new(),
                    number,
                },
                0..12,
            )
        };
        assert_eq!(page(3), Some(2));
        assert_eq!(page(7), Some(8));
        assert_eq!(page(10), Some(11));
        assert_eq!(page(200), None);
        assert_eq!(labels.printed()[8], Some(PageLabel("7".into())));
    }
}
