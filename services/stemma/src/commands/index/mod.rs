//! `stemma index`: builds, checks and shows the search index. Searches also build and update it.

mod vectors;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stemma_archive::CollectionCache;
use stemma_boot::health::{Health, HealthServer};
use stemma_boot::{process_name, shutdown};
use stemma_catalog::catalog::Catalog;
use stemma_catalog::watcher::CatalogWatcher;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_retrieval::index::builder::{BuildOutcome, build};
use stemma_retrieval::index::local_index::{LocalIndex, SyncReport};
use stemma_retrieval::index::shard::ShardId;
use stemma_retrieval::index::shard_index::ShardIndex;
use stemma_retrieval::index::snapshot::SnapshotUpload;
use stemma_store::blobs::Blobs;
use stemma_store::port_monitor::PortMonitor;
use stemma_store::{Env, PortResult};
use tokio_util::sync::CancellationToken;

use crate::commands::open::sync_index;
use crate::commands::services::serve_health;
use crate::context::Context;
use crate::cost::BudgetArgs;
use crate::error::{CommandError, Exit};
use crate::table::{counted, thousands};

// How often `--follow` looks for new trees.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
// Shortest time between two updates. Readers index newer trees themselves, so more snapshots would save them little.
const UPDATE_INTERVAL: Duration = Duration::from_secs(60);
// Every so many polls, once a minute, all change records are read: a poll misses records that arrive late.
const POLLS_PER_FULL_SCAN: u32 = 30;

/// Build, show or verify the search index.
///
/// The index is derived from the published trees and can be deleted at any time. Searches and ingests keep it up to
/// date. For a bucket, one `stemma index build --follow` does the work for all machines: it stores snapshots that the
/// others download.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma index build               bring it up to date now
  stemma index build --follow      and keep it up to date; for a bucket, for all machines
  stemma index status
  stemma index vectors --estimate  estimate the cost of section vectors
  stemma index vectors --budget 2  create vectors, for at most two dollars
  stemma index verify              check the index and the newest snapshot")]
pub struct IndexArgs {
    #[command(subcommand)]
    action: IndexCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IndexCommand {
    /// Update the index; for a bucket, also store a snapshot.
    Build {
        /// Keep running until interrupted.
        #[arg(long)]
        follow: bool,
        /// Store a snapshot even if the store is a folder.
        #[arg(long)]
        snapshot: bool,
        /// Address for /livez, /readyz and /metrics.
        #[arg(long, value_name = "ADDRESS:PORT", requires = "follow")]
        listen: Option<SocketAddr>,
    },
    /// Create section vectors for semantic routing. Unchanged sections cost nothing, and vectors made before an
    /// interruption are kept.
    Vectors {
        /// Estimate the cost without sending anything.
        #[arg(long)]
        estimate: bool,
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Show the content of the index and missing documents.
    Status,
    /// Check every byte of the index and of the newest snapshot.
    Verify,
}

pub async fn run(args: IndexArgs, context: &Context) -> Result<Exit, CommandError> {
    let blobs = context.open_store().await?.blobs;
    let collection_cache = CollectionCache::new(
        Env::system(),
        &context.index_settings()?,
        &blobs,
        &context.collection,
    );
    let index = collection_cache.index();
    match args.action {
        IndexCommand::Build {
            follow,
            snapshot,
            listen,
        } => {
            let to_store = snapshot || context.store.folder().is_none();
            let env = Env::system();
            let monitor = PortMonitor::default();
            let builder = IndexBuilder {
                blobs: monitor.watch_blobs(&env, blobs),
                monitor,
                env,
                index,
                to_store,
                context,
            };
            if !follow {
                return builder.build_once().await;
            }
            let stop = shutdown::listen();
            let Some(listen) = listen else {
                return builder.follow(&stop).await;
            };
            let serving = builder.serve_health(listen, &stop).await?;
            let followed = builder.follow(&stop).await;
            stop.cancel();
            let ended = serving.join().await;
            ended.map_err(|error| CommandError::new("listen.failed", error.to_string()))?;
            followed
        }
        IndexCommand::Vectors { estimate, budget } => {
            vectors::run(estimate, budget, &blobs, context).await
        }
        IndexCommand::Status => status(&blobs, index, context).await,
        IndexCommand::Verify => verify(&blobs, index, context).await,
    }
}

struct IndexBuilder<'a> {
    env: Env,
    blobs: Arc<dyn Blobs>,
    monitor: PortMonitor,
    index: &'a LocalIndex,
    to_store: bool,
    context: &'a Context,
}

impl IndexBuilder<'_> {
    async fn build_once(&self) -> Result<Exit, CommandError> {
        let catalog = load_catalog(self.blobs.as_ref(), self.index, self.context).await?;
        self.build_step(&catalog).await?;
        Ok(Exit::Done)
    }

    // Serves health and metrics until `stop`, as the services do.
    async fn serve_health(
        &self,
        listen: SocketAddr,
        stop: &CancellationToken,
    ) -> Result<HealthServer, CommandError> {
        let name = process_name::process_name("index", &self.env);
        let heartbeat = HeartbeatReporter::new(&self.env, name, "index");
        let health = Health::for_blobs(&self.env, &heartbeat, &self.blobs, &self.monitor);
        serve_health(listen, "index", health, stop).await
    }

    async fn follow(&self, stop: &CancellationToken) -> Result<Exit, CommandError> {
        let collection = self.context.collection.clone();
        let folder = Some(self.index.path());
        let blobs = self.blobs.as_ref();
        let (mut follower, mut catalog) =
            CatalogWatcher::start(folder, blobs, collection, self.env.now_ms()).await?;
        let mut changed = true;
        let mut last = None::<Instant>;
        let mut looks = 0;
        while !stop.is_cancelled() {
            if changed && last.is_none_or(|last| last.elapsed() >= UPDATE_INTERVAL) {
                changed = !self.build_step(&catalog).await?;
                last = Some(Instant::now());
            }
            looks = (looks + 1) % POLLS_PER_FULL_SCAN;
            let newer = match looks {
                0 => follower.full_scan(blobs, self.env.now_ms()).await?,
                _ => follower.poll(blobs).await?,
            };
            if let Some(newer) = newer {
                (catalog, changed) = (newer, true);
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.env.sleep(POLL_INTERVAL) => {}
            }
        }
        Ok(Exit::Interrupted)
    }

    // One update; whether the index is up to date now.
    async fn build_step(&self, catalog: &Catalog) -> Result<bool, CommandError> {
        let began = Instant::now();
        let mut sync_report = SyncReport::default();
        let mut snapshots = Vec::new();
        let mut is_up_to_date = true;
        if self.to_store {
            for shard in self.index.shards() {
                match self.build_shard(shard, catalog).await? {
                    BuildOutcome::UpToDate => {}
                    BuildOutcome::Uploaded(of_shard, uploaded) => {
                        sync_report.add(&of_shard);
                        snapshots.push((shard.id(), uploaded));
                    }
                    BuildOutcome::InProgress(seq) => {
                        let what = shard_name(shard.id().number(), self.index.shards().len());
                        let note = format!("another machine is creating snapshot {seq}{what}");
                        self.context.output.note(&note);
                        is_up_to_date = false;
                    }
                }
            }
        } else {
            sync_report = sync_index(self.index, catalog, self.context).await?;
        }
        if is_up_to_date || !snapshots.is_empty() {
            self.show(&sync_report, &snapshots, began);
        }
        Ok(is_up_to_date && sync_report.missing == 0)
    }

    async fn build_shard(
        &self,
        shard: &ShardIndex,
        catalog: &Catalog,
    ) -> Result<BuildOutcome, CommandError> {
        let what = shard_name(shard.id().number(), self.index.shards().len());
        let note_remaining = |remaining: usize| {
            let note = format!("index{what}: {} left", thousands(remaining));
            self.context.output.note(&note);
        };
        let blobs = self.blobs.as_ref();
        Ok(build(&self.env, blobs, shard, catalog, &note_remaining).await?)
    }

    fn show(&self, report: &SyncReport, snapshots: &[(ShardId, SnapshotUpload)], began: Instant) {
        let seconds = began.elapsed().as_secs_f64();
        let uploads = snapshots.iter().map(|(shard, uploaded)| {
            serde_json::json!({
                "shard": shard.number(), "seq": uploaded.seq, "bytes": uploaded.bytes, "new_bytes": uploaded.new_bytes,
            })
        });
        let view = serde_json::json!({
            "indexed": report.indexed, "removed": report.removed, "entries": report.entries,
            "unreadable": report.unreadable, "missing": report.missing, "rebuilt": report.is_rebuilt,
            "fetched_bytes": report.fetched_bytes, "seconds": seconds, "snapshots": uploads.collect::<Vec<_>>(),
        });
        self.context.output.show(&view, || {
            let mut line = format!(
                "{} indexed, {} removed, {} entries, {seconds:.1} s",
                counted(report.indexed, "document"),
                report.removed,
                thousands(report.entries)
            );
            if report.fetched_bytes > 0 {
                let fetched = megabytes(report.fetched_bytes);
                line.push_str(&format!(", {fetched:.1} MB downloaded"));
            }
            if !snapshots.is_empty() {
                let uploads = snapshots.iter().map(|(_, uploaded)| uploaded);
                let all = megabytes(uploads.clone().map(|uploaded| uploaded.bytes).sum());
                let new = megabytes(uploads.map(|uploaded| uploaded.new_bytes).sum());
                let what = match snapshots {
                    [(_, only)] => format!("snapshot {}", only.seq),
                    several => counted(several.len(), "snapshot"),
                };
                line.push_str(&format!(", {what}: {all:.1} MB, {new:.1} MB of it new"));
            }
            self.context.output.line(&line);
        });
    }
}

// How messages name one of several shards.
fn shard_name(number: usize, count: usize) -> String {
    match count {
        1 => String::new(),
        count => format!(" of shard {number} of {count}"),
    }
}

#[derive(Serialize)]
struct IndexStatus {
    folder: String,
    shards: usize,
    documents: usize,
    entries: u64,
    bytes: u64,
    missing: usize,
    // The newest of each shard that has one.
    snapshots: Vec<SnapshotStatus>,
}

#[derive(Serialize)]
struct SnapshotStatus {
    shard: usize,
    seq: u64,
    documents: u64,
    entries: u64,
    bytes: u64,
    at_ms: u64,
}

async fn load_catalog(
    blobs: &dyn Blobs,
    index: &LocalIndex,
    context: &Context,
) -> PortResult<Catalog> {
    let now_ms = Env::system().now_ms();
    Catalog::load_from(index.path(), blobs, &context.collection, now_ms).await
}

async fn status(
    blobs: &Arc<dyn Blobs>,
    index: &LocalIndex,
    context: &Context,
) -> Result<Exit, CommandError> {
    let commit = index.open().await?;
    let catalog = load_catalog(blobs.as_ref(), index, context).await?;
    let mut snapshots = Vec::new();
    for shard in index.shards() {
        let newest = shard.snapshots().newest().await?;
        snapshots.extend(newest.map(|(seq, manifest)| SnapshotStatus {
            shard: shard.id().number(),
            seq,
            documents: manifest.documents,
            entries: manifest.entries,
            bytes: manifest.bytes(),
            at_ms: manifest.at_ms,
        }));
    }
    let mut missing = 0;
    for version in catalog.tree_versions(&catalog.with_tree()?) {
        let (doc, seq) = version?;
        let indexed = commit.as_ref().and_then(|commit| commit.version(doc));
        missing += usize::from(indexed < Some(seq));
    }
    let view = IndexStatus {
        folder: index.path().display().to_string(),
        shards: index.shards().len(),
        documents: commit.as_ref().map_or(0, |commit| commit.documents()),
        entries: commit.as_ref().map_or(0, |commit| commit.entries()),
        bytes: index.bytes(),
        missing,
        snapshots,
    };
    let output = &context.output;
    output.show(&view, || {
        let documents = counted(view.documents, "document");
        let entries = view.entries;
        let size = format!("{:.1} MB in {}", megabytes(view.bytes), view.folder);
        output.line(&format!("{documents}, {entries} entries, {size}"));
        output.line(&format!("missing {}", counted(view.missing, "document")));
        for snapshot in &view.snapshots {
            let seq = snapshot.seq;
            let documents = snapshot.documents;
            let what = shard_name(snapshot.shard, view.shards);
            let size = megabytes(snapshot.bytes);
            output.line(&format!(
                "snapshot {seq}{what}: {documents} documents, {size:.1} MB"
            ));
        }
    });
    Ok(Exit::nothing_if(commit.is_none()))
}

async fn verify(
    blobs: &Arc<dyn Blobs>,
    index: &LocalIndex,
    context: &Context,
) -> Result<Exit, CommandError> {
    let mut wrong = Vec::new();
    match index.corrupt_files().await {
        Ok(altered) => wrong.extend(altered.iter().map(|name| format!("corrupt: {name}"))),
        Err(error) => wrong.push(error.to_string()),
    }
    let catalog = load_catalog(blobs.as_ref(), index, context).await?;
    if let Some(commit) = index.current_commit() {
        for version in catalog.tree_versions(&catalog.with_tree()?) {
            let (doc, seq) = version?;
            if commit.version(doc) > Some(seq)
                && let Some(listed) = catalog.get(doc)?
            {
                let label = &listed.label;
                wrong.push(format!(
                    "contains a version of {label} that was never published"
                ));
            }
        }
    }
    for shard in index.shards() {
        if let Some((seq, manifest)) = shard.snapshots().newest().await? {
            let what = shard_name(shard.id().number(), index.shards().len());
            let missing = shard.snapshots().missing_parts(&manifest, true).await?;
            wrong.extend(missing.iter().map(|part| {
                let part = part.short();
                format!("snapshot {seq}{what}: part {part} is missing or corrupt")
            }));
        }
    }
    let (exit, note) = match wrong.is_empty() {
        true => (Exit::Done, "index verified"),
        false => (Exit::CheckFailed, "rebuild it with: stemma index build"),
    };
    let output = &context.output;
    output.show(&serde_json::json!({ "wrong": wrong }), || {
        wrong.iter().for_each(|line| output.line(line));
        output.note(note);
    });
    Ok(exit)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
