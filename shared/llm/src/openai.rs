//! Client for the OpenAI chat completions API and compatible servers: Azure, vLLM, Ollama, llama.cpp.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::batch::{BatchDialect, BatchProvider};
use crate::capabilities::{
    LimitField, ProviderCapabilities, RequestShape, ResponseFormat, chat_messages, response_format,
    system_prompt,
};
use crate::http::{AuthHeader, Endpoint, EndpointError, HttpReply, HttpTransport};
use crate::image::PageImage;
use crate::request::{FinishReason, Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use crate::tokens;

pub struct OpenAi {
    transport: HttpTransport,
    capabilities: ProviderCapabilities,
}

impl OpenAi {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// [`EndpointError`] for an invalid URL or header.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            transport: HttpTransport::new(endpoint, AuthHeader::Bearer, &[])?,
            capabilities: ProviderCapabilities::new(true),
        })
    }
}

#[async_trait]
impl Llm for OpenAi {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        let received = self
            .capabilities
            .post(&self.transport, "chat/completions", request, request_body)
            .await?;
        let reply = parse_response(&received, self.transport.host(), Some(request))?;
        self.capabilities.check_enforcement(request, &reply);
        Ok(reply)
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        self.transport.models().await
    }

    fn host(&self) -> &str {
        self.transport.host()
    }

    fn batches(&self) -> Option<&dyn BatchProvider> {
        Some(self)
    }
}

impl BatchDialect for OpenAi {
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
        parse_response(&HttpReply::from_batch(&body), self.transport.host(), None)
    }
}

fn request_body(request: &LlmRequest, shape: RequestShape) -> Value {
    let format = response_format(request, shape);
    let mut messages = vec![json!({ "role": "system", "content": system_prompt(request, format) })];
    messages.extend(chat_messages(request, PageImage::openai_part));
    let mut body = Map::from_iter([
        ("model".to_string(), json!(request.model)),
        ("messages".to_string(), messages.into()),
    ]);
    let limit = match shape.limit {
        LimitField::MaxTokens => "max_tokens",
        LimitField::MaxCompletionTokens => "max_completion_tokens",
    };
    body.insert(limit.into(), json!(request.max_output_tokens));
    if shape.temperature {
        body.insert("temperature".into(), json!(0));
    }
    let response_format = match format {
        ResponseFormat::Schema => {
            let schema = json!({ "name": request.schema.name, "strict": true, "schema": request.schema.json });
            Some(json!({ "type": "json_schema", "json_schema": schema }))
        }
        ResponseFormat::ObjectSchema => {
            Some(json!({ "type": "json_object", "schema": request.schema.json }))
        }
        ResponseFormat::Object => Some(json!({ "type": "json_object" })),
        ResponseFormat::Text => None,
    };
    body.extend(response_format.map(|format| ("response_format".to_string(), format)));
    Value::Object(body)
}

#[derive(Deserialize)]
struct CompletionResponse {
    choices: Vec<CompletionChoice>,
    // Its fields are read one by one: no reply is lost to a count of another type.
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: ChoiceMessage,
    #[serde(default)]
    finish_reason: Option<String>,
}

// What a model thinks is not read, only that it does: vLLM, DeepSeek and llama.cpp name it `reasoning_content`, Ollama and
// OpenRouter `reasoning`.
#[derive(Deserialize)]
struct ChoiceMessage {
    #[serde(default)]
    content: Option<MessageContent>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    reasoning_content: Value,
}

impl ChoiceMessage {
    fn has_thought(&self, text: &str) -> bool {
        [&self.reasoning, &self.reasoning_content]
            .into_iter()
            .any(|value| match value {
                Value::String(text) => !text.trim().is_empty(),
                Value::Array(parts) => !parts.is_empty(),
                Value::Object(parts) => !parts.is_empty(),
                _ => false,
            })
            || text.trim_start().starts_with("<think>")
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum MessageContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: Option<String>,
}

// A batch knows nothing of the request any more.
fn parse_response(
    received: &HttpReply,
    host: &str,
    request: Option<&LlmRequest>,
) -> Result<LlmReply, LlmError> {
    let completion: CompletionResponse =
        serde_json::from_slice(&received.bytes).map_err(|_| received.not_a_reply(host))?;
    let choice = completion.choices.into_iter().next();
    let (text, refused) = choice.as_ref().map(message_text).unwrap_or_default();
    let usage = usage_or_estimate(&completion.usage, request, &text);
    let Some(choice) = choice else {
        return Err(LlmError::unreadable("no choices", usage));
    };
    let finish = match choice.finish_reason.as_deref() {
        Some("content_filter") => {
            return Err(LlmError::Refused {
                status: 200,
                message: "filtered by the provider".into(),
            });
        }
        Some("length" | "max_tokens" | "model_length") => FinishReason::Length,
        _ => FinishReason::Complete,
    };
    if refused {
        return Err(LlmError::Refused {
            status: 200,
            message: "refused by the model".into(),
        });
    }
    let reasoning_tokens = count(
        &completion.usage,
        "/completion_tokens_details/reasoning_tokens",
    );
    LlmReply {
        has_thought: choice.message.has_thought(&text) || reasoning_tokens > Some(0),
        text,
        usage,
        finish,
        rate_limits: received.rate_limits,
    }
    .explained()
}

// Returns the text of a choice and whether the model refused to answer.
fn message_text(choice: &CompletionChoice) -> (String, bool) {
    let refused = choice
        .message
        .refusal
        .as_ref()
        .is_some_and(|refusal| !refusal.is_empty());
    match &choice.message.content {
        None => (String::new(), refused),
        Some(MessageContent::Text(text)) => (text.clone(), refused),
        Some(MessageContent::Parts(parts)) => (
            parts.iter().map(|part| part.text.as_str()).collect(),
            refused || parts.iter().any(|part| part.refusal.is_some()),
        ),
    }
}

// Compatible servers may omit usage, or report it as null.
fn usage_or_estimate(usage: &Value, request: Option<&LlmRequest>, text: &str) -> TokenUsage {
    TokenUsage {
        prompt_tokens: count(usage, "/prompt_tokens")
            .unwrap_or_else(|| request.map_or(0, LlmRequest::prompt_tokens)),
        cached_tokens: count(usage, "/prompt_tokens_details/cached_tokens").unwrap_or(0),
        output_tokens: count(usage, "/completion_tokens").unwrap_or_else(|| tokens::count(text)),
    }
}

fn count(usage: &Value, pointer: &str) -> Option<u32> {
    u32::try_from(usage.pointer(pointer)?.as_u64()?).ok()
}
