//! Consuming. Each subscription has its own channel, so that closing it requeues its messages and no others.

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use stemma_engine::queue::{Delivery, Receipt, Subscription};
use stemma_store::port_error::{PortError, PortResult};

use super::connection::{ConnectionHandle, ReconnectSignal, SupervisedConnection};
use super::encoding;

pub(super) struct RabbitSubscription {
    channel: Channel,
    consumer: Consumer,
    handle: ConnectionHandle,
}

impl RabbitSubscription {
    pub(super) async fn open(
        connection: &SupervisedConnection,
        queue: ShortString,
        prefetch: u16,
    ) -> PortResult<Self> {
        let handle = connection.ready("queue.subscribe").await?;
        let channel = handle.channel("queue.subscribe").await?;
        // Zero would mean "unlimited".
        let qos = channel.basic_qos(prefetch.max(1), BasicQosOptions { global: false });
        handle.reconnect.request("queue.subscribe", qos).await?;
        let options = BasicConsumeOptions::default();
        let arguments = FieldTable::default();
        let consumed = channel.basic_consume(queue, ShortString::default(), options, arguments);
        let consumed = handle.reconnect.request("queue.subscribe", consumed);
        let consumer = consumed.await?;
        Ok(Self {
            channel,
            consumer,
            handle,
        })
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn next(&mut self) -> PortResult<Delivery> {
        let delivery = tokio::select! {
            biased;
            () = self.handle.lost.cancelled() => return Err(next_error("the connection was lost")),
            delivery = self.consumer.next() => delivery,
        };
        let delivery = match delivery {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(next_error(error.to_string())),
            None => return Err(next_error("the broker ended the subscription")),
        };
        let receipt = RabbitReceipt {
            reconnect: self.handle.reconnect.clone(),
            acker: Some(delivery.acker.clone()),
        };
        let (message, redeliveries) = encoding::decode(delivery);
        Ok(Delivery {
            message,
            redeliveries,
            receipt: Box::new(receipt),
        })
    }
}

fn next_error(why: impl Into<String>) -> PortError {
    PortError::transient("queue.next", why)
}

impl Drop for RabbitSubscription {
    // Closing the channel requeues all its unacknowledged messages.
    fn drop(&mut self) {
        // The first poll sends the frame; nobody has to wait for the response.
        let _ = self.channel.close(200, "OK".into()).now_or_never();
    }
}

struct RabbitReceipt {
    reconnect: ReconnectSignal,
    // `None` once answered.
    acker: Option<Acker>,
}

// `reject` instead of `nack`: RabbitMQ 4.3 counts only the former as a failed delivery.
const REQUEUE: BasicRejectOptions = BasicRejectOptions { requeue: true };

impl RabbitReceipt {
    fn take_acker(&mut self, operation: &'static str) -> PortResult<Acker> {
        self.acker.take().ok_or_else(|| {
            PortError::permanent(
                operation,
                "the delivery was already acknowledged or requeued",
            )
        })
    }
}

fn check_reply(operation: &'static str, reply: PortResult<bool>) -> PortResult<()> {
    if reply? {
        return Ok(());
    }
    Err(PortError::transient(
        operation,
        "the channel of the delivery is gone; the message will be redelivered",
    ))
}

#[async_trait]
impl Receipt for RabbitReceipt {
    async fn ack(mut self: Box<Self>) -> PortResult<()> {
        let acker = self.take_acker("queue.ack")?;
        let acked = acker.ack(BasicAckOptions::default());
        check_reply(
            "queue.ack",
            self.reconnect.request("queue.ack", acked).await,
        )
    }

    async fn requeue(mut self: Box<Self>) -> PortResult<()> {
        let acker = self.take_acker("queue.requeue")?;
        let rejected = acker.reject(REQUEUE);
        let reply = self.reconnect.request("queue.requeue", rejected).await;
        check_reply("queue.requeue", reply)
    }
}

impl Drop for RabbitReceipt {
    // A receipt dropped without an answer requeues its message.
    fn drop(&mut self) {
        if let Some(acker) = self.acker.take() {
            let _ = acker.reject(REQUEUE).now_or_never(); // the first poll sends the frame
        }
    }
}
