//! One page: its image, and where its words are.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use stemma_archive::{DescribedPage, ImageRequest, PageRegion, PageWords};
use stemma_document::PageNo;
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{
    CollectionQuery, HandlerResult, MaybeReady, Path, QueryParams, json, published_document,
};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

use crate::documents::section_id;
use crate::etag;

const DEFAULT_WIDTH: u32 = 1_000;
// The tag of an image changes with the file and the renderer, so a browser may show it for a while without asking.
const CACHE_CONTROL: &str = "private, max-age=300";

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImageQuery {
    collection: Option<String>,
    /// pixels, defaults to 1000; the height follows
    #[param(minimum = 50, maximum = 2000)]
    width: Option<u32>,
    /// left edge of a region, in fractions of the page's width
    #[param(minimum = 0, maximum = 1)]
    x: Option<f32>,
    /// upper edge of a region, in fractions of the page's height
    #[param(minimum = 0, maximum = 1)]
    y: Option<f32>,
    /// width of a region, in fractions of the page's width
    #[param(minimum = 0.01, maximum = 1)]
    w: Option<f32>,
    /// height of a region, in fractions of the page's height
    #[param(minimum = 0.01, maximum = 1)]
    h: Option<f32>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WordsQuery {
    collection: Option<String>,
    /// adds where this section is on the page: 0007
    #[param(pattern = "^[0-9]{4,9}$")]
    section: Option<String>,
    /// adds what the lines were read as, what they mention, and the cells of tables
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default)]
    reading: bool,
}

/// The image of a page
///
/// A PNG of a page of a PDF, or of a region of it. Images of very long pages are narrower than asked for.
#[utoipa::path(get, path = "/v1/documents/{doc}/pages/{n}/image", tag = "text",
    params(
        ("doc" = String, Path), ("n" = String, Path, pattern = "^[1-9][0-9]{0,4}$", description = "physical page, from 1"),
        ImageQuery, ("If-None-Match" = Option<String>, Header),
    ),
    responses(
        (status = 200, content_type = "image/png", body = Vec<u8>, headers(("ETag" = String), ("Cache-Control" = String))),
        (status = 304, description = "the image has not changed")))]
pub(crate) async fn image(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path((doc, page)): Path<(String, String)>,
    QueryParams(query): QueryParams<ImageQuery>,
    headers: HeaderMap,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let request = image_request(page_number(&page)?, &query)?;
    let listed = published_document(&archive, &doc)?;
    let images = state.page_images()?;
    let tag = format!("\"{}\"", images.image_id(&archive, &listed, &request));
    if etag::is_current(&headers, &tag) {
        return Ok(etag::not_modified(tag));
    }
    let image = images.image(&archive, &listed, &request).await?;
    let fixed = [
        (header::CONTENT_TYPE, "image/png"),
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((fixed, [(header::ETAG, tag)], image).into_response())
}

/// The words of a page
///
/// Each word with its box, for a text layer over the image of the page.
#[utoipa::path(get, path = "/v1/documents/{doc}/pages/{n}/words", tag = "text",
    params(
        ("doc" = String, Path), ("n" = String, Path, pattern = "^[1-9][0-9]{0,4}$", description = "physical page, from 1"),
        WordsQuery,
    ),
    responses((status = 200, body = MaybeReady<PageWords>)))]
pub(crate) async fn words(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path((doc, page)): Path<(String, String)>,
    QueryParams(query): QueryParams<WordsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let page = page_number(&page)?;
    let section = query.section.as_deref().map(section_id).transpose()?;
    let listed = published_document(&archive, &doc)?;
    let words = archive
        .page_words(&listed.label, page.get(), section, query.reading)
        .await?;
    json(MaybeReady::Yes(words)).await
}

/// Describe the figures of a page
///
/// What a model sees in the picture of a page of a PDF: its charts and other figures, with the values that can be read. Nothing of
/// it is checked. A page is described once, and then read from the store. Needs `vision.model`.
#[utoipa::path(post, path = "/v1/documents/{doc}/pages/{n}/description", tag = "answers",
    params(
        ("doc" = String, Path), ("n" = String, Path, pattern = "^[1-9][0-9]{0,4}$", description = "physical page, from 1"),
        CollectionQuery,
    ),
    responses((status = 200, body = DescribedPage)))]
pub(crate) async fn description(
    State(state): State<AppState>,
    ModelRequest(permit): ModelRequest,
    scope: CollectionScope,
    Path((doc, page)): Path<(String, String)>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let place = permit.upgrade_for_model().await?;
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let page = page_number(&page)?;
    let vision = state.vision()?;
    let listed = published_document(&archive, &doc)?;
    let described = vision.describe(&archive, &listed, page, None).await?;
    drop(place);
    json(described).await
}

fn page_number(text: &str) -> Result<PageNo, Problem> {
    let number = text.parse().ok().and_then(PageNo::new);
    number.ok_or_else(|| Problem::parameter(400, "n", "a page is a number, from 1"))
}

fn image_request(page: PageNo, query: &ImageQuery) -> Result<ImageRequest, Problem> {
    let width = query.width.unwrap_or(DEFAULT_WIDTH);
    if !ImageRequest::WIDTHS.contains(&width) {
        let least = ImageRequest::WIDTHS.start();
        let most = ImageRequest::WIDTHS.end();
        let detail = format!("width must be from {least} to {most}");
        return Err(Problem::parameter(400, "width", detail));
    }
    let x = query.x.unwrap_or(0.0);
    let y = query.y.unwrap_or(0.0);
    let region = PageRegion::new(x, y, query.w.unwrap_or(1.0), query.h.unwrap_or(1.0));
    let region = region.ok_or_else(|| {
        let detail = "x, y, w and h are fractions of the page, and the region is at least 0.01 wide and high";
        Problem::parameter(400, "w", detail)
    })?;
    Ok(ImageRequest {
        region,
        ..ImageRequest::for_page(page, width)
    })
}
