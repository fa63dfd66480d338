//! Timing shared by everything that republishes or reschedules work.

use stemma_store::env::Millis;

/// Minimum time before a requested task is published again, and how often an open run or job is woken.
pub(crate) const REPUBLISH_AFTER_MS: Millis = 60_000;
