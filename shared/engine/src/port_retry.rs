//! How failed port calls are retried. [`crate::ports::Retrying`] applies it to every call of a port.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

use crate::env::Env;
use crate::metrics;
use crate::port_error::{PortError, PortResult};

// Failed calls of a long retry between two log lines: about a minute at the longest pause.
const LOG_EVERY: u32 = 30;

fn backoff(env: &Env) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_factor(2.0)
        .with_max_delay(Duration::from_secs(2))
        .with_jitter()
        .with_jitter_seed(env.random())
}

/// Calls a port with jittered exponential backoff: up to 6 retries over about 3 s while the error is transient.
///
/// # Errors
/// The last [`PortError`], when it is permanent or the retries are used up.
pub async fn with_retry<T, F, Called>(env: &Env, operation: F) -> PortResult<T>
where
    F: FnMut() -> Called,
    Called: Future<Output = PortResult<T>>,
{
    let is_retryable = PortError::is_transient;
    let policy = backoff(env).with_max_times(6);
    retry(operation, policy, is_retryable, metrics::port_error).await
}

/// Like [`with_retry`], but without an end, and after refusals as well. For writes that are expensive to recompute, such
/// as an LLM reply: giving up would pay for them twice.
///
/// # Errors
/// A permanent [`PortError`].
pub async fn with_long_retry<T, F, Called>(env: &Env, operation: F) -> PortResult<T>
where
    F: FnMut() -> Called,
    Called: Future<Output = PortResult<T>>,
{
    let policy = backoff(env).without_max_times();
    let mut failures = 0;
    let on_error = |error: &PortError| {
        if failures % LOG_EVERY == 0 {
            tracing::warn!(%error, "a port takes no results; trying again until it does");
        }
        failures += 1;
        metrics::port_error(error);
    };
    retry(operation, policy, |error| !error.is_permanent(), on_error).await
}

async fn retry<T, F, Called>(
    operation: F,
    policy: ExponentialBuilder,
    is_retryable: impl Fn(&PortError) -> bool,
    mut on_error: impl FnMut(&PortError),
) -> PortResult<T>
where
    F: FnMut() -> Called,
    Called: Future<Output = PortResult<T>>,
{
    let counted = operation.retry(policy).when(is_retryable);
    counted
        .notify(|error: &PortError, _| on_error(error))
        .await
        .inspect_err(metrics::port_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_are_not_retried() {
        let env = Env::simulated(1);
        let mut calls = 0;
        let result = with_retry(&env, || {
            calls += 1;
            let result = if calls < 3 {
                Err(PortError::transient("blobs.get", "away"))
            } else {
                Ok(calls)
            };
            async move { result }
        });
        assert_eq!(result.await, Ok(3));
        let mut calls = 0;
        let refusal = with_retry(&env, || {
            calls += 1;
            async { Err::<(), _>(PortError::permanent("blobs.put", "disk full")) }
        });
        assert!(refusal.await.is_err());
        assert_eq!(calls, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn long_retry_outlasts_outages_and_refusals() {
        let env = Env::simulated(1);
        let started = tokio::time::Instant::now();
        let result = with_long_retry(&env, || async {
            match started.elapsed().as_secs() {
                0..1_800 => Err(PortError::transient("blobs.put", "away")),
                1_800..3_600 => Err(PortError::refused("blobs.put", "denied")),
                _ => Ok(()),
            }
        });
        assert_eq!(result.await, Ok(()));
        let invalid = with_long_retry(&env, || async {
            Err::<(), _>(PortError::permanent("blobs.put", "not a key"))
        });
        assert!(invalid.await.is_err());
    }
}
