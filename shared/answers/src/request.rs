//! A question, its scope, and what its answer may cost.

use serde::{Deserialize, Serialize};

use super::AnswerError;
use crate::tree_search::TreeSearchStrategy;
use stemma_catalog::filter::Filter;
use stemma_retrieval::search::{DocumentScope, ItemRef, MAX_QUERY_CHARS};

/// Earlier turns of a conversation that are used: the last ones.
pub const MAX_EARLIER: usize = 8;
// Characters of an earlier turn that are used: the end of a question, the beginning of an answer.
pub(super) const EARLIER_CHARS: usize = 1_500;
/// Characters of a question, in every interface. A longer one is refused, since truncating would change it.
pub const MAX_QUESTION_CHARS: usize = MAX_QUERY_CHARS;
/// LLM calls after the first draft in [`AnswerMode::Auto`]: a draft from further passages, two tools, a draft from what they read.
pub const FURTHER_CALLS: u32 = 4;
/// Prompt and output tokens of these calls: once more what a first draft takes, and half of it again.
pub const FURTHER_TOKENS: u64 = 15_000;
// With less text than this no question can be answered.
pub(super) const MIN_CONTEXT_TOKENS: u32 = 500;

/// A question over a collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AskRequest {
    pub text: String,
    /// Which documents it may be answered from. Neither a model nor a document can widen it.
    pub within: DocumentScope,
    pub filter: Filter,
    /// Only from this Item, including its sub-sections.
    pub item: Option<ItemRef>,
    /// Earlier turns, oldest first; only the last [`MAX_EARLIER`] are used.
    pub earlier: Vec<ConversationTurn>,
    /// How sections are found.
    pub strategy: RetrievalStrategy,
    /// How the model gets its passages.
    pub mode: AnswerMode,
    pub limits: AnswerLimits,
    pub citations: CitationPolicy,
    /// Whether the pictures of the pages of the best passages go with the question, to the vision model.
    #[serde(skip_serializing_if = "is_false")]
    pub see: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

impl AskRequest {
    /// A question over all documents.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Validates the question; `most` bounds its limits. Called before anything is sent or paid for.
    ///
    /// # Errors
    /// [`AnswerError::Question`] when it has no words, more than [`MAX_QUESTION_CHARS`] characters, or limits above `most`.
    pub fn check(&self, most: &AnswerLimits) -> Result<(), AnswerError> {
        let invalid = |code, message| Err(AnswerError::Question { code, message });
        if !self.text.chars().any(char::is_alphanumeric) {
            return invalid("answer.question_empty", "the question is empty".into());
        }
        let chars = self.text.trim().chars().count();
        if chars > MAX_QUESTION_CHARS {
            return invalid(
                "answer.too_long",
                format!(
                    "the question has {chars} characters; at most {MAX_QUESTION_CHARS} are allowed"
                ),
            );
        }
        let limits = &self.limits;
        if limits.sections == 0 || limits.context_tokens < MIN_CONTEXT_TOKENS {
            let message = format!(
                "an answer needs at least 1 section and {MIN_CONTEXT_TOKENS} context tokens"
            );
            return invalid("answer.limits_too_high", message);
        }
        match limits.first_exceeded(most) {
            Some((name, requested, most)) => invalid(
                "answer.limits_too_high",
                format!(
                    "{name} is {requested}: at most {most} are allowed here (answer.limits of the configuration)"
                ),
            ),
            None => Ok(()),
        }
    }
}

/// How sections are found: by search without a model, or by searching section trees with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrievalStrategy {
    #[default]
    Ranked,
    #[serde(untagged)]
    TreeSearch(TreeSearchStrategy),
}

impl RetrievalStrategy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ranked => "ranked",
            Self::TreeSearch(strategy) => strategy.as_str(),
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|strategy| strategy.as_str() == name)
    }

    pub fn names() -> Vec<&'static str> {
        Self::all().map(Self::as_str).collect()
    }

    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Ranked).chain(TreeSearchStrategy::ALL.map(Self::TreeSearch))
    }
}

/// An earlier question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationTurn {
    pub question: String,
    pub answer: String,
}

impl ConversationTurn {
    // People put the request at the end of a long message, and the result at the beginning of an answer.
    pub(super) fn shorten(&mut self) {
        let over = self.question.chars().count().saturating_sub(EARLIER_CHARS);
        self.question = self.question.chars().skip(over).collect();
        self.answer = self.answer.chars().take(EARLIER_CHARS).collect();
    }
}

/// How the model gets its passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerMode {
    /// As [`AnswerMode::Search`]; what that leaves open is searched for once more and then left to the agent, within
    /// [`FURTHER_CALLS`] and [`FURTHER_TOKENS`].
    #[default]
    Auto,
    /// One search, then one answer from its results.
    Search,
    /// The model calls tools until it knows enough: the tools of the MCP server, in the same scope.
    Agent,
}

impl AnswerMode {
    pub const ALL: [AnswerMode; 3] = [AnswerMode::Auto, AnswerMode::Search, AnswerMode::Agent];

    pub fn as_str(self) -> &'static str {
        match self {
            AnswerMode::Auto => "auto",
            AnswerMode::Search => "search",
            AnswerMode::Agent => "agent",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// Upper bounds for one answer. Part of its id: another limit may lead to another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerLimits {
    /// LLM calls.
    pub calls: u32,
    /// Prompt and output tokens together.
    pub tokens: u32,
    /// Billionths of a dollar, when prices are known; 0: no limit of its own.
    pub nanodollars: u64,
    /// Tokens of document text in one prompt (o200k).
    pub context_tokens: u32,
    /// Sections to read.
    pub sections: usize,
    /// Turns of the agent: tool calls, and drafts that leave something open.
    pub turns: u32,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            calls: 16,
            tokens: 200_000,
            nanodollars: 0,
            context_tokens: 4_000,
            sections: 20,
            turns: 8,
        }
    }
}

impl AnswerLimits {
    /// The default upper bound for the limits of any question. An operator may set another, a caller only lower ones.
    pub const MAX: Self = Self {
        calls: 200,
        tokens: 2_000_000,
        nanodollars: 0,
        context_tokens: 60_000,
        sections: 50,
        turns: 50,
    };

    // Name, requested and allowed value of the first limit above `most`. `most.nanodollars == 0` means no limit.
    fn first_exceeded(&self, most: &Self) -> Option<(&'static str, u64, u64)> {
        let pairs = [
            ("calls", u64::from(self.calls), u64::from(most.calls)),
            ("tokens", u64::from(self.tokens), u64::from(most.tokens)),
            (
                "context_tokens",
                u64::from(self.context_tokens),
                u64::from(most.context_tokens),
            ),
            ("sections", self.sections as u64, most.sections as u64),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CitationPolicy {
    /// Each with the result of its check.
    #[default]
    All,
    /// Only verified ones: `QuoteMatch` other than `None`.
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
        assert_eq!(
            refused(&AskRequest::new(" ??? ")).code(),
            "answer.question_empty"
        );
        let asks = |limits: AnswerLimits| AskRequest {
            limits,
            ..AskRequest::new("capex")
        };
        let excessive = refused(&asks(AnswerLimits {
            turns: 4_000_000_000,
            ..AnswerLimits::default()
        }));
        assert!(
            excessive.code() == "answer.limits_too_high"
                && excessive.to_string().contains("turns is 4000000000"),
            "{excessive}"
        );
        assert_eq!(
            refused(&asks(AnswerLimits {
                nanodollars: 1_001,
                ..AnswerLimits::default()
            }))
            .code(),
            "answer.limits_too_high"
        );
        assert_eq!(
            refused(&asks(AnswerLimits {
                sections: 0,
                ..AnswerLimits::default()
            }))
            .code(),
            "answer.limits_too_high"
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
            assert_eq!(json.clone(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str(&json).ok(), Some(finding));
        }
        assert_eq!(RetrievalStrategy::from_name("guess"), None);
        assert!(
            AnswerMode::ALL
                .iter()
                .all(|mode| AnswerMode::from_name(mode.as_str()) == Some(*mode))
        );
    }
}
