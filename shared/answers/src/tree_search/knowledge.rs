//! Expert knowledge about where answers of a kind are, shown to the model before a tree.
//!
//! A TOML file holds *rules* (a condition and guidance) and *preferences* (a pattern and preferred sections). They are
//! selected by the words of the question; the result lists what was used.
//!
//! ```toml
//! [[rules]]
//! name = "capital expenditure"
//! when = ["capital expenditure", "capex"]
//! guidance = "It is a line of investing activities in the cash flow statement."
//! weight = 1.0
//!
//! [[preferences]]
//! name = "litigation"
//! pattern = ["lawsuit", "legal proceedings"]
//! sections = ["Legal Proceedings", "Commitments and Contingencies"]
//! reason = "Item 3 often only refers to the note."
//! ```

use serde::{Deserialize, Serialize};

use super::result::AppliedKnowledge;
use super::search_tree::contains_run;
use stemma_reading::tokenizer::content_words;

const BUILT_IN: &str = include_str!("sec.toml");
const MAX_CHOSEN: usize = 4;
const MAX_BYTES: usize = 256 << 10;
const MAX_RULES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knowledge {
    pub rules: Vec<Rule>,
    pub preferences: Vec<Rule>,
}

/// Guidance for questions of a kind, or preferred sections, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Shown in results.
    pub name: String,
    /// Words or phrases. The question must contain one of them.
    #[serde(alias = "pattern")]
    pub when: Vec<String>,
    /// Text shown to the model.
    #[serde(default, alias = "reason")]
    pub guidance: String,
    /// Words in the titles of preferred sections.
    #[serde(default)]
    pub sections: Vec<String>,
    /// If several match, those with more weight are shown; 0–1.
    #[serde(default = "one")]
    pub weight: f32,
}

/// Why a knowledge file is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    #[error("the knowledge has {0} bytes, more than {MAX_BYTES}")]
    TooLarge(usize),
    #[error("the knowledge cannot be read: {0}")]
    Unreadable(String),
    #[error("the knowledge has {0} rules and preferences, more than {MAX_RULES}")]
    TooMany(usize),
    // A rule or preference without condition or text.
    #[error("`{0}` has no condition, or nothing to say")]
    Empty(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ChosenKnowledge {
    pub(super) applied: Vec<AppliedKnowledge>,
    pub(super) text: String,
    // Words in the titles of preferred sections.
    pub(super) sections: Vec<String>,
}

fn one() -> f32 {
    1.0
}

impl Knowledge {
    /// The built-in rules about SEC filings.
    pub fn built_in() -> Self {
        // A test parses it.
        Self::parse(BUILT_IN).unwrap_or_default()
    }

    /// Parses a TOML file.
    ///
    /// # Errors
    /// [`KnowledgeError`], which names the line or the rule.
    pub fn parse(text: &str) -> Result<Self, KnowledgeError> {
        if text.len() > MAX_BYTES {
            return Err(KnowledgeError::TooLarge(text.len()));
        }
        let read: Self =
            toml::from_str(text).map_err(|error| KnowledgeError::Unreadable(error.to_string()))?;
        let count = read.rules.len() + read.preferences.len();
        if count > MAX_RULES {
            return Err(KnowledgeError::TooMany(count));
        }
        let empty = read
            .entries()
            .find(|rule| {
                rule.when.iter().all(|when| when.trim().is_empty()) || rule.text().is_empty()
            })
            .map(|rule| rule.name.clone());
        match empty {
            Some(name) => Err(KnowledgeError::Empty(name)),
            None => Ok(read),
        }
    }

    /// Adds the entries of `more`, which come first among equal weights.
    #[must_use]
    pub fn merged_with(mut self, more: Self) -> Self {
        self.rules.splice(0..0, more.rules);
        self.preferences.splice(0..0, more.preferences);
        self
    }

    fn entries(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.preferences)
    }

    // Entries with a condition whose words occur in the question, those with most weight first.
    pub(super) fn choose(&self, question: &str) -> ChosenKnowledge {
        let words = content_words(question);
        let mut matches: Vec<(&Rule, &str)> = self
            .entries()
            .filter_map(|rule| {
                let keyword = rule
                    .when
                    .iter()
                    .find(|when| contains_run(&words, &content_words(when)))?;
                Some((rule, keyword.as_str()))
            })
            .collect();
        matches.sort_by(|a, b| b.0.weight.total_cmp(&a.0.weight));
        let mut chosen = ChosenKnowledge::default();
        for (rule, keyword) in matches {
            let is_new = chosen.applied.iter().all(|known| known.name != rule.name);
            if chosen.applied.len() < MAX_CHOSEN && is_new {
                chosen.applied.push(AppliedKnowledge {
                    name: rule.name.clone(),
                    by: format!("keyword “{keyword}”"),
                    text: rule.text(),
                });
                chosen.sections.extend(rule.sections.iter().cloned());
            }
        }
        chosen.text = chosen
            .applied
            .iter()
            .map(|applied| format!("- {}", applied.text))
            .collect::<Vec<_>>()
            .join("\n");
        chosen
    }
}

impl Rule {
    fn text(&self) -> String {
        let prefer = match self.sections.is_empty() {
            true => String::new(),
            false => format!("prefer the sections {}", self.sections.join("; ")),
        };
        let parts = [prefer, self.guidance.clone()];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn knowledge_is_chosen_by_the_words_of_the_question() {
        let chosen = Knowledge::built_in().choose("How large was capex in 2022?");
        let applied = chosen.applied.iter();
        let applied: Vec<_> = applied
            .map(|rule| (rule.name.as_str(), rule.by.as_str()))
            .collect();
        assert_eq!(applied, [("capital expenditure", "keyword “capex”")]);
        let other = Knowledge::built_in().choose("What is the weather?");
        assert_eq!(other, ChosenKnowledge::default());
    }

    #[test]
    fn built_in_knowledge_parses_and_invalid_files_are_rejected() {
        let built_in = Knowledge::parse(BUILT_IN).unwrap();
        assert!(built_in.rules.len() >= 10 && built_in.preferences.len() >= 6);
        let names: BTreeSet<&str> = built_in.entries().map(|rule| rule.name.as_str()).collect();
        assert_eq!(
            names.len(),
            built_in.entries().count(),
            "each has a name of its own"
        );
        for wrong in [
            "rules = 1",
            "[[rules]]\nname = \"x\"\nwhen = []\nguidance = \"y\"",
            "[[rules]]\nwhat = 1",
        ] {
            assert!(Knowledge::parse(wrong).is_err(), "{wrong}");
        }
    }
}
