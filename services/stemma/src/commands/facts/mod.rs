//! `stemma facts`: lists the tagged facts of a filing.

mod parquet;

use std::path::{Path, PathBuf};

use stemma_archive::{FactInfo, FactList, FactsRequest};

use crate::commands::export::write_atomically;
use crate::commands::format::title_line;
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, counted};

/// List the figures that a filing tags itself (inline XBRL), with concept, period and unit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma facts acme-10k --concept Revenues
  stemma facts acme-10k --concept 'income taxes' --period 2024
  stemma facts acme-10k --dimensions --csv > facts.csv
  stemma facts acme-10k --dimensions --parquet facts.parquet
  stemma facts acme-10k --jsonl --fields concept,to,value,unit

--concept is the name of a concept, with or without its prefix; where the filing has none of that
name, all concepts with these words in their label, else in the row that displays them. Values are exact, with scale and sign applied. Facts of
segments and other dimensions are listed with --dimensions. Only HTML filings have tagged facts.")]
pub struct FactsArgs {
    /// A document.
    #[arg(value_name = "LOCATOR")]
    locator: String,
    /// Only this concept, or concepts with these words.
    #[arg(long)]
    concept: Option<String>,
    /// Only periods that end in this year (2024) or on this day (2024-12-31), or one period (2024-01-01/2024-12-31).
    #[arg(long)]
    period: Option<String>,
    /// Also facts of segments, products and other parts of the company.
    #[arg(long)]
    dimensions: bool,
    /// Print CSV.
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    csv: bool,
    /// Write a Parquet file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "jsonl", "csv"])]
    parquet: Option<PathBuf>,
}

pub async fn run(args: FactsArgs, context: &Context) -> Result<Exit, CommandError> {
    let request = FactsRequest {
        document: args.locator,
        concept: args.concept,
        period: args.period,
        dimensions: args.dimensions,
        limit: usize::MAX,
        cursor: None,
    };
    let list = open(context).await?.facts(&request).await?;
    let output = &context.output;
    if args.csv {
        write_csv(&list.facts).map_err(|error| {
            CommandError::new("facts.csv", format!("the facts cannot be written: {error}"))
        })?;
    } else if let Some(path) = &args.parquet {
        write_parquet(path, &list)?;
        let written = counted(list.facts.len(), "fact");
        output.note(&format!("{written} in {}", clean(&path.to_string_lossy())));
    } else {
        output.print(&list, &list.facts, || show(&list, output));
    }
    Ok(Exit::nothing_if(list.facts.is_empty()))
}

fn show(list: &FactList, output: &Output) {
    use Column::{Left, Right, Text};
    output.line(&title_line(&list.document, output));
    let mut table = Table::with_one_line_rows([Text, Left, Right, Left, Text, Left])
        .with_heads(["FACT", "PERIOD", "VALUE", "UNIT", "OF", "PLACE"])
        .with_optional([5, 4]);
    for fact in &list.facts {
        let members: Vec<&str> = fact
            .dimensions
            .iter()
            .map(|dimension| dimension.member.as_str())
            .collect();
        table.row([
            fact.label.clone(),
            period(fact.from.as_deref(), fact.to.as_deref()),
            shown_value(fact),
            fact.unit.clone().unwrap_or_default(),
            members.join(", "),
            place(fact),
        ]);
    }
    table.print(output);
    if list.facts.is_empty() {
        output.note("no tagged facts that match; only HTML filings with inline XBRL have them");
    } else {
        output.note(&output.dim(&counted(list.total, "fact")));
    }
}

// `p 47` or, in a table, `p 47, t12`.
fn place(fact: &FactInfo) -> String {
    let page = fact.page.map(|page| format!("p {page}"));
    let table = fact.cell.as_ref().map(|cell| &cell.table);
    let table = table.and_then(|locator| locator.rsplit('#').next());
    let parts = page.as_deref().into_iter().chain(table);
    parts.collect::<Vec<_>>().join(", ")
}

// Whole notes are facts, too.
const MAX_SHOWN_CHARS: usize = 60;

fn shown_value(fact: &FactInfo) -> String {
    let value = fact.value.as_deref().unwrap_or_default();
    match fact.numeric {
        true => grouped(value),
        false => shorten(value),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `2024-12-31` or `2024-01-01/2024-12-31`.
pub fn period(from: Option<&str>, to: Option<&str>) -> String {
    [from, to]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("/")
}

/// A decimal number with commas between groups of three digits.
pub fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let digits = whole.trim_start_matches('-');
    let mut text = whole[..whole.len() - digits.len()].to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

// `AXIS=MEMBER`, separated by spaces.
fn dimensions(fact: &FactInfo) -> String {
    let pairs: Vec<String> = fact
        .dimensions
        .iter()
        .map(|dimension| format!("{}={}", dimension.axis, dimension.member))
        .collect();
    pairs.join(" ")
}

fn write_parquet(path: &Path, list: &FactList) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new("facts.parquet", format!("{}: {error}", path.display()))
            .with_next("check that the folder is writable")
    };
    let mut bytes = Vec::new();
    parquet::write_facts(&mut bytes, &list.document.name, &list.facts)
        .map_err(|error| failed(&error))?;
    write_atomically(path, bytes).map_err(|error| failed(&error))
}

// The name of a column, and what it has of a fact.
type CsvColumn = (&'static str, fn(&FactInfo) -> Option<String>);

fn write_csv(facts: &[FactInfo]) -> csv::Result<()> {
    let columns: [CsvColumn; 19] = [
        ("concept", |fact| Some(fact.concept.clone())),
        ("label", |fact| Some(fact.label.clone())),
        ("entity", |fact| Some(fact.entity.clone())),
        ("from", |fact| fact.from.clone()),
        ("to", |fact| fact.to.clone()),
        ("unit", |fact| fact.unit.clone()),
        ("value", |fact| fact.value.clone()),
        ("displayed", |fact| Some(fact.displayed.clone())),
        ("decimals", |fact| fact.decimals.clone()),
        ("scale", |fact| Some(fact.scale.to_string())),
        ("sign", |fact| fact.sign.clone()),
        ("dimensions", |fact| Some(dimensions(fact))),
        ("hidden", |fact| Some(fact.hidden.to_string())),
        ("page", |fact| Some(fact.page?.to_string())),
        ("table", |fact| Some(fact.cell.as_ref()?.table.clone())),
        ("row", |fact| Some(fact.cell.as_ref()?.row.to_string())),
        ("column", |fact| {
            Some(fact.cell.as_ref()?.column.to_string())
        }),
        ("section_id", |fact| fact.section_id.clone()),
        ("byte", |fact| Some(fact.byte.to_string())),
    ];
    let mut writer = csv::Writer::from_writer(std::io::stdout().lock());
    writer.write_record(columns.map(|(name, _)| name))?;
    for fact in facts {
        writer.write_record(columns.map(|(_, value)| value(fact).unwrap_or_default()))?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened_between_characters() {
        assert_eq!(
            shorten("Large accelerated filer"),
            "Large accelerated filer"
        );
        assert_eq!(shorten(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(shorten(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, shown) in [
            ("1394000000", "1,394,000,000"),
            ("-12.345", "-12.345"),
            ("999", "999"),
            ("-1000", "-1,000"),
        ] {
            assert_eq!(grouped(number), shown);
        }
    }
}
