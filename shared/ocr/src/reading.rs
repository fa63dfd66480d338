//! Reads an image of a page: upright, straight, and with the sizes of its fonts.

use stemma_document::{Page, Turn};
use stemma_extract::pdf::{PlacedWord, lay_out_words};
use stemma_extract::{ExtractError, RecognizeRequest};

use crate::gray::Gray;
use crate::hocr::{self, ReadWord};
use crate::{DPI, skew, tesseract};

// In percent. Below, tesseract mostly saw no letters but rules, stains or letters that lie on their side.
const READABLE: u8 = 60;
// Of the characters. An upright page of bad print has more that are readable, one upside down hardly any.
const MIN_READABLE: f32 = 0.6;
// From the highest to the lowest letter of a line, in ems of its font (Times and Helvetica: 0.68 to 0.72 above the
// baseline, 0.21 below).
const LINE_HEIGHT: f32 = 0.92;
// Fonts whose measured size differs by less have the size of most of the page: the heights of a line vary with its letters.
const SAME_SIZE: f32 = 0.15;
const MIN_SIZE: f32 = 3.0;

/// Reads an image that was drawn with `scale` pixels for a point.
pub(crate) fn read(
    image: &Gray,
    scale: f32,
    request: &RecognizeRequest,
) -> Result<Page, ExtractError> {
    if skew::is_blank(image) {
        return Ok(Reading::default().page(image, scale));
    }
    let first = Reading::new(image, Turn::None, request)?;
    if first.is_legible() {
        return Ok(first.page(image, scale));
    }
    // Looking for the orientation costs as much as a quarter of a reading, so only pages that need it pay.
    let turn = match tesseract::upright_turn(image, request) {
        Some(90) => Turn::ThreeQuarters,
        Some(180) => Turn::Half,
        Some(270) => Turn::Quarter,
        _ => return Ok(first.page(image, scale)),
    };
    let upright = image.clone().turned(turn.inverse());
    let second = Reading::new(&upright, turn, request)?;
    if second.readable() > first.readable() {
        return Ok(second.page(&upright, scale));
    }
    Ok(first.page(image, scale))
}

#[derive(Default)]
struct Reading {
    words: Vec<ReadWord>,
    turn: Turn,
    // Degrees.
    skew: f32,
}

impl Reading {
    fn new(image: &Gray, turn: Turn, request: &RecognizeRequest) -> Result<Self, ExtractError> {
        let skew = skew::measure(image);
        let hocr = if skew == 0.0 {
            tesseract::recognize(image, DPI, request)?
        } else {
            tesseract::recognize(&image.straightened(skew), DPI, request)?
        };
        let mut words = hocr::parse(&hocr);
        words.retain(is_word);
        Ok(Self { words, turn, skew })
    }

    // Characters of upright words that were read well.
    fn readable(&self) -> usize {
        let good = |word: &&ReadWord| word.confidence >= READABLE && !word.is_sideways;
        self.words.iter().filter(good).map(length).sum()
    }

    fn is_legible(&self) -> bool {
        let all: usize = self.words.iter().map(length).sum();
        all > 0 && self.readable() as f32 >= MIN_READABLE * all as f32
    }

    fn page(&self, image: &Gray, scale: f32) -> Page {
        let usual = self.usual_height();
        let placed: Vec<PlacedWord> = self
            .words
            .iter()
            .map(|word| PlacedWord {
                text: word.text.clone(),
                x0: word.x0 / scale,
                x1: word.x1 / scale,
                baseline: word.baseline / scale,
                size: font_size(word.line_height, usual, scale),
                confidence: word.confidence,
            })
            .collect();
        let width = image.width as f32 / scale;
        let height = image.height as f32 / scale;
        let skew = (self.skew * 100.0).round() as i16;
        let mut page = lay_out_words(width, height, skew, &placed);
        page.turn = self.turn;
        page
    }

    // The median of all characters, in pixels.
    fn usual_height(&self) -> f32 {
        let mut heights: Vec<(f32, usize)> = self
            .words
            .iter()
            .map(|word| (word.line_height, length(word)))
            .collect();
        heights.sort_by(|one, other| one.0.total_cmp(&other.0));
        let half = heights.iter().map(|(_, count)| count).sum::<usize>() / 2;
        let mut before = 0;
        let median = heights.iter().find(|(_, count)| {
            before += count;
            before > half
        });
        median.map_or(0.0, |(height, _)| *height)
    }
}

fn length(word: &ReadWord) -> usize {
    word.text.chars().count()
}

// Stains and rules are read as punctuation.
fn is_word(word: &ReadWord) -> bool {
    word.confidence >= READABLE || word.text.contains(char::is_alphanumeric)
}

// In points, rounded to halves, as sizes are set.
fn font_size(height: f32, usual: f32, scale: f32) -> f32 {
    let height = if (height - usual).abs() < SAME_SIZE * usual {
        usual
    } else {
        height
    };
    let points = height / LINE_HEIGHT / scale;
    ((points * 2.0).round() / 2.0).max(MIN_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nearly_the_same_height_have_one_font_size() {
        let scale = 300.0 / 72.0;
        let size = |height| font_size(height, 40.0, scale);
        assert_eq!(size(40.0), 10.5);
        assert_eq!(size(43.0), size(37.0));
        assert_eq!(size(60.0), 15.5);
        assert_eq!(size(1.0), MIN_SIZE);
    }
}
