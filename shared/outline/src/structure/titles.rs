//! Normal form and similarity of titles.

use stemma_document::text;
use stemma_reading::companies::ends_company_name;
use stemma_reading::terms;
use stemma_reading::vocabulary::{
    CLOSING_TITLES, COMPANY_GROUPS, CONTENTS_TITLES, SIGNATURE_TITLES,
};
use unicode_normalization::UnicodeNormalization;

use super::numbering;
use super::weights::SAME_TITLE;

// No title is longer; the limit bounds the cost of comparing hostile lines.
const COMPARED_BYTES: usize = 400;

/// Lower-case letters and digits without spaces, NFKC for non-ASCII text. Copies of a title that differ in letter spacing,
/// hyphens, ligatures or punctuation become equal.
pub(super) fn normalize_key(text: &str) -> String {
    let line = truncate_bytes(text, COMPARED_BYTES);
    if line.is_ascii() {
        return text::normalize_key(line);
    }
    let folded = line.nfkc().flat_map(char::to_lowercase);
    folded.filter(|c| c.is_alphanumeric()).collect()
}

/// The longest prefix of `text` of at most `bytes` bytes that ends between characters.
pub(crate) fn truncate_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Normalized keys of a title: with its number (`full`) and without (`core`).
#[derive(Debug, Clone, Default)]
pub(crate) struct TitleKeys {
    pub(super) full: String,
    pub(super) core: String,
}

impl TitleKeys {
    pub(super) fn new(title: &str) -> Self {
        let full = normalize_key(title);
        let core = numbering::after_label(title)
            .map(normalize_key)
            .filter(|core| !core.is_empty());
        Self {
            core: core.unwrap_or_else(|| full.clone()),
            full,
        }
    }
}

/// Similarity of two titles (0–1). A missing number costs little, different words much.
pub(super) fn title_similarity(a: &TitleKeys, b: &TitleKeys) -> f32 {
    if a.full == b.full {
        return if a.full.is_empty() { 0.0 } else { 1.0 };
    }
    let full = key_similarity(&a.full, &b.full);
    if a.core == a.full && b.core == b.full {
        return full;
    }
    // Contents often omit the number. The small deduction lets a line with the right number win over one without.
    full.max(key_similarity(&a.core, &b.core) - 0.03).max(0.0)
}

/// Similarity of two titles as written (0–1).
pub(crate) fn similarity(a: &str, b: &str) -> f32 {
    title_similarity(&TitleKeys::new(a), &TitleKeys::new(b))
}

/// Similarity of two keys (0–1): 1 if equal, at least 0.85 if one is a long prefix of the other, otherwise the
/// Sørensen–Dice coefficient of their byte pairs.
pub(super) fn key_similarity(a: &str, b: &str) -> f32 {
    if a == b {
        return if a.is_empty() { 0.0 } else { 1.0 };
    }
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() || short.len() * 4 < long.len() {
        return 0.0;
    }
    let dice = dice_coefficient(short, long);
    // Contents cut long titles. Below twelve letters a prefix is too common to mean anything.
    let begins = long.starts_with(short) && short.len() >= 12;
    if begins { dice.max(SAME_TITLE) } else { dice }
}

// As numbers, which are sorted faster than pairs.
fn sorted_pairs(text: &str) -> Vec<u16> {
    let bytes = text.as_bytes();
    let mut pairs: Vec<u16> = bytes
        .windows(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    pairs.sort_unstable();
    pairs
}

// Pairs of bytes instead of characters are enough: both sides are normalized the same way.
fn dice_coefficient(a: &str, b: &str) -> f32 {
    let a = sorted_pairs(a);
    let b = sorted_pairs(b);
    let mut i = 0;
    let mut j = 0;
    let mut shared = 0usize;
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    (2 * shared) as f32 / (a.len() + b.len()).max(1) as f32
}

/// Whether a normalized title closes a filing (`Signatures`, `Exhibit Index`). Such sections are siblings of the PARTs.
pub(super) fn is_closing(key: &str) -> bool {
    CLOSING_TITLES.contains(key)
}

/// Whether a normalized title is the one of signatures.
pub(super) fn is_signature(key: &str) -> bool {
    SIGNATURE_TITLES.contains(key)
}

/// Number of words; two ideographs count as one word, and so do as many letters of another script without spaces as its words
/// have.
pub(super) fn word_count(text: &str) -> usize {
    let text = truncate_bytes(text, COMPARED_BYTES);
    let unspaced = terms::unspaced_words(text);
    let spaced = text
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .count();
    spaced + unspaced
}

/// Words joined by single spaces, without control characters.
pub(crate) fn fold_whitespace(text: &str) -> String {
    let words = text
        .split_whitespace()
        .map(|word| word.chars().filter(|c| !c.is_control()).collect::<String>());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether a line is the name of a company, that is, ends in a legal form.
pub(super) fn is_company_name(text: &str) -> bool {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
        .collect();
    let last = words.last().copied().unwrap_or_default();
    words.len() >= 2
        && text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        && (ends_company_name(last) || COMPANY_GROUPS.contains(&normalize_key(last)))
}

/// Whether a normalized line is the heading of a table of contents.
pub(super) fn is_toc_title(key: &str) -> bool {
    CONTENTS_TITLES.contains(key) || (key.ends_with("tableofcontents") && key.len() < 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_variants_normalize_equally() {
        for (a, b) in [
            ("OVERVI EW", "Overview"),
            ("Con\u{fb01}dential", "CONFIDENTIAL"),
            ("Risk-Factors", "Risk Factors"),
            ("第一章　总则", "第一章 总则"),
        ] {
            assert_eq!(normalize_key(a), normalize_key(b));
        }
    }

    #[test]
    fn company_names_end_in_a_legal_form() {
        for name in ["Acme, Inc.", "ACME CORPORATION AND SUBSIDIARY COMPANIES"] {
            assert!(is_company_name(name), "{name}");
        }
        assert!(!is_company_name("Comparable Sales"));
    }

    #[test]
    fn similarity_ignores_numbers_and_suffixes() {
        let like = |a, b| title_similarity(&TitleKeys::new(a), &TitleKeys::new(b));
        assert_eq!(like("Risk Factors", "RISK FACTORS"), 1.0);
        assert!(like("1.2 Liquidity", "Liquidity") > 0.95);
        for title in [
            "A Liquidity",
            "A.1 Liquidity",
            "IV Liquidity",
            "Appendix B: Liquidity",
        ] {
            assert!(like(title, "Liquidity") > 0.95, "{title}");
        }
        assert!(
            like(
                "Management's Discussion",
                "Management's Discussion and Analysis"
            ) >= 0.8
        );
        assert!(like("Legal Proceedings", "Other Information") < 0.5);
        assert_eq!(like("", ""), 0.0);
    }
}
