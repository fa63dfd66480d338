//! Titles: a normalized form without white space, case and punctuation, and the similarity of two titles.

use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::UnicodeNormalization;

// Longest compared prefix in characters.
const MAX_COMPARED_CHARS: usize = 400;
// Most lines of a wrapped title.
const MAX_TITLE_LINES: usize = 5;
// A shorter run-in heading is not recognized.
const MIN_RUN_IN_CHARS: usize = 8;

#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let word =
        "(?:(?:part|item|items|note|section|chapter|appendix|exhibit|article|schedule|annex)\\s+)";
    let number = "(?:[0-9]+(?:\\.[0-9]+)*[a-c]?|[ivxl]+|[a-z])";
    Regex::new(&format!(
        "(?i)^(?:{word}({number})\\b|([0-9]+(?:\\.[0-9]+)*)\\s|\\(?({number})[.)])[\\s.:)–—-]*"
    ))
    .unwrap()
});

/// Letters and digits in lower case, with ligatures and wide forms resolved.
pub(crate) fn squash(text: &str) -> String {
    let folded = text.nfkc().flat_map(char::to_lowercase);
    folded
        .filter(|c| c.is_alphanumeric())
        .take(MAX_COMPARED_CHARS)
        .collect()
}

/// A title prepared for comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NormalizedTitle {
    /// Its number, without the word before it.
    pub(crate) number: String,
    // Normalized, and normalized without its number.
    full: String,
    core: String,
}

impl NormalizedTitle {
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let full = squash(text);
        let captures = NUMBER.captures(text);
        let number = captures
            .as_ref()
            .and_then(|captures| captures.iter().skip(1).flatten().next());
        let number = number.map_or("", |number| number.as_str()).to_string();
        let core = captures
            .and_then(|captures| Some(squash(&text[captures.get(0)?.end()..])))
            .filter(|core| !core.is_empty());
        Self {
            number,
            core: core.unwrap_or_else(|| full.clone()),
            full,
        }
    }

    /// Similarity of two titles, 0–1. Titles with different numbers are different.
    pub(crate) fn likeness(&self, other: &Self) -> f64 {
        if self.full.is_empty() || other.full.is_empty() {
            return 0.0;
        }
        if self.full == other.full {
            return 1.0;
        }
        let both_numbered = !self.number.is_empty() && !other.number.is_empty();
        if both_numbered && !self.number.eq_ignore_ascii_case(&other.number) {
            return 0.0;
        }
        if self.core == other.core {
            return 0.97;
        }
        // `PART I` and the rest of its line.
        if both_numbered && (self.is_number_of(other) || other.is_number_of(self)) {
            return 0.9;
        }
        if is_prefix(&self.core, &other.core) || is_prefix(&other.core, &self.core) {
            return 0.9;
        }
        // Texts of very different length share too few pairs, so they are not compared.
        let short = self.core.len().min(other.core.len());
        let long = self.core.len().max(other.core.len());
        if short * 2 < long {
            0.0
        } else {
            dice_coefficient(&self.core, &other.core)
        }
    }

    // Whether this title is a number only, and `longer` begins with it.
    fn is_number_of(&self, longer: &Self) -> bool {
        self.core == self.full && longer.full.starts_with(&self.full)
    }

    // How well the title matches at a line: whole lines score highest, then the start of a line.
    fn stands_at(&self, lines: &[String], at: usize) -> f64 {
        let mut joined = String::new();
        for line in lines[at..].iter().take(MAX_TITLE_LINES) {
            joined.push_str(line);
            if joined == self.full && !joined.is_empty() {
                return 1.0;
            }
            if joined == self.core && self.core.len() >= 3 {
                return 0.95;
            }
            if !self.full.starts_with(&joined) && !self.core.starts_with(&joined) {
                break;
            }
        }
        if is_prefix(&self.full, &joined) {
            0.8
        } else if is_prefix(&self.core, &joined)
            && lines[at].starts_with(&self.core[..self.core.floor_char_boundary(MIN_RUN_IN_CHARS)])
        {
            0.7
        } else {
            0.0
        }
    }

    /// The first line (an index) at which it is on lines of its own.
    pub(crate) fn own_line(&self, lines: &[String]) -> Option<usize> {
        (0..lines.len()).find(|at| self.stands_at(lines, *at) >= 0.95)
    }

    /// The best matching line (an index) of a page of normalized lines; the first of equals.
    pub(crate) fn line(&self, lines: &[String]) -> Option<usize> {
        let scored = (0..lines.len()).map(|at| (self.stands_at(lines, at), at));
        let best = scored
            .filter(|(score, _)| *score > 0.0)
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        best.map(|(_, at)| at)
    }
}

/// Splits a title into its number, with the word before it, and the rest. A title with a number only is all
/// text.
pub(crate) fn split_number(title: &str) -> (&str, &str) {
    let whole = ("", title);
    let Some(captures) = NUMBER.captures(title) else {
        return whole;
    };
    let end = captures
        .iter()
        .skip(1)
        .flatten()
        .next()
        .map_or(0, |number| number.end());
    let rest = captures
        .get(0)
        .map_or("", |captures| &title[captures.end()..]);
    if rest.is_empty() || rest.starts_with(',') {
        whole
    } else {
        (title[..end].trim_start_matches('('), rest)
    }
}

/// The normalized lines of a text.
pub(crate) fn squashed_lines(text: &str) -> Vec<String> {
    text.lines().map(squash).collect()
}

// A short title may be the prefix of anything, so it does not count.
fn is_prefix(title: &str, text: &str) -> bool {
    title.len() >= MIN_RUN_IN_CHARS && text.starts_with(title)
}

fn sorted_pairs(text: &str) -> Vec<[u8; 2]> {
    let mut pairs: Vec<_> = text
        .as_bytes()
        .windows(2)
        .map(|pair| [pair[0], pair[1]])
        .collect();
    pairs.sort_unstable();
    pairs
}

// Dice coefficient of character pairs.
fn dice_coefficient(a: &str, b: &str) -> f64 {
    let a = sorted_pairs(a);
    let b = sorted_pairs(b);
    let mut i = 0;
    let mut j = 0;
    let mut common = 0;
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    if a.len() + b.len() == 0 {
        0.0
    } else {
        2.0 * f64::from(common) / (a.len() + b.len()) as f64
    }
}

/// Titles of this similarity count as the same.
pub(crate) const ALIKE: f64 = 0.8;

/// Matches titles in order on both sides, each at most once, so that the sum of similarities (from [`ALIKE`]
/// on) is largest.
pub(crate) fn align(
    given_count: usize,
    expected_count: usize,
    score: impl Fn(usize, usize) -> f64,
) -> Vec<Option<usize>> {
    let scores: Vec<f64> = (0..given_count)
        .flat_map(|i| (0..expected_count).map(move |j| (i, j)))
        .map(|(i, j)| score(i, j))
        .collect();
    let like = |i: usize, j: usize| scores[i * expected_count + j];
    // Dynamic programming: the best sum for the titles from i and from j on.
    let mut best = vec![0.0_f64; (given_count + 1) * (expected_count + 1)];
    let at = |i: usize, j: usize| i * (expected_count + 1) + j;
    for i in (0..given_count).rev() {
        for j in (0..expected_count).rev() {
            let pair = if like(i, j) >= ALIKE {
                like(i, j) + best[at(i + 1, j + 1)]
            } else {
                0.0
            };
            best[at(i, j)] = pair.max(best[at(i + 1, j)]).max(best[at(i, j + 1)]);
        }
    }
    let mut assigned = vec![None; given_count];
    let mut i = 0;
    let mut j = 0;
    while i < given_count && j < expected_count {
        if like(i, j) >= ALIKE && best[at(i, j)] == like(i, j) + best[at(i + 1, j + 1)] {
            assigned[i] = Some(j);
            (i, j) = (i + 1, j + 1);
        } else if best[at(i, j)] == best[at(i + 1, j)] {
            i += 1;
        } else {
            j += 1;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(a: &str, b: &str) -> f64 {
        NormalizedTitle::parse(a).likeness(&NormalizedTitle::parse(b))
    }

    #[test]
    fn numbers_are_split_from_titles() {
        let number = |title: &str| NormalizedTitle::parse(title).number;
        assert_eq!(number("Item 1A. Risk Factors"), "1A");
        assert_eq!(number("PART II—OTHER INFORMATION"), "II");
        assert_eq!(number("2.1 Computing the EMD"), "2.1");
        assert_eq!(number("SECTION 1.02 Classification"), "1.02");
        assert_eq!(number("A. Background"), "A");
        assert_eq!(number("IV. Economic Analysis"), "IV");
        assert_eq!(number("(b) Leases"), "b");
        for plain in [
            "Introduction",
            "2023 Outlook",
            "Vision",
            "A Message From Our CEO",
            "Dividend",
        ] {
            assert!(
                number(plain).is_empty() || plain.starts_with("2023"),
                "{plain}: {}",
                number(plain)
            );
        }
    }

    #[test]
    fn titles_split_into_number_and_text() {
        assert_eq!(
            split_number("Item 1A. Risk Factors"),
            ("Item 1A", "Risk Factors")
        );
        assert_eq!(
            split_number("PART II \u{2014} OTHER INFORMATION"),
            ("PART II", "OTHER INFORMATION")
        );
        assert_eq!(
            split_number("2.1 Computing the EMD"),
            ("2.1", "Computing the EMD")
        );
        assert_eq!(
            split_number("Items 10, 11 and 12. Directors"),
            ("", "Items 10, 11 and 12. Directors")
        );
        assert_eq!(
            [split_number("PART I"), split_number("Dividend")],
            [("", "PART I"), ("", "Dividend")]
        );
    }

    #[test]
    fn titles_match_despite_case_spacing_and_missing_numbers() {
        assert_eq!(likeness("R I S K  FACTORS", "Risk factors"), 1.0);
        assert_eq!(likeness("Of\u{fb01}cers", "OFFICERS"), 1.0);
        assert!(likeness("Item 1A. Risk Factors", "Risk Factors") > 0.95);
        assert_eq!(likeness("Item 1. Business", "Item 2. Business"), 0.0);
        assert!(likeness("PART I", "Part I Page") > 0.8 && likeness("PART I", "PART II") < 0.5);
        assert!(likeness("Revenue", "Risk Factors") < 0.5);
    }

    #[test]
    fn own_lines_outrank_run_in_titles() {
        let page = squashed_lines(
            "See Item 1A. Risk Factors below for more.\nItem 1A.\nRisk\nFactors\nOur business",
        );
        assert_eq!(
            NormalizedTitle::parse("Item 1A. Risk Factors").line(&page),
            Some(1)
        );
        assert_eq!(NormalizedTitle::parse("RISK FACTORS").line(&page), Some(2));
        assert_eq!(
            NormalizedTitle::parse("Legal Proceedings").line(&page),
            None
        );
        let run_in = squashed_lines("Something\nShare repurchases The company bought shares.");
        assert_eq!(
            NormalizedTitle::parse("Share repurchases").line(&run_in),
            Some(1)
        );
    }

    #[test]
    fn titles_align_monotonically_and_once() {
        let titles = |all: &[&str]| {
            all.iter()
                .map(|title| NormalizedTitle::parse(title))
                .collect::<Vec<_>>()
        };
        let expected = titles(&["A. One", "General", "B. Two", "General", "C. Three"]);
        let aligned_titles = |input: &[&str]| {
            let input = titles(input);
            align(input.len(), expected.len(), |i, j| {
                input[i].likeness(&expected[j])
            })
        };
        assert_eq!(
            aligned_titles(&["One", "Two", "General", "x"]),
            [Some(0), Some(2), Some(3), None]
        );
        assert_eq!(aligned_titles(&["General"]), [Some(1)]);
        assert_eq!(aligned_titles(&[]), []);
    }
}
