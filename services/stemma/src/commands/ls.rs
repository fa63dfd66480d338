//! `stemma ls`: folders, documents and axes.

use stemma_query::{DocumentView, ListView};

use crate::commands::reading::{open, word};
use crate::context::{CommandError, Context, Exit};
use crate::output::{Form, Output, clean};
use crate::table::{Align, Table, thousands};

/// List documents by folder, or by company, form, year, status …
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma ls                          what was ingested, folder by folder
  stemma ls 10-K/2022                a folder
  stemma ls /@company                companies, with their numbers of documents
  stemma ls /@company/3M/@form/10-K  documents by what they say about themselves
  stemma ls /@status/failed          what has no tree, and why: stemma failures
  stemma ls -R --jsonl --fields locator,pages")]
pub struct LsArgs {
    /// A folder, an axis path, or a document.
    #[arg(default_value = "/", value_name = "SCOPE")]
    scope: String,
    /// Documents of folders below, too.
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// Runs the command.
pub async fn run(args: LsArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.list(&args.scope, args.recursive)?;
    let output = &context.output;
    match output.form {
        Form::Json => output.json(&view),
        Form::JsonLines if view.documents.is_empty() => output.json(&view.folders),
        Form::JsonLines => output.json(&view.documents),
        Form::Text => show(&view, output),
    }
    Ok(if view.total == 0 { Exit::Nothing } else { Exit::Done })
}

fn show(view: &ListView, output: &Output) {
    for folder in &view.folders {
        output.line(&format!("{}  {}", clean(&folder.locator), output.dim(&format!("({})", folder.documents))));
    }
    for line in table(&view.documents).lines() {
        output.line(&line);
    }
    if view.total == 0 {
        output.note("no documents here; ingest some with: stemma ingest FOLDER");
    }
    let axes: Vec<String> =
        view.axes.iter().map(|axis| format!("{} ({})", clean(&axis.locator), axis.values)).collect();
    if !axes.is_empty() && view.total > 1 {
        output.note(&output.dim(&format!("{} documents · by {}", view.total, axes.join(" · "))));
    }
}

fn table(documents: &[DocumentView]) -> Table {
    let columns = [
        (Align::Left, 60),
        (Align::Left, 28),
        (Align::Left, 16),
        (Align::Left, 0),
        (Align::Right, 0),
        (Align::Right, 0),
        (Align::Right, 0),
        (Align::Left, 0),
    ];
    let mut table = Table::new(&columns);
    for document in documents {
        let facts = document.facts.clone().unwrap_or_default();
        let value = |fact: Option<stemma_document::Fact>| fact.map(|fact| fact.value).unwrap_or_default();
        let length = match (document.pages, document.lines) {
            (Some(pages), _) => format!("{pages} p"),
            (None, Some(lines)) => format!("{lines} lines"),
            _ => String::new(),
        };
        let failure = document.failure.as_ref().map(|failure| format!(" ({})", failure.code)).unwrap_or_default();
        table.row([
            document.locator.clone(),
            value(facts.issuer),
            value(facts.form),
            value(facts.fiscal_year),
            length,
            document.sections.map(|sections| format!("{sections} sections")).unwrap_or_default(),
            document.tokens.map(|tokens| format!("{} tok", thousands(tokens))).unwrap_or_default(),
            format!("{}{failure}", word(&document.state)),
        ]);
    }
    table
}
