//! `stemma retry`: submits failed or cancelled documents again.

use stemma_operations::FailureFilter;
use stemma_pipeline::Submission;
use stemma_roles::coordinator::SubmitRequest;
use stemma_store::Priority;

use super::open_operations;
use super::runner::JobRunner;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::submit_options::SubmitOptions;

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

pub async fn run(args: RetryArgs, context: &Context) -> Result<Exit, CommandError> {
    let chosen = {
        let operations = open_operations(context, "retry").await?;
        let job = match &args.job {
            Some(job) => Some(operations.job(job).await?.job),
            None => None,
        };
        operations
            .failed_documents_to_retry(None, job.as_ref(), &args.filters)
            .await?
    };
    let output = &context.output;
    if chosen.is_empty() {
        output.note("no failed document matches");
        return Ok(Exit::Nothing);
    }
    if args.dry_run {
        let retried: Vec<&str> = chosen.iter().map(|row| row.locator.as_str()).collect();
        let documents = retried.len();
        let view =
            serde_json::json!({ "dry_run": true, "documents": documents, "retried": retried });
        output.show(&view, || {
            output.line(&format!("{documents} documents would be retried"));
            for label in retried.iter().take(MAX_LISTED) {
                output.line(&format!("  {}", clean(label)));
            }
        });
        return Ok(Exit::Done);
    }
    let action = format!("retry {} documents", chosen.len());
    if !context.confirm("retry.not_confirmed", &action)? {
        return Ok(Exit::Nothing);
    }
    let (config, settings) = args.options.settings(context)?;
    let runner = JobRunner::open(context, &config, "retry").await?;
    let documents: Vec<Submission> = chosen.into_iter().map(|row| row.submission).collect();
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        priority: Priority::Bulk,
        options: (args.options).job_options(format!("retry of {} documents", documents.len())),
    };
    let (runner, manifest) = runner.submit(order, &documents).await?;
    runner.follow_or_detach(context, &manifest, args.wait).await
}
