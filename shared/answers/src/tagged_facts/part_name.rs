//! Names of the parts of a company, and the texts in which they are looked for.

use std::ops::Range;

use stemma_reading::vocabulary::PART_NAME_ENDS;
use stemma_xbrl::concept_words;

use super::super::terms::{name_words, phrase, words_with_names};
use super::country_name::country_name;

/// Words in which parts of a company may be named.
pub(super) struct StatementText<'a> {
    text: &'a str,
    pub(super) lower: String,
    // Stems in order.
    pub(super) words: Vec<String>,
    // With the numbers and letters that tell names apart.
    pub(super) names: Vec<String>,
}

impl<'a> StatementText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            lower: text.to_lowercase(),
            words: phrase(text),
            names: words_with_names(text),
        }
    }

    pub(super) fn part(&self, at: Range<usize>) -> Self {
        Self::new(self.text.get(at).unwrap_or_default())
    }

    /// Whether one word is the name of a member.
    pub(super) fn has_whole_word(&self, member: &str) -> bool {
        self.has_compound(member) || country_name(member).is_some() && self.has_code(member)
    }

    // `IPhoneMember` is two words, `iPhone` is one.
    fn has_compound(&self, member: &str) -> bool {
        let name = member.rsplit(':').next().unwrap_or(member).to_lowercase();
        let name = name.trim_end_matches("member");
        let mut words = self.lower.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == name) && concept_words(member).split(' ').nth(2).is_some()
    }

    // The code of a country: `US` or `U.S.`.
    fn has_code(&self, member: &str) -> bool {
        let code = member.rsplit(':').next().unwrap_or(member);
        self.text.split_whitespace().any(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            let word = word.trim_end_matches("'s").trim_end_matches("\u{2019}s");
            word.trim_end_matches('.').replace('.', "") == code
        })
    }
}

/// The name of a part of a company in words.
pub fn member_name(member: &str) -> String {
    country_name(member).map_or_else(|| concept_words(member), str::to_owned)
}

/// The words of its name that tell it from other parts.
pub(super) fn member_words(member: &str) -> Vec<String> {
    let mut words = name_words(member_name(member).trim_end_matches(" member"));
    words.retain(|word| !PART_NAME_ENDS.contains(word.as_str()));
    words
}
