//! The retry policy of failed tasks.

use stemma_store::failure::FailureKind;

use crate::queue::RetryDelay;

/// Attempts after which a transient failure is final.
pub const MAX_ATTEMPTS: u32 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after `delay`.
    Retry {
        delay: RetryDelay,
        /// Whether this attempt counts.
        counted: bool,
    },
    /// Wait until the task is published again.
    Wait { within_ms: u64 },
    /// Record the failure as the outcome of the task.
    Final,
}

/// Decides what happens after a failure. `attempts` includes this one, and is the larger count of message and ledger.
pub fn decide_retry(kind: FailureKind, attempts: u32) -> RetryDecision {
    match kind {
        FailureKind::Permanent | FailureKind::Poison => RetryDecision::Final,
        FailureKind::Transient | FailureKind::InputMissing if attempts >= MAX_ATTEMPTS => {
            RetryDecision::Final
        }
        FailureKind::Transient | FailureKind::InputMissing => RetryDecision::Retry {
            delay: RetryDelay::for_attempt(attempts),
            counted: true,
        },
        FailureKind::Waiting { within_ms } => RetryDecision::Wait { within_ms },
        FailureKind::Throttled { after_ms } => RetryDecision::Retry {
            delay: RetryDelay::at_least(after_ms),
            counted: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_failures_are_retried_with_growing_delays() {
        let consequences: Vec<_> = (1..=5)
            .map(|n| decide_retry(FailureKind::Transient, n))
            .collect();
        let again = |delay| RetryDecision::Retry {
            delay,
            counted: true,
        };
        assert_eq!(
            consequences,
            [
                again(RetryDelay::Short),
                again(RetryDelay::Short),
                again(RetryDelay::Medium),
                again(RetryDelay::Long),
                RetryDecision::Final
            ]
        );
    }

    #[test]
    fn throttled_attempts_are_uncounted_and_always_retried() {
        for attempts in [1, 5, 500] {
            let kind = FailureKind::Throttled { after_ms: 10_000 };
            assert_eq!(
                decide_retry(kind, attempts),
                RetryDecision::Retry {
                    delay: RetryDelay::Medium,
                    counted: false
                }
            );
        }
    }
}
