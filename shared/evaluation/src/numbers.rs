//! Compares the numbers of an answer with those of a reference answer.

/// A reference answer with more numbers is prose and is not compared.
const MAX_NUMBERS: usize = 3;
/// Relative difference that rounding to three digits leaves.
const RELATIVE_TOLERANCE: f64 = 0.005;
/// Ratios of units. Thousands, millions and billions are often omitted.
const UNIT_RATIOS: [f64; 7] = [1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9];
/// Ratios of a share to a percentage.
const PERCENT_RATIOS: [f64; 3] = [1.0, 100.0, 0.01];

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AnswerNumber {
    /// Without sign: losses are written in parentheses or named in words.
    value: f64,
    /// Half of the last written digit.
    half_digit: f64,
    percent: bool,
}

/// Whether the answer contains every number of the reference, in any unit. `None` if the reference has no number besides
/// years, or more than three.
pub fn states_numbers(reference: &str, answer: &str) -> Option<bool> {
    let expected = numbers(reference);
    if expected.is_empty() || expected.len() > MAX_NUMBERS {
        return None;
    }
    let stated = numbers(&without_citation_marks(answer));
    Some(
        expected
            .iter()
            .all(|expected| stated.iter().any(|stated| expected.matches(*stated))),
    )
}

impl AnswerNumber {
    /// Whether `stated` is this number up to rounding and units.
    fn matches(self, stated: AnswerNumber) -> bool {
        if (stated.value == 0.0) != (self.value == 0.0) {
            return false;
        }
        let ratios = if self.percent == stated.percent {
            UNIT_RATIOS.as_slice()
        } else {
            &PERCENT_RATIOS
        };
        ratios
            .iter()
            .any(|ratio| self.is_rounded_to(stated.value * ratio))
    }

    fn is_rounded_to(self, value: f64) -> bool {
        let difference = (self.value - value).abs();
        difference <= self.half_digit * 1.001
            || difference <= RELATIVE_TOLERANCE * self.value.abs().max(value.abs())
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
        let before = start.checked_sub(1).map(|before| chars[before]);
        let numeral: String = chars[start..end].iter().collect();
        let rest: String = chars[end..].iter().take(16).collect();
        numbers.extend(number(before, &numeral, &rest));
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

/// The number that `numeral` stands for between `before` and `rest`. `None` if it is a year or part of a name.
fn number(before: Option<char>, numeral: &str, rest: &str) -> Option<AnswerNumber> {
    let digits = numeral.replace(',', "");
    let value: f64 = digits.parse().ok()?;
    let scale = scale(rest);
    let percent = rest.trim_start().starts_with('%');
    let is_dollar = before == Some('$');
    // `10-K` is a name, `5-million` is not.
    let hyphenated_name = rest
        .strip_prefix('-')
        .is_some_and(|word| word.starts_with(char::is_alphabetic))
        && !(scale.is_some() && rest.contains("illion"));
    // `3M` is a name, `$3M` and `1.9B` are not.
    let is_amount = scale.is_some() && (is_dollar || digits.contains('.'));
    let in_name = before.is_some_and(|c| c.is_alphabetic() || c == '_')
        || rest.starts_with(char::is_alphabetic) && !is_amount
        || hyphenated_name;
    let is_year = numeral.len() == 4
        && !is_dollar
        && (1900.0..2100.0).contains(&value)
        && value.fract() == 0.0;
    if in_name || is_year && !percent {
        return None;
    }
    let scale = scale.unwrap_or(1.0);
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    Some(AnswerNumber {
        value: value * scale,
        half_digit: 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(0)) * scale,
        percent: percent || rest.trim_start().to_lowercase().starts_with("percent"),
    })
}

/// The factor of the word after a number.
fn scale(rest: &str) -> Option<f64> {
    let word: String = rest
        .trim_start_matches([' ', '-'])
        .chars()
        .take_while(|c| c.is_alphabetic())
        .collect();
    match word.to_lowercase().as_str() {
        "k" | "thousand" | "thousands" => Some(1e3),
        "m" | "mm" | "mn" | "million" | "millions" => Some(1e6),
        "b" | "bn" | "billion" | "billions" => Some(1e9),
        "trillion" => Some(1e12),
        _ => None,
    }
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

    #[test]
    fn equivalent_number_formats_match() {
        for (reference, answer) in [
            (
                "$1577.00",
                "Capital expenditure was $1,577 million in 2018 [1].",
            ),
            ("$8.70 billion", "It was 8,700 [2] million."),
            ("24.26", "the turnover was 24.3 times"),
            ("0.66", "The quick ratio is 0.66 [1]"),
            ("65.4%", "a share of 0.654"),
            ("-3.7", "It fell by 3.7%"),
            ("(1,749)", "purchases of $1,749 million"),
            ("$1.9B", "about 1,900 million"),
        ] {
            assert_eq!(
                states_numbers(reference, answer),
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
            ("0.66", "It is 0.71"),
            ("5 and 7", "It was 5 [7]."),
            ("12", "none"),
            ("0", "7"),
        ] {
            assert_eq!(
                states_numbers(reference, answer),
                Some(false),
                "{reference} / {answer}"
            );
        }
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
            assert_eq!(states_numbers(reference, "1"), None, "{reference}");
        }
    }
}
