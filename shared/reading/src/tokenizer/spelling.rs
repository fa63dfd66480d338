//! One spelling for each word of a script that has several: without points and marks that are mostly left out, and with plain
//! letters and digits.

use std::borrow::Cow;

use crate::letters::{digit_value, is_invisible};

/// The plain spelling of a word in NFKC and lower case.
pub(super) fn plain(word: &str) -> Cow<'_, str> {
    if word.is_ascii() || !word.chars().any(|c| plain_letter(c) != Some(c)) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(word.chars().filter_map(plain_letter).collect())
}

// `None` for marks that are left out.
fn plain_letter(c: char) -> Option<char> {
    Some(match c {
        _ if c.is_ascii() && c != '"' => c,
        _ if is_invisible(c) => return None,
        // Points and accents of Hebrew, quotes within its words.
        '\u{591}'..='\u{5BD}' | '\u{5BF}'..='\u{5C7}' | '״' | '"' => return None,
        '׳' => '\'',
        '٬' => ',',
        '٫' => '.',
        // Vowels of Arabic, marks for reciting, and the stroke that stretches a word.
        '\u{610}'..='\u{61A}'
        | '\u{640}'
        | '\u{64B}'..='\u{65F}'
        | '\u{670}'
        | '\u{6D6}'..='\u{6ED}' => {
            return None;
        }
        'أ' | 'إ' | 'آ' | 'ٱ' => 'ا',
        'ى' | 'ی' => 'ي',
        'ة' => 'ه',
        'ک' => 'ك',
        // The dot of foreign sounds in Devanagari, and one of two signs of nasal vowels.
        '\u{93C}' => return None,
        '\u{901}' => '\u{902}',
        // A small dotted i of Turkish.
        '\u{307}' => return None,
        'ё' => 'е',
        'ά' => 'α',
        'έ' => 'ε',
        'ή' => 'η',
        'ί' | 'ϊ' | 'ΐ' => 'ι',
        'ό' => 'ο',
        'ύ' | 'ϋ' | 'ΰ' => 'υ',
        'ώ' => 'ω',
        'ς' => 'σ',
        _ => digit_value(c)
            .and_then(|digit| char::from_digit(digit, 10))
            .unwrap_or(c),
    })
}
