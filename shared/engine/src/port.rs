//! What every port has in common: how it fails, and how its callers wait for it to come back.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

use crate::env::Env;
use crate::measure;

/// A port did not do what it was asked. The operation may have taken effect all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{port}.{operation}: {message}")]
pub struct PortError {
    /// `queue`, `ledger`, `blobs`, `limiter`, or `bucket` for documents in object storage.
    pub port: &'static str,
    /// The operation, e.g. `put`.
    pub operation: &'static str,
    /// What the adapter said.
    pub message: String,
    /// Whether asking again may help.
    pub passing: bool,
}

impl PortError {
    /// A failure that may pass: the service is away, slow or busy.
    pub fn passing(
        port: &'static str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            port,
            operation,
            message: message.into(),
            passing: true,
        }
    }

    /// A failure that will not pass by asking again: no right, no space, a broken object.
    pub fn lasting(
        port: &'static str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            port,
            operation,
            message: message.into(),
            passing: false,
        }
    }
}

/// How long what was paid for is held in memory while a store is away.
const KEPT_FOR: Duration = Duration::from_secs(300);

fn policy(env: &Env) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_factor(2.0)
        .with_max_delay(Duration::from_secs(2))
        .with_jitter()
        .with_jitter_seed(env.random())
}

/// Asks a port until it answers, with jittered exponential backoff (the one retry policy for ports): 6 tries over about
/// 3 s, then the work is handed back.
///
/// # Errors
/// The last [`PortError`], when it is lasting or the tries are used up.
pub async fn ask<T, F, Asked>(env: &Env, operation: F) -> Result<T, PortError>
where
    F: FnMut() -> Asked,
    Asked: Future<Output = Result<T, PortError>>,
{
    retried(operation, policy(env).with_max_times(6)).await
}

/// Asks a port to keep what cannot be had again for nothing, a reply of a model, for as long as five minutes: handing the
/// work back would pay for it twice.
///
/// # Errors
/// As [`ask`].
pub async fn keep<T, F, Asked>(env: &Env, operation: F) -> Result<T, PortError>
where
    F: FnMut() -> Asked,
    Asked: Future<Output = Result<T, PortError>>,
{
    retried(
        operation,
        policy(env)
            .without_max_times()
            .with_total_delay(Some(KEPT_FOR)),
    )
    .await
}

async fn retried<T, F, Asked>(operation: F, policy: ExponentialBuilder) -> Result<T, PortError>
where
    F: FnMut() -> Asked,
    Asked: Future<Output = Result<T, PortError>>,
{
    let counted = operation
        .retry(policy)
        .when(|error: &PortError| error.passing);
    counted
        .notify(|error, _| measure::port_error(error))
        .await
        .inspect_err(measure::port_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn passing_failures_are_asked_again_lasting_ones_are_not() {
        let env = Env::simulated(1);
        let mut calls = 0;
        let answer = ask(&env, || {
            calls += 1;
            let answer = if calls < 3 {
                Err(PortError::passing("blobs", "get", "away"))
            } else {
                Ok(calls)
            };
            async move { answer }
        });
        assert_eq!(answer.await, Ok(3));
        let mut calls = 0;
        let refusal = ask(&env, || {
            calls += 1;
            async { Err::<(), _>(PortError::lasting("blobs", "put", "disk full")) }
        });
        assert!(refusal.await.is_err());
        assert_eq!(calls, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_paid_for_is_held_while_a_store_is_away() {
        let env = Env::simulated(1);
        let begun = tokio::time::Instant::now();
        let kept = keep(&env, || async {
            if begun.elapsed() < Duration::from_secs(120) {
                Err(PortError::passing("blobs", "put", "away"))
            } else {
                Ok(())
            }
        });
        assert_eq!(kept.await, Ok(()));
        let lost = keep(&env, || async {
            Err::<(), _>(PortError::passing("blobs", "put", "away"))
        });
        assert!(lost.await.is_err());
        assert!(begun.elapsed() < Duration::from_secs(120) + 2 * KEPT_FOR);
    }
}
