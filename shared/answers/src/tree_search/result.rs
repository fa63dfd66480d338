//! Results of tree search: sections, and a report of how they were found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::budget::SessionUsage;
use super::session_error::SessionError;
use stemma_retrieval::search::SearchResults;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeSearchStrategy {
    /// By size of the tree, question and budget.
    #[default]
    #[serde(rename = "auto-with-model")]
    Auto,
    /// The whole tree in one prompt.
    Single,
    /// A priority queue of sections.
    BestFirst,
    /// Level by level, then a ranking.
    Beam,
    /// Monte Carlo tree search.
    Mcts,
}

impl TreeSearchStrategy {
    pub const ALL: [TreeSearchStrategy; 5] = [
        TreeSearchStrategy::Auto,
        TreeSearchStrategy::Single,
        TreeSearchStrategy::BestFirst,
        TreeSearchStrategy::Beam,
        TreeSearchStrategy::Mcts,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TreeSearchStrategy::Auto => "auto-with-model",
            TreeSearchStrategy::Single => "single",
            TreeSearchStrategy::BestFirst => "best_first",
            TreeSearchStrategy::Beam => "beam",
            TreeSearchStrategy::Mcts => "mcts",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct TreeSearchResult {
    /// The selected sections, best first.
    pub results: SearchResults,
    pub report: TreeSearchReport,
}

/// How a model chose the sections of a search, or why none was asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct TreeSearchReport {
    /// The requested strategy.
    #[schema(value_type = String)]
    pub strategy: TreeSearchStrategy,
    /// `null` if no model was asked.
    pub model: Option<String>,
    /// Where the search did less than was requested, or something else. Meant for the reader.
    #[schema(value_type = Vec<Object>)]
    pub notes: Vec<Note>,
    /// Calls, tokens and cost.
    #[schema(value_type = Object)]
    #[serde(rename = "spent")]
    pub usage: SessionUsage,
    /// The analysis of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub analysis: Option<Analysis>,
    /// Expert knowledge that was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub knowledge: Vec<AppliedKnowledge>,
    /// All steps, in order; only with `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TreeSearchStep>,
    /// Every scored section; only with `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "looked_at")]
    pub visited: Vec<VisitedSection>,
}

impl TreeSearchReport {
    // Something was done without the model.
    pub(super) fn note_failure(&mut self, what: &str, error: &SessionError) {
        self.notes.push(Note::from_error(what, error));
    }

    // A step over several documents.
    pub(super) fn add_step(&mut self, what: &'static str, why: String) {
        self.steps.push(TreeSearchStep {
            document: None,
            what,
            why,
            thinking: Vec::new(),
        });
    }
}

/// A step of a search with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TreeSearchStep {
    /// Locator of the document; `null` for a step over several.
    pub document: Option<String>,
    /// `analysis`, `routing`, a strategy.
    pub what: &'static str,
    /// Why.
    pub why: String,
    /// The model's own words, call by call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
}

/// A section that was scored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VisitedSection {
    /// Locator of the section.
    pub locator: String,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// The model's score, 0–1.
    pub score: f64,
    /// The score of the search without a model, 0–1.
    pub lexical: f64,
    /// The model's reason.
    pub reason: String,
    /// Whether it is among the hits.
    pub chosen: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub topic: String,
    /// Titles of sections in which the answer is expected.
    pub locations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedKnowledge {
    /// Name of the rule or preference.
    pub name: String,
    /// Why it was chosen: `keyword “capex”`.
    pub by: String,
    #[serde(rename = "says")]
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Stable code.
    pub code: String,
    /// Lower case, no full stop.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Note {
    pub(super) fn from_error(what: &str, error: &SessionError) -> Self {
        Self {
            next: error.next().map(Into::into),
            ..Self::new(error.code(), format!("{what}: {error}"))
        }
    }

    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            next: None,
        }
    }
}
