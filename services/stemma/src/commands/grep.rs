//! `stemma grep`: lines that match a pattern.

use stemma_query::{GrepOptions, GrepView};

use crate::commands::reading::{marked, open};
use crate::context::{CommandError, Context, Exit};
use crate::output::{Form, Output, clean};
use crate::table::counted;

/// Find lines that match a pattern, with their sections and pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma grep 'cross.currency swaps?' 3M_2022_10K
  stemma grep -i goodwill 3M_2022_10K#item-8
  stemma grep -F '$1,749' /@company/3M -m 20
  stemma grep -c impairment             how many lines, in how many documents")]
pub struct GrepArgs {
    /// A regular expression.
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// A document, a part of one, a folder or an axis path.
    #[arg(value_name = "SCOPE", default_value = "/")]
    scope: String,
    /// Without regard to case.
    #[arg(short, long)]
    ignore_case: bool,
    /// The pattern is text, not an expression.
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Matches to print; reading stops there.
    #[arg(short, long, value_name = "N", default_value_t = 1_000)]
    max_count: usize,
    /// Only count.
    #[arg(short, long)]
    count: bool,
    /// Folders are always searched through; taken for habit's sake.
    #[arg(short, long, hide = true)]
    recursive: bool,
}

/// Runs the command.
pub async fn run(args: GrepArgs, context: &Context) -> Result<Exit, CommandError> {
    let limit = if args.count { stemma_query::MAX_HITS } else { args.max_count };
    let GrepArgs { pattern, ignore_case, fixed_strings: fixed, .. } = args;
    let mut view = open(context).await?.grep(&args.scope, &GrepOptions { pattern, ignore_case, fixed, limit }).await?;
    let (output, found) = (&context.output, view.hits.len());
    if args.count && output.is_text() {
        let more = if view.truncated { "at least " } else { "" };
        output.line(&format!("{more}{} in {}", counted(found, "line"), counted(view.documents_matching, "document")));
        view.hits.clear();
    }
    match output.form {
        Form::Json => output.json(&view),
        Form::JsonLines => output.json(&view.hits),
        Form::Text => show(&view, output),
    }
    if view.documents_without_text > 0 {
        output.note(&format!("not searched: {} without text", counted(view.documents_without_text, "document")));
    }
    Ok(if found == 0 { Exit::Nothing } else { Exit::Done })
}

fn show(view: &GrepView, output: &Output) {
    for hit in &view.hits {
        let label = hit.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let place = match hit.page {
            Some(page) => format!("p {page}{label}"),
            None => format!("line {}", hit.line),
        };
        let text = marked(output, hit.text.trim_end(), &hit.marks);
        output.line(&format!("{} {}: {text}", clean(&hit.locator), output.dim(&clean(&place))));
    }
    if view.truncated && !view.hits.is_empty() {
        output.note(&format!("stopped after {}; more with -m", counted(view.hits.len(), "line")));
    }
}
