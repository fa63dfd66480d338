//! Accepts HTTP connections until a stop, then lets running requests end.
//!
//! Not `axum::serve`: it sets no timer, so a client that never finishes its header keeps its connection for ever.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

// How long a new connection may take to send the header of its first request.
const FIRST_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
// The same for further requests. The time without a request counts too, and proxies that reuse connections close them
// after 60 s: a server that is quicker answers their next request with a reset.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Serves `router` until `stop` is cancelled and the requests under way have ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(
                    http.clone(),
                    stream,
                    router.clone(),
                    stop.clone(),
                ));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

// Errors of the connection that was about to be accepted.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

async fn serve_connection(
    http: http1::Builder,
    stream: TcpStream,
    router: Router,
    stop: CancellationToken,
) {
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&has_begun);
    let router = TowerToHyperService::new(router);
    let answer = service_fn(move |request| {
        begins.store(true, Ordering::Relaxed);
        router.call(request)
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let mut first_header = pin!(tokio::time::sleep(FIRST_HEADER_TIMEOUT));
    let mut is_timed = true;
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            // An error is that of the client: it has gone, was too slow, or sent no HTTP.
            _ = connection.as_mut() => return,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = first_header.as_mut(), if is_timed => {
                if !has_begun.load(Ordering::Relaxed) {
                    return;
                }
                is_timed = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    async fn start() -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "ok" }));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, stop.clone()));
        (address, stop, serving)
    }

    async fn connect(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn read_response(stream: &mut TcpStream) -> String {
        let mut response = vec![0; 4096];
        let size = stream.read(&mut response).await.unwrap();
        String::from_utf8_lossy(&response[..size]).into_owned()
    }

    // Real time: a paused clock would run ahead of the sockets.
    #[tokio::test]
    async fn connections_without_a_whole_header_are_closed() {
        let (address, stop, serving) = start().await;
        let began = Instant::now();
        let mut silent = connect(address, "").await;
        let mut slow = connect(address, "GET / HTTP/1.1\r\nHost: a\r\n").await;
        let drip = async {
            // One header line a second, as slow clients do that hold connections.
            while slow.write_all(b"X-A: b\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let mut rest = Vec::new();
        let closed = async { silent.read_to_end(&mut rest).await.is_ok() };
        let ((), closed) = tokio::join!(drip, closed);
        assert!(closed && rest.is_empty());
        assert!(began.elapsed() >= FIRST_HEADER_TIMEOUT);
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn connections_are_reused_and_drained() {
        let (address, stop, serving) = start().await;
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut stream = connect(address, request).await;
        for _ in 0..2 {
            let response = read_response(&mut stream).await;
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
            stream.write_all(request.as_bytes()).await.unwrap();
        }
        read_response(&mut stream).await;
        stop.cancel();
        // An idle connection does not delay the end.
        serving.await.unwrap();
        assert_eq!(read_response(&mut stream).await, "");
    }
}
