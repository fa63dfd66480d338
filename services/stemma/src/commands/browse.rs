//! `stemma browse`: ranks documents by a question.

use stemma_archive::{BrowseHit, BrowseRequest, BrowseResponse, MAX_LIMIT};

use crate::commands::format::{
    excerpt_line, identity, page_or_line_range, short_section_path, show_notes,
};
use crate::commands::open::open_indexed;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::counted;

/// Rank the documents of a folder by a question. Uses no model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma browse / \"supply chain risk\" -R
  stemma browse /@company/3M \"impairment of goodwill\" --where 'fiscal_year>=2020'
  stemma browse /10-K \"revenue by segment\" --where '{\"form\": [\"10-K\", \"10-K/A\"]}'

Ranks documents directly in the folder; with -R also those in subfolders.
Each document comes with its best section; `stemma search` ranks sections.")]
pub struct BrowseArgs {
    /// A folder or facet path.
    #[arg(value_name = "SCOPE")]
    scope: String,
    /// A question or keywords.
    #[arg(value_name = "QUERY")]
    query: String,
    /// Limit to documents that match: 'form=10-K and fiscal_year>=2020', or JSON.
    #[arg(long = "where", value_name = "FILTER")]
    conditions: Option<String>,
    /// Include subfolders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Number of documents to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

pub async fn run(args: BrowseArgs, context: &Context) -> Result<Exit, CommandError> {
    let reader = open_indexed(context).await?;
    let output = &context.output;
    let request = BrowseRequest {
        query: args.query,
        scope: args.scope,
        filter: args.conditions.map(Into::into),
        recursive: args.recursive,
        limit: Some(args.limit.clamp(1, MAX_LIMIT)),
        ..BrowseRequest::default()
    };
    let view = reader.browse(&request).await?;
    output.print(&view, &view.documents, || {
        view.documents.iter().for_each(|hit| show(hit, output));
    });
    show_notes(&view.notes, output);
    output.note(&output.dim(&footer(&view, args.recursive)));
    Ok(Exit::nothing_if(view.documents.is_empty()))
}

fn show(hit: &BrowseHit, output: &Output) {
    let document = &hit.document;
    let best = &hit.best;
    let about = clean(&identity(document).join(" · "));
    output.line(&format!(
        "{:>2} {}  {about}  {:.2}",
        hit.rank,
        output.bold(&clean(&document.locator)),
        hit.score
    ));
    let locator = clean(&best.locator);
    let path = short_section_path(&best.path);
    let place = page_or_line_range(best.pages, best.lines);
    output.line(&format!("   {locator}  {path}  {place}"));
    if !best.excerpt.text.is_empty() {
        let excerpt = &best.excerpt;
        output.line(&excerpt_line(output, &excerpt.text, &excerpt.highlights));
    }
}

fn footer(view: &BrowseResponse, recursive: bool) -> String {
    let mut footer = counted(view.documents_in_scope, "document");
    if view.documents_in_scope == 0 && !recursive {
        footer += " in this folder (-R includes subfolders)";
    }
    if !view.routed.is_empty() {
        let filters: Vec<String> = (view.routed.iter())
            .map(|filter| format!("{}: {}", filter.facet, filter.value))
            .collect();
        footer += &format!(" · {}", clean(&filters.join(", ")));
    }
    footer + " · no model"
}
