//! Titles and Items normalized for comparison across years.

use stemma_document::english_words;
use stemma_reading::calendar::month;
use stemma_reading::tokenizer::{content_words, tokenize};
use stemma_reading::vocabulary::{AMBIGUOUS_MONTHS, LIST_JOINTS, NUMBERED_PARTS};

// The stemmed words of a title without number, dates and years, which change every year. A title that is only a number is
// kept as it is.
pub(super) fn title_key(title: &str) -> Vec<String> {
    let bare = strip_number(title);
    let mut words: Vec<String> = content_words(bare)
        .into_iter()
        .filter(|word: &String| word.chars().any(char::is_alphabetic) && !is_month(word))
        .collect();
    let only_numbered = words.len() <= 1
        && NUMBERED_PARTS
            .iter()
            .any(|leader| first_word(title).eq_ignore_ascii_case(leader));
    if words.is_empty() || only_numbered && bare == title.trim() {
        words = tokenize(title);
    }
    words
}

fn is_month(word: &str) -> bool {
    !AMBIGUOUS_MONTHS.contains(word) && month(word.trim_end_matches('i')).is_some()
}

// Removes the number of a title: `Item 1A. Risk Factors`, `NOTE 12 — Leases`, `(a) Exhibits`, `第三节 公司治理`. A title that is
// only a number is returned whole.
pub(super) fn strip_number(title: &str) -> &str {
    let title = title.trim();
    let mut rest = title;
    let first = first_word(rest);
    if NUMBERED_PARTS
        .iter()
        .any(|leader| first.eq_ignore_ascii_case(leader))
    {
        rest = after_word(rest, first);
        let mut any = false;
        while is_number(first_word(rest)) || any && is_joining_word(first_word(rest)) {
            any = true;
            rest = after_word(rest, first_word(rest));
        }
        if !any {
            rest = title;
        }
    } else if is_numbering(first) {
        rest = after_word(rest, first);
    } else if let Some(after) = after_ideographic_number(rest) {
        rest = after;
    }
    let rest = rest.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '-' | '–' | '—' | ':' | '.' | '、')
    });
    if rest.contains(char::is_alphabetic) {
        rest
    } else {
        title
    }
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| c.is_whitespace() || matches!(c, '—' | '–'))
        .find(|word| !word.is_empty())
        .unwrap_or_default()
}

fn after_word<'t>(text: &'t str, word: &str) -> &'t str {
    text.find(word)
        .map_or(text, |at| text[at + word.len()..].trim_start())
}

fn is_joining_word(word: &str) -> bool {
    matches!(word, "&" | "-" | ",") || LIST_JOINTS.contains(&word.to_ascii_lowercase())
}

// A number after an introducing word: `12.`, `1A`, `31.1`, `II`, `ONE`, `(a)`.
fn is_number(word: &str) -> bool {
    let bare = word
        .trim_matches(|c: char| matches!(c, '.' | ',' | ':' | ';' | '(' | ')' | '-' | '–' | '—'));
    let digits = bare
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let numbered = digits > 0 && bare.len() - digits <= 1;
    let roman =
        !bare.is_empty() && bare.len() <= 6 && bare.bytes().all(|byte| b"IVX".contains(&byte));
    let letter = bare.len() == 1 && bare.bytes().all(|byte| byte.is_ascii_alphabetic());
    numbered || roman || letter || english_words::parse_number_word(bare).is_some()
}

// A number without an introducing word, recognized by its punctuation: `1.`, `4.2`, `IV.`, `(a)`, `b)`.
fn is_numbering(word: &str) -> bool {
    let marked = word.ends_with(['.', ')', ':', '、'])
        || word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    marked && is_number(word)
        || word.len() <= 3 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

// The rest after `第三节`, `一、`, `（二）`.
fn after_ideographic_number(title: &str) -> Option<&str> {
    let plain = title.strip_prefix(['第', '（', '(']);
    let digits = plain.unwrap_or(title);
    let rest = digits.trim_start_matches(|c: char| {
        "一二三四五六七八九十百〇零".contains(c) || c.is_ascii_digit()
    });
    let marked = rest.starts_with(['章', '节', '條', '条', '部', '、', '）', ')', '．']);
    (rest.len() < digits.len() && marked).then(|| {
        rest.trim_start_matches(|c: char| !c.is_whitespace() && "章节條条部、）)．分".contains(c))
    })
}

// The form without amendment mark and variants: they share Item numbers.
pub(super) fn form_family(form: Option<&str>) -> &str {
    let form = form.unwrap_or_default().trim_end_matches("/A");
    match form {
        "10-KT" | "10-K405" | "10-KSB" => "10-K",
        "10-QT" | "10-QSB" => "10-Q",
        form => form,
    }
}

// Items of 10-K and 10-Q about the same subject share a key; others are keyed by form, part and number.
pub(super) fn item_key(form: &str, part: Option<&str>, number: &str) -> String {
    let shared = match (form, part, number) {
        ("10-K", _, "1A") | ("10-Q", _, "1A") => "risk factors",
        ("10-K", _, "3") | ("10-Q", Some("II"), "1") => "legal proceedings",
        ("10-K", _, "4") | ("10-Q", Some("II"), "4") => "mine safety",
        ("10-K", _, "5") | ("10-Q", Some("II"), "2") => "equity",
        ("10-K", _, "7") | ("10-Q", Some("I"), "2") => "discussion and analysis",
        ("10-K", _, "7A") | ("10-Q", Some("I") | None, "3") => "market risk",
        ("10-K", _, "8") | ("10-Q", Some("I"), "1") => "statements",
        ("10-K", _, "9A") | ("10-Q", Some("I"), "4") => "controls",
        ("10-K", _, "9B") | ("10-Q", _, "5") => "other information",
        ("10-K", _, "15") | ("10-Q", _, "6") => "exhibits",
        (form, part, number) => {
            return format!(
                "{form} {} {number}",
                part.filter(|_| form != "10-K").unwrap_or_default()
            );
        }
    };
    shared.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_numbers_are_stripped_from_titles() {
        for (title, bare) in [
            ("Item 1A. Risk Factors", "Risk Factors"),
            ("ITEMS 10, 11, 12 and 13. DIRECTORS", "DIRECTORS"),
            ("NOTE 12 — Leases", "Leases"),
            ("Note 2—Leases", "Leases"),
            ("7.3 Domestic Relations Orders", "Domestic Relations Orders"),
            ("10. Revenue", "Revenue"),
            ("(a) Exhibits", "Exhibits"),
            ("f) Notes", "Notes"),
            ("ARTICLE ONE Definitions", "Definitions"),
            ("PART II — OTHER INFORMATION", "OTHER INFORMATION"),
            ("PART II", "PART II"),
            ("Exhibit 31.1", "Exhibit 31.1"),
            ("第三节 公司治理", "公司治理"),
            ("一、重要提示", "重要提示"),
            (
                "Notes to Consolidated Financial Statements",
                "Notes to Consolidated Financial Statements",
            ),
            ("A new strategy", "A new strategy"),
            ("I. Introduction", "Introduction"),
            ("2023 financial results", "2023 financial results"),
            ("", ""),
            ("第", "第"),
        ] {
            assert_eq!(strip_number(title), bare, "{title}");
        }
    }

    #[test]
    fn years_and_dates_are_ignored_in_title_keys() {
        for (one, other) in [
            ("2023 financial results", "2022 Financial Results"),
            (
                "Balance Sheet at December 31, 2022 and 2021",
                "Balance Sheet at September 30, 2023",
            ),
            (
                "NOTE 5. FAIR VALUE MEASUREMENTS",
                "6. Fair Value Measurements",
            ),
            ("SIGNATURES", "Signature"),
        ] {
            assert_eq!(title_key(one), title_key(other));
        }
        assert_ne!(title_key("Exhibit 31.1"), title_key("Exhibit 31.2"));
        assert_ne!(title_key("PART I"), title_key("PART II"));
        assert_ne!(
            title_key("Balance Sheet"),
            title_key("Condensed Balance Sheet")
        );
    }

    #[test]
    fn annual_and_quarterly_items_share_keys() {
        assert_eq!(
            item_key("10-K", Some("II"), "7"),
            item_key("10-Q", Some("I"), "2")
        );
        assert_ne!(
            item_key("10-K", Some("I"), "1"),
            item_key("10-Q", Some("I"), "1")
        );
        assert_ne!(
            item_key("10-Q", Some("I"), "1"),
            item_key("10-Q", Some("II"), "1")
        );
        assert_eq!(
            item_key("10-K", Some("I"), "2"),
            item_key("10-K", None, "2")
        );
        assert_eq!(form_family(Some("10-K/A")), "10-K");
    }
}
