//! A TCP proxy on loopback that injects faults: it cuts, pauses or delays connections. For HTTP it also
//! refuses requests with 503 or 403, slows them, or resets in mid-body. Random choices depend on the seed and the
//! order of requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use stemma_sim::http::{HttpHead, reply};

/// The reply of an overloaded S3.
const SLOW_DOWN: &[u8] =
    b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>later</Message></Error>";
/// The reply of an S3 whose policy lacks a right.
const ACCESS_DENIED: &[u8] =
    b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>";
/// Bytes of a reply that pass before a reset.
const RESET_WITHIN: usize = 200;

/// Faults to inject. Shares of HTTP requests, from 0 to 1, are ignored for other protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProxyFaults {
    /// Data is held back while connections stay open.
    pub paused: bool,
    /// Data of the server is held back, while that of clients passes.
    pub replies_paused: bool,
    /// Delay of each chunk in each direction.
    pub delay: Duration,
    /// Share answered with 503.
    pub refused: f64,
    /// Share answered with 403.
    pub denied: f64,
    /// Share forwarded after `slow_by`.
    pub slow: f64,
    pub slow_by: Duration,
    /// Share reset in the middle of the request or reply.
    pub reset: f64,
}

/// Number of injected faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Connections cut by [`Proxy::cut`].
    pub cut: usize,
    /// Requests answered with 503 or 403.
    pub refused: usize,
    /// Delayed requests.
    pub slowed: usize,
    /// Reset requests.
    pub reset: usize,
}

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// HTTP requests by kind: the method, or `LIST` for a GET that lists a bucket.
pub type RequestCounts = BTreeMap<&'static str, usize>;

fn request_kind(head: &HttpHead) -> &'static str {
    match head.start_line_word(0) {
        "GET" if head.start_line_word(1).contains("list-type=2") => "LIST",
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "POST" => "POST",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// A running proxy. Dropping it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    accepting: JoinHandle<()>,
}

struct ProxyState {
    upstream: SocketAddr,
    http: bool,
    faults: watch::Sender<ProxyFaults>,
    /// Number of calls of [`Proxy::cut`].
    cuts: watch::Sender<u64>,
    /// Number of calls of [`Proxy::abandon`].
    abandons: watch::Sender<u64>,
    rng: Mutex<SmallRng>,
    open: AtomicUsize,
    fault_counts: Mutex<FaultCounts>,
    /// HTTP requests by kind.
    methods: Mutex<RequestCounts>,
}

impl Proxy {
    /// Starts a proxy for any protocol.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn tcp(upstream: SocketAddr) -> Result<Self> {
        Self::start(upstream, false, 0).await
    }

    /// Starts a proxy for an HTTP server.
    ///
    /// # Errors
    /// See [`Proxy::tcp`].
    pub async fn http(upstream: SocketAddr, seed: u64) -> Result<Self> {
        Self::start(upstream, true, seed).await
    }

    async fn start(upstream: SocketAddr, http: bool, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyState {
            upstream,
            http,
            faults: watch::Sender::new(ProxyFaults::default()),
            cuts: watch::Sender::new(0),
            abandons: watch::Sender::new(0),
            rng: Mutex::new(SmallRng::seed_from_u64(seed)),
            open: AtomicUsize::new(0),
            fault_counts: Mutex::new(FaultCounts::default()),
            methods: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the faults; the default has none.
    pub fn set_faults(&self, faults: ProxyFaults) {
        self.shared.faults.send_replace(faults);
    }

    /// Resets every connection and returns their number. New connections are accepted at once.
    pub fn cut(&self) -> usize {
        let open = self.open();
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
        self.shared.note(|suffered| suffered.cut += open);
        open
    }

    /// Leaves every connection half open, and returns their number: nothing passes any more, and neither side learns that the
    /// other is gone, as after a crash of a router. New connections are accepted at once.
    pub fn abandon(&self) -> usize {
        let open = self.open();
        self.shared.abandons.send_modify(|abandons| *abandons += 1);
        open
    }

    /// Number of connections that are forwarded.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// HTTP requests so far, by kind.
    pub fn requests(&self) -> RequestCounts {
        self.shared
            .methods
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The faults injected so far.
    pub fn fault_counts(&self) -> FaultCounts {
        *self
            .shared
            .fault_counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ProxyState {
    fn note(&self, note: impl FnOnce(&mut FaultCounts)) {
        note(
            &mut self
                .fault_counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn count(&self, head: &HttpHead) {
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        *methods.entry(request_kind(head)).or_default() += 1;
    }

    fn roll(&self) -> f64 {
        self.rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
    }

    /// Waits while the proxy is paused, then for the configured delay.
    async fn hold(&self) {
        self.hold_while(|faults| faults.paused).await;
    }

    async fn hold_reply(&self) {
        self.hold_while(|faults| faults.paused || faults.replies_paused)
            .await;
    }

    async fn hold_while(&self, held: impl Fn(&ProxyFaults) -> bool) {
        let mut faults = self.faults.subscribe();
        // The sender is in `self`, so the channel is open.
        if let Ok(faults) = faults
            .wait_for(|faults| !held(faults))
            .await
            .map(|faults| *faults)
        {
            sleep(faults.delay).await;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(connections.spawn(serve(client, Arc::clone(&shared)))),
            // A client that gave up, or no free descriptor: no reason to refuse all others.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection. Errors only end this connection.
async fn serve(mut client: TcpStream, shared: Arc<ProxyState>) -> Result<()> {
    let mut cuts = shared.cuts.subscribe();
    let mut abandons = shared.abandons.subscribe();
    let mut server = TcpStream::connect(shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared.open.fetch_add(1, Ordering::SeqCst);
    let ended = tokio::select! {
        ended = pass(&mut client, &mut server, &shared) => Some(ended),
        _ = cuts.changed() => Some(Err(anyhow::anyhow!("cut"))),
        _ = abandons.changed() => None,
    };
    shared.open.fetch_sub(1, Ordering::SeqCst);
    let Some(ended) = ended else {
        // The sockets stay open, and nobody reads them.
        return std::future::pending().await;
    };
    if ended.is_err() {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    ended
}

/// Copies both directions until both end; an error resets the connection.
async fn pass(client: &mut TcpStream, server: &mut TcpStream, shared: &ProxyState) -> Result<()> {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let to_client = AsyncMutex::new(to_client);
    let reply_bytes = AtomicUsize::new(usize::MAX);
    let there = async {
        if shared.http {
            requests(
                BufReader::new(from_client),
                to_server,
                &to_client,
                &reply_bytes,
                shared,
            )
            .await
        } else {
            copy(from_client, to_server, shared).await
        }
    };
    tokio::try_join!(
        there,
        replies(from_server, &to_client, &reply_bytes, shared)
    )?;
    Ok(())
}

async fn copy(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, shared: &ProxyState) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        shared.hold().await;
        if count == 0 {
            return Ok(to.shutdown().await?);
        }
        to.write_all(&buffer[..count]).await?;
    }
}

/// Copies the reply, and resets the connection after `left` bytes.
async fn replies(
    mut from: ReadHalf<'_>,
    to: &AsyncMutex<WriteHalf<'_>>,
    remaining: &AtomicUsize,
    shared: &ProxyState,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        shared.hold_reply().await;
        let mut to = to.lock().await;
        if count == 0 {
            return Ok(to.shutdown().await?);
        }
        let remaining = remaining.load(Ordering::SeqCst);
        if remaining < usize::MAX {
            to.write_all(&buffer[..count.min(remaining)]).await?;
            bail!("reset in the reply");
        }
        to.write_all(&buffer[..count]).await?;
    }
}

/// Forwards requests one by one, each with its randomly chosen fault.
async fn requests(
    mut from: BufReader<ReadHalf<'_>>,
    mut to: WriteHalf<'_>,
    to_client: &AsyncMutex<WriteHalf<'_>>,
    reply_bytes: &AtomicUsize,
    shared: &ProxyState,
) -> Result<()> {
    while let Some(head) = HttpHead::read(&mut from).await? {
        shared.hold().await;
        let faults = *shared.faults.borrow();
        shared.count(&head);
        let Ok(length) = head.content_length() else {
            // The length of the body is unknown, so everything after it is copied unchanged.
            to.write_all(&head.bytes).await?;
            tokio::io::copy(&mut from, &mut to).await?;
            break;
        };
        let length = length as u64;
        let refusal = if shared.roll() < faults.refused {
            Some((503, SLOW_DOWN))
        } else if shared.roll() < faults.denied {
            Some((403, ACCESS_DENIED))
        } else {
            None
        };
        if let Some((status, body)) = refusal {
            shared.note(|suffered| suffered.refused += 1);
            if head.header("expect").is_none() {
                tokio::io::copy(&mut (&mut from).take(length), &mut tokio::io::sink()).await?;
            }
            let mut to_client = to_client.lock().await;
            to_client
                .write_all(&reply(
                    status,
                    "connection: close\r\n",
                    "application/xml",
                    body,
                ))
                .await?;
            to_client.shutdown().await?;
            break;
        }
        if shared.roll() < faults.slow {
            shared.note(|suffered| suffered.slowed += 1);
            sleep(faults.slow_by).await;
        }
        let mut passes = length;
        let resets = shared.roll() < faults.reset;
        let in_reply = shared.roll() < 0.5 || length == 0;
        if resets {
            shared.note(|suffered| suffered.reset += 1);
            if in_reply {
                reply_bytes.store(
                    (shared.roll() * RESET_WITHIN as f64) as usize,
                    Ordering::SeqCst,
                );
            } else {
                passes = length / 2;
            }
        }
        to.write_all(&head.bytes).await?;
        tokio::io::copy(&mut (&mut from).take(passes), &mut to).await?;
        if passes < length {
            bail!("reset in the request");
        }
    }
    Ok(to.shutdown().await?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;
    use stemma_sim::http::get;

    /// An echo server.
    async fn mirror() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    /// An HTTP server that answers each request with 1,000 bytes.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Ok(Some(_)) = HttpHead::read(&mut stream).await {
                        let bytes = reply(200, "", "text/plain", &[b'x'; 1000]);
                        if stream.get_mut().write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    /// The reply to a request with `Connection: close`.
    async fn request(proxy: &Proxy) -> Result<(u16, Vec<u8>)> {
        let mut stream = BufReader::new(TcpStream::connect(proxy.address()).await?);
        stream
            .get_mut()
            .write_all(b"GET / HTTP/1.1\r\n\r\n")
            .await?;
        let Some(head) = HttpHead::read(&mut stream).await? else {
            bail!("nothing")
        };
        Ok((
            head.start_line_word(1).parse()?,
            head.body(&mut stream).await?,
        ))
    }

    #[tokio::test]
    async fn connections_pass_pause_and_are_cut() {
        let proxy = Proxy::tcp(mirror().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let mut buffer = [0; 5];
        stream.write_all(b"hello").await.unwrap();
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"hello");

        proxy.set_faults(ProxyFaults {
            paused: true,
            ..ProxyFaults::default()
        });
        stream.write_all(b"again").await.unwrap();
        assert!(
            timeout(Duration::from_millis(100), stream.read_exact(&mut buffer))
                .await
                .is_err()
        );
        proxy.set_faults(ProxyFaults {
            replies_paused: true,
            ..ProxyFaults::default()
        });
        assert!(
            timeout(Duration::from_millis(100), stream.read_exact(&mut buffer))
                .await
                .is_err()
        );
        proxy.set_faults(ProxyFaults {
            delay: Duration::from_millis(50),
            ..ProxyFaults::default()
        });
        let started = Instant::now();
        stream.read_exact(&mut buffer).await.unwrap();
        assert!(&buffer == b"again" && started.elapsed() >= Duration::from_millis(50));

        assert_eq!(proxy.cut(), 1);
        assert!(matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)));
        assert_eq!(proxy.fault_counts().cut, 1);
        TcpStream::connect(proxy.address()).await.unwrap();
    }

    #[tokio::test]
    async fn requests_are_refused_slowed_and_reset() {
        let proxy = Proxy::http(server().await, 7).await.unwrap();
        assert_eq!(request(&proxy).await.unwrap(), (200, vec![b'x'; 1000]));

        proxy.set_faults(ProxyFaults {
            refused: 1.0,
            ..ProxyFaults::default()
        });
        assert_eq!(request(&proxy).await.unwrap(), (503, SLOW_DOWN.to_vec()));
        let (status, _) = get(proxy.address(), "/", Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(status, 503);

        proxy.set_faults(ProxyFaults {
            slow: 1.0,
            slow_by: Duration::from_millis(80),
            ..ProxyFaults::default()
        });
        let started = Instant::now();
        assert_eq!(request(&proxy).await.unwrap().0, 200);
        assert!(started.elapsed() >= Duration::from_millis(80));

        proxy.set_faults(ProxyFaults {
            reset: 1.0,
            ..ProxyFaults::default()
        });
        assert!(request(&proxy).await.is_err());
        proxy.set_faults(ProxyFaults::default());
        assert_eq!(request(&proxy).await.unwrap().0, 200);
        assert_eq!(
            proxy.fault_counts(),
            FaultCounts {
                cut: 0,
                refused: 2,
                slowed: 1,
                reset: 1
            }
        );
        assert_eq!(proxy.requests(), BTreeMap::from([("GET", 6)]));
    }
}
