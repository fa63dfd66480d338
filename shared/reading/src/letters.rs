//! Letters and digits of any script, as headings and numbers need them.
//!
//! Most scripts have no capitals. A rule that asks for a capital asks [`opens_title`], so that text of such a script does not
//! fail it.

use unicode_normalization::char::is_combining_mark;

/// Whether it is a small letter of a script whose sentences and titles start with capitals. Georgian has capitals, but
/// sets only whole words in them.
pub fn is_small(c: char) -> bool {
    c.is_lowercase() && !matches!(c, '\u{10D0}'..='\u{10FF}')
}

/// Whether it is a letter of a script whose titles do not start with capitals.
pub fn is_caseless(c: char) -> bool {
    !c.is_ascii() && c.is_alphabetic() && !c.is_uppercase() && !is_small(c)
}

/// Whether a title may start with this letter: a capital, or a letter of a script without them.
///
/// ```
/// use stemma_reading::letters::opens_title;
/// assert!(['R', 'Д', 'מ', 'م', 'प', 'บ', '第', 'შ'].into_iter().all(opens_title));
/// assert!(!['r', 'д', '1', '('].into_iter().any(opens_title));
/// ```
pub fn opens_title(c: char) -> bool {
    c.is_uppercase() || is_caseless(c)
}

/// Whether it is a letter of a script whose words have no spaces between them, and its words are some four letters long.
/// Chinese and Japanese are apart: see [`is_cjk`](crate::terms::is_cjk).
pub fn is_unspaced(c: char) -> bool {
    // Thai and Lao, Burmese, Khmer.
    matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}')
        && c.is_alphabetic()
}

/// Whether a mark belongs to the letter before it. Keycaps and choices of a glyph say nothing about a word.
pub fn is_mark(c: char) -> bool {
    c >= '\u{300}'
        && is_combining_mark(c)
        && !matches!(c, '\u{20D0}'..='\u{20FF}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Whether a character between letters cannot be seen: joiners, and marks of direction, which could hide a word.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{61C}' | '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character belongs to a word.
pub fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

// Arabic, Persian, N'Ko, Devanagari, Bengali, Gurmukhi, Gujarati, Oriya, Tamil, Telugu, Kannada, Malayalam, Thai, Lao, Tibetan,
// Burmese, Khmer, Mongolian, and full width.
const ZEROS: [char; 19] = [
    '\u{660}', '\u{6F0}', '\u{7C0}', '\u{966}', '\u{9E6}', '\u{A66}', '\u{AE6}', '\u{B66}',
    '\u{BE6}', '\u{C66}', '\u{CE6}', '\u{D66}', '\u{E50}', '\u{ED0}', '\u{F20}', '\u{1040}',
    '\u{17E0}', '\u{1810}', '\u{FF10}',
];

/// The value of a decimal digit of any script.
pub fn digit_value(c: char) -> Option<u32> {
    if c.is_ascii() {
        return c.to_digit(10);
    }
    // The digits of a script are in order from its zero.
    let zero = ZEROS
        .into_iter()
        .rfind(|zero| *zero <= c)
        .filter(|_| c.is_numeric())?;
    Some(c as u32 - zero as u32).filter(|digit| *digit < 10)
}

/// A number in any digits with those of ASCII: `१.२` is `1.2`.
pub fn plain_digits(text: &str) -> String {
    text.chars()
        .map(|c| {
            let digit = digit_value(c).and_then(|digit| char::from_digit(digit, 10));
            digit.unwrap_or(if c == '．' { '.' } else { c })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_scripts_have_values() {
        for digits in [
            "123",
            "١٢٣",
            "۱۲۳",
            "१२३",
            "১২৩",
            "௧௨௩",
            "๑๒๓",
            "១២៣",
            "１２３",
        ] {
            assert_eq!(plain_digits(digits), "123", "{digits}");
        }
        // Numbers that are no decimal digits.
        assert!(
            ['௰', '፩', 'Ⅷ', '½', 'a']
                .into_iter()
                .all(|c| digit_value(c).is_none())
        );
    }

    #[test]
    fn only_letters_of_scripts_with_capitals_are_small() {
        assert!(['a', 'д', 'ω', 'ա'].into_iter().all(is_small));
        assert!(['შ', 'א', 'ى', 'क', 'ก', '한'].into_iter().all(is_caseless));
        assert!(!['A', 'a', '1', '،', '।'].into_iter().any(is_caseless));
    }
}
