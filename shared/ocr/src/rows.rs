//! Whether the lines of a page are one below the other, as those of most filings, or side by side in columns of text.
//!
//! Between lines that run across a page, tables included, its rows of pixels are empty. Lines of neighboring columns of text are seldom at the
//! same height, so they leave hardly any empty row, and neither do pictures.

use std::ops::Range;

use crate::gray::Gray;
use crate::skew;

// Pixels of the page for one of the image that is looked at: of 300 dpi 150.
const SHRINK: usize = 2;
// Of that image: 19 points. The letters of a line of print are lower, but for large titles.
const MAX_LINE_HEIGHT: usize = 40;
// Of the ink in a full row. Borders and specks have less.
const EMPTY: f32 = 0.03;
const FULL_PERCENTILE: usize = 90;
// Of the ink of a page. On 200-dpi copies of 32 pages of filings (half A) no ink is in higher lines, on pages with columns more than 0.07.
const MAX_HIGH_INK: f32 = 0.03;

/// Whether blank rows of pixels separate all lines of a straight page.
pub(crate) fn are_separate(straight: &Gray) -> bool {
    let small = straight.shrunk(SHRINK);
    let ink = skew::ink_mask(&small);
    let rows = ink.chunks_exact(small.width);
    let profile: Vec<usize> = rows
        .map(|row| row.iter().filter(|ink| **ink).count())
        .collect();
    let all: usize = profile.iter().sum();
    let empty = (full_row(&profile) as f32 * EMPTY) as usize;
    let high = runs(&profile, empty).filter(|rows| rows.len() > MAX_LINE_HEIGHT);
    let high: usize = high.flat_map(|rows| &profile[rows]).sum();
    high as f32 <= MAX_HIGH_INK * all as f32
}

// The ink of the fullest rows, but for rules.
fn full_row(profile: &[usize]) -> usize {
    let mut inked: Vec<usize> = profile.iter().copied().filter(|ink| *ink > 0).collect();
    inked.sort_unstable();
    let at = inked.len() * FULL_PERCENTILE / 100;
    inked.get(at).copied().unwrap_or(0)
}

/// Neighboring rows with more ink than `empty`.
pub(crate) fn runs(profile: &[usize], empty: usize) -> impl Iterator<Item = Range<usize>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let top = next + profile[next..].iter().position(|ink| *ink > empty)?;
        let height = profile[top..].iter().position(|ink| *ink <= empty);
        next = height.map_or(profile.len(), |height| top + height);
        Some(top..next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Black lines on white, 40 pixels high, 60 apart; in the right half moved down.
    fn page(moved: usize, is_speck: impl Fn(usize, usize) -> bool) -> Gray {
        let paper = Gray::new(1_200, 1_200, vec![255; 1_440_000]).unwrap();
        paper.map(|x, y| {
            let from_top = y + 60 - if x < 600 { 0 } else { moved };
            let is_line = from_top % 60 < 40 && (x / 10) % 2 == 0;
            if is_line || is_speck(x, y) { 0 } else { 255 }
        })
    }

    #[test]
    fn lines_across_a_page_are_separate() {
        assert!(are_separate(&page(0, |_, _| false)));
        assert!(are_separate(&crate::orientation::tests::page(2)));
    }

    #[test]
    fn lines_of_columns_at_other_heights_are_not_separate() {
        assert!(!are_separate(&page(30, |_, _| false)));
    }

    #[test]
    fn specks_and_borders_do_not_join_lines() {
        let page = page(0, |x, y| x < 4 || (x * 7 + y * 13) % 997 == 0);
        assert!(are_separate(&page));
    }
}
