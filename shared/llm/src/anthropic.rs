//! A client for messages in the shape of Anthropic. The shape of the answer is that of a tool the model is made to use.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::{Endpoint, EndpointError, Key, Received, Wire};
use crate::request::{Finish, Llm, LlmError, Reply, Request, Usage};
use crate::shape::{Format, Shape, Shaped, format_of, instructions, turns};

/// The version of the interface.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The client.
pub struct Anthropic {
    wire: Wire,
    shaped: Shaped,
}

impl Anthropic {
    /// A client for `endpoint`, e.g. `https://api.anthropic.com/v1`; nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong with it.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            wire: Wire::new(endpoint, Key::Header("x-api-key"), &[VERSION])?,
            shaped: Shaped::new(false),
        })
    }
}

#[async_trait]
impl Llm for Anthropic {
    async fn complete(&self, request: &Request) -> Result<Reply, LlmError> {
        let received = self
            .shaped
            .post(&self.wire, "messages", request, body)
            .await?;
        reply(&received, request)
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        self.wire.models().await
    }

    fn host(&self) -> &str {
        self.wire.host()
    }
}

/// The body of a call. The instructions are what the provider may keep at hand.
fn body(request: &Request, shape: Shape) -> Value {
    let format = format_of(request, shape);
    let system = json!({
        "type": "text", "text": instructions(request, format), "cache_control": { "type": "ephemeral" },
    });
    let messages = turns(request)
        .into_iter()
        .map(|(role, content)| json!({ "role": role, "content": content }));
    let mut body = Map::from_iter([
        ("model".to_string(), json!(request.model)),
        ("max_tokens".to_string(), json!(request.max_output_tokens)),
        ("system".to_string(), json!([system])),
        ("messages".to_string(), messages.collect()),
    ]);
    if shape.temperature {
        body.insert("temperature".into(), json!(0));
    }
    if format == Format::Schema {
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
struct Message {
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Counted,
}

/// A part of the reply; thoughts and whatever else there is are passed over.
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    input: Value,
}

#[derive(Deserialize, Default)]
struct Counted {
    #[serde(default)]
    input_tokens: u32,
    #[serde(default)]
    cache_creation_input_tokens: Option<u32>,
    #[serde(default)]
    cache_read_input_tokens: Option<u32>,
    #[serde(default)]
    output_tokens: u32,
}

impl From<Counted> for Usage {
    /// What was read from or written to the provider's memory is part of the prompt.
    fn from(counted: Counted) -> Self {
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

fn reply(received: &Received, request: &Request) -> Result<Reply, LlmError> {
    let unreadable = |message: &str, usage| LlmError::Unreadable {
        message: message.into(),
        usage,
    };
    let message: Message = serde_json::from_slice(&received.bytes)
        .map_err(|_| unreadable("it is no message", Usage::default()))?;
    let usage: Usage = message.usage.into();
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
        // What broke off inside of a tool's input is kept back, or closed as if it were whole: it is asked for as text.
        (Some("max_tokens" | "model_context_window_exceeded"), Some(_)) => {
            (String::new(), Finish::Length)
        }
        (Some("max_tokens" | "model_context_window_exceeded"), None) => (written, Finish::Length),
        (_, Some(input)) => (input.to_string(), Finish::Complete),
        (_, None) => (written, Finish::Complete),
    };
    let is_continued = request.follow_up.is_some();
    match (text.trim().is_empty(), finish) {
        (true, Finish::Length) if input.is_none() || is_continued => {
            Err(unreadable("it was cut off before it began", usage))
        }
        (true, Finish::Complete) => Err(unreadable("it is empty", usage)),
        _ => Ok(Reply {
            text,
            usage,
            finish,
            stated: received.stated,
        }),
    }
}
