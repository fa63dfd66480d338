//! Lays out words whose places are known already, as text recognition finds them.

use stemma_document::{Page, PageOrigin, Pt, Recognition, WordReading};

use super::glyph::{Direction, Glyph, Writing};
use super::page_layout::lay_out;
use super::right_to_left::order_as_displayed;

/// A word on an upright page, in points from its top left corner.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedWord {
    pub text: String,
    pub x0: f32,
    pub x1: f32,
    pub baseline: f32,
    pub size: f32,
    pub bold: bool,
    pub italic: bool,
    pub reading: WordReading,
}

// In ems: the advance of a space in most faces.
const SPACE: f32 = 0.25;

/// Lays out recognized words as the words of text pages: rows across the cells of tables, columns one after another.
/// `printed_pages` are the words of each page that one image shows, in the order in which they are read.
pub fn lay_out_words(
    width: f32,
    height: f32,
    skew: i16,
    printed_pages: &[Vec<PlacedWord>],
) -> Page {
    let glyphs: Vec<Vec<Glyph>> = printed_pages
        .iter()
        .map(|words| words.iter().flat_map(glyphs).collect())
        .collect();
    let pages = glyphs.iter().map(|glyphs| lay_out(width, height, glyphs));
    let pages: Vec<Page> = pages.collect();
    let readings = pages.iter().zip(printed_pages);
    let readings = readings.flat_map(|(page, words)| readings_of(page, words));
    let recognition = Recognition::new(skew, readings);
    let mut page = lay_out(width, height, &[]);
    page.lines = pages.into_iter().flat_map(|page| page.lines).collect();
    page.origin = PageOrigin::Recognized(Box::new(recognition));
    page
}

// For each word of the lines of a page.
fn readings_of(page: &Page, words: &[PlacedWord]) -> impl Iterator<Item = WordReading> {
    page.lines.iter().flat_map(|line| {
        let on_line =
            |read: &&PlacedWord| (line.rect.y0..=line.rect.y1).contains(&Pt::new(read.baseline));
        let sources: Vec<&PlacedWord> = words.iter().filter(on_line).collect();
        line.words.iter().map(move |word| {
            reading_of(
                sources
                    .iter()
                    .filter(|read| {
                        let middle = Pt::new(f32::midpoint(read.x0, read.x1));
                        (word.x0..=word.x1).contains(&middle)
                    })
                    .copied(),
            )
        })
    })
}

// The reading of a word that consists of these. A word that cannot be traced is as unsure as the least sure one.
fn reading_of<'w>(parts: impl Iterator<Item = &'w PlacedWord> + Clone) -> WordReading {
    let confidences = parts.clone().map(|part| part.reading.confidence);
    let is_disputed = parts.clone().any(|part| part.reading.other.is_some());
    let other = parts.map(|part| part.reading.other.as_ref().unwrap_or(&part.text).as_str());
    WordReading {
        confidence: confidences.min().unwrap_or(0),
        other: is_disputed.then(|| other.collect()),
    }
}

// Letters share the width of their word, because only its box is known. A space follows: the gap to the next word may be
// narrow.
fn glyphs(word: &PlacedWord) -> Vec<Glyph> {
    let count = word.text.chars().count().max(1);
    let advance = ((word.x1 - word.x0) / count as f32).max(0.0);
    let glyph = |text, x, advance| Glyph {
        text,
        x,
        y: word.baseline,
        advance,
        size: word.size,
        writing: Writing {
            direction: Direction::Right,
            tilt: 0,
        },
        bold: word.bold,
        italic: word.italic,
        invisible: false,
        hidden: None,
        appearance: 0,
    };
    let mut letters: Vec<char> = word.text.chars().collect();
    order_as_displayed(&mut letters);
    let mut all: Vec<Glyph> = letters
        .into_iter()
        .enumerate()
        .map(|(at, text)| glyph(text, word.x0 + at as f32 * advance, advance))
        .collect();
    all.push(glyph(' ', word.x1, SPACE * word.size));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, x0: f32, baseline: f32, confidence: u8) -> PlacedWord {
        PlacedWord {
            text: text.into(),
            x0,
            x1: x0 + 5.0 * text.len() as f32,
            baseline,
            size: 10.0,
            bold: false,
            italic: false,
            reading: WordReading {
                confidence,
                other: None,
            },
        }
    }

    #[test]
    fn the_cells_of_a_row_are_one_line_and_words_keep_their_confidence() {
        let words = vec![
            word("Net", 72.0, 100.0, 96),
            word("sales", 90.0, 100.4, 95),
            word("Costs", 72.0, 114.0, 91),
            word("1,234", 400.0, 100.2, 61),
            word("567", 410.0, 114.1, 90),
        ];
        let page = lay_out_words(612.0, 792.0, 0, &[words]);
        assert_eq!(page.text(), "Net sales 1,234\nCosts 567");
        let read = page.recognition().unwrap();
        assert_eq!(read.confidences, [96, 95, 61, 91, 90]);
        assert_eq!(read.disputed, []);
    }

    #[test]
    fn words_keep_what_the_second_reader_read() {
        let mut words = vec![
            word("Sales", 72.0, 100.0, 96),
            word("$", 400.0, 100.0, 96),
            word("1,234", 405.0, 100.0, 60),
        ];
        words[2].reading.other = Some("1,284".into());
        let page = lay_out_words(612.0, 792.0, 0, &[words]);
        assert_eq!(page.text(), "Sales $ 1,234");
        let read = page.recognition().unwrap();
        assert_eq!(read.confidences, [96, 96, 60]);
        let disputed: Vec<_> = read
            .disputed
            .iter()
            .map(|one| (one.word, &*one.other))
            .collect();
        assert_eq!(disputed, [(2, "1,284")]);
    }

    #[test]
    fn printed_pages_side_by_side_are_read_one_after_the_other() {
        let left = vec![word("One", 72.0, 100.0, 96), word("two", 72.0, 114.0, 95)];
        let right = vec![
            word("three", 684.0, 100.0, 94),
            word("four", 684.0, 114.0, 93),
        ];
        let page = lay_out_words(1224.0, 792.0, 0, &[left, right]);
        assert_eq!(page.text(), "One\ntwo\nthree\nfour");
        assert_eq!(page.recognition().unwrap().confidences, [96, 95, 94, 93]);
        assert_eq!(page.width, Pt::new(1224.0));
    }
}
