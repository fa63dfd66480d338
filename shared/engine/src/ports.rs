//! The four ports of the engine. Calls to queue, ledger and blobs are retried.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tracing::{Instrument, Span};

use crate::blobs::{Blobs, MemoryBlobs};
use crate::env::{Env, Millis};
use crate::ledger::{Ledger, MemoryLedger};
use crate::limit::{Limiter, MemoryLimiter};
use crate::message_auth::MessageKeys;
use crate::port_error::{PortError, PortResult};
use crate::port_layer::{Layered, PortLayer};
use crate::port_monitor::{PortMonitor, PortTrouble};
use crate::port_retry::{with_long_retry, with_retry};
use crate::queue::{MemoryQueue, Queue};
use crate::s3::{ObjectLookup, RetryingLookup};

/// Everything through which the engine performs IO. Cheap to clone.
#[derive(Clone)]
pub struct Ports {
    pub queue: Retrying<dyn Queue>,
    /// Shared short-term state; may be lost.
    pub ledger: Retrying<dyn Ledger>,
    /// Object storage; the source of truth.
    pub blobs: RetryingBlobs,
    /// Shared rate limits and budgets. Not retried: a repeated reservation would reserve twice, and callers wait for
    /// permits anyway.
    pub limiter: Arc<dyn Limiter>,
    /// Documents in buckets, for coordinators that follow their state; `None` elsewhere.
    pub objects: Option<Arc<dyn ObjectLookup>>,
    /// What the calls of this process have met.
    pub monitor: PortMonitor,
    /// Signs task messages and checks them.
    pub message_keys: MessageKeys,
}

impl Ports {
    pub fn new(
        env: &Env,
        queue: Arc<dyn Queue>,
        ledger: Arc<dyn Ledger>,
        blobs: Arc<dyn Blobs>,
        limiter: Arc<dyn Limiter>,
    ) -> Self {
        let monitor = PortMonitor::default();
        Self {
            queue: Retrying::monitored(env, queue, &monitor),
            ledger: Retrying::monitored(env, ledger, &monitor),
            blobs: Retrying::monitored(env, blobs, &monitor),
            limiter,
            objects: None,
            monitor,
            message_keys: MessageKeys::default(),
        }
    }

    /// The ports with access to documents in buckets.
    #[must_use]
    pub fn with_objects(self, env: &Env, objects: Arc<dyn ObjectLookup>) -> Self {
        let env = env.clone();
        Self {
            objects: Some(Arc::new(RetryingLookup { env, objects })),
            ..self
        }
    }

    /// The trouble that this process has with its servers.
    pub fn troubles(&self, now_ms: Millis) -> Vec<PortTrouble> {
        self.monitor
            .record_block(self.queue.raw().blocked(), now_ms);
        self.monitor.troubles(now_ms)
    }

    /// Queue, ledger and limiter in memory over the given blobs: single-process mode.
    pub fn embedded(env: &Env, blobs: Arc<dyn Blobs>) -> Self {
        Self::new(
            env,
            Arc::new(MemoryQueue::default()),
            Arc::new(MemoryLedger::default()),
            blobs,
            Arc::new(MemoryLimiter::default()),
        )
    }

    /// All ports in memory, for tests.
    pub fn memory(env: &Env) -> Self {
        Self::embedded(env, Arc::new(MemoryBlobs::default()))
    }
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

    fn monitored(env: &Env, port: Arc<P>, monitor: &PortMonitor) -> Self {
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

impl PortMonitor {
    /// Objects whose calls are recorded, and not retried.
    pub fn watch_blobs(&self, env: &Env, blobs: Arc<dyn Blobs>) -> Arc<dyn Blobs> {
        let layer = MonitorLayer {
            env: env.clone(),
            monitor: self.clone(),
        };
        Arc::new(Layered { layer, port: blobs })
    }
}

struct MonitorLayer {
    env: Env,
    monitor: PortMonitor,
}

impl PortLayer for MonitorLayer {
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
        let result = call().await;
        self.monitor.record(operation, &result, self.env.now_ms());
        result
    }
}

/// Limits the time of port calls, for commands that a person waits for. After one call without an answer all others fail
/// at once: a server that is away delays a command only once.
#[derive(Clone)]
pub struct TimeLimit(Arc<TimeLimitState>);

struct TimeLimitState {
    limit: Duration,
    // The first call without an answer.
    unanswered: Mutex<Option<PortError>>,
}

impl TimeLimit {
    /// Objects whose calls take at most `limit`.
    pub fn on_blobs(blobs: Arc<dyn Blobs>, limit: Duration) -> Arc<dyn Blobs> {
        let unanswered = Mutex::default();
        let layer = Self(Arc::new(TimeLimitState { limit, unanswered }));
        Arc::new(Layered { layer, port: blobs })
    }
}

impl PortLayer for TimeLimit {
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
        let earlier = self.0.unanswered.lock().clone();
        if let Some(earlier) = earlier {
            return Err(PortError {
                operation,
                ..earlier
            });
        }
        let limit = self.0.limit;
        tokio::time::timeout(limit, call())
            .await
            .unwrap_or_else(|_| {
                let error =
                    PortError::transient(operation, format!("no response within {limit:?}"));
                *self.0.unanswered.lock() = Some(error.clone());
                Err(error)
            })
    }
}
