//! Settings of tree search. All other parameters are constants next to the code that uses them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::budget::QuestionBudget;
use super::llm_session::LlmClientSettings;

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
    pub knowledge: KnowledgeSettings,
}

impl Default for TreeSearchSettings {
    fn default() -> Self {
        Self {
            client: LlmClientSettings::default(),
            budget: QuestionBudget::default(),
            analysis: true,
            knowledge: KnowledgeSettings::default(),
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
}

impl Default for KnowledgeSettings {
    fn default() -> Self {
        Self {
            built_in: true,
            files: BTreeMap::new(),
        }
    }
}
