//! AMQP encoding of messages: the body unchanged, attempts and trace context in headers.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use stemma_engine::queue::{DeadReason, Message};

// Failed attempts. Our own header, because the broker's counts (`x-death`, deliveries) are not a retry policy.
const ATTEMPTS: &str = "x-stemma-attempts";
// Which retry the message is for.
const RETRY: &str = "x-stemma-retry";
// W3C trace context; survives dead-lettering like every header.
const TRACE: &str = "traceparent";
// A header, so that programs that know of no signature read the body as before.
const SIGNATURE: &str = "x-stemma-signature";
// How often a quorum queue has redelivered the message; absent on the first delivery.
const DELIVERY_COUNT: &str = "x-delivery-count";
// Why a process put the message on the dead-letter queue.
const DEAD_QUEUE: &str = "x-stemma-dead-queue";
const DEAD_REASON: &str = "x-stemma-dead-reason";
const DEAD_DELIVERIES: &str = "x-stemma-dead-deliveries";
// The broker's own list of dead-letterings, latest first: retries wait in queues that dead-letter by time, and a message
// that nobody acknowledges is dead-lettered at the delivery limit.
const DEATHS: &str = "x-death";
const DELIVERY_LIMIT_REACHED: &str = "delivery_limit";
// Survives a restart of the broker.
const PERSISTENT: u8 = 2;

pub(super) fn properties(message: &Message) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(
        ATTEMPTS.into(),
        AMQPValue::LongLongInt(i64::from(message.attempts)),
    );
    if let Some(retry_ms) = message.retry_ms {
        let retry_ms = i64::try_from(retry_ms).unwrap_or(i64::MAX);
        headers.insert(RETRY.into(), AMQPValue::LongLongInt(retry_ms));
    }
    if let Some(trace) = &message.trace {
        headers.insert(TRACE.into(), AMQPValue::LongString(trace.as_str().into()));
    }
    if let Some(signature) = &message.signature {
        let signature = AMQPValue::LongString(signature.as_str().into());
        headers.insert(SIGNATURE.into(), signature);
    }
    if let Some(dead) = &message.dead {
        let text = |text: &str| AMQPValue::LongString(text.into());
        headers.insert(DEAD_QUEUE.into(), text(&dead.queue));
        headers.insert(DEAD_REASON.into(), text(&dead.reason));
        let deliveries = AMQPValue::LongLongInt(i64::from(dead.deliveries));
        headers.insert(DEAD_DELIVERIES.into(), deliveries);
    }
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}

/// The message of a delivery and its redelivery count. Missing or malformed headers count as absent.
pub(super) fn decode(delivery: Delivery) -> (Message, u32) {
    let headers = delivery.properties.headers().clone().unwrap_or_default();
    let redeliveries = count(&headers, DELIVERY_COUNT)
        .unwrap_or(0)
        .max(u32::from(delivery.redelivered));
    let message = Message {
        attempts: count(&headers, ATTEMPTS).unwrap_or(0),
        retry_ms: number(&headers, RETRY).and_then(|millis| millis.try_into().ok()),
        trace: text(&headers, TRACE),
        signature: text(&headers, SIGNATURE),
        dead: dead_reason(&headers),
        body: Bytes::from(delivery.data),
    };
    (message, redeliveries)
}

fn dead_reason(headers: &FieldTable) -> Option<DeadReason> {
    if let (Some(queue), Some(reason)) = (text(headers, DEAD_QUEUE), text(headers, DEAD_REASON)) {
        return Some(DeadReason {
            queue,
            reason,
            deliveries: count(headers, DEAD_DELIVERIES).unwrap_or(1),
        });
    }
    let AMQPValue::FieldArray(deaths) = headers.inner().get(&ShortString::from(DEATHS))? else {
        return None;
    };
    let AMQPValue::FieldTable(latest) = deaths.as_slice().first()? else {
        return None;
    };
    let is_limit = text(latest, "reason").is_some_and(|reason| reason == DELIVERY_LIMIT_REACHED);
    let queue = text(latest, "queue").filter(|_| is_limit)?;
    Some(DeadReason::undeliverable(queue))
}

fn count(headers: &FieldTable, name: &str) -> Option<u32> {
    u32::try_from(number(headers, name)?).ok()
}

fn number(headers: &FieldTable, name: &str) -> Option<i64> {
    Some(match *headers.inner().get(&ShortString::from(name))? {
        AMQPValue::ShortShortInt(n) => i64::from(n),
        AMQPValue::ShortShortUInt(n) => i64::from(n),
        AMQPValue::ShortInt(n) => i64::from(n),
        AMQPValue::ShortUInt(n) => i64::from(n),
        AMQPValue::LongInt(n) => i64::from(n),
        AMQPValue::LongUInt(n) => i64::from(n),
        AMQPValue::LongLongInt(n) => n,
        _ => return None,
    })
}

fn text(headers: &FieldTable, name: &str) -> Option<String> {
    match headers.inner().get(&ShortString::from(name))? {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(message: &Message, redelivered: bool, count: Option<AMQPValue>) -> Delivery {
        let mut delivery =
            Delivery::mock(1, "".into(), "".into(), redelivered, message.body.to_vec());
        let mut headers = properties(message).headers().clone().unwrap();
        if let Some(count) = count {
            headers.insert(DELIVERY_COUNT.into(), count);
        }
        delivery.properties = BasicProperties::default().with_headers(headers);
        delivery
    }

    #[test]
    fn messages_round_trip_through_amqp_headers() {
        let message = Message {
            body: Bytes::from_static(b"{}"),
            attempts: 4,
            retry_ms: Some(1_767_225_983_670),
            trace: Some("00-ab-cd-01".into()),
            signature: Some("5d41".into()),
            dead: Some(DeadReason {
                queue: "cpu.bulk".into(),
                reason: "it is not a task: expected value".into(),
                deliveries: 2,
            }),
        };
        assert_eq!(
            decode(delivered(&message, false, None)),
            (message.clone(), 0)
        );
        assert_eq!(
            decode(delivered(&message, true, None)).1,
            1,
            "a queue that does not count"
        );
        assert_eq!(
            decode(delivered(&message, true, Some(AMQPValue::LongLongInt(7)))).1,
            7
        );
        assert_eq!(properties(&message).delivery_mode(), &Some(PERSISTENT));
    }

    #[test]
    fn delivery_limit_of_the_broker_is_a_reason_and_a_delay_is_none() {
        let died = |queue: &str, reason: &str| {
            let mut death = FieldTable::default();
            death.insert("queue".into(), AMQPValue::LongString(queue.into()));
            death.insert("reason".into(), AMQPValue::LongString(reason.into()));
            let mut headers = FieldTable::default();
            let deaths = vec![AMQPValue::FieldTable(death)];
            headers.insert(DEATHS.into(), AMQPValue::FieldArray(deaths.into()));
            headers
        };
        let dead = dead_reason(&died("stemma.llm.bulk", "delivery_limit")).unwrap();
        assert_eq!(
            (dead.queue.as_str(), dead.deliveries),
            ("stemma.llm.bulk", 21)
        );
        assert_eq!(dead_reason(&died("stemma.later.short", "expired")), None);
    }

    #[test]
    fn invalid_headers_are_ignored() {
        let mut delivery = Delivery::mock(1, "".into(), "".into(), false, b"from outside".to_vec());
        assert_eq!(decode(delivery), (Message::new(&b"from outside"[..]), 0));
        let mut headers = FieldTable::default();
        headers.insert(ATTEMPTS.into(), AMQPValue::LongInt(-3));
        headers.insert(TRACE.into(), AMQPValue::Boolean(true));
        delivery = Delivery::mock(1, "".into(), "".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_headers(headers);
        assert_eq!(decode(delivery), (Message::new(Bytes::new()), 0));
    }
}
