//! Texts as vectors: a client for embeddings in the shape of OpenAI. Limits, prices and the call log are those of every other
//! call: whoever wants vectors goes through [`Gate::embed`](crate::gate::Gate::embed), batch by batch.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use stemma_engine::limit::ReportedLimits;

use crate::http::{AuthHeader, Endpoint, EndpointError, HttpTransport};
use crate::request::{LlmError, TokenUsage};
use crate::tokens;

/// Texts in one call at most, and their tokens together.
const MAX_TEXTS: usize = 256;
/// See [`batches`].
pub const MAX_TOKENS: u32 = 100_000;
/// Tokens of one text at most: what no model of the usual kind reads is refused before it is sent.
pub const MAX_TEXT_TOKENS: u32 = 8_191;

/// Turns texts into vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// A vector for each text, in their order, all of one length, in one call.
    ///
    /// # Errors
    /// [`LlmError`] when there is no reply, or it cannot be used.
    async fn embed(&self, texts: &[&str]) -> Result<EmbeddingReply, LlmError>;
}

/// Vectors and what they cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EmbeddingReply {
    /// One per text.
    pub vectors: Vec<Vec<f32>>,
    /// What it cost.
    pub usage: TokenUsage,
    /// What the provider says about its limits, beside it.
    pub rate_limits: ReportedLimits,
}

/// Texts of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextBatch<'a> {
    /// The texts.
    pub texts: &'a [&'a str],
    /// Their tokens together, by our count.
    pub tokens: u32,
}

/// The client.
pub struct OpenAiEmbedder {
    transport: HttpTransport,
    model: String,
}

impl OpenAiEmbedder {
    /// A client of `model` at `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong with it.
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Result<Self, EndpointError> {
        Ok(Self {
            transport: HttpTransport::new(endpoint, AuthHeader::Bearer, &[])?,
            model: model.into(),
        })
    }

    /// Host and port, for names of buckets and for people.
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
            .map_err(|refused| refused.error)?;
        let list: EmbeddingList = serde_json::from_slice(&received.bytes).map_err(|_| {
            let message = "it is no list of embeddings".into();
            LlmError::Unreadable {
                message,
                usage: TokenUsage::default(),
            }
        })?;
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
        let unreadable = |message: &str| LlmError::Unreadable {
            message: message.into(),
            usage,
        };
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for item in list.data {
            let place = vectors
                .get_mut(item.index)
                .ok_or_else(|| unreadable("it has a vector of no text"))?;
            *place = item.embedding;
        }
        let length = vectors.first().map_or(0, Vec::len);
        if !vectors.iter().all(|vector| is_valid_vector(vector, length)) {
            return Err(unreadable(
                "its vectors are not of one length, not of numbers, or have none but zeros",
            ));
        }
        Ok(EmbeddingReply {
            vectors,
            usage,
            rate_limits: received.rate_limits,
        })
    }
}

/// Whether a vector has so many numbers, and a direction: one of zeros alone is as near to everything.
fn is_valid_vector(vector: &[f32], length: usize) -> bool {
    vector.len() == length
        && vector.iter().all(|value| value.is_finite())
        && vector.iter().any(|value| *value != 0.0)
}

/// The texts in calls of bounded size: at most 256 of them, and `most` tokens together where that is less than
/// [`MAX_TOKENS`]; one text is never cut.
///
/// # Errors
/// Refused, where a text is empty or longer than [`MAX_TEXT_TOKENS`].
pub fn batches<'a>(texts: &'a [&'a str], most: u32) -> Result<Vec<TextBatch<'a>>, LlmError> {
    let refused = |message: String| LlmError::Refused { status: 0, message };
    let mut batches = Vec::new();
    let mut first = 0;
    let mut sum = 0;
    for (at, text) in texts.iter().enumerate() {
        let count = tokens::count(text);
        if count == 0 || count > MAX_TEXT_TOKENS {
            return Err(refused(format!(
                "text {at} has {count} tokens; 1 to {MAX_TEXT_TOKENS} can be embedded"
            )));
        }
        if at > first && (at - first == MAX_TEXTS || sum + count > most.min(MAX_TOKENS)) {
            batches.push(TextBatch {
                texts: &texts[first..at],
                tokens: sum,
            });
            (first, sum) = (at, 0);
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
        for wrong in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[1.0], &[]] {
            assert!(!is_valid_vector(wrong, 2), "{wrong:?}");
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
            "one long text is a call"
        );
        assert!(batches(&["a", ""], 100).is_err() && batches(&[&long.repeat(2)], 100).is_err());
        assert!(batches(&[], 100).unwrap().is_empty());
    }
}
