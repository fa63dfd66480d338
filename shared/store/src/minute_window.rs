//! A count of the last minute.

use crate::env::Millis;

const SECONDS: u64 = 60;

/// A sliding sum over the last 60 seconds. Each slot holds a second and its amount, so stale slots need no cleanup.
#[derive(Debug)]
pub struct MinuteWindow([(u64, u64); SECONDS as usize]);

impl Default for MinuteWindow {
    fn default() -> Self {
        Self([(0, 0); SECONDS as usize])
    }
}

impl MinuteWindow {
    pub fn add(&mut self, now_ms: Millis, amount: u64) {
        let second = now_ms / 1_000;
        let slot = &mut self.0[(second % SECONDS) as usize];
        *slot = if slot.0 == second {
            (second, slot.1 + amount)
        } else {
            (second, amount)
        };
    }

    pub fn sum(&self, now_ms: Millis) -> u64 {
        let second = now_ms / 1_000;
        self.0
            .iter()
            .filter(|(at, _)| at + SECONDS > second)
            .map(|(_, amount)| amount)
            .sum()
    }
}
