//! The four ports of the engine.

use std::sync::Arc;

use crate::blobs::{Blobs, MemoryBlobs};
use crate::ledger::{Ledger, MemoryLedger};
use crate::limit::{Limiter, MemoryLimiter};
use crate::queue::{MemoryQueue, Queue};

/// Everything through which the engine performs IO. Cheap to clone.
#[derive(Clone)]
pub struct Ports {
    pub queue: Arc<dyn Queue>,
    /// Shared short-term state; may be lost.
    pub ledger: Arc<dyn Ledger>,
    /// Object storage; the source of truth.
    pub blobs: Arc<dyn Blobs>,
    /// Shared rate limits and budgets.
    pub limiter: Arc<dyn Limiter>,
}

impl Ports {
    /// Queue, ledger and limiter in memory over the given blobs: single-process mode.
    pub fn embedded(blobs: Arc<dyn Blobs>) -> Self {
        Self {
            queue: Arc::new(MemoryQueue::default()),
            ledger: Arc::new(MemoryLedger::default()),
            blobs,
            limiter: Arc::new(MemoryLimiter::default()),
        }
    }

    /// All ports in memory, for tests.
    pub fn memory() -> Self {
        Self::embedded(Arc::new(MemoryBlobs::default()))
    }
}
