//! The open connections of a server, within limits.
//!
//! At a limit, a new connection takes the place of the one that has waited longest for its client: for a request, for more of
//! a body, or until more of a response is taken. Connections whose requests are being answered keep their places.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

// The part of an IPv6 address that names a network: one client can have all addresses of it.
const NETWORK_MASK: u128 = !(u64::MAX as u128);

/// How many connections are open at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// From one IPv4 address or one IPv6 network (/64).
    pub per_address: usize,
    /// How long a client may take no byte of what is sent to it.
    pub write_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total: 1_024,
            per_address: 512,
            write_timeout: Duration::from_secs(30),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Default)]
struct OpenConnections {
    next_id: u64,
    by_id: HashMap<u64, Entry>,
}

struct Entry {
    address: IpAddr,
    // `None` while its request is being answered.
    waiting_since: Option<Instant>,
    closed: CancellationToken,
}

/// The place of an open connection, free again when this is dropped.
pub(crate) struct Connection {
    id: u64,
    open: Arc<Mutex<OpenConnections>>,
    /// Cancelled when another connection takes the place.
    pub closed: CancellationToken,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// `None`: no place is free, and no connection waits for its client.
    pub fn admit(&self, address: IpAddr) -> Option<Connection> {
        let address = network(address);
        let mut open = self.open.lock();
        let from_address = open.count_from(address);
        if from_address >= self.limits.per_address {
            open.close_longest_waiting(Some(address))?;
        } else if open.by_id.len() >= self.limits.total {
            open.close_longest_waiting(None)?;
        }
        let id = open.next_id;
        open.next_id += 1;
        let closed = CancellationToken::new();
        let entry = Entry {
            address,
            waiting_since: Some(Instant::now()),
            closed: closed.clone(),
        };
        open.by_id.insert(id, entry);
        Some(Connection {
            id,
            open: Arc::clone(&self.open),
            closed,
        })
    }
}

impl OpenConnections {
    fn count_from(&self, address: IpAddr) -> usize {
        self.by_id
            .values()
            .filter(|entry| entry.address == address)
            .count()
    }

    fn close_longest_waiting(&mut self, address: Option<IpAddr>) -> Option<()> {
        let candidates = self
            .by_id
            .iter()
            .filter(|(_, entry)| address.is_none_or(|address| entry.address == address));
        let waiting = candidates.filter_map(|(id, entry)| Some((entry.waiting_since?, *id)));
        let (_, id) = waiting.min()?;
        self.by_id.remove(&id)?.closed.cancel();
        Some(())
    }
}

impl Connection {
    /// The client is next: it has to send a request or more of a body, or to take more of a response.
    pub fn wait(&self) {
        self.set_waiting(Some(Instant::now()));
    }

    /// The server is next: a request is being answered.
    pub fn answer(&self) {
        self.set_waiting(None);
    }

    fn set_waiting(&self, since: Option<Instant>) {
        if let Some(entry) = self.open.lock().by_id.get_mut(&self.id) {
            entry.waiting_since = since;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.lock().by_id.remove(&self.id);
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_waited_longest_makes_room() {
        let connections = Connections::new(ConnectionLimits {
            total: 3,
            per_address: 2,
            ..ConnectionLimits::default()
        });
        let busy = address("10.0.0.1");
        let idle = address("10.0.0.2");
        let answering = connections.admit(busy).unwrap();
        answering.answer();
        tokio::time::advance(Duration::from_secs(1)).await;
        let first = connections.admit(busy).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = connections.admit(idle).unwrap();
        // The busy address is at its limit, so one of its own connections is closed.
        let third = connections.admit(busy).unwrap();
        assert!(first.closed.is_cancelled() && !answering.closed.is_cancelled());
        // All places are taken. The fuller a body is, the less time it has waited.
        tokio::time::advance(Duration::from_secs(1)).await;
        second.wait();
        let fourth = connections.admit(address("10.0.0.3")).unwrap();
        assert!(third.closed.is_cancelled() && !second.closed.is_cancelled());
        // Nobody waits: the new one is refused, until a place is free.
        second.answer();
        fourth.answer();
        assert!(connections.admit(idle).is_none());
        drop((first, third));
        assert!(
            connections.admit(idle).is_none(),
            "closed ones have no place"
        );
        drop(answering);
        assert!(connections.admit(busy).is_some());
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        assert_eq!(
            network(address("2001:db8::1")),
            network(address("2001:db8::2:3"))
        );
        assert_ne!(
            network(address("2001:db8::1")),
            network(address("2001:db8:0:1::1"))
        );
        assert_eq!(network(address("::ffff:10.0.0.1")), address("10.0.0.1"));
    }
}
