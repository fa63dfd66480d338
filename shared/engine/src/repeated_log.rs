//! Log lines about a failure that repeats: one for each cause and minute.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use stemma_store::env::Millis;

const INTERVAL_MS: Millis = 60_000;
// Causes that are remembered. Beyond it all are forgotten.
const MAX_CAUSES: usize = 100;

/// When the failures of each cause were last logged.
#[derive(Default)]
pub struct RepeatedLog(Mutex<BTreeMap<String, Logged>>);

struct Logged {
    at_ms: Millis,
    // Failures since then.
    repeated: u64,
}

impl RepeatedLog {
    /// Nothing was logged yet.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Notes a failure. To be logged, with the number of failures of this cause that were not, unless that was done within the
    /// last minute.
    pub fn note(&self, cause: &str, now_ms: Millis) -> Option<u64> {
        let mut causes = self.0.lock();
        if let Some(logged) = causes.get_mut(cause) {
            // Clocks of simulations start over.
            if (logged.at_ms..logged.at_ms + INTERVAL_MS).contains(&now_ms) {
                logged.repeated += 1;
                return None;
            }
            logged.at_ms = now_ms;
            return Some(std::mem::take(&mut logged.repeated));
        }
        if causes.len() >= MAX_CAUSES {
            causes.clear();
        }
        let logged = Logged {
            at_ms: now_ms,
            repeated: 0,
        };
        causes.insert(cause.to_owned(), logged);
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_logged_once_a_minute() {
        let log = RepeatedLog::new();
        assert_eq!(log.note("a", 1_000), Some(0));
        assert_eq!(log.note("b", 1_500), Some(0));
        for now_ms in [1_000, 2_000, 60_999] {
            assert_eq!(log.note("a", now_ms), None);
        }
        assert_eq!(log.note("a", 61_000), Some(3));
        assert_eq!(log.note("a", 62_000), None);
        assert_eq!(log.note("a", 500), Some(1));
    }

    #[test]
    fn memory_is_bounded() {
        let log = RepeatedLog::new();
        for cause in 0..1_000 {
            assert_eq!(log.note(&cause.to_string(), 0), Some(0));
        }
        assert!(log.0.lock().len() <= MAX_CAUSES);
    }
}
