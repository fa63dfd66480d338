//! The port to the message broker: named queues, confirmed publishing, manual acknowledgement, delayed retry.
//!
//! What every adapter promises (held by one conformance suite): a message whose `publish` returned is delivered at
//! least once; an unacknowledged message comes back when its consumer goes away, with its delivery count raised; a
//! message delivered more than [`DELIVERY_LIMIT`] times goes to [`QueueName::Dead`]; flow queues have one active
//! consumer at a time. What none promises: order, or exactly once.

mod memory;
mod rabbit;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use memory::MemoryQueue;
pub use rabbit::{Probe, RabbitQueue, RabbitSettings};

use crate::key::{Priority, RunId};
use crate::port_error::PortError;

pub use crate::retry::RetryDelay;

/// Deliveries after which a message counts as poison. Lost connections count too, so it is no retry policy.
pub const DELIVERY_LIMIT: u32 = 20;

/// Number of flow queues; a run's completions always go to the same one.
pub const FLOW_QUEUES: u8 = 32;

/// The largest message body in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// What a task needs most; decides which workers take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// A core: extraction, structure.
    Cpu,
    /// A model call under the shared limits.
    Llm,
    /// The right to write trees.
    Publish,
}

impl Lane {
    /// All lanes, in the order a document meets them.
    pub const ALL: [Lane; 3] = [Lane::Cpu, Lane::Llm, Lane::Publish];

    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Cpu => "cpu",
            Lane::Llm => "llm",
            Lane::Publish => "publish",
        }
    }
}

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// Tasks of a lane and class.
    Lane(Lane, Priority),
    /// Completions and wake-ups; single active consumer.
    Flow(u8),
    /// Messages no one could handle.
    Dead,
    /// Requests from outside to index a document again.
    Reindex,
}

impl QueueName {
    /// The flow queue of a name, by hash.
    pub fn flow_for(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        QueueName::Flow(hash.as_bytes()[0] % FLOW_QUEUES)
    }

    /// The flow queue of a run.
    pub fn for_run(run: &RunId) -> Self {
        Self::flow_for(&run.0)
    }

    /// All queues there are.
    pub fn all() -> impl Iterator<Item = QueueName> {
        let classes = [Priority::Bulk, Priority::Interactive];
        let lanes = [Lane::Cpu, Lane::Llm, Lane::Publish];
        let tasks = lanes
            .into_iter()
            .flat_map(move |lane| classes.map(|class| QueueName::Lane(lane, class)));
        tasks
            .chain(Self::flows())
            .chain([QueueName::Dead, QueueName::Reindex])
    }

    /// All flow queues.
    pub fn flows() -> impl Iterator<Item = QueueName> {
        (0..FLOW_QUEUES).map(QueueName::Flow)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueName::Lane(lane, Priority::Bulk) => write!(f, "{}.bulk", lane.name()),
            QueueName::Lane(lane, Priority::Interactive) => {
                write!(f, "{}.interactive", lane.name())
            }
            QueueName::Flow(n) => write!(f, "flow.{n:02}"),
            QueueName::Dead => f.write_str("dead"),
            QueueName::Reindex => f.write_str("reindex"),
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// At most [`MAX_MESSAGE_BYTES`]; never text of a document (I-6).
    pub body: Bytes,
    /// Failed attempts so far, as far as this message knows.
    pub attempts: u32,
    /// W3C trace context of what published it.
    pub trace: Option<String>,
}

impl Message {
    /// A first message with this body.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: body.into(),
            attempts: 0,
            trace: None,
        }
    }
}

/// A message in the hands of a consumer, to be acknowledged or handed back; dropping it hands it back.
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// How often it has been delivered before.
    pub redeliveries: u32,
    /// How to answer for it.
    pub receipt: Box<dyn Receipt>,
}

/// The answer to a delivery.
#[async_trait]
pub trait Receipt: Send + Sync {
    /// It is done: never deliver it again.
    ///
    /// # Errors
    /// [`PortError`] when the broker did not hear it; the message will come again.
    async fn ack(self: Box<Self>) -> Result<(), PortError>;

    /// Deliver it again, soon, to anyone.
    ///
    /// # Errors
    /// [`PortError`] when the broker did not hear it; the message will come again all the same.
    async fn requeue(self: Box<Self>) -> Result<(), PortError>;
}

/// A subscription to one queue; dropping it hands back everything it holds.
#[async_trait]
pub trait Subscription: Send {
    /// The next message; waits for it. Safe to cancel.
    ///
    /// # Errors
    /// [`PortError`] when the broker is away; subscribe again.
    async fn next(&mut self) -> Result<Delivery, PortError>;
}

/// How full a queue is. Brokers report it late: for people and scaling, never for logic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Waiting.
    pub ready: u64,
    /// Delivered, not yet acknowledged.
    pub unacked: u64,
    /// On a rung of the ladder, on its way back to this queue.
    pub delayed: u64,
}

/// The message broker.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Puts messages on a queue; returns once the broker has taken responsibility for all of them.
    ///
    /// # Errors
    /// [`PortError`] when it did not: some may have been taken all the same.
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> Result<(), PortError>;

    /// Puts a message on a queue after a rung's delay.
    ///
    /// # Errors
    /// As [`Queue::publish`].
    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> Result<(), PortError>;

    /// Takes part in a queue, holding at most `prefetch` unacknowledged messages.
    ///
    /// # Errors
    /// [`PortError`] when the broker is away.
    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> Result<Box<dyn Subscription>, PortError>;

    /// Tells whoever listens outside that something happened, under a dotted topic such as `document.published`. No one
    /// may depend on hearing it: what it speaks of is found in the blobs as well.
    ///
    /// # Errors
    /// [`PortError`] when the broker did not take it.
    async fn announce(&self, topic: &str, event: Message) -> Result<(), PortError>;

    /// How full a queue is.
    ///
    /// # Errors
    /// [`PortError`] when the broker is away.
    async fn depth(&self, queue: QueueName) -> Result<Depth, PortError>;
}
