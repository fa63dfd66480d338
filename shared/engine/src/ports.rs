//! The four ports of the engine. Calls to queue, ledger and blobs are retried.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::blobs::{Blobs, MemoryBlobs};
use crate::env::Env;
use crate::ledger::{Ledger, MemoryLedger};
use crate::limit::{Limiter, MemoryLimiter};
use crate::port_error::PortResult;
use crate::port_layer::{Layered, PortLayer};
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
}

impl Ports {
    pub fn new(
        env: &Env,
        queue: Arc<dyn Queue>,
        ledger: Arc<dyn Ledger>,
        blobs: Arc<dyn Blobs>,
        limiter: Arc<dyn Limiter>,
    ) -> Self {
        Self {
            queue: Retrying::new(env, queue),
            ledger: Retrying::new(env, ledger),
            blobs: Retrying::new(env, blobs),
            limiter,
            objects: None,
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
        let layer = RetryLayer {
            env: env.clone(),
            long: false,
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
            env: self.layer.env.clone(),
            long: true,
        };
        Self {
            layer,
            port: Arc::clone(&self.port),
        }
    }
}

/// Retries port calls.
#[derive(Clone)]
pub struct RetryLayer {
    env: Env,
    long: bool,
}

impl PortLayer for RetryLayer {
    async fn call<'a, T, F>(
        &'a self,
        _operation: &'static str,
        _about: impl Fn() -> String + Send + 'a,
        call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        if self.long {
            with_long_retry(&self.env, call).await
        } else {
            with_retry(&self.env, call).await
        }
    }
}
