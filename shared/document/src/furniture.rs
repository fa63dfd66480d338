//! Detects running heads and feet (page furniture) after all pages are read.
//!
//! Sections, summaries and headings skip these lines; pages keep them.

use std::collections::BTreeMap;

use crate::{Line, LineRole, Page};

// Heads and feet lie within this share of the page height from the edge.
const EDGE_SHARE: f32 = 0.14;
// Longer lines are body text.
const MAX_WORDS: usize = 25;
// Number of leading words that are compared.
const KEY_WORDS: usize = 12;
// Points. The height of one head varies by less than this between pages.
const HEIGHT_TOLERANCE: f32 = 3.0;
// A running line occurs on at least this many pages and on more than one page in `PAGE_SHARE`,
const MIN_PAGES: usize = 3;
const PAGE_SHARE: usize = 5;
// or on this many nearby pages, as chapter heads do.
const MIN_RUN: usize = 5;

#[derive(Debug, Clone, Copy)]
struct EdgeLine {
    page: usize,
    line: usize,
    // Points from the top of the page, or below 0 from its bottom: feet are there, however long the pages are.
    y: f32,
    // The number of a line that may be a heading.
    number: Option<usize>,
}

/// Marks running heads and feet: page numbers at the edges, and lines with the same words (ignoring numbers) at the
/// same height on many pages.
pub fn mark(pages: &mut [Page]) {
    let mut furniture: Vec<(usize, usize)> = Vec::new();
    let mut lines_by_text: BTreeMap<String, Vec<EdgeLine>> = BTreeMap::new();
    for (index, page) in pages.iter().enumerate() {
        for (at, line) in page.lines.iter().enumerate() {
            let text = line.text.trim();
            let Some((role, y)) = edge(line, page) else {
                continue;
            };
            if page_number(text).is_some() {
                furniture.push((index, at));
            } else if !has_leaders(text)
                && text.split_whitespace().take(MAX_WORDS + 1).count() <= MAX_WORDS
            {
                let place = EdgeLine {
                    page: index,
                    line: at,
                    y,
                    number: heading_number(text).filter(|_| role == LineRole::Head),
                };
                lines_by_text
                    .entry(match_key(text))
                    .or_default()
                    .push(place);
            }
        }
    }
    for places in lines_by_text
        .into_values()
        .filter(|places| places.len() >= MIN_PAGES)
    {
        furniture.extend(recurring_lines(places, pages.len()));
    }
    for (index, at) in furniture {
        let Some(page) = pages.get_mut(index) else {
            continue;
        };
        let place = page.lines.get(at).and_then(|line| edge(line, page));
        if let (Some((role, _)), Some(line)) = (place, page.lines.get_mut(at)) {
            line.role = role;
        }
    }
}

// Rows of printed contents are not running heads, though those at the top of their pages differ only in numbers.
fn has_leaders(text: &str) -> bool {
    const DOTS: usize = 4;
    let mut dots = 0;
    text.chars().any(|c| {
        dots = match c {
            '.' | '…' | '·' => dots + 1,
            ' ' => dots,
            _ => 0,
        };
        dots == DOTS
    })
}

// Head or foot by position alone, and the points from that edge; `None` for the body.
fn edge(line: &Line, page: &Page) -> Option<(LineRole, f32)> {
    // Heads and feet stay upright on the displayed page when its table is turned.
    let (rect, height) = if line.role == LineRole::Across {
        (page.displayed(line.rect), page.displayed_size().1)
    } else {
        (line.rect, page.height)
    };
    let height = height.points().max(1.0);
    let y = rect.y0.points();
    if rect.y1.points() < EDGE_SHARE * height {
        Some((LineRole::Head, y))
    } else if y > (1.0 - EDGE_SHARE) * height {
        Some((LineRole::Foot, y - height))
    } else {
        None
    }
}

// The lines with one text that recur often enough at one height.
fn recurring_lines(mut places: Vec<EdgeLine>, pages: usize) -> Vec<(usize, usize)> {
    let mut recurring = Vec::new();
    // Sorted by height first, so that each head or foot forms one group.
    places.sort_by(|a, b| {
        a.y.total_cmp(&b.y)
            .then(a.page.cmp(&b.page))
            .then(a.line.cmp(&b.line))
    });
    for group in places.chunk_by(|a, b| b.y - a.y < HEIGHT_TOLERANCE) {
        let mut group = group.to_vec();
        group.sort_unstable_by_key(|place| (place.page, place.line));
        let mut on_pages: Vec<usize> = group.iter().map(|place| place.page).collect();
        on_pages.dedup();
        let is_frequent = on_pages.len() >= MIN_PAGES && on_pages.len() * PAGE_SHARE > pages;
        // Heads may alternate between left and right pages, so a run may skip every other page.
        let runs = group
            .chunk_by(|a, b| b.page - a.page <= 2)
            .filter(|run| (is_frequent || run.len() >= MIN_RUN) && !counts_sections(run));
        recurring.extend(runs.flatten().map(|place| (place.page, place.line)));
    }
    recurring
}

// `Note 4`, `Note 5`, ... at the top of their pages are headings: each number occurs once and does not follow the
// pages. A running head repeats its number or counts pages.
fn counts_sections(places: &[EdgeLine]) -> bool {
    let mut rising = true;
    let mut with_pages = 0;
    for pair in places.windows(2) {
        let numbers = pair[0].number.zip(pair[1].number);
        let pages = pair[1].page - pair[0].page;
        rising &= numbers.is_some_and(|(before, after)| before < after);
        with_pages +=
            usize::from(numbers.is_some_and(|(before, after)| after.abs_diff(before) == pages));
    }
    // If four of five steps equal the number of pages between, the lines count pages.
    places.len() >= 2 && rising && with_pages * 5 < (places.len() - 1) * 4
}

// The number after the first word: `Note 4`, `Chapter 12: Leases`.
fn heading_number(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace();
    let has_word = words.next()?.chars().all(char::is_alphabetic);
    let number = words
        .next()?
        .trim_end_matches(|c: char| !c.is_ascii_digit());
    number
        .parse()
        .ok()
        .filter(|_| has_word && number.len() <= 3)
}

// The words of a line, without numbers, numerals and the words PART and ITEM, which change from page to page.
fn match_key(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| {
        let has_number = word.chars().any(|c| c.is_ascii_digit()) || is_numeral(word);
        !word.is_empty()
            && !has_number
            && !word.eq_ignore_ascii_case("part")
            && !word.eq_ignore_ascii_case("item")
    });
    words
        .take(KEY_WORDS)
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_numeral(word: &str) -> bool {
    (1..=8).contains(&word.len())
        && word
            .bytes()
            .all(|b| b"ivxlc".contains(&b.to_ascii_lowercase()))
}

/// The page number printed in the running head or foot of a marked page, as written.
pub fn printed_number(page: &Page) -> Option<&str> {
    let furniture = page.lines.iter().filter(|line| line.is_furniture());
    furniture
        .filter_map(|line| page_number(line.text.trim()))
        .next_back()
}

// The number in `12`, `xiv`, `F-12`, `Page 3 of 10`, `- 7 -`.
fn page_number(text: &str) -> Option<&str> {
    // No page number is longer; this also skips the work for body text.
    if text.len() > 24 {
        return None;
    }
    let bare = text
        .trim_start_matches("Page")
        .trim_start_matches("page")
        .trim();
    let first = bare
        .split(" of ")
        .next()
        .unwrap_or(bare)
        .split('/')
        .next()
        .unwrap_or(bare);
    let label =
        first.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '–' | '—' | '.' | '|'));
    let letters = label.bytes().take_while(u8::is_ascii_uppercase).count();
    let rest = label.get(letters..).unwrap_or_default();
    let digits = rest.trim_start_matches(['-', ' ']);
    let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let is_lower = label.bytes().all(|b| b.is_ascii_lowercase());
    let is_label = match letters {
        0 => is_number && !label.starts_with('0') || is_lower && is_numeral(label),
        // A separator is required: `Q4` is a quarter, `F-4` a page.
        1 | 2 => is_number && rest.starts_with(['-', ' ']),
        _ => false,
    };
    is_label.then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pt, Rect};

    fn page(lines: &[(&str, f32)]) -> Page {
        Page {
            width: Pt(61200),
            height: Pt(79200),
            lines: lines
                .iter()
                .map(|(text, y): &(&str, f32)| Line {
                    text: (*text).into(),
                    rect: Rect::new(72.0, *y, 540.0, y + 10.0),
                    ..Line::default()
                })
                .collect(),
            ..Page::default()
        }
    }

    #[test]
    fn heads_and_feet_that_recur_are_furniture() {
        let mut pages: Vec<Page> = (1..=8)
            .map(|n| {
                let head = format!("Acme PART II Item {n}");
                let foot = format!("F-{n}");
                let title = format!("Note {n} Leases");
                page(&[
                    (&head, 30.0),
                    ("only here", 50.0 + n as f32 * 7.0),
                    (&title, 200.0),
                    ("text", 300.0),
                    (&foot, 760.0),
                ])
            })
            .collect();
        pages.push(page(&[("Acme PART II Item 9", 90.0)]));
        mark(&mut pages);
        let roles = |page: &Page| page.lines.iter().map(|line| line.role).collect::<Vec<_>>();
        use LineRole::{Body, Foot, Head};
        assert!(
            pages[..8]
                .iter()
                .all(|page| roles(page) == [Head, Body, Body, Body, Foot])
        );
        assert_eq!(roles(&pages[8]), [Body]);
    }

    #[test]
    fn feet_recur_at_the_bottom_of_pages_of_any_height() {
        let mut pages: Vec<Page> = (0..6)
            .map(|n| {
                let height = 792.0 + 100.0 * n as f32;
                Page {
                    height: Pt::new(height),
                    ..page(&[("text", 300.0), ("Acme Form 10-K", height - 40.0)])
                }
            })
            .collect();
        mark(&mut pages);
        assert!(
            pages
                .iter()
                .all(|page| page.lines[1].role == LineRole::Foot)
        );
    }

    #[test]
    fn numbered_headings_are_kept_and_page_footers_are_furniture() {
        let title = |n: usize| format!("Note {n}");
        let foot = |n: usize| format!("Acme 2022 Form {}", n + 3);
        let starts = [0, 2, 3, 5, 6, 8, 10, 11];
        let mut pages: Vec<Page> = (0..12)
            .map(|n| {
                let heading = starts
                    .iter()
                    .position(|start| *start == n)
                    .map_or("text".into(), |at| title(at + 1));
                page(&[(&heading, 60.0), ("text", 300.0), (&foot(n), 760.0)])
            })
            .collect();
        mark(&mut pages);
        assert!(
            starts
                .iter()
                .all(|start| pages[*start].lines[0].role == LineRole::Body)
        );
        assert!(
            pages
                .iter()
                .all(|page| page.lines[2].role == LineRole::Foot)
        );
    }

    #[test]
    fn rows_of_contents_are_no_heads() {
        let tops = [
            (0, "Amendment XI ........ 12"),
            (1, "Amendment XXV . . . . 18"),
            (3, "Amendment I"),
            (5, "Amendment XXII"),
            (8, "Amendment XXVI"),
        ];
        // Five pages of 16 would do; three do not.
        let mut pages: Vec<Page> = (0..16)
            .map(|n| {
                let own = "word".repeat(n + 1);
                let top = tops.iter().find(|(page, _)| *page == n);
                page(&[(top.map_or(&own, |(_, text)| text), 60.0), ("text", 300.0)])
            })
            .collect();
        mark(&mut pages);
        let is_body = |page: &Page| page.lines.iter().all(|line| line.role == LineRole::Body);
        assert!(pages.iter().all(is_body));
    }

    #[test]
    fn page_numbers_are_recognized() {
        for text in ["12", "xiv", "F-12", "Page 3 of 10", "- 7 -", "3/10", "A 4"] {
            assert!(page_number(text).is_some(), "{text}");
        }
        for text in ["", "2022 10-K", "Item 7", "0042", "12,345", "IV.", "Q4"] {
            assert!(page_number(text).is_none(), "{text}");
        }
    }
}
