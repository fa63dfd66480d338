//! Servers for the browser test of the pages (`tests/web/run`): one over a small store with hostile documents and a simulated model,
//! and one that asks for a key. Prints their addresses as a line of JSON, and ends with its standard input.
//!
//! `pages DIR` serves the store in a folder instead of the small one.
#![expect(clippy::unwrap_used, reason = "test support")]

use std::path::PathBuf;
use std::sync::Arc;

use stemma_boot::health::{Health, HealthServer};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::{Blobs, FolderBlobs, MemoryBlobs};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_gateway::auth::{KeySettings, key_digest};
use stemma_query::{QuerySettings, ServerDeps, ServerSettings, serve};
use stemma_sample_store as store;
use stemma_sim::{Behavior, Provider};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

const KEY: &str = "open sesame";

#[tokio::main]
async fn main() {
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
    let long = format!("# {}\nbody", "W".repeat(1 << 20));
    store::publish_pages(blobs.as_ref(), "long.pdf", &[&long]).await;
    let sections = (0..100_000).map(|number| format!("# Section {number}\n"));
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
        stemma_mcp::agent_tools,
    );
    let settings = ServerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        collections: vec![Collection::default()],
        query,
        allow_anonymous: false,
        cache,
        model: Some(store::model::answer_model(provider)),
    };
    let deps = ServerDeps {
        answerers: Some(Arc::new(answers)),
        ..ServerDeps::default()
    };
    let health = Health::for_blobs(&env, &HeartbeatReporter::new(&env, "q", "query"), blobs);
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
