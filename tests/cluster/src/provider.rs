//! A simulated provider of models: `POST /v1/chat/completions` as OpenAI's, answered by the [echo model](crate::echo),
//! as slowly and as badly as a test wants, and remembering every request.
//!
//! Each process gets a base URL of its own ([`Provider::base_url`]), whose first segment is the name of the process: so
//! a request is known to be of a process that was killed, whatever the client sends.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::asked::Ask;
use crate::echo;
use crate::http::{Head, reply};

/// The span in which `requests_per_minute` is counted.
const MINUTE: Duration = Duration::from_secs(60);

/// How the provider behaves. Shares are of requests, from 0 to 1; which request is hit depends on the seed, on what it
/// asks and how often that was asked before.
#[derive(Debug, Clone, PartialEq)]
pub struct Behavior {
    /// Time of every reply.
    pub latency: Duration,
    /// Up to so much more.
    pub jitter: Duration,
    /// More in any 60 seconds are answered 429 with `Retry-After`.
    pub requests_per_minute: Option<usize>,
    /// Answered 500, 503 or 529.
    pub errors: f64,
    /// Answered after `slowness` more.
    pub slow: f64,
    /// How much more.
    pub slowness: Duration,
    /// Never answered.
    pub hangs: f64,
    /// For everything that chance decides.
    pub seed: u64,
}

impl Default for Behavior {
    /// At once, always, without limit.
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            requests_per_minute: None,
            errors: 0.0,
            slow: 0.0,
            slowness: Duration::ZERO,
            hangs: 0.0,
            seed: 0,
        }
    }
}

/// A running provider; it ends with this value.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    behavior: Behavior,
    asks: Vec<Ask>,
    times: HashMap<blake3::Hash, u64>,
    /// Arrivals within the last minute that were let through.
    admitted: VecDeque<Instant>,
    in_flight: usize,
}

impl Provider {
    /// Starts one on a free port of the loopback address.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(behavior: Behavior) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state =
            State { behavior, asks: Vec::new(), times: HashMap::new(), admitted: VecDeque::new(), in_flight: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// What a process of this name is configured with.
    pub fn base_url(&self, process: &str) -> String {
        format!("http://{}/{process}/v1", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Behaves differently from the next request on.
    pub fn behave(&self, behavior: Behavior) {
        self.shared.state().behavior = behavior;
    }

    /// Requests that arrived and have no complete reply yet.
    pub fn in_flight(&self) -> usize {
        self.shared.state().in_flight
    }

    /// How many requests there were so far.
    pub fn asked(&self) -> usize {
        self.shared.state().asks.len()
    }

    /// Every request so far, by arrival.
    pub fn asks(&self) -> Vec<Ask> {
        self.shared.state().asks.clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// What a panicking connection left behind is still whole: every change is one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, peer)) = listener.accept().await {
        connections.spawn(serve(stream, peer, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection until it ends; what is wrong with it is its sender's matter.
async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(head) = Head::read(&mut stream).await? {
        let body = head.body(&mut stream).await?;
        let turn = Turn::begin(&shared, &head, &body, peer);
        let bytes = turn.answer(head.word(0), head.word(1), &body).await;
        if !gone(stream.get_ref()).await {
            stream.get_mut().write_all(&bytes).await?;
            stream.get_mut().flush().await?;
            turn.delivered();
        }
    }
    Ok(())
}

/// Whether the other side has closed; nothing is written to it then.
async fn gone(stream: &TcpStream) -> bool {
    matches!(timeout(Duration::from_millis(1), stream.peek(&mut [0])).await, Ok(Ok(0) | Err(_)))
}

/// One request; in flight until dropped.
struct Turn<'a> {
    shared: &'a Shared,
    number: usize,
    /// What is decided about it.
    fate: Fate,
}

struct Fate {
    status: u16,
    wait: Duration,
    retry_after: Option<Duration>,
    hangs: bool,
}

impl<'a> Turn<'a> {
    fn begin(shared: &'a Shared, head: &Head, body: &[u8], peer: SocketAddr) -> Self {
        let mut state = shared.state();
        let digest = blake3::hash(body);
        let time = state.times.entry(digest).or_default();
        *time += 1;
        let time = *time;
        let fate = state.fate(digest, time);
        let named = head.header("x-stemma-process").filter(|_| head.word(1).starts_with("/v1/"));
        let process = named.unwrap_or_else(|| head.word(1).split('/').nth(1).unwrap_or_default()).to_string();
        let ask = Ask { digest, process, peer, arrived: Instant::now(), delivered: None, status: fate.status };
        state.asks.push(ask);
        state.in_flight += 1;
        Self { shared, number: state.asks.len() - 1, fate }
    }

    async fn answer(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        if self.fate.hangs {
            std::future::pending::<()>().await;
        }
        sleep(self.fate.wait).await;
        let path_ok = path.ends_with("/v1/chat/completions");
        let (status, headers, value) = match self.fate.status {
            _ if method != "POST" || !path_ok => (404, String::new(), error("not_found", "there is no such path")),
            200 => match serde_json::from_slice(body).map_err(|e| e.to_string()).and_then(|body| echo::answer(&body)) {
                Ok(value) => (200, String::new(), value),
                Err(message) => (400, String::new(), error("invalid_request_error", &message)),
            },
            429 => {
                let seconds = self.fate.retry_after.unwrap_or_default().as_secs_f64().ceil();
                (429, format!("retry-after: {seconds}\r\n"), error("rate_limit_exceeded", "too many requests"))
            }
            status => (status, String::new(), error("server_error", "the provider has trouble")),
        };
        if status != self.fate.status {
            self.shared.state().asks[self.number].status = status;
        }
        reply(status, &headers, "application/json", value.to_string().as_bytes())
    }

    /// The whole reply is with the peer's system.
    fn delivered(&self) {
        self.shared.state().asks[self.number].delivered = Some(Instant::now());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shared.state().in_flight -= 1;
    }
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": code, "param": null, "code": code}})
}

impl State {
    /// What becomes of the `time`-th request of this digest.
    fn fate(&mut self, digest: blake3::Hash, time: u64) -> Fate {
        let mut hasher = blake3::Hasher::new();
        hasher.update(digest.as_bytes()).update(&time.to_le_bytes()).update(&self.behavior.seed.to_le_bytes());
        let mut dice = hasher.finalize_xof();
        let mut chance = || {
            let mut bytes = [0; 4];
            dice.fill(&mut bytes);
            f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
        };
        let behavior = &self.behavior;
        let (jitter, erring, slow, hangs, which) = (chance(), chance(), chance(), chance(), chance());
        let mut wait = behavior.latency + behavior.jitter.mul_f64(jitter);
        if slow < behavior.slow {
            wait += behavior.slowness;
        }
        let status = if erring < behavior.errors { [500, 503, 529][(which * 2.99) as usize] } else { 200 };
        let hangs = hangs < behavior.hangs;
        match self.over_limit() {
            Some(after) => Fate { status: 429, wait: Duration::ZERO, retry_after: Some(after), hangs: false },
            None => Fate { status, wait, retry_after: None, hangs },
        }
    }

    /// How long a request has to stay away; counts it where it need not.
    fn over_limit(&mut self) -> Option<Duration> {
        let limit = self.behavior.requests_per_minute?;
        let now = Instant::now();
        while self.admitted.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            self.admitted.pop_front();
        }
        if self.admitted.len() < limit {
            self.admitted.push_back(now);
            return None;
        }
        self.admitted.front().map(|oldest| MINUTE.saturating_sub(now.duration_since(*oldest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange;

    async fn post(provider: &Provider, process: &str, text: &str) -> (u16, Value) {
        let body = json!({"model": "echo", "messages": [{"role": "user", "content": text}]}).to_string();
        let request = format!(
            "POST /{process}/v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(provider.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(stream);
        let head = Head::read(&mut stream).await.unwrap().unwrap();
        let body = head.body(&mut stream).await.unwrap();
        (head.word(1).parse().unwrap(), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn it_answers_and_remembers_who_asked_what() {
        let provider = Provider::start(Behavior::default()).await.unwrap();
        assert_eq!(provider.base_url("worker-1"), format!("http://{}/worker-1/v1", provider.address()));
        let (status, value) = post(&provider, "worker-1", "say this").await;
        assert_eq!((status, value["choices"][0]["message"]["content"].as_str()), (200, Some("say this")));
        post(&provider, "worker-2", "say this").await;
        let asks = provider.asks();
        assert_eq!(asks.iter().map(|ask| ask.process.as_str()).collect::<Vec<_>>(), ["worker-1", "worker-2"]);
        assert_eq!(asks[0].digest, asks[1].digest);
        assert!(asks.iter().all(|ask| ask.delivered.is_some_and(|at| at >= ask.arrived)));
        assert_eq!((provider.in_flight(), provider.asked()), (0, 2));
    }

    #[tokio::test]
    async fn it_limits_requests_and_says_when_to_come_again() {
        let behavior = Behavior { requests_per_minute: Some(3), ..Behavior::default() };
        let provider = Provider::start(behavior).await.unwrap();
        let mut statuses = Vec::new();
        for n in 0..5 {
            statuses.push(post(&provider, "w", &n.to_string()).await.0);
        }
        assert_eq!(statuses, [200, 200, 200, 429, 429]);
        let request = b"POST /w/v1/chat/completions HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
        let reply = timeout(Duration::from_millis(300), exchange(provider.address(), request)).await;
        assert!(reply.is_err(), "the connection stays open");
        let body = "x";
        let mut stream = BufReader::new(TcpStream::connect(provider.address()).await.unwrap());
        let request = format!("POST /w/v1/chat/completions HTTP/1.1\r\ncontent-length: 1\r\n\r\n{body}");
        stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        let head = Head::read(&mut stream).await.unwrap().unwrap();
        let after: u64 = head.header("retry-after").unwrap().parse().unwrap();
        assert!((50..=60).contains(&after), "{after}");
    }

    #[tokio::test]
    async fn trouble_is_a_matter_of_the_seed() {
        let statuses = async |seed| {
            let provider = Provider::start(Behavior { errors: 0.5, seed, ..Behavior::default() }).await.unwrap();
            let mut statuses = Vec::new();
            for n in 0..20 {
                statuses.push(post(&provider, "w", &n.to_string()).await.0);
            }
            statuses
        };
        let first = statuses(1).await;
        assert_eq!(first, statuses(1).await);
        assert_ne!(first, statuses(2).await);
        assert!(first.contains(&200) && first.iter().any(|status| *status >= 500));
    }

    #[tokio::test]
    async fn a_peer_that_left_got_no_reply() {
        let behavior = Behavior { latency: Duration::from_millis(200), ..Behavior::default() };
        let provider = Provider::start(behavior).await.unwrap();
        let left = timeout(Duration::from_millis(50), post(&provider, "w", "never mind")).await;
        assert!(left.is_err());
        assert_eq!(provider.in_flight(), 1);
        sleep(Duration::from_millis(400)).await;
        assert_eq!(provider.in_flight(), 0);
        assert_eq!(provider.asks()[0].delivered, None);
    }
}
