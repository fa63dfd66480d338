//! `stemma grep`: finds lines that match a pattern.

use stemma_archive::{GrepHit, GrepOptions, GrepResponse, GrepSectionsResponse};

use crate::commands::format::{highlight, page_or_line};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::counted;

// Lines of one document, and sections of many, where no number is given.
const LINES: usize = 1_000;
const SECTIONS: usize = 20;

/// Find lines that match a pattern in one document, or in many.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma grep 'cross.currency swaps?'    in all documents
  stemma grep 'cross.currency swaps?' 3M_2022_10K
  stemma grep -i goodwill 3M_2022_10K#item-8
  stemma grep -F '$1,749' /@company/3M
  stemma grep -c impairment              count lines and documents

In one document or a part of it, prints the matching lines. In a folder or facet path, or with -r,
shows the sections with the most matches first, each with its first lines.")]
pub struct GrepArgs {
    /// A regular expression.
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// A document or a part of it, a folder or a facet path.
    #[arg(value_name = "SCOPE", default_value = "/")]
    scope: String,
    /// Ignore case.
    #[arg(short, long)]
    ignore_case: bool,
    /// Treat the pattern as plain text.
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Lines to print [default: 1000]; in a folder, sections [default: 20].
    #[arg(short, long, value_name = "N")]
    max_count: Option<usize>,
    /// Only print counts.
    #[arg(short, long)]
    count: bool,
    /// List sections also for one document.
    #[arg(short, long)]
    recursive: bool,
}

pub async fn run(args: GrepArgs, context: &Context) -> Result<Exit, CommandError> {
    let reader = open(context).await?;
    let output = &context.output;
    let lists_sections = !args.count && (args.recursive || reader.is_folder(&args.scope)?);
    let options = GrepOptions {
        pattern: args.pattern,
        ignore_case: args.ignore_case,
        fixed: args.fixed_strings,
        limit: match args.max_count {
            _ if args.count => stemma_archive::MAX_HITS,
            Some(limit) => limit,
            None if lists_sections => SECTIONS,
            None => LINES,
        },
    };
    if lists_sections {
        let view = reader.grep_sections(&args.scope, &options).await?;
        output.print(&view, &view.sections, || show_sections(&view, output));
        note_unread(view.documents_without_text, output);
        return Ok(Exit::nothing_if(view.sections.is_empty()));
    }
    let mut view = reader.grep(&args.scope, &options).await?;
    let hit_count = view.hits.len();
    if args.count && output.is_text() {
        let more = if view.truncated { "at least " } else { "" };
        let documents = counted(view.documents_matching, "document");
        output.line(&format!(
            "{more}{} in {documents}",
            counted(hit_count, "line")
        ));
        view.hits.clear();
    }
    output.print(&view, &view.hits, || show(&view, output));
    note_unread(view.documents_without_text, output);
    Ok(Exit::nothing_if(hit_count == 0))
}

fn note_unread(documents: usize, output: &Output) {
    if documents > 0 {
        let documents = counted(documents, "document");
        output.note(&format!("not searched: {documents} without text"));
    }
}

fn show(view: &GrepResponse, output: &Output) {
    for hit in &view.hits {
        output.line(&format!("{} {}", clean(&hit.locator), line(hit, output)));
    }
    if view.truncated && !view.hits.is_empty() {
        let lines = counted(view.hits.len(), "line");
        output.note(&format!("stopped after {lines}; more with -m"));
    }
}

fn show_sections(view: &GrepSectionsResponse, output: &Output) {
    for section in &view.sections {
        let locator = output.bold(&clean(&section.locator));
        let matches = output.dim(&format!("({})", section.matches));
        output.line(&format!("{locator}  {}  {matches}", clean(&section.title)));
        for hit in &section.first {
            output.line(&format!("   {}", line(hit, output)));
        }
    }
    let least = if view.truncated { "at least " } else { "" };
    let all = format!(
        "{least}{} in {}",
        counted(view.sections_matching, "section"),
        counted(view.documents_matching, "document")
    );
    output.note(&output.dim(&format!("{all} of {}; more with -m", view.documents_read)));
}

fn line(hit: &GrepHit, output: &Output) -> String {
    let mut place = page_or_line(hit.page, hit.line);
    if let (Some(_), Some(label)) = (hit.page, &hit.label) {
        place += &format!(" ({label})");
    }
    let text = highlight(output, hit.text.trim_end(), &hit.marks);
    format!("{}: {text}", output.dim(&clean(&place)))
}
