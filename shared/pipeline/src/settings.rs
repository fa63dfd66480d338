//! What changes results: frozen at submission under its digest, carried by every task.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use stemma_extract::Limits;

use crate::prompts::Instructions;
use stemma_outline::enrich::SectionSettings;
use stemma_outline::structure::StructureSettings;

/// The settings of a run. Local configuration (concurrency, endpoints, keys) is not among them: it changes speed only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Who decides about structure.
    pub structure: StructureMode,
    /// What a document may cost to read.
    pub limits: Limits,
    /// How sections are found.
    pub outline: StructureSettings,
    /// How sections are finished.
    pub sections: SectionSettings,
    /// What each stage that asks a model tells it to do, by the name of the stage: frozen whole where a model is asked, so
    /// that every worker asks alike, whatever its own version says.
    #[serde(skip_serializing_if = "Instructions::is_empty")]
    pub instructions: Instructions,
    /// The model that is asked; `None` where none is, so that these settings are those of a program without models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSettings>,
}

/// Who decides about structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructureMode {
    /// Rules decide what they surely can; a model, where one is configured, the rest.
    #[default]
    Auto,
    /// Rules decide everything.
    Layout,
    /// Every step per page and per section is a question to a model.
    Llm,
}

/// Which model is asked, and how: everything about it that changes its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// The model, as its provider names it: for every purpose that names none of its own.
    pub name: String,
    /// Tokens of a prompt at most; what would need more is refused with the section named.
    pub max_prompt_tokens: u32,
    /// Tokens of a summary at most.
    pub max_output_tokens: u32,
    /// Tokens of a verdict at most.
    pub max_verdict_tokens: u32,
    /// Tokens of a list of sections at most.
    pub max_outline_tokens: u32,
    /// What becomes of a document when the model does not answer.
    pub on_failure: OnModelFailure,
    /// The model for questions about structure.
    pub structure: PurposeModel,
    /// The model for summaries and descriptions.
    pub summaries: PurposeModel,
    /// The model for answers to people.
    pub answers: PurposeModel,
}

/// The model for one purpose, where it is another than `model.name`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PurposeModel {
    /// The model, as its provider names it; empty: `model.name`.
    pub name: String,
    /// Tokens of a prompt at most; 0: `model.max_prompt_tokens`.
    pub max_prompt_tokens: u32,
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Where sections are.
    Structure,
    /// What they say.
    Summaries,
    /// What a person asks.
    Answers,
}

impl ModelSettings {
    /// The model for a purpose, as its provider names it.
    pub fn name_for(&self, purpose: Purpose) -> &str {
        let own = &self.for_purpose(purpose).name;
        if own.is_empty() { &self.name } else { own }
    }

    /// Tokens of a prompt for a purpose, at most.
    pub fn max_prompt_tokens_for(&self, purpose: Purpose) -> u32 {
        match self.for_purpose(purpose).max_prompt_tokens {
            0 => self.max_prompt_tokens,
            own => own,
        }
    }

    /// The models of all purposes, each once, in the order of their names.
    pub fn names(&self) -> BTreeSet<&str> {
        [Purpose::Structure, Purpose::Summaries, Purpose::Answers]
            .map(|purpose| self.name_for(purpose))
            .into()
    }

    fn for_purpose(&self, purpose: Purpose) -> &PurposeModel {
        match purpose {
            Purpose::Structure => &self.structure,
            Purpose::Summaries => &self.summaries,
            Purpose::Answers => &self.answers,
        }
    }
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            max_prompt_tokens: 110_000,
            max_output_tokens: 400,
            max_verdict_tokens: 64,
            max_outline_tokens: 8_000,
            on_failure: OnModelFailure::default(),
            structure: PurposeModel::default(),
            summaries: PurposeModel::default(),
            answers: PurposeModel::default(),
        }
    }
}

/// What becomes of a document when a question was not answered after all attempts. The structure is then what rules find,
/// in any case but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnModelFailure {
    /// It fails.
    Fail,
    /// A section without an answer has no summary, and a gap says so.
    #[default]
    Gap,
    /// A section without an answer has the summary that rules make, and a gap says so.
    Offline,
}
