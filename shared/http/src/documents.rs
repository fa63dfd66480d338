//! Document details, section trees and Items.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use stemma_archive::{
    DocumentTables, ExportFormat, FilingItems, StatResponse, TableContent, TreeRequest,
    TreeResponse, TreeRow,
};
use stemma_catalog::locator::section_locator;
use stemma_document::SectionId;
use stemma_gateway::AppState;
use stemma_gateway::extract::{
    CollectionQuery, HandlerError, HandlerResult, MaybeReady, Path, QueryParams, find_document,
    json, published_document,
};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

use crate::etag;

// Rows of a page of a tree. A tree is read for each page, so pages are larger than those of other lists.
const MAX_ROWS: usize = 10_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TreeQuery {
    collection: Option<String>,
    /// levels, defaults to all
    #[param(value_type = Option<u32>, minimum = 1)]
    depth: Option<usize>,
    /// only this section and its subsections: 0007
    #[param(pattern = "^[0-9]{4,9}$")]
    node: Option<String>,
    /// include section summaries
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default)]
    summary: bool,
    /// defaults to stemma
    #[param(pattern = "^(stemma|pageindex|outline)$")]
    format: Option<String>,
    /// sections per page, defaults to all; not for pageindex
    #[param(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
}

impl TreeQuery {
    fn check(&self) -> Result<(), Problem> {
        if self.depth == Some(0) {
            let detail = "depth must be at least 1";
            return Err(Problem::parameter(400, "depth", detail));
        }
        if self
            .limit
            .is_some_and(|limit| !(1..=MAX_ROWS).contains(&limit))
        {
            let detail = format!("limit must be from 1 to {MAX_ROWS}");
            return Err(Problem::parameter(400, "limit", detail));
        }
        match self.format.as_deref() {
            None | Some("stemma" | "outline") => Ok(()),
            Some("pageindex") if self.limit.is_some() || self.cursor.is_some() => {
                let detail = "pageindex is the JSON of a whole document, without pages";
                Err(Problem::parameter(400, "format", detail))
            }
            Some("pageindex") => Ok(()),
            Some(_) => {
                let detail = "format must be stemma, pageindex or outline";
                Err(Problem::parameter(400, "format", detail))
            }
        }
    }
}

/// What is known of a document
///
/// Its state, facts, Items, and how its tree came to be. `{doc}` is an id, a name, or a path as ingested.
#[utoipa::path(get, path = "/v1/documents/{doc}", tag = "documents",
    params(("doc" = String, Path), CollectionQuery),
    responses((status = 200, body = StatResponse)))]
pub(crate) async fn document(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let label = &find_document(&archive, &doc)?.label;
    json(archive.stat(label).await?).await
}

/// The section tree of a document
///
/// `ETag` is the version of the tree. With `limit`, a page of its sections in reading order. `format=pageindex` is the compatible JSON of the whole document; `outline` is text.
#[utoipa::path(get, path = "/v1/documents/{doc}/tree", tag = "documents",
    params(
        ("doc" = String, Path), TreeQuery,
        ("If-None-Match" = Option<String>, Header, description = "an ETag: 304 if the tree has not changed"),
    ),
    responses(
        (status = 200, content((crate::openapi::TreeAnswer = "application/json"), (String = "text/plain")),
            headers(("ETag" = String))),
        (status = 304, description = "the tree has not changed")))]
pub(crate) async fn tree(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<TreeQuery>,
    headers: HeaderMap,
) -> HandlerResult {
    query.check()?;
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let node = query.node.map(|node| section_id(&node)).transpose()?;
    let listed = published_document(&archive, &doc)?;
    let version = listed.version();
    let tag = format!("W/\"{}-{}\"", version.doc.short(), version.seq);
    if etag::is_current(&headers, &tag) {
        return Ok(etag::not_modified(tag));
    }
    let locator = node.map_or_else(
        || listed.label.clone(),
        |node| section_locator(&listed.label, node),
    );
    let request = TreeRequest {
        locator,
        depth: query.depth,
        summaries: query.summary,
        limit: query.limit,
        skip: 0,
        cursor: query.cursor,
    };
    let response = match query.format.as_deref() {
        Some("outline") => outline(&archive.tree(&request).await?).into_response(),
        Some("pageindex") => {
            let exported = archive
                .export(&listed, "", ExportFormat::PageIndex { text: false })
                .await?;
            (
                [(header::CONTENT_TYPE, "application/json")],
                exported.content,
            )
                .into_response()
        }
        _ => json(archive.tree(&request).await?).await?,
    };
    Ok(([(header::ETAG, tag)], response).into_response())
}

/// The Items of a filing
///
/// How each Item of the form is answered, and where.
#[utoipa::path(get, path = "/v1/documents/{doc}/items", tag = "documents",
    params(("doc" = String, Path), CollectionQuery),
    responses((status = 200, body = MaybeReady<FilingItems>)))]
pub(crate) async fn items(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let label = &published_document(&archive, &doc)?.label;
    json(MaybeReady::Yes(archive.items(label).await?)).await
}

/// The tables of a document
///
/// Without their rows, in reading order.
#[utoipa::path(get, path = "/v1/documents/{doc}/tables", tag = "documents",
    params(("doc" = String, Path), CollectionQuery),
    responses((status = 200, body = MaybeReady<DocumentTables>)))]
pub(crate) async fn tables(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let label = &published_document(&archive, &doc)?.label;
    json(MaybeReady::Yes(archive.tables(label).await?)).await
}

/// A table of a document
///
/// Its rows and cells, with the place of each cell on its page.
#[utoipa::path(get, path = "/v1/documents/{doc}/tables/{table}", tag = "documents",
    params(("doc" = String, Path), ("table" = String, Path, description = "`t12`"), CollectionQuery),
    responses((status = 200, body = MaybeReady<TableContent>)))]
pub(crate) async fn table(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path((doc, table)): Path<(String, String)>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let label = &published_document(&archive, &doc)?.label;
    let locator = format!("{label}#{table}");
    json(MaybeReady::Yes(archive.table(&locator).await?)).await
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
