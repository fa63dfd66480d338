//! Servers for the browser test of the pages (`tests/web/run`): one over a small store with hostile documents and a simulated model,
//! and one that asks for a key. Prints their addresses as a line of JSON, and ends with its standard input.
//!
//! `pages DIR` serves the store in a folder instead of the small one. `pages draw` is the child process that draws pages.
#![expect(clippy::unwrap_used, reason = "test support")]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Bytes;
use stemma_archive::{ApiError, PageImages, SourceFiles};
use stemma_boot::health::{Health, HealthServer};
use stemma_document::{Collection, DocumentVersion, FilingFacts};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_extract::{ExtractError, ExtractJob, Pool, PoolSettings, Task};
use stemma_gateway::auth::{KeySettings, key_digest};
use stemma_operations::Operations;
use stemma_query::{QuerySettings, ServerDeps, ServerSettings, serve};
use stemma_sample_store as store;
use stemma_sim::{Behavior, Provider};
use stemma_store::Env;
use stemma_store::blobs::{Blobs, FolderBlobs, MemoryBlobs};
use stemma_store::port_monitor::PortMonitor;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

const KEY: &str = "open sesame";
const DRAW: &str = "draw";

fn main() {
    if std::env::args().nth(1).is_some_and(|first| first == DRAW) {
        return stemma_extract::serve(draw).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(serve_pages());
}

fn draw(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    match job.task {
        Task::Image(request) => stemma_render::draw_png(&job, &request),
        _ => stemma_extract::extract_and_encode(job),
    }
}

// All files of the store are in it.
struct NoFiles;

#[async_trait]
impl SourceFiles for NoFiles {
    async fn read(&self, _: &DocumentVersion, _: u64) -> Result<Bytes, ApiError> {
        Err(ApiError::new(
            "source.not_available",
            "there is no such file",
            "",
        ))
    }
}

fn page_images() -> Arc<PageImages> {
    let program = std::env::current_exe().unwrap().into_os_string();
    let pool = Pool::new(PoolSettings {
        size: 2,
        ..PoolSettings::new(vec![program, DRAW.into()])
    });
    let revision = stemma_render::REVISION;
    PageImages::new(
        Env::system(),
        Arc::new(pool),
        Arc::new(NoFiles),
        revision,
        2,
    )
}

async fn serve_pages() {
    let stop = CancellationToken::new();
    let blobs = blobs().await;
    let cache = tempfile::tempdir().unwrap();
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let open = start(
        &blobs,
        cache.path().join("open"),
        QuerySettings::default(),
        &provider,
        &stop,
    )
    .await;
    let keys = vec![KeySettings {
        name: "reader".into(),
        blake3: key_digest(KEY),
        ..KeySettings::default()
    }];
    let query = QuerySettings {
        keys,
        ..QuerySettings::default()
    };
    let locked = start(&blobs, cache.path().join("locked"), query, &provider, &stop).await;
    let url = |server: &HealthServer| format!("http://{}", server.address);
    let addresses = serde_json::json!({ "open": url(&open), "locked": url(&locked), "key": KEY });
    println!("{addresses}");
    tokio::io::stdin()
        .read_to_end(&mut Vec::new())
        .await
        .unwrap();
    stop.cancel();
}

async fn blobs() -> Arc<dyn Blobs> {
    if let Some(folder) = std::env::args_os().nth(1) {
        return Arc::new(FolderBlobs::open(&PathBuf::from(folder)).unwrap());
    }
    let blobs: Arc<MemoryBlobs> = store::store().await;
    let hostile = "# <script>window.attacked = true</script>\u{202e}\u{1b}[31m\"onload=x\n<img src=x onerror=\"window.attacked = true\">";
    store::publish_pages(
        blobs.as_ref(),
        "<img src=x onerror=alert(1)>\u{202e}fdp.pdf",
        &[hostile],
    )
    .await;
    store::publish_pdf(
        blobs.as_ref(),
        "10-K/DRAWN_2022.pdf",
        &store::ANNUAL,
        FilingFacts::default(),
    )
    .await;
    store::publish_scan(blobs.as_ref(), "SCANNED.pdf", &store::ANNUAL[..2]).await;
    let long = format!("# {}\nbody", "W".repeat(1 << 20));
    store::publish_pages(blobs.as_ref(), "long.pdf", &[&long]).await;
    let letter = serde_json::json!({
        "id": "0123456789abcdef", "at_ms": 1_700_000_000_000_u64, "queue": "cpu", "deliveries": 3, "run": null, "key": null,
        "stage": "outline", "attempts": 2, "reason": hostile, "begins": hostile,
    });
    let letter = serde_json::to_vec(&letter).unwrap();
    blobs
        .put("dead/0123456789abcdef.json", letter.into())
        .await
        .unwrap();
    // `tests/bench/run web` has 100,000 of them, for an optimized server.
    let sections = (0..20_000).map(|number| format!("# Section {number}\n"));
    store::publish_pages(blobs.as_ref(), "deep.pdf", &[&sections.collect::<String>()]).await;
    blobs
}

async fn start(
    blobs: &Arc<dyn Blobs>,
    cache: PathBuf,
    query: QuerySettings,
    provider: &Provider,
    stop: &CancellationToken,
) -> HealthServer {
    let env = Env::system();
    let answers = stemma_archive::AnswerService::new(
        env.clone(),
        Arc::new(MemoryBlobs::default()),
        stemma_archive::AnswerSettings::default(),
    );
    let settings = ServerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        collections: vec![Collection::default()],
        query,
        allow_anonymous: false,
        index: stemma_archive::IndexSettings::for_folder(cache),
        model: Some(store::model::answer_model(provider)),
    };
    let operations = Operations::stored(&env, Arc::clone(blobs), Collection::default(), || None);
    let deps = ServerDeps {
        answerers: Some(Arc::new(answers)),
        page_images: Some(page_images()),
        operations: Some(Arc::new(operations)),
        ..ServerDeps::default()
    };
    let health = Health::for_blobs(
        &env,
        &HeartbeatReporter::new(&env, "q", "query"),
        blobs,
        &PortMonitor::default(),
    );
    serve(
        env,
        Arc::clone(blobs),
        settings,
        deps,
        health,
        None,
        stop.clone(),
    )
    .await
    .unwrap()
}
