//! The words of a page at their places, as SVG: to select them over the image of the page, and to show a page without an image.

use maud::{Markup, html};
use stemma_archive::{PageWords, WordLine};

use crate::text::{Passage, cut_to};

// A full page of small print has 2,000 words.
const MAX_WORDS: usize = 5_000;
// Addresses are the longest words.
const MAX_WORD_BYTES: usize = 2_000;
// Share of the height of a line: letters reach from its foot to this far above it, and this is the size of its font.
const FONT_SIZE: f32 = 0.9;
const DESCENT: f32 = 0.2;
// A line whose box is this much higher than wide runs upwards. Its words have no boxes of their own.
const UPRIGHT: f32 = 2.0;

/// The words of a page, in points. Words of a line share an element, so that spaces between them are copied.
pub(crate) fn text_layer(words: &PageWords) -> Markup {
    let mut room = MAX_WORDS;
    let lines = words.lines.iter().filter(|line| !line.words.is_empty());
    let lines: Vec<_> = lines
        .filter(|line| is_level(line, words))
        .take_while(|line| {
            let fits = line.words.len() <= room;
            room = room.saturating_sub(line.words.len());
            fits
        })
        .collect();
    html! {
        @for line in lines {
            @let height = line.rect.h * words.height;
            text y=(points((line.rect.y + line.rect.h) * words.height - height * DESCENT)) font-size=(points(height * FONT_SIZE)) {
                @for word in &line.words {
                    tspan x=(points(word.rect.x * words.width)) textLength=(points((word.rect.w * words.width).max(0.1))) lengthAdjust="spacingAndGlyphs" {
                        (Passage(cut_to(&word.text, MAX_WORD_BYTES)))
                    }
                    " "
                }
            }
        }
    }
}

/// Marks of the words that text recognition is not sure of.
pub(crate) fn doubt_marks(words: &PageWords) -> Markup {
    let all = words.lines.iter().flat_map(|line| &line.words);
    html! {
        @for word in all.filter(|word| word.in_doubt).take(MAX_WORDS) {
            rect.doubtful x=(points(word.rect.x * words.width)) y=(points(word.rect.y * words.height))
                width=(points(word.rect.w * words.width)) height=(points(word.rect.h * words.height)) {}
        }
    }
}

/// A page of words, as a picture of its own.
pub(crate) fn text_page(words: &PageWords) -> String {
    let size = [words.width.max(1.0), words.height.max(1.0)];
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(size[0]) height=(size[1]) viewBox=(format!("0 0 {} {}", size[0], size[1]))
            font-family="sans-serif" {
            rect width="100%" height="100%" fill="#fff" {}
            (text_layer(words))
        }
    };
    svg.into_string()
}

fn is_level(line: &WordLine, page: &PageWords) -> bool {
    line.rect.h * page.height <= UPRIGHT * line.rect.w * page.width
        || line.words.iter().all(|word| word.text.chars().count() < 3)
}

/// Tenths of a point cannot be seen.
pub(crate) fn points(length: f32) -> String {
    format!("{length:.1}")
}

#[cfg(test)]
mod tests {
    use stemma_archive::PageWord;
    use stemma_retrieval::search::PageRect;

    use super::*;

    fn line(texts: &[&str], [x, y, w, h]: [f32; 4]) -> WordLine {
        let rect = PageRect { x, y, w, h };
        let words = texts.iter().map(|text| PageWord {
            text: (*text).into(),
            rect,
            in_doubt: false,
            other: None,
        });
        WordLine {
            rect,
            words: words.collect(),
        }
    }

    fn page(lines: Vec<WordLine>) -> PageWords {
        PageWords {
            doc_id: String::new(),
            locator: String::new(),
            page: 1,
            label: None,
            width: 100.0,
            height: 200.0,
            has_image: false,
            ocr: None,
            lines,
            extent: Vec::new(),
            reading: None,
        }
    }

    #[test]
    fn words_are_at_their_places_and_escaped() {
        let shown = text_page(&page(vec![line(&["<a>", "b"], [0.1, 0.2, 0.5, 0.05])]));
        assert!(
            shown.contains(
                "<text y=\"48.0\" font-size=\"9.0\">\
                 <tspan x=\"10.0\" textLength=\"50.0\" lengthAdjust=\"spacingAndGlyphs\">&lt;a&gt;</tspan> "
            ),
            "{shown}"
        );
    }

    #[test]
    fn lines_that_run_upwards_and_words_beyond_a_bound_are_left_out() {
        let upwards = line(&["upwards"], [0.1, 0.1, 0.1, 0.5]);
        let digit = line(&["7"], [0.1, 0.1, 0.02, 0.05]);
        let many = line(&["w"; MAX_WORDS], [0.1, 0.3, 0.8, 0.1]);
        let shown = text_layer(&page(vec![upwards, digit, many])).into_string();
        assert_eq!(shown.matches("<tspan").count(), 1, "{shown}");
        assert!(shown.contains(">7<"), "{shown}");
    }

    #[test]
    fn lines_without_words_and_ends_of_words_are_left_out() {
        let mut lines = vec![line(&[], [0.1, 0.1, 0.8, 0.05]); 100_000];
        lines.push(line(&["w".repeat(1 << 20).as_str()], [0.1, 0.1, 0.8, 0.05]));
        let shown = text_layer(&page(lines)).into_string();
        assert_eq!(shown.matches("<text").count(), 1);
        assert!(shown.len() < MAX_WORD_BYTES + 500, "{}", shown.len());
    }
}
