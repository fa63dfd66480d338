//! Titles: a normalized form without white space, case and punctuation, and the line of a title.

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

    // How well the title matches at a line: whole lines score highest, then the start of a line.
    fn score_at(&self, lines: &[String], at: usize) -> f64 {
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

    /// The best matching line (an index) of a page of normalized lines; the first of equals.
    pub(crate) fn line(&self, lines: &[String]) -> Option<usize> {
        let scored = (0..lines.len()).map(|at| (self.score_at(lines, at), at));
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
