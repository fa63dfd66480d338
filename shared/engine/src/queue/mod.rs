//! The message broker port: named queues, confirmed publishing, manual acknowledgement, delayed retry.
//!
//! Every adapter passes one conformance suite: a message whose `publish` returned is delivered at least once; an
//! unacknowledged message is redelivered when its consumer goes away, with its delivery count increased; a message
//! delivered more than [`DELIVERY_LIMIT`] times goes to [`QueueName::Dead`]; flow queues have a single active consumer.
//! No adapter promises order or exactly-once delivery.

mod memory;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_store::env::Millis;
use stemma_store::key::{Priority, RunId};
use stemma_store::port_error::PortResult;

pub use memory::MemoryQueue;

/// Deliveries after which a message counts as poison. Lost connections count too, so this is not a retry policy.
pub const DELIVERY_LIMIT: u32 = 20;

/// Number of flow queues; all messages of a run go to the same one.
pub const FLOW_QUEUES: u8 = 32;

/// Maximum size of a message body in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// The resource a task needs most; workers subscribe by lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// CPU: extraction, structure.
    Cpu,
    /// Text recognition of pages that are pictures.
    Ocr,
    /// An LLM call under the shared limits.
    Llm,
    /// Writing trees.
    Publish,
}

impl Lane {
    /// In the order in which a document passes them.
    pub const ALL: [Lane; 4] = [Lane::Cpu, Lane::Ocr, Lane::Llm, Lane::Publish];

    pub fn name(self) -> &'static str {
        match self {
            Lane::Cpu => "cpu",
            Lane::Ocr => "ocr",
            Lane::Llm => "llm",
            Lane::Publish => "publish",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// Tasks of a lane and priority.
    Lane(Lane, Priority),
    /// Such tasks of runs that have an outcome of the lane. They go first, so that documents finish one after another.
    Continuation(Lane, Priority),
    /// Completions and wake-ups; single active consumer.
    Flow(u8),
    /// Messages that no handler could process.
    Dead,
    /// External requests to index a document again.
    Reindex,
}

impl QueueName {
    /// The flow queue of a run or job id, by hash.
    pub fn flow_for(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        QueueName::Flow(hash.as_bytes()[0] % FLOW_QUEUES)
    }

    pub fn for_run(run: &RunId) -> Self {
        Self::flow_for(&run.0)
    }

    /// The queue of a task, by whether its run has an outcome of the lane.
    pub fn for_task(lane: Lane, priority: Priority, continues: bool) -> Self {
        let first = QueueName::Lane(lane, priority);
        first.continuation().filter(|_| continues).unwrap_or(first)
    }

    /// The queue whose messages go before those of this one, and share the slots of its consumers. A run has one task of
    /// lane publish, so that lane has none.
    pub fn continuation(self) -> Option<Self> {
        match self {
            QueueName::Lane(lane @ (Lane::Cpu | Lane::Ocr | Lane::Llm), priority) => {
                Some(QueueName::Continuation(lane, priority))
            }
            _ => None,
        }
    }

    /// Lane and priority of a queue of tasks.
    pub fn lane(self) -> Option<(Lane, Priority)> {
        match self {
            QueueName::Lane(lane, priority) | QueueName::Continuation(lane, priority) => {
                Some((lane, priority))
            }
            QueueName::Flow(_) | QueueName::Dead | QueueName::Reindex => None,
        }
    }

    /// The queues of the tasks of a lane and priority.
    pub fn for_lane(lane: Lane, priority: Priority) -> impl Iterator<Item = QueueName> {
        let first = QueueName::Lane(lane, priority);
        std::iter::once(first).chain(first.continuation())
    }

    pub fn all() -> impl Iterator<Item = QueueName> {
        let priorities = [Priority::Bulk, Priority::Interactive];
        let lanes = Lane::ALL
            .into_iter()
            .flat_map(move |lane| priorities.map(|priority| (lane, priority)));
        let tasks = lanes.flat_map(|(lane, priority)| Self::for_lane(lane, priority));
        tasks
            .chain(Self::flows())
            .chain([QueueName::Dead, QueueName::Reindex])
    }

    pub fn flows() -> impl Iterator<Item = QueueName> {
        (0..FLOW_QUEUES).map(QueueName::Flow)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueName::Lane(lane, priority) => write!(f, "{}.{}", lane.name(), priority.name()),
            QueueName::Continuation(lane, priority) => {
                write!(f, "{}.{}.continuation", lane.name(), priority.name())
            }
            QueueName::Flow(n) => write!(f, "flow.{n:02}"),
            QueueName::Dead => f.write_str("dead"),
            QueueName::Reindex => f.write_str("reindex"),
        }
    }
}

/// Delay of a redelivered message: fixed steps, each backed by one queue that all lanes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryDelay {
    /// 5 s.
    Short,
    /// 30 s.
    Medium,
    /// 5 min.
    Long,
}

impl RetryDelay {
    /// From the shortest to the longest.
    pub const ALL: [RetryDelay; 3] = [RetryDelay::Short, RetryDelay::Medium, RetryDelay::Long];

    pub fn duration(self) -> Duration {
        match self {
            RetryDelay::Short => Duration::from_secs(5),
            RetryDelay::Medium => Duration::from_secs(30),
            RetryDelay::Long => Duration::from_secs(300),
        }
    }

    /// The delay after the n-th failed attempt (from 1).
    pub fn for_attempt(attempts: u32) -> Self {
        match attempts {
            0..=2 => RetryDelay::Short,
            3 => RetryDelay::Medium,
            _ => RetryDelay::Long,
        }
    }

    /// The shortest delay of at least `millis`, or the longest there is.
    pub fn at_least(millis: u64) -> Self {
        match millis {
            0..=5_000 => RetryDelay::Short,
            5_001..=30_000 => RetryDelay::Medium,
            _ => RetryDelay::Long,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// At most [`MAX_MESSAGE_BYTES`]; never document text (I-6).
    pub body: Bytes,
    /// Failed attempts counted on this message.
    pub attempts: u32,
    /// The [`crate::ledger::Retry::next_ms`] of the retry that it was published for.
    pub retry_ms: Option<Millis>,
    /// W3C trace context of the publisher.
    pub trace: Option<String>,
    /// Set for messages to coordinators: made by [`MessageKeys`](crate::MessageKeys) over the body.
    pub signature: Option<String>,
    /// Set for messages on [`QueueName::Dead`]: why they are there.
    pub dead: Option<DeadReason>,
}

/// Why a message was put on the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadReason {
    /// The queue it came from.
    pub queue: String,
    pub reason: String,
    /// How often it was delivered there.
    pub deliveries: u32,
}

const UNACKNOWLEDGED: &str = "no process that took it acknowledged it";

impl DeadReason {
    /// A message that was never acknowledged.
    pub fn undeliverable(queue: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            reason: UNACKNOWLEDGED.into(),
            deliveries: DELIVERY_LIMIT + 1,
        }
    }

    /// Whether the broker gave the message up, and not a process that had read it.
    pub(crate) fn is_undeliverable(&self) -> bool {
        self.reason == UNACKNOWLEDGED
    }
}

impl Message {
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: body.into(),
            attempts: 0,
            retry_ms: None,
            trace: None,
            signature: None,
            dead: None,
        }
    }
}

/// A received message, to be acknowledged or requeued; dropping it requeues it.
pub struct Delivery {
    pub message: Message,
    pub redeliveries: u32,
    pub receipt: Box<dyn Receipt>,
}

/// Acknowledges or requeues a delivery.
#[async_trait]
pub trait Receipt: Send + Sync {
    /// Acknowledges: the message is never delivered again.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the broker did not receive it; the message will be redelivered.
    async fn ack(self: Box<Self>) -> PortResult<()>;

    /// Returns the message to the queue, for any consumer.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the broker did not receive it; the message will be redelivered all the same.
    async fn requeue(self: Box<Self>) -> PortResult<()>;
}

/// A subscription to one queue; dropping it requeues everything unacknowledged.
#[async_trait]
pub trait Subscription: Send {
    /// Waits for the next message. Cancel-safe.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the connection is lost; subscribe again.
    async fn next(&mut self) -> PortResult<Delivery>;
}

/// Fill level of a queue. Brokers report it late, so it serves monitoring and scaling, never logic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    pub ready: u64,
    pub unacked: u64,
    /// Waiting in a delay queue to return to this queue.
    pub delayed: u64,
    /// Subscriptions of the queue.
    pub consumers: u64,
}

impl Depth {
    /// The fill level of two queues of a lane. Some brokers count delayed messages of all queues together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            ready: self.ready + other.ready,
            unacked: self.unacked + other.unacked,
            delayed: self.delayed.max(other.delayed),
            consumers: self.consumers + other.consumers,
        }
    }
}

#[async_trait]
pub trait Queue: Send + Sync {
    /// Publishes messages; returns once the broker has confirmed all of them.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when any was not confirmed; some may have been published all the same.
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> PortResult<()>;

    /// Publishes a message to a queue after `delay`.
    ///
    /// # Errors
    /// As [`Queue::publish`].
    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> PortResult<()>;

    /// Subscribes to a queue, with at most `prefetch` unacknowledged messages.
    async fn subscribe(&self, queue: QueueName, prefetch: u16)
    -> PortResult<Box<dyn Subscription>>;

    /// Publishes an event for external listeners under a dotted topic such as `document.published`. Nothing may depend
    /// on its delivery: the same information is in the blobs.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the broker did not accept it.
    async fn announce(&self, topic: &str, event: Message) -> PortResult<()>;

    /// The fill level of a queue.
    async fn depth(&self, queue: QueueName) -> PortResult<Depth>;

    /// Why the broker holds back publishers, while it does. That is back-pressure, not a failure.
    fn blocked(&self) -> Option<String> {
        None
    }
}
