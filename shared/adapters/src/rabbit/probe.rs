//! Detects product and version of the broker from its first frame, before any login.

use futures::{AsyncReadExt, AsyncWriteExt};
use lapin::runtime::default_runtime;
use lapin::tcp::{AMQPUriTcpExt, OwnedTLSConfig};
use lapin::types::parsing::parse_field_table;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use stemma_store::port_error::{PortError, PortResult};
use tokio::time::timeout;

use super::connection::BrokerEndpoint;
use super::reply::{ANSWER_TIMEOUT, NO_ANSWER};

/// Result of [`super::RabbitQueue::probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub product: String,
    pub version: String,
    /// Number of queues checked.
    pub queues: usize,
}

// Protocol header of AMQP 0-9-1.
const GREETING: &[u8; 8] = b"AMQP\0\0\x09\x01";
// Type, channel and length of a frame.
const FRAME_HEADER_BYTES: usize = 7;
// Class, method and protocol version, which precede the properties in `connection.start`.
const START_BYTES: usize = 6;
// Class 10, method 10: `connection.start`.
const START: [u8; 4] = [0, 10, 0, 10];
// Maximum size of that frame.
const MAX_FRAME_BYTES: usize = 64 * 1024;

// lapin reads product and version but does not expose them, so this opens a connection of its own, reads the first
// frame and disconnects.
pub(super) async fn server_identity(endpoint: &BrokerEndpoint) -> PortResult<(String, String)> {
    let frame = timeout(ANSWER_TIMEOUT, first_frame(endpoint)).await;
    let payload = frame
        .map_err(|_| probe_error(NO_ANSWER))?
        .map_err(|e| probe_error(e.to_string()))?;
    let properties =
        properties(&payload).ok_or_else(|| probe_error("the broker sent an unknown greeting"))?;
    Ok((text(&properties, "product"), text(&properties, "version")))
}

fn probe_error(why: impl Into<String>) -> PortError {
    PortError::transient("queue.probe", why)
}

async fn first_frame(endpoint: &BrokerEndpoint) -> std::io::Result<Vec<u8>> {
    let runtime = default_runtime().map_err(std::io::Error::other)?;
    let tls = OwnedTLSConfig::default();
    let mut stream =
        AMQPUriTcpExt::connect_with_config_async(&endpoint.uri, tls.as_ref(), &runtime).await?;
    stream.write_all(GREETING).await?;
    let mut header = [0; FRAME_HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    let length = u32::from_be_bytes([header[3], header[4], header[5], header[6]]) as usize;
    let mut payload = vec![0; length.min(MAX_FRAME_BYTES)];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}

/// The server properties in a `connection.start` frame.
fn properties(payload: &[u8]) -> Option<FieldTable> {
    let table = payload
        .strip_prefix(&START)?
        .get(START_BYTES - START.len()..)?;
    parse_field_table(table).ok().map(|(_, table)| table)
}

fn text(properties: &FieldTable, name: &str) -> String {
    match properties.inner().get(&ShortString::from(name)) {
        Some(AMQPValue::LongString(text)) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        _ => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_connection_start_and_rejects_other_frames() {
        let mut greeting = vec![0, 10, 0, 10, 0, 9];
        let entry = [b"\x07product".as_slice(), b"S\0\0\0\x08RabbitMQ"].concat();
        greeting.extend((entry.len() as u32).to_be_bytes());
        greeting.extend(&entry);
        let table = properties(&greeting).expect("a table");
        assert_eq!(
            (
                text(&table, "product").as_str(),
                text(&table, "version").as_str()
            ),
            ("RabbitMQ", "unknown")
        );
        assert_eq!(properties(&greeting[..12]), None);
        assert_eq!(properties(b"HTTP/1.1 400 Bad Request"), None);
        assert_eq!(properties(b""), None);
    }
}
