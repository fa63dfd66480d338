//! Raised marks of notes, which texts have as superscript characters: `8³ percent` is 8 percent with note 3.

use std::borrow::Cow;

// Longer raised texts are words, such as the `th` of an ordinal, and no marks.
const MAX_MARK_CHARS: usize = 7;
// A mark has so many letters; `st` and `nd` belong to a number.
const MAX_LETTERS: usize = 1;
const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
// From `a` to `z`. Unicode has no raised `q`.
const LETTERS: [char; 26] = [
    'ᵃ', 'ᵇ', 'ᶜ', 'ᵈ', 'ᵉ', 'ᶠ', 'ᵍ', 'ʰ', 'ⁱ', 'ʲ', 'ᵏ', 'ˡ', 'ᵐ', 'ⁿ', 'ᵒ', 'ᵖ', 'q', 'ʳ', 'ˢ',
    'ᵗ', 'ᵘ', 'ᵛ', 'ʷ', 'ˣ', 'ʸ', 'ᶻ',
];

/// The superscripts of a raised text: of digits, single letters, and parentheses around them. `None` if it is no mark.
///
/// ```
/// use stemma_document::note_marks::raised;
///
/// assert_eq!(raised("(1)").as_deref(), Some("⁽¹⁾"));
/// assert_eq!(raised("th"), None);
/// ```
pub fn raised(text: &str) -> Option<String> {
    let text = text.trim();
    let mut parts = text.split(|c: char| !c.is_alphanumeric());
    let is_mark = text.chars().count() <= MAX_MARK_CHARS
        && text.contains(char::is_alphanumeric)
        && parts.all(|part| {
            part.chars().all(|c| c.is_ascii_digit()) || part.chars().count() <= MAX_LETTERS
        });
    text.chars()
        .map(superscript)
        .collect::<Option<String>>()
        .filter(|_| is_mark)
}

fn superscript(c: char) -> Option<char> {
    match c {
        '0'..='9' => DIGITS.get(c as usize - '0' as usize).copied(),
        'q' => None,
        'a'..='z' => LETTERS.get(c as usize - 'a' as usize).copied(),
        '(' => Some('⁽'),
        ')' => Some('⁾'),
        // Between two marks.
        ',' => Some('˒'),
        c if is_raised(c) => Some(c),
        _ => None,
    }
}

/// Whether a character is a superscript, and no part of a word or a number.
pub fn is_raised(c: char) -> bool {
    !c.is_ascii() && plain(c).is_some()
}

// `¹` as `1`.
fn plain(c: char) -> Option<char> {
    match c {
        '⁽' => return Some('('),
        '⁾' => return Some(')'),
        '˒' => return Some(','),
        'q' => return None,
        _ => {}
    }
    let digit = DIGITS.iter().position(|digit| *digit == c);
    let digit = digit.and_then(|digit| char::from_digit(u32::try_from(digit).ok()?, 10));
    digit.or_else(|| {
        let mut letters = (b'a'..).zip(LETTERS);
        Some(letters.find(|(_, letter)| *letter == c)?.0.into())
    })
}

/// A text without its raised marks.
pub fn without_raised(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || !text.contains(is_raised) {
        true => Cow::Borrowed(text),
        false => text.chars().filter(|c| !is_raised(*c)).collect(),
    }
}

/// The raised marks of a text, without parentheses: `1`, `a`.
pub fn marks_in(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let plain: String = text
        .chars()
        .map(|c| plain(c).filter(|_| is_raised(c)).unwrap_or(' '))
        .collect();
    let parts = plain.split(|c: char| !c.is_ascii_alphanumeric());
    parts
        .filter(|mark| !mark.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_letters_are_marks_and_words_are_none() {
        for (text, expected) in [
            ("3", Some("³")),
            (" 12 ", Some("¹²")),
            ("(a)", Some("⁽ᵃ⁾")),
            ("1,2", Some("¹˒²")),
            ("th", None),
            ("®", None),
            ("q", None),
            ("-", None),
        ] {
            assert_eq!(raised(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_told_apart_from_its_marks() {
        assert_eq!(without_raised("$1,234² million"), "$1,234 million");
        assert_eq!(marks_in("Revenue⁽¹⁾, net ᵃ and ¹˒²"), ["1", "a", "1", "2"]);
        assert!(!is_raised('q') && !is_raised('é') && is_raised('²'));
    }
}
