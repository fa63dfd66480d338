//! Behavior of the provider, as plain values. The same seed gives the same behavior.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::seeded::SeededRng;

/// Behavior of the provider. The default answers at once, always correctly, without limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behavior {
    /// Seed of all random decisions.
    pub seed: u64,
    pub latency: Latency,
    pub limits: SimulatedLimits,
    /// Faults of single replies.
    pub faults: ReplyFaults,
    pub outage: Option<Outage>,
    pub batches: SimulatedBatches,
    /// Share of questions (0–1) with a well-formed wrong answer. The choice depends on the question.
    pub lies: f64,
    /// Whether it follows instructions in the text of documents, and on images.
    pub gullible: bool,
    /// Whether it takes no images.
    pub blind: bool,
    /// Share of the words on images (0–1) that it misreads. The choice depends on the line.
    pub misreads: f64,
    /// How windows of pages are read for headings.
    pub reads: Reading,
    /// Largest error of section and document scores, 0–1.
    pub noise: f64,
}

impl Behavior {
    /// Always correct, after this time.
    pub fn with_latency(latency: Duration) -> Self {
        let median_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        Self {
            latency: Latency {
                median_ms,
                sigma: 0.0,
            },
            ..Self::default()
        }
    }

    /// Never answers.
    pub fn hanging() -> Self {
        Self {
            faults: ReplyFaults {
                always: 1.0,
                kinds: vec![ReplyFault::Hang],
                ..ReplyFaults::default()
            },
            ..Self::default()
        }
    }
}

/// How windows of pages are read for headings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Every heading of the truth, with its level.
    #[default]
    Truth,
    /// What a capable reader would say: some headings missing or reworded, some heads of tables, and levels
    /// that begin anew in each window.
    Reader,
}

/// Latency of replies: the median and the spread.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    pub median_ms: u64,
    /// Standard deviation of its logarithm; 0 means always the median. Real providers have about 0.5.
    pub sigma: f64,
}

impl Latency {
    pub(crate) fn sample(self, seed: u64, digest: &[u8], serving: u32) -> Duration {
        let factor = if self.sigma == 0.0 {
            1.0
        } else {
            (self.sigma * SeededRng::new(seed, &format!("latency {serving}"), digest).normal())
                .exp()
        };
        Duration::from_millis(self.median_ms).mul_f64(factor)
    }
}

/// Rate limits, and how replies report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedLimits {
    /// Requests per minute; `None` for no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and replies per minute; `None` for no limit.
    pub tokens_per_minute: Option<u32>,
    pub meter: LimitMeter,
    pub headers: LimitHeaders,
}

/// How limits are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitMeter {
    /// Never more than the limit in any 60 seconds.
    #[default]
    Window,
    /// A bucket of ten seconds' capacity that refills evenly, like providers that check more often than once
    /// a minute.
    Bucket,
}

/// The rate-limit headers of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHeaders {
    /// Limits, remaining amounts, and retry time.
    #[default]
    All,
    /// Retry time only.
    Pause,
    /// A bare 429.
    Nothing,
}

/// Faults of single replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyFaults {
    /// Share of questions (0–1) whose first one or two replies have a fault.
    pub rate: f64,
    /// Share of questions whose replies all have a fault.
    pub always: f64,
    /// Possible faults. The choice depends on the question and the number of the reply.
    pub kinds: Vec<ReplyFault>,
}

impl Default for ReplyFaults {
    fn default() -> Self {
        Self {
            rate: 0.0,
            always: 0.0,
            kinds: ReplyFault::ALL.to_vec(),
        }
    }
}

/// A fault of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyFault {
    /// Status 500, 502, 503 or 529.
    Error,
    /// Never replies.
    Hang,
    /// The connection is reset in the middle of the reply.
    Reset,
    /// A reply without text.
    Empty,
    /// Half of the answer, marked as truncated.
    Truncated,
    /// Invalid JSON.
    Malformed,
    /// JSON that does not match the schema.
    Schema,
}

impl ReplyFault {
    pub const ALL: [Self; 7] = [
        Self::Error,
        Self::Hang,
        Self::Reset,
        Self::Empty,
        Self::Truncated,
        Self::Malformed,
        Self::Schema,
    ];
    // Most faulty replies to one question, unless all are faulty.
    const MAX_FAULTY_SERVINGS: usize = 2;
}

impl ReplyFaults {
    /// The fault of reply number `serving` (from 1) to a question.
    pub(crate) fn fault_for(&self, seed: u64, digest: &[u8], serving: u32) -> Option<ReplyFault> {
        let mut rng = SeededRng::new(seed, "fault", digest);
        let always = rng.chance(self.always);
        let hit = rng.chance(self.rate);
        let servings = rng.below(ReplyFault::MAX_FAULTY_SERVINGS);
        let spoilt = always || (hit && serving as usize <= servings + 1);
        let which =
            SeededRng::new(seed, &format!("kind {serving}"), digest).below(self.kinds.len());
        self.kinds.get(which).copied().filter(|_| spoilt)
    }
}

/// How batches go. The faults of single replies apply to their requests, too.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedBatches {
    /// Time from submission to results.
    pub takes_ms: u64,
    /// Share of requests (0–1) that are not executed before the batch expires.
    pub expires: f64,
    /// Every batch fails as a whole.
    pub rejects: bool,
    /// A batch is created, but the connection breaks before the client learns of it.
    pub loses_replies: bool,
}

impl SimulatedBatches {
    pub(crate) fn takes(self) -> Duration {
        Duration::from_millis(self.takes_ms)
    }
}

/// A period without answers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outage {
    /// Seconds from the first call to its start.
    pub after_s: f64,
    /// Its length in seconds; `None` means that it does not end.
    pub lasts_s: Option<f64>,
    /// Replies with this status; `None` resets connections.
    pub status: Option<u16>,
}

impl Outage {
    pub(crate) fn covers(&self, since_first_call: Duration) -> bool {
        let at = since_first_call.as_secs_f64();
        at >= self.after_s && self.lasts_s.is_none_or(|lasts| at < self.after_s + lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_affect_at_most_the_first_two_servings() {
        let faults = ReplyFaults {
            rate: 0.3,
            ..ReplyFaults::default()
        };
        let digests: Vec<[u8; 2]> = (0..2_000_u16).map(u16::to_le_bytes).collect();
        let hit = |faults: &ReplyFaults, serving| {
            digests
                .iter()
                .filter(|d| faults.fault_for(1, &d[..], serving).is_some())
                .count()
        };
        assert!((520..680).contains(&hit(&faults, 1)), "{}", hit(&faults, 1));
        assert!(hit(&faults, 2) > 200 && hit(&faults, 2) < hit(&faults, 1));
        assert_eq!(hit(&faults, 3), 0);
        let always = ReplyFaults {
            always: 0.05,
            ..ReplyFaults::default()
        };
        assert_eq!(hit(&always, 1), hit(&always, 9));
        assert!((60..140).contains(&hit(&always, 9)), "{}", hit(&always, 9));
    }

    #[test]
    fn latency_is_spread_around_its_median() {
        let latency = Latency {
            median_ms: 300,
            sigma: 0.5,
        };
        let mut took: Vec<_> = (0..999_u32)
            .map(|n| latency.sample(1, &n.to_le_bytes(), 1))
            .collect();
        took.sort();
        let median = took[499].as_millis();
        assert!(
            (270..330).contains(&median)
                && took[0].as_millis() < 100
                && took[998].as_millis() > 1_000,
            "{median}"
        );
        assert_eq!(
            Latency {
                median_ms: 300,
                sigma: 0.0
            }
            .sample(1, b"x", 1),
            Duration::from_millis(300)
        );
    }

    #[test]
    fn outages_start_after_the_first_call() {
        let covers = |outage: Outage, at| outage.covers(Duration::from_secs(at));
        let outage = Outage {
            after_s: 10.0,
            lasts_s: Some(15.0),
            status: None,
        };
        assert_eq!(
            [9, 10, 24, 25].map(|at| covers(outage, at)),
            [false, true, true, false]
        );
        assert!(covers(
            Outage {
                lasts_s: None,
                ..outage
            },
            1_000_000
        ));
    }

    #[test]
    fn unknown_settings_are_rejected() {
        let behavior: Behavior =
            serde_json::from_str(r#"{"latency":{"median_ms":5},"reads":"reader"}"#).unwrap();
        assert_eq!(
            (behavior.latency.median_ms, behavior.reads),
            (5, Reading::Reader)
        );
        assert!(serde_json::from_str::<Behavior>(r#"{"latncy":1}"#).is_err());
    }
}
