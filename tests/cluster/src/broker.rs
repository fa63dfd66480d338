//! An external connection to the broker: publishes like a bucket notification and receives events like any
//! subscriber, without Stemma's adapter.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
    QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use serde_json::Value;
use tokio::time::timeout;

/// A connection. Dropping it closes it.
pub struct BrokerClient {
    channel: Channel,
    prefix: String,
    _connection: Connection,
}

impl BrokerClient {
    /// Connects to the broker at `url`, to exchanges whose names begin with `prefix`.
    ///
    /// # Errors
    /// The error of the broker.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(Self {
            channel,
            prefix: prefix.into(),
            _connection: connection,
        })
    }

    /// Publishes bytes to a queue, without properties or headers; returns when the broker confirms.
    ///
    /// # Errors
    /// The error of the broker.
    pub async fn publish(&self, queue: &str, body: &[u8]) -> Result<()> {
        let exchange = self.prefix.as_str().into();
        let key = queue.into();
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let sent = self
            .channel
            .basic_publish(exchange, key, options, body, BasicProperties::default())
            .await?;
        let confirmation = sent.await?;
        anyhow::ensure!(
            confirmation.is_ack(),
            "the broker rejected a message for {queue}"
        );
        anyhow::ensure!(
            confirmation.take_message().is_none(),
            "no queue is bound to the key {queue}"
        );
        Ok(())
    }

    /// Purges a queue; returns the number of messages.
    ///
    /// # Errors
    /// The error of the broker.
    pub async fn purge(&self, queue: &str) -> Result<u32> {
        let name = format!("{}.{queue}", self.prefix);
        Ok(self
            .channel
            .queue_purge(name.into(), QueuePurgeOptions::default())
            .await?)
    }

    /// Subscribes to all events.
    ///
    /// # Errors
    /// The error of the broker.
    pub async fn subscribe(&self) -> Result<EventSubscription> {
        let options = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self
            .channel
            .queue_declare("".into(), options, FieldTable::default())
            .await?;
        let name = queue.name().clone();
        let exchange = format!("{}.events", self.prefix);
        let bind = QueueBindOptions::default();
        self.channel
            .queue_bind(
                name.clone(),
                exchange.into(),
                "#".into(),
                bind,
                FieldTable::default(),
            )
            .await?;
        let options = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        Ok(EventSubscription(
            self.channel
                .basic_consume(name, "".into(), options, FieldTable::default())
                .await?,
        ))
    }
}

/// The events of an event exchange.
pub struct EventSubscription(Consumer);

impl EventSubscription {
    /// The next event with its topic; `None` on timeout.
    ///
    /// # Errors
    /// If the connection ended, or the event is not JSON.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<(String, Value)>> {
        let Ok(delivery) = timeout(limit, self.0.next()).await else {
            return Ok(None);
        };
        let delivery = delivery.context("the broker ended the consumer")??;
        Ok(Some((
            delivery.routing_key.to_string(),
            serde_json::from_slice(&delivery.data)?,
        )))
    }
}
