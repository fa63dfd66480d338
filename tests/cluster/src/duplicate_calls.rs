//! Analyzes the requests to a provider: replies that were requested again although delivered, and the number of
//! requests in a time window.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stemma_sim::RequestRecord;

/// A reply counts as delivered if its process lived this much longer, because storing it takes time.
pub const MIN_SURVIVAL: Duration = Duration::from_millis(100);

/// A process that was killed or frozen. Names are not reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutage {
    pub process: String,
    /// When the signal was sent.
    pub from: Instant,
    /// When it went on; `None` if it was killed.
    pub until: Option<Instant>,
}

impl ProcessOutage {
    /// Whether a reply delivered at this time could not be stored.
    fn covers(&self, delivered: Instant) -> bool {
        self.from < delivered + MIN_SURVIVAL && self.until.is_none_or(|until| delivered < until)
    }
}

/// Summary of all requests of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSummary {
    /// All requests.
    pub requests: usize,
    /// Distinct requests.
    pub digests: usize,
    /// Requests answered with 429 or 5xx.
    pub refused: usize,
    /// Useful replies delivered to a surviving process.
    pub delivered: usize,
    /// Requests for replies that were already delivered: avoidable duplicate cost.
    pub repeated: usize,
    /// For each repeated one, how long after the delivery the process that had the reply was killed or frozen. `None`: it was
    /// not, so that the reply was there when it was requested again.
    pub outage_delays: Vec<Option<Duration>>,
    /// Useful replies lost with their process, or requested concurrently: unavoidable duplicate cost.
    pub lost_in_flight: usize,
}

impl CallSummary {
    /// Counts requests in order of arrival. `needed` is the number of requests per digest in a run without faults,
    /// if not 1: two documents may share a page.
    pub fn from_requests(
        requests: &[RequestRecord],
        outages: &[ProcessOutage],
        needed: &HashMap<blake3::Hash, usize>,
    ) -> Self {
        let mut by_digest: HashMap<_, Vec<&RequestRecord>> = HashMap::new();
        for request in requests {
            by_digest.entry(request.digest).or_default().push(request);
        }
        let mut summary = Self {
            requests: requests.len(),
            digests: by_digest.len(),
            ..Self::default()
        };
        for (digest, requests) in by_digest {
            let needed = needed.get(&digest).copied().unwrap_or(1);
            let had: Vec<_> = requests
                .iter()
                .filter_map(|request| Some((delivered_at(request, outages)?, &request.process)))
                .collect();
            let mut again = 0;
            for request in &requests {
                let before = had.iter().filter(|(at, _)| *at <= request.arrived);
                let before: Vec<_> = before.collect();
                if before.len() < needed {
                    continue;
                }
                again += 1;
                let last = before.iter().max_by_key(|(at, _)| *at);
                let outage = last.and_then(|(at, process)| {
                    let of_process = outages.iter().filter(|outage| outage.process == **process);
                    let later =
                        of_process.filter_map(|outage| outage.from.checked_duration_since(*at));
                    later.min()
                });
                summary.outage_delays.push(outage);
            }
            let refused = requests
                .iter()
                .filter(|request| request.status != 200)
                .count();
            summary.delivered += had.len();
            summary.repeated += again;
            summary.refused += refused;
            summary.lost_in_flight += (requests.len() - refused).saturating_sub(needed + again);
        }
        summary
    }

    /// The share of delivered replies that were requested again.
    pub fn repeated_share(&self) -> f64 {
        self.repeated as f64 / self.delivered.max(1) as f64
    }
}

/// When a useful reply was delivered, if its process went on to store it.
fn delivered_at(request: &RequestRecord, outages: &[ProcessOutage]) -> Option<Instant> {
    let delivered = request.delivered.filter(|_| request.status == 200)?;
    let lost = outages
        .iter()
        .any(|outage| outage.process == request.process && outage.covers(delivered));
    (!lost).then_some(delivered)
}

/// Requests by digest: the need of a run without faults.
pub fn calls_per_digest(requests: &[RequestRecord]) -> HashMap<blake3::Hash, usize> {
    let mut counts = HashMap::new();
    for request in requests.iter().filter(|request| request.status == 200) {
        *counts.entry(request.digest).or_default() += 1;
    }
    counts
}

/// The most accepted requests within any `window`.
pub fn peak_in_window(requests: &[RequestRecord], window: Duration) -> usize {
    let mut times: Vec<_> = requests
        .iter()
        .filter(|request| request.status != 429)
        .map(|request| request.arrived)
        .collect();
    times.sort_unstable();
    let mut first = 0;
    let mut most = 0;
    for (last, time) in times.iter().enumerate() {
        while time.duration_since(times[first]) >= window {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RequestLog(Instant, Vec<RequestRecord>);

    impl RequestLog {
        /// A request at `arrived`, its reply at `delivered`, both in milliseconds.
        fn request(
            mut self,
            what: &str,
            process: &str,
            arrived: u64,
            delivered: Option<u64>,
        ) -> Self {
            let at = |ms| self.0 + Duration::from_millis(ms);
            let record = RequestRecord::new(blake3::hash(what.as_bytes()), process, at(arrived));
            self.1.push(RequestRecord {
                delivered: delivered.map(at),
                ..record
            });
            self
        }

        fn summary(&self, deaths: &[(&str, u64)]) -> CallSummary {
            let outages: Vec<_> = deaths
                .iter()
                .map(|(process, at)| self.outage(process, *at, None))
                .collect();
            CallSummary::from_requests(&self.1, &outages, &HashMap::new())
        }

        fn outage(&self, process: &str, from: u64, until: Option<u64>) -> ProcessOutage {
            ProcessOutage {
                process: process.into(),
                from: self.0 + Duration::from_millis(from),
                until: until.map(|ms| self.0 + Duration::from_millis(ms)),
            }
        }
    }

    fn log() -> RequestLog {
        RequestLog(Instant::now(), Vec::new())
    }

    #[test]
    fn repeating_a_delivered_call_counts() {
        let log = log()
            .request("a", "w1", 0, Some(300))
            .request("b", "w1", 0, Some(300))
            .request("a", "w2", 900, Some(1200));
        let summary = log.summary(&[]);
        assert_eq!(
            (
                summary.digests,
                summary.delivered,
                summary.repeated,
                summary.lost_in_flight
            ),
            (2, 3, 1, 0)
        );
        assert!((summary.repeated_share() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(summary.outage_delays, [None]);
        // The process lived long enough, and later died of something else.
        let summary = log.summary(&[("w1", 400)]);
        assert_eq!(summary.repeated, 1);
        let delay = Duration::from_millis(100);
        assert_eq!(summary.outage_delays, [Some(delay)]);
    }

    #[test]
    fn replies_to_killed_processes_are_lost_in_flight() {
        let log = log()
            .request("a", "w1", 0, Some(300))
            .request("a", "w2", 900, Some(1200));
        let summary = log.summary(&[("w1", 399)]);
        assert_eq!(
            (summary.delivered, summary.repeated, summary.lost_in_flight),
            (1, 0, 1)
        );
        // Concurrent requests do not count as repeated either.
        let log = self::log()
            .request("a", "w1", 0, Some(300))
            .request("a", "w2", 200, Some(500));
        let summary = log.summary(&[]);
        assert_eq!(
            (summary.delivered, summary.repeated, summary.lost_in_flight),
            (2, 0, 1)
        );
    }

    #[test]
    fn replies_to_frozen_processes_are_lost_in_flight() {
        let log = log()
            .request("a", "w1", 0, Some(300))
            .request("a", "w2", 900, Some(1200))
            .request("b", "w1", 2000, Some(2300))
            .request("b", "w2", 2900, Some(3200));
        let frozen = [log.outage("w1", 200, Some(1000))];
        let summary = CallSummary::from_requests(&log.1, &frozen, &HashMap::new());
        // The reply of `b` came when the process had gone on.
        assert_eq!((summary.repeated, summary.lost_in_flight), (1, 1));
    }

    #[test]
    fn calls_repeated_in_the_baseline_are_allowed() {
        let log = log()
            .request("a", "w1", 0, Some(300))
            .request("a", "w1", 500, Some(800))
            .request("a", "w1", 900, None);
        let needed = HashMap::from([(blake3::hash(b"a"), 2)]);
        assert_eq!(CallSummary::from_requests(&log.1, &[], &needed).repeated, 1);
        assert_eq!(calls_per_digest(&log.1)[&blake3::hash(b"a")], 3);
    }

    #[test]
    fn peak_window_slides() {
        let log = [0, 10, 900, 1000, 1005, 1900]
            .into_iter()
            .fold(log(), |log, at| log.request("a", "w", at, None));
        assert_eq!(peak_in_window(&log.1, Duration::from_secs(1)), 4);
        assert_eq!(peak_in_window(&[], Duration::from_secs(1)), 0);
    }
}
