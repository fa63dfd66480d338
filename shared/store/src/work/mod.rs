//! What requests may use of this machine: CPU threads and memory, each with a share per client, until the request ends.
//!
//! [`WorkScope`] follows a request as a task-local value, so that code far below a route needs no parameter for it. Code
//! without a scope, such as that of commands and of indexing, has the share of one client and no limit of memory.

mod cpu;
mod memory;

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use cpu::{Cancellation, ComputeError, busy_threads, compute};
pub use memory::{MemoryPermit, RESERVE_OPERATION, is_limited, part, reserve};

tokio::task_local! {
    static SCOPE: WorkScope;
}

// The client of work without a scope: this process itself.
static OWN: LazyLock<ClientShare> = LazyLock::new(ClientShare::for_only_client);

/// The part of the machine that one client may use: half of the CPU threads, which is one for each core, and memory.
#[derive(Debug, Clone)]
pub struct ClientShare {
    cpu: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    memory_units: u32,
}

impl ClientShare {
    /// The share of the only client: all of the memory.
    pub fn for_only_client() -> Self {
        Self::with_memory(memory::TOTAL_UNITS)
    }

    /// The share of one of several clients: half of the memory.
    pub fn for_several_clients() -> Self {
        Self::with_memory(memory::TOTAL_UNITS / 2)
    }

    #[cfg(test)]
    fn busy_threads(&self) -> usize {
        cpu::cores() - self.cpu.available_permits()
    }

    fn with_memory(units: u32) -> Self {
        Self {
            cpu: Arc::new(Semaphore::new(cpu::cores())),
            memory: Arc::new(Semaphore::new(units as usize)),
            memory_units: units,
        }
    }
}

/// A client, as long as it has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(usize);

/// Whose request this code serves.
pub fn current_client() -> ClientId {
    ClientId(Arc::as_ptr(&current_share().cpu) as usize)
}

/// The work of one request. Clones refer to the same request.
#[derive(Debug, Clone)]
pub struct WorkScope(Arc<ScopeInner>);

#[derive(Debug)]
struct ScopeInner {
    share: ClientShare,
    ended: CancellationToken,
    // What the request holds for documents and its response.
    memory: Mutex<Option<MemoryPermit>>,
    // Held while the request waits for more.
    reserving: AsyncMutex<()>,
    outlives_request: bool,
}

impl WorkScope {
    pub fn new(share: &ClientShare) -> Self {
        Self::with(share.clone(), false)
    }

    fn with(share: ClientShare, outlives_request: bool) -> Self {
        Self(Arc::new(ScopeInner {
            share,
            ended: CancellationToken::new(),
            memory: Mutex::new(None),
            reserving: AsyncMutex::default(),
            outlives_request,
        }))
    }

    /// Runs `work` in this scope.
    pub fn enter<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(self.clone(), work)
    }

    /// Runs `work` in this scope, in a task that does not end with the request. `None`: the request ended first, and `work`
    /// was dropped.
    pub async fn enter_detached<F: Future>(&self, work: F) -> Option<F::Output> {
        let ended = &self.0.ended;
        self.enter(ended.run_until_cancelled(work)).await
    }

    /// Ends the scope when it is dropped: with the answer, at a deadline, or when the client has gone.
    pub fn end_on_drop(&self) -> DropGuard {
        self.0.ended.clone().drop_guard()
    }
}

/// Runs `work` with the share of the current client in a scope of its own: for answers, which outlive their requests. It
/// reserves no memory, which it would hold for minutes: the number of answers bounds it.
pub fn outliving<F: Future>(work: F) -> impl Future<Output = F::Output> {
    SCOPE.scope(WorkScope::with(current_share(), true), work)
}

fn current_share() -> ClientShare {
    SCOPE
        .try_with(|scope| scope.0.share.clone())
        .unwrap_or_else(|_| OWN.clone())
}
