//! Middleware of every request: host check, authentication, admission, deadline, content negotiation, problem details and
//! metrics.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use stemma_store::Env;
use stemma_store::work::{ClientShare, MemoryPermit, WorkScope};

use crate::accept::{Accept, JSON};
use crate::admission::{ConcurrencyLimit, RequestPermit, check_may_write};
use crate::auth::{ApiKeys, AuthError};
use crate::bodies::{hold_memory, receive};
use crate::host_guard::HostGuard;
use crate::pages::{KEY_COOKIE, ProblemContext, WebPages, cookie};
use crate::problem::{Problem, is_openai_path};
use crate::rights::{CollectionScope, Rights};
use crate::settings::QuerySettings;
use crate::uploads::UPLOAD_PATHS;

/// Limit of requests with a conversation, in bytes: clients resend all of it with every message.
pub const MAX_CONVERSATION_BYTES: usize = 1 << 20;
// The same of requests without a key, on a server with keys: a login form.
const MAX_PUBLIC_BYTES: usize = 4 << 10;
// These requests at once. They have permits of their own, so that nobody without a key keeps out those with one.
const PUBLIC_REQUESTS: usize = 8;

// Who sends a request.
struct Caller {
    rights: Rights,
    // Without a key, on a path that needs none.
    is_public: bool,
}

/// Authenticates and admits requests.
pub struct AccessControl {
    env: Env,
    keys: ApiKeys,
    short_limit: ConcurrencyLimit,
    // Separate from `short_limit`, so that requests that wait for a model never block reads.
    long_limit: ConcurrencyLimit,
    public_limit: ConcurrencyLimit,
    // By position of the key; one of a server without keys.
    shares: Vec<ClientShare>,
    public_share: ClientShare,
    // Only for a server without keys on a loopback address.
    allow_local_writes: bool,
    // `None`: keys are configured.
    host_guard: Option<HostGuard>,
    // `None`: a server without pages for people.
    pages: Option<WebPages>,
    pub max_body_bytes: usize,
}

impl AccessControl {
    /// Without keys, `allow_local_writes` says that only this machine can connect.
    pub fn new(
        env: Env,
        keys: ApiKeys,
        allow_local_writes: bool,
        host_guard: &HostGuard,
        settings: &QuerySettings,
        pages: Option<WebPages>,
    ) -> Arc<Self> {
        let host_guard = keys.is_empty().then(|| host_guard.clone());
        // `increase` misses the first event of a counter that begins with it.
        for class in ["2xx", "3xx", "4xx", "5xx"] {
            metrics::counter!("stemma_http_requests_total", "status" => class).increment(0);
        }
        let limit = |permits, keys, timeout_seconds: u64| {
            let timeout = Duration::from_secs(timeout_seconds.max(1));
            ConcurrencyLimit::new(permits, keys, timeout)
        };
        let count = keys.len();
        let shares = match count {
            0 | 1 => vec![ClientShare::for_only_client()],
            _ => (0..count)
                .map(|_| ClientShare::for_several_clients())
                .collect(),
        };
        Arc::new(Self {
            env,
            short_limit: limit(settings.concurrency, count, settings.timeout_seconds),
            long_limit: limit(settings.answers, count, settings.answer_timeout_seconds),
            public_limit: limit(PUBLIC_REQUESTS, 0, settings.timeout_seconds),
            shares,
            public_share: ClientShare::for_several_clients(),
            keys,
            allow_local_writes,
            host_guard,
            pages,
            max_body_bytes: settings.max_body_bytes,
        })
    }

    async fn handle(&self, request: Request, next: Next) -> Result<Response, Problem> {
        if let Some(host_guard) = &self.host_guard {
            host_guard.check(&request)?;
        }
        let caller = self.authorize(&request)?;
        let (share, short_limit) = match caller.is_public {
            true => (&self.public_share, &self.public_limit),
            false => (
                &self.shares[caller.rights.key.unwrap_or(0)],
                &self.short_limit,
            ),
        };
        let work = WorkScope::new(share);
        // What computes for the request stops when it has ended, whoever ends it.
        let _end = work.end_on_drop();
        let (mut request, _memory) = self.receive_body(request, &caller, &work).await?;
        let collections = caller.rights.collections.clone();
        let permit = RequestPermit::admit(caller.rights, short_limit, &self.long_limit).await?;
        let extensions = request.extensions_mut();
        extensions.insert(collections);
        extensions.insert(permit.clone());
        extensions.insert(work.clone());
        let answered = permit.with_timeout(work.enter(next.run(request))).await;
        // Unsent responses hold memory instead, so a slow reader does not occupy a permit.
        permit.release();
        let response = answered.map_err(|limit| {
            let detail = format!("the request took longer than {} s", limit.as_secs());
            let next =
                "request less: fewer documents, pages or hits; retries reuse paid model replies";
            Problem::new(503, "request.timeout", detail).with_next(next)
        })?;
        hold_memory(&work, response)
    }

    fn authorize(&self, request: &Request) -> Result<Caller, Problem> {
        let headers = request.headers();
        let uri = request.uri();
        let of_cookie = self
            .pages
            .and_then(|pages| pages.key(request.method(), uri, headers));
        let key = request_key(headers).or(of_cookie.as_deref());
        match self.keys.authorize(key, self.allow_local_writes) {
            Err(AuthError::Unknown) if self.is_public(uri.path()) => Ok(Caller {
                rights: Rights {
                    key: None,
                    collections: CollectionScope::Only(Vec::new()),
                    ask: false,
                    write: false,
                },
                is_public: true,
            }),
            rights => Ok(Caller {
                rights: rights.map_err(auth_problem)?,
                is_public: false,
            }),
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

    // Bodies are received before a permit is taken, so that clients that send slowly keep nobody out. The extractor of a
    // route applies the route's own, lower limit. Uploads, which need the scope `write`, are received by their handlers.
    async fn receive_body(
        &self,
        request: Request,
        caller: &Caller,
        work: &WorkScope,
    ) -> Result<(Request, Option<MemoryPermit>), Problem> {
        if request.method() == Method::POST && UPLOAD_PATHS.contains(&request.uri().path()) {
            check_may_write(&caller.rights)?;
            return Ok((request, None));
        }
        let limit = match caller.is_public {
            true => MAX_PUBLIC_BYTES,
            false => self.max_body_bytes.max(MAX_CONVERSATION_BYTES),
        };
        let (parts, body) = request.into_parts();
        let received = receive(body, limit, work).await?;
        let request = Request::from_parts(parts, Body::from(received.bytes));
        Ok((request, received.memory))
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
            Problem::new(403, "key.scope_missing", "this key lacks the scope `read`")
                .with_next("add the scope `read` in query.keys")
        }
        AuthError::RateLimited(seconds) => {
            let detail = "this key has reached its limit of requests per minute";
            Problem::new(429, "key.limit_reached", detail)
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
            "response.type_not_accepted",
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
