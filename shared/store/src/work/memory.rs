//! A budget of memory for large documents and responses.
//!
//! Requests reserve what a document will take before they read it, and hold what their response takes until it is sent.
//! Small ones are not counted: what they take is bounded by the number of requests.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ClientShare, SCOPE, WorkScope};
use crate::{PortError, PortResult};

// 256 MiB in units of 64 KiB.
const UNIT_BYTES: usize = 64 << 10;
pub(super) const TOTAL_UNITS: u32 = 4_096;
// How long a request waits for others to release memory.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The operation of the error that says that memory is used up.
pub const RESERVE_OPERATION: &str = "memory.reserve";

static TOTAL: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(TOTAL_UNITS as usize)));

/// Memory that one client holds.
#[derive(Debug)]
pub struct MemoryPermit {
    of_client: OwnedSemaphorePermit,
    total: OwnedSemaphorePermit,
}

impl MemoryPermit {
    pub fn bytes(&self) -> usize {
        self.total.num_permits() * UNIT_BYTES
    }

    pub fn merge(&mut self, more: MemoryPermit) {
        self.of_client.merge(more.of_client);
        self.total.merge(more.total);
    }

    fn units(&self) -> u32 {
        u32::try_from(self.total.num_permits()).unwrap_or(u32::MAX)
    }

    fn shrink(&mut self, units: u32) {
        let excess = self.units().saturating_sub(units) as usize;
        drop((self.of_client.split(excess), self.total.split(excess)));
    }
}

impl ClientShare {
    // More than the share counts as the share: a large document is served alone.
    fn units(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES);
        u32::try_from(units)
            .unwrap_or(u32::MAX)
            .min(self.memory_units)
    }

    async fn acquire_memory(&self, units: u32) -> Option<MemoryPermit> {
        let of_client = Arc::clone(&self.memory).acquire_many_owned(units).await;
        let total = Arc::clone(&TOTAL).acquire_many_owned(units).await;
        Some(MemoryPermit {
            of_client: of_client.ok()?,
            total: total.ok()?,
        })
    }

    fn try_acquire_memory(&self, units: u32) -> Option<MemoryPermit> {
        Some(MemoryPermit {
            of_client: Arc::clone(&self.memory)
                .try_acquire_many_owned(units)
                .ok()?,
            total: Arc::clone(&TOTAL).try_acquire_many_owned(units).ok()?,
        })
    }
}

/// Whether [`reserve`] counts here: not for work without a scope, and not for work that outlives its request.
pub fn is_limited() -> bool {
    limited_scope().is_some()
}

fn limited_scope() -> Option<WorkScope> {
    let scope = SCOPE.try_with(Clone::clone).ok();
    scope.filter(|scope| !scope.0.outlives_request)
}

/// Reserves memory for the current request, which keeps the largest of its reservations. Waits up to five seconds for other
/// requests.
///
/// # Errors
/// A transient [`PortError`] of [`RESERVE_OPERATION`] while other requests hold the memory.
pub async fn reserve(bytes: usize) -> PortResult<()> {
    let Some(scope) = limited_scope() else {
        return Ok(());
    };
    // If two read at once, what the first waits for may suffice for the second.
    let _turn = scope.0.reserving.lock().await;
    let share = &scope.0.share;
    let missing = share.units(bytes).saturating_sub(scope.held_units());
    if missing == 0 {
        return Ok(());
    }
    let acquired = tokio::time::timeout(TIMEOUT, share.acquire_memory(missing)).await;
    let Ok(Some(permit)) = acquired else {
        let detail =
            "large documents and responses in progress use up the memory reserved for them";
        return Err(PortError::transient(RESERVE_OPERATION, detail));
    };
    scope.add_memory(permit);
    Ok(())
}

/// Runs one of several concurrent parts of a request. What it reserves is added to what the request and its other parts hold, and
/// is released when it ends.
pub async fn part<F: Future>(work: F) -> F::Output {
    match limited_scope() {
        Some(scope) => WorkScope::new(&scope.0.share).enter(work).await,
        None => work.await,
    }
}

impl WorkScope {
    fn held_units(&self) -> u32 {
        self.0.memory.lock().as_ref().map_or(0, MemoryPermit::units)
    }

    fn add_memory(&self, permit: MemoryPermit) {
        let mut memory = self.0.memory.lock();
        match memory.as_mut() {
            Some(memory) => memory.merge(permit),
            None => *memory = Some(permit),
        }
    }

    /// Holds memory in addition to the reservations of the request, without waiting. `None`: others hold it.
    pub fn hold(&self, bytes: usize) -> Option<MemoryPermit> {
        let share = &self.0.share;
        share.try_acquire_memory(share.units(bytes))
    }

    /// Turns the reservations of the request into what its response of `bytes` holds. `None`: others hold the memory.
    pub fn hold_response(&self, bytes: usize) -> Option<MemoryPermit> {
        let share = &self.0.share;
        let units = share.units(bytes);
        let reserved = self.0.memory.lock().take();
        let Some(mut permit) = reserved else {
            return share.try_acquire_memory(units);
        };
        if permit.units() < units {
            permit.merge(share.try_acquire_memory(units - permit.units())?);
        }
        permit.shrink(units);
        Some(permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn one_client_leaves_memory_to_others() {
        let (first, second) = (
            ClientShare::for_several_clients(),
            ClientShare::for_several_clients(),
        );
        let large = WorkScope::new(&first);
        large.enter(reserve(1 << 40)).await.unwrap();
        let waiting = WorkScope::new(&first);
        let refused = waiting.enter(reserve(MIB)).await.unwrap_err();
        assert_eq!(refused.operation, RESERVE_OPERATION);
        let other = WorkScope::new(&second);
        other.enter(reserve(100 * MIB)).await.unwrap();
        // The response is smaller than the estimate: the rest is released, and the whole when it is sent.
        let response = large.hold_response(28 * MIB).unwrap();
        let again = WorkScope::new(&first);
        again.enter(reserve(100 * MIB)).await.unwrap();
        assert!(WorkScope::new(&first).hold(MIB).is_none());
        drop(response);
        assert!(WorkScope::new(&first).hold(MIB).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn reads_of_one_request_do_not_wait_for_each_other() {
        let share = ClientShare::for_several_clients();
        let other = WorkScope::new(&share).hold(128 * MIB);
        let scope = WorkScope::new(&share);
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(other);
        };
        let reads = async { tokio::try_join!(reserve(100 * MIB), reserve(90 * MIB)) };
        let (read, ()) = tokio::join!(scope.enter(reads), release);
        read.unwrap();
        assert_eq!(share.memory.available_permits(), (128 - 100) * 16);
    }

    #[tokio::test(start_paused = true)]
    async fn parts_of_a_request_add_up_and_release_what_they_reserved() {
        let share = ClientShare::for_several_clients();
        let second = async {
            for mib in [50, 58] {
                part(reserve(mib * MIB)).await.unwrap();
            }
            assert_eq!(share.memory.available_permits(), (128 - 70) * 16);
            part(reserve(60 * MIB)).await
        };
        let first = async {
            reserve(70 * MIB).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        let both = async { tokio::join!(part(first), second).1 };
        let refused = WorkScope::new(&share).enter(both).await.unwrap_err();
        assert_eq!(refused.operation, RESERVE_OPERATION);
        assert_eq!(share.memory.available_permits(), 128 * 16);
        // Without a request nothing is counted.
        part(reserve(1 << 40)).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_keeps_the_largest_of_its_reservations() {
        let share = ClientShare::for_several_clients();
        let scope = WorkScope::new(&share);
        let reads = async {
            for mib in [10, 90, 20, 90] {
                reserve(mib * MIB).await.unwrap();
            }
        };
        scope.enter(reads).await;
        assert_eq!(share.memory.available_permits(), (128 - 90) * 16);
        drop(scope);
        assert_eq!(share.memory.available_permits(), 128 * 16);
        // Outside of requests nothing is counted.
        reserve(1 << 40).await.unwrap();
    }
}
