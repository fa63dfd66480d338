//! What is asked, where, and what it may cost.

use serde::{Deserialize, Serialize};

use crate::filter::Filter;
use crate::find::{self, ItemRef, Within};
use crate::reason;

/// Turns of a conversation that are looked at: the last ones.
pub const MAX_EARLIER: usize = 8;

/// A question to an archive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// The question, in any words.
    pub text: String,
    /// Which documents it may be answered from. Nothing that a model or a document says makes it wider.
    pub within: Within,
    /// What must be true of them.
    pub filter: Filter,
    /// Only from this Item, its sub-sections included.
    pub item: Option<ItemRef>,
    /// What was said before, oldest first; only the last [`MAX_EARLIER`] turns are looked at.
    pub earlier: Vec<Turn>,
    /// How sections are found.
    pub strategy: Finding,
    /// How the model comes to what it reads.
    pub mode: Mode,
    /// What it may cost.
    pub limits: Limits,
    /// Which citations the answer keeps.
    pub citations: Citations,
}

impl Question {
    /// A question to all documents.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// How sections are found: by search without a model, or by walking trees with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Finding {
    /// Without a model.
    Search(find::Strategy),
    /// With one.
    Walk(reason::Strategy),
}

impl Default for Finding {
    fn default() -> Self {
        Self::Search(find::Strategy::Auto)
    }
}

impl Finding {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Search(strategy) => strategy.as_str(),
            Self::Walk(strategy) => strategy.as_str(),
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        let walk = || reason::Strategy::named(name).map(Self::Walk);
        find::Strategy::named(name).map(Self::Search).or_else(walk)
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        let search = find::Strategy::ALL.map(find::Strategy::as_str);
        search.into_iter().chain(reason::Strategy::ALL.map(reason::Strategy::as_str)).collect()
    }
}

/// A question that was asked before, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The question.
    pub question: String,
    /// The text of the answer.
    pub answer: String,
}

/// How the model comes to what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Search first, then one answer from what was found.
    #[default]
    Search,
    /// The model calls tools until it knows enough: the same tools as over MCP, in the same scope.
    Agent,
}

impl Mode {
    /// All, by their words.
    pub const ALL: [Mode; 2] = [Mode::Search, Mode::Agent];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Search => "search",
            Mode::Agent => "agent",
        }
    }

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// What an answer may cost at most. Part of the question: another limit may come to another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Calls of a model.
    pub calls: u32,
    /// Tokens of prompts and replies together.
    pub tokens: u32,
    /// Billionths of a dollar, where prices are known; 0: no limit but the others.
    pub nanodollars: u64,
    /// Tokens of document text in one prompt (o200k).
    pub context_tokens: u32,
    /// Sections that are read.
    pub sections: usize,
    /// Turns of the agent: calls of tools.
    pub turns: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls: 16, tokens: 200_000, nanodollars: 0, context_tokens: 12_000, sections: 8, turns: 8 }
    }
}

/// Which citations an answer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Citations {
    /// All, each with what its check said.
    #[default]
    All,
    /// Those that stand on their page.
    Verified,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_finding_has_a_name_of_its_own() {
        for name in Finding::names() {
            let finding = Finding::named(name).unwrap();
            assert_eq!(finding.as_str(), name);
            let json = serde_json::to_string(&finding).unwrap();
            assert_eq!((json.clone(), serde_json::from_str(&json).ok()), (format!("\"{name}\""), Some(finding)));
        }
        assert_eq!(Finding::named("guess"), None);
        assert!(Mode::ALL.iter().all(|mode| Mode::named(mode.as_str()) == Some(*mode)));
    }
}
