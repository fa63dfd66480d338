//! Accepts HTTP connections until a stop, then lets running requests end.
//!
//! Not `axum::serve`: it sets no timer, so a client that never finishes its header keeps its connection for ever.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse;
use futures::{StreamExt, future};
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::{Connection, ConnectionLimits, Connections};
use crate::write_timeout::WriteTimeout;

// How long a new connection may take to send the header of its first request.
const FIRST_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
// The same for further requests. The time without a request counts too, and proxies that reuse connections close them
// after 60 s: a server that is quicker answers their next request with a reset.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
// Bytes that a connection buffers of headers, bodies and responses, each way.
const BUFFER_BYTES: usize = 64 << 10;
// Connections above the limits, for one request each: probes are answered, and all others are told to come again.
const RESERVED: usize = 64;
// How long the body of a request that is refused may take to arrive.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Serves `probes` and `router` until `stop` is cancelled and the requests under way have ended. Probes are answered also while
/// requests that are being answered take all connections.
pub(crate) async fn serve(
    listener: TcpListener,
    probes: Router,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .max_buf_size(BUFFER_BYTES)
        .header_read_timeout(HEADER_TIMEOUT);
    let mut http_once = http.clone();
    http_once.keep_alive(false);
    let router = probes.clone().merge(router);
    let probes = probes.fallback(refuse);
    let connections = Connections::new(limits);
    let reserved = Connections::new(ConnectionLimits {
        total: RESERVED,
        per_address: RESERVED,
        ..limits
    });
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let (http, router, connection) = match connections.admit(address.ip()) {
                    Some(connection) => (&http, &router, Some(connection)),
                    None => (&http_once, &probes, reserved.admit(address.ip())),
                };
                let Some(connection) = connection else {
                    tracing::debug!(%address, "too many connections");
                    continue;
                };
                let stream = WriteTimeout::new(stream, limits.write_timeout);
                let served = serve_connection(
                    http.clone(),
                    stream,
                    router.clone(),
                    connection,
                    stop.clone(),
                );
                drop(tasks.spawn(served));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

// Receives the body: the reset of a connection with an unread one would discard the response.
async fn refuse(request: axum::extract::Request) -> impl IntoResponse {
    let body = request.into_body().into_data_stream();
    let received = body.take_while(|part| future::ready(part.is_ok()));
    let received = received.for_each(|_| future::ready(()));
    drop(tokio::time::timeout(REFUSAL_TIMEOUT, received).await);
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")])
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
    stream: WriteTimeout<TcpStream>,
    router: Router,
    connection: Connection,
    stop: CancellationToken,
) {
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&has_begun);
    let closed = connection.closed.clone();
    let place = Arc::new(connection);
    let router = TowerToHyperService::new(router);
    let answer = service_fn(move |request: Request<Incoming>| {
        begins.store(true, Ordering::Relaxed);
        let place = Arc::clone(&place);
        let answering = router.call(request.map(|body| TrackedBody::request(body, &place)));
        async move {
            let response = answering.await?;
            Ok::<_, Infallible>(response.map(|body| TrackedBody::response(body, place)))
        }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let mut first_header = pin!(tokio::time::sleep(FIRST_HEADER_TIMEOUT));
    let mut is_timed = true;
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            // The client caused the error: it has gone, was too slow, or sent no HTTP.
            _ = connection.as_mut() => return,
            () = closed.cancelled() => return,
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

// A body that tells whether its connection waits for the client or answers it.
struct TrackedBody<B> {
    body: B,
    place: Arc<Connection>,
    is_request: bool,
}

impl<B: Body> TrackedBody<B> {
    fn request(body: B, place: &Arc<Connection>) -> Self {
        place.answer();
        Self {
            body,
            place: Arc::clone(place),
            is_request: true,
        }
    }

    fn response(body: B, place: Arc<Connection>) -> Self {
        place.wait();
        Self {
            body,
            place,
            is_request: false,
        }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // What is ready of a request is handled before this is called again, and what is ready of a response is sent.
        if polled.is_pending() == self.is_request {
            self.place.wait();
        } else {
            self.place.answer();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        if !self.is_request {
            self.place.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::*;

    type Serving = tokio::task::JoinHandle<()>;

    async fn start() -> (SocketAddr, CancellationToken, Serving) {
        start_with(Router::new()).await
    }

    async fn start_with(routes: Router) -> (SocketAddr, CancellationToken, Serving) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let large = vec![b'a'; 64 << 20];
        let probes = Router::new().route("/livez", get(|| async { "alive" }));
        let router = routes
            .route(
                "/",
                get(|| async { "ok" }).post(|body: String| async { body }),
            )
            .route("/large", get(|| async { large }));
        let stop = CancellationToken::new();
        let limits = ConnectionLimits {
            total: 6,
            per_address: 4,
            write_timeout: Duration::from_secs(2),
        };
        let serving = tokio::spawn(serve(listener, probes, router, limits, stop.clone()));
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

    // Whether the server closes the connection, whatever it sends before.
    async fn is_closed(stream: &mut TcpStream) -> bool {
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        tokio::time::timeout(Duration::from_secs(60), read)
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn waiting_connections_make_room_and_answered_ones_stay() {
        let (address, stop, serving) = start().await;
        let mut slow = Vec::new();
        for _ in 0..3 {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\na";
            slow.push(connect(address, head).await);
        }
        let mut idle = connect(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(read_response(&mut idle).await.starts_with("HTTP/1.1 200"));
        // The fifth of an address is served all the same: a body that does not arrive makes room.
        let mut fifth = connect(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(read_response(&mut fifth).await.starts_with("HTTP/1.1 200"));
        assert!(is_closed(&mut slow.remove(0)).await);
        idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_response(&mut idle).await.starts_with("HTTP/1.1 200"));
        stop.cancel();
        drop(slow);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn probes_are_answered_while_requests_take_all_connections() {
        let begun = Arc::new(Semaphore::new(0));
        let counted = Arc::clone(&begun);
        let held = get(move || {
            counted.add_permits(1);
            future::pending::<()>()
        });
        let (address, _stop, _serving) = start_with(Router::new().route("/held", held)).await;
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(connect(address, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n").await);
        }
        begun.acquire_many(4).await.unwrap().forget();
        // Clients that say nothing keep no probe out.
        for _ in 0..2 * RESERVED {
            open.push(connect(address, "").await);
        }
        let mut probe = connect(address, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(read_response(&mut probe).await.starts_with("HTTP/1.1 200"));
        assert!(is_closed(&mut probe).await);
        let body = "a".repeat(1 << 20);
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n";
        let mut refused = connect(address, &format!("{head}{body}")).await;
        let response = read_response(&mut refused).await;
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        assert!(response.contains("retry-after: 1"), "{response}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_client_only_while_nothing_arrives() {
        let limits = ConnectionLimits {
            total: 1,
            ..ConnectionLimits::default()
        };
        let connections = Connections::new(limits);
        let client = "10.0.0.1".parse().unwrap();
        let place = Arc::new(connections.admit(client).unwrap());
        let (mut sender, parts) = futures::channel::mpsc::channel::<io::Result<&str>>(1);
        let body = axum::body::Body::from_stream(parts);
        let mut body = TrackedBody::request(body, &place);
        assert!(connections.admit(client).is_none(), "not read yet");
        sender.try_send(Ok("a part")).unwrap();
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
        // The handler writes the part to a slow store.
        assert!(connections.admit(client).is_none());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
        assert!(connections.admit(client).is_some());
        assert!(place.closed.is_cancelled());
    }

    #[tokio::test]
    async fn headers_have_a_limit() {
        let (address, stop, serving) = start().await;
        let head = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n",
            "b".repeat(300 << 10)
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may close the connection before all is written, or with a reset.
        drop(stream.write_all(head.as_bytes()).await);
        let mut response = Vec::new();
        drop(stream.read_to_end(&mut response).await);
        let response = String::from_utf8_lossy(&response);
        assert!(
            response.is_empty() || response.starts_with("HTTP/1.1 431"),
            "{response}"
        );
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_stops_is_closed() {
        let (address, stop, serving) = start().await;
        let mut stream = connect(address, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(read_response(&mut stream).await.starts_with("HTTP/1.1 200"));
        // The response is never taken, and the server ends all the same.
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(60), serving).await;
        ended.unwrap().unwrap();
        // What the kernel has buffered arrives, and no more.
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
        assert!(rest.len() < 60 << 20, "{}", rest.len());
    }
}
