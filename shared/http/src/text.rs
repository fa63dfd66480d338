//! Text of sections, Items and pages.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use stemma_archive::{
    DocumentInfo, ItemInfo, PageContent, SectionDetails, TextResponse, TextScope,
};
use stemma_catalog::locator::{Fragment, format_pages, parse_pages, section_locator};
use stemma_gateway::AppState;
use stemma_gateway::extract::{
    HandlerResult, MaybeReady, Path, QueryParams, json, published_document,
};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::{IntoParams, ToSchema};

use crate::documents::section_id;

const MAX_PAGES: usize = 200;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TextQuery {
    collection: Option<String>,
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default)]
    text: bool,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PagesQuery {
    collection: Option<String>,
    /// physical pages: 5-7,9
    #[param(
        required,
        pattern = "^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?(,[1-9][0-9]{0,4})*$"
    )]
    #[serde(default)]
    range: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SectionResponse {
    document: DocumentInfo,
    #[serde(flatten)]
    section: SectionDetails,
    /// Includes all subsections.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ItemResponse {
    document: DocumentInfo,
    item: ItemInfo,
    /// Includes all subsections.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Set if only the form's page index locates the Item.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pages: Vec<PageContent>,
}

/// A section
///
/// Details of a section; `text=true` adds its text with all subsections.
#[utoipa::path(get, path = "/v1/documents/{doc}/sections/{id}", tag = "text",
    params(
        ("doc" = String, Path), ("id" = String, Path, pattern = "^[0-9]{4,9}$", description = "0007"), TextQuery,
    ),
    responses((status = 200, body = MaybeReady<SectionResponse>)))]
pub(crate) async fn section(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path((doc, id)): Path<(String, String)>,
    QueryParams(query): QueryParams<TextQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let id = section_id(&id)?;
    let listed = published_document(&archive, &doc)?;
    let locator = section_locator(&listed.label, id);
    let stat = archive.stat(&locator).await?;
    let text = if query.text {
        archive.text(&locator, TextScope::Full).await?.text
    } else {
        None
    };
    let section = stat
        .section
        .ok_or_else(|| Problem::new(404, "locator.no_section", "the tree has just been removed"))?;
    json(MaybeReady::Yes(SectionResponse {
        document: stat.document,
        section,
        text,
    }))
    .await
}

/// An Item of a filing
///
/// Details of an Item; `text=true` adds its text, or its pages if only the form's page index locates it.
#[utoipa::path(get, path = "/v1/documents/{doc}/items/{item}", tag = "text",
    params(
        ("doc" = String, Path), ("item" = String, Path, description = "1A, II.1A, 2.02, item-1A or risk-factors"),
        TextQuery,
    ),
    responses((status = 200, body = MaybeReady<ItemResponse>)))]
pub(crate) async fn item(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path((doc, name)): Path<(String, String)>,
    QueryParams(query): QueryParams<TextQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let Ok(fragment @ Fragment::Item { .. }) = name.parse::<Fragment>() else {
        return Err(Problem::parameter(
            400,
            "item",
            "an Item is written 1A, II.1A, 2.02 or risk-factors",
        )
        .into());
    };
    let listed = published_document(&archive, &doc)?;
    let locator = format!("{}#{fragment}", listed.label);
    let read = archive.text(&locator, TextScope::Full).await?;
    let of_map = match read.item {
        Some(item) => Some(item),
        // Without an Item map, match by section titles.
        None => {
            let all = archive.items(&listed.label).await?.items;
            let section = read
                .section
                .as_ref()
                .map(|section| section.section_id.as_str());
            all.into_iter()
                .find(|item| item.section_id.as_deref() == section && section.is_some())
        }
    };
    let item = of_map
        .ok_or_else(|| Problem::new(404, "locator.no_item", "the document has no such Item"))?;
    let text = read.text.filter(|_| query.text);
    let pages = if query.text { read.pages } else { Vec::new() };
    json(MaybeReady::Yes(ItemResponse {
        document: DocumentInfo::from_catalog(&listed),
        item,
        text,
        pages,
    }))
    .await
}

/// The text of pages
///
/// At most 200 physical pages, counted from 1.
#[utoipa::path(get, path = "/v1/documents/{doc}/pages", tag = "text",
    params(
        ("doc" = String, Path), PagesQuery,
    ),
    responses((status = 200, body = MaybeReady<TextResponse>)))]
pub(crate) async fn pages(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<PagesQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let Some(spans) = parse_pages(&query.range) else {
        return Err(
            Problem::parameter(400, "range", "range names physical pages, such as 5-7,9").into(),
        );
    };
    let listed = published_document(&archive, &doc)?;
    if spans
        .iter()
        .map(|span| span.len())
        .fold(0, usize::saturating_add)
        > MAX_PAGES
    {
        let detail = format!("at most {MAX_PAGES} pages are read at once");
        return Err(Problem::parameter(422, "range", detail).into());
    }
    let locator = format!("{}#p={}", listed.label, format_pages(&spans));
    json(MaybeReady::Yes(
        archive.text(&locator, TextScope::Full).await?,
    ))
    .await
}
