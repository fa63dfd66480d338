//! `stemma ingest`: files to section trees, in one process, resumable at any moment.

mod collect;
mod estimate;
mod follow;
mod index;
mod interrupted;
mod progress;
mod summary;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use stemma_boot::shutdown;
use stemma_document::FactDefinition;
use stemma_engine::flow::JobOptions;
use stemma_pipeline::sources::document_extensions;
use stemma_roles::coordinator::SubmitRequest;
use stemma_store::blobs::Blobs;
use stemma_store::{Env, Priority};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::collect::{IngestBatch, read_files};
use self::estimate::IngestEstimate;
use self::follow::{FollowTarget, follow, record};
use self::index::IngestIndex;
use self::progress::IngestProgress;
use self::summary::{IngestEnd, IngestSummary, IngestTally};
use crate::commands::jobs::submit::{self, SubmitArgs};
use crate::commands::tree;
use crate::context::Context;
use crate::cost::{PriceList, job_usage};
use crate::discover::{find_files, nothing_found};
use crate::embedded::{EmbeddedServices, documents_in_flight};
use crate::error::{CommandError, Exit};
use crate::filings::SelectArgs;
use crate::model_clients::preflight;
use crate::output::clean;
use crate::submit_options::{SubmitOptions, label};

/// Ingest files as section trees.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
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
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub options: SubmitOptions,
    /// Documents processed at once [default: one per core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<u16>,
    /// Print the outline of each document at the end.
    #[arg(long)]
    pub show_trees: bool,
}

// clap wraps the lines that the list makes long.
fn after_help() -> String {
    let facts: Vec<&str> = FactDefinition::for_sidecars()
        .map(|fact| fact.name)
        .collect();
    let facts = facts.join(", ");
    let extensions = document_extensions("and");
    format!(
        "\
Folders are searched for {extensions} files; a file given by name is read
whatever its extension. Unchanged files are skipped, changed files become a new version. If a run
is interrupted, run the same command to resume.

A `metadata.csv` in a folder adds facts about its files: a column `file`, and any of {facts}. \
CIK and accession number also come from a path …/CIK/ACCESSION/…, never from the text.

A folder mirrored from EDGAR is read as it lies. Of …/CIK/ACCESSION/ the documents and exhibits
are read; index files say what they are; XBRL, graphics and pages of the viewer are left out and
counted. A full submission (.txt, .nc) is one document, and is not read again next to its parts.
--forms, --since and --cik choose filings before anything is read; files that nothing is known about
are then left out.

Examples:
  stemma ingest filings/
  stemma ingest 10k.pdf 'archive/*/8-K*.pdf'
  find /archive -name '*.pdf' | stemma ingest -
  stemma ingest edgar/ --forms 10-K,10-Q --since 2020-01-01 --cik 320193,789019
  stemma ingest filings/ --rerun-failed --password secret
  stemma ingest filings/ --batch          half the price, within hours or days; resumable"
    )
}

pub async fn run(args: IngestArgs, context: &Context) -> Result<Exit, CommandError> {
    if context.config()?.servers.is_cluster() {
        return run_on_cluster(args, context).await;
    }
    let stop = shutdown::listen();
    let (mut config, settings) = args.options.settings(context)?;
    config.local.concurrency = args.jobs.unwrap_or(config.local.concurrency);
    let discovery = find_files(&args.paths, &args.select, context)?;
    if discovery.files.is_empty() {
        return Err(nothing_found(&discovery.filings, discovery.links_out()));
    }
    let retry_failed = args.rerun_failed || args.password.is_some();
    let max_bytes = config.settings.limits.max_bytes;
    let asks_in_batches = args.options.batch;
    let mut batch = read_files(discovery, retry_failed, max_bytes).await?;
    let env = Env::system();
    if args.dry_run {
        let estimate =
            IngestEstimate::for_documents(&config, &settings, &batch.submissions, asks_in_batches)
                .await?;
        return Ok(dry_run(&batch, &estimate, context));
    }
    preflight(&config, &settings, &env, &context.output).await?;
    let store = context.open_writable_store(&env, "ingest").await?;
    let blobs = store.ports.blobs.raw();
    batch.find_duplicates_and_removed(&context.archive(blobs).await?)?;
    batch
        .store_labels(&store.ports.blobs, &context.collection, max_bytes)
        .await?;
    let label = label(&args.paths);
    let interrupted =
        interrupted::find(blobs.as_ref(), &context.collection, &label, env.now_ms()).await?;
    let (sender, mut events) = mpsc::unbounded_channel();
    // Sending fails only while the services stop, when nobody needs the event any more.
    let observer = Arc::new(move |event| drop(sender.send(event)));
    // Documents that wait for batches take no slots, and the more wait, the fewer batches they need.
    if !asks_in_batches {
        config.local.open_documents = documents_in_flight(&config);
    }
    let services = EmbeddedServices::start(&store.ports, &config, args.password.clone(), observer)?;
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        priority: if batch.submissions.len() == 1 && !asks_in_batches {
            Priority::Interactive
        } else {
            Priority::Bulk
        },
        options: JobOptions {
            // Checked here, because files that cannot be read count as failed and are not part of the job.
            max_failed: None,
            ..args.options.job_options(label)
        },
    };
    let began = Instant::now();
    let manifest =
        stemma_roles::coordinator::submit(&store.ports, order, &batch.submissions).await?;
    let documents = manifest.entries + batch.unreadable.len() as u64;
    let bytes = batch.submissions.iter().map(|file| file.size_bytes).sum();
    let read = services.read_progress();
    let models = services.models();
    let progress = IngestProgress::new(context, documents, bytes, read, models);
    let keep_entries = args.show_trees || !context.output.is_text();
    let mut tally = IngestTally::new(&batch.unreadable, keep_entries);
    let (created, published) = watch::channel(0);
    let target = FollowTarget {
        job: &manifest.job,
        max_failed: args.options.max_failed,
        created,
    };
    let index = IngestIndex::new(&env, blobs, context, progress.indexed())?;
    let reading = async {
        let followed = follow(
            &mut events,
            &stop,
            &mut tally,
            &progress,
            &store,
            context,
            target,
        );
        let end = followed.await;
        match end {
            Ok(_) => services.stop().await,
            Err(_) => services.abort(), // they would wait for the store
        }
        // Documents that ended while the services stopped.
        while let Ok(event) = events.try_recv() {
            record(event, &manifest.job, &mut tally, &store, context).await;
        }
        end
    };
    let indexing = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = index.follow(published) => {}
        }
    };
    let (end, ()) = tokio::join!(reading, indexing);
    let mut end = end.inspect_err(|_| progress.clear())?;
    if end == IngestEnd::Finished {
        end = finish_index(&index, &progress, &tally, &stop).await;
    }
    progress.clear();
    tally.sort_failures();
    let prices = PriceList::from_config(&config);
    let usage = job_usage(blobs.as_ref(), &context.collection, &prices, &manifest).await?;
    let before = match &interrupted {
        Some(job) => Some(interrupted::counts(blobs.as_ref(), job).await?),
        None => None,
    };
    let summary = IngestSummary {
        before,
        job: manifest.job,
        batch: &batch,
        tally,
        end,
        seconds: began.elapsed().as_secs_f64(),
        usage,
    };
    show(&summary, blobs, context).await?;
    Ok(summary.exit())
}

// Indexes the last documents. An interrupted update is completed by the next search.
async fn finish_index(
    index: &IngestIndex<'_>,
    progress: &IngestProgress<'_>,
    tally: &IngestTally,
    stop: &CancellationToken,
) -> IngestEnd {
    let mut update = pin!(index.update(tally.created()));
    let mut tick = tokio::time::interval(progress::REFRESH_INTERVAL);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return IngestEnd::Interrupted,
            () = &mut update => return IngestEnd::Finished,
            _ = tick.tick() => progress.show(tally),
        }
    }
}

async fn show(
    summary: &IngestSummary<'_>,
    blobs: &Arc<dyn Blobs>,
    context: &Context,
) -> Result<(), CommandError> {
    summary.show(context);
    if !context.output.is_text() {
        return Ok(());
    }
    if summary.tally.entries().next().is_some() {
        let archive = context.archive(blobs).await?;
        // One document is shown in full, more of them as a summary.
        let depth = (summary.tally.created() > 1).then_some(1);
        for entry in summary.tally.entries() {
            context.output.line("");
            tree::show(&archive, entry, depth, &context.output).await?;
        }
    }
    summary.show_next_steps(&context.output);
    Ok(())
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
        let message = format!("{option} works only without a cluster");
        return Err(CommandError::new("usage.cluster", message)
            .with_next("remove the option, or unset broker.url"));
    }
    let submit = SubmitArgs {
        interactive: !args.options.batch && matches!(args.paths.as_slice(), [one] if one.is_file()),
        sources: args.paths,
        select: args.select,
        wait: true,
        job: None,
        options: args.options,
        rerun_failed: args.rerun_failed,
    };
    submit::run(submit, context).await
}

fn dry_run(batch: &IngestBatch, estimate: &IngestEstimate, context: &Context) -> Exit {
    let (paths, sizes): (Vec<&str>, Vec<u64>) = (batch.submissions.iter())
        .map(|submission| (submission.path.as_str(), submission.size_bytes))
        .unzip();
    let bytes: u64 = sizes.iter().sum();
    let view = serde_json::json!({ "dry_run": true, "files": paths, "bytes": bytes, "estimate": estimate });
    let output = &context.output;
    output.show(&view, || {
        let files = paths.len();
        let megabytes = bytes as f64 / 1e6;
        output.line(&format!(
            "{files} files, {megabytes:.1} MB would be ingested"
        ));
        output.line(&estimate.line());
        paths
            .iter()
            .for_each(|path| output.line(&format!("  {}", clean(path))));
        summary::list_skipped(batch, output);
    });
    Exit::Done
}
