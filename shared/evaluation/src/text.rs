//! How well a page's text agrees with another reading of it.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use unicode_normalization::UnicodeNormalization;

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d[\d,]*\.?\d*").ok());

/// Scores of a page, or means of several (0–1).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TextScore {
    /// F1 of words, whatever their order.
    pub words: f64,
    /// F1 of words in the longest common order.
    pub ordered: f64,
    /// F1 of numbers.
    pub numbers: f64,
    /// F1 of characters without spaces.
    pub characters: f64,
}

/// Scores `found` against `wanted`.
pub fn score(expected: &str, actual: &str) -> TextScore {
    let expected = fold(expected);
    let actual = fold(actual);
    let words = |text| str::split_whitespace(text).collect::<Vec<&str>>();
    let a = words(&expected);
    let b = words(&actual);
    let letters = |words: &[&str]| {
        words
            .iter()
            .flat_map(|word| word.chars())
            .collect::<Vec<char>>()
    };
    TextScore {
        words: f1(&a, &b),
        ordered: 2.0 * common_order(&a, &b) as f64 / (a.len() + b.len()).max(1) as f64,
        numbers: f1(&numbers(&expected), &numbers(&actual)),
        characters: f1(&letters(&a), &letters(&b)),
    }
}

impl TextScore {
    /// The mean of scores; of none, nothing.
    pub fn mean(scores: &[TextScore]) -> TextScore {
        let mean = |field: fn(&TextScore) -> f64| {
            scores.iter().map(field).sum::<f64>() / scores.len().max(1) as f64
        };
        TextScore {
            words: mean(|score| score.words),
            ordered: mean(|score| score.ordered),
            numbers: mean(|score| score.numbers),
            characters: mean(|score| score.characters),
        }
    }
}

fn numbers(text: &str) -> Vec<&str> {
    NUMBER
        .as_ref()
        .map(|number| {
            number
                .find_iter(text)
                .map(|number_match| number_match.as_str())
                .collect()
        })
        .unwrap_or_default()
}

/// Plain dashes, quotes and bullets; no soft hyphens and invisible spaces.
fn fold(text: &str) -> String {
    fn plain(c: char) -> Option<char> {
        match c {
            '\u{2010}'..='\u{2014}' | '\u{2212}' => Some('-'),
            '\u{2018}' | '\u{2019}' => Some('\''),
            '\u{201c}' | '\u{201d}' => Some('"'),
            '\u{2022}' | '\u{b7}' | '\u{25cf}' => Some('*'),
            '\u{ad}' | '\u{200b}' | '\u{feff}' => None,
            '\u{a0}' => Some(' '),
            c => Some(c),
        }
    }
    text.chars()
        .filter_map(plain)
        .nfkc()
        .filter_map(plain)
        .collect()
}

/// F1 of two bags; two empty ones agree.
fn f1<T: Eq + std::hash::Hash>(a: &[T], b: &[T]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut remaining: HashMap<&T, usize> = HashMap::new();
    a.iter()
        .for_each(|item| *remaining.entry(item).or_default() += 1);
    let mut common = 0;
    for item in b {
        if let Some(count) = remaining.get_mut(item).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    2.0 * common as f64 / (a.len() + b.len()) as f64
}

/// Length of the longest common subsequence, 64 words at a time (Hyyrö 2004): a zero bit of `row` says that the sequence
/// grows at that word of `b`.
fn common_order(a: &[&str], b: &[&str]) -> usize {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    b.iter()
        .enumerate()
        .for_each(|(at, word)| places.entry(word).or_default().push(at));
    let mut row = vec![u64::MAX; b.len().div_ceil(64)];
    let mut here = vec![0u64; row.len()];
    for places in a.iter().filter_map(|word| places.get(word)) {
        places.iter().for_each(|at| here[at / 64] |= 1 << (at % 64));
        let mut carry = false;
        for (row, here) in row.iter_mut().zip(&mut here) {
            let matches = *row & *here;
            let (sum, over) = row.overflowing_add(matches);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            carry = over || again;
            *row = sum | (*row & !matches);
            *here = 0;
        }
    }
    (0..b.len())
        .filter(|at| row[at / 64] >> (at % 64) & 1 == 0)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_order_is_the_longest_common_subsequence() {
        let textbook = |a: &[&str], b: &[&str]| {
            let mut row = vec![0; b.len() + 1];
            for x in a {
                let mut corner = 0;
                for (j, y) in b.iter().enumerate() {
                    let keep = row[j + 1];
                    row[j + 1] = if x == y { corner + 1 } else { keep.max(row[j]) };
                    corner = keep;
                }
            }
            row[b.len()]
        };
        const WORDS: [&str; 5] = ["a", "b", "c", "d", "e"];
        let text = |seed: usize, length: usize| {
            (0..length)
                .map(|at| WORDS[(seed * 7 + at * at * 3 + at * seed) % 5])
                .collect::<Vec<_>>()
        };
        for (seed, (x, y)) in [
            (0, 0),
            (5, 0),
            (63, 64),
            (64, 64),
            (65, 130),
            (200, 129),
            (300, 300),
        ]
        .into_iter()
        .enumerate()
        {
            let a = text(seed, x);
            let b = text(seed + 3, y);
            assert_eq!(common_order(&a, &b), textbook(&a, &b), "{x} and {y} words");
        }
    }

    #[test]
    fn scores_distinguish_order_numbers_and_letters() {
        let score = score("Net sales 1,234.5 rose", "rose Net sales 1,234.5");
        assert_eq!(
            (score.words, score.ordered, score.numbers, score.characters),
            (1.0, 0.75, 1.0, 1.0)
        );
        assert_eq!(
            super::score(
                "\u{201c}a\u{ad}b\u{201d} \u{2013} \u{fb01}n",
                "\"ab\" - fin"
            )
            .ordered,
            1.0
        );
        assert_eq!(super::score("", "").words, 1.0);
        assert_eq!(super::score("x", "").words, 0.0);
    }
}
