//! The part of HTTP/1.1 that a provider, a proxy and a health check need: heads, bodies of known length,
//! complete replies.
//!
//! It does not use a library, because both servers must see and choose the byte at which a reply stops.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// The head of a request or a reply.
#[derive(Debug)]
pub struct HttpHead {
    /// All bytes, for forwarding.
    pub bytes: Vec<u8>,
    lines: Vec<String>,
}

impl HttpHead {
    /// Reads a head; `None` if the connection ends first.
    ///
    /// # Errors
    /// The head does not end, or is too long.
    pub async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Self>> {
        let mut head = Self {
            bytes: Vec::new(),
            lines: Vec::new(),
        };
        loop {
            let begin = head.bytes.len();
            let count = reader.read_until(b'\n', &mut head.bytes).await?;
            if count == 0 && head.bytes.is_empty() {
                return Ok(None);
            }
            ensure!(
                count > 0 && head.bytes.len() <= MAX_HEAD_BYTES,
                "the head does not end"
            );
            let line = String::from_utf8_lossy(&head.bytes[begin..])
                .trim_end()
                .to_string();
            if line.is_empty() {
                return Ok(Some(head));
            }
            head.lines.push(line);
        }
    }

    /// A word of the first line: method, path and version, or version, status and reason.
    pub fn start_line_word(&self, n: usize) -> &str {
        self.lines
            .first()
            .and_then(|line| line.split(' ').nth(n))
            .unwrap_or_default()
    }

    /// The trimmed value of a header. Names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .lines
            .iter()
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        pairs
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// The length of the body in bytes.
    ///
    /// # Errors
    /// The length is not declared.
    pub fn content_length(&self) -> Result<usize> {
        ensure!(
            self.header("transfer-encoding").is_none(),
            "chunked bodies are not supported"
        );
        self.header("content-length").map_or(Ok(0), |value| {
            value.parse().context("invalid content-length")
        })
    }

    ///
    /// # Errors
    /// The body is too long, or ends early.
    pub async fn body(&self, reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>> {
        let length = self.content_length()?;
        ensure!(
            length <= MAX_BODY_BYTES,
            "the body of {length} bytes is too long"
        );
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await?;
        Ok(body)
    }
}

/// A complete reply. `headers` are further lines, each ending in `\r\n`.
pub fn reply(status: u16, headers: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status} -\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n{headers}\r\n")
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Fetches a path. Returns status and body.
///
/// # Errors
/// No HTTP reply within `limit`.
pub async fn get(address: SocketAddr, path: &str, limit: Duration) -> Result<(u16, Vec<u8>)> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let bytes = timeout(limit, exchange(address, request.as_bytes()))
        .await
        .context("no reply in time")??;
    let mut rest = bytes.as_slice();
    let Some(head) = HttpHead::read(&mut rest).await? else {
        bail!("{address} closed without a reply")
    };
    Ok((
        head.start_line_word(1)
            .parse()
            .context("invalid status line")?,
        rest.to_vec(),
    ))
}

/// Sends bytes and reads until the peer closes.
///
/// # Errors
/// The error of the connection.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str) -> Result<Option<HttpHead>> {
        HttpHead::read(&mut text.as_bytes()).await
    }

    #[tokio::test]
    async fn head_ends_at_the_empty_line() {
        let head = read("POST /v1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (head.start_line_word(0), head.start_line_word(1)),
            ("POST", "/v1")
        );
        assert_eq!(head.content_length().unwrap(), 3);
        assert!(head.bytes.ends_with(b"\r\n\r\n"));
        assert!(read("").await.unwrap().is_none());
        assert!(read("POST /v1 HTTP/1.1\r\nHost").await.is_err());
        let chunked = read("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await
            .unwrap()
            .unwrap();
        assert!(chunked.content_length().is_err());
    }
}
