//! `stemma why`: why a document is in its state.

use crate::commands::reading::{open, word};
use crate::context::{CommandError, Context, Exit};
use crate::output::clean;

/// Say why a document is in its state, what is kept, and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma why BROKEN_8K
  stemma failures            all that failed, grouped by reason")]
pub struct WhyArgs {
    /// A document.
    #[arg(value_name = "DOC")]
    locator: String,
}

/// Runs the command.
pub async fn run(args: WhyArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.why(&args.locator).await?;
    let output = &context.output;
    if !output.is_text() {
        output.json(&view);
        return Ok(Exit::Done);
    }
    output.line(&format!("{} — {}", output.bold(&word(&view.document.state)), clean(&view.cause)));
    for gap in &view.gaps {
        let pages = gap.pages.map(|pages| format!(" p {pages}")).unwrap_or_default();
        output.line(&format!("gap     {}{pages}: {}", gap.code, clean(&gap.detail)));
    }
    if view.document.sections.is_none() {
        output.line(&format!("kept    {} results", view.artifacts));
        match context.reader().await?.writer() {
            Some(writer) => output.line(&format!(
                "writer  `stemma {}` (process {}) is working on this store",
                clean(&writer.command),
                writer.pid
            )),
            None => output.line("writer  none: no process is working on this store"),
        }
    }
    if let Some(next) = &view.next {
        output.line(&format!("next    {}", clean(next)));
    }
    Ok(Exit::Done)
}
