//! Detects garbled text, which comes from fonts without a usable mapping to Unicode.

use stemma_document::Page;

const MAX_NOISE: f64 = 0.3;
const MAX_UNPRONOUNCEABLE: f64 = 0.6;
// Shorter text is not judged.
const MIN_CHARACTERS: usize = 40;
const MIN_WORDS: usize = 15;

/// Whether the text is garbled. `unmapped` is the number of codes without a character.
pub(super) fn is_garbled(page: &Page, unmapped: u32) -> bool {
    let mut total = unmapped as usize;
    let mut noise = unmapped as usize;
    let characters = page.lines.iter().flat_map(|line| line.text.chars());
    for c in characters.filter(|c| *c != ' ') {
        total += 1;
        noise += usize::from(is_private(c));
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
        assert!(!is_garbled(&page(&prose), 0));
        assert!(is_garbled(&page(&prose), 500));
        assert!(is_garbled(
            &page(&"xkcd zqrt bcdf ghjk lmnp ".repeat(10)),
            0
        ));
        assert!(is_garbled(&page(&"\u{e001}\u{e002} ".repeat(40)), 0));
        assert!(!is_garbled(&page("RSTLN"), 3));
    }
}
