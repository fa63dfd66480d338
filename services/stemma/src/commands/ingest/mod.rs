//! `stemma ingest`: files to section trees, in one process, resumable at any moment.

mod collect;
mod estimate;
mod follow;
mod progress;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use stemma_archive::Archive;
use stemma_boot::shutdown;
use stemma_coordinator::SubmitRequest;
use stemma_engine::flow::{JobOptions, MaxFailed};
use stemma_engine::{Env, Priority};
use stemma_pipeline::OnModelFailure;
use tokio::sync::mpsc;

use self::collect::{IngestBatch, read_files};
use self::estimate::IngestEstimate;
use self::follow::{FollowTarget, follow};
use self::progress::IngestProgress;
use self::summary::{IngestEnd, IngestSummary, IngestTally};
use crate::commands::index;
use crate::commands::jobs::submit::{self, SubmitArgs};
use crate::config::no_model;
use crate::context::Context;
use crate::cost::{BudgetArgs, PriceList, job_usage};
use crate::discover::discover;
use crate::embedded::EmbeddedServices;
use crate::error::{CommandError, Exit};
use crate::model_clients::preflight;
use crate::models::on_model_failure;
use crate::output::clean;
use crate::submission::{discover_error, label, sidecars};

/// Ingest files as section trees.
#[derive(Debug, Args)]
#[command(after_help = "\
Folders are searched for .pdf, .md and .txt files; a file given by name is read whatever its
extension. Unchanged files are skipped, changed files become a new version. If a run is
interrupted, run the same command to resume.

A `metadata.csv` in a folder adds facts about its files: a column `file`, and any of company,
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
    /// Show what would be done and estimate the cost. Reads documents, but calls no model.
    #[arg(long, visible_alias = "estimate")]
    pub dry_run: bool,
    /// Retry documents that failed, or for which the model gave no answer.
    #[arg(long)]
    pub rerun_failed: bool,
    /// Password for encrypted documents. Never stored.
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Stop if more documents than this fail: a number, or a share such as `2%`.
    #[arg(long, value_name = "N|P%")]
    pub max_failed: Option<MaxFailed>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    /// If the model fails: fail the document, leave a gap, or use rules (offline).
    #[arg(long, value_name = "fail|gap|offline", value_parser = on_model_failure)]
    pub on_model_failure: Option<OnModelFailure>,
    /// Documents processed at once [default: one per core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<u16>,
    /// Print the outline of each document at the end.
    #[arg(long)]
    pub show_trees: bool,
}

/// Ingests, and answers with what became of each document.
pub async fn run(args: IngestArgs, context: &Context) -> Result<Exit, CommandError> {
    if context.config()?.servers.is_cluster() {
        return run_on_cluster(args, context).await;
    }
    let stop = shutdown::listen();
    let mut config = context.config()?.clone();
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
            CommandError::new("input.nothing", "no .pdf, .md or .txt file found")
                .with_next("give files, or a folder that contains some"),
        );
    }
    let stated = sidecars(&discovery)?;
    let retry_failed = args.rerun_failed || args.password.is_some();
    let max_bytes = config.settings.limits.max_bytes;
    let mut batch = read_files(discovery, stated, retry_failed, max_bytes).await?;
    let env = Env::system();
    if args.dry_run {
        let estimate =
            IngestEstimate::for_documents(&config, &settings, &batch.submissions).await?;
        return Ok(dry_run(&batch, &estimate, context));
    }
    preflight(&config, &settings, &env, &context.output).await?;
    let store = context.open_writable_store(&env, "ingest").await?;
    batch.find_duplicates_and_removed(
        &Archive::open(Arc::clone(&store.ports.blobs), context.collection.clone()).await?,
    );
    let (sender, events) = mpsc::unbounded_channel();
    // Sending fails only while the services stop, when nobody needs the event any more.
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

// With a cluster, its workers do the work, as for `stemma submit --wait`.
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
            format!("{option} works only without a cluster"),
        )
        .with_next("remove the option, or unset broker.url"));
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
