//! `stemma tables` and `stemma table`: list the tables of a document, and show one.

use clap::ValueEnum;
use stemma_archive::{TableContent, TableInfo};

use crate::commands::format::{page_or_line_range, title_line};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::{Column, Table};

/// List the tables of a document or of a part of it, with unit and pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma tables 3M_2022_10K
  stemma tables '3M_2022_10K#item-7'
  stemma tables 3M_2022_10K --jsonl --fields locator,title,unit,pages

Tables are read from rows of figures.")]
pub struct TablesArgs {
    /// A document, or a section, an Item or pages of it.
    #[arg(value_name = "LOCATOR")]
    locator: String,
}

/// Show a table of a document.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma table '3M_2022_10K#t12'
  stemma table '3M_2022_10K#t12' --format csv > balance-sheet.csv
  stemma table '3M_2022_10K#t12' --json

CSV has the period of each column below its head where one was read. JSON has the exact number of each
cell without scale, and its place on a page.")]
pub struct TableArgs {
    /// A table, as `stemma tables` prints it.
    #[arg(value_name = "LOCATOR")]
    locator: String,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    /// Aligned columns.
    Text,
    /// Comma-separated values.
    Csv,
    /// A Markdown table.
    Md,
}

pub async fn run_list(args: TablesArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.tables(&args.locator).await?;
    let output = &context.output;
    output.print(&view, &view.tables, || {
        output.line(&title_line(&view.document, output));
        list(&view.tables, output);
    });
    Ok(Exit::nothing_if(view.tables.is_empty()))
}

fn list(tables: &[TableInfo], output: &Output) {
    use Column::{Left, Right, Text};
    let mut table = Table::with_one_line_rows([Left, Text, Text, Right, Left])
        .with_heads(["TABLE", "TITLE", "IN", "SIZE", "PAGES"])
        .with_optional([2]);
    for info in tables {
        let pages = page_or_line_range(info.pages, info.lines);
        table.row([
            info.locator.clone(),
            info.title.clone().unwrap_or_default(),
            info.unit.clone().unwrap_or_default(),
            format!("{} × {}", info.rows, info.columns.len()),
            pages,
        ]);
    }
    table.print(output);
    if tables.is_empty() {
        output.note("no tables: no rows of figures were found in this document");
    }
}

pub async fn run_one(args: TableArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.table(&args.locator).await?;
    let output = &context.output;
    let text = match args.format {
        TableFormat::Csv => Some(csv_of(&view)?),
        TableFormat::Md => Some(view.table.to_string()),
        TableFormat::Text => None,
    };
    output.print(&view, &view.table.rows, || match text {
        Some(text) => output.line(text.trim_end()),
        None => show(&view, output),
    });
    Ok(Exit::Done)
}

fn show(view: &TableContent, output: &Output) {
    let content = &view.table;
    let title = [content.title.as_deref(), content.unit.as_deref()];
    let title: Vec<&str> = title.into_iter().flatten().collect();
    if !title.is_empty() {
        output.line(&output.bold(&title.join(" · ")));
    }
    let mut columns = vec![Column::Text];
    columns.resize(content.columns.len() + 1, Column::Right);
    let mut table = Table::new(columns);
    let heads = content.columns.iter().map(|column| column.head.clone());
    table.row(std::iter::once(String::new()).chain(heads));
    for row in &content.rows {
        let cells = row
            .cells
            .iter()
            .map(|cell| cell.as_ref().map_or("", |cell| &cell.text));
        table.row(std::iter::once(row.label.as_str()).chain(cells));
    }
    table.print(output);
}

fn csv_of(view: &TableContent) -> Result<String, CommandError> {
    let content = &view.table;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let heads = content.columns.iter().map(|column| column.head.as_str());
    let periods = content
        .columns
        .iter()
        .map(|column| column.period.as_deref().unwrap_or_default());
    let mut write = |record: Vec<&str>| writer.write_record(record).map_err(not_written);
    write(["", ""].into_iter().chain(heads).collect())?;
    write(["", "period"].into_iter().chain(periods).collect())?;
    for row in &content.rows {
        let label = [row.group.as_deref().unwrap_or_default(), row.label.as_str()];
        let cells = row
            .cells
            .iter()
            .map(|cell| cell.as_ref().map_or("", |cell| &cell.text));
        write(label.into_iter().chain(cells).collect())?;
    }
    let bytes = writer.into_inner().map_err(not_written)?;
    String::from_utf8(bytes).map_err(not_written)
}

fn not_written(error: impl std::fmt::Display) -> CommandError {
    let message = format!("the table cannot be written as CSV: {error}");
    CommandError::new("output.csv", message)
}
