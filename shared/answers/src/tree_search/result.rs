//! Results of tree search: sections, and a trace of how they were found.

use serde::{Deserialize, Serialize};
use stemma_document::{DocId, SectionId};

use super::budget::SessionUsage;
use super::llm_session::SessionError;
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
    pub trace: TreeSearchTrace,
}

/// How sections were found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TreeSearchTrace {
    /// The requested strategy.
    pub strategy: TreeSearchStrategy,
    /// `None` when no model was asked.
    pub model: Option<String>,
    /// `None` when the question was not analyzed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// The steps, in order.
    pub steps: Vec<TraceStep>,
    /// Every scored section.
    #[serde(rename = "looked_at")]
    pub visited: Vec<TraceSection>,
    /// Relations of the selected sections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<SectionRelation>,
    /// Expert knowledge that was shown to the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<AppliedKnowledge>,
    /// 0.4 of the mean score and 0.6 of the best; 0 when nothing was selected.
    pub confidence: f64,
    /// Ids in replies that no listed section has.
    pub unknown_ids: u32,
    /// Where the search did less than was asked. Meant for the reader.
    pub notes: Vec<Note>,
    #[serde(rename = "spent")]
    pub usage: SessionUsage,
}

impl TreeSearchTrace {
    // Something was done without the model.
    pub(super) fn note_failure(&mut self, what: &str, error: &SessionError) {
        self.notes.push(Note::from_error(what, error));
    }

    // A step over several documents.
    pub(super) fn add_step(&mut self, what: &'static str, why: String) {
        self.steps.push(TraceStep {
            doc: None,
            what,
            why,
            thinking: Vec::new(),
        });
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub topic: String,
    /// Parts of the question that may be answered in different places.
    pub aspects: Vec<String>,
    /// `number`, `explanation`, `list`, `comparison` or `fact`.
    pub kind: String,
    pub key_terms: Vec<String>,
    /// Fiscal years.
    pub years: Vec<u16>,
    /// Titles of sections in which the answer is expected.
    pub locations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// `None` for a step over several documents.
    pub doc: Option<DocId>,
    /// `analysis`, `routing`, `single`, `best_first`, `beam`, `mcts`, `lexical`, `references`.
    pub what: &'static str,
    pub why: String,
    /// The model's own words, call by call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSection {
    pub doc: DocId,
    pub section: SectionId,
    /// Titles from the root down to the section.
    pub path: Vec<String>,
    /// 0–1.
    pub score: f32,
    /// Score of search without a model, 0–1.
    pub lexical: f32,
    /// The model's reason.
    pub reason: String,
    /// How often it was scored.
    pub visits: u32,
    pub chosen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SectionRelation {
    /// Rank of one section (1-based).
    pub one: usize,
    /// Rank of the other.
    pub other: usize,
    pub relation: Relation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// One contains the other.
    Hierarchical,
    /// They say much the same.
    Redundant,
    /// They are about different things.
    Complementary,
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
