//! Responses that no real server gives on request: refusals, resets, silence.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use stemma_adapters::s3::{BucketReader, S3, S3Blobs, S3Credentials, S3Settings};
use stemma_engine::objects::{ObjectReader, ObjectRequest};
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::{PortError, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);

/// Response to a request of this method.
#[derive(Clone, Copy)]
enum FakeResponse {
    // Status line, and code in an XML body.
    Status(&'static str, &'static str),
    // Half of the announced body.
    Truncated,
    // Closes the connection at once, with a reset.
    Reset,
    // Never responds.
    Silence,
}

/// A fake server and a store on it; both end with this value.
struct FakeS3 {
    address: SocketAddr,
    call_timeout: Duration,
    task: JoinHandle<()>,
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeS3 {
    async fn start(act: fn(&str) -> FakeResponse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, act));
            }
        });
        let call_timeout = match act("GET") {
            FakeResponse::Silence => Duration::from_millis(500),
            _ => PATIENCE,
        };
        Self {
            address,
            call_timeout,
            task,
        }
    }

    async fn s3(&self) -> S3 {
        connect(self.address, self.call_timeout).await
    }

    async fn blobs(&self) -> S3Blobs {
        blobs(self.s3().await)
    }
}

async fn connect(address: SocketAddr, call_timeout: Duration) -> S3 {
    let settings = S3Settings {
        endpoint: Some(format!("http://{address}")),
        access: S3Credentials::Key {
            id: Secret::from("id"),
            secret: Secret::from("hidden-secret"),
        },
        force_path_style: true,
        checksums_when_required: true,
        call_timeout,
        ..S3Settings::default()
    };
    S3::connect(&settings).await.unwrap()
}

fn blobs(s3: S3) -> S3Blobs {
    S3Blobs::new(s3, "filings", "store").unwrap()
}

async fn serve(mut stream: TcpStream, act: fn(&str) -> FakeResponse) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk).await {
            Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let method = request.split(' ').next().unwrap_or_default();
    let reply = match act(method) {
        FakeResponse::Status(status, code) => {
            let body = if method == "HEAD" || code.is_empty() {
                String::new()
            } else {
                format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>hidden-secret</Message></Error>")
            };
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        }
        FakeResponse::Truncated => "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 1000\r\nConnection: close\r\n\r\nhalf".into(),
        FakeResponse::Reset => {
            stream.set_zero_linger().unwrap();
            return;
        }
        FakeResponse::Silence => {
            std::future::pending::<()>().await;
            return;
        }
    };
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn errors(blobs: &S3Blobs) -> [PortError; 5] {
    [
        blobs
            .put("c/x", Bytes::from_static(b"x"))
            .await
            .unwrap_err(),
        blobs.get("c/x").await.unwrap_err(),
        blobs.size("c/x").await.unwrap_err(),
        blobs.list("c/", None, 10).await.unwrap_err(),
        blobs.delete("c/x").await.unwrap_err(),
    ]
}

async fn check_transience(act: fn(&str) -> FakeResponse, passing: bool) {
    let server = FakeS3::start(act).await;
    for error in errors(&server.blobs().await).await {
        assert_eq!(error.is_transient(), passing, "{error}");
        assert!(
            error.message.contains("filings") && !format!("{error:?}").contains("hidden"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn transient_responses_are_transient_errors() {
    check_transience(|_| FakeResponse::Status("503 Slow Down", "SlowDown"), true).await;
    check_transience(
        |_| FakeResponse::Status("500 Internal Server Error", "InternalError"),
        true,
    )
    .await;
    check_transience(|_| FakeResponse::Status("502 Bad Gateway", ""), true).await;
    check_transience(|_| FakeResponse::Status("429 Too Many Requests", ""), true).await;
    check_transience(|_| FakeResponse::Reset, true).await;
    check_transience(|_| FakeResponse::Silence, true).await;
}

#[tokio::test]
async fn permanent_responses_are_permanent_errors() {
    check_transience(
        |_| FakeResponse::Status("403 Forbidden", "AccessDenied"),
        false,
    )
    .await;
    check_transience(
        |_| FakeResponse::Status("400 Bad Request", "InvalidRequest"),
        false,
    )
    .await;
    check_transience(
        |_| FakeResponse::Status("501 Not Implemented", "NotImplemented"),
        false,
    )
    .await;
}

#[tokio::test]
async fn write_conflict_is_resolved_by_reading_the_object() {
    let server = FakeS3::start(|method: &str| match method {
        "PUT" => FakeResponse::Status("409 Conflict", "ConditionalRequestConflict"),
        _ => FakeResponse::Status("200 OK", ""),
    })
    .await;
    assert_eq!(
        server.blobs().await.put("c/x", Bytes::new()).await,
        Ok(PutOutcome::Exists)
    );
    let removed = |method: &str| match method {
        "PUT" => FakeResponse::Status("409 Conflict", "ConditionalRequestConflict"),
        _ => FakeResponse::Status("404 Not Found", ""),
    };
    let removed = FakeS3::start(removed).await;
    assert!(
        removed
            .blobs()
            .await
            .put("c/x", Bytes::new())
            .await
            .is_err_and(|error| error.is_transient())
    );
    let exists =
        FakeS3::start(|_| FakeResponse::Status("412 Precondition Failed", "PreconditionFailed"))
            .await;
    assert_eq!(
        exists.blobs().await.put("c/x", Bytes::new()).await,
        Ok(PutOutcome::Exists)
    );
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    let server = FakeS3::start(|_| FakeResponse::Truncated).await;
    let blobs = server.blobs().await;
    assert!(
        blobs
            .get("c/x")
            .await
            .is_err_and(|error| error.is_transient())
    );
    let ranges = blobs.get_range("c/x", 0..2).await.unwrap_err();
    assert!(
        !ranges.is_transient() && ranges.message.contains("does not support range requests"),
        "{ranges}"
    );
    let request = ObjectRequest {
        bucket: "others",
        key: "a.pdf",
        version: None,
        etag: None,
        max_bytes: 5_000,
    };
    let error = BucketReader::new(server.s3().await)
        .get(&request)
        .await
        .unwrap_err();
    assert!(
        error.is_transient() && error.message.starts_with("a.pdf in bucket others"),
        "{error}"
    );
}

#[tokio::test]
async fn only_no_such_key_means_missing() {
    let server = FakeS3::start(|_| FakeResponse::Status("404 Not Found", "NoSuchKey")).await;
    assert_eq!(server.blobs().await.get("c/x").await, Ok(None));
    let elsewhere = FakeS3::start(|_| FakeResponse::Status("404 Not Found", "")).await;
    assert!(
        elsewhere
            .blobs()
            .await
            .get("c/x")
            .await
            .is_err_and(|error| !error.is_transient()),
        "not an S3 server"
    );
}

#[tokio::test]
async fn calls_of_an_unreachable_server_end() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let nobody = blobs(connect(address, PATIENCE).await);
    let silent = FakeS3::start(|_| FakeResponse::Silence).await;
    for blobs in [nobody, silent.blobs().await] {
        let error = blobs.get("c/x").await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}
