//! HTTP transport to a provider: endpoint, authentication, and the mapping from status to [`LlmError`].
//!
//! Redirects are not followed, since only the operator chooses the URL. Proxies are not read from the environment.
//! Replies over 8 MiB are rejected.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;
use stemma_store::Env;
use stemma_store::limit::ReportedLimits;
use stemma_store::secret::Secret;

use crate::error_body::ErrorBody;
use crate::headers;
use crate::request::{LlmError, TokenUsage};

pub const MAX_REPLY_BYTES: usize = 8 << 20;
// Bytes read of an error body.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Time limit of an upload or download of a batch.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(300);
// Most bytes of a downloaded file. Replies are much shorter than the prompts of a batch, which have at most 64 MB.
const MAX_FILE_BYTES: usize = 256 << 20;
const PROCESS_HEADER: &str = "x-stemma-process";

/// Address and credentials of a provider.
pub struct Endpoint {
    /// E.g. `https://api.openai.com/v1`. A query (Azure's `?api-version=…`) is kept after the path of the call.
    pub base_url: String,
    pub api_key: Secret,
    /// Header that carries the bare key (Azure: `api-key`); empty for the default of the API.
    pub key_header: String,
    /// Extra headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Timeout of a call, including the connection.
    pub timeout: Duration,
    /// Value of the header `x-stemma-process`.
    pub process: String,
    pub env: Env,
}

/// An invalid [`Endpoint`]. Messages never contain header values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    #[error("header {0} is not of the form `Name: value`")]
    Header(String),
    #[error("cannot create an HTTP client for this endpoint: {0}")]
    Client(String),
}

pub(crate) enum AuthHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    Header(&'static str),
}

pub(crate) struct HttpTransport {
    client: Client,
    base: Url,
    host: String,
    timeout: Duration,
    api_key: Secret,
    env: Env,
}

pub(crate) struct HttpReply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rate_limits: ReportedLimits,
}

impl HttpReply {
    /// Why this is not a reply of a model. Some gateways report failures with status 200.
    pub(crate) fn not_a_reply(&self, host: &str) -> LlmError {
        if self.bytes.trim_ascii_start().starts_with(b"<") {
            return LlmError::NoApi { host: host.into() };
        }
        LlmError::unreadable("not a chat completion", TokenUsage::default())
    }

    /// The reply of a line of a batch: its body, without headers.
    pub(crate) fn from_batch(body: &Value) -> Self {
        Self {
            bytes: body.to_string().into_bytes(),
            rate_limits: ReportedLimits::default(),
        }
    }
}

/// The body of a POST to a batch interface.
pub(crate) struct FileBody {
    pub(crate) content_type: String,
    /// Names the effect of the request. Providers that know the header do not repeat it.
    pub(crate) idempotency_key: String,
    pub(crate) bytes: Vec<u8>,
}

impl FileBody {
    pub(crate) fn json(idempotency_key: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            content_type: "application/json".into(),
            idempotency_key: idempotency_key.into(),
            bytes,
        }
    }
}

pub(crate) struct HttpError {
    pub(crate) error: LlmError,
    // The provider's unredacted message for a rejected request. It selects a simpler request and is never logged.
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
    pub(crate) fn new(
        endpoint: Endpoint,
        key: AuthHeader,
        api_headers: &[(&'static str, &'static str)],
    ) -> Result<Self, EndpointError> {
        let base = parse_base_url(&endpoint.base_url)?;
        let host = base.host_str().unwrap_or_default();
        let host = base
            .port()
            .map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        stemma_store::tls::install_crypto_provider();
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(endpoint.timeout)
            .user_agent(concat!("stemma/", env!("CARGO_PKG_VERSION")))
            .default_headers(default_headers(&endpoint, key, api_headers)?)
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

    /// Host and port, for rate limit buckets and messages.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn url_for(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        url
    }

    /// Posts `body` to `path`. Error messages never repeat the texts in `quoted`.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        quoted: &[&str],
    ) -> Result<HttpReply, HttpError> {
        let request = self.client.post(self.url_for(path)).json(body);
        let response = self.send(request, quoted).await?;
        let rate_limits = headers::rate_limits(response.headers());
        let bytes = self.whole_body(response, MAX_REPLY_BYTES).await?;
        Ok(HttpReply { bytes, rate_limits })
    }

    /// A GET, or a POST with `body`, of a batch interface. Files are large, so it may take [`FILE_TIMEOUT`] and replies may
    /// have [`MAX_FILE_BYTES`].
    pub(crate) async fn fetch(
        &self,
        url: Url,
        body: Option<FileBody>,
    ) -> Result<Vec<u8>, LlmError> {
        let request = match body {
            None => self.client.get(url),
            Some(body) => self
                .client
                .post(url)
                .header("content-type", body.content_type)
                .header("idempotency-key", body.idempotency_key)
                .body(body.bytes),
        };
        let response = self.send(request.timeout(FILE_TIMEOUT), &[]).await;
        let response = response.map_err(|HttpError { error, .. }| error)?;
        self.whole_body(response, MAX_FILE_BYTES).await
    }

    // A status other than success is an error.
    async fn send(&self, request: RequestBuilder, quoted: &[&str]) -> Result<Response, HttpError> {
        let sent = request.send().await;
        let response = sent.map_err(|error| self.transport_error(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.status_error(response, quoted).await)
    }

    async fn whole_body(&self, mut response: Response, max: usize) -> Result<Vec<u8>, LlmError> {
        match read_body(&mut response, max).await {
            Ok((bytes, true)) => Ok(bytes),
            Ok((_, false)) => {
                let message = format!("larger than {max} bytes");
                Err(LlmError::unreadable(message, TokenUsage::default()))
            }
            Err(error) => Err(self.transport_error(&error)),
        }
    }

    /// A DELETE of a batch interface. What is gone already is not an error.
    pub(crate) async fn delete(&self, url: Url) -> Result<(), LlmError> {
        let sent = self.client.delete(url).timeout(FILE_TIMEOUT).send().await;
        let response = sent.map_err(|error| self.transport_error(&error))?;
        if response.status().is_success() || response.status().as_u16() == 404 {
            return Ok(());
        }
        Err(self.status_error(response, &[]).await.error)
    }

    /// Lists the provider's models. Fails for a rejected key; providers without a model list return an empty one.
    pub(crate) async fn models(&self) -> Result<Vec<String>, LlmError> {
        let sent = self.client.get(self.url_for("models")).send().await;
        let mut response = sent.map_err(|error| self.transport_error(&error))?;
        if !response.status().is_success() {
            let error = self.status_error(response, &[]).await.error;
            let is_rejected_key = matches!(
                error,
                LlmError::Configuration {
                    status: 401 | 403,
                    ..
                }
            );
            return if is_rejected_key {
                Err(error)
            } else {
                Ok(Vec::new())
            };
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

    // The text of a `reqwest::Error` may contain the full URL, so only the host is reported.
    fn transport_error(&self, error: &reqwest::Error) -> LlmError {
        if error.is_timeout() {
            return LlmError::TimedOut(self.timeout);
        }
        let what = if error.is_connect() {
            "cannot connect"
        } else {
            "lost the connection"
        };
        LlmError::Unreachable(format!("{what} to {}", self.host))
    }

    async fn status_error(&self, mut response: Response, quoted: &[&str]) -> HttpError {
        let status = response.status().as_u16();
        let retry_after = headers::retry_after(response.headers(), self.env.now_ms());
        let rate_limits = headers::rate_limits(response.headers());
        // The body only adds detail. The status decides even if reading the body fails.
        let (bytes, _) = read_body(&mut response, MAX_ERROR_BYTES)
            .await
            .unwrap_or_default();
        let body = ErrorBody::from_bytes(&bytes);
        let message = body.redacted(quoted, &self.api_key);
        let body = body.without_quotes(quoted);
        let error = match status {
            400 | 402 | 403 | 429 if body.is_quota() => LlmError::Configuration { status, message },
            429 | 529 => LlmError::Throttled {
                retry_after,
                rate_limits,
            },
            503 if retry_after.is_some() => LlmError::Throttled {
                retry_after,
                rate_limits,
            },
            408 => LlmError::TimedOut(self.timeout),
            // Servers say so with 400, 404 and 500.
            400 | 404.. if body.rejects_images() => LlmError::NoImages { status, message },
            400 | 404.. if body.exceeds_context() => LlmError::ContextExceeded {
                message,
                needed_tokens: 0,
            },
            400 | 404.. if body.rejects_format() => LlmError::Refused { status, message },
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
        let is_rejected_request = matches!(error, LlmError::Refused { .. });
        HttpError {
            error,
            detail: is_rejected_request.then(|| body.full_text()),
        }
    }
}

fn parse_base_url(base: &str) -> Result<Url, EndpointError> {
    Url::parse(base)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
        .ok_or_else(|| EndpointError::Url(base.into()))
}

fn default_headers(
    endpoint: &Endpoint,
    key: AuthHeader,
    api_headers: &[(&'static str, &'static str)],
) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    insert_header(&mut headers, PROCESS_HEADER, &endpoint.process)?;
    for (name, value) in api_headers {
        insert_header(&mut headers, name, value)?;
    }
    if !endpoint.api_key.is_empty() {
        let key_value = endpoint.api_key.reveal();
        match (endpoint.key_header.as_str(), key) {
            ("", AuthHeader::Bearer) => {
                insert_header(
                    &mut headers,
                    "authorization",
                    &format!("Bearer {key_value}"),
                )?;
            }
            ("", AuthHeader::Header(name)) | (name, _) => {
                insert_header(&mut headers, name, key_value)?;
            }
        }
    }
    for line in &endpoint.headers {
        let (name, value) = line.reveal().split_once(':').unwrap_or(("", ""));
        insert_header(&mut headers, name.trim(), value.trim())?;
    }
    Ok(headers)
}

fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), EndpointError> {
    let header = HeaderName::from_bytes(name.as_bytes()).ok();
    let Some((header, mut value)) = header.zip(HeaderValue::from_str(value).ok()) else {
        return Err(EndpointError::Header(if name.is_empty() {
            "in model.headers".into()
        } else {
            format!("`{name}`")
        }));
    };
    // Keeps keys out of the debug output of reqwest.
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

// Reads at most `max_bytes`. The flag tells whether the body ended there.
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

#[cfg(test)]
mod tests {
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
    fn endpoints_must_be_http_urls() {
        let new = |url: &str| {
            HttpTransport::new(endpoint(url), AuthHeader::Bearer, &[])
                .map(|transport| transport.url_for("chat/completions").to_string())
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
