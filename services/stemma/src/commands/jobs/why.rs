//! `stemma why`: explains the state of a document or job.

use stemma_archive::StateExplanation;
use stemma_engine::diagnosis::Diagnosis;
use stemma_operations::text::duration;
use stemma_operations::{Operations, WhyReport};

use super::observe_operations;
use crate::commands::format::{state_word, word};
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
    if context.output.is_text() {
        show(&answer, &operations, &context.output);
    } else {
        context.output.json(&answer);
    }
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
        show_diagnosis(diagnosis, operations.env.now_ms(), output);
    }
}

fn show_document(view: &StateExplanation, operations: &Operations, output: &Output) {
    output.line(&format!(
        "{} — {}",
        output.bold(&state_word(&view.document.state)),
        clean(&view.cause)
    ));
    for gap in &view.gaps {
        let pages = gap
            .pages
            .map(|pages| format!(" p {pages}"))
            .unwrap_or_default();
        output.line(&format!(
            "gap     {}{pages}: {}",
            gap.code,
            clean(&gap.detail)
        ));
    }
    if view.document.sections.is_none() {
        output.line(&format!("stored  {} results", view.artifacts));
        match &operations.writer() {
            Some(writer) => output.line(&format!(
                "writer  `stemma {}` (process {}) is working on this store",
                clean(&writer.command),
                writer.pid
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
    let since = diagnosis
        .since_ms
        .map(|at| format!(" {}", duration(now.saturating_sub(at) as f64 / 1e3)))
        .unwrap_or_default();
    output.line(&format!(
        "{}{since} — {}",
        output.bold(&word(&diagnosis.cause)),
        clean(&diagnosis.says)
    ));
    if let Some(owner) = &diagnosis.owner {
        output.line(&format!("owner   {}", clean(owner)));
    }
    let at = diagnosis
        .next_ms
        .map(|at| format!(", in {}", duration(at.saturating_sub(now) as f64 / 1e3)));
    output.line(&format!(
        "next    {}{}",
        clean(&diagnosis.next),
        at.unwrap_or_default()
    ));
    if !diagnosis.not_the_cause.is_empty() {
        output.line(&format!(
            "not the cause: {}",
            clean(&diagnosis.not_the_cause.join(", "))
        ));
    }
    if let Some(remedy) = &diagnosis.remedy {
        output.line(&format!("remedy  {}", clean(remedy)));
    }
}
