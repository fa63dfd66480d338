//! Numbers that titles and labels count with: Roman numerals, letters and Chinese numbers.

use stemma_document::roman_numerals::format_roman;

// No numbering goes on further; `MIX` and `CD` are words.
const MAX_ROMAN: u32 = 199;
// `CLXXXVIII`.
const ROMAN_BYTES: usize = 9;

/// A Roman numeral up to 199 in its usual form, in either case.
pub fn parse_roman(text: &str) -> Option<u32> {
    if text.len() > ROMAN_BYTES {
        return None;
    }
    let mut total = 0u32;
    let mut behind = 0;
    for byte in text.bytes().rev() {
        let value = match byte.to_ascii_lowercase() {
            b'i' => 1,
            b'v' => 5,
            b'x' => 10,
            b'l' => 50,
            b'c' => 100,
            _ => return None,
        };
        total = if value < behind {
            total.checked_sub(value)?
        } else {
            total + value
        };
        behind = value;
    }
    let is_usual = format_roman(total).eq_ignore_ascii_case(text);
    ((1..=MAX_ROMAN).contains(&total) && is_usual).then_some(total)
}

/// The place of a single letter in the alphabet, in either case.
pub fn parse_letter(text: &str) -> Option<u32> {
    match text.as_bytes() {
        [byte] if byte.is_ascii_alphabetic() => {
            Some(u32::from(byte.to_ascii_lowercase() - b'a') + 1)
        }
        _ => None,
    }
}

/// A Chinese or Arabic digit, 10 or 100.
pub fn han_digit(c: char) -> Option<u32> {
    let digits = "〇一二三四五六七八九".chars();
    let digit = (0..).zip(digits).find(|(_, digit)| *digit == c);
    digit
        .map(|(value, _)| value)
        .or_else(|| c.to_digit(10))
        .or(match c {
            '零' => Some(0),
            '十' => Some(10),
            '百' => Some(100),
            _ => None,
        })
}

/// `十二` 12, `二十` 20, `一百零三` 103, `12`.
pub fn parse_han(text: &str) -> Option<u32> {
    let mut total = 0u32;
    let mut digits = 0u32;
    for c in text.chars().take(6) {
        match han_digit(c)? {
            unit @ (10 | 100) => {
                total = total.checked_add(digits.max(1).checked_mul(unit)?)?;
                digits = 0;
            }
            digit => digits = digits.checked_mul(10)?.checked_add(digit)?,
        }
    }
    Some(total + digits).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roman_numerals_have_their_usual_form() {
        assert_eq!(
            ["IX", "xl", "CXCIX", "C"].map(parse_roman),
            [Some(9), Some(40), Some(199), Some(100)]
        );
        for text in ["IIX", "civil", "CC", "", "IIIIIIIIX", "A"] {
            assert_eq!(parse_roman(text), None, "{text}");
        }
    }

    #[test]
    fn chinese_numbers_have_tens_and_hundreds() {
        assert_eq!(
            ["十二", "一百零三", "二十", "一〇", "12"].map(parse_han),
            [Some(12), Some(103), Some(20), Some(10), Some(12)]
        );
        assert_eq!((parse_han(""), parse_han("甲")), (None, None));
    }
}
