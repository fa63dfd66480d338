//! A client for chat completions in the shape that OpenAI gave them and others took over.
//!
//! One call, one classification: what a status means is decided here and nowhere else. No redirect is followed (the URL is
//! the operator's, not the provider's to choose), no proxy is read from the environment (I-7), no reply over 8 MiB read.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use stemma_engine::secret::Secret;

use crate::request::{Llm, LlmError, Reply, Request, Usage};
use crate::tokens;

/// The largest reply in bytes that is read.
pub const MAX_REPLY_BYTES: usize = 8 << 20;
/// Bytes of an error's body that are looked at, and characters of it that are kept.
const MAX_ERROR_BYTES: usize = 64 << 10;
const MAX_ERROR_CHARS: usize = 200;
/// Characters in a row that an error may share with the question before it counts as quoting it.
const QUOTE_CHARS: usize = 16;
/// The longest pause that is believed.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// The header that names this process to the provider.
const PROCESS: &str = "x-stemma-process";

/// Where a provider is, and how to talk to it: local configuration.
pub struct Endpoint {
    /// E.g. `https://api.openai.com/v1`; `/chat/completions` is added.
    pub base_url: String,
    /// Sent as bearer token, where there is one.
    pub api_key: Secret,
    /// How long a call may take, connecting included.
    pub timeout: Duration,
    /// Names this process in the header `x-stemma-process`.
    pub process: String,
}

/// Why an endpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No URL of a web server.
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    /// A client could not be made of it.
    #[error("no client for this endpoint: {0}")]
    Client(String),
}

/// The client.
pub struct OpenAi {
    client: Client,
    url: Url,
    host: String,
    endpoint: Endpoint,
}

impl OpenAi {
    /// A client for `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong with it.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        let invalid = || EndpointError::Url(endpoint.base_url.clone());
        let url = format!("{}/chat/completions", endpoint.base_url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| invalid())?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")).ok_or_else(invalid)?;
        let host = url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(endpoint.timeout)
            .user_agent(concat!("stemma/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| EndpointError::Client(error.to_string()))?;
        Ok(Self { client, url, host, endpoint })
    }

    /// Host and port, for names of buckets and for people.
    pub fn host(&self) -> &str {
        &self.host
    }

    async fn send(&self, request: &Request) -> Result<Response, LlmError> {
        let mut call = self.client.post(self.url.clone()).header(PROCESS, &self.endpoint.process).json(&body(request));
        if !self.endpoint.api_key.is_empty() {
            call = call.bearer_auth(self.endpoint.api_key.reveal());
        }
        call.send().await.map_err(|error| self.broken(&error))
    }

    /// A call that came to no reply. The error's own text may name the URL, never headers or bodies.
    fn broken(&self, error: &reqwest::Error) -> LlmError {
        if error.is_timeout() {
            return LlmError::TimedOut(self.endpoint.timeout);
        }
        let what = if error.is_connect() { "no connection" } else { "the connection broke" };
        LlmError::Unreachable(format!("{what} to {}", self.host))
    }

    /// What a status other than success means.
    async fn refused(&self, mut response: Response, request: &Request) -> LlmError {
        let status = response.status().as_u16();
        let after = retry_after(response.headers());
        // What the body says is a help and no more: an error while it is read changes nothing.
        let (bytes, _) = read(&mut response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let said = Said::of(&bytes);
        let message = said.for_people(request, &self.endpoint.api_key);
        match status {
            429 if said.is_quota() => LlmError::Configuration { status, message },
            429 | 529 => LlmError::Throttled { after },
            503 if after.is_some() => LlmError::Throttled { after },
            408 => LlmError::TimedOut(self.endpoint.timeout),
            500.. => LlmError::Server { status, message },
            300..=399 => LlmError::Configuration { status, message: "redirects are not followed".into() },
            401..=405 => LlmError::Configuration { status, message },
            409 | 425 => LlmError::Unreadable { message: format!("status {status}"), usage: Usage::default() },
            _ => LlmError::Refused { status, message },
        }
    }
}

#[async_trait]
impl Llm for OpenAi {
    async fn complete(&self, request: &Request) -> Result<Reply, LlmError> {
        let mut response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refused(response, request).await);
        }
        let (bytes, whole) = read(&mut response, MAX_REPLY_BYTES).await.map_err(|error| self.broken(&error))?;
        if !whole {
            let message = format!("it is larger than {MAX_REPLY_BYTES} bytes");
            return Err(LlmError::Unreadable { message, usage: Usage::default() });
        }
        reply(&bytes, request)
    }
}

/// The body of a call.
fn body(request: &Request) -> Value {
    json!({
        "model": request.model,
        "temperature": 0,
        "max_tokens": request.max_output_tokens,
        "messages": [
            { "role": "system", "content": request.system },
            { "role": "user", "content": request.user },
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": { "name": request.schema.name, "strict": true, "schema": request.schema.json },
        },
    })
}

/// Reads at most `max_bytes`; says whether that was all.
async fn read(response: &mut Response, max_bytes: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > max_bytes {
            bytes.extend_from_slice(&chunk[..max_bytes - bytes.len()]);
            return Ok((bytes, false));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, true))
}

/// The pause a provider asks for: in milliseconds where it says so, else in seconds; dates are not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1_000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok().map(|pause| pause.min(LONGEST_PAUSE))
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

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

fn reply(bytes: &[u8], request: &Request) -> Result<Reply, LlmError> {
    let unreadable = |message: &str, usage| LlmError::Unreadable { message: message.into(), usage };
    let completion: Completion =
        serde_json::from_slice(bytes).map_err(|_| unreadable("it is no chat completion", Usage::default()))?;
    let usage = completion.usage.map(Usage::from);
    let choice = completion.choices.into_iter().next();
    let Some(choice) = choice else { return Err(unreadable("it has no choice", usage.unwrap_or_default())) };
    let text = choice.message.content.unwrap_or_default();
    let usage = usage.unwrap_or_else(|| estimated(request, &text));
    match choice.finish_reason.as_deref() {
        Some("length") => return Err(unreadable("it was cut off at its longest", usage)),
        Some("content_filter") => {
            return Err(LlmError::Refused { status: 200, message: "filtered by the provider".into() });
        }
        _ => {}
    }
    if choice.message.refusal.is_some() {
        return Err(LlmError::Refused { status: 200, message: "refused by the model".into() });
    }
    if text.trim().is_empty() { Err(unreadable("it is empty", usage)) } else { Ok(Reply { text, usage }) }
}

impl From<Counted> for Usage {
    fn from(counted: Counted) -> Self {
        let cached_tokens = counted.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let Counted { prompt_tokens, completion_tokens: output_tokens, .. } = counted;
        Self { prompt_tokens, cached_tokens, output_tokens }
    }
}

/// For servers that do not count.
fn estimated(request: &Request, text: &str) -> Usage {
    Usage { prompt_tokens: request.prompt_tokens(), cached_tokens: 0, output_tokens: tokens::count(text) }
}

/// What the body of an error says: `{"error": {"code", "type", "message"}}`, or text.
#[derive(Default)]
struct Said {
    code: String,
    message: String,
}

impl Said {
    fn of(bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Self::default() };
        let error = value.get("error").unwrap_or(&value);
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
        let code = [text("code"), text("type")].into_iter().find(|code| !code.is_empty()).unwrap_or_default();
        Self { code, message: text("message") }
    }

    /// A 429 that no pause will mend.
    fn is_quota(&self) -> bool {
        ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"].contains(&self.code.as_str())
    }

    /// What may be shown and kept: cut, without control characters, keys, or parts of the question.
    fn for_people(&self, request: &Request, key: &Secret) -> String {
        let quoted = quotes(&self.message, &request.user) || quotes(&self.message, &request.system);
        let message = if quoted { "the message quotes the request and is left out" } else { self.message.as_str() };
        let said = if self.code.is_empty() { message.into() } else { format!("{}, {message}", self.code) };
        let clean: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let without_key = if key.is_empty() { clean } else { clean.replace(key.reveal(), "…") };
        let words = without_key.split(' ').map(|word| if looks_like_key(word) { "…" } else { word });
        words.collect::<Vec<_>>().join(" ").chars().take(MAX_ERROR_CHARS).collect()
    }
}

/// Whether a stretch of the message stands in the question too.
fn quotes(message: &str, question: &str) -> bool {
    let ends: Vec<usize> = message.char_indices().map(|(at, _)| at).chain([message.len()]).collect();
    ends.windows(QUOTE_CHARS + 1).any(|window| question.contains(&message[window[0]..window[QUOTE_CHARS]]))
}

/// `sk-…` and other long words of letters and digits: providers repeat parts of the key in their errors.
fn looks_like_key(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let mixed = word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(char::is_alphabetic);
    word.starts_with("sk-") || (word.len() >= 20 && mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_says_is_cut_and_scrubbed() {
        let schema = crate::request::Schema::strict("s", &json!({}));
        let user = "Net sales rose 5.2 % to $1,234 million".to_string();
        let request = Request { model: "m".into(), system: "look".into(), user, schema, max_output_tokens: 1 };
        let said = |message: &str| {
            let body = json!({ "error": { "code": "c", "message": message } }).to_string();
            Said::of(body.as_bytes()).for_people(&request, &Secret::from("my key"))
        };
        assert_eq!(said("no such model"), "c, no such model");
        assert_eq!(said("key my key\u{1b}[0m, sk-abc***xyz."), "c, key … [0m, …");
        assert_eq!(said("cannot parse `Net sales rose 5.2 % to`"), "c, the message quotes the request and is left out");
        assert_eq!(said(&"x y ".repeat(500)).chars().count(), MAX_ERROR_CHARS);
        assert_eq!(Said::of(b"<html>").for_people(&request, &Secret::default()), "");
    }

    #[test]
    fn only_urls_of_web_servers_are_endpoints() {
        let new = |url: &str| {
            let base_url = url.to_string();
            let process = "p".into();
            OpenAi::new(Endpoint { base_url, api_key: Secret::default(), timeout: Duration::from_secs(1), process })
                .map(|client| client.url.to_string())
        };
        assert_eq!(new("http://127.0.0.1:9/v1/").unwrap(), "http://127.0.0.1:9/v1/chat/completions");
        for bad in ["", "localhost:8000", "file:///etc/passwd", "ftp://a/b"] {
            assert!(matches!(new(bad), Err(EndpointError::Url(_))), "{bad}");
        }
    }
}
