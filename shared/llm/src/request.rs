//! Provider-neutral requests, replies and errors.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_store::Failure;
use stemma_store::limit::ReportedLimits;

use crate::batch::BatchProvider;
use crate::image::PageImage;
use crate::tokens;

// Roles and separators of a chat cost tokens in addition to the texts.
const ENVELOPE_TOKENS: u32 = 16;
// A prompt counts as cut when the server read less than two thirds of its texts and so many tokens are missing: vocabularies
// differ less.
const MIN_CUT_TOKENS: u32 = 1_000;

/// A client for one provider.
#[async_trait]
pub trait Llm: Send + Sync {
    /// Makes one call, without retries or rate limits. Those are added by [`ModelClient`](crate::client::ModelClient).
    ///
    /// # Errors
    /// [`LlmError`], whose kind determines how the task continues.
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError>;

    /// Lists the provider's models; empty if it has no model list.
    ///
    /// # Errors
    /// [`LlmError`] if the key is rejected or the provider is unreachable.
    async fn models(&self) -> Result<Vec<String>, LlmError> {
        Ok(Vec::new())
    }

    /// The interface of the provider, as OpenTelemetry names it in `gen_ai.provider.name`.
    fn provider(&self) -> &'static str {
        "openai"
    }

    /// Host and port of the provider, for rate limit buckets and messages.
    fn host(&self) -> &str {
        "here"
    }

    /// The provider's batch interface, if the API has one.
    fn batches(&self) -> Option<&dyn BatchProvider> {
        None
    }
}

/// A completion request. Temperature is always 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LlmRequest {
    /// The provider's name of the model.
    pub model: String,
    /// The system prompt, equal for all requests of a stage so that providers can cache it.
    pub system: String,
    pub user: String,
    /// Images that the user message begins with. Of an image, its digest is part of the digest of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<PageImage>,
    pub schema: OutputSchema,
    pub max_output_tokens: u32,
    /// Set when an earlier reply was rejected. Not part of the digest.
    #[serde(skip)]
    pub follow_up: Option<FollowUp>,
    /// Among waiting requests, the highest urgency goes first. Not part of the digest.
    #[serde(skip)]
    pub urgency: u8,
}

/// Why a request is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// The reply hit the output limit and is to be continued.
    Continue {
        /// The text so far; empty if the provider dropped it.
        partial: String,
    },
    /// The reply was rejected.
    Retry {
        /// The beginning of the rejected reply.
        reply: String,
        error: String,
    },
}

impl FollowUp {
    /// The assistant message to replay, if any, and the next user message.
    pub fn messages(&self) -> (Option<&str>, String) {
        match self {
            Self::Continue { partial } if !partial.trim().is_empty() => (
                Some(partial.trim_end()),
                "Your answer broke off at its longest. Go on with the very next character: repeat nothing, explain \
                 nothing, put no fence around it."
                    .into(),
            ),
            Self::Continue { .. } => (None, "Write the answer as text: the JSON object and nothing else.".into()),
            Self::Retry { reply, error } => (
                Some(reply.as_str()).filter(|reply| !reply.trim().is_empty()),
                format!(
                    "That answer cannot be used: {error}. Answer the question again, with one JSON object as the schema \
                     asks for, and nothing else."
                ),
            ),
        }
    }
}

/// The JSON schema of a reply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputSchema {
    /// The stage that makes the request.
    pub name: &'static str,
    pub json: Value,
}

impl OutputSchema {
    /// An object schema in which all `properties` are required and no others are allowed.
    pub fn strict(name: &'static str, properties: &Value) -> Self {
        let required: Vec<&String> = properties
            .as_object()
            .map(|all| all.keys().collect())
            .unwrap_or_default();
        let json = serde_json::json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Self { name, json }
    }
}

impl LlmRequest {
    /// Digest of everything the answer depends on: 32 hexadecimal digits, stable across processes. Follow-ups do not change
    /// it.
    pub fn digest(&self) -> String {
        // Strings and JSON values always serialize, so the default is never used.
        let json = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&json).to_hex().as_str()[..32].to_string()
    }

    /// Tokens of context that prompt and reply need, rounded up to a power of two: contexts are set in such numbers.
    pub fn context_tokens(&self) -> u32 {
        let needed = self.prompt_tokens().saturating_add(self.max_output_tokens);
        needed.checked_next_power_of_two().unwrap_or(needed)
    }

    // The tokens of the texts, of which the server read only `read`; `None` if it read all. Servers need not count schemas, and
    // count images in their own ways.
    pub(crate) fn cut_tokens(&self, read: u32, prompt_tokens: u32) -> Option<u32> {
        let is_cut = |sent: u32| {
            u64::from(read) * 3 < u64::from(sent) * 2 && sent.saturating_sub(read) >= MIN_CUT_TOKENS
        };
        if read == 0 || !is_cut(prompt_tokens) {
            return None;
        }
        let schema = tokens::count(&self.schema.json.to_string());
        let images = self.images.iter().map(PageImage::tokens);
        let other = images.fold(schema, u32::saturating_add);
        let sent = prompt_tokens.saturating_sub(other);
        is_cut(sent).then_some(sent)
    }

    /// Prompt size in o200k tokens, an estimate for models with another vocabulary. Images count as
    /// [`image_tokens`](crate::image::image_tokens) says.
    pub fn prompt_tokens(&self) -> u32 {
        let parts = [&self.system, &self.user, &self.schema.json.to_string()];
        let total = parts
            .into_iter()
            .map(|part| tokens::count(part))
            .chain(self.images.iter().map(PageImage::tokens))
            .fold(ENVELOPE_TOKENS, u32::saturating_add);
        let Some(follow_up) = &self.follow_up else {
            return total;
        };
        let (reply, note) = follow_up.messages();
        total
            .saturating_add(reply.map_or(0, tokens::count))
            .saturating_add(tokens::count(&note))
    }
}

// Whether a prompt may have filled the server's context, by the number of tokens that the server read. Contexts are powers of two.
pub(crate) fn is_full_context(read: u32) -> bool {
    let context = read.saturating_sub(read / 32).next_power_of_two();
    read >= context - context / 32
}

/// A completed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlmReply {
    pub text: String,
    pub usage: TokenUsage,
    pub finish: FinishReason,
    /// Whether the model thought before it wrote, as far as the provider tells. Thinking counts as output.
    pub has_thought: bool,
    pub rate_limits: ReportedLimits,
}

impl LlmReply {
    /// A complete reply without rate limits.
    pub fn new(text: impl Into<String>, usage: TokenUsage) -> Self {
        Self {
            text: text.into(),
            usage,
            finish: FinishReason::Complete,
            has_thought: false,
            rate_limits: ReportedLimits::default(),
        }
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    // A reply without text that is not complete, or was thought about, is one with too little room. Any other is unusable.
    pub(crate) fn explained(self) -> Result<Self, LlmError> {
        let is_explained = self.finish == FinishReason::Length || self.has_thought;
        match self.is_empty() && !is_explained {
            true => Err(LlmError::unreadable("empty", self.usage)),
            false => Ok(self),
        }
    }
}

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model finished.
    Complete,
    /// The output limit was reached.
    Length,
}

/// Tokens of a call as billed by the provider, or estimated if it reports none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// All prompt tokens, including cached ones.
    pub prompt_tokens: u32,
    /// Prompt tokens read from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u32,
    pub output_tokens: u32,
}

impl TokenUsage {
    /// Prompt and output tokens.
    pub fn total(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }
}

/// Why a call failed. Messages are short and contain neither keys nor prompt text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// 429 or 529.
    #[error("the provider throttles requests")]
    Throttled {
        retry_after: Option<Duration>,
        rate_limits: ReportedLimits,
    },
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    #[error("the provider did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// 5xx.
    #[error("the provider failed with status {status}{}", message_suffix(.message))]
    Server { status: u16, message: String },
    /// The key, quota, model name or URL is wrong, so every request fails.
    #[error("the provider rejects all requests with status {status}{}", message_suffix(.message))]
    Configuration { status: u16, message: String },
    /// The provider rejects this request. The status is 200 if the reply itself is a refusal.
    #[error("the provider refused the request with status {status}{}", message_suffix(.message))]
    Refused { status: u16, message: String },
    /// What answers is not a model: the address is wrong, or a gateway is in between.
    #[error("{host} answers with a web page, not with a chat completion")]
    NoApi { host: String },
    /// The prompt, or prompt and reply, exceed the context of the model or of its server.
    #[error("the prompt does not fit into the model's context{}", message_suffix(.message))]
    ContextExceeded {
        message: String,
        /// [`LlmRequest::context_tokens`].
        needed_tokens: u32,
    },
    /// The server cut the prompt at its context without an error. The reply is to another prompt.
    #[error("the model's server cut the prompt: it read {read} of {sent} tokens")]
    PromptCut {
        read: u32,
        sent: u32,
        /// [`LlmRequest::context_tokens`].
        needed_tokens: u32,
        usage: TokenUsage,
    },
    /// The model, or its server, takes no images.
    #[error("the model takes no images (status {status}){}", message_suffix(.message))]
    NoImages { status: u16, message: String },
    /// The reply has no usable text: not JSON, empty or too large.
    #[error("the reply cannot be used: {message}")]
    Unreadable {
        message: String,
        /// The billed usage, if reported.
        usage: TokenUsage,
    },
}

fn message_suffix(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

// A wrong key, quota or model name needs an operator, so retrying sooner is useless.
const CONFIGURATION_PAUSE: Duration = Duration::from_secs(300);
// For throttled calls without a `retry-after` header.
pub(crate) const DEFAULT_PAUSE: Duration = Duration::from_secs(5);

impl LlmError {
    pub(crate) fn unreadable(message: impl Into<String>, usage: TokenUsage) -> Self {
        Self::Unreadable {
            message: message.into(),
            usage,
        }
    }

    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "model.throttled",
            Self::Unreachable(_) => "model.unreachable",
            Self::TimedOut(_) => "model.timeout",
            Self::Server { .. } => "model.server_error",
            Self::Configuration { .. } | Self::NoApi { .. } => "model.configuration",
            Self::ContextExceeded { .. } | Self::PromptCut { .. } => "model.context_exceeded",
            Self::Refused { .. } => "model.refused",
            Self::NoImages { .. } => "model.no_images",
            Self::Unreadable { .. } => "model.reply_unreadable",
        }
    }

    /// The tokens that the provider bills for the failed call, as far as it tells.
    pub fn billed_usage(&self) -> TokenUsage {
        match self {
            Self::Unreadable { usage, .. } | Self::PromptCut { usage, .. } => *usage,
            _ => TokenUsage::default(),
        }
    }

    /// Whether the provider is down, as opposed to rejecting the call. The circuit breaker counts these errors.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::TimedOut(_) | Self::Server { .. }
        )
    }

    /// The failure of the task that made the call.
    pub fn failure(&self) -> Failure {
        let code = self.code();
        let message = self.to_string();
        match self {
            Self::Throttled { retry_after, .. } => {
                Failure::throttled(code, message, retry_after.unwrap_or(DEFAULT_PAUSE))
            }
            Self::Unreachable(_) => Failure::transient(code, message)
                .with_next("start the model's server, or correct model.base_url"),
            Self::TimedOut(_) => Failure::transient(code, message)
                .with_next("raise model.timeout_seconds if the model is slow"),
            Self::Server { .. } => Failure::transient(code, message)
                .with_next("ask again; if it fails again, see the log of the model's server"),
            Self::Unreadable { .. } => Failure::transient(code, message),
            Self::Configuration { .. } => Failure::throttled(code, message, CONFIGURATION_PAUSE)
                .with_next(
                    "check model.base_url, model.api_key, model.name and the provider's quota",
                ),
            Self::NoApi { .. } => Failure::throttled(code, message, CONFIGURATION_PAUSE).with_next(
                "check model.base_url: it must be the address of the API, such as http://127.0.0.1:11434/v1 for Ollama",
            ),
            Self::ContextExceeded { needed_tokens, .. }
            | Self::PromptCut { needed_tokens, .. } => Failure::permanent(code, message)
                .with_next(longer_context(*needed_tokens)),
            Self::Refused { status: 200, .. } => Failure::permanent(code, message)
                .with_next("ask in other words, or choose another model"),
            Self::Refused { .. } => Failure::permanent(code, message)
                .with_next("correct what the provider names, or choose another model"),
            Self::NoImages { .. } => Failure::permanent(code, message)
                .with_next("set vision.model to a model that takes images, or leave it empty"),
        }
    }
}

/// How to give a model more context.
pub(crate) fn longer_context(tokens: u32) -> String {
    format!(
        "give the model a context of {tokens} tokens (Ollama: OLLAMA_CONTEXT_LENGTH={tokens}, llama.cpp: --ctx-size {tokens}, \
         llama-cpp-python: --n_ctx {tokens}), or choose one with a longer context"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_image(request: &LlmRequest, width: u8) -> LlmRequest {
        let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0";
        let bytes = [&header[..], &[width]].concat();
        let image = PageImage::from_png(bytes.into()).unwrap();
        LlmRequest {
            images: vec![image],
            ..request.clone()
        }
    }

    #[test]
    fn images_count_as_tokens_of_the_prompt() {
        let request = LlmRequest {
            model: "m".into(),
            system: "s".into(),
            user: "u".into(),
            images: Vec::new(),
            schema: OutputSchema::strict("a", &serde_json::json!({})),
            max_output_tokens: 9,
            follow_up: None,
            urgency: 0,
        };
        let seeing = with_image(&request, 3);
        assert_eq!(seeing.prompt_tokens(), request.prompt_tokens() + 255);
    }

    #[test]
    fn digest_covers_every_field() {
        let request = LlmRequest {
            model: "m".into(),
            system: "s".into(),
            user: "u".into(),
            images: Vec::new(),
            schema: OutputSchema::strict("a", &serde_json::json!({ "yes": { "type": "boolean" } })),
            max_output_tokens: 9,
            follow_up: None,
            urgency: 0,
        };
        let again = FollowUp::Retry {
            reply: "r".into(),
            error: "w".into(),
        };
        assert_eq!(
            LlmRequest {
                follow_up: Some(again),
                ..request.clone()
            }
            .digest(),
            request.digest()
        );
        let others = [
            LlmRequest {
                model: "n".into(),
                ..request.clone()
            },
            LlmRequest {
                system: "su".into(),
                user: String::new(),
                ..request.clone()
            },
            LlmRequest {
                max_output_tokens: 10,
                ..request.clone()
            },
            LlmRequest {
                schema: OutputSchema::strict("b", &serde_json::json!({})),
                ..request.clone()
            },
            with_image(&request, 3),
            with_image(&request, 4),
        ];
        // Keys of stored answers depend on it: without images, a request is digested as before there were any.
        let schema = r#"{"additionalProperties":false,"properties":{"yes":{"type":"boolean"}},"required":["yes"],"type":"object"}"#;
        let json = format!(
            r#"{{"model":"m","system":"s","user":"u","schema":{{"name":"a","json":{schema}}},"max_output_tokens":9}}"#
        );
        let expected = blake3::hash(json.as_bytes()).to_hex();
        assert_eq!(request.digest(), expected.as_str()[..32]);
        assert!(
            others
                .iter()
                .all(|other| other.digest() != request.digest())
        );
        assert_ne!(others[4].digest(), others[5].digest());
        assert_eq!(request.schema.json["required"], serde_json::json!(["yes"]));
    }
}
