//! Titles as texts: a form without white space, case and punctuation, and how alike two of them are.

use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::UnicodeNormalization;

/// Characters of a text that are compared.
const COMPARED: usize = 400;
/// Lines a title is broken over at most.
const LINES: usize = 5;
/// A run-in heading is known by so many characters at least.
const RUN_IN: usize = 8;

#[expect(
    clippy::unwrap_used,
    reason = "a pattern that does not change; a test uses it"
)]
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let word =
        "(?:(?:part|item|items|note|section|chapter|appendix|exhibit|article|schedule|annex)\\s+)";
    let number = "(?:[0-9]+(?:\\.[0-9]+)*[a-c]?|[ivxl]+|[a-z])";
    Regex::new(&format!(
        "(?i)^(?:{word}({number})\\b|([0-9]+(?:\\.[0-9]+)*)\\s|\\(?({number})[.)])[\\s.:)–—-]*"
    ))
    .unwrap()
});

/// Letters and digits in lower case, ligatures and wide forms resolved.
pub(crate) fn squash(text: &str) -> String {
    let folded = text.nfkc().flat_map(char::to_lowercase);
    folded
        .filter(|c| c.is_alphanumeric())
        .take(COMPARED)
        .collect()
}

/// A title, prepared for comparing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Title {
    /// The number it carries, without the word before it.
    pub(crate) number: String,
    /// Squashed, and squashed without its number.
    full: String,
    core: String,
}

impl Title {
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim();
        let full = squash(text);
        let found = NUMBER.captures(text);
        let number = found
            .as_ref()
            .and_then(|found| found.iter().skip(1).flatten().next());
        let number = number.map_or("", |number| number.as_str()).to_string();
        let core = found
            .and_then(|found| Some(squash(&text[found.get(0)?.end()..])))
            .filter(|core| !core.is_empty());
        Self {
            number,
            core: core.unwrap_or_else(|| full.clone()),
            full,
        }
    }

    /// How alike two titles are, from 0 to 1; other numbers are other titles.
    pub(crate) fn likeness(&self, other: &Self) -> f64 {
        if self.full.is_empty() || other.full.is_empty() {
            return 0.0;
        }
        if self.full == other.full {
            return 1.0;
        }
        let numbered = |title: &Self| !title.number.is_empty();
        if numbered(self) && numbered(other) && !self.number.eq_ignore_ascii_case(&other.number) {
            return 0.0;
        }
        if self.core == other.core {
            return 0.97;
        }
        // `PART I` and what else stands in its line.
        let bare = |title: &Self, longer: &Self| {
            title.core == title.full && longer.full.starts_with(&title.full)
        };
        if numbered(self) && numbered(other) && (bare(self, other) || bare(other, self)) {
            return 0.9;
        }
        let begins = |a: &str, b: &str| a.len() >= RUN_IN && b.starts_with(a);
        if begins(&self.core, &other.core) || begins(&other.core, &self.core) {
            return 0.9;
        }
        // Of texts so different in length too few pairs can be the same.
        let short = self.core.len().min(other.core.len());
        let long = self.core.len().max(other.core.len());
        if short * 2 < long {
            0.0
        } else {
            dice(&self.core, &other.core)
        }
    }

    /// How well the title stands at a line: as one or a few whole lines best, then at the beginning of one.
    fn stands_at(&self, lines: &[String], at: usize) -> f64 {
        let mut joined = String::new();
        for line in lines[at..].iter().take(LINES) {
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
        let begins = |title: &str| title.len() >= RUN_IN && joined.starts_with(title);
        if begins(&self.full) {
            0.8
        } else if begins(&self.core)
            && lines[at].starts_with(&self.core[..self.core.floor_char_boundary(RUN_IN)])
        {
            0.7
        } else {
            0.0
        }
    }

    /// The line at which it stands on lines of its own, an index; the first of those.
    pub(crate) fn own_line(&self, lines: &[String]) -> Option<usize> {
        (0..lines.len()).find(|at| self.stands_at(lines, *at) >= 0.95)
    }

    /// The line at which it stands best on a page of squashed lines, an index; the first of those.
    pub(crate) fn line(&self, lines: &[String]) -> Option<usize> {
        let scored = (0..lines.len()).map(|at| (self.stands_at(lines, at), at));
        let best = scored
            .filter(|(score, _)| *score > 0.0)
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        best.map(|(_, at)| at)
    }
}

/// A title as its number, with the word before it, and what follows; one that has nothing else is all title.
pub(crate) fn parts(title: &str) -> (&str, &str) {
    let whole = ("", title);
    let Some(found) = NUMBER.captures(title) else {
        return whole;
    };
    let end = found
        .iter()
        .skip(1)
        .flatten()
        .next()
        .map_or(0, |number| number.end());
    let rest = found.get(0).map_or("", |found| &title[found.end()..]);
    if rest.is_empty() || rest.starts_with(',') {
        whole
    } else {
        (title[..end].trim_start_matches('('), rest)
    }
}

/// The lines of a text, squashed.
pub(crate) fn squashed(text: &str) -> Vec<String> {
    text.lines().map(squash).collect()
}

/// Dice coefficient of the pairs of characters.
fn dice(a: &str, b: &str) -> f64 {
    let pairs = |text: &str| {
        let bytes = text.as_bytes();
        let mut pairs: Vec<_> = bytes.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        pairs.sort_unstable();
        pairs
    };
    let a = pairs(a);
    let b = pairs(b);
    let mut i = 0;
    let mut j = 0;
    let mut common = 0;
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    if a.len() + b.len() == 0 {
        0.0
    } else {
        2.0 * f64::from(common) / (a.len() + b.len()) as f64
    }
}

/// Likeness from which on two titles are taken for one.
pub(crate) const ALIKE: f64 = 0.8;

/// Which of `wanted` each of `given` is: the pairs that score most (from [`ALIKE`] on) in the same order on both sides, each
/// at most once.
pub(crate) fn aligned(
    given: usize,
    wanted: usize,
    score: impl Fn(usize, usize) -> f64,
) -> Vec<Option<usize>> {
    let scores: Vec<f64> = (0..given)
        .flat_map(|i| (0..wanted).map(move |j| (i, j)))
        .map(|(i, j)| score(i, j))
        .collect();
    let like = |i: usize, j: usize| scores[i * wanted + j];
    // Of given[i..] and wanted[j..].
    let mut best = vec![0.0_f64; (given + 1) * (wanted + 1)];
    let at = |i: usize, j: usize| i * (wanted + 1) + j;
    for i in (0..given).rev() {
        for j in (0..wanted).rev() {
            let pair = if like(i, j) >= ALIKE {
                like(i, j) + best[at(i + 1, j + 1)]
            } else {
                0.0
            };
            best[at(i, j)] = pair.max(best[at(i + 1, j)]).max(best[at(i, j + 1)]);
        }
    }
    let mut found = vec![None; given];
    let mut i = 0;
    let mut j = 0;
    while i < given && j < wanted {
        if like(i, j) >= ALIKE && best[at(i, j)] == like(i, j) + best[at(i + 1, j + 1)] {
            found[i] = Some(j);
            (i, j) = (i + 1, j + 1);
        } else if best[at(i, j)] == best[at(i + 1, j)] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(a: &str, b: &str) -> f64 {
        Title::of(a).likeness(&Title::of(b))
    }

    #[test]
    fn numbers_are_told_from_titles() {
        let number = |title: &str| Title::of(title).number;
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
    fn a_title_is_parted_into_number_and_rest() {
        assert_eq!(parts("Item 1A. Risk Factors"), ("Item 1A", "Risk Factors"));
        assert_eq!(
            parts("PART II \u{2014} OTHER INFORMATION"),
            ("PART II", "OTHER INFORMATION")
        );
        assert_eq!(parts("2.1 Computing the EMD"), ("2.1", "Computing the EMD"));
        assert_eq!(
            parts("Items 10, 11 and 12. Directors"),
            ("", "Items 10, 11 and 12. Directors")
        );
        assert_eq!(
            [parts("PART I"), parts("Dividend")],
            [("", "PART I"), ("", "Dividend")]
        );
    }

    #[test]
    fn case_spaces_ligatures_and_missing_numbers_do_not_matter_but_other_numbers_do() {
        assert_eq!(likeness("R I S K  FACTORS", "Risk factors"), 1.0);
        assert_eq!(likeness("Of\u{fb01}cers", "OFFICERS"), 1.0);
        assert!(likeness("Item 1A. Risk Factors", "Risk Factors") > 0.95);
        assert_eq!(likeness("Item 1. Business", "Item 2. Business"), 0.0);
        assert!(likeness("PART I", "Part I Page") > 0.8 && likeness("PART I", "PART II") < 0.5);
        assert!(likeness("Revenue", "Risk Factors") < 0.5);
    }

    #[test]
    fn a_title_stands_as_lines_of_its_own_before_it_stands_anywhere_else() {
        let page = squashed(
            "See Item 1A. Risk Factors below for more.\nItem 1A.\nRisk\nFactors\nOur business",
        );
        assert_eq!(Title::of("Item 1A. Risk Factors").line(&page), Some(1));
        assert_eq!(Title::of("RISK FACTORS").line(&page), Some(2));
        assert_eq!(Title::of("Legal Proceedings").line(&page), None);
        let run_in = squashed("Something\nShare repurchases The company bought shares.");
        assert_eq!(Title::of("Share repurchases").line(&run_in), Some(1));
    }

    #[test]
    fn titles_are_aligned_in_order_and_used_once() {
        let titles = |all: &[&str]| all.iter().map(|title| Title::of(title)).collect::<Vec<_>>();
        let wanted = titles(&["A. One", "General", "B. Two", "General", "C. Three"]);
        let found = |given: &[&str]| {
            let given = titles(given);
            aligned(given.len(), wanted.len(), |i, j| {
                given[i].likeness(&wanted[j])
            })
        };
        assert_eq!(
            found(&["One", "Two", "General", "x"]),
            [Some(0), Some(2), Some(3), None]
        );
        assert_eq!(found(&["General"]), [Some(1)]);
        assert_eq!(found(&[]), []);
    }
}
