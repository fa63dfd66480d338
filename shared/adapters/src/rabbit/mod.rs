//! The queue port on RabbitMQ 3.10 to 4.x.
//!
//! Publishing and consuming use separate connections, so that a broker that blocks publishers does not block
//! acknowledgements. Each connection is watched and rebuilt by its own supervisor (`connection`); callers wait for it
//! with a timeout. The reasons are in `docs/adr/0011`.

mod connection;
mod encoding;
mod probe;
mod publisher;
mod reply;
mod subscription;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stemma_engine::queue::{
    Depth, MAX_MESSAGE_BYTES, Message, Queue, QueueName, RetryDelay, Subscription,
};
use stemma_store::env::Env;
use stemma_store::port_error::{PortError, PortResult};
use stemma_store::secret::Secret;

pub use probe::Probe;

use connection::{BrokerEndpoint, CONSUME, RECONNECT_TIMEOUT, SupervisedConnection};
use publisher::Publisher;
use subscription::RabbitSubscription;
use topology::Topology;

// How long [`RabbitQueue::connect`] waits for a broker that is unavailable or starting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

// Maximum length of the prefix in bytes: queue names have at most 255.
const MAX_PREFIX_BYTES: usize = 100;

/// Connection settings.
#[derive(Debug, Clone)]
pub struct RabbitSettings {
    /// `amqp://user:password@host:port/vhost` or `amqps://…`; `%2f` is the default vhost.
    pub url: Secret,
    /// Prefix of all queue and exchange names, e.g. `stemma`.
    pub prefix: String,
    /// Connection name, as listed by the broker.
    pub name: String,
}

/// The RabbitMQ adapter. Share it in an [`Arc`], and [`RabbitQueue::close`] it before the process ends.
pub struct RabbitQueue {
    topology: Arc<Topology>,
    endpoint: BrokerEndpoint,
    publisher: Publisher,
    consumer_connection: SupervisedConnection,
}

impl RabbitQueue {
    /// Connects and declares all queues and exchanges, or waits for them if the login may not. Does so again after every loss of
    /// the connection.
    ///
    /// # Errors
    /// Permanent: a malformed URL or prefix, a refused login, a queue declared with other arguments. Transient: no
    /// broker answered within 30 s.
    pub async fn connect(settings: &RabbitSettings, env: &Env) -> PortResult<Self> {
        let queue = Self::open(settings, true, RECONNECT_TIMEOUT, env)?;
        queue.publisher.connected(CONNECT_TIMEOUT).await?;
        let consuming = &queue.consumer_connection;
        consuming.handle("queue.connect", CONNECT_TIMEOUT).await?;
        Ok(queue)
    }

    /// A queue to look at: starts connecting, declares nothing, and each call waits for the connection up to `patience`.
    ///
    /// # Errors
    /// Permanent: a malformed URL or prefix.
    pub fn observe(settings: &RabbitSettings, patience: Duration, env: &Env) -> PortResult<Self> {
        Self::open(settings, false, patience, env)
    }

    fn open(
        settings: &RabbitSettings,
        declares: bool,
        patience: Duration,
        env: &Env,
    ) -> PortResult<Self> {
        let topology = Arc::new(Topology::new(check_prefix(&settings.prefix)?));
        let endpoint = BrokerEndpoint::new(settings)?;
        let declared = declares.then_some(&topology);
        let open =
            |purpose| SupervisedConnection::open(&endpoint, purpose, declared, patience, env);
        let consumer_connection = open(CONSUME);
        Ok(Self {
            publisher: Publisher::new(open("publish")),
            topology,
            endpoint,
            consumer_connection,
        })
    }

    /// Reads product and version of the broker, and checks that every queue and exchange is declared as expected.
    /// Policies set by an operator cannot be checked this way.
    ///
    /// # Errors
    /// Permanent when a queue is declared differently; the message says which, and what to do.
    pub async fn probe(&self) -> PortResult<Probe> {
        let (product, version) = probe::server_identity(&self.endpoint).await?;
        let connection = self.consumer_connection.ready("queue.probe").await?;
        connection.declare("queue.probe", &self.topology).await?;
        Ok(Probe {
            product,
            version,
            queues: self.topology.queues().count(),
        })
    }

    /// Closes both connections gracefully. Later calls fail, and unacknowledged messages are requeued.
    pub async fn close(&self) {
        self.publisher.close().await;
        self.consumer_connection.close().await;
    }
}

#[async_trait]
impl Queue for RabbitQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> PortResult<()> {
        messages
            .iter()
            .try_for_each(|message| check_size("queue.publish", message))?;
        self.publisher
            .publish("queue.publish", &self.topology.route(queue), messages)
            .await
    }

    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> PortResult<()> {
        check_size("queue.publish_later", &message)?;
        self.publisher
            .publish(
                "queue.publish_later",
                &self.topology.delayed_route(queue, delay),
                vec![message],
            )
            .await
    }

    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> PortResult<Box<dyn Subscription>> {
        let name = self.topology.queue(queue);
        let opened = RabbitSubscription::open(&self.consumer_connection, name, prefetch);
        Ok(Box::new(opened.await?))
    }

    async fn announce(&self, topic: &str, event: Message) -> PortResult<()> {
        check_size("queue.announce", &event)?;
        self.publisher
            .publish(
                "queue.announce",
                &self.topology.event_route(topic)?,
                vec![event],
            )
            .await
    }

    // AMQP does not report unacknowledged messages, so `unacked` stays 0. All queues share the delay queues, so
    // `delayed` counts the messages on their way to any queue.
    async fn depth(&self, queue: QueueName) -> PortResult<Depth> {
        let channel = self
            .consumer_connection
            .ready("queue.depth")
            .await?
            .channel("queue.depth")
            .await?;
        let counts = topology::queue_counts(&channel, &self.topology.queue(queue)).await?;
        let Some((ready, consumers)) = counts else {
            return Ok(Depth::default()); // no service has declared it yet
        };
        let mut delayed = 0;
        for delay in RetryDelay::ALL {
            let name = self.topology.delay_queue(delay);
            let waiting = topology::queue_counts(&channel, &name).await?;
            delayed += waiting.map_or(0, |(messages, _)| messages);
        }
        Ok(Depth {
            ready,
            unacked: 0,
            delayed,
            consumers,
        })
    }

    fn blocked(&self) -> Option<String> {
        self.publisher.blocked()
    }
}

fn check_size(operation: &'static str, message: &Message) -> PortResult<()> {
    if message.body.len() > MAX_MESSAGE_BYTES {
        let text = format!(
            "a message of {} bytes is over the limit of {MAX_MESSAGE_BYTES}",
            message.body.len()
        );
        return Err(PortError::permanent(operation, text));
    }
    Ok(())
}

fn check_prefix(prefix: &str) -> PortResult<&str> {
    if prefix.is_empty()
        || prefix.len() > MAX_PREFIX_BYTES
        || !prefix
            .bytes()
            .all(|byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        let text = format!(
            "the queue prefix must be 1 to {MAX_PREFIX_BYTES} letters, digits, '-', '_' or '.'"
        );
        return Err(PortError::permanent("queue.connect", text));
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_prefixes_are_rejected() {
        assert_eq!(check_prefix("stemma"), Ok("stemma"));
        assert_eq!(check_prefix("test-4.x_1"), Ok("test-4.x_1"));
        for wrong in ["", "a b", "a/b", "ä", &"x".repeat(101)] {
            assert!(
                check_prefix(wrong).is_err_and(|error| !error.is_transient()),
                "{wrong:?}"
            );
        }
    }

    #[tokio::test]
    async fn malformed_url_error_hides_the_url() {
        let url = Secret::from("amqp://me:hunter2@[broken");
        let settings = RabbitSettings {
            url,
            prefix: "stemma".into(),
            name: "test".into(),
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
        let refusal = RabbitQueue::connect(&settings, &Env::system())
            .await
            .err()
            .expect("refused");
        assert!(
            !refusal.is_transient() && !refusal.message.contains("hunter2"),
            "{refusal}"
        );
    }
}
