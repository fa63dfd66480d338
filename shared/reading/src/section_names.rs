//! The names and titles of sections that forms prescribe without a number, such as `risk-factors`.

use std::collections::HashMap;
use std::sync::LazyLock;

use stemma_document::text::normalize_key;

use crate::vocabulary::{
    CANADIAN_SECTIONS, FUND_SECTIONS, LABEL_NUMBERS, PLAN_SECTIONS, PROSPECTUS_SECTIONS,
    PROXY_SECTIONS, SECTION_LABELS, WordList,
};

/// A title of a section as a list has it: `Description of*Capital Stock`, in which `*` is any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitlePattern {
    // The normalized texts between the stars, in order.
    pieces: Vec<String>,
}

impl TitlePattern {
    pub fn new(title: &str) -> Self {
        Self {
            pieces: title.split('*').map(title_key).collect(),
        }
    }

    /// Whether a title with this [`title_key`] fits.
    pub fn fits(&self, key: &str) -> bool {
        let Some((first, others)) = self.pieces.split_first() else {
            return false;
        };
        let Some(rest) = key.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, between)) = others.split_last() else {
            return rest.is_empty() && !key.is_empty();
        };
        let behind = between.iter().try_fold(rest, |rest, piece| {
            rest.find(piece.as_str())
                .map(|at| &rest[at + piece.len()..])
        });
        behind.is_some_and(|rest| rest.ends_with(last.as_str()))
    }
}

/// A title without case, blanks and punctuation; `&` is a word.
pub fn title_key(title: &str) -> String {
    normalize_key(&title.replace('&', " and "))
}

/// A title without what numbers it: `Proposal No. 2 – `, `2023 `, and without a bracket at its end.
pub fn unlabeled(title: &str) -> &str {
    let mut rest = title.trim();
    let mut is_labeled = false;
    loop {
        let end = rest
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(rest.len());
        let word = rest[..end].to_lowercase();
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_year = is_number && word.len() == 4 && word.starts_with("20");
        let is_counted = is_number && (is_labeled || rest[end..].starts_with(['.', ')']));
        let is_part = is_year
            || is_counted
            || SECTION_LABELS.contains(&word) && !is_labeled
            || is_labeled && LABEL_NUMBERS.contains(&word);
        if !is_part || end == rest.len() {
            break;
        }
        is_labeled |= !is_number;
        rest = rest[end..].trim_start_matches(|c: char| !c.is_alphanumeric());
    }
    match rest
        .trim_end()
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('))
    {
        Some((before, _)) if !before.trim().is_empty() => before.trim_end(),
        _ => rest,
    }
}

// By the name itself and by titles without a star, as addresses write them.
static NAMES: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for (name, titles) in lists()
        .into_iter()
        .flat_map(|list| list.iter())
        .filter_map(|line| named(line))
    {
        for text in titles
            .split(" | ")
            .filter(|title| !title.contains('*'))
            .chain([name])
        {
            names.entry(slug(text)).or_insert(name);
        }
    }
    names
});

fn lists() -> [&'static WordList; 5] {
    [
        &PROSPECTUS_SECTIONS,
        &PROXY_SECTIONS,
        &FUND_SECTIONS,
        &CANADIAN_SECTIONS,
        &PLAN_SECTIONS,
    ]
}

// The name and the titles of a line.
fn named(line: &'static str) -> Option<(&'static str, &'static str)> {
    let (place, titles) = line.split_once(" | ")?;
    let (_, name) = place.split_once(' ')?;
    Some((name.trim_end_matches('!'), titles))
}

/// The section that a name or one of its titles names, in any case: `risk-factors`, `Risk Factors`, `MD&A`.
pub fn find(text: &str) -> Option<&'static str> {
    // No name is longer, and addresses come from outside.
    (text.len() <= 160).then(|| NAMES.get(&slug(text)).copied())?
}

// Words with hyphens between them.
fn slug(text: &str) -> String {
    let text = text
        .to_lowercase()
        .replace(['’', '\''], "")
        .replace('&', " and ");
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let fits = |pattern: &str, title: &str| TitlePattern::new(pattern).fits(&title_key(title));
        for (pattern, title) in [
            ("Use of Proceeds", "USE OF PROCEEDS"),
            (
                "Description of*Capital Stock*",
                "Description of Our Capital Stock",
            ),
            (
                "Description of*Capital Stock*",
                "Description of Capital Stock and Warrants",
            ),
            (
                "*Forward-Looking Statements",
                "Special Note Regarding Forward-Looking Statements",
            ),
            (
                "Ratif*Accounting Firm*",
                "Ratification of Independent Registered Public Accounting Firm",
            ),
            ("CD&A", "CD & A"),
        ] {
            assert!(fits(pattern, title), "{pattern} {title}");
        }
        for (pattern, title) in [
            ("Use of Proceeds", "Use of Proceeds from the Sale"),
            (
                "Description of*Capital Stock*",
                "Our Description of Capital Stock",
            ),
            ("Elect*Directors", "Election of the Chair"),
            ("a*ab*b", "ab"),
            ("", ""),
        ] {
            assert!(!fits(pattern, title), "{pattern} {title}");
        }
    }

    #[test]
    fn labels_are_no_part_of_a_title() {
        for (title, expected) in [
            ("Proposal No. 2 – Say on Pay", "Say on Pay"),
            (
                "PROPOSAL ONE: ELECTION OF DIRECTORS",
                "ELECTION OF DIRECTORS",
            ),
            ("Proposal 1 Election of Directors", "Election of Directors"),
            (
                "Item 3—Ratification of Auditors (Item 3 on the Proxy Card)",
                "Ratification of Auditors",
            ),
            ("2023 Director Compensation", "Director Compensation"),
            ("1. Election of Directors", "Election of Directors"),
            ("12 First Street", "12 First Street"),
            ("Matters of Interest", "Matters of Interest"),
            ("Proposals", "Proposals"),
            ("1", "1"),
            ("(a)", "(a)"),
            ("", ""),
        ] {
            assert_eq!(unlabeled(title), expected, "{title}");
        }
    }

    #[test]
    fn sections_are_named_as_addresses_write_them() {
        assert_eq!(find("risk-factors"), Some("risk-factors"));
        assert_eq!(find("Risk Factors"), Some("risk-factors"));
        assert_eq!(find("MD&A"), Some("managements-discussion-and-analysis"));
        assert_eq!(
            find(
                "Management's Discussion and Analysis of Financial Condition and Results of Operations"
            ),
            find("md-and-a")
        );
        assert_eq!(find("1A"), None);
        assert_eq!(find(""), None);
        assert_eq!(find(&"a".repeat(10_000)), None);
    }

    #[test]
    fn a_title_names_the_same_section_in_all_lists() {
        for (name, titles) in lists()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|line| named(line).expect(line))
        {
            assert_eq!(slug(name), name);
            for title in titles.split(" | ").filter(|title| !title.contains('*')) {
                assert_eq!(find(title), Some(name), "{title}");
            }
        }
    }
}
