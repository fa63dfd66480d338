//! The consumer loop: receive a delivery, handle it, acknowledge it. A lane and its continuation share slots.
//!
//! Handlers store first and notify second; only then does the loop acknowledge (I-3). A handler that panics or is
//! interrupted never acknowledges, so its message is redelivered.

mod deliveries;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stemma_store::Retrying;
use stemma_store::env::{Env, Millis};
use stemma_store::port_error::{PortError, PortResult};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::deliveries::Deliveries;
use crate::dead_letter::disarm;
use crate::heartbeat::HeartbeatReporter;
use crate::metrics::InFlightMessage;
use crate::queue::{
    DeadReason, Delivery, MAX_MESSAGE_BYTES, Message, Queue, QueueName, RetryDelay,
};
use crate::repeated_log::RepeatedLog;

/// Disposition of a handled message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    Ack,
    /// Redelivered after `delay`, with `attempts` failed attempts counted on it.
    Retry {
        delay: RetryDelay,
        attempts: u32,
        /// Set for a task that was released with a retry: see [`Message::retry_ms`].
        retry_ms: Option<Millis>,
    },
    /// No handler can process it, for this reason.
    DeadLetter(String),
    /// It must not be handled by anyone, and why. Whoever sent it may have no right to, so it fails no task.
    Refuse(String),
    /// Only another process can process it, and the queue has one active consumer: the subscription is given up for a
    /// while. With attempts, the message is redelivered as by [`Disposition::Retry`]; without, it is acknowledged,
    /// because something repeats it.
    HandOver {
        attempts: Option<u32>,
    },
}

/// Handles the messages of a queue.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles a message that was delivered `redeliveries` times before. All effects must be stored and published when
    /// this returns.
    async fn handle(&self, message: &Message, redeliveries: u32) -> Disposition;

    /// Releases what is held for a message whose handling was interrupted, before the message is requeued.
    async fn on_interrupted(&self, _message: &Message) {}

    /// Notes that messages of the queue may come.
    fn on_subscribed(&self, _queue: QueueName) {}

    /// Releases what is held for a queue whose messages go to other processes from now on.
    async fn on_unsubscribed(&self, _queue: QueueName) {}
}

// How long a queue that was handed over is left to others. A broker promotes the next consumer at once.
const HAND_OVER_PAUSE: Duration = Duration::from_secs(5);
// At least this long between two: where nobody else can process the messages either, ours must not wait for them.
const HAND_OVER_EVERY_MS: Millis = 60_000;

// Pauses between attempts to subscribe: they double from the first to the last.
const SUBSCRIBE_PAUSE: Duration = Duration::from_millis(500);
const MAX_SUBSCRIBE_PAUSE: Duration = Duration::from_secs(8);

// A process consumes some forty queues, and what fails for one usually fails for all.
static FAILURES: RepeatedLog = RepeatedLog::new();

// Total time for releasing interrupted messages.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How a queue is consumed, and its [continuation](QueueName::continuation) before it.
#[derive(Clone)]
pub struct Consumer {
    pub env: Env,
    pub queue: Retrying<dyn Queue>,
    pub name: QueueName,
    /// Messages handled concurrently; also the prefetch of each queue.
    pub concurrency: u16,
    /// How long handlers may run after a stop before their messages are requeued.
    pub grace: Duration,
    /// Reports how busy the lanes of the process are.
    pub heartbeat: Arc<HeartbeatReporter>,
}

impl Consumer {
    /// Consumes until `stop`, when the process is to end, then drains: no new message is taken, and running handlers get
    /// the grace period.
    pub async fn run(self, handler: Arc<dyn Handler>, stop: CancellationToken) {
        let heartbeat = Arc::clone(&self.heartbeat);
        let consuming = self.run_for_a_while(handler, stop.clone());
        tokio::pin!(consuming);
        tokio::select! {
            biased;
            () = stop.cancelled() => heartbeat.start_draining(),
            () = &mut consuming => return,
        }
        consuming.await;
    }

    /// As [`Self::run`], for a queue that is given up while the process goes on.
    ///
    /// A lost subscription does not interrupt running handlers: their work is paid for, and is stored when they finish.
    pub(crate) async fn run_for_a_while(self, handler: Arc<dyn Handler>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        let cut = CancellationToken::new();
        self.heartbeat.register_lane(self.name, self.concurrency);
        let broker = self.queue.raw().as_ref();
        let mut next_pause = SUBSCRIBE_PAUSE;
        while !stop.is_cancelled() {
            let mut pause = SUBSCRIBE_PAUSE;
            let subscribed = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                subscribed = Deliveries::subscribe(&self.env, broker, self.name, self.concurrency) => subscribed,
            };
            match subscribed {
                Ok(mut deliveries) => {
                    next_pause = SUBSCRIBE_PAUSE;
                    handler.on_subscribed(self.name);
                    let end = self
                        .consume(&mut deliveries, &mut running, &handler, &stop, &cut)
                        .await;
                    match &end {
                        // The subscription stays alive until all handlers have ended: dropping it would requeue their
                        // messages.
                        Ok(EndOfConsuming::Stopped) => self.drain(&mut running, &cut).await,
                        Ok(EndOfConsuming::HandedOver) => {
                            tracing::info!(queue = %self.name, "queue handed over: it has work of a newer program");
                        }
                        Err(error) => {
                            if let Some(repeated) = self.note_failure(error) {
                                tracing::warn!(queue = %self.name, %error, repeated, "subscription lost; subscribing again");
                            }
                        }
                    }
                    drop(deliveries);
                    handler.on_unsubscribed(self.name).await;
                    match end {
                        Ok(EndOfConsuming::Stopped) => return,
                        Ok(EndOfConsuming::HandedOver) => tokio::select! {
                            biased;
                            () = stop.cancelled() => {}
                            () = self.env.sleep(HAND_OVER_PAUSE) => {}
                        },
                        Err(_) => {}
                    }
                }
                Err(error) => {
                    if let Some(repeated) = self.note_failure(&error) {
                        tracing::warn!(queue = %self.name, %error, repeated, "cannot subscribe; trying again");
                    }
                    pause = next_pause;
                    next_pause = (2 * pause).min(MAX_SUBSCRIBE_PAUSE);
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.env.sleep(pause) => {}
            }
        }
        self.drain(&mut running, &cut).await;
    }

    // Whether to log a failure, and how many like it were not. Brokers quote the name of the queue, which does not make it another cause.
    fn note_failure(&self, error: &PortError) -> Option<u64> {
        let cause = error.message.split('\'').next().unwrap_or_default();
        FAILURES.note(cause, self.env.now_ms())
    }

    /// Consumes until `stop`, until the queue is handed over, or until the subscription is lost.
    async fn consume(
        &self,
        deliveries: &mut Deliveries,
        running: &mut JoinSet<bool>,
        handler: &Arc<dyn Handler>,
        stop: &CancellationToken,
        cut: &CancellationToken,
    ) -> PortResult<EndOfConsuming> {
        let since_ms = self.env.now_ms();
        loop {
            while running.len() < usize::from(self.concurrency.max(1))
                && let Some((queue, delivery)) = deliveries.take(self.env.now_ms())
            {
                let consumer = self.clone();
                let handler = Arc::clone(handler);
                let cut = cut.clone();
                running.spawn(async move {
                    consumer
                        .handle_delivery(handler, queue, delivery, cut)
                        .await
                });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(EndOfConsuming::Stopped),
                Some(ended) = running.join_next() => {
                    if matches!(ended, Ok(true)) && self.env.now_ms() >= since_ms + HAND_OVER_EVERY_MS {
                        return Ok(EndOfConsuming::HandedOver);
                    }
                }
                received = deliveries.receive(&self.env, self.queue.raw().as_ref()) => received?,
            }
        }
    }

    // Waits for running handlers. Those that exceed the grace period are interrupted and their messages requeued.
    async fn drain(&self, running: &mut JoinSet<bool>, cut: &CancellationToken) {
        if join_all_within(running, self.grace).await {
            return;
        }
        tracing::warn!(queue = %self.name, left = running.len(), "grace period over; requeueing messages");
        cut.cancel();
        if !join_all_within(running, RELEASE_TIMEOUT).await {
            tracing::warn!(queue = %self.name, left = running.len(), "not all leases could be released; they will expire");
        }
    }

    // Returns whether the queue is to be handed over.
    async fn handle_delivery(
        &self,
        handler: Arc<dyn Handler>,
        queue: QueueName,
        delivery: Delivery,
        cut: CancellationToken,
    ) -> bool {
        let Delivery {
            message,
            receipt,
            redeliveries,
        } = delivery;
        let _in_flight = InFlightMessage::begin(queue, redeliveries);
        let _busy = self.heartbeat.occupy_slot(queue);
        let handled = tokio::select! {
            biased;
            disposition = handler.handle(&message, redeliveries) => Some(disposition),
            () = cut.cancelled() => None,
        };
        let Some(disposition) = handled else {
            handler.on_interrupted(&message).await;
            self.log_failed_ack(receipt.requeue().await);
            return false;
        };
        let hand_over = matches!(disposition, Disposition::HandOver { .. });
        let ack_result = tokio::select! {
            biased;
            forwarded = self.forward(queue, message, disposition, redeliveries) => match forwarded {
                Ok(()) => receipt.ack().await,
                Err(error) => {
                    tracing::warn!(%queue, %error, "cannot forward message; requeueing it");
                    self.env.sleep(Duration::from_secs(1)).await; // do not hammer a broker that refuses the message
                    receipt.requeue().await
                }
            },
            () = cut.cancelled() => receipt.requeue().await,
        };
        self.log_failed_ack(ack_result);
        hand_over
    }

    // Keeps the message while the broker takes none, for example for lack of memory: each requeueing counts as a delivery,
    // and after twenty of them the message would be poison.
    async fn forward(
        &self,
        queue: QueueName,
        message: Message,
        disposition: Disposition,
        redeliveries: u32,
    ) -> PortResult<()> {
        let broker = self.queue.with_long_retries();
        let (delay, attempts, retry_ms) = match disposition {
            Disposition::Ack | Disposition::HandOver { attempts: None } => return Ok(()),
            Disposition::DeadLetter(reason) => {
                return self
                    .publish_dead(queue, message, reason, redeliveries)
                    .await;
            }
            Disposition::Refuse(reason) => {
                return self
                    .publish_dead(queue, disarm(message), reason, redeliveries)
                    .await;
            }
            Disposition::Retry {
                delay,
                attempts,
                retry_ms,
            } => (delay, attempts, retry_ms),
            Disposition::HandOver {
                attempts: Some(attempts),
            } => (RetryDelay::Medium, attempts, None),
        };
        let message = Message {
            attempts,
            retry_ms,
            ..message
        };
        broker.publish_later(queue, message, delay).await
    }

    fn log_failed_ack(&self, result: PortResult<()>) {
        if let Err(error) = result {
            tracing::warn!(queue = %self.name, %error, "acknowledgement failed; the message will be redelivered");
        }
    }

    // A message from outside may be too large to publish. Its beginning is all that is kept of it anyway.
    async fn publish_dead(
        &self,
        queue: QueueName,
        message: Message,
        reason: String,
        redeliveries: u32,
    ) -> PortResult<()> {
        // Whoever reaches the broker can send any number of them.
        let cause = format!("dead letter of {queue}");
        if let Some(repeated) = FAILURES.note(&cause, self.env.now_ms()) {
            tracing::error!(%queue, reason, repeated, "a message becomes a dead letter");
        }
        let dead = DeadReason {
            queue: queue.to_string(),
            reason,
            deliveries: redeliveries.saturating_add(1),
        };
        let size = message.body.len().min(MAX_MESSAGE_BYTES);
        let message = Message {
            body: message.body.slice(..size),
            dead: Some(dead),
            ..message
        };
        self.queue
            .with_long_retries()
            .publish(QueueName::Dead, vec![message])
            .await
    }
}

enum EndOfConsuming {
    Stopped,
    HandedOver,
}

/// Waits until all tasks have ended; false when that took longer than `patience`.
async fn join_all_within(running: &mut JoinSet<bool>, patience: Duration) -> bool {
    let ended = async { while running.join_next().await.is_some() {} };
    tokio::time::timeout(patience, ended).await.is_ok()
}
