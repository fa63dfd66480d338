//! `stemma probe`: checks the health of a service, for images without a shell and curl.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::context::Context;
use crate::error::{CommandError, Exit};

// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Check whether a service is ready. Exit code 0: yes; 1: no, or no answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For health checks inside containers. Kubernetes asks /livez and /readyz itself.

Example:
  stemma probe 127.0.0.1:8080 --path /readyz")]
pub struct ProbeArgs {
    /// Address of the service.
    #[arg(default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    address: SocketAddr,
    /// Path to request.
    #[arg(long, default_value = "/readyz", value_name = "PATH")]
    path: String,
}

pub async fn run(args: ProbeArgs, context: &Context) -> Result<Exit, CommandError> {
    if !args.path.starts_with('/')
        || args
            .path
            .contains(|c: char| c.is_whitespace() || c.is_control())
    {
        let message = format!("invalid path `{}`", args.path);
        return Err(CommandError::new("usage.path", message));
    }
    let answer = tokio::time::timeout(TIMEOUT, status_line(args.address, &args.path)).await;
    let status = match answer {
        Ok(Ok(line)) => line,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
    };
    let ready = status.split(' ').nth(1) == Some("200") && status.starts_with("HTTP/1.");
    if !ready {
        context.output.error(&crate::output::clean(&status));
    }
    Ok(if ready { Exit::Done } else { Exit::Nothing })
}

// The first line of the answer, at most 64 bytes of it.
async fn status_line(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut start = Vec::with_capacity(64);
    stream.take(64).read_to_end(&mut start).await?;
    let line = start
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    // Answers one request with `reply`, and returns what was asked.
    async fn serve(reply: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 256];
            let read = stream.read(&mut request).await.unwrap();
            stream.write_all(reply.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        (address, served)
    }

    #[tokio::test]
    async fn status_line_is_read_from_the_response() {
        let (address, served) = serve("HTTP/1.1 503 Service Unavailable\r\n\r\nbroker").await;
        assert_eq!(
            status_line(address, "/readyz").await.unwrap(),
            "HTTP/1.1 503 Service Unavailable"
        );
        assert!(
            served
                .await
                .unwrap()
                .starts_with("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:")
        );
    }

    #[tokio::test]
    async fn refused_connection_is_an_error() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        assert!(status_line(address, "/livez").await.is_err());
    }
}
