//! How failed port calls are retried. [`Retrying`] applies it to every call of a port.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures::future::BoxFuture;
use metrics::counter;
use tracing::{Instrument, Span};

use crate::blobs::Blobs;
use crate::env::Env;
use crate::port_error::{PortError, PortResult};
use crate::port_layer::{Layered, PortLayer};
use crate::port_monitor::PortMonitor;

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
    retry(operation, policy, is_retryable, count_error).await
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
    retry(
        operation,
        policy,
        |error| !error.is_permanent(),
        |error| {
            if failures % LOG_EVERY == 0 {
                tracing::warn!(%error, "a port takes no results; trying again until it does");
            }
            failures += 1;
            count_error(error);
        },
    )
    .await
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
        .inspect_err(count_error)
}

fn count_error(error: &PortError) {
    let (port, method) = error.port_and_method();
    counter!("stemma_port_errors_total", "port" => port, "operation" => method).increment(1);
}

/// A port whose calls are retried while they fail with a transient error. Any call may then take effect more than once,
/// which every method of the queue, the ledger and the blobs allows.
pub type Retrying<P> = Layered<RetryLayer, P>;

/// Object storage whose calls are retried.
pub type RetryingBlobs = Retrying<dyn Blobs>;

impl<P: ?Sized> Retrying<P> {
    pub fn new(env: &Env, port: Arc<P>) -> Self {
        Self::monitored(env, port, &PortMonitor::default())
    }

    /// The port with retries. `monitor` is told how each call ends.
    pub fn monitored(env: &Env, port: Arc<P>, monitor: &PortMonitor) -> Self {
        let layer = RetryLayer {
            env: env.clone(),
            long: false,
            monitor: monitor.clone(),
        };
        Self { layer, port }
    }

    /// The port without retries: for health checks and status that is read or posted again soon anyway.
    pub fn raw(&self) -> &Arc<P> {
        &self.port
    }

    /// The port with retries until the call succeeds or cannot, for writes that are expensive to recompute. Only the end
    /// of the process gives up.
    #[must_use]
    pub fn with_long_retries(&self) -> Self {
        let layer = RetryLayer {
            long: true,
            ..self.layer.clone()
        };
        Self {
            layer,
            port: Arc::clone(&self.port),
        }
    }
}

/// Retries port calls, and records how each attempt ended.
#[derive(Clone)]
pub struct RetryLayer {
    env: Env,
    long: bool,
    monitor: PortMonitor,
}

impl PortLayer for RetryLayer {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        _about: impl Fn() -> String + Send + 'a,
        mut call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        // Calls below a task are spans of its trace. Only collectors see them: logs leave out this level.
        let is_traced = !Span::current().is_none();
        let recorded = || {
            let call = call();
            let span = match is_traced {
                true => tracing::trace_span!("port", operation),
                false => Span::none(),
            };
            async move {
                let result = call.await;
                self.monitor.record(operation, &result, self.env.now_ms());
                result
            }
            .instrument(span)
        };
        if self.long {
            with_long_retry(&self.env, recorded).await
        } else {
            with_retry(&self.env, recorded).await
        }
    }
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
