//! Middleware of every request: host check, authentication, admission, deadline, content negotiation, problem details and
//! metrics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use stemma_engine::Env;

use crate::accept::Accept;
use crate::admission::{ConcurrencyLimit, RequestPermit};
use crate::auth::{ApiKeys, AuthError};
use crate::host_guard::HostGuard;
use crate::problem::{Problem, is_openai_path};
use crate::settings::QuerySettings;

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
    pub max_body_bytes: usize,
}

impl AccessControl {
    pub fn new(
        env: Env,
        keys: ApiKeys,
        open: bool,
        host_guard: &HostGuard,
        settings: &QuerySettings,
    ) -> Arc<Self> {
        let places = |places, seconds: u64| {
            ConcurrencyLimit::new(places, Duration::from_secs(seconds.max(1)))
        };
        let short = places(settings.concurrency, settings.timeout_seconds);
        let long = places(settings.answers, settings.answer_timeout_seconds);
        let host_guard = (open && keys.is_empty()).then(|| host_guard.clone());
        Arc::new(Self {
            env,
            keys,
            short_limit: short,
            long_limit: long,
            allow_local_writes: open,
            host_guard,
            max_body_bytes: settings.max_body_bytes,
        })
    }

    async fn handle(&self, mut request: Request, next: Next) -> Result<Response, Problem> {
        if let Some(host_guard) = &self.host_guard {
            host_guard.check(&request)?;
        }
        let rights = self
            .keys
            .authorize(
                request_key(&request),
                self.allow_local_writes,
                self.env.now_ms(),
            )
            .map_err(auth_problem)?;
        let permit = RequestPermit::admit(rights, &self.short_limit, &self.long_limit).await?;
        request.extensions_mut().insert(permit.clone());
        let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
        let answered = permit.with_timeout(answer).await;
        // A streamed body holds its own permit, so a slow reader does not occupy one here.
        permit.release();
        match answered {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(Problem::new(
                500,
                "server.panic",
                "the server made a mistake; its log says where",
            )),
            Err(limit) => {
                let detail = format!("the answer takes longer than {} s", limit.as_secs());
                let next = "ask for less: fewer documents, pages or hits; what a model was paid for is not paid again";
                Err(Problem::new(503, "request.timeout", detail).with_next(next))
            }
        }
    }

    // 32 hexadecimal digits: the trace id of `traceparent` if it is valid, else random.
    fn trace_id(&self, request: &Request) -> String {
        let sent = request
            .headers()
            .get("traceparent")
            .and_then(|value| value.to_str().ok());
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
fn request_key(request: &Request) -> Option<&str> {
    let text = |name: &str| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let bearer =
        text(header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| text("api_key")).map(str::trim)
}

fn auth_problem(error: AuthError) -> Problem {
    match error {
        AuthError::Unknown => Problem::new(
            401,
            "key.unknown",
            "a key is needed, and this is none of them",
        )
        .with_next("send `Authorization: Bearer KEY`"),
        AuthError::MissingScope => Problem::new(
            403,
            "key.scope",
            "this key may not read: it lacks the scope `read`",
        )
        .with_next("give it the scope `read` in query.keys"),
        AuthError::RateLimited(seconds) => {
            let detail = "this key has made all the requests it may make in a minute";
            Problem::new(429, "key.spent", detail)
                .with_next(format!("ask again in {seconds} s"))
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
            "the answer is of no type that is accepted",
        )
        .into_response();
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.is_server_error() {
            tracing::warn!(
                trace_id,
                code = problem.code(),
                cause = problem.cause(),
                "a request was not answered"
            );
        }
        let beside = response.headers().get(header::ALLOW).cloned();
        let problem = problem.with_trace_id(trace_id);
        let openai_problem = openai.then(|| problem.as_openai());
        response = problem.into_response();
        if let Some(openai_problem) = openai_problem {
            *response.body_mut() =
                axum::body::Body::from(serde_json::to_vec(&openai_problem).unwrap_or_default());
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
        }
        response
            .headers_mut()
            .extend(beside.map(|methods| (header::ALLOW, methods)));
    }
    let class = ["1xx", "2xx", "3xx", "4xx", "5xx"]
        [usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1];
    metrics::counter!("stemma_http_requests_total", "status" => class).increment(1);
    metrics::histogram!("stemma_http_seconds").record(started_at.elapsed().as_secs_f64());
    response
}
