//! Client for the Anthropic messages API. Structured output is the input of a tool that the model is forced to use.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::batch::{BatchDialect, BatchProvider};
use crate::capabilities::{
    ProviderCapabilities, RequestShape, ResponseFormat, chat_messages, response_format,
    system_prompt,
};
use crate::http::{AuthHeader, Endpoint, EndpointError, HttpReply, HttpTransport};
use crate::image::PageImage;
use crate::request::{FinishReason, Llm, LlmError, LlmReply, LlmRequest, TokenUsage};

const VERSION_HEADER: (&str, &str) = ("anthropic-version", "2023-06-01");

pub struct Anthropic {
    transport: HttpTransport,
    capabilities: ProviderCapabilities,
}

impl Anthropic {
    /// Creates a client for `endpoint`, e.g. `https://api.anthropic.com/v1`, without connecting.
    ///
    /// # Errors
    /// [`EndpointError`] for an invalid URL or header.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            transport: HttpTransport::new(
                endpoint,
                AuthHeader::Header("x-api-key"),
                &[VERSION_HEADER],
            )?,
            capabilities: ProviderCapabilities::new(false),
        })
    }
}

#[async_trait]
impl Llm for Anthropic {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        let received = self
            .capabilities
            .post(&self.transport, "messages", request, request_body)
            .await?;
        let reply = parse_response(&received, self.transport.host())?;
        self.capabilities.check_enforcement(request, &reply);
        Ok(reply)
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        self.transport.models().await
    }

    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn host(&self) -> &str {
        self.transport.host()
    }

    fn batches(&self) -> Option<&dyn BatchProvider> {
        Some(self)
    }
}

impl BatchDialect for Anthropic {
    fn transport(&self) -> &HttpTransport {
        &self.transport
    }

    fn capabilities(&self) -> &ProviderCapabilities {
        &self.capabilities
    }

    fn body(&self, request: &LlmRequest) -> Value {
        request_body(request, self.capabilities.shape())
    }

    fn parse(&self, body: Value) -> Result<LlmReply, LlmError> {
        parse_response(&HttpReply::from_batch(&body), self.transport.host())
    }
}

// Only the system prompt is marked for prompt caching: it is the part that calls of one stage share.
fn request_body(request: &LlmRequest, shape: RequestShape) -> Value {
    let format = response_format(request, shape);
    let system = json!({
        "type": "text", "text": system_prompt(request, format), "cache_control": { "type": "ephemeral" },
    });
    let mut body = Map::from_iter([
        ("model".to_string(), json!(request.model)),
        ("max_tokens".to_string(), json!(request.max_output_tokens)),
        ("system".to_string(), json!([system])),
        (
            "messages".to_string(),
            chat_messages(request, PageImage::anthropic_block).into(),
        ),
    ]);
    if shape.temperature {
        body.insert("temperature".into(), json!(0));
    }
    if format == ResponseFormat::Schema {
        let name = request.schema.name;
        let tool = json!({ "name": name, "description": "Takes the answer.", "input_schema": request.schema.json });
        body.insert("tools".into(), json!([tool]));
        body.insert(
            "tool_choice".into(),
            json!({ "type": "tool", "name": name }),
        );
    }
    Value::Object(body)
}

#[derive(Deserialize)]
struct MessagesResponse {
    content: Vec<ContentBlock>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: MessagesUsage,
}

// Blocks other than `text` and `tool_use` are not read. `thinking` and `redacted_thinking` tell that the model thought.
#[derive(Deserialize)]
struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    input: Value,
}

#[derive(Deserialize, Default)]
struct MessagesUsage {
    #[serde(default)]
    input_tokens: u32,
    #[serde(default)]
    cache_creation_input_tokens: Option<u32>,
    #[serde(default)]
    cache_read_input_tokens: Option<u32>,
    #[serde(default)]
    output_tokens: u32,
}

impl From<MessagesUsage> for TokenUsage {
    // `input_tokens` excludes cache reads and writes; both are part of the prompt.
    fn from(counted: MessagesUsage) -> Self {
        let cached_tokens = counted.cache_read_input_tokens.unwrap_or(0);
        let written = counted.cache_creation_input_tokens.unwrap_or(0);
        let prompt_tokens = counted
            .input_tokens
            .saturating_add(written)
            .saturating_add(cached_tokens);
        Self {
            prompt_tokens,
            cached_tokens,
            output_tokens: counted.output_tokens,
        }
    }
}

fn parse_response(received: &HttpReply, host: &str) -> Result<LlmReply, LlmError> {
    let message: MessagesResponse =
        serde_json::from_slice(&received.bytes).map_err(|_| received.not_a_reply(host))?;
    let usage: TokenUsage = message.usage.into();
    let input = message
        .content
        .iter()
        .find(|block| block.kind == "tool_use")
        .map(|block| &block.input);
    let written: String = message
        .content
        .iter()
        .filter(|block| block.kind == "text")
        .map(|block| block.text.as_str())
        .collect();
    let (text, finish) = match (message.stop_reason.as_deref(), input) {
        (Some("refusal"), _) => {
            return Err(LlmError::Refused {
                status: 200,
                message: "refused by the model".into(),
            });
        }
        // The API drops a truncated tool input, or closes it as if it were complete. Either way the input cannot be
        // trusted, so the caller continues with a plain text request.
        (Some("max_tokens" | "model_context_window_exceeded"), Some(_)) => {
            (String::new(), FinishReason::Length)
        }
        (Some("max_tokens" | "model_context_window_exceeded"), None) => {
            (written, FinishReason::Length)
        }
        (_, Some(input)) => (input.to_string(), FinishReason::Complete),
        (_, None) => (written, FinishReason::Complete),
    };
    let has_thought = (message.content.iter()).any(|block| block.kind.ends_with("thinking"));
    LlmReply {
        text,
        usage,
        finish,
        has_thought,
        rate_limits: received.rate_limits,
    }
    .explained()
}
