//! What was asked of a provider, judged: whether a reply that somebody already had was asked for again, and how many
//! requests fell into any one window of time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stemma_sim::Ask;

/// How much longer a process has to live for the reply it got to count as had: so long storing one may take.
pub const LIVED: Duration = Duration::from_millis(100);

/// A process that was killed. Names are not used twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Its name.
    pub process: String,
    /// When the signal was sent.
    pub at: Instant,
}

/// What came of all requests of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// All.
    pub requests: usize,
    /// Different ones.
    pub digests: usize,
    /// Answered 429 or 5xx.
    pub refused: usize,
    /// Useful replies delivered to a peer that lived on.
    pub had: usize,
    /// Requests for what had been had as often as it is needed: paid twice without need.
    pub again: usize,
    /// Useful replies lost with their peers, or asked for by two at a time: paid twice, and not to be helped.
    pub lost_in_flight: usize,
}

impl Asked {
    /// Judges requests in order of arrival. `needed` says how often a digest is asked in a run that nothing disturbs,
    /// where that is not once: two documents may have a page in common.
    pub fn judge(asks: &[Ask], deaths: &[Death], needed: &HashMap<blake3::Hash, usize>) -> Self {
        let deaths: HashMap<_, _> = deaths
            .iter()
            .map(|death| (death.process.as_str(), death.at))
            .collect();
        let mut by_digest: HashMap<_, Vec<&Ask>> = HashMap::new();
        for ask in asks {
            by_digest.entry(ask.digest).or_default().push(ask);
        }
        let mut asked = Self {
            requests: asks.len(),
            digests: by_digest.len(),
            ..Self::default()
        };
        for (digest, asks) in by_digest {
            let needed = needed.get(&digest).copied().unwrap_or(1);
            let had: Vec<_> = asks.iter().filter_map(|ask| had_at(ask, &deaths)).collect();
            let again = asks
                .iter()
                .filter(|ask| had.iter().filter(|at| **at <= ask.arrived).count() >= needed)
                .count();
            let refused = asks.iter().filter(|ask| ask.status != 200).count();
            asked.had += had.len();
            asked.again += again;
            asked.refused += refused;
            asked.lost_in_flight += (asks.len() - refused).saturating_sub(needed + again);
        }
        asked
    }

    /// The share of replies had that were asked for again.
    pub fn again_share(&self) -> f64 {
        self.again as f64 / self.had.max(1) as f64
    }
}

/// When the peer had a useful reply, if it lived to use it.
fn had_at(ask: &Ask, deaths: &HashMap<&str, Instant>) -> Option<Instant> {
    let delivered = ask.delivered.filter(|_| ask.status == 200)?;
    let lived = deaths
        .get(ask.process.as_str())
        .is_none_or(|death| *death >= delivered + LIVED);
    lived.then_some(delivered)
}

/// How often each digest was asked: what a quiet run needs.
pub fn counts(asks: &[Ask]) -> HashMap<blake3::Hash, usize> {
    let mut counts = HashMap::new();
    for ask in asks.iter().filter(|ask| ask.status == 200) {
        *counts.entry(ask.digest).or_default() += 1;
    }
    counts
}

/// The most requests that were let through within any `window`.
pub fn busiest(asks: &[Ask], window: Duration) -> usize {
    let mut times: Vec<_> = asks
        .iter()
        .filter(|ask| ask.status != 429)
        .map(|ask| ask.arrived)
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

    struct Log(Instant, Vec<Ask>);

    impl Log {
        /// A request at `arrived`, its reply at `delivered`, both in milliseconds.
        fn ask(mut self, what: &str, process: &str, arrived: u64, delivered: Option<u64>) -> Self {
            let at = |ms| self.0 + Duration::from_millis(ms);
            let asked = Ask::new(blake3::hash(what.as_bytes()), process, at(arrived));
            self.1.push(Ask {
                delivered: delivered.map(at),
                ..asked
            });
            self
        }

        fn judge(&self, deaths: &[(&str, u64)]) -> Asked {
            let deaths: Vec<_> = deaths
                .iter()
                .map(|(process, at): &(&str, u64)| Death {
                    process: (*process).into(),
                    at: self.0 + Duration::from_millis(*at),
                })
                .collect();
            Asked::judge(&self.1, &deaths, &HashMap::new())
        }
    }

    fn log() -> Log {
        Log(Instant::now(), Vec::new())
    }

    #[test]
    fn what_was_had_and_is_asked_again_counts() {
        let log = log()
            .ask("a", "w1", 0, Some(300))
            .ask("b", "w1", 0, Some(300))
            .ask("a", "w2", 900, Some(1200));
        let asked = log.judge(&[]);
        assert_eq!(
            (asked.digests, asked.had, asked.again, asked.lost_in_flight),
            (2, 3, 1, 0)
        );
        assert!((asked.again_share() - 1.0 / 3.0).abs() < 1e-9);
        // The process lived long enough, and later died of something else.
        assert_eq!(log.judge(&[("w1", 400)]).again, 1);
    }

    #[test]
    fn what_died_with_its_process_is_lost_in_flight() {
        let log = log()
            .ask("a", "w1", 0, Some(300))
            .ask("a", "w2", 900, Some(1200));
        let asked = log.judge(&[("w1", 399)]);
        assert_eq!((asked.had, asked.again, asked.lost_in_flight), (1, 0, 1));
        // Two that ask at the same time are no repetition of what was had either.
        let log = self::log()
            .ask("a", "w1", 0, Some(300))
            .ask("a", "w2", 200, Some(500));
        let asked = log.judge(&[]);
        assert_eq!((asked.had, asked.again, asked.lost_in_flight), (2, 0, 1));
    }

    #[test]
    fn what_a_quiet_run_asks_twice_may_be_asked_twice() {
        let log = log()
            .ask("a", "w1", 0, Some(300))
            .ask("a", "w1", 500, Some(800))
            .ask("a", "w1", 900, None);
        let needed = HashMap::from([(blake3::hash(b"a"), 2)]);
        assert_eq!(Asked::judge(&log.1, &[], &needed).again, 1);
        assert_eq!(counts(&log.1)[&blake3::hash(b"a")], 3);
    }

    #[test]
    fn the_busiest_window_slides() {
        let log = [0, 10, 900, 1000, 1005, 1900]
            .into_iter()
            .fold(log(), |log, at| log.ask("a", "w", at, None));
        assert_eq!(busiest(&log.1, Duration::from_secs(1)), 4);
        assert_eq!(busiest(&[], Duration::from_secs(1)), 0);
    }
}
