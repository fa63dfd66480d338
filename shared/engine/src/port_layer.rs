//! Queue and ledger behind a [`PortLayer`](stemma_store::port_layer::PortLayer).

use bytes::Bytes;
use stemma_store::env::Millis;
use stemma_store::key::{JobId, RunId, TaskKey};
use stemma_store::layered;

use crate::ledger::{
    DeliveryKind, Lease, Ledger, OpenTask, OutcomeBatch, Retry, ScheduledItem, StatusRecord,
    StatusTopic, TaskOutcome, TaskSpec,
};
use crate::queue::{Depth, Message, Queue, QueueName, RetryDelay, Subscription};

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
