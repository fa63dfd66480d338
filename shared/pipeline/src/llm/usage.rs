use serde::{Deserialize, Serialize};
use stemma_llm::request::TokenUsage;

/// Tokens of an answer, as input and settings determine them. Cached tokens are not told apart, because what
/// a provider has cached is chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageUsage {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

impl From<TokenUsage> for StageUsage {
    fn from(usage: TokenUsage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}
