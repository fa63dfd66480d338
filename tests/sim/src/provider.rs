//! The provider: listens, decides the fate of each request, replies, and keeps records.
//!
//! Each process has its own base URL ([`Provider::base_url`]) with its name as the first segment, so requests
//! of a killed process can be recognized whatever the client sends.

use std::collections::{BTreeMap, HashMap, HashSet};
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

use crate::answer::{PreparedAnswer, ProviderCall};
use crate::batches::{self, BatchReply, Batches};
use crate::behavior::{Behavior, ReplyFault};
use crate::dialect::WireDialect;
use crate::http::{HttpHead, reply};
use crate::images::ImageTexts;
use crate::limits::LimitUsage;
use crate::oracle::Oracle;
use crate::report::{ProviderReport, RequestRecord};

// How often a request that hangs or is held back checks whether its peer is still connected.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A running provider. Dropping it stops the server.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<ProviderShared>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
pub struct Setup {
    pub behavior: Behavior,
    pub oracle: Oracle,
    /// Port on the loopback address; 0 for any free one.
    pub port: u16,
    /// Receives one line of JSON per request, with the texts of its question.
    pub record: Option<File>,
}

pub(crate) struct ProviderShared {
    oracle: Oracle,
    state: Mutex<ProviderState>,
    pub(crate) batches: Batches,
}

struct ProviderState {
    behavior: Behavior,
    images: Arc<ImageTexts>,
    record: Option<File>,
    requests: Vec<RequestRecord>,
    servings: HashMap<blake3::Hash, u32>,
    // Answers by question, so that each is computed once.
    answers: HashMap<blake3::Hash, Arc<PreparedAnswer>>,
    // Questions answered in batches.
    batched: HashSet<blake3::Hash>,
    usage: LimitUsage,
    in_flight: HashSet<usize>,
    peak: usize,
    // Replies that were begun, and how many may be.
    replies: usize,
    max_replies: usize,
    // The keys that are accepted; `None`: all.
    accepted_keys: Option<Vec<String>>,
    // Requests by key; those with other keys are refused.
    requests_by_key: BTreeMap<String, usize>,
}

impl Provider {
    /// Starts a provider without documents, on a free port of the loopback address.
    ///
    /// # Errors
    /// No port is available.
    pub async fn start(behavior: Behavior) -> Result<Self> {
        Self::start_with(Setup {
            behavior,
            ..Setup::default()
        })
        .await
    }

    /// Starts a provider on the loopback address.
    ///
    /// # Errors
    /// No port is available.
    pub async fn start_with(setup: Setup) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", setup.port)).await?;
        let address = listener.local_addr()?;
        let state = ProviderState {
            behavior: setup.behavior,
            images: Arc::default(),
            record: setup.record,
            requests: Vec::new(),
            servings: HashMap::new(),
            answers: HashMap::new(),
            batched: HashSet::new(),
            usage: LimitUsage::default(),
            in_flight: HashSet::new(),
            peak: 0,
            replies: 0,
            max_replies: usize::MAX,
            accepted_keys: None,
            requests_by_key: BTreeMap::new(),
        };
        let shared = Arc::new(ProviderShared {
            oracle: setup.oracle,
            state: Mutex::new(state),
            batches: Batches::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// The base URL for the configuration of a process.
    pub fn base_url(&self, process: &str) -> String {
        format!("http://{}/{process}/v1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behavior from the next request on.
    pub fn set_behavior(&self, behavior: Behavior) {
        let mut state = self.shared.state();
        state.answers.clear();
        state.behavior = behavior;
    }

    /// Withholds replies once there were so many, until the number is raised.
    pub fn limit_replies(&self, max_replies: usize) {
        self.shared.state().max_replies = max_replies;
    }

    /// Refuses requests with other keys from now on.
    pub fn accept_keys(&self, keys: &[&str]) {
        let keys = keys.iter().map(ToString::to_string).collect();
        self.shared.state().accepted_keys = Some(keys);
    }

    /// How many requests came with each key, accepted or not.
    pub fn requests_by_key(&self) -> BTreeMap<String, usize> {
        self.shared.state().requests_by_key.clone()
    }

    /// Says what an image with these bytes shows.
    pub fn add_image(&self, image: &[u8], text: &str) {
        let mut state = self.shared.state();
        state.answers.clear();
        Arc::make_mut(&mut state.images).add(image, text);
    }

    /// Requests without a complete reply.
    pub fn in_flight(&self) -> usize {
        self.shared.state().in_flight.len()
    }

    pub fn request_count(&self) -> usize {
        self.shared.state().requests.len()
    }

    /// All requests, by arrival.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.state().requests.clone()
    }

    /// Totals of all requests.
    pub fn report(&self) -> ProviderReport {
        self.shared.report()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ProviderShared {
    // A panic of a connection cannot leave the state inconsistent, because every change is one assignment.
    fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accepts(&self, head: &HttpHead) -> bool {
        let bearer = head.header("authorization");
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let key = bearer.or(head.header("x-api-key")).unwrap_or_default();
        let mut state = self.state();
        *state.requests_by_key.entry(key.into()).or_default() += 1;
        let accepted = state.accepted_keys.as_ref();
        accepted.is_none_or(|keys| keys.iter().any(|accepted| accepted == key))
    }

    fn report(&self) -> ProviderReport {
        let state = self.state();
        let limits = &state.behavior.limits;
        ProviderReport {
            batches: self.batches.totals(),
            ..ProviderReport::from_requests(&state.requests, limits, state.peak)
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProviderShared>) {
    // Dropping the set with this task closes the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, peer)) = listener.accept().await {
        connections.spawn(serve(stream, peer, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

// Serves one connection until it ends. Its errors concern the client only.
async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<ProviderShared>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(head) = HttpHead::read(&mut stream).await? {
        let body = head.body(&mut stream).await?;
        // Neither path costs anything, so neither is counted. A provider without a list of models serves any
        // model.
        let document = match head
            .start_line_word(1)
            .rsplit('/')
            .next()
            .filter(|_| head.start_line_word(0) == "GET")
        {
            Some("report") => Some(serde_json::to_vec_pretty(&shared.report())?),
            Some("models") => Some(br#"{"object":"list","data":[]}"#.to_vec()),
            _ => None,
        };
        if let Some(document) = document {
            stream
                .get_mut()
                .write_all(&reply(200, "", "application/json", &document))
                .await?;
            continue;
        }
        if !shared.accepts(&head) {
            let refusal =
                br#"{"error":{"code":"invalid_api_key","message":"the key is not known"}}"#;
            let refusal = reply(401, "", "application/json", refusal);
            stream.get_mut().write_all(&refusal).await?;
            continue;
        }
        if let Some(batch_reply) = batches::serve(&shared, &head, &body) {
            let bytes = match batch_reply {
                BatchReply::Json(status, value) => {
                    reply(status, "", "application/json", value.to_string().as_bytes())
                }
                BatchReply::Lines(lines) => reply(200, "", "application/x-jsonl", &lines),
                BatchReply::Lost => break,
            };
            stream.get_mut().write_all(&bytes).await?;
            continue;
        }
        let call = ProviderCall::from_request(&head, &body);
        let turn = InFlightRequest::begin(&shared, &call, &head, peer);
        if !turn.serve(&call, stream.get_mut()).await? {
            break;
        }
    }
    Ok(())
}

// Whether the peer has closed; then nothing is written to it.
async fn is_closed(stream: &TcpStream) -> bool {
    matches!(
        timeout(Duration::from_millis(1), stream.peek(&mut [0])).await,
        Ok(Ok(0) | Err(_))
    )
}

// Counts as in flight until dropped.
struct InFlightRequest<'a> {
    shared: &'a ProviderShared,
    number: usize,
    serving: u32,
    behavior: Behavior,
    fate: ReplyPlan,
}

// The decision about a request at its arrival.
enum ReplyPlan {
    // Not available.
    Outage,
    // Rate limited.
    Throttled(Duration),
    // Answered, possibly with a fault.
    Served(Option<ReplyFault>, Arc<PreparedAnswer>),
}

impl ReplyPlan {
    // The intended status; 0 if there is no reply.
    fn status(&self) -> u16 {
        match self {
            Self::Outage => 0,
            Self::Throttled(_) => 429,
            Self::Served(..) => 200,
        }
    }
}

impl<'a> InFlightRequest<'a> {
    fn begin(
        shared: &'a ProviderShared,
        call: &ProviderCall,
        head: &HttpHead,
        peer: SocketAddr,
    ) -> Self {
        let answered = shared.answer_for(call);
        let now = Instant::now();
        let mut state = shared.state();
        let behavior = state.behavior.clone();
        let since = state
            .requests
            .first()
            .map_or(Duration::ZERO, |first| now.duration_since(first.arrived));
        let mut serving = 0;
        let fate = if behavior.outage.is_some_and(|outage| outage.covers(since)) {
            ReplyPlan::Outage
        } else if let Err(wait) = state.usage.admit(&behavior.limits, answered.tokens(), now) {
            ReplyPlan::Throttled(wait)
        } else {
            let servings = state.servings.entry(call.digest).or_default();
            *servings += 1;
            serving = *servings;
            ReplyPlan::Served(
                behavior
                    .faults
                    .fault_for(behavior.seed, call.digest.as_bytes(), serving),
                answered.clone(),
            )
        };
        // The URL identifies the process that was started; the client may send another name.
        let process_header = head
            .header("x-stemma-process")
            .filter(|_| head.start_line_word(1).starts_with("/v1/"))
            .map(str::to_string);
        let ask = RequestRecord {
            digest: call.digest,
            process: process_header.unwrap_or_else(|| {
                head.start_line_word(1)
                    .split('/')
                    .nth(1)
                    .unwrap_or_default()
                    .into()
            }),
            peer,
            arrived: now,
            delivered: None,
            status: fate.status(),
            stage: call.stage(),
            outcome: "waiting",
            prompt_tokens: answered.prompt_tokens,
            output_tokens: answered.output_tokens,
            sections: call.sections(),
            images: call.images(),
        };
        state.requests.push(ask);
        let number = state.requests.len() - 1;
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

    // Replies. Returns `false` if the connection has ended.
    async fn serve(&self, call: &ProviderCall, stream: &mut TcpStream) -> Result<bool> {
        let seed = self.behavior.seed;
        let dialect = call.dialect;
        let (outcome, status, bytes) = match &self.fate {
            ReplyPlan::Outage => match self.behavior.outage.and_then(|outage| outage.status) {
                Some(status) => ("outage", status, self.error(dialect, status, None)),
                None => return self.reset(call, "outage", stream, &[]).await,
            },
            ReplyPlan::Throttled(wait) => ("throttled", 429, self.error(dialect, 429, Some(*wait))),
            ReplyPlan::Served(fault, answered) => {
                let hangs = *fault == Some(ReplyFault::Hang);
                sleep(
                    self.behavior
                        .latency
                        .sample(seed, call.digest.as_bytes(), self.serving),
                )
                .await;
                while (hangs || !self.may_reply()) && !is_closed(stream).await {
                    sleep(PEER_CHECK_INTERVAL).await;
                }
                match fault {
                    Some(ReplyFault::Hang) => return self.reset(call, "hang", stream, &[]).await,
                    Some(ReplyFault::Error) => {
                        let status = [500, 502, 503, 529][self.serving as usize % 4];
                        ("error", status, self.error(dialect, status, None))
                    }
                    fault => {
                        let (outcome, status, value) = call.reply(answered, *fault, &self.behavior);
                        let bytes = reply(
                            status,
                            &self.headers(dialect, None),
                            "application/json",
                            value.to_string().as_bytes(),
                        );
                        if *fault == Some(ReplyFault::Reset) {
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
        let is_there = !is_closed(stream).await;
        if is_there {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
        }
        self.record_end(
            call,
            if is_there { outcome } else { "left" },
            status,
            is_there.then(Instant::now),
        );
        Ok(true)
    }

    fn may_reply(&self) -> bool {
        let mut state = self.shared.state();
        let may_reply = state.replies < state.max_replies;
        state.replies += usize::from(may_reply);
        may_reply
    }

    // Whether an outage began during the reply.
    fn has_failed_since(&self) -> bool {
        let state = self.shared.state();
        let first = state
            .requests
            .first()
            .map(|first| first.arrived.elapsed())
            .unwrap_or_default();
        !matches!(self.fate, ReplyPlan::Outage)
            && self
                .behavior
                .outage
                .is_some_and(|outage| outage.covers(first))
    }

    async fn reset(
        &self,
        call: &ProviderCall,
        outcome: &'static str,
        stream: &mut TcpStream,
        begin: &[u8],
    ) -> Result<bool> {
        self.record_end(call, outcome, 0, None);
        stream.write_all(begin).await?;
        stream.flush().await?;
        stream.set_zero_linger()?;
        Ok(false)
    }

    fn error(&self, dialect: WireDialect, status: u16, pause: Option<Duration>) -> Vec<u8> {
        let message = if status == 429 {
            "too many requests, retry later"
        } else {
            "internal provider error"
        };
        let headers = self.headers(dialect, pause);
        reply(
            status,
            &headers,
            "application/json",
            dialect.error(status, message).to_string().as_bytes(),
        )
    }

    fn headers(&self, dialect: WireDialect, pause: Option<Duration>) -> String {
        let limits = &self.behavior.limits;
        let remaining = self.shared.state().usage.remaining(limits, Instant::now());
        dialect.headers(remaining, pause, limits.headers)
    }

    fn record_end(
        &self,
        call: &ProviderCall,
        outcome: &'static str,
        status: u16,
        delivered: Option<Instant>,
    ) {
        let mut state = self.shared.state();
        let ask = &mut state.requests[self.number];
        (ask.outcome, ask.status, ask.delivered) = (outcome, status, delivered);
        let ask = ask.clone();
        let first = state.requests[0].arrived;
        if let Some(file) = &mut state.record {
            let answer_text = match &self.fate {
                ReplyPlan::Served(_, answered) => Some(answered.text()),
                _ => None,
            };
            let line = call.record(&ask, self.number, self.serving, first, answer_text);
            // A failed write shows as a missing line in the record.
            let _ = writeln!(file, "{line}");
        }
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.shared.state().in_flight.remove(&self.number);
    }
}

impl ProviderShared {
    pub(crate) fn behavior(&self) -> Behavior {
        self.state().behavior.clone()
    }

    /// How often the question was served, with this time.
    pub(crate) fn next_serving(&self, call: &ProviderCall) -> u32 {
        let mut state = self.state();
        let servings = state.servings.entry(call.digest).or_default();
        *servings += 1;
        *servings
    }

    /// Remembers that a question was answered in a batch. Whether that is new.
    pub(crate) fn mark_answered(&self, call: &ProviderCall) -> bool {
        self.state().batched.insert(call.digest)
    }

    /// The answer to a call, computed once.
    pub(crate) fn answer_for(&self, call: &ProviderCall) -> Arc<PreparedAnswer> {
        let cached = self.state().answers.get(&call.digest).cloned();
        if let Some(answered) = cached.filter(|_| !call.is_continuation()) {
            return answered;
        }
        let images = Arc::clone(&self.state().images);
        let behavior = self.behavior();
        let answered = Arc::new(call.answer(&self.oracle, &images, &behavior));
        if !call.is_continuation() {
            self.state()
                .answers
                .insert(call.digest, Arc::clone(&answered));
        }
        answered
    }
}

#[cfg(test)]
mod tests;
