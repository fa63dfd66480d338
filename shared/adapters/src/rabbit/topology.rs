//! Names and declarations of queues and exchanges.
//!
//! ```text
//! publish ──► exchange `stemma` (direct, key = queue) ──► queue `stemma.<queue>` ──delivery limit──► `stemma.dead`
//! later   ──► exchange `stemma.later.<delay>` (fanout) ──► queue `stemma.later.<delay>` ──TTL──► exchange `stemma`
//! announce ─► exchange `stemma.events` (topic) ──► queues bound by listeners
//! ```
//!
//! A delay queue sets no dead-letter routing key, so messages keep the key they were published with, and one delay
//! queue serves all queues. All queues are durable quorum queues with arguments that 3.10 and 4.x both accept. Defaults
//! of 4.x (a delivery limit) are set explicitly, so that both versions behave the same.

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use stemma_engine::queue::{DELIVERY_LIMIT, QueueName, RetryDelay};
use stemma_store::port_error::{PortError, PortResult};

use super::reply::{NOT_FOUND, port_error, reply_code, with_timeout, with_timeout_or};

// The dead-letter queue must not drop messages for being read. This is the highest limit that 3.10 and 4.x accept: 3.10
// refuses `-1`, and without a limit 4.x sets 20.
const MAX_DELIVERY_LIMIT: i32 = i32::MAX;
// AMQP reply code for a declaration that conflicts with an existing queue.
const PRECONDITION_FAILED: u16 = 406;

pub(super) struct Topology {
    prefix: String,
}

pub(super) struct PublishRoute {
    pub exchange: ShortString,
    pub key: ShortString,
    // Whether an unroutable message is an error.
    pub mandatory: bool,
}

impl Topology {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = QueueName> {
        QueueName::all()
    }

    pub(super) fn queue(&self, queue: QueueName) -> ShortString {
        format!("{}.{queue}", self.prefix).into()
    }

    /// Name of the queue and exchange of a delay.
    pub(super) fn delay_queue(&self, delay: RetryDelay) -> ShortString {
        format!("{}.later.{}s", self.prefix, delay.duration().as_secs()).into()
    }

    pub(super) fn route(&self, queue: QueueName) -> PublishRoute {
        PublishRoute {
            exchange: self.exchange(),
            key: routing_key(queue),
            mandatory: true,
        }
    }

    pub(super) fn delayed_route(&self, queue: QueueName, delay: RetryDelay) -> PublishRoute {
        PublishRoute {
            exchange: self.delay_queue(delay),
            key: routing_key(queue),
            mandatory: true,
        }
    }

    // Events may have no listener, so they are not mandatory.
    pub(super) fn event_route(&self, topic: &str) -> PortResult<PublishRoute> {
        let key = ShortString::try_new(topic)
            .map_err(|_| PortError::permanent("queue.announce", "a topic has at most 255 bytes"))?;
        Ok(PublishRoute {
            exchange: self.events(),
            key,
            mandatory: false,
        })
    }

    /// Declares all queues and exchanges; existing ones are left as they are.
    ///
    /// # Errors
    /// Permanent when one exists with other arguments.
    pub(super) async fn declare(&self, channel: &Channel) -> PortResult<()> {
        declare_exchange(channel, self.exchange(), ExchangeKind::Direct).await?;
        declare_exchange(channel, self.events(), ExchangeKind::Topic).await?;
        for queue in self.queues() {
            declare_queue(channel, self.queue(queue), self.arguments(queue)).await?;
            bind(
                channel,
                self.queue(queue),
                self.exchange(),
                routing_key(queue),
            )
            .await?;
        }
        for delay in RetryDelay::ALL {
            let name = self.delay_queue(delay);
            declare_exchange(channel, name.clone(), ExchangeKind::Fanout).await?;
            declare_queue(channel, name.clone(), self.delay_arguments(delay)).await?;
            bind(channel, name.clone(), name, ShortString::default()).await?;
        }
        Ok(())
    }

    // Whether every program declares the queue. Coordinators of older programs declare no continuations.
    fn is_needed(queue: QueueName) -> bool {
        !matches!(queue, QueueName::Continuation(..))
    }

    /// Checks that all queues and exchanges that are needed exist, which needs no permission.
    ///
    /// # Errors
    /// Transient when one is missing: a process that may declare it does so when it connects.
    pub(super) async fn check(&self, channel: &Channel) -> PortResult<()> {
        for exchange in [self.exchange(), self.events()] {
            check_exchange(channel, exchange).await?;
        }
        for queue in self.queues().filter(|queue| Self::is_needed(*queue)) {
            check_queue(channel, &self.queue(queue)).await?;
        }
        for delay in RetryDelay::ALL {
            check_exchange(channel, self.delay_queue(delay)).await?;
            check_queue(channel, &self.delay_queue(delay)).await?;
        }
        Ok(())
    }

    fn exchange(&self) -> ShortString {
        self.prefix.as_str().into()
    }

    fn events(&self) -> ShortString {
        format!("{}.events", self.prefix).into()
    }

    fn arguments(&self, queue: QueueName) -> FieldTable {
        if queue == QueueName::Dead {
            let mut table = quorum_arguments();
            table.insert(
                "x-delivery-limit".into(),
                AMQPValue::LongInt(MAX_DELIVERY_LIMIT),
            );
            return table;
        }
        let mut table = self.dead_lettering();
        let limit = i32::try_from(DELIVERY_LIMIT).unwrap_or(MAX_DELIVERY_LIMIT);
        table.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
        table.insert(
            "x-dead-letter-routing-key".into(),
            string_value(routing_key(QueueName::Dead).as_str()),
        );
        if matches!(queue, QueueName::Flow(_)) {
            table.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        table
    }

    fn delay_arguments(&self, delay: RetryDelay) -> FieldTable {
        let mut table = self.dead_lettering();
        let millis = i64::try_from(delay.duration().as_millis()).unwrap_or(i64::MAX);
        table.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
        table
    }

    // At-least-once dead-lettering: a message stays in its queue until the next queue has accepted it. The broker
    // allows that only together with `reject-publish`.
    fn dead_lettering(&self) -> FieldTable {
        let mut table = quorum_arguments();
        table.insert("x-dead-letter-exchange".into(), string_value(&self.prefix));
        table.insert(
            "x-dead-letter-strategy".into(),
            string_value("at-least-once"),
        );
        table.insert("x-overflow".into(), string_value("reject-publish"));
        table
    }
}

/// The numbers of waiting messages and of subscriptions; `None` if the queue does not exist, which closes the channel.
pub(super) async fn queue_counts(
    channel: &Channel,
    name: &ShortString,
) -> PortResult<Option<(u64, u64)>> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let declare = channel.queue_declare(name.clone(), passive, FieldTable::default());
    let mut is_missing = false;
    let declared = with_timeout_or(declare, |error| {
        is_missing = error.and_then(reply_code) == Some(NOT_FOUND);
        port_error("queue.depth", error)
    })
    .await;
    match declared {
        Err(_) if is_missing => Ok(None),
        declared => {
            let queue = declared?;
            let messages = u64::from(queue.message_count());
            Ok(Some((messages, u64::from(queue.consumer_count()))))
        }
    }
}

fn routing_key(queue: QueueName) -> ShortString {
    queue.to_string().into()
}

fn string_value(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn quorum_arguments() -> FieldTable {
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), string_value("quorum"));
    table
}

async fn declare_exchange(
    channel: &Channel,
    name: ShortString,
    kind: ExchangeKind,
) -> PortResult<()> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declared = channel.exchange_declare(name.clone(), kind, durable, FieldTable::default());
    with_timeout_or(declared, |error| declare_error("exchange", &name, error)).await
}

async fn check_exchange(channel: &Channel, name: ShortString) -> PortResult<()> {
    let passive = ExchangeDeclareOptions {
        passive: true,
        ..ExchangeDeclareOptions::default()
    };
    let kind = ExchangeKind::Direct; // ignored
    let declared = channel.exchange_declare(name, kind, passive, FieldTable::default());
    with_timeout("queue.declare", declared).await
}

async fn check_queue(channel: &Channel, name: &ShortString) -> PortResult<()> {
    let counts = queue_counts(channel, name).await?;
    counts.map(drop).ok_or_else(|| {
        let text = format!("queue {name} is missing; a coordinator declares it");
        PortError::transient("queue.declare", text)
    })
}

async fn declare_queue(
    channel: &Channel,
    name: ShortString,
    arguments: FieldTable,
) -> PortResult<()> {
    let declared = channel.queue_declare(name.clone(), QueueDeclareOptions::durable(), arguments);
    with_timeout_or(declared, |error| declare_error("queue", &name, error))
        .await
        .map(|_| ())
}

async fn bind(
    channel: &Channel,
    queue: ShortString,
    exchange: ShortString,
    key: ShortString,
) -> PortResult<()> {
    let bound = channel.queue_bind(
        queue,
        exchange,
        key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    with_timeout("queue.declare", bound).await
}

fn declare_error(kind: &str, name: &ShortString, error: Option<&lapin::Error>) -> PortError {
    match error {
        Some(error) if reply_code(error) == Some(PRECONDITION_FAILED) => {
            let advice = format!("delete it when it is empty, or choose another prefix ({error})");
            PortError::permanent(
                "queue.declare",
                format!("{kind} {name} is declared differently: {advice}"),
            )
        }
        error => port_error("queue.declare", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(table: &'a FieldTable, name: &str) -> Option<&'a AMQPValue> {
        table.inner().get(&ShortString::from(name))
    }

    #[test]
    fn queue_names_start_with_the_prefix() {
        let topology = Topology::new("stemma");
        let names: Vec<String> = topology
            .queues()
            .map(|queue| topology.queue(queue).to_string())
            .collect();
        assert_eq!(names.len(), 4 * 2 + 3 * 2 + 32 + 2);
        for name in [
            "stemma.llm.interactive",
            "stemma.cpu.bulk",
            "stemma.cpu.bulk.continuation",
            "stemma.flow.31",
            "stemma.dead",
            "stemma.reindex",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        let delay_queues: Vec<String> = RetryDelay::ALL
            .into_iter()
            .map(|delay| topology.delay_queue(delay).to_string())
            .collect();
        assert_eq!(
            delay_queues,
            ["stemma.later.5s", "stemma.later.30s", "stemma.later.300s"]
        );
        assert!(topology.event_route(&"x".repeat(256)).is_err());
    }

    #[test]
    fn delay_queues_keep_the_routing_key() {
        let topology = Topology::new("stemma");
        let table = topology.delay_arguments(RetryDelay::Medium);
        assert_eq!(
            value(&table, "x-message-ttl"),
            Some(&AMQPValue::LongLongInt(30_000))
        );
        assert_eq!(
            value(&table, "x-dead-letter-exchange"),
            Some(&string_value("stemma"))
        );
        assert_eq!(value(&table, "x-dead-letter-routing-key"), None);
        assert_eq!(
            topology
                .delayed_route(QueueName::Flow(7), RetryDelay::Medium)
                .key
                .as_str(),
            "flow.07"
        );
    }

    #[test]
    fn every_queue_declares_its_delivery_limit() {
        let topology = Topology::new("stemma");
        for queue in topology.queues() {
            let table = topology.arguments(queue);
            let limit = if queue == QueueName::Dead {
                MAX_DELIVERY_LIMIT
            } else {
                20
            };
            assert_eq!(
                value(&table, "x-delivery-limit"),
                Some(&AMQPValue::LongInt(limit)),
                "{queue}"
            );
            assert_eq!(
                value(&table, "x-queue-type"),
                Some(&string_value("quorum")),
                "{queue}"
            );
            let single = matches!(queue, QueueName::Flow(_));
            assert_eq!(
                value(&table, "x-single-active-consumer").is_some(),
                single,
                "{queue}"
            );
        }
    }
}
