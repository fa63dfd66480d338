//! Detects garbled text, which comes from fonts without a usable mapping to Unicode, and pages whose text may be drawn.

use stemma_document::Page;

use super::glyph::UNMAPPED;
use super::ink::Ink;

const MAX_NOISE: f64 = 0.3;
const MAX_UNPRONOUNCEABLE: f64 = 0.6;
const MAX_UNREADABLE: f64 = 0.01;
// Shares of the page. A page without words may have a small logo; one with few words has small pictures.
const MIN_IMAGE: f64 = 0.01;
const MUCH_IMAGE: f64 = 0.5;
const NEARLY_ALL: f64 = 0.85;
const STAMP_WORDS: usize = 60;
const STAMP_AREA: f64 = 0.03;
// A letter has some ten curves.
const MIN_CURVES: u32 = 200;
const MANY_CURVES: u32 = 2_000;
const FEW_WORDS: usize = 20;
// Shorter text is not judged.
const MIN_CHARACTERS: usize = 40;
const MIN_WORDS: usize = 15;

pub(super) fn is_garbled(page: &Page) -> bool {
    let mut total = 0;
    let mut noise = 0;
    let characters = page.lines.iter().flat_map(|line| line.text.chars());
    for c in characters.filter(|c| *c != ' ') {
        total += 1;
        noise += usize::from(is_private(c) || c == UNMAPPED);
    }
    if total < MIN_CHARACTERS {
        return false;
    }
    noise as f64 > MAX_NOISE * total as f64 || is_unpronounceable(page)
}

/// Number of readable characters, to choose between two readings.
pub(super) fn readable_chars(page: &Page) -> usize {
    page.lines
        .iter()
        .flat_map(|line| line.text.chars())
        .filter(|c| c.is_alphanumeric() && !is_private(*c))
        .count()
}

/// Number of words with characters that cannot be read, if it matters: more than one in a hundred, or one in a number.
/// A single character alone is an ornament.
pub(super) fn unreadable_words(page: &Page) -> Option<usize> {
    let words = page
        .lines
        .iter()
        .filter(|line| line.text.contains(UNMAPPED))
        .flat_map(|line| line.text.split(' '))
        .filter(|word| word.contains(UNMAPPED) && word.chars().nth(1).is_some());
    let count = words.clone().count();
    let in_number = words
        .clone()
        .any(|word| word.contains(|c: char| c.is_ascii_digit()));
    let total: usize = page.lines.iter().map(|line| line.words.len()).sum();
    (in_number || count as f64 > MAX_UNREADABLE * total as f64).then_some(count)
}

/// Whether a page has so much ink and so few words that text may be drawn.
pub(super) fn may_hide_text(page: &Page, ink: Ink) -> bool {
    let words: usize = page.lines.iter().map(|line| line.words.len()).sum();
    if words == 0 {
        ink.images >= MIN_IMAGE || ink.curves >= MIN_CURVES
    } else {
        words < FEW_WORDS && (ink.images >= MUCH_IMAGE || ink.curves >= MANY_CURVES)
    }
}

/// Whether text recognition may read more than the file states: the page has no text or text without meaning, and shows
/// something, or pictures cover nearly all of it and its few words hardly anything. Other text of a file is never doubted.
pub(super) fn is_picture(page: &Page, ink: Ink, garbled: bool) -> bool {
    garbled || may_hide_text(page, ink) || (ink.images >= NEARLY_ALL && is_stamped(page))
}

// A stamp, a header of a fax or a court takes a line or two; the shortest page of prose takes more.
fn is_stamped(page: &Page) -> bool {
    let area = |width: f64, height: f64| width * height;
    let text: f64 = page
        .lines
        .iter()
        .map(|line| area(line.rect.width().into(), line.rect.height().into()))
        .sum();
    let whole = area(page.width.points().into(), page.height.points().into());
    let words: usize = page.lines.iter().map(|line| line.words.len()).sum();
    words < STAMP_WORDS && text < STAMP_AREA * whole
}

fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

fn is_unpronounceable(page: &Page) -> bool {
    let words = page.lines.iter().flat_map(|line| line.text.split(' '));
    let long: Vec<&str> = words
        .filter(|w| w.len() >= 4 && w.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    let odd = long
        .iter()
        .filter(|word| !word.chars().any(|c| "aeiouy".contains(c)))
        .count();
    long.len() >= MIN_WORDS && odd as f64 > MAX_UNPRONOUNCEABLE * long.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_document::Line;

    fn page(text: &str) -> Page {
        Page {
            lines: vec![Line {
                text: text.into(),
                ..Line::default()
            }],
            ..Page::default()
        }
    }

    #[test]
    fn garbled_text_is_detected() {
        let prose =
            "the quick brown fox jumps over the lazy dog and then rests for a while in the shade "
                .repeat(3);
        assert!(!is_garbled(&page(&prose)));
        assert!(is_garbled(&page(&format!(
            "{prose}{}",
            "\u{fffd}".repeat(500)
        ))));
        assert!(is_garbled(&page(&"xkcd zqrt bcdf ghjk lmnp ".repeat(10))));
        assert!(is_garbled(&page(&"\u{e001}\u{e002} ".repeat(40))));
        assert!(!is_garbled(&page("RSTLN\u{fffd}\u{fffd}\u{fffd}")));
    }
}
