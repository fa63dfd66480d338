//! Middleware of every request: host check, authentication, admission, deadline, content negotiation, problem details and
//! metrics.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use stemma_engine::Env;

use crate::accept::{Accept, JSON};
use crate::admission::{ConcurrencyLimit, RequestPermit};
use crate::auth::{ApiKeys, AuthError};
use crate::host_guard::HostGuard;
use crate::pages::{KEY_COOKIE, ProblemContext, WebPages, cookie};
use crate::problem::{Problem, is_openai_path};
use crate::rights::{CollectionScope, Rights};
use crate::settings::QuerySettings;

/// Limit of requests with a conversation, in bytes: clients resend all of it with every message.
pub const MAX_CONVERSATION_BYTES: usize = 1 << 20;
// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Authenticates and admits requests.
pub struct AccessControl {
    env: Env,
    keys: ApiKeys,
    short_limit: ConcurrencyLimit,
    // Separate from `short_limit`, so that requests that wait for a model never block reads.
    long_limit: ConcurrencyLimit,
    // Only for a server without keys on a loopback address.
    allow_local_writes: bool,
    // `None`: keys are configured, or the operator exposed the server on purpose.
    host_guard: Option<HostGuard>,
    // `None`: a server without pages for people.
    pages: Option<WebPages>,
    pub max_body_bytes: usize,
}

impl AccessControl {
    pub fn new(
        env: Env,
        keys: ApiKeys,
        open: bool,
        host_guard: &HostGuard,
        settings: &QuerySettings,
        pages: Option<WebPages>,
    ) -> Arc<Self> {
        let host_guard = (open && keys.is_empty()).then(|| host_guard.clone());
        // `increase` misses the first event of a counter that begins with it.
        for class in ["2xx", "3xx", "4xx", "5xx"] {
            metrics::counter!("stemma_http_requests_total", "status" => class).increment(0);
        }
        let limit = |permits, timeout_seconds: u64| {
            let timeout = Duration::from_secs(timeout_seconds.max(1));
            ConcurrencyLimit::new(permits, keys.len(), timeout)
        };
        Arc::new(Self {
            env,
            short_limit: limit(settings.concurrency, settings.timeout_seconds),
            long_limit: limit(settings.answers, settings.answer_timeout_seconds),
            keys,
            allow_local_writes: open,
            host_guard,
            pages,
            max_body_bytes: settings.max_body_bytes,
        })
    }

    async fn handle(&self, request: Request, next: Next) -> Result<Response, Problem> {
        if let Some(host_guard) = &self.host_guard {
            host_guard.check(&request)?;
        }
        let rights = self.authorize(&request)?;
        let scope = rights.collections.clone();
        let mut request = self.buffer_body(request).await?;
        let permit = RequestPermit::admit(rights, &self.short_limit, &self.long_limit).await?;
        request.extensions_mut().insert(scope);
        request.extensions_mut().insert(permit.clone());
        let answered = permit.with_timeout(next.run(request)).await;
        // A streamed body holds its own permit, so a slow reader does not occupy one here.
        permit.release();
        answered.map_err(|limit| {
            let detail = format!("the request took longer than {} s", limit.as_secs());
            let next =
                "request less: fewer documents, pages or hits; retries reuse paid model replies";
            Problem::new(503, "request.timeout", detail).with_next(next)
        })
    }

    fn authorize(&self, request: &Request) -> Result<Rights, Problem> {
        let headers = request.headers();
        let uri = request.uri();
        let of_cookie = self
            .pages
            .and_then(|pages| pages.key(request.method(), uri, headers));
        let key = request_key(headers).or(of_cookie.as_deref());
        match self.keys.authorize(key, self.allow_local_writes) {
            Err(AuthError::Unknown) if self.is_public(uri.path()) => Ok(Rights {
                key: None,
                collections: CollectionScope::Only(Vec::new()),
                ask: false,
                write: false,
            }),
            rights => rights.map_err(auth_problem),
        }
    }

    fn is_public(&self, path: &str) -> bool {
        self.pages.is_some_and(|pages| (pages.is_public)(path))
    }

    // Browsers ask for HTML first. The API answers in JSON, whoever asks.
    fn problem_pages(&self, request: &Request, accept: &Accept) -> Option<WebPages> {
        let is_api = request.uri().path().starts_with("/v1/");
        self.pages
            .filter(|_| !is_api && accept.prefers("text/html", JSON))
    }

    // Bodies are read before a permit is taken, so that clients that send slowly keep nobody out. The extractor of a
    // route applies the route's own, lower limit. Uploads are streamed into the store; they need the scope `write`.
    async fn buffer_body(&self, request: Request) -> Result<Request, Problem> {
        let kind = header_text(request.headers(), "content-type").unwrap_or_default();
        if kind.starts_with("multipart/") {
            return Ok(request);
        }
        let (parts, body) = request.into_parts();
        let limit = self.max_body_bytes.max(MAX_CONVERSATION_BYTES);
        let reading = Limited::new(body, limit).collect();
        let read = tokio::time::timeout(BODY_TIMEOUT, reading).await;
        let read = read.map_err(|_| {
            let detail = format!(
                "the body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            );
            Problem::new(408, "body.timeout", detail)
        })?;
        let bytes = read.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let detail = format!("the body has more than {limit} bytes");
                Problem::new(413, "body.too_large", detail)
            } else {
                Problem::new(400, "body.unreadable", error.to_string())
            }
        })?;
        Ok(Request::from_parts(parts, Body::from(bytes.to_bytes())))
    }

    // Not tower-http's request id: its layer copies any header value a client sends into the log.
    // 32 hexadecimal digits: the trace id of `traceparent` if it is valid, else random.
    fn trace_id(&self, request: &Request) -> String {
        let sent = header_text(request.headers(), "traceparent");
        let trace = sent.and_then(|value| value.split('-').nth(1));
        trace
            .filter(|trace: &&str| {
                trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit())
            })
            .map_or_else(
                || format!("{:016x}{:016x}", self.env.random(), self.env.random()),
                str::to_ascii_lowercase,
            )
    }
}

// `Authorization: Bearer`, or PageIndex's `api_key` header.
fn request_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = header_text(headers, "authorization");
    let key = bearer.and_then(|value| value.strip_prefix("Bearer "));
    key.or_else(|| header_text(headers, "api_key"))
        .map(str::trim)
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The response of a handler that panicked, for `tower_http::catch_panic`.
pub fn panic_response(_: Box<dyn Any + Send>) -> Response {
    Problem::new(
        500,
        "server.panic",
        "internal error; the server's log has the details",
    )
    .into_response()
}

fn auth_problem(error: AuthError) -> Problem {
    match error {
        AuthError::Unknown => Problem::new(401, "key.unknown", "the API key is missing or unknown")
            .with_next("send `Authorization: Bearer KEY`"),
        AuthError::MissingScope => {
            Problem::new(403, "key.scope", "this key lacks the scope `read`")
                .with_next("add the scope `read` in query.keys")
        }
        AuthError::RateLimited(seconds) => {
            let detail = "this key has reached its requests per minute";
            Problem::new(429, "key.spent", detail)
                .with_next(format!("retry in {seconds} s"))
                .with_retry_after(seconds)
        }
    }
}

/// The middleware function: handles a request and completes its problem response.
pub async fn enforce(
    State(control): State<Arc<AccessControl>>,
    request: Request,
    next: Next,
) -> Response {
    let started_at = Instant::now();
    let trace_id = control.trace_id(&request);
    let openai = is_openai_path(request.uri().path());
    // OpenAI clients send `Accept: application/json` even when they request a stream.
    let accept = if openai {
        Accept::any()
    } else {
        Accept::from_headers(request.headers())
    };
    let pages = control.problem_pages(&request, &accept);
    let uri = request.uri().clone();
    let has_key_cookie = cookie(request.headers(), KEY_COOKIE).is_some();
    let mut response = control
        .handle(request, next)
        .await
        .unwrap_or_else(Problem::into_response);
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if response.status().is_success() && !kind.is_none_or(|kind| accept.accepts(kind)) {
        response = Problem::new(
            406,
            "answer.type",
            "the response type is not in the `Accept` header",
        )
        .into_response();
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.is_server_error() {
            tracing::warn!(
                trace_id,
                code = problem.code(),
                cause = problem.cause(),
                "request failed"
            );
        }
        let allow = response.headers().get(header::ALLOW).cloned();
        let problem = problem.with_trace_id(trace_id);
        let openai_problem = openai.then(|| problem.as_openai());
        response = match pages {
            Some(pages) => (pages.problem_page)(
                &problem,
                &ProblemContext {
                    uri: &uri,
                    has_key_cookie,
                },
            ),
            None => problem.into_response(),
        };
        if let Some(openai_problem) = openai_problem {
            *response.body_mut() =
                Body::from(serde_json::to_vec(&openai_problem).unwrap_or_default());
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
        }
        response
            .headers_mut()
            .extend(allow.map(|methods| (header::ALLOW, methods)));
    }
    let class = ["1xx", "2xx", "3xx", "4xx", "5xx"]
        [usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1];
    metrics::counter!("stemma_http_requests_total", "status" => class).increment(1);
    metrics::histogram!("stemma_http_seconds").record(started_at.elapsed().as_secs_f64());
    response
}
