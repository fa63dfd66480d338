//! `stemma search`: sections that fit a question.

use std::time::Instant;

use stemma_query::{HitView, SearchOptions, SearchView};

use crate::commands::reading::{marked, open_indexed, span};
use crate::context::{CommandError, Context, Exit};
use crate::output::{Form, Output, clean};
use crate::table::counted;

/// Find the sections that fit a question best. No model is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma search \"hedging of foreign currency\"
  stemma search \"hedging of foreign currency\" --in /@company/3M --item 7A -n 3
  stemma search \"R&D expense\" --in 3M_2022_10K --json")]
pub struct SearchArgs {
    /// A question, or key words.
    #[arg(value_name = "QUERY")]
    query: String,
    /// Only in this document, folder or axis path; may be given more than once.
    #[arg(long = "in", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Only in this Item: 1A, II.1A.
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// Sections to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Documents to read at most, those first whose names and descriptions fit; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 500)]
    max_documents: usize,
}

/// Runs the command.
pub async fn run(args: SearchArgs, context: &Context) -> Result<Exit, CommandError> {
    let started = Instant::now();
    let SearchArgs { query, scopes, item, limit, max_documents } = args;
    let options = SearchOptions { scopes, item, limit, max_documents, ..SearchOptions::default() };
    let view = open_indexed(context).await?.search(&query, &options).await?;
    let output = &context.output;
    match output.form {
        Form::Json => output.json(&view),
        Form::JsonLines => output.json(&view.hits),
        Form::Text => view.hits.iter().for_each(|hit| show(hit, output)),
    }
    output.note(&output.dim(&footer(&view, started.elapsed().as_millis())));
    Ok(if view.hits.is_empty() { Exit::Nothing } else { Exit::Done })
}

fn show(hit: &HitView, output: &Output) {
    let path: Vec<String> = hit.path.iter().map(|title| clean(title)).collect();
    let place = match hit.best_pages.first() {
        // The best page says more than the span of a long section.
        Some(best) if hit.pages.is_some_and(|(start, end)| end > start + 1) => {
            let label = best.label.as_ref().map(|label| format!(", printed {label}")).unwrap_or_default();
            format!("{} (best p {}{label})", span(hit.pages, None), best.page)
        }
        _ => span(hit.pages, hit.lines),
    };
    let (locator, path) = (output.bold(&clean(&hit.locator)), path.join(" › "));
    output.line(&format!("{:>2} {locator}  {path}  {}  {:.2}", hit.rank, clean(&place), hit.score));
    if !hit.excerpt.text.is_empty() {
        output.line(&format!("   “{}”", marked(output, &hit.excerpt.text, &hit.excerpt.marks)));
    }
}

fn footer(view: &SearchView, millis: u128) -> String {
    let searched = &view.searched;
    let documents = match searched.routed_by {
        Some(by) => {
            format!("read {} of {} by {by} (--max-documents)", searched.documents_read, searched.documents_in_scope)
        }
        None => counted(searched.documents_read, "document"),
    };
    let without = match searched.documents_without_text {
        0 => String::new(),
        n => format!(" · {n} without text"),
    };
    let found = if view.hits.is_empty() { "nothing found · " } else { "" };
    format!("{found}{documents} · {}{without} · {millis} ms · no model", counted(searched.sections, "section"))
}
