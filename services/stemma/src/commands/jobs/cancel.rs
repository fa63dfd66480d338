//! `stemma cancel`: cancels a job.

use stemma_operations::ControlRequest;

use super::open_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Cancel a job.
///
/// No new task starts after five seconds. Running tasks finish and their results are kept, as is work that other jobs
/// wait for. Submitting the same documents again reuses the results.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma cancel j-1a1fba360ee4aa2
  stemma cancel nightly-2026-11-21 --dry-run")]
pub struct CancelArgs {
    /// A job, by id or name.
    pub job: String,
    /// Show what would be cancelled, and cancel nothing.
    #[arg(long)]
    pub dry_run: bool,
}

pub async fn run(args: CancelArgs, context: &Context) -> Result<Exit, CommandError> {
    let operations = open_operations(context, "cancel").await?;
    let manifest = operations.job(&args.job).await?;
    let job = &manifest.job;
    let ended = operations.has_ended(job).await?;
    if !ended && !args.dry_run {
        operations.control_job(job, ControlRequest::Cancel).await?;
    }
    let state = match (ended, args.dry_run) {
        (true, _) => "has already ended",
        (_, true) => "would be cancelled",
        _ => "is cancelled; running tasks finish and their results are kept",
    };
    let cancelled = !ended && !args.dry_run;
    let view = serde_json::json!({ "job": job, "cancelled": cancelled, "ended_before": ended, "dry_run": args.dry_run });
    let output = &context.output;
    output.show(&view, || output.line(&format!("{job} {state}")));
    Ok(Exit::nothing_if(ended))
}
