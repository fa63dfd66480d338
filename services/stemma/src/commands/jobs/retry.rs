//! `stemma retry`: submits failed or cancelled documents again.

use std::str::FromStr;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_archive::FailureRow;
use stemma_coordinator::SubmitRequest;
use stemma_engine::Priority;
use stemma_pipeline::Submission;

use super::JobContext;
use super::runner::JobRunner;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::submission::SubmitOptions;

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
    #[command(flatten)]
    pub options: SubmitOptions,
}

/// A condition on failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureFilter {
    /// The failure code, or a prefix with `*`.
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
        select_failed(&job_context, &args).await?
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
    let action = format!("retry {} documents", chosen.len());
    if !context.confirm("retry.not_confirmed", &action)? {
        return Ok(Exit::Nothing);
    }
    let (config, settings) = args.options.settings(context)?;
    let runner = JobRunner::open(context, &config, "retry").await?;
    let documents: Vec<Submission> = chosen
        .into_iter()
        .map(|(_, submission)| submission)
        .collect();
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        class: Priority::Bulk,
        terms: args
            .options
            .job_options(format!("retry of {} documents", documents.len())),
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

// The matching documents, with their new submissions.
async fn select_failed(
    job_context: &JobContext,
    args: &RetryArgs,
) -> Result<Vec<(String, Submission)>, CommandError> {
    let job = match &args.job {
        Some(job) => Some(job_context.job(job).await?.job),
        None => None,
    };
    let reader = job_context.archive().await?;
    let rows = reader.failures("/")?.failures;
    let rows = rows
        .into_iter()
        .filter(|row| args.filters.iter().all(|filter| filter.matches(row)));
    let reader = &reader;
    let job = &job;
    let chosen: Vec<Option<_>> = stream::iter(rows)
        .map(|row: FailureRow| async move {
            let (doc, seq) = reader.latest_version(&row.doc_id).await?;
            let run = stemma_pipeline::run_id(doc, seq);
            let header = job_context.run_header(&run).await?;
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
