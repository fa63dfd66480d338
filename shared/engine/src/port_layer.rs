//! Runs every call of a port through a layer: retries in production, fault injection in tests.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::blobs::{Blobs, PutOutcome};
use crate::env::Millis;
use crate::key::{JobId, RunId, TaskKey};
use crate::ledger::{
    DeliveryKind, Lease, Ledger, OpenTask, OutcomeBatch, Retry, ScheduledItem, StatusRecord,
    StatusTopic, TaskOutcome, TaskSpec,
};
use crate::limit::{
    AccountReservation, Limiter, Permit, Quota, ReportedLimits, RequestCost, Reservation,
};
use crate::port_error::PortResult;
use crate::queue::{Depth, Message, Queue, QueueName, RetryDelay, Subscription};

/// Wraps port calls.
pub trait PortLayer: Send + Sync {
    /// Makes a call, any number of times. `operation` is `port.method`; `about` says what the call is about, for logs.
    fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        about: impl Fn() -> String + Send + 'a,
        call: F,
    ) -> impl Future<Output = PortResult<T>> + Send + 'a
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a;
}

/// A port behind a layer.
pub struct Layered<L, P: ?Sized> {
    pub layer: L,
    pub port: Arc<P>,
}

impl<L: Clone, P: ?Sized> Clone for Layered<L, P> {
    fn clone(&self) -> Self {
        Self {
            layer: self.layer.clone(),
            port: Arc::clone(&self.port),
        }
    }
}

// Implements a port by passing each method through the layer. Arguments before `;` are what the call is about. All are
// cloned for each attempt: they are references, numbers, or shared bytes.
macro_rules! layered {
    ($port:ident, $name:literal:
        $($method:ident($($about:ident: $subject:ty),* $(; $($arg:ident: $type:ty),*)?) -> $result:ty;)*
    ) => {
        impl Layered<(), dyn $port> {
            /// The calls of the port: `port.method`.
            pub const OPERATIONS: &'static [&'static str] =
                &[$(concat!($name, ".", stringify!($method))),*];
        }

        #[async_trait]
        impl<L: PortLayer> $port for Layered<L, dyn $port> {
            $(async fn $method(
                &self, $($about: $subject,)* $($($arg: $type,)*)?
            ) -> PortResult<$result> {
                self.layer.call(
                    concat!($name, ".", stringify!($method)),
                    || format!("{:?}", ($(&$about,)*)),
                    || self.port.$method($(Clone::clone(&$about),)* $($(Clone::clone(&$arg),)*)?),
                ).await
            })*
        }
    };
}

layered! { Queue, "queue":
    publish(queue: QueueName, messages: Vec<Message>) -> ();
    publish_later(queue: QueueName, message: Message, delay: RetryDelay) -> ();
    subscribe(queue: QueueName; prefetch: u16) -> Box<dyn Subscription>;
    announce(topic: &str; event: Message) -> ();
    depth(queue: QueueName) -> Depth;
}

layered! { Ledger, "ledger":
    outcomes(run: &RunId, since: u64) -> OutcomeBatch;
    record(run: &RunId, key: &TaskKey; entry: TaskOutcome) -> ();
    request_tasks(run: &RunId, tasks: &[TaskSpec]; now_ms: Millis, due_ms: Millis) -> Vec<TaskKey>;
    overdue(run: &RunId; due_by_ms: Millis, now_ms: Millis) -> Vec<TaskKey>;
    mark_republished(run: &RunId, keys: &[TaskKey]; now_ms: Millis) -> ();
    open_tasks(run: &RunId) -> Vec<OpenTask>;
    lease(run: &RunId, key: &TaskKey, holder: &str; now_ms: Millis, until_ms: Millis, delivery: DeliveryKind) -> Lease;
    park_run(run: &RunId, parked: bool) -> ();
    release(run: &RunId, key: &TaskKey, holder: &str, retry: Option<&Retry>) -> u32;
    schedule(item: &ScheduledItem; at_ms: Millis) -> ();
    claim_due(; now_ms: Millis, again_ms: Millis, limit: usize) -> Vec<ScheduledItem>;
    unschedule(item: &ScheduledItem) -> ();
    add_watcher(run: &RunId, job: &JobId) -> ();
    watchers(run: &RunId) -> Vec<JobId>;
    hold_result(run: &RunId, key: &TaskKey; result: Bytes, now_ms: Millis, until_ms: Millis) -> ();
    held_result(run: &RunId, key: &TaskKey; now_ms: Millis) -> Option<Bytes>;
    drop_result(run: &RunId, key: &TaskKey) -> ();
    forget_run(run: &RunId) -> ();
    post_status(topic: StatusTopic; record: StatusRecord, now_ms: Millis) -> ();
    status_records(topic: StatusTopic; now_ms: Millis) -> Vec<StatusRecord>;
}

layered! { Blobs, "blobs":
    put(key: &str; bytes: Bytes) -> PutOutcome;
    get(key: &str) -> Option<Bytes>;
    get_range(key: &str; range: Range<u64>) -> Option<Bytes>;
    size(key: &str) -> Option<u64>;
    list(prefix: &str; after: Option<&str>, limit: usize) -> Vec<String>;
    children(prefix: &str; after: Option<&str>, limit: usize) -> Vec<String>;
    delete(key: &str) -> ();
    barrier() -> ();
}

layered! { Limiter, "limiter":
    acquire(bucket: &str; quota: Quota, cost: RequestCost, now_ms: Millis) -> Permit;
    settle(bucket: &str; quota: Quota, estimated: u32, used: u32) -> ();
    pause(bucket: &str; until_ms: Millis) -> ();
    report_limits(bucket: &str; quota: Quota, reported: ReportedLimits, now_ms: Millis) -> ();
    decrease_rate(bucket: &str; age_ms: u64, now_ms: Millis) -> ();
    reserve(account: &str; limit: u64, call: AccountReservation, now_ms: Millis) -> Reservation;
    settle_reservation(account: &str; call: AccountReservation, used: u64, now_ms: Millis) -> ();
    begin_opening(account: &str; proposed: u64) -> u64;
    open_account(account: &str; opening: u64, used: u64) -> ();
}
