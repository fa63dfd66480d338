//! Parameters of tree search, with all defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::budget::QuestionBudget;
use super::knowledge::SelectionMethod;
use super::llm_session::LlmClientSettings;
use super::routing::Routing;

/// The configuration section `reason`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TreeSearchSettings {
    #[serde(rename = "asker")]
    pub client: LlmClientSettings,
    /// Budget of a question that does not set its own.
    pub budget: QuestionBudget,
    /// Whether a question is analyzed first: one LLM call.
    pub analysis: bool,
    pub routing: Routing,
    /// Documents whose descriptions are shown to the model: those that fit best by content.
    pub routing_described: usize,
    /// Documents that are walked per question.
    pub documents: usize,
    pub knowledge: KnowledgeSettings,
    /// Minimum score of a section, 0–1.
    #[serde(with = "plain")]
    pub threshold: f32,
    /// A section with a higher score is taken even when its topic is covered.
    #[serde(with = "plain")]
    pub sure: f32,
    /// Sections to select at most.
    pub sections: usize,
    /// A section of at most this many tokens is read with all its descendants, which are then not selected beside it.
    pub whole_tokens: u32,
    /// Hops along references from a selected section, 0 to 2.
    pub hops: u8,
    /// Share of common shingles from which two sections count as repeating each other.
    #[serde(with = "plain")]
    pub overlap: f32,
    pub single: SingleSettings,
    pub best_first: BestFirstSettings,
    pub beam: BeamSettings,
    pub mcts: MctsSettings,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeSettings {
    /// Whether the built-in rules about SEC filings are used.
    pub built_in: bool,
    /// The operator's own files, by collection.
    pub files: BTreeMap<String, PathBuf>,
    pub chosen_by: SelectionMethod,
    /// Minimum similarity of a rule selected by similarity, 0–1.
    #[serde(with = "plain")]
    pub similarity: f32,
    /// Added to the lexical score of preferred and expected sections, 0–1.
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
    /// Tokens of the listing; a larger tree is cut at a depth.
    pub listing_tokens: u32,
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
    pub calls: u32,
    /// Sections scored in one call.
    pub batch: usize,
    /// Best lexical hits that start in the queue.
    pub warm: usize,
    pub summary_chars: usize,
    /// Weight of a section's lexical score beside the score of its parent, 0–1.
    #[serde(with = "plain")]
    pub lexical: f32,
    /// Minimum priority of a section to be scored, 0–1. The walk ends when none has it.
    #[serde(with = "plain")]
    pub least: f32,
    /// The walk ends with this many sections of `stop_score` or better.
    pub enough: usize,
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

/// Selects the children of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Picker {
    /// One LLM call per level.
    #[default]
    Model,
    /// Lexical scores, without a call.
    Lexical,
}

/// Level by level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeamSettings {
    pub max_depth: usize,
    pub width: usize,
    pub picker: Picker,
    /// Children shown per level; of more, those with the best lexical scores.
    #[serde(rename = "shown")]
    pub listed_children: usize,
    /// Best lexical hits that are ranked beside the visited sections.
    pub global: usize,
    /// Sections in the final ranking.
    pub ranked: usize,
    /// Minimum number of results; missing ones are filled with lexical hits.
    pub top_k: usize,
    /// Minimum lexical score of a hit that fills a gap, 0–1.
    #[serde(with = "plain")]
    pub fill: f32,
    pub summary_chars: usize,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MctsSettings {
    pub calls: u32,
    /// Weight of exploration in the PUCT formula.
    #[serde(with = "plain")]
    pub exploration: f32,
    /// Weight of a section's lexical score beside the model's score, 0–1.
    #[serde(with = "plain")]
    pub lexical: f32,
    /// Sections scored in one call.
    pub batch: usize,
    pub summary_chars: usize,
    /// Characters of the excerpts that the last call reads.
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

/// When `auto` takes which strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutoSettings {
    /// Listings up to this many tokens go to `single`.
    pub single_tokens: u32,
    /// Calls that must be left for `beam`.
    pub beam_calls: u32,
    /// Calls that must be left for `mcts`.
    pub mcts_calls: u32,
    /// Lexical scores are vague when the tenth best is within this distance of the best (1.0), 0–1.
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

// Writes 0.3 as 0.3, not as the nearest binary number.
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
