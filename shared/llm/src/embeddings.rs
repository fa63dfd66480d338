//! Texts as vectors: a client for embeddings in the shape of OpenAI. Small, for what searches by meaning will need: no
//! limits of its own (whoever asks goes through a limiter), one order of vectors, the order of the texts.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::http::{Endpoint, EndpointError, Key, Wire};
use crate::request::{LlmError, Usage};
use crate::tokens;

/// Texts in one call at most, and their tokens together.
const MAX_TEXTS: usize = 256;
const MAX_TOKENS: u32 = 100_000;
/// Tokens of one text at most: what no model of the usual kind reads is refused before it is sent.
pub const MAX_TEXT_TOKENS: u32 = 8_191;

/// Turns texts into vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// A vector for each text, in their order, all of one length.
    ///
    /// # Errors
    /// [`LlmError`] of the first call that failed; refused, where a text is empty or longer than [`MAX_TEXT_TOKENS`].
    async fn embed(&self, texts: &[&str]) -> Result<Embedded, LlmError>;
}

/// Vectors and what they cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embedded {
    /// One per text.
    pub vectors: Vec<Vec<f32>>,
    /// What it cost.
    pub usage: Usage,
}

/// The client.
pub struct OpenAiEmbedder {
    wire: Wire,
    model: String,
}

impl OpenAiEmbedder {
    /// A client of `model` at `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong with it.
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Result<Self, EndpointError> {
        Ok(Self { wire: Wire::new(endpoint, Key::Bearer, &[])?, model: model.into() })
    }

    async fn call(&self, texts: &[&str], tokens: u32) -> Result<Embedded, LlmError> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
        let received = self.wire.post("embeddings", &body, texts).await.map_err(|refused| refused.error)?;
        let unreadable = |message: &str| LlmError::Unreadable { message: message.into(), usage: Usage::default() };
        let list: List =
            serde_json::from_slice(&received.bytes).map_err(|_| unreadable("it is no list of embeddings"))?;
        let prompt_tokens = list.usage.map_or(tokens, |usage| usage.prompt_tokens);
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for item in list.data {
            let place = vectors.get_mut(item.index).ok_or_else(|| unreadable("it has a vector of no text"))?;
            *place = item.embedding;
        }
        let length = vectors.first().map_or(0, Vec::len);
        let whole = |vector: &Vec<f32>| vector.len() == length && vector.iter().all(|value| value.is_finite());
        if length == 0 || !vectors.iter().all(whole) {
            return Err(unreadable("its vectors are not of one length"));
        }
        Ok(Embedded { vectors, usage: Usage { prompt_tokens, ..Usage::default() } })
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    async fn embed(&self, texts: &[&str]) -> Result<Embedded, LlmError> {
        let mut all = Embedded::default();
        for (batch, tokens) in batches(texts)? {
            let embedded = self.call(batch, tokens).await?;
            if all.vectors.first().is_some_and(|first| first.len() != embedded.vectors[0].len()) {
                let message = "its vectors are not as long as those before".into();
                return Err(LlmError::Unreadable { message, usage: embedded.usage });
            }
            all.vectors.extend(embedded.vectors);
            all.usage.prompt_tokens = all.usage.prompt_tokens.saturating_add(embedded.usage.prompt_tokens);
        }
        Ok(all)
    }
}

/// The texts in calls of bounded size, with their tokens.
fn batches<'a, 'b>(texts: &'a [&'b str]) -> Result<Vec<(&'a [&'b str], u32)>, LlmError> {
    let refused = |message: String| LlmError::Refused { status: 0, message };
    let (mut batches, mut first, mut sum) = (Vec::new(), 0, 0);
    for (at, text) in texts.iter().enumerate() {
        let count = tokens::count(text);
        if count == 0 || count > MAX_TEXT_TOKENS {
            return Err(refused(format!("text {at} has {count} tokens; 1 to {MAX_TEXT_TOKENS} can be embedded")));
        }
        if at - first == MAX_TEXTS || sum + count > MAX_TOKENS {
            batches.push((&texts[first..at], sum));
            (first, sum) = (at, 0);
        }
        sum += count;
    }
    if first < texts.len() {
        batches.push((&texts[first..], sum));
    }
    Ok(batches)
}

#[derive(Deserialize)]
struct List {
    data: Vec<Item>,
    #[serde(default)]
    usage: Option<Counted>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    prompt_tokens: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_and_keep_the_order() {
        let long = "word ".repeat(8_000);
        let texts: Vec<&str> = (0..300).map(|n| if n < 20 { long.as_str() } else { "short" }).collect();
        let found = batches(&texts).unwrap();
        assert!(found.iter().all(|(batch, tokens)| batch.len() <= MAX_TEXTS && *tokens <= MAX_TOKENS));
        assert_eq!(found.iter().flat_map(|(batch, _)| batch.iter().copied()).collect::<Vec<_>>(), texts);
        assert!(batches(&["a", ""]).is_err() && batches(&[&long.repeat(2)]).is_err());
        assert!(batches(&[]).unwrap().is_empty());
    }
}
