//! The only consumer loop: take a delivery, handle it, answer for it.
//!
//! Handlers store first and emit second; only then does this loop acknowledge (I-3). A handler that panics or is cut
//! off never acknowledges, so its message comes back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::env::Env;
use crate::port::{PortError, ask};
use crate::queue::{Delivery, Message, Queue, QueueName, Rung, Subscription};

/// What happens to a message after it was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// It is done.
    Ack,
    /// It comes again after a rung's delay, with this many attempts on it.
    Later {
        /// How long it waits.
        rung: Rung,
        /// Failed attempts so far.
        attempts: u32,
    },
    /// No one can handle it: to the dead letters.
    Dead,
}

/// Handles the messages of a queue.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles one message; everything it achieves must be stored and emitted when it returns.
    async fn handle(&self, message: &Message) -> Disposition;
}

/// How a queue is consumed.
#[derive(Clone)]
pub struct Consumer {
    /// The world.
    pub env: Env,
    /// The broker.
    pub queue: Arc<dyn Queue>,
    /// The queue.
    pub name: QueueName,
    /// Messages handled at once; also the prefetch.
    pub concurrency: u16,
    /// How long handlers may go on after a stop before their messages are handed back.
    pub grace: Duration,
}

impl Consumer {
    /// Consumes until `stop`, then drains: no new message is taken, running ones get the grace period.
    ///
    /// A lost subscription does not disturb running handlers: what they do is paid for, and stored when they are done.
    pub async fn run(self, handler: Arc<dyn Handler>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        while !stop.is_cancelled() {
            let subscribed = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                subscribed = self.queue.subscribe(self.name, self.concurrency) => subscribed,
            };
            match subscribed {
                Ok(subscription) => {
                    if let Err(error) = self.serve(subscription, &mut running, &handler, &stop).await {
                        tracing::warn!(queue = %self.name, %error, "subscription lost; subscribing again");
                    }
                }
                Err(error) => tracing::warn!(queue = %self.name, %error, "cannot subscribe; trying again"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.env.sleep(Duration::from_millis(500)) => {}
            }
        }
        self.drain(running).await;
    }

    async fn serve(
        &self,
        mut subscription: Box<dyn Subscription>,
        running: &mut JoinSet<()>,
        handler: &Arc<dyn Handler>,
        stop: &CancellationToken,
    ) -> Result<(), PortError> {
        loop {
            while running.try_join_next().is_some() {}
            let full = running.len() >= usize::from(self.concurrency.max(1));
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = running.join_next(), if full => {}
                delivery = subscription.next(), if !full => match delivery {
                    Ok(delivery) => {
                        let (consumer, handler) = (self.clone(), Arc::clone(handler));
                        running.spawn(async move { consumer.answer(handler, delivery).await });
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Waits for running handlers; what is not done in time is dropped, and with it the receipt: handed back.
    async fn drain(&self, mut running: JoinSet<()>) {
        let all_done = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all_done).await.is_err() {
            tracing::warn!(queue = %self.name, left = running.len(), "grace period over; handing messages back");
        }
    }

    async fn answer(&self, handler: Arc<dyn Handler>, delivery: Delivery) {
        let Delivery { message, receipt, .. } = delivery;
        let settled = match handler.handle(&message).await {
            Disposition::Ack => Ok(()),
            Disposition::Later { rung, attempts } => self.later(message, rung, attempts).await,
            Disposition::Dead => ask(&self.env, || self.queue.publish(QueueName::Dead, vec![message.clone()])).await,
        };
        let answered = match settled {
            Ok(()) => receipt.ack().await,
            Err(error) => {
                tracing::warn!(queue = %self.name, %error, "message could not be passed on; handing it back");
                self.env.sleep(Duration::from_secs(1)).await; // a broker that is away must not be hammered
                receipt.requeue().await
            }
        };
        if let Err(error) = answered {
            tracing::warn!(queue = %self.name, %error, "answer was not heard; the message will come again");
        }
    }

    async fn later(&self, message: Message, rung: Rung, attempts: u32) -> Result<(), PortError> {
        let message = Message { attempts, ..message };
        ask(&self.env, || self.queue.publish_later(self.name, message.clone(), rung)).await
    }
}
