//! Compares the numbers of an answer with those of a reference answer: value, scale, percent, currency, sign and rounding.

/// A reference answer with more numbers is prose and is not compared.
const MAX_NUMBERS: usize = 3;
/// Scales that a number may be written in without saying so.
const SILENT_SCALES: [f64; 4] = [1.0, 1e3, 1e6, 1e9];
/// Leaves room for binary fractions.
const SLACK: f64 = 1.000_001;
/// Words before a number that a word such as "fell" may stand, and after it.
const DIRECTION_BEFORE: usize = 3;
const DIRECTION_AFTER: usize = 2;
/// Beginnings of words that make the number beside them negative. `fell to 5` names a level, not a change.
const NEGATIVE: [&str; 16] = [
    "fell", "fall", "decreas", "declin", "loss", "lost", "negative", "minus", "down", "lower",
    "shr", "reduc", "outflow", "deficit", "drop", "contract",
];
const LEVELS: [&str; 4] = ["to", "from", "at", "was"];
const CURRENCIES: [(&str, Currency); 14] = [
    ("$", Currency::Dollar),
    ("us$", Currency::Dollar),
    ("usd", Currency::Dollar),
    ("dollar", Currency::Dollar),
    ("dollars", Currency::Dollar),
    ("€", Currency::Euro),
    ("eur", Currency::Euro),
    ("euro", Currency::Euro),
    ("euros", Currency::Euro),
    ("£", Currency::Pound),
    ("gbp", Currency::Pound),
    ("¥", Currency::Yen),
    ("yen", Currency::Yen),
    ("jpy", Currency::Yen),
];

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
enum Currency {
    Dollar,
    Euro,
    Pound,
    Yen,
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
    /// from the question ("in USD millions"). `None` if it has no number besides years, or more than three.
    pub fn new(
        reference: &str,
        unit: Option<&str>,
        question: &str,
        tolerance: Option<f64>,
    ) -> Option<Self> {
        let mut numbers = numbers(reference);
        if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
            return None;
        }
        let implied = unit.map_or_else(|| Unit::of_question(question), Unit::from_words);
        for number in &mut numbers {
            number.complete(implied);
        }
        Some(Self { numbers, tolerance })
    }

    /// Whether `text` states all of them. A unit that it leaves out is taken from `unit`.
    pub fn are_stated(&self, text: &str, unit: Option<&str>) -> bool {
        let implied = unit.map(Unit::from_words).unwrap_or_default();
        let mut stated = numbers(&without_citation_marks(text));
        stated
            .iter_mut()
            .for_each(|number| number.complete(implied));
        let mut expected = self.numbers.iter();
        expected.all(|expected| {
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
    numbers(&without_citation_marks(text)).len()
}

/// A unit that words beside a number give.
#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    scale: Option<f64>,
    is_percent: bool,
    currency: Option<Currency>,
}

impl Unit {
    fn from_words(words: &str) -> Self {
        let mut unit = Self::default();
        for word in words_of(words) {
            unit.scale = unit.scale.or_else(|| scale_word(&word));
            unit.currency = unit.currency.or_else(|| currency_word(&word));
            unit.is_percent |= word.starts_with("percent");
        }
        unit.is_percent |= words.contains('%');
        unit.currency = unit.currency.or(if words.contains('$') {
            Some(Currency::Dollar)
        } else {
            None
        });
        unit
    }

    /// `… in USD millions`, `(in thousands)`, `as a percentage`.
    fn of_question(question: &str) -> Self {
        let words = words_of(question);
        let after = |at: usize, within: usize| &words[at + 1..words.len().min(at + 1 + within)];
        let named = |at: usize| matches!(words[at].as_str(), "in" | "as");
        let places = (0..words.len()).filter(|at| named(*at));
        let units = places.map(|at| Self::from_words(&after(at, 3).join(" ")));
        let mut units = units.filter(|unit| unit.scale.is_some() || unit.is_percent);
        units.next().unwrap_or_default()
    }
}

impl AnswerNumber {
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
        let is_met = |value: f64| {
            let most = tolerance.map_or(self.half_digit, |share| share * self.value);
            (self.value - value).abs() <= most * SLACK && (value == 0.0) == (self.value == 0.0)
        };
        self.in_own_unit(stated).into_iter().any(is_met)
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

/// The numbers of a text, except years and parts of names (`10-K`, `FY22`, `3M`).
fn numbers(text: &str) -> Vec<AnswerNumber> {
    let chars: Vec<char> = text.chars().collect();
    let mut numbers = Vec::new();
    let mut end = 0;
    while let Some(offset) = chars[end..].iter().position(char::is_ascii_digit) {
        let start = end + offset;
        end = start;
        while continues_numeral(&chars[end..]) {
            end += 1;
        }
        let numeral: String = chars[start..end].iter().collect();
        numbers.extend(number(&chars[..start], &numeral, &chars[end..]));
    }
    numbers
}

/// Whether `chars` start with a digit, or with a separator and a digit.
fn continues_numeral(chars: &[char]) -> bool {
    match chars {
        [',' | '.', next, ..] => next.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    }
}

/// The number that `numeral` stands for between `before` and `after`. `None` if it is a year or part of a name.
fn number(before: &[char], numeral: &str, after: &[char]) -> Option<AnswerNumber> {
    let rest: String = after.iter().take(16).collect();
    let mut digits = numeral.replace(',', "");
    // `.66` without a zero.
    let is_fraction = before.last() == Some(&'.')
        && !before
            .iter()
            .rev()
            .nth(1)
            .is_some_and(char::is_ascii_alphanumeric);
    if is_fraction && !digits.contains('.') {
        digits.insert_str(0, "0.");
    }
    let value: f64 = digits.parse().ok()?;
    let mark = before.last().copied();
    let scale = after_word(&rest).as_deref().and_then(scale_word);
    let percent = percent_factor(&rest);
    let is_dollar = mark.is_some_and(|mark| currency_word(&mark.to_string()).is_some());
    // `10-K` is a name, `5-million` is not.
    let hyphenated_name = rest
        .strip_prefix('-')
        .is_some_and(|word| word.starts_with(char::is_alphabetic))
        && !(scale.is_some() && rest.contains("illion"));
    // `3M` is a name, `$3M` and `1.9B` are not; `2.5x` is a ratio.
    let is_amount = scale.is_some() && (is_dollar || digits.contains('.'))
        || rest.starts_with("bps")
        || is_ratio(&rest);
    let in_name = mark.is_some_and(|c| c.is_alphabetic() || c == '_')
        || rest.starts_with(char::is_alphabetic) && !is_amount
        || hyphenated_name;
    let is_year = numeral.len() == 4
        && !is_dollar
        && (1900.0..2100.0).contains(&value)
        && value.fract() == 0.0;
    if in_name || is_year && percent.is_none() && scale.is_none() {
        return None;
    }
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let factor = percent.unwrap_or(1.0);
    Some(AnswerNumber {
        value: value * factor,
        half_digit: 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(0)) * factor,
        scale,
        is_percent: percent.is_some(),
        currency: currency(before, &rest),
        sign: sign(before, after),
    })
}

/// Percent per unit of a number: 1 for a percentage, 0.01 for basis points.
fn percent_factor(rest: &str) -> Option<f64> {
    let rest = rest.trim_start_matches([' ', '-']).to_lowercase();
    if rest.starts_with('%') || rest.starts_with("percent") {
        Some(1.0)
    } else if rest.starts_with("bps") || rest.starts_with("basis point") {
        Some(0.01)
    } else {
        None
    }
}

fn is_ratio(rest: &str) -> bool {
    let mut chars = rest.chars();
    matches!(chars.next(), Some('x' | 'X')) && !chars.next().is_some_and(char::is_alphanumeric)
}

fn currency(before: &[char], rest: &str) -> Option<Currency> {
    let marked = before
        .iter()
        .rev()
        .find(|c| !matches!(c, ' ' | '(' | '-' | '–'));
    let marked = marked.and_then(|mark| currency_word(&mark.to_string()));
    let word_before = before_words(before)
        .last()
        .and_then(|word| currency_word(word));
    let mut words = words_of(rest).into_iter().take(2);
    marked
        .or(word_before)
        .or_else(|| words.find_map(|word| currency_word(&word)))
}

fn sign(before: &[char], after: &[char]) -> Sign {
    let signed = before.len()
        - before
            .iter()
            .rev()
            .take_while(|c| matches!(c, '$' | '€' | '£' | '¥'))
            .count();
    match &before[..signed] {
        // `2019-2020` and `10 - 5` have no negative number.
        [rest @ .., '-' | '–' | '−'] if !rest.last().is_some_and(|c| c.is_alphanumeric()) => {
            return Sign::Minus;
        }
        [.., '('] if after.iter().find(|c| !matches!(c, '%' | ' ')) == Some(&')') => {
            return Sign::Open;
        }
        _ => {}
    }
    let sentence = before_words(before);
    let mut near = sentence.iter().rev().take(DIRECTION_BEFORE);
    let names_level = sentence
        .last()
        .is_some_and(|word| LEVELS.contains(&word.as_str()));
    let behind: String = after
        .iter()
        .take_while(|c| !matches!(c, '.' | ';' | ',' | ')'))
        .take(40)
        .collect();
    let behind = words_of(&behind);
    // The unit stands between a number and its direction: `5 million lower`.
    let mut behind = behind
        .iter()
        .filter(|word| scale_word(word).is_none() && !word.starts_with("percent"));
    let is_negative = |word: &String| NEGATIVE.iter().any(|start| word.starts_with(start));
    let fell = !names_level && near.any(is_negative)
        || behind.by_ref().take(DIRECTION_AFTER).any(is_negative);
    if fell { Sign::Minus } else { Sign::Plus }
}

/// The words of the clause before a number.
fn before_words(before: &[char]) -> Vec<String> {
    let ends = |at: &usize| {
        matches!(before[*at], ';' | '\n') || before[*at] == '.' && before.get(at + 1) == Some(&' ')
    };
    let start = (0..before.len()).rev().find(ends).map_or(0, |at| at + 1);
    words_of(&before[start..].iter().collect::<String>())
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '€' | '£' | '¥'));
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The word right after a number.
fn after_word(rest: &str) -> Option<String> {
    let word: String = rest
        .trim_start_matches([' ', '-'])
        .chars()
        .take_while(|c| c.is_alphabetic())
        .collect();
    (!word.is_empty()).then(|| word.to_lowercase())
}

fn scale_word(word: &str) -> Option<f64> {
    match word {
        "k" | "thousand" | "thousands" => Some(1e3),
        "m" | "mm" | "mn" | "million" | "millions" => Some(1e6),
        "b" | "bn" | "billion" | "billions" => Some(1e9),
        "trillion" | "trillions" => Some(1e12),
        _ => None,
    }
}

fn currency_word(word: &str) -> Option<Currency> {
    CURRENCIES
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, currency)| *currency)
}

/// Removes citation marks such as `[1]`.
fn without_citation_marks(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        bare.push_str(before);
        let unnumbered = after.trim_start_matches(|c: char| c.is_ascii_digit());
        rest = match unnumbered.strip_prefix(']') {
            Some(behind) if unnumbered.len() < after.len() => behind,
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
        Some(ReferenceNumbers::new(reference, None, question, None)?.are_stated(answer, None))
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
            ("0.66", "The quick ratio is 0.66 [1]"),
            ("0.66", "The quick ratio is .66x"),
            ("65.4%", "a share of 0.654"),
            ("0.654", "65.4 percent"),
            ("1.7%", "170 basis points"),
            ("-3.7", "It fell by 3.7%"),
            ("-3.7%", "a decline of 3.7 %"),
            ("$5 million loss", "net income of -$5 million"),
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
        assert!(reference.are_stated("1.577", Some("USD billions")));
        assert!(!reference.are_stated("1,577", Some("EUR millions")));
        let near = ReferenceNumbers::new("1577", None, "", Some(0.01)).unwrap();
        assert!(near.are_stated("1,580", None) && !near.are_stated("1,600", None));
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
