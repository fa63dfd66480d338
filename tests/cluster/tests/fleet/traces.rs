//! Traces end to end: a document passes coordinator, worker and assembler, and a receiver of OTLP over HTTP gets their spans.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stemma_cluster::{ServiceFleet, ServiceRole, TestServers, binary};
use stemma_filings::markdown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const BUCKET: &str = "traces";
const TIMEOUT: Duration = Duration::from_secs(90);
/// What a document without a model leaves in a trace: its run, its stages, who published them, and calls below them. Names
/// are in the export requests as they are (protobuf).
const SPANS: [&str; 8] = [
    "run",
    "paginate",
    "outline",
    "publish outline",
    "publish paginate",
    "blobs.put",
    "ledger.record",
    "service.instance.id",
];

/// Keeps the bodies of all export requests.
struct Receiver {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let received = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&received)));
            }
        });
        Self { address, bodies }
    }

    fn missing(&self) -> BTreeSet<&'static str> {
        let bodies = self.bodies.lock().unwrap();
        let is_there = |name: &str| {
            bodies
                .iter()
                .any(|body| body.windows(name.len()).any(|part| part == name.as_bytes()))
        };
        SPANS.into_iter().filter(|name| !is_there(name)).collect()
    }
}

/// Answers the requests of one connection until it ends.
async fn serve(stream: TcpStream, bodies: Arc<Mutex<Vec<Vec<u8>>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        bodies.lock().unwrap().push(body);
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.get_mut().write_all(reply).await?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_all_services_reach_the_collector() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let receiver = Receiver::start().await;
    servers.make_bucket(BUCKET).await.unwrap();
    let mut settings = servers.settings(&[]).unwrap();
    let prefix = format!("traces-{}", std::process::id());
    settings.extend(
        ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), prefix.clone())),
    );
    let endpoint = format!("http://{}", receiver.address);
    settings.push(("STEMMA_TELEMETRY__OTLP_ENDPOINT".into(), endpoint));
    let store = format!("s3://{BUCKET}/{prefix}");
    let mut fleet = ServiceFleet::new(binary().unwrap(), &store, settings).unwrap();
    let roles = [
        ServiceRole::Coordinator,
        ServiceRole::Worker,
        ServiceRole::Assembler,
    ];
    let names = roles.map(|role| fleet.spawn(role, &[]).unwrap());
    for name in &names {
        fleet.wait_until_ready(name, TIMEOUT).await.unwrap();
    }
    let documents = tempfile::tempdir().unwrap();
    std::fs::write(documents.path().join("guide.md"), markdown(1, 8).0).unwrap();
    let folder = documents.path().to_str().unwrap();
    let submitted = fleet.run(&["submit", folder, "--wait"], TIMEOUT).await;
    let submitted = submitted.unwrap();
    assert!(submitted.status.success(), "{submitted:?}");
    let started = Instant::now();
    while !receiver.missing().is_empty() {
        let missing = receiver.missing();
        assert!(started.elapsed() < TIMEOUT, "no spans {missing:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
