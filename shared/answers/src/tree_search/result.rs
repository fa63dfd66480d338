//! What a walk through trees brings: sections, and how they were come to.

use serde::{Deserialize, Serialize};
use stemma_document::{DocId, SectionId};

use super::budget::SessionUsage;
use super::llm_session::SessionError;
use stemma_retrieval::search::SearchResults;

/// How a model walks trees.
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
    /// All, by their words.
    pub const ALL: [TreeSearchStrategy; 5] = [
        TreeSearchStrategy::Auto,
        TreeSearchStrategy::Single,
        TreeSearchStrategy::BestFirst,
        TreeSearchStrategy::Beam,
        TreeSearchStrategy::Mcts,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            TreeSearchStrategy::Auto => "auto-with-model",
            TreeSearchStrategy::Single => "single",
            TreeSearchStrategy::BestFirst => "best_first",
            TreeSearchStrategy::Beam => "beam",
            TreeSearchStrategy::Mcts => "mcts",
        }
    }

    /// The strategy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == name)
    }
}

/// What a walk brings.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TreeSearchResult {
    /// The chosen sections, best first, in the shape of every search.
    #[serde(rename = "found")]
    pub results: SearchResults,
    /// How they were come to.
    #[serde(rename = "reasoning")]
    pub trace: TreeSearchTrace,
}

/// How sections were come to.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TreeSearchTrace {
    /// The strategy that was asked for.
    pub strategy: TreeSearchStrategy,
    /// The model; `None` where none was asked.
    pub model: Option<String>,
    /// What the question was understood as; `None` where it was not analyzed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// What was done, in order: a strategy in a document, and why.
    pub steps: Vec<TraceStep>,
    /// Every section that was looked at, by document and section.
    #[serde(rename = "looked_at")]
    pub visited: Vec<TraceSection>,
    /// How chosen sections relate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<SectionRelation>,
    /// Expert knowledge that was put before the tree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<AppliedKnowledge>,
    /// 0.4 of the mean score and 0.6 of the best; 0 where nothing was chosen.
    pub confidence: f32,
    /// Sections the model named that are none.
    pub unknown_ids: u32,
    /// Where the walk did less than was asked, or other than was asked: say it to the reader.
    pub notes: Vec<Note>,
    /// What it cost.
    #[serde(rename = "spent")]
    pub usage: SessionUsage,
}

impl TreeSearchTrace {
    /// Notes that something was done without the model.
    pub(super) fn note_failure(&mut self, what: &str, error: &SessionError) {
        self.notes
            .push(Note::new(error.code(), format!("{what}: {error}")));
    }
}

/// What a question was understood as.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// What it is about.
    pub topic: String,
    /// Parts of the question that may be answered in different places.
    pub aspects: Vec<String>,
    /// The kind of information: `number`, `explanation`, `list`, `comparison`, `fact`.
    pub kind: String,
    /// Words to look for.
    pub key_terms: Vec<String>,
    /// Fiscal years it asks about.
    pub years: Vec<u16>,
    /// Sections in which the answer is expected.
    pub locations: Vec<String>,
}

/// A strategy in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// The document; `None` for what concerns several.
    pub doc: Option<DocId>,
    /// `analysis`, `routing`, `single`, `best_first`, `beam`, `mcts`, `lexical`, `references`.
    pub what: &'static str,
    /// Why.
    pub why: String,
    /// What the model said that it thinks, call by call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
}

/// A section that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSection {
    /// Its document.
    pub doc: DocId,
    /// The section.
    pub section: SectionId,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// 0–1.
    pub score: f32,
    /// The score of the search without a model, 0–1.
    pub lexical: f32,
    /// Why, as the model says.
    pub reason: String,
    /// How often it was valued.
    pub visits: u32,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// Two chosen sections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SectionRelation {
    /// One, by rank from 1.
    pub one: usize,
    /// The other.
    pub other: usize,
    /// How.
    pub relation: Relation,
}

/// How two sections relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// One holds the other.
    Hierarchical,
    /// They say much the same.
    Redundant,
    /// They speak of different things.
    Complementary,
}

/// Expert knowledge that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedKnowledge {
    /// The name of the rule or preference.
    pub name: String,
    /// Why it was chosen: `keyword “capex”`, `similarity 0.42`, `model`.
    pub by: String,
    /// What it says.
    #[serde(rename = "says")]
    pub text: String,
}

/// Something the reader has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A stable code.
    pub code: String,
    /// One sentence, lower case, no full stop.
    pub message: String,
}

impl Note {
    /// A note under a stable code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }
}
