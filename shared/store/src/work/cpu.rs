//! CPU-bound work of requests, on threads of its own.
//!
//! tokio's blocking threads serve files, objects and health checks. CPU-bound work would fill them, and work that its
//! request has left would keep them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::current_share;

static POOL: LazyLock<Result<CpuPool, String>> = LazyLock::new(CpuPool::new);

// Two threads for each core: one client may keep all cores busy, and the scheduler still gives half of them to another.
struct CpuPool {
    threads: Runtime,
    permits: Arc<Semaphore>,
}

impl CpuPool {
    fn new() -> Result<Self, String> {
        // Only its blocking threads are used, which need nobody to drive the runtime.
        let threads = Builder::new_current_thread()
            .max_blocking_threads(2 * cores())
            .thread_name("cpu")
            .build();
        Ok(Self {
            threads: threads.map_err(|error| error.to_string())?,
            permits: Arc::new(Semaphore::new(2 * cores())),
        })
    }
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Why CPU-bound work has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComputeError {
    #[error("CPU threads cannot be started: {0}")]
    NoThreads(String),
    #[error("{0}")]
    Panicked(String),
}

/// Whether nobody waits for the work any more. Loops look at it now and then, and return what they have.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs CPU-bound work within the share of the current client ([`super::WorkScope`]). The permit belongs to the work: it is
/// released when the work returns, not when the caller goes.
///
/// # Errors
/// [`ComputeError`] when the work panics.
pub async fn compute<T: Send + 'static>(
    work: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> Result<T, ComputeError> {
    let pool = POOL
        .as_ref()
        .map_err(|error| ComputeError::NoThreads(error.clone()))?;
    // Semaphores that are never closed.
    let of_client = current_share().cpu.acquire_owned().await.ok();
    let permit = Arc::clone(&pool.permits).acquire_owned().await.ok();
    let cancelled = Cancellation::default();
    let _guard = CancelOnDrop(cancelled.clone());
    let running = pool.threads.spawn_blocking(move || {
        let done = work(&cancelled);
        drop((permit, of_client));
        done
    });
    running
        .await
        .map_err(|error| ComputeError::Panicked(error.to_string()))
}

/// The CPU threads in use, for tests of servers.
pub fn busy_threads() -> usize {
    POOL.as_ref()
        .map_or(0, |pool| 2 * cores() - pool.permits.available_permits())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::work::{ClientShare, WorkScope};

    async fn until(condition: impl Fn() -> bool) {
        let polled = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), polled)
            .await
            .unwrap();
    }

    fn spin(ended: &Arc<AtomicUsize>) -> impl FnOnce(&Cancellation) + Send + use<> {
        let ended = Arc::clone(ended);
        move |cancelled| {
            while !cancelled.is_set() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn one_client_leaves_threads_to_others_and_its_work_ends_with_its_requests() {
        let ended = Arc::new(AtomicUsize::new(0));
        let first = ClientShare::for_several_clients();
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..4 * cores() {
            let work = WorkScope::new(&first).enter(compute(spin(&ended)));
            requests.spawn(work);
        }
        until(|| first.busy_threads() == cores()).await;
        let other = WorkScope::new(&ClientShare::for_several_clients());
        assert_eq!(other.enter(compute(|_| 7)).await, Ok(7));
        requests.shutdown().await;
        until(|| first.busy_threads() == 0).await;
        // Work that had not begun never does.
        assert_eq!(ended.load(Ordering::Relaxed), cores());
    }

    #[tokio::test]
    async fn work_is_cancelled_when_the_scope_ends() {
        let ended = Arc::new(AtomicUsize::new(0));
        let share = ClientShare::for_only_client();
        let scope = WorkScope::new(&share);
        let guard = scope.end_on_drop();
        // As a server of MCP runs calls: in a task that nobody drops.
        let work = compute(spin(&ended));
        let detached = tokio::spawn(async move { scope.enter_detached(work).await });
        until(|| share.busy_threads() == 1).await;
        drop(guard);
        assert_eq!(detached.await.unwrap(), None);
        until(|| share.busy_threads() == 0 && ended.load(Ordering::Relaxed) == 1).await;
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_returns_its_permits() {
        let share = ClientShare::for_only_client();
        let scope = WorkScope::new(&share);
        let result = scope
            .enter(compute(|_| -> u32 { panic!("bad page 3") }))
            .await;
        assert!(matches!(result, Err(ComputeError::Panicked(text)) if text.contains("panic")));
        assert_eq!(share.busy_threads(), 0);
    }
}
