//! `stemma failures`: what failed, and why.

use stemma_query::FailuresView;

use crate::commands::reading::open;
use crate::context::{CommandError, Context, Exit};
use crate::output::{Form, Output, clean};
use crate::table::{Align, Table, counted};

/// List documents that failed, with reasons and remedies.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma failures                one by one
  stemma failures --by reason    grouped, with an example and what to do
  stemma failures 8-K/2022       only in a folder")]
pub struct FailuresArgs {
    /// A document, folder or axis path.
    #[arg(value_name = "SCOPE", default_value = "/")]
    scope: String,
    /// Group them.
    #[arg(long, value_enum)]
    by: Option<By>,
}

/// What failures are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The code of the failure.
    Reason,
}

/// Runs the command.
pub async fn run(args: FailuresArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.failures(&args.scope)?;
    let output = &context.output;
    match (output.form, args.by) {
        (Form::Json, _) => output.json(&view),
        (Form::JsonLines, Some(_)) => output.json(&view.reasons),
        (Form::JsonLines, None) => output.json(&view.failures),
        (Form::Text, Some(_)) => show_reasons(&view, output),
        (Form::Text, None) => show(&view, output),
    }
    if view.total == 0 {
        output.note("no failures");
    }
    Ok(if view.total == 0 { Exit::Nothing } else { Exit::Done })
}

fn show(view: &FailuresView, output: &Output) {
    let mut table = Table::new(&[(Align::Left, 60), (Align::Left, 0), (Align::Left, 0)]);
    for row in &view.failures {
        table.row([row.locator.clone(), row.failure.code.clone(), row.failure.message.clone()]);
    }
    table.lines().iter().for_each(|line| output.line(line));
    for reason in view.reasons.iter().filter(|reason| reason.next.is_some()) {
        let next = reason.next.as_deref().unwrap_or_default();
        output.note(&output.dim(&format!("{}: {}", clean(&reason.code), clean(next))));
    }
}

fn show_reasons(view: &FailuresView, output: &Output) {
    for reason in &view.reasons {
        output.line(&format!("{}  {}", output.bold(&clean(&reason.code)), counted(reason.documents, "document")));
        output.line(&format!("  e.g. {}: {}", clean(&reason.example), clean(&reason.message)));
        if let Some(next) = &reason.next {
            output.line(&format!("  next {}", clean(next)));
        }
    }
}
