//! HTTP clients of a query server, and latency statistics.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit of a request.
pub const TIMEOUT: Duration = Duration::from_secs(35);

/// A client with a keep-alive connection.
pub struct SearchClient {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

pub struct HttpResponse {
    pub status: u16,
    /// Has `Retry-After`.
    pub retry_after: bool,
    pub body: Vec<u8>,
}

impl SearchClient {
    /// A client of the server at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
        }
    }

    /// Searches. Returns the response whatever its status.
    ///
    /// # Errors
    /// If there is no response in time.
    pub async fn search(&mut self, question: &str, limit: usize) -> Result<HttpResponse> {
        let body = serde_json::json!({ "query": question, "limit": limit }).to_string();
        let request = format!(
            "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.request(&request).await
    }

    /// Sends `GET`.
    ///
    /// # Errors
    /// See [`SearchClient::search`].
    pub async fn get(&mut self, path: &str) -> Result<HttpResponse> {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await
    }

    async fn request(&mut self, request: &str) -> Result<HttpResponse> {
        let reply = timeout(TIMEOUT, self.exchange(request))
            .await
            .context("no response in time")
            .and_then(|done| done);
        if reply.is_err() {
            self.stream = None;
        }
        reply
    }

    async fn exchange(&mut self, request: &str) -> Result<HttpResponse> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address)
                .await
                .context("connecting")?,
        };
        stream.set_nodelay(true)?;
        stream.write_all(request.as_bytes()).await?;
        let mut read = Vec::with_capacity(16 << 10);
        let end = loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            ensure!(
                stream.read_buf(&mut read).await? > 0,
                "the connection was closed"
            );
        };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let header = |name: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let length: usize = header("content-length")
            .context("a response without a length")?
            .parse()?;
        while read.len() < end + length {
            ensure!(
                stream.read_buf(&mut read).await? > 0,
                "the connection was closed"
            );
        }
        let status = head
            .split(' ')
            .nth(1)
            .context("a response without a status")?
            .parse()?;
        let reply = HttpResponse {
            status,
            retry_after: header("retry-after").is_some(),
            body: read[end..].to_vec(),
        };
        if header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        Ok(reply)
    }
}

/// Durations in milliseconds.
#[derive(Default)]
pub struct LatencySamples(Vec<f64>);

impl LatencySamples {
    /// Adds the time since `since`.
    pub fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed().as_secs_f64() * 1_000.0);
    }

    pub fn extend(&mut self, other: LatencySamples) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The quantile at `share`, in milliseconds.
    pub fn quantile(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        let at = ((self.0.len() as f64 * share).ceil() as usize).max(1) - 1;
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Memory of a process in megabytes: anonymous, and of mapped files.
///
/// # Errors
/// If the system does not report it.
pub fn memory_mb(pid: u32) -> Result<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let of = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .context("a line of /proc/…/status")?;
        Ok::<f64, anyhow::Error>(
            line.trim().trim_end_matches(" kB").trim().parse::<f64>()? / 1024.0,
        )
    };
    Ok((of("RssAnon:")?, of("RssFile:")?))
}
