//! Crashes of the process, and faults of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use stemma_store::port_layer::PortLayer;
use stemma_store::{PortError, PortResult};
use tokio_util::sync::CancellationToken;

const PLAN: &str = "/plan.json";

/// When the process dies: around its n-th effect on store or provider.
#[derive(Debug, Clone, Copy)]
pub(super) enum Crash {
    Never,
    Before(usize),
    After(usize),
}

/// How many of the next operations on plans fail.
#[derive(Default)]
pub(super) struct PlanFaults {
    pub(super) refused_reads: AtomicU32,
    // Lost replies of writes that take effect.
    pub(super) lost_replies: AtomicU32,
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

/// Counts the effects of a process, and stops it at one of them.
pub(super) struct Steps {
    done: Mutex<usize>,
    crash: Crash,
    crashed: CancellationToken,
    plan_faults: Arc<PlanFaults>,
}

impl Steps {
    pub(super) fn new(
        crash: Crash,
        crashed: CancellationToken,
        plan_faults: Arc<PlanFaults>,
    ) -> Self {
        Self {
            done: Mutex::new(0),
            crash,
            crashed,
            plan_faults,
        }
    }

    /// Makes an effect, unless the process dies before; the caller never learns of one after which it dies.
    pub(super) async fn step<T>(&self, effect: impl Future<Output = T>) -> T {
        let step = {
            let mut done = self.done.lock();
            *done += 1;
            *done - 1
        };
        if matches!(self.crash, Crash::Before(at) if step >= at) {
            self.crashed.cancel();
            return std::future::pending().await;
        }
        let result = effect.await;
        if matches!(self.crash, Crash::After(at) if step >= at) {
            self.crashed.cancel();
            return std::future::pending().await;
        }
        result
    }
}

/// Objects whose changes count as steps of the process.
pub(super) struct CrashingBlobs(pub(super) Arc<Steps>);

impl PortLayer for CrashingBlobs {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        about: impl Fn() -> String + Send + 'a,
        mut call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        let faults = &self.0.plan_faults;
        let is_of_plan = about().contains(PLAN);
        match operation {
            "blobs.get" if is_of_plan && take_one(&faults.refused_reads) => {
                Err(PortError::refused(operation, "access denied"))
            }
            "blobs.put" | "blobs.delete" | "blobs.barrier" => {
                let changed = self.0.step(call()).await;
                if operation == "blobs.put" && is_of_plan && take_one(&faults.lost_replies) {
                    return Err(PortError::transient(operation, "connection reset"));
                }
                changed
            }
            _ => call().await,
        }
    }
}
