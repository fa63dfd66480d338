//! Names of companies: their legal forms, and what is compared of them.

use stemma_document::text::normalize_key;

use crate::vocabulary::{COMPANY_WORDS, DEFINITE_ARTICLES, LEGAL_FORMS};

/// Whether a word is a legal form and nothing else, however it is written: `Inc.`, `S.A.`, `COMPANY`.
pub fn is_legal_form(word: &str) -> bool {
    LEGAL_FORMS.contains(&normalize_key(word))
}

/// Whether a word ends names of companies: a legal form, or an ordinary word such as `Holdings`.
pub fn ends_company_name(word: &str) -> bool {
    let key = normalize_key(word);
    LEGAL_FORMS.contains(&key) || COMPANY_WORDS.contains(&key)
}

/// A name without case, punctuation, legal form and article: `3M COMPANY` is `3m`.
///
/// ```
/// use stemma_reading::companies::company_key;
/// assert_eq!(company_key("The Travelers Companies, Inc."), company_key("TRAVELERS COMPANIES INC"));
/// ```
pub fn company_key(name: &str) -> String {
    let lower = name.to_lowercase().replace(['.', '\'', '’'], "");
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '&')
        .filter(|word| !word.is_empty())
        .collect();
    let end = words
        .iter()
        .rposition(|word| !DEFINITE_ARTICLES.contains(word) && !LEGAL_FORMS.contains(word))
        .map_or(0, |last| last + 1);
    match &words[..end] {
        [] => words.join(" "),
        [first, name @ ..] if DEFINITE_ARTICLES.contains(first) => name.join(" "),
        name => name.join(" "),
    }
}
