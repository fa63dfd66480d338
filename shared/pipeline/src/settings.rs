//! Settings that change results. They are frozen at submission under their digest, and every task carries
//! them.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use stemma_extract::Limits;

use stemma_outline::enrich::SectionSettings;
use stemma_outline::structure::StructureSettings;

/// Instructions by stage name.
pub type Instructions = BTreeMap<String, String>;

/// The settings of a run. Local configuration (concurrency, endpoints, keys) is not part of them: it changes
/// speed only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    pub structure: StructureMode,
    pub limits: Limits,
    pub outline: StructureSettings,
    pub sections: SectionSettings,
    pub ocr: OcrSettings,
    /// Instructions of every stage that asks a model. They are frozen as a whole, so that all workers ask the
    /// same questions, whatever their version.
    #[serde(skip_serializing_if = "Instructions::is_empty")]
    pub instructions: Instructions,
    /// The model to ask. Skipped if `None`, so that these settings keep the digest that they had before there
    /// were models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSettings>,
    /// The vision model. Skipped like `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<VisionSettings>,
}

impl RunSettings {
    /// The models that a run may ask, without duplicates, sorted.
    pub fn model_names(&self) -> BTreeSet<&str> {
        let mut names = self
            .model
            .as_ref()
            .map(ModelSettings::names)
            .unwrap_or_default();
        names.extend(self.vision.as_ref().map(|vision| vision.model.as_str()));
        names
    }
}

/// Text recognition (OCR) of pages that are pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OcrSettings {
    pub mode: OcrMode,
    /// Tesseract's names of the languages, the main one first. Default `eng`.
    #[serde(deserialize_with = "language_names")]
    pub languages: Vec<String>,
    /// SHA-256 digest of the model that reads the numbers again, in hexadecimal digits; empty: no second reader. Each
    /// machine has the model where `local.second_reader` says.
    #[serde(deserialize_with = "model_digest")]
    pub second_reader: String,
}

/// A vision model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VisionSettings {
    /// The provider's name of the model; empty: none.
    pub model: String,
}

fn model_digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let digest = String::deserialize(deserializer)?.to_ascii_lowercase();
    let is_digest = digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit());
    if digest.is_empty() || is_digest {
        return Ok(digest);
    }
    let message = format!("{digest:?} is not a SHA-256 digest of 64 hexadecimal digits");
    Err(D::Error::custom(message))
}

// Tesseract takes them for parts of paths, and joined with `+`.
fn language_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    if names.is_empty() || !names.iter().all(|name| is_language_name(name)) {
        let message = format!("{names:?} are not names of languages, such as [\"eng\", \"deu\"]");
        return Err(D::Error::custom(message));
    }
    Ok(names)
}

fn is_language_name(name: &str) -> bool {
    name.split('/')
        .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

impl Default for OcrSettings {
    fn default() -> Self {
        Self {
            mode: OcrMode::default(),
            languages: vec!["eng".into()],
            second_reader: String::new(),
        }
    }
}

/// Which pages text recognition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OcrMode {
    /// Pages that are pictures, or whose text has no meaning. Other text of a file is never replaced.
    #[default]
    Auto,
    Never,
    /// Every page of a PDF.
    Always,
}

/// The method that decides the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructureMode {
    /// Rules decide; a model, if configured, writes summaries and reads the places where the draft shows that headings
    /// are missing.
    #[default]
    Auto,
    /// Rules decide everything.
    Layout,
    /// As `auto`, and a model reads every page for headings that the rules missed.
    Llm,
}

/// The model, and all parameters that change its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// The provider's name of the model, for every purpose that does not name its own.
    pub name: String,
    /// Longest prompt in tokens. A longer one fails with the name of the section.
    pub max_prompt_tokens: u32,
    /// Longest summary in tokens.
    pub max_output_tokens: u32,
    /// Longest list of headings in tokens.
    pub max_outline_tokens: u32,
    pub on_failure: OnModelFailure,
    /// For questions about structure.
    pub structure: PurposeModel,
    /// For summaries and descriptions.
    pub summaries: PurposeModel,
    /// For answers to users.
    pub answers: PurposeModel,
}

/// The model for one purpose, if it is not `model.name`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PurposeModel {
    /// The provider's name of the model; empty means `model.name`.
    pub name: String,
    /// Longest prompt in tokens; 0 means `model.max_prompt_tokens`.
    pub max_prompt_tokens: u32,
}

/// A use of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Structure,
    Summaries,
    Answers,
}

impl ModelSettings {
    /// The provider's name of the model for a purpose.
    pub fn name_for(&self, purpose: Purpose) -> &str {
        let own = &self.for_purpose(purpose).name;
        if own.is_empty() { &self.name } else { own }
    }

    /// Longest prompt for a purpose, in tokens.
    pub fn max_prompt_tokens_for(&self, purpose: Purpose) -> u32 {
        match self.for_purpose(purpose).max_prompt_tokens {
            0 => self.max_prompt_tokens,
            own => own,
        }
    }

    /// The models of all purposes, without duplicates, sorted.
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
            max_outline_tokens: 8_000,
            on_failure: OnModelFailure::default(),
            structure: PurposeModel::default(),
            summaries: PurposeModel::default(),
            answers: PurposeModel::default(),
        }
    }
}

/// The handling of a document if a question has no answer after all attempts. Except with `Fail`, rules
/// decide the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnModelFailure {
    /// The document fails.
    Fail,
    /// A section without an answer has no summary, and a gap records it.
    #[default]
    Gap,
    /// A section without an answer gets a summary made by rules, and a gap records it.
    Offline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_reader_is_a_digest() {
        let read = |digest: &str| {
            let json = serde_json::json!({ "second_reader": digest });
            serde_json::from_value::<OcrSettings>(json).map(|read| read.second_reader)
        };
        assert_eq!(read("").unwrap(), "");
        assert_eq!(read(&"A0".repeat(32)).unwrap(), "a0".repeat(32));
        assert!(read("model.onnx").is_err());
        assert!(read(&"g0".repeat(32)).is_err());
    }

    #[test]
    fn languages_are_names_of_tesseract() {
        let read = |names: &[&str]| {
            let json = serde_json::json!({ "languages": names });
            serde_json::from_value::<OcrSettings>(json).is_ok()
        };
        assert!(read(&["eng", "chi_sim", "script/Latin"]));
        for names in [
            &[][..],
            &[""],
            &["../eng"],
            &["/eng"],
            &["eng+deu"],
            &["--psm"],
        ] {
            assert!(!read(names), "{names:?}");
        }
    }
}
