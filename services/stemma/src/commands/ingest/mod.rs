//! `stemma ingest`: files to section trees, in one process, resumable at any moment.

mod estimate;
mod progress;
mod summary;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use stemma_archive::Archive;
use stemma_boot::shutdown;
use stemma_coordinator::SubmitRequest;
use stemma_document::{Digest, Origin};
use stemma_engine::blobs::Blobs;
use stemma_engine::coordinator::CoordinatorEvent;
use stemma_engine::flow::{JobOptions, MaxFailed};
use stemma_engine::jobs::{JobControl, JobEndReason, PauseReason, load_control};
use stemma_engine::{Env, JobId, Priority};
use stemma_pipeline::sources::{file_path, file_uri};
use stemma_pipeline::{OnModelFailure, Submission};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::estimate::IngestEstimate;
use self::progress::IngestProgress;
use self::summary::{FailedDocument, IngestSummary, IngestTally};
use crate::commands::index;
use crate::commands::jobs::submit::{self, SubmitArgs};
use crate::config::no_model;
use crate::context::{CommandError, Context, Exit};
use crate::cost::{BudgetArgs, PriceList, job_usage};
use crate::discover::{DiscoverError, DiscoveredFile, Discovery, digest, discover};
use crate::embedded::EmbeddedServices;
use crate::models::{on_model_failure, preflight};
use crate::output::clean;
use crate::sidecar;

/// Turn files into section trees.
#[derive(Debug, Args)]
#[command(after_help = "\
Folders are walked for .pdf, .md and .txt files; a file that is named is taken whatever it is
called. Unchanged files cost nothing, changed ones become a new version, and an interrupted run
goes on where it was.

A `metadata.csv` in a folder states facts about its files: a column `file`, and any of company,
form, fiscal_year, fiscal_period, period_end, filed, file_number, irs_number, state, ticker, cik,
accession. CIK and accession number also come from a path …/CIK/ACCESSION/…, never from the text.

Examples:
  stemma ingest filings/
  stemma ingest 10k.pdf 'archive/*/8-K*.pdf'
  find /archive -name '*.pdf' | stemma ingest -
  stemma ingest filings/ --rerun-failed --password secret")]
pub struct IngestArgs {
    /// Files, folders or patterns; `-` reads a list of paths from standard input.
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Show what would be done and about what it would cost, and do nothing: documents are read, no model is asked.
    #[arg(long, visible_alias = "estimate")]
    pub dry_run: bool,
    /// Try documents again that failed before, or about which a model left questions unanswered.
    #[arg(long)]
    pub rerun_failed: bool,
    /// Password for encrypted documents; used in this run only, never stored.
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Stop when more documents than this have failed: a number, or a share such as `2%`.
    #[arg(long, value_name = "N|P%")]
    pub max_failed: Option<MaxFailed>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    /// What becomes of a document where the model does not answer: it fails, what is missing is a gap, or rules stand in.
    #[arg(long, value_name = "fail|gap|offline", value_parser = on_model_failure)]
    pub on_model_failure: Option<OnModelFailure>,
    /// Documents worked on at once [default: one per core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<u16>,
    /// Print the outline of each document when all are done.
    #[arg(long)]
    pub show_trees: bool,
}

/// Ingests, and answers with what became of each document.
///
/// # Errors
/// [`CommandError`] when nothing can be ingested: no such path, a store that is written to, a wrong setting.
pub async fn run(args: IngestArgs, context: &Context) -> Result<Exit, CommandError> {
    if context.servers()?.is_cluster() {
        return run_on_cluster(args, context).await;
    }
    let stop = shutdown::listen();
    let mut config = context.config()?.config;
    config.local.concurrency = args.jobs.unwrap_or(config.local.concurrency);
    config.model.settings.on_failure = args
        .on_model_failure
        .unwrap_or(config.model.settings.on_failure);
    let settings = config.job_settings()?;
    if settings.model.is_some() && !config.model.is_configured() {
        return Err(no_model("model.base_url"));
    }
    args.budget.check(&config, &settings)?;
    let discovery =
        discover(&args.paths, context.store.folder()).map_err(|error| discover_error(&error))?;
    if discovery.files.is_empty() {
        return Err(
            CommandError::new("input.nothing", "no .pdf, .md or .txt file was found")
                .with_next("name files, or a folder that holds some"),
        );
    }
    let stated = sidecars(&discovery)?;
    let mut batch = read_files(discovery, stated, &args, config.settings.limits.max_bytes).await?;
    let env = Env::system();
    if args.dry_run {
        let estimate =
            IngestEstimate::for_documents(&config, &settings, &batch.submissions).await?;
        return Ok(dry_run(&batch, &estimate, context));
    }
    preflight(&config, &settings, &env, context).await?;
    let store = context.open_writable_store(&env, "ingest").await?;
    batch.find_duplicates_and_removed(
        &Archive::open(Arc::clone(&store.ports.blobs), context.collection.clone()).await?,
    );
    let (sender, events) = mpsc::unbounded_channel();
    // The receiver lives as long as the services; a send after it has gone has no one to tell.
    let observer = Arc::new(move |event| drop(sender.send(event)));
    let services =
        EmbeddedServices::start(&env, &store.ports, &config, args.password.clone(), observer)?;
    let class = if batch.submissions.len() == 1 {
        Priority::Interactive
    } else {
        Priority::Bulk
    };
    let terms = JobOptions {
        label: label(&args.paths),
        budget: args.budget.budget(),
        ..JobOptions::default()
    };
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        class,
        terms,
    };
    let began = Instant::now();
    let manifest =
        stemma_coordinator::submit(&env, &store.ports, order, &batch.submissions).await?;
    let progress = IngestProgress::new(context, manifest.entries);
    let keep = args.show_trees || !context.output.is_text();
    let mut tally = IngestTally::new(&batch.unreadable, keep);
    let blobs = store.ports.blobs.as_ref();
    let followed = FollowTarget {
        job: &manifest.job,
        max_failed: args.max_failed,
    };
    let how = follow(
        events, &stop, &mut tally, &progress, blobs, context, &followed,
    )
    .await;
    services.stop().await;
    progress.clear();
    if how == IngestEnd::Finished {
        index::sync_after_ingest(&env, &store.ports.blobs, context).await;
    }
    let prices = PriceList::from_config(&config);
    let usage = job_usage(
        blobs,
        &context.collection,
        &prices,
        &manifest.job,
        manifest.submitted_ms,
    )
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let summary = IngestSummary {
        job: manifest.job,
        batch: &batch,
        tally,
        end: how,
        seconds,
        usage,
    };
    summary.show(context).await?;
    Ok(summary.exit())
}

/// Where there is a cluster, its workers do the work: the same as `stemma submit --wait`.
async fn run_on_cluster(args: IngestArgs, context: &Context) -> Result<Exit, CommandError> {
    let only_here = [
        ("--dry-run", args.dry_run),
        ("--password", args.password.is_some()),
        ("--jobs", args.jobs.is_some()),
        ("--show-trees", args.show_trees),
    ];
    if let Some((option, _)) = only_here.into_iter().find(|(_, is_set)| *is_set) {
        return Err(CommandError::new(
            "usage.cluster",
            format!("{option} is for a store that this process works on"),
        )
        .with_next("leave it out, or unset broker.url"));
    }
    let IngestArgs {
        paths: sources,
        max_failed,
        rerun_failed,
        budget,
        on_model_failure,
        ..
    } = args;
    let interactive = matches!(sources.as_slice(), [one] if one.is_file());
    let job = None;
    let submit = SubmitArgs {
        sources,
        wait: true,
        job,
        max_failed,
        budget,
        interactive,
        rerun_failed,
        on_model_failure,
    };
    submit::run(submit, context).await
}

/// Why following a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IngestEnd {
    Finished,
    Interrupted,
    TooManyFailed,
    Cancelled,
    Paused(PauseReason),
}

/// What is followed: the coordinator may take up what an interrupted job left as well.
struct FollowTarget<'a> {
    job: &'a JobId,
    max_failed: Option<MaxFailed>,
}

/// What is submitted, and what was learned on the way.
struct IngestBatch {
    submissions: Vec<Submission>,
    unreadable: Vec<FailedDocument>,
    /// Path, and the path of a document with the same bytes.
    duplicates: Vec<(String, String)>,
    /// Documents whose files are gone from the folders that were walked.
    removed: Vec<String>,
    discovery: Discovery,
}

impl IngestBatch {
    /// Finds copies of documents that are known already, and known documents whose files are gone.
    fn find_duplicates_and_removed(&mut self, reader: &Archive) {
        let submitted: HashSet<&str> = self
            .submissions
            .iter()
            .map(|submission| submission.uri.as_str())
            .collect();
        let mut by_digest: HashMap<Digest, &str> = HashMap::new();
        for listed in reader.catalog().documents() {
            let version = listed.version();
            if submitted.contains(version.uri.as_str()) {
                continue;
            }
            by_digest.insert(version.source, &listed.label);
            if self
                .discovery
                .roots
                .iter()
                .any(|root| version.uri.starts_with(root))
                && !file_exists(&version.uri)
            {
                self.removed.push(listed.label.clone());
            }
        }
        let copies = self.submissions.iter().filter_map(|submission| {
            by_digest
                .get(&submission.source)
                .map(|label| (submission.path.clone(), (*label).to_string()))
        });
        self.duplicates.extend(copies);
    }
}

fn file_exists(uri: &str) -> bool {
    file_path(uri).is_some_and(|path| path.exists())
}

/// Facts a sidecar states about one file, by their stable names.
type StatedFacts = BTreeMap<String, String>;

/// What sidecars state about the files that were found.
pub fn sidecars(discovery: &Discovery) -> Result<HashMap<PathBuf, StatedFacts>, CommandError> {
    let mut folders: BTreeMap<&Path, sidecar::SidecarFacts> = BTreeMap::new();
    let mut stated = HashMap::new();
    for file in &discovery.files {
        let (Some(folder), Some(name)) =
            (file.absolute_path.parent(), file.absolute_path.file_name())
        else {
            continue;
        };
        if !folders.contains_key(folder) {
            let read = sidecar::read(folder).map_err(|error| {
                CommandError::new("input.sidecar", error.to_string())
                    .with_next("correct it; `stemma ingest --help` says what it may hold")
            })?;
            folders.insert(folder, read);
        }
        let facts = folders
            .get_mut(folder)
            .and_then(|read| read.remove(name.to_string_lossy().as_ref()));
        stated.extend(facts.map(|facts| (file.absolute_path.clone(), facts)));
    }
    Ok(stated)
}

/// Reads every file once for its digest, one reader per core.
async fn read_files(
    discovery: Discovery,
    mut stated: HashMap<PathBuf, StatedFacts>,
    args: &IngestArgs,
    max_bytes: u64,
) -> Result<IngestBatch, CommandError> {
    let retry_failed = args.rerun_failed || args.password.is_some();
    let files = discovery.files.clone();
    let read = tokio::task::spawn_blocking(move || {
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        let part = files.len().div_ceil(readers).max(1);
        std::thread::scope(|scope| {
            let parts: Vec<_> = files
                .chunks(part)
                .map(|part| {
                    scope.spawn(move || {
                        part.iter()
                            .map(|input| read_file(input, max_bytes))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            parts
                .into_iter()
                .flat_map(|part| part.join().unwrap_or_default())
                .collect::<Vec<_>>()
        })
    })
    .await;
    let read = read.map_err(|error| CommandError::new("input.unreadable", error.to_string()))?;
    let mut batch = IngestBatch {
        submissions: Vec::new(),
        unreadable: Vec::new(),
        duplicates: Vec::new(),
        removed: Vec::new(),
        discovery,
    };
    let mut first: HashMap<Digest, String> = HashMap::new();
    for file in read {
        match file {
            Ok(submission) => {
                if let Some(other) = first.get(&submission.source) {
                    batch
                        .duplicates
                        .push((submission.path.clone(), other.clone()));
                }
                first
                    .entry(submission.source)
                    .or_insert_with(|| submission.path.clone());
                let stated = file_path(&submission.uri)
                    .and_then(|path| stated.remove(&path))
                    .unwrap_or_default();
                batch.submissions.push(Submission {
                    retry_failed,
                    stated,
                    ..submission
                });
            }
            Err(failed) => batch.unreadable.push(failed),
        }
    }
    Ok(batch)
}

fn read_file(input: &DiscoveredFile, max_bytes: u64) -> Result<Submission, FailedDocument> {
    let name = input
        .relative_path
        .rsplit('/')
        .next()
        .unwrap_or(&input.relative_path)
        .to_string();
    let uri = file_uri(&input.absolute_path);
    let path = input.relative_path.clone();
    let stated = BTreeMap::new();
    let retry_failed = false;
    match digest(&input.absolute_path, max_bytes) {
        Ok((source, size_bytes)) => {
            let origin = Origin::Content;
            Ok(Submission {
                uri,
                name,
                path,
                source,
                origin,
                size_bytes,
                stated,
                retry_failed,
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Err(FailedDocument {
            path,
            code: "limits.bytes".into(),
            message: format!("the file is larger than the limit of {max_bytes} bytes"),
            next: Some("raise limits.max_bytes, or split the file".into()),
        }),
        Err(error) => Err(FailedDocument {
            path,
            code: "input.unreadable".into(),
            message: format!("the file cannot be read: {error}"),
            next: Some("check its permissions, then ingest again".into()),
        }),
    }
}

fn dry_run(batch: &IngestBatch, estimate: &IngestEstimate, context: &Context) -> Exit {
    let bytes: u64 = batch
        .submissions
        .iter()
        .map(|submission| submission.size_bytes)
        .sum();
    if context.output.is_text() {
        let files = batch.submissions.len();
        context.output.line(&format!(
            "{files} files, {:.1} MB would be ingested",
            bytes as f64 / 1e6
        ));
        context.output.line(&estimate.line());
        for submission in &batch.submissions {
            context
                .output
                .line(&format!("  {}", clean(&submission.path)));
        }
        summary::list_skipped(batch, context);
    } else {
        let paths: Vec<&str> = batch
            .submissions
            .iter()
            .map(|submission| submission.path.as_str())
            .collect();
        context
            .output
            .json(&serde_json::json!({ "dry_run": true, "files": paths, "bytes": bytes, "estimate": estimate }));
    }
    Exit::Done
}

/// Follows the job until it ends, is interrupted, or has too many failures.
async fn follow(
    mut events: mpsc::UnboundedReceiver<CoordinatorEvent>,
    stop: &CancellationToken,
    tally: &mut IngestTally,
    progress: &IngestProgress<'_>,
    blobs: &dyn Blobs,
    context: &Context,
    followed: &FollowTarget<'_>,
) -> IngestEnd {
    let mut tick = tokio::time::interval(progress::REFRESH_INTERVAL);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return IngestEnd::Interrupted,
            event = events.recv() => event,
            _ = tick.tick() => {
                progress.show(tally);
                match load_control(blobs, followed.job).await {
                    Ok(JobControl { paused: Some(paused), cancelled: None, .. }) if paused.reason != PauseReason::Person => {
                        return IngestEnd::Paused(paused.reason);
                    }
                    _ => continue, // what cannot be seen now is seen at the next tick
                }
            }
        };
        match event {
            None => return IngestEnd::Finished,
            Some(CoordinatorEvent::JobEnded(report)) if report.job == *followed.job => {
                return if report.close == JobEndReason::Finished {
                    IngestEnd::Finished
                } else {
                    IngestEnd::Cancelled
                };
            }
            Some(CoordinatorEvent::EntryEnded {
                job, input, ending, ..
            }) if job == *followed.job => {
                tally
                    .record_end(blobs, &context.collection, &input, ending)
                    .await;
                if followed
                    .max_failed
                    .is_some_and(|most| most.exceeded(tally.failed(), progress.total))
                {
                    return IngestEnd::TooManyFailed;
                }
            }
            Some(_) => {}
        }
    }
}

/// A path or pattern that names nothing.
pub fn discover_error(error: &DiscoverError) -> CommandError {
    CommandError::new("input.not_found", error.to_string())
        .with_next("check the path; `stemma ingest --help` has examples")
}

/// What was submitted, for people: the first path, and how many more.
pub fn label(paths: &[PathBuf]) -> String {
    const LONGEST: usize = 100;
    let first = paths
        .first()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let first: String = first.chars().take(LONGEST).collect();
    match paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}
