//! What looks like letters on a page, but is in no word that was read.
//!
//! Tesseract leaves out some of what it does not take for text: in one mode large titles above small print, in another narrow columns of numbers.
//! Alone on a page, most of these can be read.

use std::ops::{Range, RangeInclusive};

use crate::gray::Gray;
use crate::hocr::ReadWord;
use crate::skew;

// Pixels of the page for one of the image on which letters are searched for.
const SHRINK: usize = 2;
// Share of the usual height of a word: letters of a small and of a large font.
const LETTER_HEIGHT: RangeInclusive<f32> = 0.5..=3.0;
// Share of that height. Letters that touch are wider; rules and frames are wider still.
const MAX_LETTER_WIDTH: f32 = 4.0;
// Of the box around a letter. Frames and scratches have less ink.
const MIN_FILL: f32 = 0.1;
// Pixels of the page around a word, where its edges are blurred.
const WORD_MARGIN: f32 = 3.0;
// Pixels of the page above and below what was not read.
const ROW_MARGIN: usize = 20;

/// Rows of a page without the words that were read.
#[derive(Debug)]
pub(crate) struct UnreadRows {
    pub(crate) image: Gray,
    /// First row, from the top of the page.
    pub(crate) first: usize,
}

impl UnreadRows {
    /// `None` if nothing but the words looks like letters.
    pub(crate) fn find(page: &Gray, words: &[&ReadWord]) -> Option<Self> {
        let usual = usual_height(words)?;
        let small = page.shrunk(SHRINK);
        let ink = skew::ink_mask(&small).into_iter().map(u8::from).collect();
        let mut ink = Gray::new(small.width, small.height, ink)?;
        for word in words {
            ink.fill(spans(word, SHRINK), 0);
        }
        let letters = components(&ink).into_iter().filter(|part| {
            let [width, height] =
                [&part.columns, &part.rows].map(|side| (side.len() * SHRINK) as f32);
            let pixels = (part.pixels * SHRINK * SHRINK) as f32;
            LETTER_HEIGHT.contains(&(height / usual))
                && width <= usual * MAX_LETTER_WIDTH
                && pixels >= MIN_FILL * width * height
        });
        let rows = letters
            .map(|part| part.rows)
            .reduce(|left, right| left.start.min(right.start)..left.end.max(right.end))?;
        let mut image = page.clone();
        let paper = page.quantile(0.5);
        for word in words {
            image.fill(spans(word, 1), paper);
        }
        let first = (rows.start * SHRINK).saturating_sub(ROW_MARGIN);
        let image = image.rows_between(first..rows.end * SHRINK + ROW_MARGIN)?;
        Some(Self { image, first })
    }
}

fn usual_height(words: &[&ReadWord]) -> Option<f32> {
    let mut heights: Vec<f32> = words.iter().map(|word| word.height).collect();
    heights.sort_by(f32::total_cmp);
    heights.get(heights.len() / 2).copied()
}

// The columns and rows of a word with its margin, in an image that has one pixel for `shrink` × `shrink`.
fn spans(word: &ReadWord, shrink: usize) -> [Range<usize>; 2] {
    let at = |pixel: f32| (pixel.max(0.0) / shrink as f32) as usize;
    let span = |from: f32, to: f32| at(from - WORD_MARGIN)..at(to + WORD_MARGIN) + 1;
    [
        span(word.x0, word.x1),
        span(word.top, word.top + word.height),
    ]
}

// Pixels of ink that touch.
struct Component {
    columns: Range<usize>,
    rows: Range<usize>,
    pixels: usize,
}

// Components of an image in which pixels other than 0 are ink.
fn components(ink: &Gray) -> Vec<Component> {
    let mut ink = ink.clone();
    let mut found = Vec::new();
    let mut open = Vec::new();
    for y in 0..ink.height {
        for x in 0..ink.width {
            if !ink.take(x, y) {
                continue;
            }
            let mut part = Component {
                columns: x..x + 1,
                rows: y..y + 1,
                pixels: 0,
            };
            open.push((x, y));
            while let Some((x, y)) = open.pop() {
                part.pixels += 1;
                part.columns = part.columns.start.min(x)..part.columns.end.max(x + 1);
                part.rows = part.rows.start.min(y)..part.rows.end.max(y + 1);
                let rows = y.saturating_sub(1)..(y + 2).min(ink.height);
                for y in rows {
                    for x in x.saturating_sub(1)..(x + 2).min(ink.width) {
                        if ink.take(x, y) {
                            open.push((x, y));
                        }
                    }
                }
            }
            found.push(part);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: u8 = 200;

    fn page(boxes: &[[usize; 4]]) -> Gray {
        let paper = Gray::new(600, 600, vec![PAPER; 360_000]).unwrap();
        let inside = |span: [usize; 2], at| (span[0]..span[1]).contains(&at);
        paper.map(|x, y| {
            let is_ink = boxes
                .iter()
                .any(|[x0, x1, y0, y1]| inside([*x0, *x1], x) && inside([*y0, *y1], y));
            if is_ink { 20 } else { PAPER }
        })
    }

    fn word(x0: f32, x1: f32, top: f32) -> ReadWord {
        ReadWord {
            text: "word".into(),
            x0,
            x1,
            top,
            height: 30.0,
            baseline: top + 30.0,
            line_height: 40.0,
            confidence: 95,
            is_sideways: false,
            other: None,
        }
    }

    #[test]
    fn pages_of_which_all_was_read_have_no_unread_rows() {
        let rule = [10, 590, 300, 303];
        let dot = [300, 306, 400, 406];
        let page = page(&[[100, 200, 100, 130], rule, dot]);
        let word = word(100.0, 200.0, 100.0);
        assert!(UnreadRows::find(&page, &[&word]).is_none());
        assert!(
            UnreadRows::find(&page, &[]).is_none(),
            "no letters to compare with"
        );
    }

    #[test]
    fn large_titles_and_single_digits_are_unread_and_words_are_blank() {
        let title = [200, 260, 20, 90];
        let digit = [500, 515, 402, 430];
        let page = page(&[title, [100, 200, 200, 230], [100, 200, 400, 430], digit]);
        let words = [word(100.0, 200.0, 200.0), word(100.0, 200.0, 400.0)];
        let unread = UnreadRows::find(&page, &words.each_ref()).unwrap();
        assert_eq!((unread.first, unread.image.height), (0, 450));
        let ink = unread
            .image
            .rows()
            .flatten()
            .filter(|pixel| **pixel != PAPER);
        assert_eq!(ink.count(), 60 * 70 + 15 * 28);
        let unread = UnreadRows::find(&page, &[&words[0], &words[1], &word(200.0, 260.0, 60.0)]);
        assert!(unread.is_some(), "half of the title is left");
    }
}
