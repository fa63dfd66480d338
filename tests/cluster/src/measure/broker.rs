//! Measures the broker with a separate client: published messages, queue depths, and the throughput
//! of an idle broker.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::Value;
use tokio::task::JoinHandle;

/// Routing keys of the task queues.
pub(super) const LANES: [&str; 3] = ["cpu.bulk", "llm.bulk", "publish.bulk"];
/// Number of queues for coordinator messages.
const FLOWS: usize = 32;
/// Unconfirmed and unacknowledged messages in the throughput measurement.
const WINDOW: u16 = 64;
/// Message size in bytes in the throughput measurement, about the size of a task.
const MESSAGE_BYTES: usize = 1_000;

/// Receives and counts a copy of every message published below a prefix.
pub(super) struct MessageTap {
    channel: Channel,
    prefix: String,
    snapshot: Arc<Mutex<PublishedMessages>>,
    consumer: JoinHandle<()>,
    _connection: Connection,
}

/// Counts of published messages.
#[derive(Debug, Clone, Default)]
pub(super) struct PublishedMessages {
    /// Messages by routing key.
    pub(super) messages: BTreeMap<String, usize>,
    /// Publications and queue of each task, without returns from a retry delay.
    tasks: HashMap<blake3::Hash, (usize, usize)>,
    /// Arrival times of messages to the first lane.
    times: Vec<Instant>,
    /// Messages that returned from a retry delay.
    pub(super) delayed: usize,
}

impl MessageTap {
    /// Starts counting. The fleet's coordinator must have declared its exchange.
    pub(super) async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let connection = connect(url).await?;
        let channel = connection.create_channel().await?;
        let own = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        };
        let queue = channel
            .queue_declare(ShortString::default(), own, FieldTable::default())
            .await?
            .name()
            .clone();
        let flows = (0..FLOWS).map(|n| format!("flow.{n:02}"));
        for key in LANES.into_iter().map(String::from).chain(flows) {
            let exchange = ShortString::from(prefix);
            let options = QueueBindOptions::default();
            channel
                .queue_bind(
                    queue.clone(),
                    exchange,
                    key.into(),
                    options,
                    FieldTable::default(),
                )
                .await?;
        }
        let options = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let mut consumer = channel
            .basic_consume(
                queue,
                ShortString::default(),
                options,
                FieldTable::default(),
            )
            .await?;
        let published = Arc::new(Mutex::new(PublishedMessages::default()));
        let shared = Arc::clone(&published);
        let taking = tokio::spawn(async move {
            while let Some(Ok(delivery)) = consumer.next().await {
                let headers = delivery.properties.headers().as_ref();
                let delayed = headers.is_some_and(|headers| headers.contains_key("x-death"));
                lock(&shared).record(delivery.routing_key.as_str(), &delivery.data, delayed);
            }
        });
        Ok(Self {
            channel,
            prefix: prefix.into(),
            snapshot: published,
            consumer: taking,
            _connection: connection,
        })
    }

    pub(super) fn snapshot(&self) -> PublishedMessages {
        lock(&self.snapshot).clone()
    }

    /// Ready messages of a queue.
    pub(super) async fn depth(&self, queue: &str) -> Result<u32> {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = format!("{}.{queue}", self.prefix);
        Ok(self
            .channel
            .queue_declare(name.into(), passive, FieldTable::default())
            .await?
            .message_count())
    }
}

impl Drop for MessageTap {
    fn drop(&mut self) {
        self.consumer.abort();
    }
}

fn lock(published: &Mutex<PublishedMessages>) -> MutexGuard<'_, PublishedMessages> {
    published.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PublishedMessages {
    /// All messages.
    pub(super) fn published(&self) -> usize {
        self.messages.values().sum()
    }

    fn record(&mut self, key: &str, body: &[u8], delayed: bool) {
        *self.messages.entry(key.to_string()).or_default() += 1;
        self.delayed += usize::from(delayed);
        if key == LANES[0] {
            self.times.push(Instant::now());
        }
        let Some(lane) = LANES
            .iter()
            .position(|lane| *lane == key)
            .filter(|_| !delayed)
        else {
            return;
        };
        let task: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = blake3::hash(format!("{} {}", task["run"]["run"], task["key"]).as_bytes());
        self.tasks.entry(name).or_insert((0, lane)).0 += 1;
    }

    /// Age of the oldest of `waiting` messages of the first lane; a queue delivers the oldest
    /// first.
    pub(super) fn oldest(&self, waiting: u32) -> Duration {
        let oldest = self
            .times
            .len()
            .checked_sub(waiting as usize)
            .and_then(|index| self.times.get(index));
        oldest.map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Distinct tasks published to the queues of a lane.
    pub(super) fn tasks_of(&self, lane: &str) -> usize {
        self.tasks
            .values()
            .filter(|(_, at)| LANES[*at] == lane)
            .count()
    }

    /// Distinct published tasks.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Repeated publications of tasks.
    pub(super) fn republished(&self) -> usize {
        self.tasks.values().map(|(times, _)| times - 1).sum()
    }
}

/// Messages per second that are published with confirms to a durable queue like Stemma's, while they are consumed and
/// acknowledged.
pub(super) async fn bare_rate(url: &str, name: &str, over: Duration) -> Result<f64> {
    let publishing = connect(url).await?;
    let consuming = connect(url).await?;
    let channel = publishing.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let queue = ShortString::from(name);
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    channel
        .queue_declare(queue.clone(), QueueDeclareOptions::durable(), arguments)
        .await?;
    let consumed = tokio::spawn(consume(consuming, queue.clone(), over));
    let started = Instant::now();
    let mut confirms = FuturesUnordered::new();
    while started.elapsed() < over {
        while confirms.len() < usize::from(WINDOW) {
            let options = BasicPublishOptions::default();
            let body = vec![b'x'; MESSAGE_BYTES];
            let properties = BasicProperties::default().with_delivery_mode(2);
            let sent = channel
                .basic_publish(
                    ShortString::default(),
                    queue.clone(),
                    options,
                    &body,
                    properties,
                )
                .await?;
            confirms.push(sent);
        }
        confirms
            .next()
            .await
            .context("the broker did not confirm")??;
    }
    let messages = consumed.await??;
    channel
        .queue_delete(queue, QueueDeleteOptions::default())
        .await?;
    Ok(messages as f64 / over.as_secs_f64())
}

/// Number of acknowledged messages.
async fn consume(connection: Connection, queue: ShortString, over: Duration) -> Result<usize> {
    let channel = connection.create_channel().await?;
    channel
        .basic_qos(WINDOW, BasicQosOptions::default())
        .await?;
    let options = BasicConsumeOptions::default();
    let mut consumer = channel
        .basic_consume(
            queue,
            ShortString::default(),
            options,
            FieldTable::default(),
        )
        .await?;
    let mut messages = 0;
    let take = async {
        while let Some(delivery) = consumer.next().await {
            delivery?.ack(BasicAckOptions::default()).await?;
            messages += 1;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(over, take).await {
        Ok(ended) => ended?,
        Err(_) => return Ok(messages),
    }
    anyhow::bail!("the broker ended the subscription")
}

async fn connect(url: &str) -> Result<Connection> {
    Connection::connect(url, ConnectionProperties::default())
        .await
        .context("connecting to the broker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_run_and_key_counts_as_republished() {
        let mut published = PublishedMessages::default();
        let body = |run: &str, key: &str| format!(r#"{{"run":{{"run":"{run}"}},"key":"{key}"}}"#);
        for (run, key) in [("r1", "a"), ("r1", "b"), ("r2", "a"), ("r1", "a")] {
            published.record("llm.bulk", body(run, key).as_bytes(), false);
        }
        published.record("llm.bulk", body("r1", "b").as_bytes(), true);
        published.record("flow.07", b"{}", false);
        assert_eq!(
            (
                published.tasks(),
                published.republished(),
                published.delayed
            ),
            (3, 1, 1)
        );
        assert_eq!(
            (
                published.tasks_of("llm.bulk"),
                published.tasks_of("cpu.bulk")
            ),
            (3, 0)
        );
        assert_eq!(published.messages["llm.bulk"], 5);
        assert_eq!(
            published.oldest(1),
            Duration::ZERO,
            "nothing went to the first lane"
        );
        published.record("cpu.bulk", body("r1", "c").as_bytes(), false);
        let earlier = Instant::now();
        while earlier.elapsed().is_zero() {}
        published.record("cpu.bulk", body("r1", "d").as_bytes(), false);
        assert!(published.oldest(1) < published.oldest(2));
        assert_eq!(published.oldest(0), Duration::ZERO);
    }
}
