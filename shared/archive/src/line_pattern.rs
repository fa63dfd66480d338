//! A regular expression that is searched for in lines, in bounded steps.

use std::ops::Range;

use regex_automata::Input;
use regex_automata::meta;
use regex_automata::util::syntax;
use stemma_store::work::Cancellation;

use crate::ApiError;

// Compiled size in bytes. Time is at most in proportion to it and to the text. `\w` alone takes 50 KiB, `\D{0,40}` some 700.
const MAX_PATTERN_BYTES: usize = 1 << 20;
// Memory of the lazily built automaton, for each thread.
const MAX_CACHE_BYTES: usize = 2 << 20;
// Longer lines are searched in overlapping parts, so that a search can be cancelled. A match that is no longer than half of
// this lies in one of them.
const PART_BYTES: usize = 32 << 10;

/// A compiled pattern. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LinePattern(meta::Regex);

impl LinePattern {
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, ApiError> {
        let limits = meta::Config::new()
            .nfa_size_limit(Some(MAX_PATTERN_BYTES))
            .hybrid_cache_capacity(MAX_CACHE_BYTES);
        let built = meta::Builder::new()
            .syntax(syntax::Config::new().case_insensitive(ignore_case))
            .configure(limits)
            .build(pattern);
        built.map(Self).map_err(|error| {
            let reason = match error.syntax_error() {
                Some(error) => last_line(&error.to_string()).to_owned(),
                None => "it is too large".into(),
            };
            let message = format!("`{pattern}` is not a pattern: {reason}");
            let next = "search for plain text with --fixed-strings";
            ApiError::new("grep.pattern_invalid", message, next)
        })
    }

    /// The first match in a line. `None` also when the search is cancelled.
    pub fn find(&self, line: &str, cancelled: &Cancellation) -> Option<Range<usize>> {
        let mut start = 0;
        loop {
            if cancelled.is_set() {
                return None;
            }
            let end = line.floor_char_boundary(start + PART_BYTES);
            // The whole line is the context, so that `^`, `$` and `\b` mean what they mean in it.
            if let Some(found) = self.0.find(Input::new(line).span(start..end)) {
                return Some(found.range());
            }
            if end == line.len() {
                return None;
            }
            start = line.floor_char_boundary(start + PART_BYTES / 2);
        }
    }

    /// All matches in a short text.
    pub fn find_all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.0.find_iter(text).map(|found| found.range())
    }
}

fn last_line(text: &str) -> &str {
    text.lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, line: &str) -> Option<Range<usize>> {
        let pattern = LinePattern::new(pattern, false).unwrap();
        pattern.find(line, &Cancellation::default())
    }

    #[test]
    fn long_lines_are_searched_as_one() {
        let line = format!(
            "{} ü end{}",
            "a".repeat(3 * PART_BYTES),
            "é".repeat(PART_BYTES)
        );
        let at = 3 * PART_BYTES;
        assert_eq!(find("ü end", &line), Some(at + 1..at + 7));
        assert_eq!(find(r"\bend\b", &line), None);
        assert_eq!(find("^ |^ü| $", &line), None, "inside of a line");
        assert_eq!(find("é$", &line), Some(line.len() - 2..line.len()));
        let across = format!("a{{{}}} ü", 900);
        assert_eq!(find(&across, &line), Some(at - 900..at + 3));
    }

    #[test]
    fn patterns_of_words_fit_and_large_ones_do_not() {
        assert_eq!(find(r"\w+@\w+\.\w+", "to a@b.de"), Some(3..9));
        assert_eq!(
            find(r"(?i)\bnet\s+(sales|revenues?)\b\D{0,40}\d", "Net sales: 5"),
            Some(0..12)
        );
        for pattern in ["(?:[ -~]{0,100}[aeiou]){600}", r"\w{100}", "(a"] {
            let error = LinePattern::new(pattern, false).unwrap_err();
            assert_eq!(error.code, "grep.pattern_invalid", "{pattern}");
        }
    }
}
