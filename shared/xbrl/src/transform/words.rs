//! Numbers in English words.

use stemma_document::english_words::parse_number_word;

const TENS: [&str; 8] = [
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
const MAGNITUDES: [(&str, u64); 4] = [
    ("trillion", 1_000_000_000_000),
    ("billion", 1_000_000_000),
    ("million", 1_000_000),
    ("thousand", 1_000),
];

/// `one hundred and twenty-one thousand` is 121,000; `no`, `none`, `nil` and `zero` are 0. `None` for words in no order.
pub(super) fn number(text: &str) -> Option<u64> {
    let words: Vec<String> = text
        .split(|c: char| c == ',' || c.is_whitespace() || is_hyphen(c))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["no" | "none" | "nil" | "zero"] => Some(0),
        words => positive(words),
    }
}

pub(super) fn is_hyphen(c: char) -> bool {
    matches!(
        c,
        '-' | '\u{58A}' | '\u{5BE}' | '\u{2010}'
            ..='\u{2015}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}'
    )
}

fn positive(words: &[&str]) -> Option<u64> {
    let mut rest = words;
    let mut total = 0;
    for (name, magnitude) in MAGNITUDES {
        if let Some(at) = rest.iter().position(|word| *word == name) {
            total += below_thousand(&rest[..at])? * magnitude;
            rest = &rest[at + 1..];
        }
    }
    if rest.is_empty() && !words.is_empty() {
        return Some(total);
    }
    let rest = if total > 0 {
        rest.strip_prefix(&["and"]).unwrap_or(rest)
    } else {
        rest
    };
    Some(total + below_thousand(rest)?)
}

fn below_thousand(words: &[&str]) -> Option<u64> {
    match words {
        [hundreds, "hundred"] => {
            Some(below_hundred(&[hundreds]).filter(|number| *number < 20)? * 100)
        }
        [hundreds, "hundred", "and", rest @ ..] | [hundreds, "hundred", rest @ ..] => Some(
            below_hundred(&[hundreds]).filter(|number| *number < 20)? * 100 + below_hundred(rest)?,
        ),
        words => below_hundred(words),
    }
}

fn below_hundred(words: &[&str]) -> Option<u64> {
    match words {
        [word] => below_twenty(word).or_else(|| tens(word)),
        [first, second] => Some(tens(first)? + below_twenty(second).filter(|number| *number < 10)?),
        _ => None,
    }
}

fn below_twenty(word: &str) -> Option<u64> {
    parse_number_word(word)
        .filter(|number| *number < 20)
        .map(u64::from)
}

fn tens(word: &str) -> Option<u64> {
    let at = TENS.iter().position(|name| *name == word)?;
    u64::try_from(at * 10 + 20).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_numbers() {
        for (text, expected) in [
            ("one hundred and twenty-one thousand", 121_000),
            ("two million, three hundred", 2_000_300),
            ("nineteen hundred", 1_900),
            ("one thousand and one", 1_001),
            ("Forty", 40),
        ] {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "and",
            "one and",
            "twenty twenty",
            "thousand",
            "one thousand million",
            "many",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
