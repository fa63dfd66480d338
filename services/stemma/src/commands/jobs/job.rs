//! `stemma job`: pauses or resumes a job, or changes its priority.

use stemma_engine::jobs::PauseReason;
use stemma_engine::{JobId, Priority, jobs};

use super::JobContext;
use super::job_status::live_progress;
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
        class: JobPriority,
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
    let job_context = JobContext::open(context, "job").await?;
    let (JobAction::Pause { job }
    | JobAction::Resume { job, .. }
    | JobAction::Priority { job, .. }) = &args.what;
    let manifest = job_context.job(job).await?;
    let job = &manifest.job;
    let env = &job_context.env;
    let ports = &job_context.ports;
    if jobs::report(job_context.blobs(), job).await?.is_some() {
        return Err(CommandError::new("job.ended", format!("{job} has ended"))
            .with_next(format!("stemma status {job}")));
    }
    let state = match args.what {
        JobAction::Pause { .. } => {
            jobs::pause(env, ports, job, PauseReason::Person).await?;
            match tasks_under_way(&job_context, job).await {
                Some(tasks) => format!("is paused; {tasks} that are queued or running finish"),
                None => "is paused; tasks that are queued or running finish".into(),
            }
        }
        JobAction::Resume { budget, .. } => {
            if let Some(budget) = budget.budget() {
                jobs::set_budget(env, ports, job, budget).await?;
            }
            jobs::resume(env, ports, job).await?;
            "is resumed".into()
        }
        JobAction::Priority { class, .. } => {
            let class = match class {
                JobPriority::Interactive => Priority::Interactive,
                JobPriority::Bulk => Priority::Bulk,
            };
            jobs::prioritize(env, ports, job, class).await?;
            "has a new priority, for documents that are not opened yet".into()
        }
    };
    if context.output.is_text() {
        context.output.line(&format!("{job} {state}"));
    } else {
        context.output.json(&serde_json::json!({ "job": job, "standing": jobs::load_control(job_context.blobs(), job).await? }));
    }
    Ok(Exit::Done)
}

// `12 tasks`, as its coordinators last reported; `None` if none does.
async fn tasks_under_way(job_context: &JobContext, job: &JobId) -> Option<String> {
    let live = live_progress(job_context).await.ok()?;
    let progress = live.iter().find(|progress| progress.job == *job)?;
    Some(counted(progress.tasks_missing, "task"))
}
