//! `stemma items`: shows the Items of a filing.

use stemma_archive::{FilingItems, ItemInfo};

use crate::commands::format::{badge, links_line, page_or_line_range, title_line};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::{Column, Table, thousands};

/// Show the Items of a filing, with their status and pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma items 3M_2022_10K
  stemma items 3M_2022_10K --jsonl --fields id,status,pages

An Item is full, combined with others, by reference (the arrow shows where), on pages found
through a cross-reference index (cross index), a stub, or absent. Without content it is none,
not applicable, reserved or omitted, as the filer says. `?` marks an Item whose start
or end could not be verified.")]
pub struct ItemsArgs {
    /// A document.
    #[arg(value_name = "LOCATOR")]
    locator: String,
}

pub async fn run(args: ItemsArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.items(&args.locator).await?;
    let output = &context.output;
    output.print(&view, &view.items, || show(&view, output));
    Ok(Exit::nothing_if(view.items.is_empty()))
}

fn show(view: &FilingItems, output: &Output) {
    let document = &view.document;
    output.line(&title_line(document, output));
    table(&view.items, output);
    if view.items.is_empty() {
        output.note("no Items: the form of this document is unknown or has no Items");
    }
}

pub fn table(items: &[ItemInfo], output: &Output) {
    use Column::{Left, Right, Text};
    let mut table = Table::with_one_line_rows([Left, Text, Left, Left, Right, Text]);
    for item in items {
        let doubt = if item.boundary_unverifiable { " ?" } else { "" };
        let name = item.locator.as_ref().or(item.id.as_ref());
        table.row([
            name.cloned().unwrap_or_default(),
            item.title.clone(),
            format!("{}{doubt}", badge(item.status)),
            page_or_line_range(item.pages, None),
            Some(item.tokens)
                .filter(|tokens| *tokens > 0)
                .map_or_else(String::new, thousands),
            links_line(&item.content),
        ]);
    }
    table.print(output);
}
