//! What is asked, where, and what it may cost.

use serde::{Deserialize, Serialize};

use super::AnswerError;
use crate::tree_search;
use stemma_catalog::filter::Filter;
use stemma_retrieval::search::{self, DocumentScope, ItemRef, MAX_QUERY_CHARS};

/// Turns of a conversation that are looked at: the last ones.
pub const MAX_EARLIER: usize = 8;
/// Characters of an earlier question that are looked at, its last, and of an earlier answer, its first.
pub(super) const EARLIER_CHARS: usize = 1_500;
/// Characters of a question, on every surface. A longer one is refused: cut, it would be another question.
pub const MAX_QUESTION_CHARS: usize = MAX_QUERY_CHARS;
/// Tokens of text below which nothing can be answered from.
const MIN_CONTEXT_TOKENS: u32 = 500;

/// A question to an archive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AskRequest {
    /// The question, in any words.
    pub text: String,
    /// Which documents it may be answered from. Nothing that a model or a document says makes it wider.
    pub within: DocumentScope,
    /// What must be true of them.
    pub filter: Filter,
    /// Only from this Item, its sub-sections included.
    pub item: Option<ItemRef>,
    /// What was said before, oldest first; only the last [`MAX_EARLIER`] turns are looked at.
    pub earlier: Vec<ConversationTurn>,
    /// How sections are found.
    pub strategy: RetrievalStrategy,
    /// How the model comes to what it reads.
    pub mode: AnswerMode,
    /// What it may cost.
    pub limits: AnswerLimits,
    /// Which citations the answer keeps.
    pub citations: CitationPolicy,
}

impl AskRequest {
    /// A question to all documents.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Whether it can be asked, where answers may cost `most`: looked at before anything is told or paid.
    ///
    /// # Errors
    /// [`AnswerError::AskRequest`]: it has no words, more than [`MAX_QUESTION_CHARS`] characters, or asks for more than it may cost.
    pub fn check(&self, most: &AnswerLimits) -> Result<(), AnswerError> {
        let wrong = |code, message| Err(AnswerError::Question { code, message });
        if !self.text.chars().any(char::is_alphanumeric) {
            return wrong("answer.question", "the question is empty".into());
        }
        let chars = self.text.trim().chars().count();
        if chars > MAX_QUESTION_CHARS {
            return wrong(
                "answer.too_long",
                format!(
                    "the question has {chars} characters; at most {MAX_QUESTION_CHARS} are read"
                ),
            );
        }
        let limits = &self.limits;
        if limits.sections == 0 || limits.context_tokens < MIN_CONTEXT_TOKENS {
            let message =
                format!("an answer reads a section and {MIN_CONTEXT_TOKENS} tokens at least");
            return wrong("answer.limits", message);
        }
        match limits.first_exceeded(most) {
            Some((name, asked, most)) => wrong(
                "answer.limits",
                format!(
                    "{name} is {asked}: at most {most} are allowed here (answer.limits of the configuration)"
                ),
            ),
            None => Ok(()),
        }
    }
}

/// How sections are found: by search without a model, or by walking trees with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RetrievalStrategy {
    /// Without a model.
    Search(search::RankingStrategy),
    /// With one.
    TreeSearch(tree_search::TreeSearchStrategy),
}

impl Default for RetrievalStrategy {
    fn default() -> Self {
        Self::Search(search::RankingStrategy::Auto)
    }
}

impl RetrievalStrategy {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Search(strategy) => strategy.as_str(),
            Self::TreeSearch(strategy) => strategy.as_str(),
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        search::RankingStrategy::from_name(name)
            .map(Self::Search)
            .or_else(|| tree_search::TreeSearchStrategy::from_name(name).map(Self::TreeSearch))
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        let search = search::RankingStrategy::ALL.map(search::RankingStrategy::as_str);
        search
            .into_iter()
            .chain(
                tree_search::TreeSearchStrategy::ALL.map(tree_search::TreeSearchStrategy::as_str),
            )
            .collect()
    }
}

/// A question that was asked before, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationTurn {
    /// The question.
    pub question: String,
    /// The text of the answer.
    pub answer: String,
}

impl ConversationTurn {
    /// Leaves what is looked at: of a question its end, where people ask, of an answer its beginning.
    pub(super) fn shorten(&mut self) {
        let over = self.question.chars().count().saturating_sub(EARLIER_CHARS);
        self.question = self.question.chars().skip(over).collect();
        self.answer = self.answer.chars().take(EARLIER_CHARS).collect();
    }
}

/// How the model comes to what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerMode {
    /// Search first, then one answer from what was found.
    #[default]
    Search,
    /// The model calls tools until it knows enough: the same tools as over MCP, in the same scope.
    Agent,
}

impl AnswerMode {
    /// All, by their words.
    pub const ALL: [AnswerMode; 2] = [AnswerMode::Search, AnswerMode::Agent];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerMode::Search => "search",
            AnswerMode::Agent => "agent",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// What an answer may cost at most. Part of the question: another limit may come to another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerLimits {
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

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            calls: 16,
            tokens: 200_000,
            nanodollars: 0,
            context_tokens: 12_000,
            sections: 8,
            turns: 8,
        }
    }
}

impl AnswerLimits {
    /// What one answer may cost at most where an operator says nothing else: a caller can ask for less.
    pub const MAX: Self = Self {
        calls: 200,
        tokens: 2_000_000,
        nanodollars: 0,
        context_tokens: 60_000,
        sections: 50,
        turns: 50,
    };

    /// The first that is beyond `most`: its name, what is asked for, what is allowed. Money without a limit is less than none.
    fn first_exceeded(&self, most: &Self) -> Option<(&'static str, u64, u64)> {
        let sections = |limits: &Self| u64::try_from(limits.sections).unwrap_or(u64::MAX);
        let pairs = [
            ("calls", u64::from(self.calls), u64::from(most.calls)),
            ("tokens", u64::from(self.tokens), u64::from(most.tokens)),
            (
                "context_tokens",
                u64::from(self.context_tokens),
                u64::from(most.context_tokens),
            ),
            ("sections", sections(self), sections(most)),
            ("turns", u64::from(self.turns), u64::from(most.turns)),
        ];
        let money =
            (most.nanodollars > 0).then_some(("nanodollars", self.nanodollars, most.nanodollars));
        pairs
            .into_iter()
            .chain(money)
            .find(|(_, requested, most)| requested > most)
    }
}

/// Which citations an answer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CitationPolicy {
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
    fn long_questions_and_excess_limits_are_rejected() {
        let most = AnswerLimits {
            nanodollars: 1_000,
            ..AnswerLimits::MAX
        };
        let refused = |question: &AskRequest| question.check(&most).unwrap_err();
        assert!(
            AskRequest::new("x".repeat(MAX_QUESTION_CHARS))
                .check(&most)
                .is_ok()
        );
        let long = refused(&AskRequest::new("x ".repeat(MAX_QUESTION_CHARS)));
        assert!(
            long.code() == "answer.too_long" && long.to_string().contains("4000"),
            "{long}"
        );
        assert_eq!(refused(&AskRequest::new(" ??? ")).code(), "answer.question");
        let asks = |limits: AnswerLimits| AskRequest {
            limits,
            ..AskRequest::new("capex")
        };
        let dear = refused(&asks(AnswerLimits {
            turns: 4_000_000_000,
            ..AnswerLimits::default()
        }));
        assert!(
            dear.code() == "answer.limits" && dear.to_string().contains("turns is 4000000000"),
            "{dear}"
        );
        assert_eq!(
            refused(&asks(AnswerLimits {
                nanodollars: 1_001,
                ..AnswerLimits::default()
            }))
            .code(),
            "answer.limits"
        );
        assert_eq!(
            refused(&asks(AnswerLimits {
                sections: 0,
                ..AnswerLimits::default()
            }))
            .code(),
            "answer.limits"
        );
        assert!(
            asks(AnswerLimits {
                calls: 1,
                turns: 1,
                ..AnswerLimits::default()
            })
            .check(&most)
            .is_ok()
        );
        assert!(serde_json::from_str::<AnswerLimits>(r#"{"token": 5}"#).is_err());
    }

    #[test]
    fn retrieval_strategy_names_round_trip() {
        for name in RetrievalStrategy::names() {
            let finding = RetrievalStrategy::from_name(name).unwrap();
            assert_eq!(finding.as_str(), name);
            let json = serde_json::to_string(&finding).unwrap();
            assert_eq!(
                (json.clone(), serde_json::from_str(&json).ok()),
                (format!("\"{name}\""), Some(finding))
            );
        }
        assert_eq!(RetrievalStrategy::from_name("guess"), None);
        assert!(
            AnswerMode::ALL
                .iter()
                .all(|mode| AnswerMode::from_name(mode.as_str()) == Some(*mode))
        );
    }
}
