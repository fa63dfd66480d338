//! AMQP encoding of messages: the body unchanged, attempts and trace context in headers.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::queue::Message;

// Failed attempts. Our own header, because the broker's counts (`x-death`, deliveries) are not a retry policy.
const ATTEMPTS: &str = "x-stemma-attempts";
// W3C trace context; survives dead-lettering like every header.
const TRACE: &str = "traceparent";
// How often a quorum queue has redelivered the message; absent on the first delivery.
const DELIVERY_COUNT: &str = "x-delivery-count";
// Survives a restart of the broker.
const PERSISTENT: u8 = 2;

pub(super) fn properties(message: &Message) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(
        ATTEMPTS.into(),
        AMQPValue::LongLongInt(i64::from(message.attempts)),
    );
    if let Some(trace) = &message.trace {
        headers.insert(TRACE.into(), AMQPValue::LongString(trace.as_str().into()));
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
        trace: text(&headers, TRACE),
        body: Bytes::from(delivery.data),
    };
    (message, redeliveries)
}

fn count(headers: &FieldTable, name: &str) -> Option<u32> {
    let value = match *headers.inner().get(&ShortString::from(name))? {
        AMQPValue::ShortShortInt(n) => i64::from(n),
        AMQPValue::ShortShortUInt(n) => i64::from(n),
        AMQPValue::ShortInt(n) => i64::from(n),
        AMQPValue::ShortUInt(n) => i64::from(n),
        AMQPValue::LongInt(n) => i64::from(n),
        AMQPValue::LongUInt(n) => i64::from(n),
        AMQPValue::LongLongInt(n) => n,
        _ => return None,
    };
    u32::try_from(value).ok()
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
            trace: Some("00-ab-cd-01".into()),
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
