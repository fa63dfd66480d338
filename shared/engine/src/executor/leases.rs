//! Leases of tasks: taking, renewing and releasing them.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use stemma_store::env::Millis;
use stemma_store::port_error::PortResult;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::TaskExecutor;
use crate::ledger::{DeliveryKind, Lease, Ledger, RENEWAL_GRACE, Retry};
use crate::message::TaskMessage;
use crate::stage::Work;

// How long a lease is valid without a renewal.
const LEASE_DURATION: Duration = Duration::from_secs(30);
// How soon a ledger that lost everything learns again who works on what. Calls that take less time renew nothing.
const LEASE_RENEWAL: Duration = Duration::from_secs(3);
// How soon a failed renewal is repeated: within `RENEWAL_GRACE`, even if the next call waits for an answer in vain.
const FAILED_RENEWAL_RETRY: Duration = Duration::from_secs(1);
// Crashes after which a task is executed alone in its process. Crashes count for every task of a process, so that those
// running next to one that crashes would become poison with it.
const CRASHES_UNTIL_ALONE: u32 = 2;

// Whether other tasks may be executed at the same time.
pub(super) enum ExecutionGuard<'a> {
    Shared(#[expect(dead_code, reason = "a guard")] RwLockReadGuard<'a, ()>),
    Exclusive(#[expect(dead_code, reason = "a guard")] RwLockWriteGuard<'a, ()>),
}

impl<W: Work> TaskExecutor<W> {
    // Waits without the lease, so that a crash meanwhile is not counted against the task.
    pub(super) async fn acquire_lease_and_guard(
        &self,
        task: &TaskMessage,
        delivery: DeliveryKind,
    ) -> PortResult<(Lease, ExecutionGuard<'_>)> {
        let shared = self.exclusive.read().await;
        let lease = self.acquire_lease(task, delivery).await?;
        let is_suspect =
            matches!(lease, Lease::Granted { crashes, .. } if crashes >= CRASHES_UNTIL_ALONE);
        if !is_suspect {
            return Ok((lease, ExecutionGuard::Shared(shared)));
        }
        self.release(task, None).await?;
        drop(shared);
        let exclusive = self.exclusive.write().await;
        tracing::info!(run = %task.run.run, stage = task.stage, "task executed alone: it may have crashed a worker");
        let lease = self.acquire_lease(task, delivery).await?;
        Ok((lease, ExecutionGuard::Exclusive(exclusive)))
    }

    // A ledger that does not know the task has lost its state, and with it all leases. A redelivered message may then
    // belong to a task that another worker is still paying for. Wait until running workers have renewed their leases,
    // then ask again.
    pub(super) async fn acquire_lease(
        &self,
        task: &TaskMessage,
        delivery: DeliveryKind,
    ) -> PortResult<Lease> {
        let ledger = &self.ports.ledger;
        let lease = self.try_lease(ledger, task, delivery).await?;
        if !matches!(
            lease,
            Lease::Granted {
                is_requested: false,
                ..
            }
        ) {
            return Ok(lease);
        }
        if self.has_recorded_failure(task).await? {
            return Ok(Lease::Ended);
        }
        if delivery != DeliveryKind::Redelivered {
            return Ok(lease);
        }
        self.release(task, None).await?;
        self.ports.env.sleep(RENEWAL_GRACE).await;
        self.try_lease(ledger, task, delivery).await
    }

    pub(super) async fn try_lease(
        &self,
        ledger: &dyn Ledger,
        task: &TaskMessage,
        delivery: DeliveryKind,
    ) -> PortResult<Lease> {
        let now = self.ports.env.now_ms();
        let until = now + LEASE_DURATION.as_millis() as Millis;
        let holder = self.heartbeat.process();
        self.leased.lock().insert(task.id()); // before the call: a failed call may still have taken the lease
        let lease = ledger
            .lease(&task.run.run, &task.key, holder, now, until, delivery)
            .await?;
        if !matches!(lease, Lease::Granted { .. }) {
            self.leased.lock().remove(&task.id());
        }
        Ok(lease)
    }

    pub(super) async fn release(
        &self,
        task: &TaskMessage,
        retry: Option<&Retry>,
    ) -> PortResult<()> {
        let ledger = &self.ports.ledger;
        let holder = self.heartbeat.process();
        ledger
            .release(&task.run.run, &task.key, holder, retry)
            .await?;
        self.leased.lock().remove(&task.id());
        Ok(())
    }

    // Releases the lease without counting an attempt, so that the next receiver can start at once.
    pub(super) async fn release_if_leased(&self, task: &TaskMessage) {
        if !self.leased.lock().contains(&task.id()) {
            return;
        }
        if let Err(error) = self.release(task, None).await {
            tracing::warn!(run = %task.run.run, stage = task.stage, %error, "cannot release the lease; it will expire");
        }
    }

    /// Waits for `work` while renewing the lease.
    pub(super) async fn while_leased<T>(
        &self,
        task: &TaskMessage,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::select! {
            biased;
            result = work => result,
            never = self.renew_lease(task) => match never {},
        }
    }

    pub(super) async fn renew_lease(&self, task: &TaskMessage) -> Infallible {
        let ledger = self.ports.ledger.raw().as_ref();
        let mut pause = LEASE_RENEWAL;
        loop {
            self.ports.env.sleep(pause).await;
            pause = match self.try_lease(ledger, task, DeliveryKind::Published).await {
                Ok(_) => LEASE_RENEWAL,
                Err(error) => {
                    tracing::warn!(run = %task.run.run, stage = task.stage, %error, "cannot renew lease; continuing");
                    FAILED_RENEWAL_RETRY
                }
            };
        }
    }
}
