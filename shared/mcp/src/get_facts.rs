//! `get_facts`: the figures that a filing tags itself.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{CellPosition, FactInfo, FactsRequest};

use crate::paging::{PageRequest, default_limit};
use crate::tool_context::ToolContext;
use crate::tool_result::{ToolOutcome, ToolResult, delimited, first_chars, take_fitting};

// A text fact repeats text of the document, which other tools return.
const VALUE_CHARS: usize = 200;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetFactsArguments {
    doc_name: String,
    /// name, or words of it
    concept: Option<String>,
    /// 2024, 2024-12-31 or 2024-01-01/2024-12-31
    period: Option<String>,
    /// also of segments
    #[serde(default)]
    dimensions: bool,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
    #[serde(default)]
    offset: usize,
    #[schemars(extend("x-hidden" = true))]
    cursor: Option<String>,
    #[schemars(extend("x-hidden" = true))]
    folder_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GetFactsOutput {
    #[schemars(skip)]
    doc_name: String,
    total: usize,
    facts: Vec<FactRow>,
    #[schemars(skip)]
    truncated: bool,
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct FactRow {
    concept: String,
    #[schemars(skip)]
    period: String,
    // Exact, with scale and sign applied.
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    sign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    dimensions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    page: Option<u32>,
    // Its table is an id of the tool `fetch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    cell: Option<CellPosition>,
}

#[tool_router(router = get_facts_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Figures tagged in an HTML filing: concept, period, exact value, unit, page.",
        output_schema = schema_for_output::<GetFactsOutput>()
    )]
    async fn get_facts(
        &self,
        Parameters(arguments): Parameters<GetFactsArguments>,
    ) -> ToolOutcome<GetFactsOutput> {
        let list = format!(
            "{} {:?} {:?} {}",
            arguments.doc_name, arguments.concept, arguments.period, arguments.dimensions
        );
        let cursor = arguments.cursor.as_deref();
        let page = PageRequest::new(arguments.limit, arguments.offset, cursor, &list)?;
        let document =
            self.resolve_document(&arguments.doc_name, arguments.folder_id.as_deref())?;
        let listed = self.listed(&document)?;
        let request = FactsRequest {
            document: listed.label.clone(),
            concept: arguments.concept,
            period: arguments.period,
            dimensions: arguments.dimensions,
            limit: usize::MAX,
            cursor: None,
        };
        let all = self.archive.facts(&request).await?;
        let rows = all.facts.iter().skip(page.offset).take(page.limit).map(row);
        let facts = take_fitting(rows, self.format.limit(None));
        let name = name_of(&listed).to_owned();
        let next = page.offset + facts.len();
        let more = next < all.total;
        let text = delimited(&name, &listing(&facts));
        let summary = format!(
            "{} tagged facts of {name} match; {} shown",
            all.total,
            facts.len()
        );
        let step = match all.total {
            0 => {
                "Try words of the concept (income taxes), no period, or dimensions: true; only HTML filings have facts"
            }
            _ => "The same figure over years: get_series(scope, concept)",
        };
        let data = GetFactsOutput {
            doc_name: name,
            total: all.total,
            facts,
            truncated: more,
            next_offset: more.then_some(next),
        };
        Ok(ToolResult::new(data, summary)
            .with_text(text)
            .with_options(more.then(|| format!("More: the same call with offset: {next}")))
            .with_option(step))
    }
}

fn row(fact: &FactInfo) -> FactRow {
    FactRow {
        concept: fact.concept.clone(),
        period: period(fact.from.as_deref(), fact.to.as_deref()),
        value: fact
            .value
            .as_deref()
            .map(|value| first_chars(value, VALUE_CHARS).to_owned()),
        sign: fact.sign.clone(),
        unit: fact.unit.clone(),
        dimensions: fact
            .dimensions
            .iter()
            .map(|one| format!("{}={}", one.axis, one.member))
            .collect(),
        page: fact.page,
        cell: fact.cell.clone(),
    }
}

/// `2024-12-31` or `2024-01-01/2024-12-31`.
pub(crate) fn period(from: Option<&str>, to: Option<&str>) -> String {
    Vec::from_iter([from, to].into_iter().flatten()).join("/")
}

fn listing(facts: &[FactRow]) -> String {
    let lines = facts.iter().map(|fact| {
        let value = fact.value.as_deref().unwrap_or("no value");
        let unit = fact.unit.as_deref().unwrap_or_default();
        let page = fact.page.map(|page| format!(" (p {page})"));
        let page = page.unwrap_or_default();
        let cell = fact.cell.as_ref().map(|cell| {
            let CellPosition {
                table, row, column, ..
            } = cell;
            format!(" ({table}, row {row}, column {column})")
        });
        let cell = cell.unwrap_or_default();
        let of = match fact.dimensions.as_slice() {
            [] => String::new(),
            dimensions => format!(" [{}]", dimensions.join(", ")),
        };
        format!(
            "{} {}: {value} {unit}{of}{page}{cell}",
            fact.concept, fact.period
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}
