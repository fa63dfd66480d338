//! Deliveries of a queue and of its continuation that wait for a free slot.

use std::collections::VecDeque;
use std::time::Duration;
use stemma_store::env::{Env, Millis};
use stemma_store::port_error::PortResult;

use crate::queue::{Delivery, Queue, QueueName, Subscription};

// A delivery that waited for this long goes before continuations: they may keep the slots busy for hours, and brokers take
// back what is not acknowledged within half an hour.
const MAX_WAIT_MS: Millis = 120_000;
// How often a continuation is looked for that is missing: coordinators of older programs declare none.
const LOOK_AGAIN_MS: Millis = 30_000;

// One subscribed queue.
struct Source {
    queue: QueueName,
    subscription: Box<dyn Subscription>,
    // When each was delivered. At most as many as the prefetch.
    waiting: VecDeque<(Millis, Delivery)>,
}

/// The subscriptions of a consumer, and what they delivered. Dropping it requeues everything unacknowledged.
pub(super) struct Deliveries {
    first: Source,
    continuation: Option<Source>,
    // When a missing continuation was last looked for.
    looked_ms: Millis,
    prefetch: u16,
}

impl Source {
    async fn subscribe(broker: &dyn Queue, queue: QueueName, prefetch: u16) -> PortResult<Self> {
        Ok(Self {
            queue,
            subscription: broker.subscribe(queue, prefetch).await?,
            waiting: VecDeque::new(),
        })
    }

    fn take(&mut self) -> Option<(QueueName, Delivery)> {
        let (_, delivery) = self.waiting.pop_front()?;
        Some((self.queue, delivery))
    }
}

async fn subscribe_continuation(
    broker: &dyn Queue,
    queue: QueueName,
    prefetch: u16,
) -> Option<Source> {
    let source = Source::subscribe(broker, queue.continuation()?, prefetch).await;
    source
        .inspect_err(
            |error| tracing::debug!(%queue, %error, "no continuation; looking again later"),
        )
        .ok()
}

impl Deliveries {
    /// Subscribes to a queue with a prefetch, and with the same to its continuation where the broker has one.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the queue cannot be subscribed to.
    pub(super) async fn subscribe(
        env: &Env,
        broker: &dyn Queue,
        queue: QueueName,
        prefetch: u16,
    ) -> PortResult<Self> {
        Ok(Self {
            looked_ms: env.now_ms(),
            continuation: subscribe_continuation(broker, queue, prefetch).await,
            first: Source::subscribe(broker, queue, prefetch).await?,
            prefetch,
        })
    }

    /// Waits for the next delivery of any queue. Cancel-safe.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when a subscription is lost.
    pub(super) async fn receive(&mut self, env: &Env, broker: &dyn Queue) -> PortResult<()> {
        let (source, delivery) = match &mut self.continuation {
            Some(continuation) => tokio::select! {
                biased;
                delivery = continuation.subscription.next() => (continuation, delivery?),
                delivery = self.first.subscription.next() => (&mut self.first, delivery?),
            },
            None => {
                let queue = self.first.queue;
                let looks = queue.continuation().is_some();
                let look_ms = (self.looked_ms + LOOK_AGAIN_MS).saturating_sub(env.now_ms());
                tokio::select! {
                    biased;
                    delivery = self.first.subscription.next() => (&mut self.first, delivery?),
                    () = env.sleep(Duration::from_millis(look_ms)), if looks => {
                        self.looked_ms = env.now_ms();
                        self.continuation = subscribe_continuation(broker, queue, self.prefetch).await;
                        return Ok(());
                    }
                }
            }
        };
        source.waiting.push_back((env.now_ms(), delivery));
        Ok(())
    }

    /// The delivery to handle next, and its queue.
    pub(super) fn take(&mut self, now_ms: Millis) -> Option<(QueueName, Delivery)> {
        let oldest = self.first.waiting.front();
        let has_waited = oldest.is_some_and(|(since_ms, _)| since_ms + MAX_WAIT_MS <= now_ms);
        let next = self.continuation.as_mut().filter(|_| !has_waited);
        next.and_then(Source::take).or_else(|| self.first.take())
    }
}
