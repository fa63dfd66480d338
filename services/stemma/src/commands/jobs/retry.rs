//! `stemma retry`: submits failed or cancelled documents again.

use std::io::{BufRead, IsTerminal};
use std::str::FromStr;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_archive::{Archive, FailureRow};
use stemma_coordinator::SubmitRequest;
use stemma_engine::flow::JobOptions;
use stemma_engine::{Priority, RunHeader};
use stemma_pipeline::Submission;

use super::JobContext;
use super::runner::JobRunner;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

const READS_AT_ONCE: usize = 16;
const MAX_LISTED: usize = 20;

/// Retry documents that failed.
///
/// They become new versions under the current settings. Results that still apply are reused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma retry --where code=input.unreadable --dry-run
  stemma retry j-1a1fba360ee4aa2 --where stage=outline --wait
  stemma retry --where doc=BROKEN_8K --yes")]
pub struct RetryArgs {
    /// Only documents that this job ran last.
    pub job: Option<String>,
    /// Only failures that match `code=…`, `stage=…` or `doc=…`; a code may end with `*`.
    #[arg(long = "where", value_name = "WHAT=VALUE")]
    pub filters: Vec<FailureFilter>,
    /// Show what would be retried, without doing it.
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until the job ends.
    #[arg(long)]
    pub wait: bool,
}

/// A condition on failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureFilter {
    /// The code of its failure, or how it begins.
    Code(String),
    Stage(String),
    Doc(String),
}

impl FromStr for FailureFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("code", value)) => Ok(Self::Code(value.into())),
            Some(("stage", value)) => Ok(Self::Stage(value.into())),
            Some(("doc", value)) => Ok(Self::Doc(value.into())),
            _ => Err(format!(
                "invalid filter `{text}`; use code=…, stage=… or doc=…"
            )),
        }
    }
}

impl FailureFilter {
    fn matches(&self, row: &FailureRow) -> bool {
        match self {
            Self::Code(code) => match code.strip_suffix('*') {
                Some(beginning) => row.failure.code.starts_with(beginning),
                None => row.failure.code == *code,
            },
            Self::Stage(stage) => row.failure.stage == *stage,
            Self::Doc(doc) => [&row.doc_id, &row.locator, &row.path].contains(&doc),
        }
    }
}

#[derive(Debug, Serialize)]
struct RetryView<'a> {
    dry_run: bool,
    documents: usize,
    retried: Vec<&'a str>,
}

pub async fn run(args: RetryArgs, context: &Context) -> Result<Exit, CommandError> {
    let chosen = {
        let job_context = JobContext::open(context, "retry").await?;
        select_failed(&job_context, &args, context).await?
    };
    let output = &context.output;
    if chosen.is_empty() {
        output.note("no failed document matches");
        return Ok(Exit::Nothing);
    }
    if args.dry_run {
        let retried: Vec<&str> = chosen.iter().map(|(label, _)| label.as_str()).collect();
        if output.is_text() {
            output.line(&format!("{} documents would be retried", chosen.len()));
            retried
                .iter()
                .take(MAX_LISTED)
                .for_each(|label| output.line(&format!("  {}", clean(label))));
        } else {
            output.json(&RetryView {
                dry_run: true,
                documents: chosen.len(),
                retried,
            });
        }
        return Ok(Exit::Done);
    }
    if !confirm(context, chosen.len())? {
        return Ok(Exit::Nothing);
    }
    let config = context.config()?;
    let runner = JobRunner::open(context, config, "retry").await?;
    let documents: Vec<Submission> = chosen
        .into_iter()
        .map(|(_, submission)| submission)
        .collect();
    let terms = JobOptions {
        label: format!("{} documents again", documents.len()),
        ..JobOptions::default()
    };
    let settings = config.job_settings()?;
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        class: Priority::Bulk,
        terms,
    };
    match stemma_coordinator::submit(
        &runner.job_context.env,
        &runner.job_context.ports,
        order,
        &documents,
    )
    .await
    {
        Ok(manifest) => runner.follow_or_detach(context, &manifest, args.wait).await,
        Err(error) => {
            runner.close().await;
            Err(error.into())
        }
    }
}

// The documents that match, with what to submit of them.
async fn select_failed(
    job_context: &JobContext,
    args: &RetryArgs,
    context: &Context,
) -> Result<Vec<(String, Submission)>, CommandError> {
    let job = match &args.job {
        Some(job) => Some(job_context.job(job).await?.job),
        None => None,
    };
    let reader = Archive::open(job_context.blobs_arc(), context.collection.clone()).await?;
    let rows = reader.failures("/")?.failures;
    let rows = rows
        .into_iter()
        .filter(|row| args.filters.iter().all(|filter| filter.matches(row)));
    let reader = &reader;
    let job = &job;
    let chosen: Vec<Option<_>> = stream::iter(rows)
        .map(|row: FailureRow| async move {
            let (doc, seq) = reader.latest_version(&row.doc_id).await?;
            let key = stemma_pipeline::header_key(
                context.collection.as_str(),
                &stemma_pipeline::run_id(doc, seq),
            );
            let json = match key {
                Some(key) => job_context.blobs().get(&key).await?,
                None => None,
            };
            let header: Option<RunHeader> =
                json.and_then(|json| serde_json::from_slice(&json).ok());
            let header =
                header.filter(|header| job.as_ref().is_none_or(|job| header.opened_by == *job));
            Ok::<_, CommandError>(
                header.and_then(|header| Some((row.locator, Submission::resubmit(&header)?))),
            )
        })
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(chosen.into_iter().flatten().collect())
}

// Asks before documents are run again; without a terminal `--yes` is needed.
fn confirm(context: &Context, documents: usize) -> Result<bool, CommandError> {
    if context.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CommandError::new(
            "retry.not_confirmed",
            format!("{documents} documents would be retried"),
        )
        .with_next("confirm with --yes, or preview with --dry-run"));
    }
    context
        .output
        .error(&format!("retry {documents} documents? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CommandError::new("retry.not_confirmed", error.to_string()))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
