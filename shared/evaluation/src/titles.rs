//! Similarity of section titles. Numbering, case, punctuation and truncation are ignored; titles of different Items or
//! Parts never match.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use unicode_normalization::UnicodeNormalization;

/// Longer titles are compared up to this character.
const MAX_CHARS: usize = 1_000;
/// Lowest share of common bigrams at which the slow character comparison runs.
const MIN_SHARED_BIGRAMS: f64 = 0.5;

/// `Part II, Item 7A`, `Items 1 and 2`. Captures the part, the first number and its letter.
static ITEM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"(?:part\s+(?P<part>iv|i{1,3})\s*[-,.:|]*\s*)?";
    let number = r"items?\s*(?P<number>\d{1,2})\s*(?P<letter>[abc]\b)?";
    let more = r"(?:\s*(?:and|,|&|/)\s*(?:item\s*)?\d{1,2}[abc]?)*";
    Regex::new(&format!(r"^{part}{number}{more}\s*[-.:,)|]*\s*")).ok()
});
/// `Part II`.
static PART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^part\s+(?P<part>iv|i{1,3})\b\s*[-.:,|]*\s*").ok());
/// `Note 3.`, `2.1`, `(b)` or `iv.` before other words.
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"(?:(?:note|section|chapter|appendix|exhibit|article|schedule|annex)\s+)?";
    let number = r"(?:\(?[0-9]{1,2}(?:\.[0-9]{1,2})*[.)]?|\(?[a-z][.)]|\(?[ivxl]{1,5}[.)])";
    Regex::new(&format!(r"^{word}{number}\s*[-.:]*\s+")).ok()
});
static CONTINUED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\s*\(continued\)\s*$").ok());
static LEADERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[.\s\u{2026}]{3,}\d+\s*$").ok());

/// A title prepared for comparison.
#[derive(Debug, Clone)]
pub(super) struct TitleKey {
    /// Normalized, with punctuation.
    normalized: String,
    item: Option<String>,
    part: Option<String>,
    is_part: bool,
    /// Section number, if the title is neither an Item nor a PART.
    number: Option<String>,
    whole: TitleWords,
    /// Without Item, PART or number.
    core: TitleWords,
}

/// Words without punctuation, and their bigrams.
#[derive(Debug, Clone, Default)]
struct TitleWords {
    text: String,
    chars: Vec<char>,
    /// Adjacent letters, sorted; spaces are skipped.
    bigrams: Vec<(char, char)>,
}

impl TitleKey {
    pub(super) fn new(title: &str) -> Self {
        let normalized = normalize(title);
        let mut item = None;
        let mut part = None;
        let mut number = None;
        let mut core = normalized.as_str();
        let mut is_part = false;
        if let Some(captures) = captures(&ITEM, &normalized) {
            let letter = group(&captures, "letter").unwrap_or_default();
            item = group(&captures, "number").map(|number| number + &letter);
            part = group(&captures, "part");
            core = after_match(&captures, &normalized);
        } else if let Some(captures) = captures(&PART, &normalized) {
            is_part = true;
            part = group(&captures, "part");
            core = after_match(&captures, &normalized);
        } else if let Some(captures) = captures(&NUMBER, &normalized) {
            number = captures.get(0).map(|prefix| words(prefix.as_str()));
            core = after_match(&captures, &normalized);
        }
        Self {
            item,
            part,
            is_part,
            number,
            whole: TitleWords::new(&normalized),
            core: TitleWords::new(core),
            normalized,
        }
    }

    pub(super) fn is_item_or_part(&self) -> bool {
        self.is_part || self.item.is_some()
    }

    /// 0–1. Titles of one section have at least 0.8.
    pub(super) fn similarity(&self, other: &TitleKey) -> f64 {
        let only_symbols = self.whole.text.is_empty() && other.whole.text.is_empty();
        if only_symbols {
            let equal = self.normalized == other.normalized;
            return if equal { 1.0 } else { 0.0 };
        }
        if self.contradicts(other) {
            return 0.0;
        }
        if self.whole.text == other.whole.text {
            return 1.0;
        }
        // The same PART, with and without its title.
        if self.is_part && other.is_part {
            return 0.95;
        }
        let whole = if self.whole.shared_bigrams(&other.whole) >= MIN_SHARED_BIGRAMS {
            self.whole.ratio(&other.whole)
        } else {
            0.0
        };
        let best = whole.max(self.core_similarity(other));
        if self.is_same_item(other) {
            best.max(0.9)
        } else {
            best
        }
    }

    /// Different Items, different Parts, or a Part and an Item.
    fn contradicts(&self, other: &TitleKey) -> bool {
        (self.is_part != other.is_part && (self.item.is_some() || other.item.is_some()))
            || (self.is_part && other.is_part && self.part != other.part)
            || differ(&self.item, &other.item)
            || differ(&self.part, &other.part)
    }

    /// The same Item number, and titles that are similar or absent.
    fn is_same_item(&self, other: &TitleKey) -> bool {
        self.item.is_some()
            && self.item == other.item
            && (self.core.text.is_empty()
                || other.core.text.is_empty()
                || self.core.shared_bigrams(&other.core) >= 0.35)
    }

    fn core_similarity(&self, other: &TitleKey) -> f64 {
        if self.core.text.is_empty() || other.core.text.is_empty() {
            return 0.0;
        }
        let other_number = differ(&self.number, &other.number);
        if self.core.text == other.core.text {
            return if other_number { 0.85 } else { 0.97 };
        }
        let mut best: f64 = 0.0;
        if self.core.shared_bigrams(&other.core) >= MIN_SHARED_BIGRAMS {
            best = self.core.ratio(&other.core) - if other_number { 0.05 } else { 0.0 };
        }
        if self.core.is_prefix_of(&other.core) || other.core.is_prefix_of(&self.core) {
            best.max(0.85)
        } else {
            best
        }
    }
}

fn differ(a: &Option<String>, b: &Option<String>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

fn captures<'t>(rule: &LazyLock<Option<Regex>>, title: &'t str) -> Option<Captures<'t>> {
    rule.as_ref()?.captures(title)
}

fn group(captures: &Captures<'_>, name: &str) -> Option<String> {
    Some(captures.name(name)?.as_str().to_string())
}

fn after_match<'t>(captures: &Captures<'_>, title: &'t str) -> &'t str {
    captures
        .get(0)
        .and_then(|prefix| title.get(prefix.end()..))
        .unwrap_or_default()
}

impl TitleWords {
    fn new(text: &str) -> Self {
        let text = words(text);
        let letters: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
        let mut bigrams: Vec<(char, char)> = match letters.as_slice() {
            [] => vec![('\0', '\0')],
            [one] => vec![(*one, '\0')],
            more => more.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        };
        bigrams.sort_unstable();
        Self {
            chars: text.chars().collect(),
            text,
            bigrams,
        }
    }

    /// Dice's coefficient of the bigrams.
    fn shared_bigrams(&self, other: &TitleWords) -> f64 {
        let mut a = self.bigrams.as_slice();
        let mut b = other.bigrams.as_slice();
        let mut common = 0;
        while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
            common += usize::from(x == y);
            if x <= y {
                a = rest_a;
            }
            if y <= x {
                b = rest_b;
            }
        }
        (2 * common) as f64 / (self.bigrams.len() + other.bigrams.len()) as f64
    }

    /// Share of characters in common blocks (gestalt pattern matching by Ratcliff and Obershelp): the longest common
    /// block, then recursively on both sides of it.
    fn ratio(&self, other: &TitleWords) -> f64 {
        let a = &self.chars;
        let b = &other.chars;
        let mut matched = 0;
        let mut open = vec![(0, a.len(), 0, b.len())];
        while let Some((a_from, a_to, b_from, b_to)) = open.pop() {
            let (at, bt, length) = longest_block(&a[a_from..a_to], &b[b_from..b_to]);
            if length > 0 {
                matched += length;
                open.push((a_from, a_from + at, b_from, b_from + bt));
                open.push((a_from + at + length, a_to, b_from + bt + length, b_to));
            }
        }
        (2 * matched) as f64 / (a.len() + b.len()) as f64
    }

    /// Shorter prefixes than three words do not count.
    fn is_prefix_of(&self, other: &TitleWords) -> bool {
        let mut others = other.text.split(' ');
        let mut count = 0;
        self.text.split(' ').all(|word| {
            count += 1;
            others.next() == Some(word)
        }) && count >= 3
    }
}

/// Start in `a`, start in `b` and length of the longest common block. Of equal ones, the first in `a`, then in `b`.
fn longest_block(a: &[char], b: &[char]) -> (usize, usize, usize) {
    let mut best = (0, 0, 0);
    let mut before = vec![0usize; b.len() + 1];
    let mut now = vec![0usize; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            now[j + 1] = if x == y { before[j] + 1 } else { 0 };
            if now[j + 1] > best.2 {
                best = (i + 1 - now[j + 1], j + 1 - now[j + 1], now[j + 1]);
            }
        }
        std::mem::swap(&mut before, &mut now);
    }
    best
}

/// Lower case, plain quotes and dashes, `and` for `&`, without invisible characters, `(continued)`, and leader dots with
/// their page number.
fn normalize(title: &str) -> String {
    let title: String = title.chars().take(MAX_CHARS).collect();
    let mut plain = String::new();
    for c in title.nfkc().flat_map(char::to_lowercase) {
        match c {
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            '\u{201c}' | '\u{201d}' => plain.push('"'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => plain.push('-'),
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
            | '\u{ad}' => {}
            '&' => plain.push_str(" and "),
            c => plain.push(c),
        }
    }
    for ending in [&CONTINUED, &LEADERS] {
        if let Some(found) = ending.as_ref().and_then(|ending| ending.find(&plain)) {
            plain.truncate(found.start());
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces everything but letters, digits and underscores by single spaces. Apostrophes are removed.
fn words(title: &str) -> String {
    let title = title.replace('\'', "");
    let words = title.split(|c: char| !c.is_alphanumeric() && c != '_');
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_titles_match() {
        let cases = [
            ("Item 1A. Risk Factors", "RISK FACTORS", true),
            (
                "ITEM 7. MANAGEMENT\u{2019}S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION",
                "Management's Discussion and Analysis",
                true,
            ),
            ("Item 1. Business", "Item 2. Properties", false),
            ("Item 1. Business", "Item 1. Legal Proceedings", false),
            ("Part I", "Part II", false),
            ("Part I", "Part I \u{2013} Financial Information", true),
            ("Part I", "Item 1. Financial Statements", false),
            ("Risk Factors", "Risk Management", false),
            ("Note 3. Leases", "Note 4. Leases", true),
            ("Note 3. Leases", "Note 4. Debt", false),
            ("3.2 Results", "Results", true),
            (
                "Items 1 and 2. Business and Properties",
                "Item 1. Business & Properties",
                true,
            ),
            ("Liquidity (continued)", "Liquidity . . . . . . 47", true),
            ("第一章 公司概况", "第一章　公司概况", true),
            ("***", "***", true),
            ("***", "---", false),
        ];
        for (a, b, is_match) in cases {
            let similarity = TitleKey::new(a).similarity(&TitleKey::new(b));
            assert_eq!(similarity >= 0.8, is_match, "{a} / {b}: {similarity}");
            assert_eq!(
                similarity,
                TitleKey::new(b).similarity(&TitleKey::new(a)),
                "{a} / {b}"
            );
        }
    }

    #[test]
    fn ratio_is_the_share_of_common_blocks() {
        let ratio = |a: &str, b: &str| TitleWords::new(a).ratio(&TitleWords::new(b));
        assert_eq!(ratio("abcd", "bcde"), 0.75);
        assert_eq!(ratio("abxcd", "abcd"), 8.0 / 9.0);
        assert_eq!(ratio("abc", "xyz"), 0.0);
    }
}
