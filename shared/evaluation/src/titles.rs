//! How alike two titles are: the same words under another number, in other letters, cut short or with its number spelled
//! out are one title; other Items and other Parts never are.

use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::UnicodeNormalization;

/// Characters of a title that are compared; the rest of a longer one is left out.
const MAX_CHARS: usize = 1_000;
/// Share of letter pairs in common below which the letters themselves are not compared.
const MIN_SHARED_PAIRS: f64 = 0.5;

/// `Part II, Item 7A`, `Items 1 and 2`: the part, the first number and its letter.
static ITEM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"(?:part\s+(?P<part>iv|i{1,3})\s*[-,.:|]*\s*)?";
    let number = r"items?\s*(?P<number>\d{1,2})\s*(?P<letter>[abc]\b)?";
    let more = r"(?:\s*(?:and|,|&|/)\s*(?:item\s*)?\d{1,2}[abc]?)*";
    Regex::new(&format!(r"^{part}{number}{more}\s*[-.:,)|]*\s*")).ok()
});
/// `Part II`.
static PART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^part\s+(?P<part>iv|i{1,3})\b\s*[-.:,|]*\s*").ok());
/// `Note 3.`, `2.1`, `(b)`, `iv.` before other words.
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"(?:(?:note|section|chapter|appendix|exhibit|article|schedule|annex)\s+)?";
    let number = r"(?:\(?[0-9]{1,2}(?:\.[0-9]{1,2})*[.)]?|\(?[a-z][.)]|\(?[ivxl]{1,5}[.)])";
    Regex::new(&format!(r"^{word}{number}\s*[-.:]*\s+")).ok()
});
static CONTINUED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\s*\(continued\)\s*$").ok());
static LEADERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[.\s\u{2026}]{3,}\d+\s*$").ok());

/// A title made ready to be compared.
#[derive(Debug, Clone)]
pub(super) struct TitleKey {
    /// Folded, with its punctuation.
    folded: String,
    item: Option<String>,
    part: Option<String>,
    is_part: bool,
    /// What numbers it, where that is no Item or Part.
    number: Option<String>,
    whole: TitleWords,
    /// Without what numbers it.
    core: TitleWords,
}

/// Words without punctuation, and their letter pairs.
#[derive(Debug, Clone, Default)]
struct TitleWords {
    text: String,
    chars: Vec<char>,
    /// Sorted; spaces do not count.
    pairs: Vec<(char, char)>,
}

impl TitleKey {
    pub(super) fn new(title: &str) -> Self {
        let folded = normalize(title);
        let mut item = None;
        let mut part = None;
        let mut is_part = false;
        let mut number = None;
        let mut core = folded.as_str();
        let captured =
            |rule: &LazyLock<Option<Regex>>| rule.as_ref().and_then(|rule| rule.captures(&folded));
        let text = |captures: &regex::Captures<'_>, name: &str| {
            captures
                .name(name)
                .map(|captured| captured.as_str().to_string())
        };
        let rest = |captures: &regex::Captures<'_>| {
            captures
                .get(0)
                .and_then(|all| folded.get(all.end()..))
                .unwrap_or_default()
        };
        if let Some(captures) = captured(&ITEM) {
            let letter = text(&captures, "letter").unwrap_or_default();
            item = text(&captures, "number").map(|number| number + &letter);
            part = text(&captures, "part");
            core = rest(&captures);
        } else if let Some(captures) = captured(&PART) {
            (is_part, part, core) = (true, text(&captures, "part"), rest(&captures));
        } else if let Some(captures) = captured(&NUMBER) {
            number = captures.get(0).map(|all| words(all.as_str()));
            core = rest(&captures);
        }
        let whole = TitleWords::new(&folded);
        let core = TitleWords::new(core);
        Self {
            item,
            part,
            is_part,
            number,
            whole,
            core,
            folded,
        }
    }

    /// Whether it heads a PART or an Item.
    pub(super) fn is_item_or_part(&self) -> bool {
        self.is_part || self.item.is_some()
    }

    /// 0–1; at least 0.8 where both mean the same section.
    pub(super) fn similarity(&self, other: &TitleKey) -> f64 {
        if self.whole.text.is_empty() && other.whole.text.is_empty() {
            return if self.folded == other.folded {
                1.0
            } else {
                0.0
            }; // symbols alone
        }
        if self.contradicts(other) {
            return 0.0;
        }
        if self.whole.text == other.whole.text {
            return 1.0;
        }
        if self.is_part && other.is_part {
            return 0.95; // one part, with and without its words
        }
        let whole = if self.whole.shared_pairs(&other.whole) >= MIN_SHARED_PAIRS {
            self.whole.ratio(&other.whole)
        } else {
            0.0
        };
        let best = whole.max(self.core_similarity(other));
        let one_item = self.item.is_some() && self.item == other.item;
        let worded_alike = || {
            self.core.text.is_empty()
                || other.core.text.is_empty()
                || self.core.shared_pairs(&other.core) >= 0.35
        };
        if one_item && worded_alike() {
            best.max(0.9)
        } else {
            best
        }
    }

    /// Other Items, other Parts, and a Part against an Item.
    fn contradicts(&self, other: &TitleKey) -> bool {
        let differ =
            |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
        (self.is_part != other.is_part && (self.item.is_some() || other.item.is_some()))
            || (self.is_part && other.is_part && self.part != other.part)
            || differ(&self.item, &other.item)
            || differ(&self.part, &other.part)
    }

    fn core_similarity(&self, other: &TitleKey) -> f64 {
        if self.core.text.is_empty() || other.core.text.is_empty() {
            return 0.0;
        }
        let other_number = matches!((&self.number, &other.number), (Some(a), Some(b)) if a != b);
        if self.core.text == other.core.text {
            return if other_number { 0.85 } else { 0.97 };
        }
        let mut best: f64 = 0.0;
        if self.core.shared_pairs(&other.core) >= MIN_SHARED_PAIRS {
            best = self.core.ratio(&other.core) - if other_number { 0.05 } else { 0.0 };
        }
        if self.core.is_prefix_of(&other.core) || other.core.is_prefix_of(&self.core) {
            best.max(0.85)
        } else {
            best
        }
    }
}

impl TitleWords {
    fn new(text: &str) -> Self {
        let text = words(text);
        let letters: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
        let mut pairs: Vec<(char, char)> = match letters.as_slice() {
            [] => vec![('\0', '\0')],
            [one] => vec![(*one, '\0')],
            more => more.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        };
        pairs.sort_unstable();
        Self {
            chars: text.chars().collect(),
            text,
            pairs,
        }
    }

    /// Letter pairs in common, as a share of all (Dice's coefficient).
    fn shared_pairs(&self, other: &TitleWords) -> f64 {
        let mut a = self.pairs.as_slice();
        let mut b = other.pairs.as_slice();
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
        2.0 * common as f64 / (self.pairs.len() + other.pairs.len()) as f64
    }

    /// Characters in common blocks, as a share of all (Ratcliff and Obershelp's gestalt matching): the longest common
    /// block, and the same left and right of it.
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
        2.0 * matched as f64 / (a.len() + b.len()) as f64
    }

    /// Whether it is the beginning of `other`, of three words or more.
    fn is_prefix_of(&self, other: &TitleWords) -> bool {
        let mut others = other.text.split(' ');
        let mut count = 0;
        self.text.split(' ').all(|word| {
            count += 1;
            others.next() == Some(word)
        }) && count >= 3
    }
}

/// Start in `a`, start in `b` and length of the longest block in both; the first one in `a`, then in `b`.
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

/// One case, plain quotes and dashes, `and` for `&`, no invisible characters, no `(continued)`, no leader dots with a
/// page number behind them.
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
        if let Some(at) = ending
            .as_ref()
            .and_then(|ending| ending.find(&plain))
            .map(|leaders| leaders.start())
        {
            plain.truncate(at);
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Letters, digits and underscores; everything else parts words, except an apostrophe, which is nothing.
fn words(folded: &str) -> String {
    let open: String = folded
        .chars()
        .filter(|c| *c != '\'')
        .map(|c| {
            if c.is_alphanumeric() || c == '_' {
                c
            } else {
                ' '
            }
        })
        .collect();
    open.split_whitespace().collect::<Vec<_>>().join(" ")
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
        for (a, b, same) in cases {
            let likeness = TitleKey::new(a).similarity(&TitleKey::new(b));
            assert_eq!(likeness >= 0.8, same, "{a} / {b}: {likeness}");
            assert_eq!(
                likeness,
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
