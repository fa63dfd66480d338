//! Answers that no server gives on request: refusals, resets, silence.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use stemma_engine::blobs::{Blobs, Put, S3Blobs};
use stemma_engine::s3::{Access, Buckets, S3, S3Settings, Wanted};
use stemma_engine::{PortError, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a server does with a request of this method.
#[derive(Clone, Copy)]
enum Act {
    /// Status line, code in an XML body.
    Answer(&'static str, &'static str),
    /// Half of the body that was announced, then the end.
    Half,
    /// Closes the connection at once, with a reset.
    Reset,
    /// Says nothing.
    Silence,
}

/// A server in the test, and a store on it; ends with this value.
struct Staged {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Staged {
    async fn start(act: fn(&str) -> Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, act));
            }
        });
        Self { address, task }
    }

    async fn s3(&self) -> S3 {
        connect(self.address).await
    }

    async fn blobs(&self) -> S3Blobs {
        blobs(self.s3().await)
    }
}

async fn connect(address: SocketAddr) -> S3 {
    let settings = S3Settings {
        endpoint: Some(format!("http://{address}")),
        access: Access::Key {
            id: Secret::from("id"),
            secret: Secret::from("hidden-secret"),
        },
        force_path_style: true,
        checksums_when_required: true,
        call_timeout: Duration::from_millis(500),
        ..S3Settings::default()
    };
    S3::connect(&settings).await.unwrap()
}

fn blobs(s3: S3) -> S3Blobs {
    S3Blobs::new(s3, "filings", "store").unwrap()
}

async fn serve(mut stream: TcpStream, act: fn(&str) -> Act) {
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
    let answer = match act(method) {
        Act::Answer(status, code) => {
            let body = if method == "HEAD" || code.is_empty() {
                String::new()
            } else {
                format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>hidden-secret</Message></Error>")
            };
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        }
        Act::Half => "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 1000\r\nConnection: close\r\n\r\nhalf".into(),
        Act::Reset => {
            stream.set_zero_linger().unwrap();
            return;
        }
        Act::Silence => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            return;
        }
    };
    let _ = stream.write_all(answer.as_bytes()).await;
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

async fn check(act: fn(&str) -> Act, passing: bool) {
    let server = Staged::start(act).await;
    for error in errors(&server.blobs().await).await {
        assert_eq!(error.passing, passing, "{error}");
        assert!(
            error.message.contains("filings") && !format!("{error:?}").contains("hidden"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn what_may_pass_is_passing() {
    check(|_| Act::Answer("503 Slow Down", "SlowDown"), true).await;
    check(
        |_| Act::Answer("500 Internal Server Error", "InternalError"),
        true,
    )
    .await;
    check(|_| Act::Answer("502 Bad Gateway", ""), true).await;
    check(|_| Act::Answer("429 Too Many Requests", ""), true).await;
    check(|_| Act::Reset, true).await;
    check(|_| Act::Silence, true).await;
}

#[tokio::test]
async fn what_will_not_pass_is_lasting() {
    check(|_| Act::Answer("403 Forbidden", "AccessDenied"), false).await;
    check(|_| Act::Answer("400 Bad Request", "InvalidRequest"), false).await;
    check(
        |_| Act::Answer("501 Not Implemented", "NotImplemented"),
        false,
    )
    .await;
}

#[tokio::test]
async fn a_conflict_is_asked_of_the_object() {
    let made = Staged::start(|method: &str| match method {
        "PUT" => Act::Answer("409 Conflict", "ConditionalRequestConflict"),
        _ => Act::Answer("200 OK", ""),
    })
    .await;
    assert_eq!(
        made.blobs().await.put("c/x", Bytes::new()).await,
        Ok(Put::Exists)
    );
    let removed = |method: &str| match method {
        "PUT" => Act::Answer("409 Conflict", "ConditionalRequestConflict"),
        _ => Act::Answer("404 Not Found", ""),
    };
    let removed = Staged::start(removed).await;
    assert!(
        removed
            .blobs()
            .await
            .put("c/x", Bytes::new())
            .await
            .is_err_and(|error| error.passing)
    );
    let exists =
        Staged::start(|_| Act::Answer("412 Precondition Failed", "PreconditionFailed")).await;
    assert_eq!(
        exists.blobs().await.put("c/x", Bytes::new()).await,
        Ok(Put::Exists)
    );
}

#[tokio::test]
async fn half_an_object_is_no_object() {
    let server = Staged::start(|_| Act::Half).await;
    let blobs = server.blobs().await;
    assert!(blobs.get("c/x").await.is_err_and(|error| error.passing));
    let ranges = blobs.get_range("c/x", 0..2).await.unwrap_err();
    assert!(
        !ranges.passing && ranges.message.contains("does not read ranges"),
        "{ranges}"
    );
    let wanted = Wanted {
        bucket: "others",
        key: "a.pdf",
        version: None,
        etag: None,
        max_bytes: 5_000,
    };
    let error = Buckets::new(server.s3().await)
        .get(&wanted)
        .await
        .unwrap_err();
    assert!(
        error.passing && error.message.starts_with("a.pdf in bucket others"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_key_is_none_only_where_s3_says_so() {
    let server = Staged::start(|_| Act::Answer("404 Not Found", "NoSuchKey")).await;
    assert_eq!(server.blobs().await.get("c/x").await, Ok(None));
    let elsewhere = Staged::start(|_| Act::Answer("404 Not Found", "")).await;
    assert!(
        elsewhere
            .blobs()
            .await
            .get("c/x")
            .await
            .is_err_and(|error| !error.passing),
        "not an S3 server"
    );
}

#[tokio::test]
async fn a_server_that_is_away_is_known_within_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let nobody = blobs(connect(address).await);
    let silent = Staged::start(|_| Act::Silence).await;
    for blobs in [nobody, silent.blobs().await] {
        let asked = Instant::now();
        let error = blobs.get("c/x").await.unwrap_err();
        assert!(error.passing, "{error}");
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "after {:?}",
            asked.elapsed()
        );
    }
}
