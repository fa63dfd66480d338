//! A client for chat completions in the shape that OpenAI gave them and others took over: Azure, vLLM, Ollama, llama.cpp.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::{Endpoint, EndpointError, Key, Received, Wire};
use crate::request::{Finish, Llm, LlmError, Reply, Request, Usage};
use crate::shape::{Format, LimitField, Shape, Shaped, format_of, instructions, turns};
use crate::tokens;

/// The client.
pub struct OpenAi {
    wire: Wire,
    shaped: Shaped,
}

impl OpenAi {
    /// A client for `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong with it.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            wire: Wire::new(endpoint, Key::Bearer, &[])?,
            shaped: Shaped::new(true),
        })
    }
}

#[async_trait]
impl Llm for OpenAi {
    async fn complete(&self, request: &Request) -> Result<Reply, LlmError> {
        let received = self
            .shaped
            .post(&self.wire, "chat/completions", request, body)
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

/// The body of a call.
fn body(request: &Request, shape: Shape) -> Value {
    let format = format_of(request, shape);
    let mut messages = vec![json!({ "role": "system", "content": instructions(request, format) })];
    messages.extend(
        turns(request)
            .into_iter()
            .map(|(role, content)| json!({ "role": role, "content": content })),
    );
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
        Format::Schema => {
            let schema = json!({ "name": request.schema.name, "strict": true, "schema": request.schema.json });
            Some(json!({ "type": "json_schema", "json_schema": schema }))
        }
        Format::Object => Some(json!({ "type": "json_object" })),
        Format::Text => None,
    };
    body.extend(response_format.map(|format| ("response_format".to_string(), format)));
    Value::Object(body)
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Counted>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// Reasoning that stands beside the content is not read.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

fn reply(received: &Received, request: &Request) -> Result<Reply, LlmError> {
    let unreadable = |message: &str, usage| LlmError::Unreadable {
        message: message.into(),
        usage,
    };
    let completion: Completion = serde_json::from_slice(&received.bytes)
        .map_err(|_| unreadable("it is no chat completion", Usage::default()))?;
    let choice = completion.choices.into_iter().next();
    let (text, refused) = choice.as_ref().map(written).unwrap_or_default();
    let usage = counted(completion.usage.as_ref(), request, &text);
    let Some(choice) = choice else {
        return Err(unreadable("it has no choice", usage));
    };
    let finish = match choice.finish_reason.as_deref() {
        Some("content_filter") => {
            return Err(LlmError::Refused {
                status: 200,
                message: "filtered by the provider".into(),
            });
        }
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        _ => Finish::Complete,
    };
    if refused {
        return Err(LlmError::Refused {
            status: 200,
            message: "refused by the model".into(),
        });
    }
    match (text.trim().is_empty(), finish) {
        (true, Finish::Length) => Err(unreadable("it was cut off before it began", usage)),
        (true, Finish::Complete) => Err(unreadable("it is empty", usage)),
        (false, finish) => Ok(Reply {
            text,
            usage,
            finish,
            stated: received.stated,
        }),
    }
}

/// What the model wrote, and whether it refused to.
fn written(choice: &Choice) -> (String, bool) {
    let refused = choice
        .message
        .refusal
        .as_ref()
        .is_some_and(|refusal| !refusal.is_empty());
    match &choice.message.content {
        None => (String::new(), refused),
        Some(Content::Text(text)) => (text.clone(), refused),
        Some(Content::Parts(parts)) => (
            parts.iter().map(|part| part.text.as_str()).collect(),
            refused || parts.iter().any(|part| part.refusal.is_some()),
        ),
    }
}

/// What the provider counted; estimated where it does not.
fn counted(usage: Option<&Counted>, request: &Request, text: &str) -> Usage {
    let (prompt, output) = usage.map_or((None, None), |usage| {
        (usage.prompt_tokens, usage.completion_tokens)
    });
    Usage {
        prompt_tokens: prompt.unwrap_or_else(|| request.prompt_tokens()),
        cached_tokens: usage
            .and_then(|counted: &Counted| {
                counted
                    .prompt_tokens_details
                    .as_ref()
                    .and_then(|details| details.cached_tokens)
            })
            .unwrap_or(0),
        output_tokens: output.unwrap_or_else(|| tokens::count(text)),
    }
}
