//! What every request passes: its key, a place among a bounded number, a time limit; and what every answer passes: a
//! name in the log where something went wrong.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use stemma_engine::Env;

use super::QuerySettings;
use super::accept::Accept;
use super::keys::{Closed, Keys};
use super::openai;
use super::problem::Problem;
use super::stay::{Places, Stay};
use super::visitors::Visitors;

/// Decides which requests are answered.
pub(super) struct Gate {
    env: Env,
    keys: Keys,
    /// Of requests that are answered at once.
    short: Places,
    /// Of those that take long, most of which wait for a model: they keep no one else waiting.
    long: Places,
    /// Whether anyone who can connect may write: where no keys are, and only this machine connects.
    open: bool,
    /// Who may come without a key; `None`: keys decide, or others were let in on purpose.
    visitors: Option<Visitors>,
    /// The largest request body in bytes.
    pub(super) max_body_bytes: usize,
}

impl Gate {
    pub(super) fn new(
        env: Env,
        keys: Keys,
        open: bool,
        visitors: &Visitors,
        settings: &QuerySettings,
    ) -> Arc<Self> {
        let places =
            |places, seconds: u64| Places::new(places, Duration::from_secs(seconds.max(1)));
        let short = places(settings.concurrency, settings.timeout_seconds);
        let long = places(settings.answers, settings.answer_timeout_seconds);
        let visitors = (open && keys.is_empty()).then(|| visitors.clone());
        Arc::new(Self {
            env,
            keys,
            short,
            long,
            open,
            visitors,
            max_body_bytes: settings.max_body_bytes,
        })
    }

    async fn answer(&self, mut request: Request, next: Next) -> Result<Response, Problem> {
        if let Some(visitors) = &self.visitors {
            visitors.welcome(&request)?;
        }
        let rights = self
            .keys
            .rights(key_of(&request), self.open, self.env.now_ms())
            .map_err(refused)?;
        let stay = Stay::begin(rights, &self.short, &self.long).await?;
        request.extensions_mut().insert(stay.clone());
        let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
        let answered = stay.within(answer).await;
        // A body that is told piece by piece holds what it needs itself: who reads slowly keeps no one waiting.
        stay.leave();
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
                Err(Problem::new(503, "request.timeout", detail).next(next))
            }
        }
    }

    /// 32 hexadecimal digits: the caller's trace where it sent one, else random.
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

/// The key of a request: as bearer, or in the header of the PageIndex dialect.
fn key_of(request: &Request) -> Option<&str> {
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

/// Why a key does not open.
fn refused(closed: Closed) -> Problem {
    match closed {
        Closed::Unknown => Problem::new(
            401,
            "key.unknown",
            "a key is needed, and this is none of them",
        )
        .next("send `Authorization: Bearer KEY`"),
        Closed::Scope => Problem::new(
            403,
            "key.scope",
            "this key may not read: it lacks the scope `read`",
        )
        .next("give it the scope `read` in query.keys"),
        Closed::Spent(seconds) => {
            let detail = "this key has made all the requests it may make in a minute";
            Problem::new(429, "key.spent", detail)
                .next(format!("ask again in {seconds} s"))
                .retry_after(seconds)
        }
    }
}

/// Lets a request through, and names what went wrong.
pub(super) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let trace_id = gate.trace_id(&request);
    let openai = openai::speaks(request.uri().path());
    // Its clients say that they accept JSON, and ask for streams.
    let accept = if openai {
        Accept::all()
    } else {
        Accept::of(request.headers())
    };
    let mut response = gate
        .answer(request, next)
        .await
        .unwrap_or_else(Problem::into_response);
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if response.status().is_success() && !kind.is_none_or(|kind| accept.takes(kind)) {
        response = Problem::new(
            406,
            "answer.type",
            "the answer is of no type that is accepted",
        )
        .into_response();
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.is_ours() {
            tracing::warn!(
                trace_id,
                code = problem.code(),
                cause = problem.cause(),
                "a request was not answered"
            );
        }
        let beside = response.headers().get(header::ALLOW).cloned();
        let problem = problem.named(trace_id);
        let said = openai.then(|| problem.as_openai());
        response = problem.into_response();
        if let Some(said) = said {
            *response.body_mut() =
                axum::body::Body::from(serde_json::to_vec(&said).unwrap_or_default());
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
    metrics::histogram!("stemma_http_seconds").record(began.elapsed().as_secs_f64());
    response
}
