//! `describe`: what the figures of a page show, as a model reads them from its picture. Only available if a model sees.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stemma_answers::FigureDescription;
use stemma_archive::{DescribedPage, Vision};
use stemma_document::PageNo;

use crate::error::{ToolError, ToolErrorKind};
use crate::tool_context::{ToolContext, link, page_address};
use crate::tool_result::{ToolOutcome, ToolResult, delimited};

// Clients may time out after 20 s.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(17);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DescribeArguments {
    doc_name: String,
    /// physical page
    #[schemars(range(min = 1))]
    page: u32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DescribeOutput {
    locator: String,
    page: u32,
    by_sight: bool,
    /// title, kind, shows, values; ~ before a value read off an axis
    #[schemars(with = "Vec<Map<String, Value>>")]
    figures: Vec<FigureDescription>,
    #[schemars(skip)]
    model: String,
    #[schemars(skip)]
    cached: bool,
}

#[tool_router(router = describe_router, vis = "pub(crate)")]
impl ToolContext {
    // Not read-only: the call costs money and stores the description, although it changes no document.
    #[tool(
        description = "Describe the charts and other figures of a PDF page, as a model sees them; nothing checks it.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = schema_for_output::<DescribeOutput>()
    )]
    async fn describe(
        &self,
        Parameters(arguments): Parameters<DescribeArguments>,
    ) -> ToolOutcome<DescribeOutput> {
        let vision = Arc::clone(
            self.services
                .vision
                .as_ref()
                .ok_or_else(Vision::not_configured)?,
        );
        let page = PageNo::new(arguments.page)
            .ok_or_else(|| ToolError::invalid("`page` is a number, from 1"))?;
        let document = self.resolve_document(&arguments.doc_name, None)?;
        let (listed, _) = self.load_published(&document).await?;
        let permit = self.acquire_model_permit().await?;
        let archive = Arc::clone(&self.archive);
        let doc = listed.doc();
        // Detached: a description goes on if the call times out, so that a later call finds it.
        let describing = self.env.spawn(async move {
            let _permit = permit;
            vision.describe(&archive, &listed, page, None).await
        });
        match tokio::time::timeout(DESCRIPTION_TIMEOUT, describing).await {
            Ok(Ok(Ok(described))) => {
                let address = page_address(doc, described.page);
                let locator = described.locator.clone();
                Ok(result(described).with_links([link(address, &locator)]))
            }
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(Err(error)) => {
                tracing::error!(%error, "describing a page failed");
                let message = "describing the page failed";
                let kind = ToolErrorKind::Internal;
                Err(ToolError::new(kind, "tool.failed", message))
            }
            Err(_) => Err(still_running()),
        }
    }
}

fn still_running() -> ToolError {
    let message = "the page is still being described";
    ToolError::unavailable("vision.in_progress", message)
        .with_option("Call describe() with the same arguments in a few seconds: it is paid once")
}

fn result(described: DescribedPage) -> ToolResult<DescribeOutput> {
    let figures: Vec<String> = described.figures.iter().map(figure_text).collect();
    let summary = match figures.len() {
        0 => format!(
            "From the image, unchecked: no figures on {}",
            described.locator
        ),
        count => format!(
            "From the image, unchecked: {count} figures on {}",
            described.locator
        ),
    };
    let text = delimited(&described.locator, &figures.join("\n"));
    let data = DescribeOutput {
        locator: described.locator,
        page: described.page,
        by_sight: described.by_sight,
        figures: described.figures,
        model: described.model,
        cached: described.cached,
    };
    ToolResult::new(data, summary).with_text(text)
}

fn figure_text(figure: &FigureDescription) -> String {
    let values: String = figure
        .values
        .iter()
        .map(|value| format!("\n  {} = {}", value.label, value.value))
        .collect();
    format!(
        "{} ({}): {}{values}",
        figure.title, figure.kind, figure.shows
    )
}
