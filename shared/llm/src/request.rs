//! What a model is asked, what it answers, and how it may fail to.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_engine::Failure;
use stemma_engine::limit::ReportedLimits;

use crate::tokens;

/// Tokens that a chat costs beside its texts: roles and separators.
const ENVELOPE_TOKENS: u32 = 16;

/// A client for one provider.
#[async_trait]
pub trait Llm: Send + Sync {
    /// Asks once: no retry, no limits; those are the [`Gate`](crate::gate::Gate)'s.
    ///
    /// # Errors
    /// [`LlmError`] of the kind that says what to do about it.
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError>;

    /// The names of the models the provider says it has, without asking one; empty where it does not say.
    ///
    /// # Errors
    /// [`LlmError`] when it refuses our key, or cannot be reached.
    async fn models(&self) -> Result<Vec<String>, LlmError> {
        Ok(Vec::new())
    }

    /// Host and port of the provider, for names of buckets and for people.
    fn host(&self) -> &str {
        "here"
    }
}

/// One question. Temperature is always 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LlmRequest {
    /// The model, as its provider names it.
    pub model: String,
    /// What does not change between questions of a kind: providers keep it at hand.
    pub system: String,
    /// What this question is about.
    pub user: String,
    /// The shape of the answer.
    pub schema: OutputSchema,
    /// Tokens of the answer at most.
    pub max_output_tokens: u32,
    /// What is said after the question was answered, and not well: no part of its digest.
    #[serde(skip)]
    pub follow_up: Option<FollowUp>,
    /// Of two requests that wait for a permit the more urgent is made first: no part of its digest.
    #[serde(skip)]
    pub urgency: u8,
}

/// Why the same question is asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// The reply broke off at its longest: the model goes on where it stopped.
    Continue {
        /// What it wrote so far; empty where the provider keeps back what broke off.
        partial: String,
    },
    /// The reply was no answer.
    Retry {
        /// What it wrote, cut.
        reply: String,
        /// What is wrong with it.
        error: String,
    },
}

impl FollowUp {
    /// The reply it follows, where there is something to show, and what is said to the model.
    pub fn messages(&self) -> (Option<&str>, String) {
        let is_quotable = |reply: &'_ str| !reply.trim().is_empty();
        match self {
            Self::Continue { partial: so_far } if is_quotable(so_far) => (
                Some(so_far.trim_end()),
                "Your answer broke off at its longest. Go on with the very next character: repeat nothing, explain \
                 nothing, put no fence around it."
                    .into(),
            ),
            Self::Continue { .. } => (None, "Write the answer as text: the JSON object and nothing else.".into()),
            Self::Retry { reply, error: wrong } => (
                Some(reply.as_str()).filter(|reply| is_quotable(reply)),
                format!(
                    "That answer cannot be used: {wrong}. Answer the question again, with one JSON object as the schema \
                     asks for, and nothing else."
                ),
            ),
        }
    }
}

/// The shape of an answer: an object of flat properties, all required, nothing else allowed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputSchema {
    /// Its name: that of the stage that asks.
    pub name: &'static str,
    /// A JSON schema.
    pub json: Value,
}

impl OutputSchema {
    /// A strict object schema of `properties`: a JSON object of property schemas.
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
    /// Digest of everything the answer depends on, whatever was said after it was asked first: 32 hexadecimal digits. The same question has the same digest in every
    /// process.
    pub fn digest(&self) -> String {
        // A struct of texts and JSON can always be written as JSON; its fields come in the order declared.
        let json = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&json).to_hex().as_str()[..32].to_string()
    }

    /// Tokens of the prompt (o200k: an estimate for models with another vocabulary).
    pub fn prompt_tokens(&self) -> u32 {
        let parts = [&self.system, &self.user, &self.schema.json.to_string()];
        let total = parts
            .into_iter()
            .map(|part| tokens::count(part))
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

/// What a model wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlmReply {
    /// The text.
    pub text: String,
    /// What it cost.
    pub usage: TokenUsage,
    /// Why it ends where it does.
    pub finish: FinishReason,
    /// What the provider says about its limits, beside it.
    pub rate_limits: ReportedLimits,
}

impl LlmReply {
    /// A reply that the model finished, from a provider that says nothing about limits.
    pub fn new(text: impl Into<String>, usage: TokenUsage) -> Self {
        Self {
            text: text.into(),
            usage,
            finish: FinishReason::Complete,
            rate_limits: ReportedLimits::default(),
        }
    }
}

/// Why a reply ends where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model had no more to say.
    Complete,
    /// It had, and was not let.
    Length,
}

/// Tokens of a call, as the provider counts them; estimated where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those of them that the provider had at hand.
    #[serde(default)]
    pub cached_tokens: u32,
    /// Tokens of the reply.
    pub output_tokens: u32,
}

impl TokenUsage {
    /// Prompt and reply together.
    pub fn total(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }
}

/// Why there is no reply. Messages are cut and scrubbed: no key, no text of the question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// Asked too fast (429, 529).
    #[error("the provider asks for a pause")]
    Throttled {
        /// How long, where it says so.
        retry_after: Option<Duration>,
        /// What it says about its limits.
        rate_limits: ReportedLimits,
    },
    /// No connection, or one that broke.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// No complete reply in time.
    #[error("the provider did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The provider failed (5xx).
    #[error("the provider failed with status {status}{}", message_suffix(.message))]
    Server {
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Nothing is wrong with the question, but the provider will not answer anyone: key, quota, model or URL.
    #[error("the provider does not serve us: status {status}{}", message_suffix(.message))]
    Configuration {
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The provider does not take this question.
    #[error("the provider refused the request: status {status}{}", message_suffix(.message))]
    Refused {
        /// The HTTP status; 200 where the reply itself is a refusal.
        status: u16,
        /// What it said.
        message: String,
    },
    /// A reply came and holds no text of a model: no JSON, empty, too large.
    #[error("the reply cannot be used: {message}")]
    Unreadable {
        /// Why.
        message: String,
        /// What it cost, where it says so.
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

/// How long work waits while the provider does not serve us: someone has to mend a key, a quota or a name.
const CONFIGURATION_PAUSE: Duration = Duration::from_secs(300);
/// How long work waits where the provider asks for a pause and does not say how long.
pub(crate) const DEFAULT_PAUSE: Duration = Duration::from_secs(5);

impl LlmError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "model.throttled",
            Self::Unreachable(_) => "model.unreachable",
            Self::TimedOut(_) => "model.timeout",
            Self::Server { .. } => "model.server_error",
            Self::Configuration { .. } => "model.configuration",
            Self::Refused { .. } => "model.refused",
            Self::Unreadable { .. } => "model.reply_unreadable",
        }
    }

    /// Whether it speaks against the provider itself: what the breaker counts (rule 11).
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::TimedOut(_) | Self::Server { .. }
        )
    }

    /// What becomes of the task that asked.
    pub fn failure(&self) -> Failure {
        let code = self.code();
        let message = self.to_string();
        match self {
            Self::Throttled {
                retry_after: after, ..
            } => Failure::throttled(code, message, after.unwrap_or(DEFAULT_PAUSE)),
            Self::Unreachable(_)
            | Self::TimedOut(_)
            | Self::Server { .. }
            | Self::Unreadable { .. } => Failure::transient(code, message),
            Self::Configuration { .. } => Failure::throttled(code, message, CONFIGURATION_PAUSE)
                .with_next(
                    "check model.base_url, model.api_key, model.name and the provider's quota",
                ),
            Self::Refused { .. } => Failure::permanent(code, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_covers_every_field() {
        let request = LlmRequest {
            model: "m".into(),
            system: "s".into(),
            user: "u".into(),
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
        ];
        assert_eq!(request.digest().len(), 32);
        assert!(
            others
                .iter()
                .all(|other| other.digest() != request.digest())
        );
        assert_eq!(request.schema.json["required"], serde_json::json!(["yes"]));
    }
}
