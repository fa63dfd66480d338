//! Someone else's connection to the broker: it publishes as a bucket notification would, and hears events as any
//! listener outside would, without a line of Stemma's adapter.

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

/// A connection; it ends with this value.
pub struct BrokerClient {
    channel: Channel,
    prefix: String,
    _connection: Connection,
}

impl BrokerClient {
    /// Connects to the broker at `url`, to exchanges whose names begin with `prefix`.
    ///
    /// # Errors
    /// What the broker said.
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

    /// Puts bytes on a queue, with no property or header set; returns when the broker has them.
    ///
    /// # Errors
    /// What the broker said.
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
            "the broker did not take a message for {queue}"
        );
        anyhow::ensure!(
            confirmation.take_message().is_none(),
            "no queue takes messages with the key {queue}"
        );
        Ok(())
    }

    /// Loses the messages that wait on a queue; returns how many.
    ///
    /// # Errors
    /// What the broker said.
    pub async fn purge(&self, queue: &str) -> Result<u32> {
        let name = format!("{}.{queue}", self.prefix);
        Ok(self
            .channel
            .queue_purge(name.into(), QueuePurgeOptions::default())
            .await?)
    }

    /// Listens to all events from now on.
    ///
    /// # Errors
    /// What the broker said.
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

/// What is announced.
pub struct EventSubscription(Consumer);

impl EventSubscription {
    /// The next event with its topic; `None` when none came for so long.
    ///
    /// # Errors
    /// When the connection ended, or the event is no JSON.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<(String, Value)>> {
        let Ok(delivery) = timeout(patience, self.0.next()).await else {
            return Ok(None);
        };
        let delivery = delivery.context("the consumer was ended")??;
        Ok(Some((
            delivery.routing_key.to_string(),
            serde_json::from_slice(&delivery.data)?,
        )))
    }
}
