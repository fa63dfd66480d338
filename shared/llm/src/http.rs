//! The wire to a provider: where it is, what goes with every call, and what a status means, decided here and nowhere else.
//!
//! No redirect is followed (the URL is the operator's, not the provider's to choose), no proxy is read from the environment
//! (I-7), no reply over 8 MiB read.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;
use stemma_engine::Env;
use stemma_engine::limit::ReportedLimits;
use stemma_engine::secret::Secret;

use crate::headers;
use crate::request::{LlmError, TokenUsage};

/// The largest reply in bytes that is read.
pub const MAX_REPLY_BYTES: usize = 8 << 20;
/// Bytes of an error's body that are looked at, and characters of it that are kept.
const MAX_ERROR_BYTES: usize = 64 << 10;
const MAX_ERROR_CHARS: usize = 200;
/// Characters in a row that an error may share with the question before it counts as quoting it.
const QUOTE_CHARS: usize = 16;
/// The header that names this process to the provider.
const PROCESS_HEADER: &str = "x-stemma-process";

/// Where a provider is, and how to talk to it: local configuration.
pub struct Endpoint {
    /// E.g. `https://api.openai.com/v1`; the path of the call is added before a query, where there is one (Azure's
    /// `?api-version=…`).
    pub base_url: String,
    /// Sent with every call, where there is one.
    pub api_key: Secret,
    /// The header the key stands in as it is (Azure: `api-key`); empty: as the dialect has it.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// How long a call may take, connecting included.
    pub timeout: Duration,
    /// Names this process in the header `x-stemma-process`.
    pub process: String,
    /// Time, for what providers say about it.
    pub env: Env,
}

/// Why an endpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No URL of a web server.
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    /// A header that is none; its value is not shown.
    #[error("header {0} is not of the form `Name: value`")]
    Header(String),
    /// A client could not be made of it.
    #[error("no client for this endpoint: {0}")]
    Client(String),
}

/// How a dialect sends its key.
pub(crate) enum AuthHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// In a header of this name.
    Header(&'static str),
}

/// A client of one endpoint.
pub(crate) struct HttpTransport {
    client: Client,
    base: Url,
    host: String,
    timeout: Duration,
    api_key: Secret,
    env: Env,
}

/// What a call came to.
pub(crate) struct HttpReply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rate_limits: ReportedLimits,
}

/// A call that was refused.
pub(crate) struct HttpError {
    pub(crate) error: LlmError,
    /// What is wrong with the request as it was put, in the provider's words: to put it otherwise, never to be shown.
    pub(crate) detail: Option<String>,
}

impl From<LlmError> for HttpError {
    fn from(error: LlmError) -> Self {
        Self {
            error,
            detail: None,
        }
    }
}

impl HttpTransport {
    /// A client; nothing is sent yet. `with` are the headers of the dialect.
    pub(crate) fn new(
        endpoint: Endpoint,
        key: AuthHeader,
        with: &[(&'static str, &'static str)],
    ) -> Result<Self, EndpointError> {
        let base = parse_base_url(&endpoint.base_url)?;
        let host = base.host_str().unwrap_or_default();
        let host = base
            .port()
            .map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        stemma_engine::tls::install_crypto_provider();
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(endpoint.timeout)
            .user_agent(concat!("stemma/", env!("CARGO_PKG_VERSION")))
            .default_headers(default_headers(&endpoint, key, with)?)
            .build()
            .map_err(|error| EndpointError::Client(error.to_string()))?;
        let Endpoint {
            timeout,
            api_key,
            env,
            ..
        } = endpoint;
        Ok(Self {
            client,
            base,
            host,
            timeout,
            api_key,
            env,
        })
    }

    /// Host and port, for names of buckets and for people.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Where a call to `path` goes.
    pub(crate) fn url_for(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        url
    }

    /// Posts `body` to `path`. `quoted` are the texts that no error may repeat.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        quoted: &[&str],
    ) -> Result<HttpReply, HttpError> {
        let sent = self.client.post(self.url_for(path)).json(body).send().await;
        let mut response = sent.map_err(|error| self.transport_error(&error))?;
        if !response.status().is_success() {
            return Err(self.status_error(response, quoted).await);
        }
        let stated = headers::rate_limits(response.headers());
        let (bytes, whole) = read_body(&mut response, MAX_REPLY_BYTES)
            .await
            .map_err(|error| self.transport_error(&error))?;
        if !whole {
            let message = format!("it is larger than {MAX_REPLY_BYTES} bytes");
            return Err(LlmError::Unreadable {
                message,
                usage: TokenUsage::default(),
            }
            .into());
        }
        Ok(HttpReply {
            bytes,
            rate_limits: stated,
        })
    }

    /// Whether the provider would serve us, as far as it says without being asked a question: the names of its models
    /// where it lists them. A provider that has no such list says nothing.
    pub(crate) async fn models(&self) -> Result<Vec<String>, LlmError> {
        let sent = self.client.get(self.url_for("models")).send().await;
        let mut response = sent.map_err(|error| self.transport_error(&error))?;
        if !response.status().is_success() {
            let error = self.status_error(response, &[]).await.error;
            let is_key = matches!(
                error,
                LlmError::Configuration {
                    status: 401 | 403,
                    ..
                }
            );
            return if is_key { Err(error) } else { Ok(Vec::new()) };
        }
        let (bytes, _) = read_body(&mut response, MAX_REPLY_BYTES)
            .await
            .map_err(|error| self.transport_error(&error))?;
        let list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let names = list
            .get("data")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        Ok(names
            .filter_map(|model| model.get("id")?.as_str().map(Into::into))
            .collect())
    }

    /// A call that came to no reply. The error's own text may name the URL, never headers or bodies.
    fn transport_error(&self, error: &reqwest::Error) -> LlmError {
        if error.is_timeout() {
            return LlmError::TimedOut(self.timeout);
        }
        let what = if error.is_connect() {
            "no connection"
        } else {
            "the connection broke"
        };
        LlmError::Unreachable(format!("{what} to {}", self.host))
    }

    /// What a status other than success means.
    async fn status_error(&self, mut response: Response, quoted: &[&str]) -> HttpError {
        let status = response.status().as_u16();
        let after = headers::retry_after(response.headers(), self.env.now_ms());
        let stated = headers::rate_limits(response.headers());
        // What the body says is a help and no more: an error while it is read changes nothing.
        let (bytes, _) = read_body(&mut response, MAX_ERROR_BYTES)
            .await
            .unwrap_or_default();
        let body = ErrorBody::from_bytes(&bytes);
        let message = body.redacted(quoted, &self.api_key);
        let error = match status {
            400 | 402 | 403 | 429 if body.is_quota() => LlmError::Configuration { status, message },
            429 | 529 => LlmError::Throttled {
                retry_after: after,
                rate_limits: stated,
            },
            503 if after.is_some() => LlmError::Throttled {
                retry_after: after,
                rate_limits: stated,
            },
            408 => LlmError::TimedOut(self.timeout),
            500.. => LlmError::Server { status, message },
            300..=399 => LlmError::Configuration {
                status,
                message: "redirects are not followed".into(),
            },
            401..=405 => LlmError::Configuration { status, message },
            409 | 425 => LlmError::Server { status, message },
            400 if body.is_unknown_model() => LlmError::Configuration { status, message },
            _ => LlmError::Refused { status, message },
        };
        let body = matches!(
            error,
            LlmError::Refused {
                status: 400 | 422,
                ..
            }
        )
        .then(|| body.full_text());
        HttpError {
            error,
            detail: body,
        }
    }
}

fn parse_base_url(base: &str) -> Result<Url, EndpointError> {
    let invalid = || EndpointError::Url(base.into());
    let url = Url::parse(base).map_err(|_| invalid())?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if is_web { Ok(url) } else { Err(invalid()) }
}

fn default_headers(
    endpoint: &Endpoint,
    key: AuthHeader,
    with: &[(&'static str, &'static str)],
) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        let wrong = || {
            EndpointError::Header(if name.is_empty() {
                "in model.headers".into()
            } else {
                format!("`{name}`")
            })
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok::<_, EndpointError>(())
    };
    add(PROCESS_HEADER, &endpoint.process)?;
    for (name, value) in with {
        add(name, value)?;
    }
    if !endpoint.api_key.is_empty() {
        let key_value = endpoint.api_key.reveal();
        match (endpoint.key_header.as_str(), key) {
            ("", AuthHeader::Bearer) => add("authorization", &format!("Bearer {key_value}"))?,
            ("", AuthHeader::Header(name)) => add(name, key_value)?,
            (name, _) => add(name, key_value)?,
        }
    }
    for line in &endpoint.headers {
        let (name, value) = line.reveal().split_once(':').unwrap_or(("", ""));
        add(name.trim(), value.trim())?;
    }
    Ok(headers)
}

/// Reads at most `max_bytes`; says whether that was all.
async fn read_body(
    response: &mut Response,
    max_bytes: usize,
) -> Result<(Vec<u8>, bool), reqwest::Error> {
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

/// What the body of an error says: `{"error": {"code", "type", "message", "param"}}`, `{"error": "text"}`, `{"detail": …}`,
/// or a line of text.
#[derive(Default)]
struct ErrorBody {
    code: String,
    message: String,
    param: String,
}

impl ErrorBody {
    fn from_bytes(bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Self::default();
        };
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(&value);
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let first = |names: &[&str]| {
            names
                .iter()
                .map(|name| text(name))
                .find(|text| !text.is_empty())
        };
        let whole = error.as_str().map(Into::into);
        Self {
            code: first(&["code", "type"]).unwrap_or_default(),
            message: whole
                .or_else(|| first(&["message", "detail"]))
                .or_else(|| error.get("detail").map(ToString::to_string))
                .unwrap_or_default(),
            param: text("param"),
        }
    }

    /// What no pause will mend.
    fn is_quota(&self) -> bool {
        let codes = [
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_error",
        ];
        codes.contains(&self.code.as_str()) || self.message.contains("credit balance is too low")
    }

    /// Whether it is the name of the model that is wrong.
    fn is_unknown_model(&self) -> bool {
        ["model_not_found", "invalid_model", "DeploymentNotFound"].contains(&self.code.as_str())
    }

    fn full_text(&self) -> String {
        format!("{} {} {}", self.code, self.param, self.message)
    }

    /// What may be shown and kept: cut, without control characters, keys, or parts of the question.
    fn redacted(&self, quoted: &[&str], key: &Secret) -> String {
        let quoted = quoted
            .iter()
            .any(|text| quotes_request(&self.message, text));
        let message = if quoted {
            "the message quotes the request and is left out"
        } else {
            self.message.as_str()
        };
        let text = if self.code.is_empty() {
            message.into()
        } else {
            format!("{}, {message}", self.code)
        };
        let clean: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let without_key = if key.is_empty() {
            clean
        } else {
            clean.replace(key.reveal(), "…")
        };
        let words = without_key
            .split(' ')
            .map(|word| if looks_like_key(word) { "…" } else { word });
        words
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(MAX_ERROR_CHARS)
            .collect()
    }
}

/// Whether a stretch of the message stands in the question too.
fn quotes_request(message: &str, question: &str) -> bool {
    let ends: Vec<usize> = message
        .char_indices()
        .map(|(at, _)| at)
        .chain([message.len()])
        .collect();
    ends.windows(QUOTE_CHARS + 1)
        .any(|window| question.contains(&message[window[0]..window[QUOTE_CHARS]]))
}

/// `sk-…` and other long words of letters and digits: providers repeat parts of the key in their errors.
fn looks_like_key(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let mixed = word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(char::is_alphabetic);
    word.starts_with("sk-") || (word.len() >= 20 && mixed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(base_url: &str) -> Endpoint {
        Endpoint {
            base_url: base_url.into(),
            api_key: Secret::default(),
            key_header: String::new(),
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            process: "p".into(),
            env: Env::system(),
        }
    }

    #[test]
    fn error_messages_are_truncated_and_redacted() {
        let user = "Net sales rose 5.2 % to $1,234 million";
        let body = |body: &str| {
            ErrorBody::from_bytes(body.as_bytes())
                .redacted(&[user, "look"], &Secret::from("my key"))
        };
        let redacted = |message: &str| {
            body(&json!({ "error": { "code": "c", "message": message } }).to_string())
        };
        assert_eq!(redacted("no such model"), "c, no such model");
        assert_eq!(
            redacted("key my key\u{1b}[0m, sk-abc***xyz."),
            "c, key … [0m, …"
        );
        assert_eq!(
            redacted("cannot parse `Net sales rose 5.2 % to`"),
            "c, the message quotes the request and is left out"
        );
        assert_eq!(
            redacted(&"x y ".repeat(500)).chars().count(),
            MAX_ERROR_CHARS
        );
        assert_eq!(body("<html>"), "");
        assert_eq!(body(r#"{"error": "model is loading"}"#), "model is loading");
        assert_eq!(
            body(r#"{"object": "error", "message": "bad", "code": 400}"#),
            "400, bad"
        );
        assert_eq!(
            body(r#"{"detail": [{"loc": ["body"]}]}"#),
            r#"[{"loc":["body"]}]"#
        );
        assert_eq!(
            body(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#),
            "overloaded_error, busy"
        );
    }

    #[test]
    fn endpoints_must_be_http_urls() {
        let new = |url: &str| {
            HttpTransport::new(endpoint(url), AuthHeader::Bearer, &[])
                .map(|wire| wire.url_for("chat/completions").to_string())
        };
        assert_eq!(
            new("http://127.0.0.1:9/v1/").unwrap(),
            "http://127.0.0.1:9/v1/chat/completions"
        );
        let azure = "https://x.example/openai/deployments/d?api-version=2024-10-21";
        let called =
            "https://x.example/openai/deployments/d/chat/completions?api-version=2024-10-21";
        assert_eq!(new(azure).unwrap(), called);
        for bad in ["", "localhost:8000", "file:///etc/passwd", "ftp://a/b"] {
            assert!(matches!(new(bad), Err(EndpointError::Url(_))), "{bad}");
        }
    }

    #[test]
    fn invalid_headers_are_reported_without_their_values() {
        let with = |line: &str| {
            let endpoint = Endpoint {
                headers: vec![line.into()],
                ..endpoint("http://127.0.0.1:9/v1")
            };
            HttpTransport::new(endpoint, AuthHeader::Bearer, &[])
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(with("OpenAI-Organization: org-1"), None);
        for bad in ["secret", "bad name: secret", "X-Key: secret\n"] {
            assert!(
                with(bad).is_some_and(|error| !error.contains("secret")) || bad.ends_with('\n'),
                "{bad}"
            );
        }
    }
}
