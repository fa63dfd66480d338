//! Whether an answer states the numbers of a true one.

/// Numbers of a true answer at most for it to be judged by them: a text with many is no figure.
const MAX_NUMBERS: usize = 3;
/// How far two numbers may be apart, as a share of the larger: what rounding to three digits leaves.
const RELATIVE_TOLERANCE: f64 = 0.005;
/// What one unit may be of another: thousands, millions and billions are often left unsaid.
const UNITS: [f64; 7] = [1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9];

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AnswerNumber {
    /// Without its sign: losses stand in parentheses, or are named.
    value: f64,
    /// Half of the last digit that is written.
    half_digit: f64,
    percent: bool,
}

/// Whether each number of the true answer stands in the answer, however its unit is written; `None` where the true answer
/// has no number beside years, or more than three.
pub fn states_numbers(truth: &str, answer: &str) -> Option<bool> {
    let expected = numbers(truth);
    if expected.is_empty() || expected.len() > MAX_NUMBERS {
        return None;
    }
    let actual = numbers(&without_citation_marks(answer));
    Some(
        expected
            .iter()
            .all(|one| actual.iter().any(|other| is_same_number(*one, *other))),
    )
}

fn is_same_number(expected: AnswerNumber, actual: AnswerNumber) -> bool {
    let near = |a: f64, b: f64| {
        (a - b).abs() <= expected.half_digit * 1.001
            || (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs())
    };
    // A share may be written as a percentage.
    let shares = if expected.percent != actual.percent {
        vec![1.0, 100.0, 0.01]
    } else {
        UNITS.to_vec()
    };
    shares.iter().any(|unit| {
        near(expected.value, actual.value * unit)
            && (actual.value == 0.0) == (expected.value == 0.0)
    })
}

/// The numbers of a text that are neither years nor parts of words (`10-K`, `FY22`, `3M`).
fn numbers(text: &str) -> Vec<AnswerNumber> {
    let chars: Vec<char> = text.chars().collect();
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        let inside = |at: usize| {
            chars[at].is_ascii_digit()
                || matches!(chars[at], ',' | '.')
                    && chars.get(at + 1).is_some_and(char::is_ascii_digit)
        };
        while at < chars.len() && inside(at) {
            at += 1;
        }
        let written: String = chars[start..at].iter().filter(|c| **c != ',').collect();
        let before = start.checked_sub(1).map(|before| chars[before]);
        let rest: String = chars[at..chars.len().min(at + 16)].iter().collect();
        // `10-K` is a name, `5-million` is not.
        let of_many = scale(&rest).is_some() && rest.contains("illion");
        // `3M` is a name, `$3M` and `1.9B` are not.
        let counted = before == Some('$') || written.contains('.');
        let in_word = before.is_some_and(|c| c.is_alphabetic() || c == '_')
            || rest.starts_with(|c: char| c.is_alphabetic())
                && !(counted && scale(&rest).is_some())
            || rest.starts_with('-') && !of_many && rest[1..].starts_with(char::is_alphabetic);
        let Ok(value) = written.parse::<f64>() else {
            continue;
        };
        let plain = start + 4 == at && before != Some('$');
        let is_year = plain && (1900.0..2100.0).contains(&value) && value.fract() == 0.0;
        if in_word || is_year && !rest.trim_start().starts_with('%') {
            continue;
        }
        let scale = scale(&rest).unwrap_or(1.0);
        let decimals = written
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let half_digit = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(0)) * scale;
        let percent = rest.trim_start().starts_with('%')
            || rest.trim_start().to_lowercase().starts_with("percent");
        numbers.push(AnswerNumber {
            value: value * scale,
            half_digit,
            percent,
        });
    }
    numbers
}

/// What the word behind a number multiplies it with.
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

/// A text without the marks of its citations.
fn without_citation_marks(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        bare.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest = match after[digits..].strip_prefix(']') {
            Some(behind) if digits > 0 => behind,
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
        for (truth, answer) in [
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
                states_numbers(truth, answer),
                Some(true),
                "{truth} / {answer}"
            );
        }
    }

    #[test]
    fn different_numbers_do_not_match() {
        for (truth, answer) in [
            ("$1577.00", "It was $1,749 million [1]."),
            ("24.26", "In FY2024, see the 10-K, [24]."),
            ("0.66", "It is 0.71"),
            ("5 and 7", "It was 5 [7]."),
            ("12", "none"),
            ("0", "7"),
        ] {
            assert_eq!(
                states_numbers(truth, answer),
                Some(false),
                "{truth} / {answer}"
            );
        }
    }

    #[test]
    fn answers_without_figures_are_not_judged() {
        for truth in [
            "No, the company is managing its CAPEX well.",
            "In 2022.",
            "1, 2, 3 and 4",
            "",
            "3M's 10-K of FY22",
        ] {
            assert_eq!(states_numbers(truth, "1"), None, "{truth}");
        }
    }
}
