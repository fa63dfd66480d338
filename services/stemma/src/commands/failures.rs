//! `stemma failures`: lists failed documents with reasons.

use stemma_archive::FailureReport;
use stemma_operations::JobFailures;

use crate::commands::jobs::observe_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, counted, thousands};

// As many as a report names.
const MAX_LISTED: usize = 1_000;

/// List failed documents, with reasons and next steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma failures                one by one
  stemma failures --by reason    grouped by reason, with examples and next steps
  stemma failures 8-K/2022       only in a folder
  stemma failures j-1a1fba36…    of a job, from its report")]
pub struct FailuresArgs {
    /// A document, folder or facet path, or a job by id or name.
    #[arg(value_name = "SCOPE|JOB", default_value = "/")]
    scope: String,
    /// Group failures.
    #[arg(long, value_enum)]
    by: Option<FailureGrouping>,
}

/// The key by which failures are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailureGrouping {
    /// The code of the failure.
    Reason,
}

pub async fn run(args: FailuresArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    let operations = observe_operations(context, "failures").await?;
    if let Some(manifest) = operations.find(&args.scope).await? {
        let view = operations.job_failures(&manifest, MAX_LISTED).await?;
        print_job(&view, args.by, output);
        return Ok(Exit::Done);
    }
    let view = operations
        .archive()
        .await?
        .failures(&args.scope, MAX_LISTED)?;
    match args.by {
        Some(_) => output.print(&view, &view.reasons, || show_reasons(&view, output)),
        None => output.print(&view, &view.failures, || show(&view, output)),
    }
    let listed = view.failures.len();
    if view.total == 0 {
        output.note("no failures");
    } else if view.total > listed {
        output.note(&format!(
            "{} more failed: this is about the first {} by path; name a folder to see others",
            thousands((view.total - listed) as u64),
            thousands(listed as u64)
        ));
    }
    Ok(Exit::Done)
}

fn print_job(view: &JobFailures, by: Option<FailureGrouping>, output: &Output) {
    match by {
        Some(_) => output.print(view, &view.reasons, || show_job(view, by, output)),
        None => output.print(view, &view.failures, || show_job(view, by, output)),
    }
    if let Some(note) = job_note(view) {
        output.note(&note);
    }
}

// What the counts do not say.
fn job_note(view: &JobFailures) -> Option<String> {
    if view.complete {
        return (view.total == 0).then(|| "no failures".into());
    }
    let uncounted = match view.uncounted {
        Some(0) => "none failed since",
        Some(more) => &format!("{} failed since", counted(more, "document")),
        None => "later failures are not counted yet",
    };
    Some(format!(
        "the job has not ended; its counts are from its last checkpoint, {uncounted}; `stemma failures` lists all failed documents"
    ))
}

fn show_job(view: &JobFailures, by: Option<FailureGrouping>, output: &Output) {
    for reason in &view.reasons {
        output.line(&format!(
            "{}  {}",
            output.bold(&clean(&reason.code)),
            counted(reason.documents, "document")
        ));
        if let Some(message) = &reason.message {
            output.line(&format!("  e.g. {}", clean(message)));
        }
        if let Some(next) = &reason.next {
            output.line(&format!("  next {}", clean(next)));
        }
    }
    if by.is_none() {
        for failed in &view.failures {
            output.line(&format!(
                "{}  {}  {}",
                clean(failed.path.as_ref().unwrap_or(&failed.run)),
                clean(&failed.failure.code),
                clean(&failed.failure.message)
            ));
        }
    }
}

fn show(view: &FailureReport, output: &Output) {
    let mut table = Table::new([Column::Left, Column::Left, Column::Text]);
    for row in &view.failures {
        table.row([&row.locator, &row.failure.code, &row.failure.message]);
    }
    table.print(output);
    for reason in view.reasons.iter().filter(|reason| reason.next.is_some()) {
        let next = reason.next.as_deref().unwrap_or_default();
        output.note(&output.dim(&format!("{}: {}", clean(&reason.code), clean(next))));
    }
}

fn show_reasons(view: &FailureReport, output: &Output) {
    for reason in &view.reasons {
        output.line(&format!(
            "{}  {}",
            output.bold(&clean(&reason.code)),
            counted(reason.documents, "document")
        ));
        output.line(&format!(
            "  e.g. {}: {}",
            clean(&reason.example),
            clean(&reason.message)
        ));
        if let Some(next) = &reason.next {
            output.line(&format!("  next {}", clean(next)));
        }
    }
}
