//! Compares the numbers of an answer with those of a reference answer: value, scale, percent, currency, sign and rounding.

use stemma_reading::numbers::{self, Currency, NumberMention, NumberRole};
use stemma_reading::text_words::words;
use stemma_reading::vocabulary::{
    BASIS_POINTS, DECREASE_STEMS, LEVEL_WORDS, LOSS_STEMS, NUMBER_SCALES, PERCENT_WORDS,
};

/// A reference answer with more numbers is prose and is not compared.
const MAX_NUMBERS: usize = 3;
/// Scales that a number may be written in without saying so.
const SILENT_SCALES: [f64; 4] = [1.0, 1e3, 1e6, 1e9];
/// A larger number whose decimals are all zeros is a rounded one: 381.6 is right for 382.00.
const ROUNDED_FROM: f64 = 100.0;
/// Leaves room for binary fractions.
const SLACK: f64 = 1.000_001;
/// Words before a number that may be a word such as "fell", and words after it.
const DIRECTION_BEFORE: usize = 3;
const DIRECTION_AFTER: usize = 2;

/// The numbers of a reference answer, and how exactly they must be met.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceNumbers {
    numbers: Vec<AnswerNumber>,
    /// Share of the value; `None`: half of the last digit that the reference gives.
    tolerance: Option<f64>,
}

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AnswerNumber {
    /// As written, without sign and scale; basis points in percent.
    value: f64,
    /// Half of the last written digit.
    half_digit: f64,
    /// `None`: not stated.
    scale: Option<f64>,
    is_percent: bool,
    currency: Option<Currency>,
    sign: Sign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    /// A minus, or a word such as "fell".
    Minus,
    /// In parentheses, as statements show what is subtracted: either.
    Open,
}

impl ReferenceNumbers {
    /// The numbers of `reference`. A unit that it leaves out is taken from `unit`, a few words (`USD millions`, `%`), or else
    /// from the question ("in USD millions"). `None` if it has no number but years, or more than three.
    pub fn new(
        reference: &str,
        unit: Option<&str>,
        question: &str,
        tolerance: Option<f64>,
    ) -> Option<Self> {
        let mut numbers = numbers_in(reference);
        if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
            return None;
        }
        let implied = unit.map_or_else(|| Unit::from_question(question), Unit::from_words);
        for number in &mut numbers {
            number.complete(implied);
        }
        Some(Self { numbers, tolerance })
    }

    /// Whether `text` states all of them.
    pub fn are_stated(&self, text: &str) -> bool {
        let stated = numbers_in(text);
        self.numbers.iter().all(|expected| {
            stated
                .iter()
                .any(|one| expected.matches(*one, self.tolerance))
        })
    }

    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// How many numbers a text has that could be compared.
pub fn count_numbers(text: &str) -> usize {
    numbers_in(text).len()
}

/// A unit that words next to a number give.
#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    scale: Option<f64>,
    is_percent: bool,
    currency: Option<Currency>,
}

impl Unit {
    fn from_words(words: &str) -> Self {
        let lower = words.to_lowercase();
        let mut unit = Self::default();
        for word in lower.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',')) {
            let sign = word.get(..1).filter(|_| word.starts_with('$'));
            unit.scale = unit.scale.or_else(|| scale_word(word));
            unit.currency = unit
                .currency
                .or_else(|| Currency::from_word(sign.unwrap_or(word)));
            unit.is_percent |= PERCENT_WORDS.starts(word) || word.contains('%');
        }
        unit
    }

    /// `… in USD millions`, `(in thousands)`, `as a percentage`.
    fn from_question(question: &str) -> Self {
        let words: Vec<&str> = question
            .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '?'))
            .collect();
        (0..words.len())
            .filter(|at| matches!(words[*at], "in" | "as"))
            .map(|at| Self::from_words(&words[at + 1..words.len().min(at + 4)].join(" ")))
            .find(|unit| unit.scale.is_some() || unit.is_percent)
            .unwrap_or_default()
    }
}

impl AnswerNumber {
    fn new(number: &NumberMention, text: &str) -> Option<Self> {
        let digits = number.plain_digits();
        let value: f64 = digits.parse().ok()?;
        let places = digits.split_once('.').map_or("", |(_, places)| places);
        let is_rounded = value >= ROUNDED_FROM && places.bytes().all(|digit| digit == b'0');
        let decimals = if is_rounded { 0 } else { places.len() };
        let half_digit = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(0));
        let behind = text[number.at.end..].trim_start_matches([' ', '-']);
        let is_basis_points = BASIS_POINTS.starts(behind);
        let percent = if is_basis_points { 0.01 } else { 1.0 };
        Some(Self {
            value: value * percent,
            half_digit: half_digit * percent,
            scale: number.own_scale().map(|scale| scale as f64),
            is_percent: number.is_percent() || is_basis_points,
            currency: number.currency(),
            sign: sign(number, text),
        })
    }

    fn complete(&mut self, unit: Unit) {
        if self.scale.is_none() && !self.is_percent {
            self.is_percent = unit.is_percent && self.currency.is_none();
            self.scale = unit.scale.filter(|_| !self.is_percent);
        }
        if !self.is_percent {
            self.currency = self.currency.or(unit.currency);
        }
    }

    /// Whether `stated` is this number of the reference.
    fn matches(self, stated: AnswerNumber, tolerance: Option<f64>) -> bool {
        let is_money = |one: AnswerNumber| one.currency.is_some() || one.scale.is_some();
        let other_kind = self.is_percent && is_money(stated) || stated.is_percent && is_money(self);
        let other_currency =
            matches!((self.currency, stated.currency), (Some(one), Some(other)) if one != other);
        let is_zero = self.value == 0.0 && stated.value == 0.0;
        let other_sign = !is_zero
            && matches!(
                (self.sign, stated.sign),
                (Sign::Plus, Sign::Minus) | (Sign::Minus, Sign::Plus)
            );
        if other_kind || other_currency || other_sign {
            return false;
        }
        let most = tolerance.map_or(self.half_digit, |share| share * self.value);
        self.in_own_unit(stated).into_iter().any(|value| {
            (self.value - value).abs() <= most * SLACK && (value == 0.0) == (self.value == 0.0)
        })
    }

    /// What `stated` may be in the unit of this number.
    fn in_own_unit(self, stated: AnswerNumber) -> Vec<f64> {
        let value = stated.value;
        match (self.scale, stated.scale) {
            // A percentage and a share of one; a percentage without its sign.
            _ if self.is_percent && !stated.is_percent => vec![value, value * 100.0],
            _ if stated.is_percent && !self.is_percent => vec![value, value / 100.0],
            _ if self.is_percent => vec![value],
            (Some(own), Some(scale)) => vec![value * scale / own],
            // A plain number is in the unit that was asked for, or the full amount.
            (Some(own), None) => vec![value, value / own],
            (None, scale) => {
                let full = value * scale.unwrap_or(1.0);
                SILENT_SCALES.iter().map(|own| full / own).collect()
            }
        }
    }
}

/// The numbers of a text, except years, names (`10-K`, `FY22`, `3M`, `Note 5`) and counts in words.
fn numbers_in(text: &str) -> Vec<AnswerNumber> {
    let text = without_citation_marks(text);
    let mentions = numbers::numbers(&text).into_iter();
    mentions
        .filter(|number| number.role == NumberRole::Amount)
        .filter_map(|number| AnswerNumber::new(&number, &text))
        .collect()
}

/// The sign of a number in a text: as written, or negative if a word near it means a fall.
fn sign(number: &NumberMention, text: &str) -> Sign {
    let before = &text[..number.at.start];
    let after = &text[number.at.end..];
    let before_sign = before.trim_end_matches(['$', '€', '£', '¥', ' ']);
    if number.is_negative() {
        return match before_sign.ends_with('(') {
            true => Sign::Open,
            false => Sign::Minus,
        };
    }
    let clause = before.rsplit([';', '\n']).next().unwrap_or_default();
    let clause = clause.rsplit(". ").next().unwrap_or_default();
    let clause = words(clause);
    // `The net loss was $5 million` is an amount, not a change.
    let names_level = clause
        .last()
        .is_some_and(|(word, _)| LEVEL_WORDS.contains(word) || *word == "was");
    let fell = |word: &str| {
        let mut stems = DECREASE_STEMS.iter().chain(LOSS_STEMS.iter());
        stems.any(|stem| word.starts_with(stem))
    };
    let mut near = clause.iter().rev().take(DIRECTION_BEFORE);
    let behind = after.split(['.', ';', ',', ')']).next().unwrap_or_default();
    // The unit is between a number and its direction: `5 million lower`.
    let behind = words(behind);
    let mut behind = behind
        .iter()
        .filter(|(word, _)| scale_word(word).is_none() && !PERCENT_WORDS.starts(word))
        .take(DIRECTION_AFTER);
    match !names_level && near.any(|(word, _)| fell(word)) || behind.any(|(word, _)| fell(word)) {
        true => Sign::Minus,
        false => Sign::Plus,
    }
}

fn scale_word(word: &str) -> Option<f64> {
    NUMBER_SCALES.get(word)?.parse().ok()
}

/// Removes citation marks such as `[1]`.
fn without_citation_marks(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        bare.push_str(before);
        let unnumbered = after.trim_start_matches(|c: char| c.is_ascii_digit());
        rest = match unnumbered.strip_prefix(']') {
            // `8,700 [2] million` keeps one space.
            Some(behind) if unnumbered.len() < after.len() => {
                bare.truncate(bare.trim_end_matches(' ').len());
                behind
            }
            _ => {
                bare.push('[');
                after
            }
        };
    }
    bare + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(reference: &str, question: &str, answer: &str) -> Option<bool> {
        Some(ReferenceNumbers::new(reference, None, question, None)?.are_stated(answer))
    }

    #[test]
    fn equivalent_number_formats_match() {
        for (reference, answer) in [
            (
                "$1577.00",
                "Capital expenditure was $1,577 million in 2018 [1].",
            ),
            ("$8.70 billion", "It was 8,700 [2] million."),
            ("$8.70 billion", "It was $8,704,000,000."),
            ("24.26", "the turnover was 24.261 times"),
            ("$382.00", "It was $381.6 million."),
            ("0.66", "The quick ratio is 0.66 [1]"),
            ("0.66", "The quick ratio is .66x"),
            ("65.4%", "a share of 0.654"),
            ("0.654", "65.4 percent"),
            ("1.7%", "170 basis points"),
            ("-3.7", "It fell by 3.7%"),
            ("-3.7%", "a decline of 3.7 %"),
            ("$5 million loss", "net income of -$5 million"),
            ("$5 million", "The net loss was $5 million."),
            ("5.25%", "Notes due 2030 ..... 5.25 %"),
            ("(1,749)", "purchases of $1,749 million"),
            ("19.1%", "The margin fell to 19.1%."),
            ("$1.9B", "about 1,900 million"),
            ("2.5x", "2.5 times"),
        ] {
            assert_eq!(
                states(reference, "", answer),
                Some(true),
                "{reference} / {answer}"
            );
        }
    }

    #[test]
    fn different_numbers_do_not_match() {
        for (reference, answer) in [
            ("$1577.00", "It was $1,749 million [1]."),
            ("24.26", "In FY2024, see the 10-K, [24]."),
            ("24.26", "24.3"),
            ("$382.00", "It was $381.4 million."),
            ("3.00", "It was 2.8."),
            ("0.66", "It is 0.71"),
            ("5 and 7", "It was 5 [7]."),
            ("12", "none"),
            ("0", "7"),
            ("$8.70 billion", "It was 8.70 million."),
            ("$8.70 billion", "€8.70 billion"),
            ("$8.70 billion", "It was 8.70%"),
            ("-3.7%", "It rose by 3.7%"),
            ("3.7%", "It was -3.7%"),
            ("decreased by 1.7%", "increased by 1.7%"),
        ] {
            assert_eq!(
                states(reference, "", answer),
                Some(false),
                "{reference} / {answer}"
            );
        }
    }

    #[test]
    fn units_come_from_the_question_and_from_fields() {
        let asked = "What was revenue in FY2022 (in USD millions)?";
        assert_eq!(states("1577", asked, "$1.577 billion"), Some(true));
        assert_eq!(states("1577", asked, "1,577"), Some(true));
        assert_eq!(states("1577", asked, "$1,577 thousand"), Some(false));
        assert_eq!(
            states("12.5", "What is the tax rate, as a percentage?", "0.125"),
            Some(true)
        );
        let reference = ReferenceNumbers::new("1577", Some("USD millions"), "", None).unwrap();
        assert!(reference.are_stated("1.577 billion USD"));
        assert!(!reference.are_stated("EUR 1,577 million"));
        let near = ReferenceNumbers::new("1577", None, "", Some(0.01)).unwrap();
        assert!(near.are_stated("1,580") && !near.are_stated("1,600"));
    }

    #[test]
    fn answers_without_figures_are_not_judged() {
        for reference in [
            "No, the company is managing its CAPEX well.",
            "In 2022.",
            "1, 2, 3 and 4",
            "",
            "3M's 10-K of FY22",
        ] {
            assert_eq!(states(reference, "", "1"), None, "{reference}");
        }
    }
}
