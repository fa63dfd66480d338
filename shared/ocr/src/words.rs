//! The words of tesseract, without what it reads of dots and stains, and with the few mistakes repaired that are known by their form.

use stemma_extract::{ExtractError, RecognizeRequest};

use crate::cpu_budget::CpuBudget;
use crate::hocr::{self, ReadWord};
use crate::tesseract::{self, TextImage};

/// In percent. Below, tesseract mostly saw no letters but rules, stains or letters that lie on their side.
pub(crate) const READABLE: u8 = 60;
// Of the height of a line. Letters without ascenders take half of it, dots a tenth.
const LEADER_HEIGHT: f32 = 0.3;

// Letters and signs that tesseract reads in the place of a capital I.
const LIKE_NUMERAL: [char; 4] = ['I', 'l', '|', '!'];

/// The words on an image.
pub(crate) fn read_words(
    image: TextImage<'_>,
    request: &RecognizeRequest,
    budget: &CpuBudget,
) -> Result<Vec<ReadWord>, ExtractError> {
    let hocr = tesseract::recognize(image, request, budget)?;
    let words = hocr::parse(&hocr).into_iter();
    let mut words: Vec<ReadWord> = words.flat_map(split_date).collect();
    words.iter_mut().for_each(cut_leader);
    words.retain(is_word);
    restore_numerals(&mut words);
    Ok(words)
}

// `PART |` and `Part Il` are PART I and Part II.
fn restore_numerals(words: &mut [ReadWord]) {
    for at in 1..words.len() {
        let text = &words[at].text;
        let numeral =
            text.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '|' && c != '!');
        let is_numeral =
            (1..=3).contains(&numeral.len()) && numeral.chars().all(|c| LIKE_NUMERAL.contains(&c));
        if is_numeral && words[at - 1].text.eq_ignore_ascii_case("part") {
            let rest = &text[numeral.len()..];
            words[at].text = format!("{}{rest}", "I".repeat(numeral.len()));
        }
    }
}

// Stains and rules are read as punctuation, and the dots between a title and its page number as letters: `..... cece eeees`.
fn is_word(word: &ReadWord) -> bool {
    let has_letters = word.text.contains(char::is_alphanumeric);
    let is_leader = word.height < LEADER_HEIGHT * word.line_height;
    !word.text.is_empty()
        && if has_letters {
            !is_leader
        } else {
            word.confidence >= READABLE
        }
}

// Takes the dots behind a title from its last word, unless a number follows them.
fn cut_leader(word: &mut ReadWord) {
    let Some(at) = word.text.find("...") else {
        return;
    };
    let last = word.text.rsplit('.').next().unwrap_or_default();
    if last.is_empty() || !last.chars().all(|c| c.is_ascii_digit()) {
        word.text.truncate(at);
    }
}

// `31,2022` is a day and a year, whose narrow space was not seen: no number has four digits behind a comma, and one or two before it.
fn split_date(word: ReadWord) -> Vec<ReadWord> {
    let parts = word.text.split_once(',');
    let Some((day, year)) = parts.filter(|(day, rest)| {
        matches!(day.len(), 1 | 2) && leading_digits(day) == day.len() && leading_digits(rest) == 4
    }) else {
        return vec![word];
    };
    // As if all characters had the same width.
    let share = (day.len() + 1) as f32 / length(&word) as f32;
    let middle = word.x0 + share * (word.x1 - word.x0);
    let day = ReadWord {
        text: format!("{day},"),
        x1: middle,
        ..word.clone()
    };
    let year = ReadWord {
        text: year.to_owned(),
        x0: middle,
        ..word
    };
    vec![day, year]
}

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// In characters.
pub(crate) fn length(word: &ReadWord) -> usize {
    word.text.chars().count()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn word(text: &str, height: f32, confidence: u8) -> ReadWord {
        ReadWord {
            text: text.into(),
            x0: 0.0,
            x1: 80.0,
            top: 40.0 - height,
            height,
            baseline: 40.0,
            line_height: 40.0,
            confidence,
            is_sideways: false,
            other: None,
        }
    }

    #[test]
    fn leaders_are_no_words() {
        let mut words = vec![
            word("Risk", 29.0, 96),
            word("Factors.......ccee", 29.0, 50),
            word("eeeceeee", 6.0, 30),
            word("...........", 6.0, 70),
            word("....12", 28.0, 80),
            word("-", 5.0, 90),
            word("~", 5.0, 20),
            word("sum", 20.0, 95),
        ];
        words.iter_mut().for_each(cut_leader);
        words.retain(is_word);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["Risk", "Factors", "....12", "-", "sum"]);
    }

    #[test]
    fn numerals_of_parts_are_restored() {
        let restored = |before: &str, text: &str| {
            let mut words = [before, text].map(|text| word(text, 29.0, 95));
            restore_numerals(&mut words);
            words[1].text.clone()
        };
        for (read, numeral) in [
            ("|", "I"),
            ("Il", "II"),
            ("l", "I"),
            ("Ill.", "III."),
            ("!", "I"),
        ] {
            assert_eq!(restored("PART", read), numeral);
            assert_eq!(restored("part", read), numeral);
            assert_eq!(restored("row", read), read);
        }
        for other in ["1", "11", "IV", "III", "Illinois", "of", ""] {
            assert_eq!(restored("Part", other), other);
        }
    }

    #[test]
    fn day_and_year_are_two_words() {
        let split = |text: &str| {
            let words = split_date(word(text, 29.0, 95)).into_iter();
            words
                .map(|word| (word.text, word.x0, word.x1))
                .collect::<Vec<_>>()
        };
        let expected = [("31,".into(), 0.0, 30.0), ("2022,".into(), 30.0, 80.0)];
        assert_eq!(split("31,2022,"), expected);
        for number in [
            "31,202",
            "31,20225",
            "1,234,5678",
            "131,2022",
            "Dec,2022",
            ",2022",
        ] {
            assert_eq!(split(number).len(), 1, "{number}");
        }
    }
}
