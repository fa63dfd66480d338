//! Instructions for each stage that asks a model: built in, or the user's own.
//!
//! Instructions are part of the frozen settings of a run and of the key of every answer. Changed instructions
//! of one stage repeat the answers of that stage and what depends on them, nothing else.

use stemma_document::Digest;
use stemma_llm::tokens;
use stemma_llm::untrusted::DATA_ONLY;

pub use crate::settings::Instructions;
use crate::stages::QUESTIONS;

/// Most tokens (o200k) of the instructions of one stage. Every call pays for them.
pub const MAX_TOKENS: u32 = 2_000;

/// Appended to the instructions of every stage, and not configurable: the text is data.
pub const DATA_NOTICE: &str = DATA_ONLY;

/// Why instructions are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    #[error("no stage `{0}` asks a model")]
    Unknown(String),
    #[error("the instructions of {stage} have {tokens} tokens, more than {MAX_TOKENS}")]
    TooLong { stage: String, tokens: u32 },
    #[error("the instructions of {0} are empty")]
    Empty(String),
}

/// The built-in instructions by stage, in the order of the flow.
pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
    QUESTIONS
        .iter()
        .map(|question| (question.stage, question.instructions))
}

/// The instructions of all stages: those in `own`, else the built-in ones.
///
/// # Errors
/// [`PromptError`] naming the stage.
pub fn instructions(own: &Instructions) -> Result<Instructions, PromptError> {
    let mut all: Instructions = built_in()
        .map(|(stage, text)| (stage.into(), text.into()))
        .collect();
    for (stage, text) in own {
        let text = normalize(text);
        let Some(built_in) = all.get_mut(stage) else {
            return Err(PromptError::Unknown(stage.clone()));
        };
        match tokens::count(&text) {
            0 => return Err(PromptError::Empty(stage.clone())),
            tokens if tokens > MAX_TOKENS => {
                return Err(PromptError::TooLong {
                    stage: stage.clone(),
                    tokens,
                });
            }
            _ => *built_in = text,
        }
    }
    Ok(all)
}

/// Identifies a version of instructions.
pub fn digest(text: &str) -> Digest {
    Digest::from_content(text.as_bytes())
}

// A byte order mark, line endings and outer white space depend on the editor and must not change keys.
fn normalize(text: &str) -> String {
    text.trim_start_matches('\u{feff}')
        .replace("\r\n", "\n")
        .trim()
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn own(stage: &str, text: &str) -> Instructions {
        BTreeMap::from([(stage.to_string(), text.to_string())])
    }

    #[test]
    fn unchanged_instructions_are_equal() {
        let as_built = instructions(&BTreeMap::new()).unwrap();
        for (stage, text) in built_in() {
            let edited = format!("\u{feff}{}\r\n", text.replace('\n', "\r\n"));
            assert_eq!(
                instructions(&own(stage, &edited)).unwrap(),
                as_built,
                "{stage}"
            );
        }
        let changed = instructions(&own("summarize", "In verse.")).unwrap();
        assert_eq!(
            changed
                .iter()
                .filter(|(stage, text)| as_built[*stage] != **text)
                .count(),
            1
        );
    }

    #[test]
    fn unusable_instructions_are_rejected() {
        let refused =
            |stage: &str, text: &str| instructions(&own(stage, text)).unwrap_err().to_string();
        assert_eq!(
            refused("summarise", "x"),
            "no stage `summarise` asks a model"
        );
        assert_eq!(
            refused("summarize", " \r\n"),
            "the instructions of summarize are empty"
        );
        let long = refused("summarize", &"word ".repeat(3_000));
        assert!(
            long.starts_with("the instructions of summarize have 3"),
            "{long}"
        );
    }

    #[test]
    fn built_in_instructions_are_short() {
        for (stage, text) in built_in() {
            assert!(
                tokens::count(text) < 200,
                "{stage}: {}",
                tokens::count(text)
            );
            assert_eq!(normalize(text), text, "{stage}");
        }
    }
}
