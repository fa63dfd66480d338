//! Document details, section trees and Items.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use stemma_archive::{ExportFormat, FilingItems, StatResponse, TreeResponse, TreeRow};
use stemma_catalog::locator::section_locator;
use stemma_document::SectionId;
use stemma_gateway::extract::{ArchiveRequest, HandlerError, HandlerResult, MaybeReady, json};
use stemma_gateway::problem::Problem;

// Deeper than any tree.
const MAX_DEPTH: usize = 1_000;

/// Metadata of a document
///
/// Its state, facts, Items, and how its tree came to be. `{doc}` is an id, a name, or a path as ingested.
#[utoipa::path(get, path = "/v1/documents/{doc}", tag = "documents",
    params(("doc" = String, Path), ("collection" = Option<String>, Query)),
    responses((status = 200, body = StatResponse)))]
pub(crate) async fn document(request: ArchiveRequest) -> HandlerResult {
    let label = request.document()?.label.clone();
    json(request.archive.stat(&label).await?).await
}

/// The section tree of a document
///
/// `ETag` is the version of the tree. `format=pageindex` is the compatible JSON of the whole document; `outline` is text.
#[utoipa::path(get, path = "/v1/documents/{doc}/tree", tag = "documents",
    params(
        ("doc" = String, Path), ("collection" = Option<String>, Query),
        ("depth" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "levels, defaults to all"),
        ("node" = Option<String>, Query, pattern = "^[0-9]{4,9}$", description = "only this section and its subsections: 0007"),
        ("summary" = Option<bool>, Query, description = "include section summaries"),
        ("format" = Option<String>, Query, pattern = "^(stemma|pageindex|outline)$", description = "defaults to stemma"),
        ("If-None-Match" = Option<String>, Header, description = "an ETag: 304 if the tree has not changed"),
    ),
    responses(
        (status = 200, content((crate::openapi::TreeAnswer = "application/json"), (String = "text/plain")),
            headers(("ETag" = String))),
        (status = 304, description = "the tree has not changed")))]
pub(crate) async fn tree(mut request: ArchiveRequest, headers: HeaderMap) -> HandlerResult {
    let depth = request.parameters.number("depth")?;
    let summary = request.parameters.flag("summary")?;
    let node = request.parameters.text("node");
    let format = request.parameters.text("format");
    if depth.is_some_and(|depth| !(1..=MAX_DEPTH).contains(&depth)) {
        return Err(
            Problem::parameter(400, "depth", format!("depth is from 1 to {MAX_DEPTH}")).into(),
        );
    }
    let format = format.as_deref().unwrap_or("stemma");
    if !matches!(format, "stemma" | "outline" | "pageindex") {
        let detail = format!(
            "`{}` is no format: stemma, pageindex or outline",
            format.chars().take(60).collect::<String>()
        );
        return Err(Problem::parameter(400, "format", detail).into());
    }
    let node = node.map(|node| section_id(&node)).transpose()?;
    let listed = request.published_document()?;
    let version = listed.version();
    let tag = format!("W/\"{}-{}\"", version.doc.short(), version.seq);
    let etags = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    if etags
        .flat_map(|tags| tags.split(','))
        .any(|etags| matches!(etags.trim(), "*") || etags.trim() == tag)
    {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let locator = node.map_or_else(
        || listed.label.clone(),
        |node| section_locator(&listed.label, node),
    );
    let response = match format {
        "outline" => {
            outline(&request.archive.tree(&locator, depth, summary).await?).into_response()
        }
        "pageindex" => {
            let exported = request
                .archive
                .export(listed, "", ExportFormat::PageIndex { text: false })
                .await?;
            (
                [(header::CONTENT_TYPE, "application/json")],
                exported.content,
            )
                .into_response()
        }
        _ => json(request.archive.tree(&locator, depth, summary).await?).await?,
    };
    Ok(([(header::ETAG, tag)], response).into_response())
}

/// The Items of a filing
///
/// How each Item of the form is answered, and where.
#[utoipa::path(get, path = "/v1/documents/{doc}/items", tag = "documents",
    params(("doc" = String, Path), ("collection" = Option<String>, Query)),
    responses((status = 200, body = MaybeReady<FilingItems>)))]
pub(crate) async fn items(request: ArchiveRequest) -> HandlerResult {
    let label = request.published_document()?.label.clone();
    json(MaybeReady::Yes(request.archive.items(&label).await?)).await
}

// One line per section: id, title and pages.
fn outline(tree: &TreeResponse) -> String {
    tree.sections
        .iter()
        .map(|row: &TreeRow| {
            let place = match (row.section.pages, row.section.lines) {
                (Some((first, last)), _) => format!("p {first}–{last}"),
                (_, Some((first, last))) => format!("l {first}–{last}"),
                _ => String::new(),
            };
            let indent = "  ".repeat(row.depth.saturating_sub(1));
            format!(
                "{} {indent}{}  {place}\n",
                row.section.section_id, row.section.title
            )
        })
        .collect()
}

pub(crate) fn section_id(text: &str) -> Result<SectionId, HandlerError> {
    Ok(text
        .parse()
        .map_err(|error: stemma_document::ParseIdError| {
            Problem::parameter(400, "id", error.to_string())
        })?)
}
