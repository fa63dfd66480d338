//! `get_series`: one figure over periods and companies.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stemma_archive::{EntitySeries, SeriesPoint, SeriesRequest};

use crate::get_facts::period;
use crate::paging::PageRequest;
use crate::tool_context::ToolContext;
use crate::tool_result::{ToolOutcome, ToolResult, take_fitting};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetSeriesArguments {
    /// /@company/3M, / for all
    scope: String,
    /// a name, or several with commas: the first that has a value
    concept: String,
    #[schemars(extend("enum" = ["annual", "quarterly", "all"]))]
    frequency: Option<String>,
    #[serde(default = "default_points")]
    #[schemars(range(min = 1, max = 200), extend("x-hidden" = true))]
    limit: usize,
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    offset: usize,
}

// Ten years of five companies.
fn default_points() -> usize {
    50
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GetSeriesOutput {
    total: usize,
    points: Vec<PointRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    similar: Vec<String>,
    #[schemars(skip)]
    truncated: bool,
    #[schemars(skip)]
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct PointRow {
    company: String,
    #[schemars(skip)]
    concept: String,
    #[schemars(skip)]
    period: String,
    value: String,
    #[schemars(skip)]
    unit: String,
    // The newest filing that reports it.
    #[schemars(skip)]
    filing: String,
    // What earlier filings report instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    restated_from: Vec<String>,
}

#[tool_router(router = get_series_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "One tagged figure over years and companies, with filings and restatements.",
        output_schema = schema_for_output::<GetSeriesOutput>()
    )]
    async fn get_series(
        &self,
        Parameters(arguments): Parameters<GetSeriesArguments>,
    ) -> ToolOutcome<GetSeriesOutput> {
        let page = PageRequest::new(arguments.limit, arguments.offset, None, "")?;
        let request = SeriesRequest {
            scope: arguments.scope,
            concept: arguments.concept,
            filter: None,
            frequency: arguments.frequency,
        };
        let response = self.archive.series(&request).await?;
        let all = response
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(move |point| row(series, point)));
        let total = response
            .series
            .iter()
            .map(|series| series.points.len())
            .sum();
        let requested = all.skip(page.offset).take(page.limit);
        let points = take_fitting(requested, self.format.limit(None));
        let next = page.offset + points.len();
        let more = next < total;
        let summary = format!(
            "{total} values of {} companies, from {} documents with tagged facts; {} shown",
            response.series.len(),
            response.documents_with_facts,
            points.len()
        );
        let step = match (total, response.similar.is_empty()) {
            (0, false) => "Call again with one of the similar concepts",
            (0, true) => "get_facts(doc_name, concept: WORDS) finds names of concepts",
            _ => "Text around a value: get_page_content(doc_name, pages)",
        };
        let data = GetSeriesOutput {
            total,
            points,
            similar: response.similar,
            truncated: more,
            next_offset: more.then_some(next),
        };
        Ok(ToolResult::new(data, summary)
            .with_options(more.then(|| format!("More: the same call with offset: {next}")))
            .with_option(step))
    }
}

fn row(series: &EntitySeries, point: &SeriesPoint) -> PointRow {
    PointRow {
        company: series.name.clone().unwrap_or_else(|| series.entity.clone()),
        concept: point.concept.clone(),
        period: period(point.from.as_deref(), Some(&point.to)),
        value: point.reported.value.clone(),
        unit: series.unit.clone(),
        filing: point.reported.locator.clone(),
        restated_from: point
            .earlier
            .iter()
            .map(|one| format!("{} in {}", one.value, one.locator))
            .collect(),
    }
}
