//! The four ports together.

use std::sync::Arc;

use crate::blobs::{Blobs, MemoryBlobs};
use crate::ledger::{Ledger, MemoryLedger};
use crate::limit::{Limiter, MemoryLimiter};
use crate::queue::{MemoryQueue, Queue};

/// Everything through which the engine touches the outside. Cheap to clone.
#[derive(Clone)]
pub struct Ports {
    /// Messages.
    pub queue: Arc<dyn Queue>,
    /// Short-term memory.
    pub ledger: Arc<dyn Ledger>,
    /// Objects: the truth.
    pub blobs: Arc<dyn Blobs>,
    /// Shared limits.
    pub limiter: Arc<dyn Limiter>,
}

impl Ports {
    /// Queue, ledger and limiter in memory over the given objects: the embedded mode.
    pub fn embedded(blobs: Arc<dyn Blobs>) -> Self {
        Self {
            queue: Arc::new(MemoryQueue::default()),
            ledger: Arc::new(MemoryLedger::default()),
            blobs,
            limiter: Arc::new(MemoryLimiter::default()),
        }
    }

    /// Everything in memory: for tests.
    pub fn memory() -> Self {
        Self::embedded(Arc::new(MemoryBlobs::default()))
    }
}
