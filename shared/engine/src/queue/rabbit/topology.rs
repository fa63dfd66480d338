//! What this adapter declares at the broker: names, queues, exchanges, the ladder.
//!
//! ```text
//! publish ──► exchange `stemma` (direct, key = queue) ──► queue `stemma.<queue>` ──delivery limit──► `stemma.dead`
//! later   ──► exchange `stemma.later.<rung>` (fanout) ──► queue `stemma.later.<rung>` ──TTL──► exchange `stemma`
//! announce ─► exchange `stemma.events` (topic) ──► whoever bound a queue
//! ```
//!
//! A rung names no dead-letter routing key, so a message keeps the key it was published with, and one rung serves all
//! queues. All queues are durable quorum queues with arguments that 3.10 and 4.x both take; what 4.x sets by itself
//! (a delivery limit) is set here, so that both do the same.

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use super::link::{answered, answered_or, fault, reply_code};
use crate::port::PortError;
use crate::queue::{DELIVERY_LIMIT, QueueName, Rung};

/// Dead letters must not be dropped for having been looked at: the highest limit that both 3.10 and 4.x take (3.10
/// refuses `-1`, and without any limit 4.x sets 20).
const NO_LIMIT: i32 = i32::MAX;
/// The broker's reply code for a declaration that contradicts what is there.
const PRECONDITION_FAILED: u16 = 406;

/// The names below one prefix.
pub(super) struct Topology {
    prefix: String,
}

/// Where a message is published to.
pub(super) struct Route {
    pub exchange: ShortString,
    pub key: ShortString,
    /// Whether a message that reaches no queue is a failure.
    pub mandatory: bool,
}

impl Topology {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// Every queue that messages are published to and consumed from.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueName> {
        QueueName::all()
    }

    /// The broker's name of a queue.
    pub(super) fn queue(&self, queue: QueueName) -> ShortString {
        format!("{}.{queue}", self.prefix).into()
    }

    /// The queue, and the exchange, of a rung.
    pub(super) fn rung(&self, rung: Rung) -> ShortString {
        format!("{}.later.{}s", self.prefix, rung.delay().as_secs()).into()
    }

    /// The way to a queue.
    pub(super) fn route(&self, queue: QueueName) -> Route {
        Route {
            exchange: self.exchange(),
            key: key(queue),
            mandatory: true,
        }
    }

    /// The way to a queue over a rung.
    pub(super) fn detour(&self, queue: QueueName, rung: Rung) -> Route {
        Route {
            exchange: self.rung(rung),
            key: key(queue),
            mandatory: true,
        }
    }

    /// The way of an event, which may well reach no one.
    pub(super) fn event(&self, topic: &str) -> Result<Route, PortError> {
        let key = ShortString::try_new(topic).map_err(|_| {
            PortError::lasting("queue", "announce", "a topic has at most 255 bytes")
        })?;
        Ok(Route {
            exchange: self.events(),
            key,
            mandatory: false,
        })
    }

    /// Declares all of it; what is there already is left as it is.
    ///
    /// # Errors
    /// Lasting where something of this name has other arguments.
    pub(super) async fn declare(&self, channel: &Channel) -> Result<(), PortError> {
        declare_exchange(channel, self.exchange(), ExchangeKind::Direct).await?;
        declare_exchange(channel, self.events(), ExchangeKind::Topic).await?;
        for queue in self.queues() {
            declare_queue(channel, self.queue(queue), self.arguments(queue)).await?;
            bind(channel, self.queue(queue), self.exchange(), key(queue)).await?;
        }
        for rung in Rung::ALL {
            let name = self.rung(rung);
            declare_exchange(channel, name.clone(), ExchangeKind::Fanout).await?;
            declare_queue(channel, name.clone(), self.ladder(rung)).await?;
            bind(channel, name.clone(), name, ShortString::default()).await?;
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
            let mut table = quorum();
            table.insert("x-delivery-limit".into(), AMQPValue::LongInt(NO_LIMIT));
            return table;
        }
        let mut table = self.dead_lettering();
        let limit = i32::try_from(DELIVERY_LIMIT).unwrap_or(NO_LIMIT);
        table.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
        table.insert(
            "x-dead-letter-routing-key".into(),
            long(key(QueueName::Dead).as_str()),
        );
        if matches!(queue, QueueName::Flow(_)) {
            table.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        table
    }

    fn ladder(&self, rung: Rung) -> FieldTable {
        let mut table = self.dead_lettering();
        let millis = i64::try_from(rung.delay().as_millis()).unwrap_or(i64::MAX);
        table.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
        table
    }

    /// A message that leaves the queue otherwise than by an acknowledgement is kept until its next queue has it; the
    /// broker allows that only together with `reject-publish`.
    fn dead_lettering(&self) -> FieldTable {
        let mut table = quorum();
        table.insert("x-dead-letter-exchange".into(), long(&self.prefix));
        table.insert("x-dead-letter-strategy".into(), long("at-least-once"));
        table.insert("x-overflow".into(), long("reject-publish"));
        table
    }
}

/// How many messages wait on a queue.
pub(super) async fn waiting(channel: &Channel, name: &ShortString) -> Result<u64, PortError> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let asked = channel.queue_declare(name.clone(), passive, FieldTable::default());
    Ok(u64::from(answered("depth", asked).await?.message_count()))
}

fn key(queue: QueueName) -> ShortString {
    queue.to_string().into()
}

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn quorum() -> FieldTable {
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), long("quorum"));
    table
}

async fn declare_exchange(
    channel: &Channel,
    name: ShortString,
    kind: ExchangeKind,
) -> Result<(), PortError> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declared = channel.exchange_declare(name.clone(), kind, durable, FieldTable::default());
    answered_or(declared, |error| conflict("exchange", &name, error)).await
}

async fn declare_queue(
    channel: &Channel,
    name: ShortString,
    arguments: FieldTable,
) -> Result<(), PortError> {
    let declared = channel.queue_declare(name.clone(), QueueDeclareOptions::durable(), arguments);
    answered_or(declared, |error| conflict("queue", &name, error))
        .await
        .map(|_| ())
}

async fn bind(
    channel: &Channel,
    queue: ShortString,
    exchange: ShortString,
    key: ShortString,
) -> Result<(), PortError> {
    let bound = channel.queue_bind(
        queue,
        exchange,
        key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    answered("declare", bound).await
}

/// What it means that something could not be declared.
fn conflict(kind: &str, name: &ShortString, error: Option<&lapin::Error>) -> PortError {
    match error {
        Some(error) if reply_code(error) == Some(PRECONDITION_FAILED) => {
            let advice = format!("delete it when it is empty, or choose another prefix ({error})");
            PortError::lasting(
                "queue",
                "declare",
                format!("{kind} {name} is declared differently: {advice}"),
            )
        }
        error => fault("declare", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(table: &'a FieldTable, name: &str) -> Option<&'a AMQPValue> {
        table.inner().get(&ShortString::from(name))
    }

    #[test]
    fn names_are_those_of_the_port_below_the_prefix() {
        let topology = Topology::new("stemma");
        let names: Vec<String> = topology
            .queues()
            .map(|queue| topology.queue(queue).to_string())
            .collect();
        assert_eq!(names.len(), 3 * 2 + 32 + 2);
        for name in [
            "stemma.llm.interactive",
            "stemma.cpu.bulk",
            "stemma.flow.31",
            "stemma.dead",
            "stemma.reindex",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        let rungs: Vec<String> = Rung::ALL
            .into_iter()
            .map(|rung| topology.rung(rung).to_string())
            .collect();
        assert_eq!(
            rungs,
            ["stemma.later.5s", "stemma.later.30s", "stemma.later.300s"]
        );
        assert!(topology.event(&"x".repeat(256)).is_err());
    }

    #[test]
    fn a_rung_keeps_the_key_of_its_messages() {
        let topology = Topology::new("stemma");
        let table = topology.ladder(Rung::Medium);
        assert_eq!(
            value(&table, "x-message-ttl"),
            Some(&AMQPValue::LongLongInt(30_000))
        );
        assert_eq!(
            value(&table, "x-dead-letter-exchange"),
            Some(&long("stemma"))
        );
        assert_eq!(value(&table, "x-dead-letter-routing-key"), None);
        assert_eq!(
            topology
                .detour(QueueName::Flow(7), Rung::Medium)
                .key
                .as_str(),
            "flow.07"
        );
    }

    #[test]
    fn every_queue_says_its_delivery_limit() {
        let topology = Topology::new("stemma");
        for queue in topology.queues() {
            let table = topology.arguments(queue);
            let limit = if queue == QueueName::Dead {
                NO_LIMIT
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
                Some(&long("quorum")),
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
