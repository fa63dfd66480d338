//! `stemma series`: compares a figure over periods and companies.

use serde_json::Value;
use stemma_archive::{EntitySeries, SeriesRequest, SeriesResponse};

use crate::commands::facts::{grouped, period};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, counted};

/// Compare a figure over years and companies, from the facts that filings tag.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma series /@company/3M Revenues
  stemma series / Revenues,RevenueFromContractWithCustomerExcludingAssessedTax
  stemma series / Assets --frequency quarterly --where 'form=10-Q'
  stemma series /@company/3M NetIncomeLoss --json

Each value names the filing that reports it; where filings differ, the newest one counts, and `restated`
marks a value that an earlier filing reported differently. Of several concepts each period shows the first
that has a value. Find names of concepts with: stemma facts LOCATOR --concept WORDS")]
pub struct SeriesArgs {
    /// A folder, a facet path or a document.
    #[arg(value_name = "SCOPE")]
    scope: String,
    /// A concept, or several with commas between.
    #[arg(value_name = "CONCEPT")]
    concept: String,
    /// annual, quarterly or all.
    #[arg(long, default_value = "annual", value_parser = ["annual", "quarterly", "all"])]
    frequency: String,
    /// Only documents that match; text or JSON.
    #[arg(long = "where", value_name = "FILTER")]
    conditions: Option<String>,
}

pub async fn run(args: SeriesArgs, context: &Context) -> Result<Exit, CommandError> {
    let request = SeriesRequest {
        scope: args.scope,
        concept: args.concept,
        filter: args.conditions.map(Value::String),
        frequency: Some(args.frequency),
    };
    let response = open(context).await?.series(&request).await?;
    let output = &context.output;
    output.print(&response, &response.series, || show(&response, output));
    Ok(Exit::nothing_if(response.series.is_empty()))
}

fn show(response: &SeriesResponse, output: &Output) {
    for series in &response.series {
        let name = output.bold(&clean(series.name.as_deref().unwrap_or(&series.entity)));
        let about = clean(&format!("{} · {}", series.entity, series.unit));
        output.line(&format!("{name}  {about}"));
        table(series).print(output);
    }
    if response.series.is_empty() {
        let tagged = response.documents_with_facts;
        let documents = counted(response.documents, "document");
        output.note(&format!(
            "no values; {tagged} of {documents} with tagged facts"
        ));
        if !response.similar.is_empty() {
            let similar = clean(&response.similar.join(", "));
            output.note(&format!("concepts like it: {similar}"));
        }
    }
}

fn table(series: &EntitySeries) -> Table {
    use Column::{Left, Right, Text};
    let mut table = Table::with_one_line_rows([Left, Right, Text, Left, Text])
        .with_heads(["PERIOD", "VALUE", "CONCEPT", "FILING", "RESTATED"])
        .with_optional([2]);
    for point in &series.points {
        let earlier: Vec<String> = point
            .earlier
            .iter()
            .map(|value| format!("{} in {}", grouped(&value.value), value.locator))
            .collect();
        table.row([
            period(point.from.as_deref(), Some(&point.to)),
            grouped(&point.reported.value),
            point.concept.clone(),
            point.reported.locator.clone(),
            earlier.join(", "),
        ]);
    }
    table
}
