//! An in-memory broker: the single-process default. Lost with the process; the blobs are the source of truth (I-1).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use stemma_store::port_error::{PortError, PortResult};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{
    DELIVERY_LIMIT, DeadReason, Delivery, Depth, MAX_MESSAGE_BYTES, Message, Queue, QueueName,
    Receipt, RetryDelay, Subscription,
};

/// An in-process broker with the guarantees of [`Queue`].
#[derive(Clone, Default)]
pub struct MemoryQueue(Arc<Mutex<BrokerState>>);

#[derive(Default)]
struct BrokerState {
    queues: BTreeMap<QueueName, QueueState>,
    next_id: u64,
}

#[derive(Default)]
struct QueueState {
    ready: VecDeque<StoredMessage>,
    // By due time, then arrival.
    delayed: BTreeMap<(Instant, u64), StoredMessage>,
    // By delivery id.
    unacked: BTreeMap<u64, (u64, StoredMessage)>,
    // Live subscriptions; on a flow queue only the first is served.
    subscribers: Vec<u64>,
    // Notified when a subscriber of this queue may find a message.
    changed: Arc<Notify>,
}

struct StoredMessage {
    message: Message,
    deliveries: u32,
}

impl BrokerState {
    fn next_delivery_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn queue(&mut self, name: QueueName) -> &mut QueueState {
        self.queues.entry(name).or_default()
    }

    /// Requeues a delivery, or dead-letters it after too many deliveries.
    fn hand_back(&mut self, name: QueueName, mut stored: StoredMessage) {
        if stored.deliveries > DELIVERY_LIMIT && name != QueueName::Dead {
            stored.message.dead = Some(DeadReason::undeliverable(name.to_string()));
            let dead = self.queue(QueueName::Dead);
            dead.ready.push_back(StoredMessage {
                deliveries: 0,
                ..stored
            });
            dead.changed.notify_waiters();
        } else {
            self.queue(name).ready.push_front(stored);
        }
    }
}

impl QueueState {
    fn release_delayed(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.ready.push_back(entry.remove());
        }
    }

    fn is_served(&self, name: QueueName, subscriber: u64) -> bool {
        !matches!(name, QueueName::Flow(_)) || self.subscribers.first() == Some(&subscriber)
    }

    fn unacked_count(&self, subscriber: u64) -> usize {
        self.unacked
            .values()
            .filter(|(holder, _)| *holder == subscriber)
            .count()
    }
}

fn new_stored_message(message: Message) -> PortResult<StoredMessage> {
    if message.body.len() > MAX_MESSAGE_BYTES {
        let message = format!(
            "a message of {} bytes is over the limit of {MAX_MESSAGE_BYTES}",
            message.body.len()
        );
        return Err(PortError::permanent("queue.publish", message));
    }
    Ok(StoredMessage {
        message,
        deliveries: 0,
    })
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> PortResult<()> {
        let messages = messages
            .into_iter()
            .map(new_stored_message)
            .collect::<Result<Vec<_>, _>>()?;
        let mut state = self.0.lock();
        let waiting = state.queue(queue);
        waiting.ready.extend(messages);
        waiting.changed.notify_waiters();
        Ok(())
    }

    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> PortResult<()> {
        let message = new_stored_message(message)?;
        let due_at = Instant::now() + delay.duration();
        let mut state = self.0.lock();
        let id = state.next_delivery_id();
        let waiting = state.queue(queue);
        waiting.delayed.insert((due_at, id), message);
        waiting.changed.notify_waiters();
        Ok(())
    }

    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> PortResult<Box<dyn Subscription>> {
        let mut state = self.0.lock();
        let id = state.next_delivery_id();
        state.queue(queue).subscribers.push(id);
        drop(state);
        Ok(Box::new(MemorySubscription {
            shared: Arc::clone(&self.0),
            queue,
            id,
            prefetch: usize::from(prefetch.max(1)),
        }))
    }

    // A single process has no external listeners.
    async fn announce(&self, _topic: &str, event: Message) -> PortResult<()> {
        new_stored_message(event).map(|_| ())
    }

    async fn depth(&self, queue: QueueName) -> PortResult<Depth> {
        let mut state = self.0.lock();
        let waiting = state.queue(queue);
        waiting.release_delayed(Instant::now());
        Ok(Depth {
            ready: waiting.ready.len() as u64,
            unacked: waiting.unacked.len() as u64,
            delayed: waiting.delayed.len() as u64,
            consumers: waiting.subscribers.len() as u64,
        })
    }
}

struct MemorySubscription {
    shared: Arc<Mutex<BrokerState>>,
    queue: QueueName,
    id: u64,
    prefetch: usize,
}

enum NextDelivery {
    Delivery(Box<Delivery>),
    WaitUntil(Option<Instant>),
}

impl MemorySubscription {
    fn try_next(&self) -> NextDelivery {
        let mut state = self.shared.lock();
        let waiting = state.queue(self.queue);
        waiting.release_delayed(Instant::now());
        let next_due = waiting.delayed.keys().next().map(|(next_due, _)| *next_due);
        if !waiting.is_served(self.queue, self.id)
            || waiting.unacked_count(self.id) >= self.prefetch
        {
            return NextDelivery::WaitUntil(None);
        }
        let Some(mut stored) = waiting.ready.pop_front() else {
            return NextDelivery::WaitUntil(next_due);
        };
        let message = stored.message.clone();
        let redeliveries = stored.deliveries;
        stored.deliveries += 1;
        let id = state.next_delivery_id();
        state
            .queue(self.queue)
            .unacked
            .insert(id, (self.id, stored));
        let receipt = MemoryReceipt {
            shared: Arc::clone(&self.shared),
            queue: self.queue,
            id,
        };
        NextDelivery::Delivery(Box::new(Delivery {
            message,
            redeliveries,
            receipt: Box::new(receipt),
        }))
    }
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn next(&mut self) -> PortResult<Delivery> {
        loop {
            let bell = Arc::clone(&self.shared.lock().queue(self.queue).changed);
            let changed = bell.notified();
            tokio::pin!(changed);
            changed.as_mut().enable(); // before checking, or a change in between would be missed
            let until = match self.try_next() {
                NextDelivery::Delivery(delivery) => return Ok(*delivery),
                NextDelivery::WaitUntil(until) => until,
            };
            let timer = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                biased;
                () = &mut changed => {}
                () = tokio::time::sleep_until(timer) => {}
            }
        }
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let waiting = state.queue(self.queue);
        waiting.subscribers.retain(|id| *id != self.id);
        let mine: Vec<_> = waiting
            .unacked
            .extract_if(.., |_, (by, _)| *by == self.id)
            .collect();
        for (_, (_, stored)) in mine.into_iter().rev() {
            state.hand_back(self.queue, stored);
        }
        state.queue(self.queue).changed.notify_waiters();
    }
}

struct MemoryReceipt {
    shared: Arc<Mutex<BrokerState>>,
    queue: QueueName,
    id: u64,
}

impl MemoryReceipt {
    fn settle(&self, back: bool) {
        let mut state = self.shared.lock();
        if let Some((_, stored)) = state.queue(self.queue).unacked.remove(&self.id)
            && back
        {
            state.hand_back(self.queue, stored);
        }
        state.queue(self.queue).changed.notify_waiters();
    }
}

#[async_trait]
impl Receipt for MemoryReceipt {
    async fn ack(self: Box<Self>) -> PortResult<()> {
        self.settle(false);
        Ok(())
    }

    async fn requeue(self: Box<Self>) -> PortResult<()> {
        self.settle(true);
        Ok(())
    }
}

impl Drop for MemoryReceipt {
    // A receipt dropped without an answer requeues its message.
    fn drop(&mut self) {
        self.settle(true);
    }
}
