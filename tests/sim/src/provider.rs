//! The provider itself: it listens, decides what becomes of each request, answers, and remembers.
//!
//! Each process gets a base URL of its own ([`Provider::base_url`]), whose first segment is the name of the process: so
//! a request is known to be of a process that was killed, whatever the client sends.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::answer::{Answered, Call};
use crate::behavior::{Behavior, Fault};
use crate::dialect::Dialect;
use crate::http::{Head, reply};
use crate::limits::Used;
use crate::oracle::Oracle;
use crate::report::{Ask, Report};

/// How often a request that hangs looks whether its peer is still there.
const LOOK: Duration = Duration::from_millis(100);

/// A running provider; it ends with this value.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What a provider is started with.
#[derive(Default)]
pub struct Setup {
    /// How it behaves.
    pub behavior: Behavior,
    /// What it knows.
    pub oracle: Oracle,
    /// The port of the loopback address; 0: any that is free.
    pub port: u16,
    /// Where each request is written to, a line of JSON each, with the texts of its question.
    pub record: Option<File>,
}

pub(crate) struct Shared {
    oracle: Oracle,
    state: Mutex<State>,
}

struct State {
    behavior: Behavior,
    record: Option<File>,
    asks: Vec<Ask>,
    servings: HashMap<blake3::Hash, u32>,
    /// Good answers, so that each is found once.
    answers: HashMap<blake3::Hash, Arc<Answered>>,
    used: Used,
    in_flight: HashSet<usize>,
    peak: usize,
}

impl Provider {
    /// Starts one that knows no document, on a free port of the loopback address.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(behavior: Behavior) -> Result<Self> {
        Self::set_up(Setup {
            behavior,
            ..Setup::default()
        })
        .await
    }

    /// Starts one on the loopback address.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn set_up(setup: Setup) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", setup.port)).await?;
        let address = listener.local_addr()?;
        let state = State {
            behavior: setup.behavior,
            record: setup.record,
            asks: Vec::new(),
            servings: HashMap::new(),
            answers: HashMap::new(),
            used: Used::default(),
            in_flight: HashSet::new(),
            peak: 0,
        };
        let shared = Arc::new(Shared {
            oracle: setup.oracle,
            state: Mutex::new(state),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
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
        let mut state = self.shared.state();
        state.answers.clear();
        state.behavior = behavior;
    }

    /// Requests that arrived and have no complete reply yet.
    pub fn in_flight(&self) -> usize {
        self.shared.state().in_flight.len()
    }

    /// How many requests there were so far.
    pub fn asked(&self) -> usize {
        self.shared.state().asks.len()
    }

    /// Every request so far, by arrival.
    pub fn asks(&self) -> Vec<Ask> {
        self.shared.state().asks.clone()
    }

    /// What came of all requests so far.
    pub fn report(&self) -> Report {
        self.shared.report()
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

    fn report(&self) -> Report {
        let state = self.state();
        Report::of(&state.asks, &state.behavior.limits, state.peak)
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
        // Neither costs anything, so neither counts. A provider without a list of models serves any.
        let told = match head
            .word(1)
            .rsplit('/')
            .next()
            .filter(|_| head.word(0) == "GET")
        {
            Some("report") => Some(serde_json::to_vec_pretty(&shared.report())?),
            Some("models") => Some(br#"{"object":"list","data":[]}"#.to_vec()),
            _ => None,
        };
        if let Some(told) = told {
            stream
                .get_mut()
                .write_all(&reply(200, "", "application/json", &told))
                .await?;
            continue;
        }
        let call = Call::of(&head, &body);
        let turn = Turn::begin(&shared, &call, &head, peer);
        if !turn.serve(&call, stream.get_mut()).await? {
            break;
        }
    }
    Ok(())
}

/// Whether the other side has closed; nothing is written to it then.
async fn gone(stream: &TcpStream) -> bool {
    matches!(
        timeout(Duration::from_millis(1), stream.peek(&mut [0])).await,
        Ok(Ok(0) | Err(_))
    )
}

/// One request; in flight until dropped.
struct Turn<'a> {
    shared: &'a Shared,
    number: usize,
    serving: u32,
    behavior: Behavior,
    fate: Fate,
}

/// What is decided about a request when it arrives.
enum Fate {
    /// Nobody is there.
    Outage,
    /// It came too soon.
    Throttled(Duration),
    /// It is answered, perhaps badly, with this.
    Served(Option<Fault>, Arc<Answered>),
}

impl Fate {
    /// The status that is meant for it, while it has none; 0 where nobody will answer.
    fn status(&self) -> u16 {
        match self {
            Self::Outage => 0,
            Self::Throttled(_) => 429,
            Self::Served(..) => 200,
        }
    }
}

impl<'a> Turn<'a> {
    fn begin(shared: &'a Shared, call: &Call, head: &Head, peer: SocketAddr) -> Self {
        let answered = shared.answered(call);
        let now = Instant::now();
        let mut state = shared.state();
        let behavior = state.behavior.clone();
        let since = state
            .asks
            .first()
            .map_or(Duration::ZERO, |first| now.duration_since(first.arrived));
        let mut serving = 0;
        let fate = if behavior.outage.is_some_and(|outage| outage.covers(since)) {
            Fate::Outage
        } else if let Err(wait) = state.used.admit(&behavior.limits, answered.tokens(), now) {
            Fate::Throttled(wait)
        } else {
            let servings = state.servings.entry(call.digest).or_default();
            *servings += 1;
            serving = *servings;
            Fate::Served(
                behavior
                    .faults
                    .of(behavior.seed, call.digest.as_bytes(), serving),
                answered.clone(),
            )
        };
        // The URL knows better: a client may name itself differently from who started it.
        let named = head
            .header("x-stemma-process")
            .filter(|_| head.word(1).starts_with("/v1/"))
            .map(str::to_string);
        let ask = Ask {
            digest: call.digest,
            process: named
                .unwrap_or_else(|| head.word(1).split('/').nth(1).unwrap_or_default().into()),
            peer,
            arrived: now,
            delivered: None,
            status: fate.status(),
            stage: call.stage(),
            outcome: "waiting",
            prompt_tokens: answered.prompt_tokens,
            output_tokens: answered.output_tokens,
            sections: call.sections(),
        };
        state.asks.push(ask);
        let number = state.asks.len() - 1;
        state.in_flight.insert(number);
        state.peak = state.peak.max(state.in_flight.len());
        drop(state);
        Self {
            shared,
            number,
            serving,
            behavior,
            fate,
        }
    }

    /// Answers; `false` where the connection has ended with it.
    async fn serve(&self, call: &Call, stream: &mut TcpStream) -> Result<bool> {
        let seed = self.behavior.seed;
        let dialect = call.dialect;
        let (outcome, status, bytes) = match &self.fate {
            Fate::Outage => match self.behavior.outage.and_then(|outage| outage.status) {
                Some(status) => ("outage", status, self.error(dialect, status, None)),
                None => return self.reset(call, "outage", stream, &[]).await,
            },
            Fate::Throttled(wait) => ("throttled", 429, self.error(dialect, 429, Some(*wait))),
            Fate::Served(fault, answered) => {
                let hangs = *fault == Some(Fault::Hang);
                sleep(
                    self.behavior
                        .latency
                        .of(seed, call.digest.as_bytes(), self.serving),
                )
                .await;
                while hangs && !gone(stream).await {
                    sleep(LOOK).await;
                }
                match fault {
                    Some(Fault::Hang) => return self.reset(call, "hang", stream, &[]).await,
                    Some(Fault::Error) => {
                        let status = [500, 502, 503, 529][self.serving as usize % 4];
                        ("error", status, self.error(dialect, status, None))
                    }
                    fault => {
                        let (outcome, status, value) = call.reply(answered, *fault, seed);
                        let bytes = reply(
                            status,
                            &self.headers(dialect, None),
                            "application/json",
                            value.to_string().as_bytes(),
                        );
                        if *fault == Some(Fault::Reset) {
                            return self
                                .reset(call, "reset", stream, &bytes[..bytes.len() / 2])
                                .await;
                        }
                        (outcome, status, bytes)
                    }
                }
            }
        };
        if self.has_failed_since() {
            return self.reset(call, "outage", stream, &[]).await;
        }
        let is_there = !gone(stream).await;
        if is_there {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
        }
        self.ended(
            call,
            if is_there { outcome } else { "left" },
            status,
            is_there.then(Instant::now),
        );
        Ok(true)
    }

    /// Whether an outage began while this was being answered.
    fn has_failed_since(&self) -> bool {
        let state = self.shared.state();
        let first = state
            .asks
            .first()
            .map(|first| first.arrived.elapsed())
            .unwrap_or_default();
        !matches!(self.fate, Fate::Outage)
            && self
                .behavior
                .outage
                .is_some_and(|outage| outage.covers(first))
    }

    async fn reset(
        &self,
        call: &Call,
        outcome: &'static str,
        stream: &mut TcpStream,
        begin: &[u8],
    ) -> Result<bool> {
        self.ended(call, outcome, 0, None);
        stream.write_all(begin).await?;
        stream.flush().await?;
        stream.set_zero_linger()?;
        Ok(false)
    }

    fn error(&self, dialect: Dialect, status: u16, pause: Option<Duration>) -> Vec<u8> {
        let message = if status == 429 {
            "too many requests, come again later"
        } else {
            "the provider has trouble"
        };
        let headers = self.headers(dialect, pause);
        reply(
            status,
            &headers,
            "application/json",
            dialect.error(status, message).to_string().as_bytes(),
        )
    }

    fn headers(&self, dialect: Dialect, pause: Option<Duration>) -> String {
        let limits = &self.behavior.limits;
        let remaining = self.shared.state().used.remaining(limits, Instant::now());
        dialect.headers(remaining, pause, limits.told)
    }

    fn ended(&self, call: &Call, outcome: &'static str, status: u16, delivered: Option<Instant>) {
        let mut state = self.shared.state();
        let ask = &mut state.asks[self.number];
        (ask.outcome, ask.status, ask.delivered) = (outcome, status, delivered);
        let ask = ask.clone();
        let first = state.asks[0].arrived;
        if let Some(file) = &mut state.record {
            let said = match &self.fate {
                Fate::Served(_, answered) => Some(answered.text()),
                _ => None,
            };
            let line = call.record(&ask, self.number, self.serving, first, said);
            // Whoever reads the record finds fewer lines than calls.
            let _ = writeln!(file, "{line}");
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shared.state().in_flight.remove(&self.number);
    }
}

impl Shared {
    /// The good answer to a call, found once.
    fn answered(&self, call: &Call) -> Arc<Answered> {
        let known = self.state().answers.get(&call.digest).cloned();
        if let Some(answered) = known.filter(|_| !call.goes_on()) {
            return answered;
        }
        let behavior = self.state().behavior.clone();
        let answered = Arc::new(call.answered(&self.oracle, &behavior));
        if !call.goes_on() {
            self.state()
                .answers
                .insert(call.digest, Arc::clone(&answered));
        }
        answered
    }
}

#[cfg(test)]
mod tests;
