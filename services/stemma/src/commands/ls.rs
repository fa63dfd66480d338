//! `stemma ls`: lists folders, documents and facets.

use serde_json::Value;
use stemma_archive::{DocumentInfo, FolderListing, ListRequest};
use stemma_catalog::document_order::DocumentOrder;
use stemma_catalog::property::Property;

use crate::commands::format::state_word;
use crate::commands::open::{note_unmet, open};
use crate::commands::tree::{self, TreeArgs};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, thousands};

/// List documents by folder, or by company, form, year, status …
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma ls                          documents by folder
  stemma ls 10-K/2022                a folder
  stemma ls /@company                companies, with document counts
  stemma ls /@company/3M/@form/10-K  documents by facts
  stemma ls /@filed/2023/02          by filing year and month
  stemma ls /@fiscal_year/2018..2020 a range
  stemma ls /@status/failed          documents without a tree (reasons: stemma failures)
  stemma ls 3M_2022_10K              the top sections of a document (stemma tree)
  stemma ls / --where '(form=10-K or form=10-Q) and fiscal_year>=2020'
  stemma ls -R --sort -doubt         the trees that may mislead most
  stemma ls -R --jsonl --fields locator,pages")]
pub struct LsArgs {
    /// A folder, a facet path, or a document.
    #[arg(default_value = "/", value_name = "SCOPE")]
    scope: String,
    /// Include subfolders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Only documents that match, from all subfolders; text or JSON.
    #[arg(long = "where", value_name = "FILTER")]
    conditions: Option<String>,
    #[arg(
        long,
        help = sort_help(),
        value_name = "PROPERTY",
        default_value = "path",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    sort: DocumentOrder,
}

fn sort_help() -> String {
    let names: Vec<&str> = Property::orders().map(Property::name).collect();
    format!(
        "Order of the documents: {}; after `-` descending",
        names.join(", ")
    )
}

pub async fn run(args: LsArgs, context: &Context) -> Result<Exit, CommandError> {
    let reader = open(context).await?;
    let output = &context.output;
    if !reader.is_folder(&args.scope)? {
        return tree::run(TreeArgs::top_level(args.scope), context).await;
    }
    let is_filtered = args.conditions.is_some() || args.scope != "/";
    let view = reader.list(&ListRequest {
        filter: args.conditions.clone().map(Value::String),
        recursive: args.recursive,
        order: args.sort,
        ..ListRequest::new(args.scope)
    })?;
    if view.documents.is_empty() {
        output.print(&view, &view.folders, || show(&view, is_filtered, output));
    } else {
        output.print(&view, &view.documents, || show(&view, is_filtered, output));
    }
    if let Some(conditions) = args.conditions.filter(|_| view.total == 0) {
        note_unmet(&conditions, &reader, output)?;
    }
    Ok(Exit::nothing_if(view.total == 0))
}

fn show(view: &FolderListing, is_filtered: bool, output: &Output) {
    for folder in &view.folders {
        let documents = output.dim(&format!("({})", folder.documents));
        output.line(&format!("{}  {documents}", clean(&folder.locator)));
    }
    table(&view.documents).print(output);
    if view.total == 0 {
        output.note(if is_filtered {
            "no document matches"
        } else {
            "no documents; ingest some with: stemma ingest FOLDER"
        });
    }
    let facets: Vec<String> = view
        .axes
        .iter()
        .map(|facet| format!("{} ({})", clean(&facet.locator), facet.values))
        .collect();
    if !facets.is_empty() && view.total > 1 {
        let facets = facets.join(" · ");
        output.note(&output.dim(&format!("{} documents · by {facets}", view.total)));
    }
}

fn table(documents: &[DocumentInfo]) -> Table {
    use Column::{Left, Right, Text};
    let columns = [Left, Text, Left, Left, Right, Right, Right, Right, Left];
    let heads = [
        "DOCUMENT", "COMPANY", "FORM", "YEAR", "LENGTH", "SECTIONS", "TOKENS", "DOUBT", "STATUS",
    ];
    let mut table = Table::with_one_line_rows(columns)
        .with_heads(heads)
        .with_optional([5, 6, 4, 1]);
    for document in documents {
        let facts = document.facts.clone().unwrap_or_default();
        let facts = [facts.issuer, facts.form, facts.fiscal_year];
        let [company, form, year] = facts.map(|fact| fact.map(|fact| fact.value.clone()));
        let length = match (document.pages, document.lines) {
            (Some(pages), _) => Some(format!("{pages} p")),
            (None, lines) => lines.map(|lines| format!("{lines} lines")),
        };
        let mut status = state_word(&document.state);
        if let Some(failure) = &document.failure {
            status += &format!(" ({})", failure.code);
        }
        let cells = [
            Some(document.locator.clone()),
            company,
            form,
            year,
            length,
            document.sections.map(|sections| sections.to_string()),
            document.tokens.map(thousands),
            document.doubt.map(|doubt| format!("{doubt:.2}")),
            Some(status),
        ];
        table.row(cells.map(Option::unwrap_or_default));
    }
    table
}
