//! A store for the tests of garbage collection: counts requests, and may die.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::port_layer::{Layered, PortLayer};
use stemma_store::{PortError, PortResult};

pub(super) type ObservedBlobs = Layered<Observer, dyn Blobs>;

pub(super) struct Observer {
    gets: AtomicUsize,
    lists: AtomicUsize,
    deletes: AtomicUsize,
    writes_left: AtomicUsize,
}

/// Fails every write and deletion after the first `writes`, like a process that died.
pub(super) fn observed(blobs: &Arc<MemoryBlobs>, writes: usize) -> ObservedBlobs {
    Layered {
        layer: Observer {
            gets: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            deletes: AtomicUsize::new(0),
            writes_left: AtomicUsize::new(writes),
        },
        port: Arc::<MemoryBlobs>::clone(blobs),
    }
}

impl Observer {
    /// The requests since the last call: reads, listings, deletions.
    pub(super) fn counts(&self) -> [usize; 3] {
        [&self.gets, &self.lists, &self.deletes].map(|count| count.swap(0, Ordering::Relaxed))
    }

    fn write(&self) -> PortResult<()> {
        let order = Ordering::SeqCst;
        match self
            .writes_left
            .fetch_update(order, order, |left| left.checked_sub(1))
        {
            Ok(_) => Ok(()),
            Err(_) => Err(PortError::permanent("blobs.test", "the process died")),
        }
    }
}

impl PortLayer for Observer {
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
        let count = match operation {
            "blobs.get" | "blobs.get_range" | "blobs.size" => Some(&self.gets),
            "blobs.list" | "blobs.children" => Some(&self.lists),
            "blobs.delete" => Some(&self.deletes),
            _ => None,
        };
        if matches!(operation, "blobs.put" | "blobs.delete") {
            self.write()?;
        }
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        call().await
    }
}
