//! Statistics of the requests to the provider.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::behavior::SimulatedLimits;

const MINUTE: Duration = Duration::from_secs(60);

/// One request to the provider.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// Digest of the question. A repeated question has the same digest.
    pub digest: blake3::Hash,
    /// Name of the process.
    pub process: String,
    pub peer: SocketAddr,
    /// When the request was complete.
    pub arrived: Instant,
    /// When the last byte of the reply was written; `None` if it was not.
    pub delivered: Option<Instant>,
    /// Status of the reply; 0 if there was none.
    pub status: u16,
    pub stage: &'static str,
    pub outcome: &'static str,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Sections to be summarized.
    pub sections: usize,
    /// Images of the question.
    pub images: usize,
}

impl RequestRecord {
    /// A question with a correct answer, and no other details.
    pub fn new(digest: blake3::Hash, process: &str, arrived: Instant) -> Self {
        Self {
            digest,
            process: process.into(),
            peer: ([127, 0, 0, 1], 1).into(),
            arrived,
            delivered: None,
            status: 200,
            stage: "other",
            outcome: "good",
            prompt_tokens: 0,
            output_tokens: 0,
            sections: 0,
            images: 0,
        }
    }

    /// Whether a complete, correct reply was written.
    pub(crate) fn was_answered(&self) -> bool {
        ["good", "lie", "obeyed"].contains(&self.outcome) && self.delivered.is_some()
    }

    // Whether it was admitted, and so counts against the limits.
    fn was_admitted(&self) -> bool {
        !["throttled", "outage"].contains(&self.outcome)
    }
}

/// Statistics for people and programs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ProviderReport {
    pub calls: usize,
    /// Distinct questions.
    pub questions: usize,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    pub stages: BTreeMap<&'static str, CallTotals>,
    pub all: CallTotals,
    /// Requests by outcome.
    pub outcomes: BTreeMap<&'static str, usize>,
    /// Requests for questions that had been answered completely before.
    pub repeated: usize,
    /// Most requests in flight.
    pub peak_concurrency: usize,
    /// The busiest 60 seconds.
    pub worst_minute: PeakMinute,
    /// Requests, and those answered 429, per minute from the first.
    pub throttled_by_minute: Vec<[usize; 2]>,
    /// Sections in the requests for summaries.
    pub sections: SectionCounts,
    /// Requests in batches, which no other number includes.
    pub batches: BatchTotals,
}

/// Batches, their requests and tokens. Only requests that were answered are paid for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct BatchTotals {
    pub batches: usize,
    pub requests: usize,
    /// Uploaded files that nobody has removed.
    pub files: usize,
    /// Requests that were answered.
    pub executed: usize,
    /// Answered requests whose question had been answered in a batch before.
    pub repeated: usize,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
}

impl BatchTotals {
    pub(crate) fn add(&mut self, more: &Self) {
        self.executed += more.executed;
        self.repeated += more.repeated;
        self.prompt_tokens += more.prompt_tokens;
        self.output_tokens += more.output_tokens;
    }
}

/// Calls and tokens. Only replies with status 200 count, because only they are paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CallTotals {
    pub calls: usize,
    /// Answered completely.
    pub answered: usize,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
}

/// The largest values in any 60 seconds, each on its own.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PeakMinute {
    /// Admitted requests.
    pub requests: u64,
    /// Tokens of admitted requests.
    pub tokens: u64,
    /// All requests.
    pub sent: u64,
    /// The larger of both shares of the limits; 0 without limits.
    pub share: f64,
}

/// Sections per call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SectionCounts {
    /// Requests for summaries.
    pub calls: usize,
    /// Sections in all of them.
    pub all: usize,
    /// Most sections in one of them.
    pub most: usize,
}

impl ProviderReport {
    /// Statistics of all requests, given in order of arrival.
    pub fn from_requests(
        asks: &[RequestRecord],
        limits: &SimulatedLimits,
        peak_concurrency: usize,
    ) -> Self {
        let Some(first) = asks.first().map(|ask| ask.arrived) else {
            return Self::default();
        };
        let mut report = Self {
            calls: asks.len(),
            peak_concurrency,
            ..Self::default()
        };
        let mut answered: HashMap<blake3::Hash, Instant> = HashMap::new();
        for ask in asks {
            report.stages.entry(ask.stage).or_default().add(ask);
            report.all.add(ask);
            *report.outcomes.entry(ask.outcome).or_default() += 1;
            if ask.sections > 0 {
                let SectionCounts { calls, all, most } = &mut report.sections;
                (*calls, *all, *most) = (*calls + 1, *all + ask.sections, ask.sections.max(*most));
            }
            report.repeated += usize::from(
                answered
                    .get(&ask.digest)
                    .is_some_and(|at| *at <= ask.arrived),
            );
            if ask.was_answered()
                && let Some(at) = ask.delivered
            {
                answered
                    .entry(ask.digest)
                    .and_modify(|first| *first = at.min(*first))
                    .or_insert(at);
            }
            let minute = (ask.arrived - first).as_secs() as usize / 60;
            report
                .throttled_by_minute
                .resize(report.throttled_by_minute.len().max(minute + 1), [0, 0]);
            let [all, throttled] = &mut report.throttled_by_minute[minute];
            (*all, *throttled) = (*all + 1, *throttled + usize::from(ask.status == 429));
        }
        report.questions = asks
            .iter()
            .map(|ask| ask.digest)
            .collect::<std::collections::HashSet<_>>()
            .len();
        let last = asks
            .iter()
            .map(|ask| ask.delivered.unwrap_or(ask.arrived))
            .max()
            .unwrap_or(first);
        report.seconds = (last - first).as_secs_f64();
        report.worst_minute = PeakMinute::from_requests(asks, limits);
        report
    }
}

impl CallTotals {
    fn add(&mut self, ask: &RequestRecord) {
        self.calls += 1;
        self.answered += usize::from(ask.was_answered());
        if ask.status == 200 && ask.delivered.is_some() {
            self.prompt_tokens += u64::from(ask.prompt_tokens);
            self.output_tokens += u64::from(ask.output_tokens);
        }
    }
}

impl PeakMinute {
    fn from_requests(asks: &[RequestRecord], limits: &SimulatedLimits) -> Self {
        let admitted: Vec<&RequestRecord> = asks.iter().filter(|ask| ask.was_admitted()).collect();
        let requests = most(&admitted, |_| 1);
        let tokens = most(&admitted, |ask| {
            u64::from(ask.prompt_tokens) + u64::from(ask.output_tokens)
        });
        Self {
            requests,
            tokens,
            sent: most(&asks.iter().collect::<Vec<_>>(), |_| 1),
            share: share(requests, limits.requests_per_minute)
                .max(share(tokens, limits.tokens_per_minute)),
        }
    }
}

fn share(amount: u64, limit: Option<u32>) -> f64 {
    limit.map_or(0.0, |limit| amount as f64 / f64::from(limit.max(1)))
}

// The largest amount within any minute.
fn most(asks: &[&RequestRecord], amount: impl Fn(&RequestRecord) -> u64) -> u64 {
    let mut first = 0;
    let mut sum = 0;
    let mut most = 0;
    for ask in asks {
        sum += amount(ask);
        while ask.arrived.duration_since(asks[first].arrived) >= MINUTE {
            sum -= amount(asks[first]);
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(begin: Instant, what: &str, second: u64, outcome: &'static str) -> RequestRecord {
        let arrived = begin + Duration::from_secs(second);
        RequestRecord {
            digest: blake3::hash(what.as_bytes()),
            process: "w".into(),
            peer: ([127, 0, 0, 1], 1).into(),
            arrived,
            delivered: (outcome != "hang").then(|| arrived + Duration::from_secs(1)),
            status: match outcome {
                "throttled" => 429,
                "hang" => 0,
                _ => 200,
            },
            stage: "summarize",
            outcome,
            prompt_tokens: 100,
            output_tokens: 10,
            sections: 3,
            images: 0,
        }
    }

    #[test]
    fn repeats_and_the_busiest_minute_are_counted() {
        let begin = Instant::now();
        let ask = |what, second, outcome| ask(begin, what, second, outcome);
        let asks = [
            ask("a", 0, "malformed"),
            ask("a", 10, "good"),
            ask("b", 10, "good"),
            ask("b", 10, "good"),
            ask("a", 59, "throttled"),
            ask("c", 65, "hang"),
            ask("b", 66, "good"),
        ];
        let limits = SimulatedLimits {
            requests_per_minute: Some(10),
            tokens_per_minute: Some(1_000),
            ..SimulatedLimits::default()
        };
        let report = ProviderReport::from_requests(&asks, &limits, 4);
        assert_eq!((report.calls, report.questions, report.repeated), (7, 3, 2));
        assert_eq!(report.outcomes["good"], 4);
        assert_eq!((report.all.answered, report.all.prompt_tokens), (4, 500));
        assert_eq!(
            (
                report.worst_minute.requests,
                report.worst_minute.tokens,
                report.worst_minute.sent
            ),
            (5, 550, 6)
        );
        assert!((report.worst_minute.share - 0.55).abs() < 1e-9);
        assert_eq!(report.throttled_by_minute, [[5, 1], [2, 0]]);
        assert_eq!(
            report.sections,
            SectionCounts {
                calls: 7,
                all: 21,
                most: 3
            }
        );
        assert_eq!(
            ProviderReport::from_requests(&[], &limits, 0),
            ProviderReport::default()
        );
    }
}
