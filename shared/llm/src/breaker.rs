//! The breaker: while the provider is away no call is made, so that an outage costs no attempts (rule 11).

use stemma_engine::env::Millis;

/// Failures in a row after which it opens.
const FAILURES: u32 = 5;
/// How long it stays open at first, in milliseconds; doubled each time up to the longest.
const FIRST_MS: Millis = 5_000;
const LONGEST_MS: Millis = 60_000;
/// Without a failure for so long (and without a call that might have been one) an outage counts as over.
const FORGOTTEN_MS: Millis = 2 * LONGEST_MS;

/// Counts connect errors, timeouts and 5xx in a row; whatever else the provider says shows that it is there.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    /// Probes in a row that failed.
    opened: u32,
    open_until_ms: Option<Millis>,
    /// First and last failure since the last answer.
    failing: Option<(Millis, Millis)>,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Everyone.
    Closed,
    /// This one, to see whether the provider is back.
    Probe,
    /// No one before this time.
    Open {
        /// When to ask again.
        until_ms: Millis,
    },
}

impl Breaker {
    /// Asks for passage.
    pub fn enter(&mut self, now_ms: Millis) -> Passage {
        match self.open_until_ms {
            None => Passage::Closed,
            Some(until_ms) if now_ms < until_ms => Passage::Open { until_ms },
            Some(_) => {
                // Others wait as long again: a probe that vanishes with its process is followed by another.
                self.open_until_ms = Some(now_ms + FIRST_MS);
                Passage::Probe
            }
        }
    }

    /// The provider answered, whatever it said.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// A call that entered by `passage` found the provider away.
    pub fn failed(&mut self, passage: Passage, now_ms: Millis) {
        self.failures += 1;
        let since = self
            .failing
            .filter(|(_, last)| now_ms < last + FORGOTTEN_MS)
            .map_or(now_ms, |(first, _)| first);
        self.failing = Some((since, now_ms));
        if passage == Passage::Probe {
            self.opened += 1;
            self.open_until_ms = Some(now_ms + (FIRST_MS << self.opened.min(8)).min(LONGEST_MS));
        } else if self.open_until_ms.is_none() && self.failures >= FAILURES {
            self.open_until_ms = Some(now_ms + FIRST_MS);
        }
    }

    /// When it lets the next call through; `None` while it is closed.
    pub fn open_until_ms(&self) -> Option<Millis> {
        self.open_until_ms
    }

    /// How long the provider has been away at `now_ms`, in milliseconds.
    pub fn away_ms(&self, now_ms: Millis) -> Millis {
        self.failing
            .map_or(0, |(first, _)| now_ms.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(now_ms: Millis) -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES).for_each(|_| breaker.failed(Passage::Closed, now_ms));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let mut breaker = Breaker::default();
        for _ in 0..20 {
            (1..FAILURES).for_each(|_| breaker.failed(Passage::Closed, 0));
            breaker.answered();
        }
        assert_eq!(breaker.enter(0), Passage::Closed);
        assert_eq!(
            broken(100).enter(101),
            Passage::Open {
                until_ms: 100 + FIRST_MS
            }
        );
    }

    #[test]
    fn one_probe_at_a_time_and_longer_pauses_until_the_provider_answers() {
        let mut breaker = broken(0);
        assert_eq!(breaker.enter(FIRST_MS), Passage::Probe);
        assert_eq!(
            breaker.enter(FIRST_MS),
            Passage::Open {
                until_ms: 2 * FIRST_MS
            }
        );
        let mut now = FIRST_MS;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            breaker.failed(Passage::Probe, now);
            let Passage::Open { until_ms } = breaker.enter(now) else {
                panic!("{breaker:?}")
            };
            pauses.push((until_ms - now) / 1_000);
            now = until_ms;
            assert_eq!(breaker.enter(now), Passage::Probe);
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
        assert_eq!(breaker.away_ms(now), now);
        breaker.answered();
        assert_eq!(
            (breaker.enter(now), breaker.away_ms(now)),
            (Passage::Closed, 0)
        );
    }

    #[test]
    fn an_outage_long_ago_is_none_of_today() {
        let mut breaker = broken(0);
        let day = 86_400_000;
        assert_eq!(breaker.enter(day), Passage::Probe);
        breaker.failed(Passage::Probe, day);
        assert_eq!(breaker.away_ms(day + 10), 10);
    }
}
