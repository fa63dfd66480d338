//! Client for the OpenAI embeddings API. Call it through [`ModelClient::embed`](crate::client::ModelClient::embed), which
//! applies rate limits and budgets to each batch.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use stemma_store::limit::ReportedLimits;

use crate::http::{AuthHeader, Endpoint, EndpointError, HttpTransport};
use crate::request::{LlmError, TokenUsage};
use crate::tokens;

const MAX_TEXTS: usize = 256;
/// Maximum tokens of one batch; see [`batches`].
pub const MAX_TOKENS: u32 = 100_000;
/// Maximum tokens of one text, the context length of common embedding models.
pub const MAX_TEXT_TOKENS: u32 = 8_191;

#[async_trait]
pub trait Embedder: Send + Sync {
    /// Embeds `texts` in one call. Vectors come in the order of the texts and have equal lengths.
    ///
    /// # Errors
    /// [`LlmError`] if there is no reply or it is invalid.
    async fn embed(&self, texts: &[&str]) -> Result<EmbeddingReply, LlmError>;
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct EmbeddingReply {
    pub vectors: Vec<Vec<f32>>,
    pub usage: TokenUsage,
    pub rate_limits: ReportedLimits,
}

/// The texts of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextBatch<'a> {
    pub texts: &'a [&'a str],
    /// Total o200k tokens.
    pub tokens: u32,
}

pub struct OpenAiEmbedder {
    transport: HttpTransport,
    model: String,
}

impl OpenAiEmbedder {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// [`EndpointError`] for an invalid URL or header.
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Result<Self, EndpointError> {
        Ok(Self {
            transport: HttpTransport::new(endpoint, AuthHeader::Bearer, &[])?,
            model: model.into(),
        })
    }

    /// Host and port, for rate limit buckets and messages.
    pub fn host(&self) -> &str {
        self.transport.host()
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    async fn embed(&self, texts: &[&str]) -> Result<EmbeddingReply, LlmError> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
        let received = self
            .transport
            .post("embeddings", &body, texts)
            .await
            .map_err(|error| error.error)?;
        let list: EmbeddingList = serde_json::from_slice(&received.bytes)
            .map_err(|_| LlmError::unreadable("not a list of embeddings", TokenUsage::default()))?;
        let prompt_tokens = list.usage.map_or_else(
            || {
                texts
                    .iter()
                    .map(|text| tokens::count(text))
                    .fold(0, u32::saturating_add)
            },
            |usage| usage.prompt_tokens,
        );
        let usage = TokenUsage {
            prompt_tokens,
            ..TokenUsage::default()
        };
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for item in list.data {
            let slot = vectors
                .get_mut(item.index)
                .ok_or_else(|| LlmError::unreadable("a vector has an unknown index", usage))?;
            *slot = item.embedding;
        }
        let length = vectors.first().map_or(0, Vec::len);
        if !vectors.iter().all(|vector| is_valid_vector(vector, length)) {
            return Err(LlmError::unreadable(
                "vectors are zero, not finite, or differ in length",
                usage,
            ));
        }
        Ok(EmbeddingReply {
            vectors,
            usage,
            rate_limits: received.rate_limits,
        })
    }
}

// A zero vector has no direction, so cosine similarity is undefined for it.
fn is_valid_vector(vector: &[f32], length: usize) -> bool {
    vector.len() == length
        && vector.iter().all(|value| value.is_finite())
        && vector.iter().any(|value| *value != 0.0)
}

/// Splits texts into batches of at most 256 texts and `max_tokens` tokens (at most [`MAX_TOKENS`]). Texts are never cut: one
/// longer than `max_tokens` is a batch of its own.
///
/// # Errors
/// [`LlmError::Refused`] if a text is empty or longer than [`MAX_TEXT_TOKENS`].
pub fn batches<'a>(texts: &'a [&'a str], max_tokens: u32) -> Result<Vec<TextBatch<'a>>, LlmError> {
    let mut batches = Vec::new();
    let mut first = 0;
    let mut sum = 0;
    for (at, text) in texts.iter().enumerate() {
        let count = tokens::count(text);
        if count == 0 || count > MAX_TEXT_TOKENS {
            return Err(LlmError::Refused {
                status: 0,
                message: format!(
                    "text {at} has {count} tokens; 1 to {MAX_TEXT_TOKENS} can be embedded"
                ),
            });
        }
        if at > first && (at - first == MAX_TEXTS || sum + count > max_tokens.min(MAX_TOKENS)) {
            batches.push(TextBatch {
                texts: &texts[first..at],
                tokens: sum,
            });
            first = at;
            sum = 0;
        }
        sum += count;
    }
    if first < texts.len() {
        batches.push(TextBatch {
            texts: &texts[first..],
            tokens: sum,
        });
    }
    Ok(batches)
}

#[derive(Deserialize)]
struct EmbeddingList {
    data: Vec<EmbeddingItem>,
    #[serde(default)]
    usage: Option<EmbeddingUsage>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingUsage {
    #[serde(default)]
    prompt_tokens: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_malformed_vectors_are_invalid() {
        assert!(is_valid_vector(&[0.0, 0.5], 2));
        for invalid in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[1.0], &[]] {
            assert!(!is_valid_vector(invalid, 2), "{invalid:?}");
        }
        assert!(!is_valid_vector(&[], 0));
    }

    #[test]
    fn batches_are_bounded_and_keep_the_order() {
        let long = "word ".repeat(8_000);
        let texts: Vec<&str> = (0..300)
            .map(|n| if n < 20 { long.as_str() } else { "short" })
            .collect();
        let batched = batches(&texts, MAX_TOKENS).unwrap();
        assert!(
            batched
                .iter()
                .all(|batch| batch.texts.len() <= MAX_TEXTS && batch.tokens <= MAX_TOKENS)
        );
        assert_eq!(
            batched
                .iter()
                .flat_map(|batch| batch.texts.iter().copied())
                .collect::<Vec<_>>(),
            texts
        );
        assert_eq!(
            batches(&texts, 100).unwrap().len(),
            20 + 280_usize.div_ceil(100),
            "each long text is its own batch"
        );
        assert!(batches(&["a", ""], 100).is_err() && batches(&[&long.repeat(2)], 100).is_err());
        assert!(batches(&[], 100).unwrap().is_empty());
    }
}
