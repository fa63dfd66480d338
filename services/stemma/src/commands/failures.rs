//! `stemma failures`: lists failed documents with reasons.

use stemma_archive::FailureReport;
use stemma_operations::JobFailures;

use crate::commands::jobs::observe_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::failure_groups::{self, FailureGroup, FailureLine};
use crate::output::{Output, clean};
use crate::table::{counted, thousands};

// As many as a report names.
const MAX_LISTED: usize = 1_000;

/// List failed documents, with reasons and next steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma failures                equal ones as one line, with examples and the next step
  stemma failures --json         each with its document
  stemma failures --by reason    counted by code
  stemma failures 8-K/2022       only in a folder
  stemma failures j-1a1fba36…    of a job, from its report")]
pub struct FailuresArgs {
    /// A document, folder or facet path, or a job by id or name.
    #[arg(value_name = "SCOPE|JOB", default_value = "/")]
    scope: String,
    /// Count failures.
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
            "{} more failed: only the first {} by path are shown; name a folder to see others",
            thousands(view.total - listed),
            thousands(listed)
        ));
    }
    Ok(Exit::Done)
}

fn print_job(view: &JobFailures, by: Option<FailureGrouping>, output: &Output) {
    match by {
        Some(_) => output.print(view, &view.reasons, || show_job_reasons(view, output)),
        None => output.print(view, &view.failures, || show_job_failures(view, output)),
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

fn show_job_reasons(view: &JobFailures, output: &Output) {
    for reason in &view.reasons {
        let next = reason.next.as_deref();
        show_reason(
            &reason.code,
            reason.documents,
            reason.message.as_deref(),
            next,
            output,
        );
    }
}

fn show_reason(
    code: &str,
    documents: impl TryInto<u64>,
    example: Option<&str>,
    next: Option<&str>,
    output: &Output,
) {
    let code = output.bold(&clean(code));
    output.line(&format!("{code}  {}", counted(documents, "document")));
    for (label, text) in [("e.g.", example), ("next", next)] {
        if let Some(text) = text {
            output.line(&format!("  {label} {}", clean(text)));
        }
    }
}

fn show_groups<'a>(failures: impl Iterator<Item = FailureLine<'a>>, output: &Output) {
    let groups = failure_groups::group(failures);
    for line in groups.iter().flat_map(FailureGroup::lines) {
        output.line(&line);
    }
    if groups.iter().any(FailureGroup::leaves_names_out) {
        output.note("all documents: the same command with --json");
    }
}

fn show(view: &FailureReport, output: &Output) {
    let failures = view.failures.iter().map(|row| FailureLine {
        name: &row.locator,
        code: &row.failure.code,
        message: &row.failure.message,
        next: row.failure.next.as_deref(),
    });
    show_groups(failures, output);
}

fn show_job_failures(view: &JobFailures, output: &Output) {
    let failures = view.failures.iter().map(|failed| FailureLine {
        name: failed.path.as_ref().unwrap_or(&failed.run),
        code: &failed.failure.code,
        message: &failed.failure.message,
        next: failed.failure.next.as_deref(),
    });
    show_groups(failures, output);
    let unlisted = view.total.saturating_sub(view.failures.len() as u64);
    if unlisted > 0 {
        let unlisted = thousands(unlisted);
        output.note(&format!("{unlisted} more failed: `--by reason` counts all"));
    }
}

fn show_reasons(view: &FailureReport, output: &Output) {
    for reason in &view.reasons {
        let example = format!("{}: {}", reason.example, reason.message);
        let next = reason.next.as_deref();
        show_reason(&reason.code, reason.documents, Some(&example), next, output);
    }
}
