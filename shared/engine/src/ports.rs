//! The ports of the engine and the clock. Calls to queue, ledger and blobs are retried.

use std::sync::Arc;

use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::env::Millis;
use stemma_store::limit::{Limiter, MemoryLimiter};
use stemma_store::port_monitor::{PortMonitor, PortTrouble};
use stemma_store::{Env, Retrying, RetryingBlobs};

use crate::ledger::{Ledger, MemoryLedger};
use crate::message_auth::MessageKeys;
use crate::objects::ObjectLookup;
use crate::queue::{MemoryQueue, Queue};

/// Everything through which the engine performs IO. Cheap to clone.
#[derive(Clone)]
pub struct Ports {
    /// Clock, randomness and spawning.
    pub env: Env,
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
            env: env.clone(),
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
    pub fn with_objects(self, objects: Arc<dyn ObjectLookup>) -> Self {
        Self {
            objects: Some(Arc::new(Retrying::new(&self.env, objects))),
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
