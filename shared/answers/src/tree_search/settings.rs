//! How trees are walked; every default is named here once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::budget::QuestionBudget;
use super::knowledge::SelectionMethod;
use super::llm_session::LlmClientSettings;
use super::routing::Routing;

/// The configuration `reason`: how questions are answered with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TreeSearchSettings {
    /// How the model is asked.
    #[serde(rename = "asker")]
    pub client: LlmClientSettings,
    /// What one question may cost, where it does not say.
    pub budget: QuestionBudget,
    /// Whether a question is analyzed before trees are walked: one call.
    pub analysis: bool,
    /// How documents are chosen.
    pub routing: Routing,
    /// Documents whose descriptions are shown to the model: those that fit best by content.
    pub routing_described: usize,
    /// Documents whose trees are walked for one question.
    pub documents: usize,
    /// Expert knowledge.
    pub knowledge: KnowledgeSettings,
    /// The score from which on a section is taken, 0–1.
    #[serde(with = "plain")]
    pub threshold: f32,
    /// The score from which on a section is taken though its topic is covered.
    #[serde(with = "plain")]
    pub sure: f32,
    /// Sections that are chosen at most.
    pub sections: usize,
    /// Tokens up to which a section is read with all below it: what stands below a chosen one is not chosen beside it.
    pub whole_tokens: u32,
    /// Hops along references from a chosen section, 0 to 2.
    pub hops: u8,
    /// Share of equal shingles from which on two sections say the same.
    #[serde(with = "plain")]
    pub overlap: f32,
    /// `single`.
    pub single: SingleSettings,
    /// `best_first`.
    pub best_first: BestFirstSettings,
    /// `beam`.
    pub beam: BeamSettings,
    /// `mcts`.
    pub mcts: MctsSettings,
    /// `auto`.
    pub auto: AutoSettings,
}

impl Default for TreeSearchSettings {
    fn default() -> Self {
        Self {
            client: LlmClientSettings::default(),
            budget: QuestionBudget::default(),
            analysis: true,
            routing: Routing::Auto,
            routing_described: 12,
            documents: 3,
            knowledge: KnowledgeSettings::default(),
            threshold: 0.3,
            sure: 0.8,
            sections: 8,
            whole_tokens: 1_500,
            hops: 2,
            overlap: 0.8,
            single: SingleSettings::default(),
            best_first: BestFirstSettings::default(),
            beam: BeamSettings::default(),
            mcts: MctsSettings::default(),
            auto: AutoSettings::default(),
        }
    }
}

/// Which expert knowledge is used, and how it is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeSettings {
    /// Whether what is built in about filings with the SEC is used.
    pub built_in: bool,
    /// Files of one's own, by collection.
    pub files: BTreeMap<String, PathBuf>,
    /// How rules are chosen for a question.
    pub chosen_by: SelectionMethod,
    /// The likeness from which on a rule is chosen by similarity, 0–1.
    #[serde(with = "plain")]
    pub similarity: f32,
    /// By how much sections fit better that are preferred or expected, 0–1.
    #[serde(with = "plain")]
    pub prior: f32,
}

impl Default for KnowledgeSettings {
    fn default() -> Self {
        Self {
            built_in: true,
            files: BTreeMap::new(),
            chosen_by: SelectionMethod::Keyword,
            similarity: 0.25,
            prior: 0.15,
        }
    }
}

/// The whole tree in one prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SingleSettings {
    /// Tokens of the listing at most; a longer one is cut at a depth.
    pub listing_tokens: u32,
    /// Characters of a summary.
    pub summary_chars: usize,
}

impl Default for SingleSettings {
    fn default() -> Self {
        Self {
            listing_tokens: 60_000,
            summary_chars: 240,
        }
    }
}

/// A priority queue of sections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BestFirstSettings {
    /// Calls per document.
    pub calls: u32,
    /// Sections valued in one call.
    pub batch: usize,
    /// The best sections of the search without a model that are looked at first.
    pub warm: usize,
    /// Characters of a summary.
    pub summary_chars: usize,
    /// What a section's own words count beside the value of the section above, 0–1.
    #[serde(with = "plain")]
    pub lexical: f32,
    /// What a section must promise to be looked at, 0–1: where none does, it stops early.
    #[serde(with = "plain")]
    pub least: f32,
    /// It stops early with so many sections of `stop_score` or better.
    pub enough: usize,
    /// See `enough`.
    #[serde(with = "plain")]
    pub stop_score: f32,
}

impl Default for BestFirstSettings {
    fn default() -> Self {
        Self {
            calls: 5,
            batch: 12,
            warm: 10,
            summary_chars: 160,
            lexical: 0.4,
            least: 0.3,
            enough: 4,
            stop_score: 0.8,
        }
    }
}

/// Who picks the children of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Picker {
    /// The model: one call per level.
    #[default]
    Model,
    /// Search without a model: no call.
    Lexical,
}

/// Level by level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeamSettings {
    /// Levels at most.
    pub max_depth: usize,
    /// Sections in the beam.
    pub width: usize,
    /// Who picks.
    pub picker: Picker,
    /// Children that are shown per level at most; of more, those that fit best without a model.
    #[serde(rename = "shown")]
    pub listed_children: usize,
    /// The best sections of the search without a model that are joined to those visited.
    pub global: usize,
    /// Sections that are ranked in the end.
    pub ranked: usize,
    /// Sections that the ranking is to bring at least; fewer are filled up from the search without a model.
    pub top_k: usize,
    /// The least score, without a model, of sections that fill gaps, 0–1.
    #[serde(with = "plain")]
    pub fill: f32,
    /// Characters of a summary.
    pub summary_chars: usize,
    /// Characters of an excerpt.
    pub excerpt_chars: usize,
}

impl Default for BeamSettings {
    fn default() -> Self {
        Self {
            max_depth: 4,
            width: 4,
            picker: Picker::Model,
            listed_children: 20,
            global: 80,
            ranked: 24,
            top_k: 5,
            fill: 0.35,
            summary_chars: 90,
            excerpt_chars: 120,
        }
    }
}

/// Monte Carlo tree search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MctsSettings {
    /// Calls per document.
    pub calls: u32,
    /// The weight of what was seldom visited, by what its words promise (PUCT).
    #[serde(with = "plain")]
    pub exploration: f32,
    /// What a section's own words count beside the model's value, 0–1.
    #[serde(with = "plain")]
    pub lexical: f32,
    /// Sections valued in one call.
    pub batch: usize,
    /// Characters of a summary.
    pub summary_chars: usize,
    /// Characters of the excerpt that the last call reads.
    pub excerpt_chars: usize,
}

impl Default for MctsSettings {
    fn default() -> Self {
        Self {
            calls: 8,
            exploration: 1.4,
            lexical: 0.3,
            batch: 12,
            summary_chars: 160,
            excerpt_chars: 600,
        }
    }
}

/// Who chooses the strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutoSettings {
    /// Tokens of a listing up to which the whole tree is shown.
    pub single_tokens: u32,
    /// Calls that must be left for `beam`.
    pub beam_calls: u32,
    /// Calls that must be left for `mcts`.
    pub mcts_calls: u32,
    /// The best score without a model below which words alone are taken to say little, 0–1.
    #[serde(with = "plain")]
    pub vague: f32,
}

impl Default for AutoSettings {
    fn default() -> Self {
        Self {
            single_tokens: 3_000,
            beam_calls: 5,
            mcts_calls: 8,
            vague: 0.25,
        }
    }
}

/// Shares as people write them: 0.3, not the binary number next to it.
mod plain {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
    pub(super) fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((f64::from(*value) * 1e6).round() / 1e6)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
        f32::deserialize(deserializer)
    }
}
