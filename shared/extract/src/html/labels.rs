//! The numbers printed on pages.

use stemma_document::{Page, PageLabel};
use stemma_reading::numerals::parse_roman;

// Lines at the top and at the bottom of a page that may hold its number.
const HEAD_LINES: usize = 2;
const FOOT_LINES: usize = 3;
// A longer line is text.
const MAX_WORDS: usize = 25;
// Pages on either side whose numbers may count on.
const PAGES_NEAR: usize = 5;
// One page that counts on may do so by chance.
const VOTES: usize = 2;
// Front matter is shorter.
const MAX_ROMAN: u32 = 60;

/// A number in a series: `12` has the series ``, `F-12` the series `F-`.
struct Number<'a> {
    text: &'a str,
    series: &'a str,
    value: u32,
}

/// Sets the label of each page whose number counts on with the pages around it.
// Heads and feet hold other numbers, too: years, Items, dates. They stay the same from page to page, or change at will.
pub(super) fn set_labels(pages: &mut [Page]) {
    let candidates: Vec<Vec<Number<'_>>> = pages.iter().map(numbers_of).collect();
    let label = |(page, numbers): (usize, &Vec<Number<'_>>)| {
        let near = page.saturating_sub(PAGES_NEAR)..(page + PAGES_NEAR + 1).min(candidates.len());
        let votes = |number: &Number<'_>| {
            near.clone()
                .filter(|other| {
                    *other != page
                        && candidates[*other].iter().any(|it| {
                            it.series == number.series
                                && it.value as usize + page == number.value as usize + *other
                        })
                })
                .count()
        };
        let best = numbers.iter().map(|number| (votes(number), number));
        let (_, number) = best
            .filter(|(votes, _)| *votes >= VOTES)
            .max_by_key(|(votes, _)| *votes)?;
        Some(PageLabel(number.text.to_owned()))
    };
    let labels: Vec<Option<PageLabel>> = candidates.iter().enumerate().map(label).collect();
    for (page, label) in pages.iter_mut().zip(labels) {
        page.label = label;
    }
}

fn numbers_of(page: &Page) -> Vec<Number<'_>> {
    let foot = page.lines.len().saturating_sub(FOOT_LINES);
    let lines =
        page.lines.iter().enumerate().filter(|(at, line)| {
            *at < HEAD_LINES.min(foot) || *at >= foot && !line.text.is_empty()
        });
    let mut numbers = Vec::new();
    for (_, line) in lines {
        let words: Vec<&str> = line.text.split_whitespace().take(MAX_WORDS + 1).collect();
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            continue;
        };
        if words.len() > MAX_WORDS {
            continue;
        }
        // `Page 3 of 12`, `- 7 -`
        let second = words.get(1).filter(|_| words.len() <= 4);
        let texts = [Some(first), second, Some(last)];
        numbers.extend(texts.into_iter().flatten().filter_map(|text| number(text)));
    }
    numbers
}

fn number(text: &str) -> Option<Number<'_>> {
    let text = text.trim_matches(|c: char| matches!(c, '-' | '–' | '—' | '.' | '|' | '(' | ')'));
    let digits = text.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '-');
    let series = text.strip_suffix(digits)?;
    let is_series = series.is_empty() || series.len() <= 3 && series.ends_with('-');
    let is_number = (1..=4).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.starts_with('0');
    if is_series && is_number {
        let value = digits.parse().ok()?;
        return Some(Number {
            text,
            series,
            value,
        });
    }
    let is_small = text.bytes().all(|b| b.is_ascii_lowercase());
    let value = parse_roman(text).filter(|number| is_small && *number <= MAX_ROMAN)?;
    Some(Number {
        text,
        series: "i",
        value,
    })
}
