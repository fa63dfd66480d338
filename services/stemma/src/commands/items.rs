//! `stemma items`: shows the Items of a filing.

use stemma_archive::{FilingItems, ItemInfo};

use crate::commands::open::{badge, identity, links_line, open, page_or_line_range};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, OutputFormat, clean};
use crate::table::{Align, Table, thousands};

/// Show the Items of a filing, with their status and pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma items 3M_2022_10K
  stemma items 3M_2022_10K --jsonl --fields id,status,pages

An Item is full, combined with others, by reference (the arrow shows where), on pages found through a
cross-reference index (cross index), a stub, or absent. `?` marks an Item whose start or end could not
be verified.")]
pub struct ItemsArgs {
    /// A document.
    #[arg(value_name = "LOCATOR")]
    locator: String,
}

pub async fn run(args: ItemsArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.items(&args.locator).await?;
    let output = &context.output;
    match output.format {
        OutputFormat::Json => output.json(&view),
        OutputFormat::JsonLines => output.json(&view.items),
        OutputFormat::Text => show(&view, output),
    }
    Ok(if view.items.is_empty() {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

fn show(view: &FilingItems, output: &Output) {
    let document = &view.document;
    output.line(&format!(
        "{}  {}",
        output.bold(&clean(&document.name)),
        clean(&identity(document).join(" · "))
    ));
    table(&view.items, output);
    if view.items.is_empty() {
        output.note("no Items: the form of this document is unknown or has no Items");
    }
}

pub fn table(items: &[ItemInfo], output: &Output) {
    let columns = [
        (Align::Left, 0),
        (Align::Left, 44),
        (Align::Left, 0),
        (Align::Left, 0),
        (Align::Right, 0),
        (Align::Left, 0),
    ];
    let mut table = Table::new(&columns);
    for item in items {
        let doubt = if item.boundary_unverifiable { " ?" } else { "" };
        let tokens = if item.tokens == 0 {
            String::new()
        } else {
            thousands(item.tokens)
        };
        let name = item
            .locator
            .clone()
            .or_else(|| item.id.clone())
            .unwrap_or_default();
        let badge = format!("{}{doubt}", badge(item.status, item.nothing));
        table.row([
            name,
            item.title.clone(),
            badge,
            page_or_line_range(item.pages, None),
            tokens,
            links_line(&item.content),
        ]);
    }
    for line in table.lines() {
        output.line(line.trim_end());
    }
}
