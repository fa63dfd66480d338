//! `stemma index`: the corpus index, which searches make and follow by themselves.

mod vectors;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use serde::Serialize;
use stemma_boot::health::{self, Health, Serving};
use stemma_boot::telemetry::Metrics;
use stemma_boot::{identity, shutdown};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::follow::Follower;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_engine::presence::Presence;
use stemma_query::Kept;
use stemma_retrieval::index::builder::{Built, build};
use stemma_retrieval::index::corpus::{Brought, Corpus};
use stemma_retrieval::index::snapshot::Uploaded;
use tokio_util::sync::CancellationToken;

use crate::context::{CommandError, Context, Exit};
use crate::money::BudgetArgs;
use crate::table::{counted, thousands};

/// How often a builder that follows looks for new trees.
const LOOKS_EVERY: Duration = Duration::from_secs(2);
/// Snapshots are at least so far apart: replicas enter the trees in between themselves.
const SNAPSHOTS_EVERY: Duration = Duration::from_secs(60);
/// Looks at the newest change records between two looks at everything.
const GLANCES: u32 = 30;

/// Build, look at or check the index that searches read.
///
/// It is made of the published trees and says nothing else: removing it costs time only. Searches and ingests keep it up to
/// date; over a bucket, one `stemma index build --follow` spares all other machines the work: it leaves snapshots in the
/// store that they fetch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma index build               bring it up to date now
  stemma index build --follow      and keep it so; over a bucket, for all machines
  stemma index status
  stemma index vectors --estimate  what the vectors of sections would cost
  stemma index vectors --budget 2  make them, for two dollars at most
  stemma index verify              read every byte of it, and of the newest snapshot")]
pub struct IndexArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Bring the index up to date; over a bucket, leave a snapshot.
    Build {
        /// Go on until interrupted.
        #[arg(long)]
        follow: bool,
        /// Leave a snapshot in the store also where that is a folder.
        #[arg(long)]
        snapshot: bool,
        /// Where /livez, /readyz and /metrics are answered meanwhile.
        #[arg(long, value_name = "ADDRESS:PORT", requires = "follow")]
        listen: Option<SocketAddr>,
    },
    /// Make the vectors of sections, for routing by meaning; what did not change costs nothing, and what was made before an
    /// interruption stays.
    Vectors {
        /// Say what it would cost, and send nothing.
        #[arg(long)]
        estimate: bool,
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Show what the index holds and what it lacks.
    Status,
    /// Check every byte of the index and of the newest snapshot.
    Verify,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when the store or the disk refuses.
pub async fn run(args: IndexArgs, context: &Context) -> Result<Exit, CommandError> {
    let blobs = context.reader().await?.blobs;
    let kept = Kept::new(Env::system(), &context.cache(), &blobs, &context.collection);
    let corpus = kept.corpus();
    match args.action {
        Action::Build {
            follow,
            snapshot,
            listen,
        } => {
            let to_store = snapshot || context.store.folder().is_none();
            let builder = Builder {
                env: Env::system(),
                blobs,
                corpus,
                to_store,
                context,
            };
            if !follow {
                return builder.once().await;
            }
            let stop = shutdown::listen();
            let serving = match listen {
                Some(listen) => Some(builder.serve(listen, &stop).await?),
                None => None,
            };
            let followed = builder.follow(&stop).await;
            if let Some(serving) = serving {
                stop.cancel();
                serving
                    .ended()
                    .await
                    .map_err(|error| CommandError::new("listen.ended", error.to_string()))?;
            }
            followed
        }
        Action::Vectors { estimate, budget } => {
            vectors::run(estimate, budget, &blobs, context).await
        }
        Action::Status => status(&blobs, corpus, context).await,
        Action::Verify => verify(&blobs, corpus, context).await,
    }
}

/// Brings the index up to date and says how far it is, where that takes long.
///
/// # Errors
/// [`CommandError`] when the store or the disk refuses.
pub async fn bring(
    corpus: &Corpus,
    catalogue: &Catalogue,
    context: &Context,
) -> Result<Brought, CommandError> {
    let began = Instant::now();
    let heard = |left: usize| {
        if left > 0 {
            context.output.note(&format!(
                "index: {} left · {} s",
                thousands_of(left),
                began.elapsed().as_secs()
            ));
        }
    };
    Ok(corpus.bring_up_to(catalogue, &heard).await?)
}

/// Brings the index up to date after an ingest. Whatever goes wrong is told, and mended by the next search.
pub async fn after_ingest(env: &Env, blobs: &Arc<dyn Blobs>, context: &Context) {
    let kept = Kept::new(env.clone(), &context.cache(), blobs, &context.collection);
    let brought = async {
        let catalogue = Catalogue::load(blobs.as_ref(), &context.collection).await?;
        bring(kept.corpus(), &catalogue, context).await
    };
    if let Err(error) = brought.await {
        context
            .output
            .note(&format!("the index is not up to date: {error}"));
    }
}

struct Builder<'a> {
    env: Env,
    blobs: Arc<dyn Blobs>,
    corpus: &'a Corpus,
    to_store: bool,
    context: &'a Context,
}

impl Builder<'_> {
    async fn once(&self) -> Result<Exit, CommandError> {
        let catalogue = Catalogue::load(self.blobs.as_ref(), &self.context.collection).await?;
        self.step(&catalogue).await?;
        Ok(Exit::Done)
    }

    /// Says how it is until `stop`, as the services do.
    async fn serve(
        &self,
        listen: SocketAddr,
        stop: &CancellationToken,
    ) -> Result<Serving, CommandError> {
        let presence = Presence::new(
            &self.env,
            identity::process_name("index", &self.env),
            "index",
        );
        let health = Health::of_blobs(&self.env, &presence, &self.blobs);
        let serving = health::serve(
            listen,
            health,
            Metrics::install(),
            Router::new(),
            stop.clone(),
        )
        .await;
        serving.map_err(|error| {
            CommandError::new("listen.refused", format!("{listen}: {error}"))
                .with_next("choose another --listen")
        })
    }

    async fn follow(&self, stop: &CancellationToken) -> Result<Exit, CommandError> {
        let collection = self.context.collection.clone();
        let (mut follower, mut catalogue) =
            Follower::begin(self.blobs.as_ref(), collection).await?;
        let mut changed = true;
        let mut last = None::<Instant>;
        let mut looks = 0;
        while !stop.is_cancelled() {
            if changed && last.is_none_or(|last| last.elapsed() >= SNAPSHOTS_EVERY) {
                changed = !self.step(&catalogue).await?;
                last = Some(Instant::now());
            }
            looks = (looks + 1) % GLANCES;
            let newer = if looks == 0 {
                follower.look(self.blobs.as_ref()).await?
            } else {
                follower
                    .glance(self.blobs.as_ref(), self.env.now_ms())
                    .await?
            };
            if let Some(newer) = newer {
                (catalogue, changed) = (newer, true);
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.env.sleep(LOOKS_EVERY) => {}
            }
        }
        Ok(Exit::Interrupted)
    }

    /// One update; whether the index is up to date now.
    async fn step(&self, catalogue: &Catalogue) -> Result<bool, CommandError> {
        let began = Instant::now();
        let report = if self.to_store {
            let heard = |left: usize| {
                self.context
                    .output
                    .note(&format!("index: {} left", thousands_of(left)))
            };
            build(
                &self.env,
                self.blobs.as_ref(),
                self.corpus,
                catalogue,
                &heard,
            )
            .await?
        } else {
            match bring(self.corpus, catalogue, self.context).await? {
                brought if brought == Brought::default() => Built::Nothing,
                brought => return Ok(self.show(Some(&brought), None, began)),
            }
        };
        Ok(match report {
            Built::Nothing => self.show(None, None, began),
            Built::Uploaded(brought, uploaded) => self.show(Some(&brought), Some(&uploaded), began),
            Built::Elsewhere(seq) => {
                self.context
                    .output
                    .note(&format!("snapshot {seq} is being made elsewhere"));
                false
            }
        })
    }

    fn show(&self, brought: Option<&Brought>, uploaded: Option<&Uploaded>, began: Instant) -> bool {
        let none = Brought::default();
        let brought = brought.unwrap_or(&none);
        let seconds = began.elapsed().as_secs_f64();
        if self.context.output.is_text() {
            let mut line = format!(
                "{} entered, {} removed, {} entries, {seconds:.1} s",
                counted(brought.entered, "document"),
                brought.removed,
                thousands_of(usize::try_from(brought.entries).unwrap_or(usize::MAX))
            );
            if brought.fetched_bytes > 0 {
                line.push_str(&format!(
                    ", {:.1} MB fetched",
                    megabytes(brought.fetched_bytes)
                ));
            }
            if let Some(Uploaded {
                seq,
                bytes,
                new_bytes,
            }) = uploaded
            {
                let all = megabytes(*bytes);
                let new = megabytes(*new_bytes);
                line.push_str(&format!(
                    ", snapshot {seq}: {all:.1} MB, {new:.1} MB of it new"
                ));
            }
            self.context.output.line(&line);
        } else {
            let snapshot = uploaded.map(|uploaded| {
                serde_json::json!({ "seq": uploaded.seq, "bytes": uploaded.bytes, "new_bytes": uploaded.new_bytes })
            });
            self.context.output.json(&serde_json::json!({
                "entered": brought.entered, "removed": brought.removed, "entries": brought.entries,
                "unreadable": brought.unreadable, "behind": brought.behind, "remade": brought.remade,
                "fetched_bytes": brought.fetched_bytes, "seconds": seconds, "snapshot": snapshot,
            }));
        }
        brought.behind == 0
    }
}

#[derive(Serialize)]
struct Status {
    folder: String,
    documents: usize,
    entries: u64,
    bytes: u64,
    lacking: usize,
    snapshot: Option<SnapshotStatus>,
}

#[derive(Serialize)]
struct SnapshotStatus {
    seq: u64,
    documents: u64,
    entries: u64,
    bytes: u64,
    at_ms: u64,
}

async fn status(
    blobs: &Arc<dyn Blobs>,
    corpus: &Corpus,
    context: &Context,
) -> Result<Exit, CommandError> {
    let edition = corpus.open().await?;
    let catalogue = Catalogue::load(blobs.as_ref(), &context.collection).await?;
    let snapshot = corpus
        .snapshots()
        .newest()
        .await?
        .map(|(seq, manifest)| SnapshotStatus {
            seq,
            documents: manifest.documents,
            entries: manifest.entries,
            bytes: manifest.bytes(),
            at_ms: manifest.at_ms,
        });
    let view = Status {
        folder: corpus.folder().path().display().to_string(),
        documents: edition.as_ref().map_or(0, |edition| edition.documents()),
        entries: edition.as_ref().map_or(0, |edition| edition.entries()),
        bytes: corpus.bytes(),
        lacking: catalogue
            .documents()
            .iter()
            .filter(|listed: &&Listed| {
                let held = edition
                    .as_ref()
                    .and_then(|edition| edition.version(listed.doc()));
                listed.entry().is_some() && held < Some(listed.version().seq)
            })
            .count(),
        snapshot,
    };
    if context.output.is_text() {
        let documents = counted(view.documents, "document");
        let entries = view.entries;
        let size = format!("{:.1} MB in {}", megabytes(view.bytes), view.folder);
        context
            .output
            .line(&format!("{documents}, {entries} entries, {size}"));
        context
            .output
            .line(&format!("lacking {}", counted(view.lacking, "document")));
        if let Some(snapshot) = &view.snapshot {
            let documents = snapshot.documents;
            let size = megabytes(snapshot.bytes);
            context.output.line(&format!(
                "snapshot {}: {documents} documents, {size:.1} MB",
                snapshot.seq
            ));
        }
    } else {
        context.output.json(&view);
    }
    Ok(if edition.is_some() {
        Exit::Done
    } else {
        Exit::Nothing
    })
}

async fn verify(
    blobs: &Arc<dyn Blobs>,
    corpus: &Corpus,
    context: &Context,
) -> Result<Exit, CommandError> {
    let mut wrong = Vec::new();
    match corpus.altered().await {
        Ok(altered) => wrong.extend(altered.iter().map(|name| format!("altered: {name}"))),
        Err(error) => wrong.push(error.to_string()),
    }
    let catalogue = Catalogue::load(blobs.as_ref(), &context.collection).await?;
    if let Some(edition) = corpus.edition() {
        let listed = catalogue
            .documents()
            .iter()
            .filter(|listed| listed.entry().is_some());
        let newer =
            listed.filter(|listed| edition.version(listed.doc()) > Some(listed.version().seq));
        wrong.extend(newer.map(|listed| {
            format!(
                "holds a version of {} that was never published",
                listed.label
            )
        }));
    }
    if let Some((seq, manifest)) = corpus.snapshots().newest().await? {
        let missing = corpus.snapshots().missing(&manifest, true).await?;
        wrong.extend(missing.iter().map(|part| {
            format!(
                "snapshot {seq}: part {} is missing or altered",
                part.short()
            )
        }));
    }
    if context.output.is_text() {
        wrong.iter().for_each(|line| context.output.line(line));
        context.output.note(if wrong.is_empty() {
            "nothing is wrong"
        } else {
            "make it again: stemma index build"
        });
    } else {
        context.output.json(&serde_json::json!({ "wrong": wrong }));
    }
    Ok(if wrong.is_empty() {
        Exit::Done
    } else {
        Exit::Unsound
    })
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn thousands_of(number: usize) -> String {
    thousands(u32::try_from(number).unwrap_or(u32::MAX))
}
