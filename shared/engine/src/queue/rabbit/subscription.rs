//! Consuming: one channel per subscription, so that what a subscription holds goes back with it and nothing else does.

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};

use super::link::{Doubt, Link, Live, answered};
use super::wire;
use crate::port::PortError;
use crate::queue::{Delivery, Receipt, Subscription};

pub(super) struct RabbitSubscription {
    channel: Channel,
    consumer: Consumer,
    live: Live,
}

impl RabbitSubscription {
    pub(super) async fn open(
        link: &Link,
        queue: ShortString,
        prefetch: u16,
    ) -> Result<Self, PortError> {
        let live = link.ready("subscribe").await?;
        let channel = live.channel("subscribe").await?;
        // Zero would mean "without limit".
        let qos = channel.basic_qos(prefetch.max(1), BasicQosOptions { global: false });
        live.doubt.over(answered("subscribe", qos).await)?;
        let options = BasicConsumeOptions::default();
        let arguments = FieldTable::default();
        let consumed = channel.basic_consume(queue, ShortString::default(), options, arguments);
        let consumer = live.doubt.over(answered("subscribe", consumed).await)?;
        Ok(Self {
            channel,
            consumer,
            live,
        })
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn next(&mut self) -> Result<Delivery, PortError> {
        let away = |why: String| PortError::passing("queue", "next", why);
        let delivery = tokio::select! {
            biased;
            () = self.live.lost.cancelled() => return Err(away("the connection was lost".into())),
            delivery = self.consumer.next() => delivery,
        };
        let delivery = match delivery {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(away(error.to_string())),
            None => return Err(away("the broker ended the subscription".into())),
        };
        let receipt = RabbitReceipt {
            doubt: self.live.doubt.clone(),
            acker: Some(delivery.acker.clone()),
        };
        let (message, redeliveries) = wire::received(delivery);
        Ok(Delivery {
            message,
            redeliveries,
            receipt: Box::new(receipt),
        })
    }
}

impl Drop for RabbitSubscription {
    /// Closing the channel hands back everything that came over it.
    fn drop(&mut self) {
        // The first poll sends the frame; no one needs to wait for the answer.
        let _ = self.channel.close(200, "OK".into()).now_or_never();
    }
}

struct RabbitReceipt {
    doubt: Doubt,
    /// Until it was answered.
    acker: Option<Acker>,
}

/// Requeues with `reject`, not with `nack`: 4.3 counts only the former as a delivery that failed.
const REQUEUE: BasicRejectOptions = BasicRejectOptions { requeue: true };

impl RabbitReceipt {
    fn taken(&mut self, operation: &'static str) -> Result<Acker, PortError> {
        self.acker.take().ok_or_else(|| {
            PortError::lasting("queue", operation, "the delivery was answered before")
        })
    }

    fn heard(
        &self,
        operation: &'static str,
        heard: Result<bool, PortError>,
    ) -> Result<(), PortError> {
        if self.doubt.over(heard)? {
            return Ok(());
        }
        Err(PortError::passing(
            "queue",
            operation,
            "the channel of the delivery is gone; the message comes again",
        ))
    }
}

#[async_trait]
impl Receipt for RabbitReceipt {
    async fn ack(mut self: Box<Self>) -> Result<(), PortError> {
        let acker = self.taken("ack")?;
        let heard = answered("ack", acker.ack(BasicAckOptions::default())).await;
        self.heard("ack", heard)
    }

    async fn requeue(mut self: Box<Self>) -> Result<(), PortError> {
        let acker = self.taken("requeue")?;
        let heard = answered("requeue", acker.reject(REQUEUE)).await;
        self.heard("requeue", heard)
    }
}

impl Drop for RabbitReceipt {
    /// A receipt that was never answered hands its message back.
    fn drop(&mut self) {
        if let Some(acker) = self.acker.take() {
            let _ = acker.reject(REQUEUE).now_or_never(); // the first poll sends the frame
        }
    }
}
