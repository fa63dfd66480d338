//! `stemma why`: explains the state of a document or job.

use stemma_archive::StateExplanation;
use stemma_engine::diagnosis::Diagnosis;
use stemma_operations::text::duration;
use stemma_operations::{Operations, StoreWriter, WhyReport};

use super::observe_operations;
use crate::commands::format::{state_word, word};
use crate::commands::tree::gap_line;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};

/// Explain the state of a document or job, and what to do next.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Uses rules on the ledger, lanes, running processes and records. Calls no model.

Examples:
  stemma why BROKEN_8K
  stemma why j-1a1fba360ee4aa2
  stemma failures            all failures")]
pub struct WhyArgs {
    /// A document, or a job by id or name.
    #[arg(value_name = "DOC|JOB")]
    locator: String,
}

pub async fn run(args: WhyArgs, context: &Context) -> Result<Exit, CommandError> {
    let operations = observe_operations(context, "why").await?;
    let answer = operations.why(&args.locator).await?;
    let output = &context.output;
    output.show(&answer, || show(&answer, &operations, output));
    Ok(Exit::Done)
}

fn show(answer: &WhyReport, operations: &Operations, output: &Output) {
    if let Some(view) = &answer.document {
        show_document(view, operations, output);
    }
    let over = answer
        .document
        .as_ref()
        .is_some_and(|view| view.document.sections.is_some() && view.newer_version.is_none());
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| !over) {
        show_diagnosis(diagnosis, operations.ports.env.now_ms(), output);
    }
}

fn show_document(view: &StateExplanation, operations: &Operations, output: &Output) {
    let state = output.bold(&state_word(&view.document.state));
    output.line(&format!("{state} — {}", clean(&view.cause)));
    for gap in &view.gaps {
        output.line(&format!("gap     {}", gap_line(gap)));
    }
    if view.document.sections.is_none() {
        output.line(&format!("stored  {} results", view.artifacts));
        match &operations.writer() {
            Some(StoreWriter { command, pid, .. }) => output.line(&format!(
                "writer  `stemma {}` (process {pid}) is working on this store",
                clean(command)
            )),
            None if !operations.is_live => {
                output.line("writer  none: no process is working on this store");
            }
            None => {}
        }
    }
    if let Some(next) = &view.next {
        output.line(&format!("next    {}", clean(next)));
    }
}

fn show_diagnosis(diagnosis: &Diagnosis, now: u64, output: &Output) {
    let mut line = output.bold(&word(&diagnosis.cause));
    if let Some(at) = diagnosis.since_ms {
        line += &format!(" {}", duration(now.saturating_sub(at) as f64 / 1e3));
    }
    output.line(&format!("{line} — {}", clean(&diagnosis.says)));
    if let Some(owner) = &diagnosis.owner {
        output.line(&format!("owner   {}", clean(owner)));
    }
    let mut next = clean(&diagnosis.next);
    if let Some(at) = diagnosis.next_ms {
        next += &format!(", in {}", duration(at.saturating_sub(now) as f64 / 1e3));
    }
    output.line(&format!("next    {next}"));
    if !diagnosis.not_the_cause.is_empty() {
        let others = clean(&diagnosis.not_the_cause.join(", "));
        output.line(&format!("not the cause: {others}"));
    }
    if let Some(remedy) = &diagnosis.remedy {
        output.line(&format!("remedy  {}", clean(remedy)));
    }
}
