//! `stemma job`: pauses or resumes a job, or changes its priority.

use stemma_operations::{ControlRequest, Operations};
use stemma_store::{JobId, Priority};

use super::open_operations;
use crate::context::Context;
use crate::cost::BudgetArgs;
use crate::error::{CommandError, Exit};
use crate::table::counted;

/// Pause or resume a job, or change its priority.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma job pause nightly-2026-11-21
  stemma job resume nightly-2026-11-21
  stemma job resume nightly-2026-11-21 --budget 20
  stemma job priority j-1a1fba360ee4aa2 interactive")]
pub struct JobArgs {
    #[command(subcommand)]
    what: JobAction,
}

#[derive(Debug, clap::Subcommand)]
enum JobAction {
    /// Start no new tasks of the job; running tasks finish.
    Pause {
        /// A job, by id or name.
        job: String,
    },
    /// Resume the job, optionally with a new budget.
    Resume {
        /// A job, by id or name.
        job: String,
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Change the priority. Documents of interactive jobs are opened first.
    Priority {
        /// A job, by id or name.
        job: String,
        /// The new priority.
        priority: JobPriority,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum JobPriority {
    /// A person waits for it.
    Interactive,
    /// Background work.
    Bulk,
}

pub async fn run(args: JobArgs, context: &Context) -> Result<Exit, CommandError> {
    let operations = open_operations(context, "job").await?;
    let (JobAction::Pause { job }
    | JobAction::Resume { job, .. }
    | JobAction::Priority { job, .. }) = &args.what;
    let manifest = operations.job(job).await?;
    let job = &manifest.job;
    let (request, state) = match args.what {
        JobAction::Pause { .. } => {
            let tasks = tasks_under_way(&operations, job).await;
            let tasks = tasks.unwrap_or_else(|| "tasks".into());
            (
                ControlRequest::Pause,
                format!("is paused; {tasks} that are queued or running finish"),
            )
        }
        JobAction::Resume { budget, .. } => {
            let budget = budget.budget();
            (ControlRequest::Resume { budget }, "is resumed".into())
        }
        JobAction::Priority { priority, .. } => {
            let priority = match priority {
                JobPriority::Interactive => Priority::Interactive,
                JobPriority::Bulk => Priority::Bulk,
            };
            let state = "has a new priority, for documents that are not opened yet";
            (ControlRequest::Priority { priority }, state.into())
        }
    };
    let control = operations.control_job(job, request).await?;
    let view = serde_json::json!({ "job": job, "standing": control });
    let output = &context.output;
    output.show(&view, || output.line(&format!("{job} {state}")));
    Ok(Exit::Done)
}

// `12 tasks`, as its coordinators last reported; `None` if none does.
async fn tasks_under_way(operations: &Operations, job: &JobId) -> Option<String> {
    let live = operations.live_progress().await.ok()?;
    let progress = live.iter().find(|progress| progress.job == *job)?;
    Some(counted(progress.tasks_missing, "task"))
}
