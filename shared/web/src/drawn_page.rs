//! The image of a page: drawn if it is a page of a PDF, else its words at their places.

use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use stemma_archive::{ApiError, Archive, ImageRequest, PageWords};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::PageNo;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerError, Path, published_document};
use stemma_gateway::problem::Problem;

use crate::context::PageContext;
use crate::text_layer::text_page;

const DEFAULT_WIDTH: u32 = 1_000;
// Images change with the file and the renderer only.
const CACHED: &str = "private, max-age=300";

/// `GET /documents/{doc}/pages/{n}/image`. It has an image for every page: what cannot be drawn is shown as text.
pub(crate) async fn image(
    State(state): State<AppState>,
    Path((doc, number)): Path<(String, u32)>,
    context: PageContext,
) -> Result<Response, HandlerError> {
    let archive = context.archive(&state)?;
    let listed = published_document(&archive, &doc)?;
    let words = archive
        .page_words(&listed.label, number, None, false)
        .await?;
    if !words.has_image {
        return Ok(svg(&words, CACHED));
    }
    let width = context.param("width").map_or(Ok(DEFAULT_WIDTH), str::parse);
    let width = width
        .ok()
        .filter(|width| ImageRequest::WIDTHS.contains(width));
    let width =
        width.ok_or_else(|| Problem::parameter(400, "width", "width is a number of pixels"))?;
    match png(&state, &archive, &listed, number, width).await {
        Ok(png) => Ok(response("image/png", CACHED, png)),
        Err(error) => {
            tracing::debug!(document = %listed.label, page = number, code = error.code, error = %error.message, "page is shown as text");
            Ok(svg(&words, "no-cache"))
        }
    }
}

async fn png(
    state: &AppState,
    archive: &Archive,
    listed: &CatalogDocument,
    number: u32,
    width: u32,
) -> Result<axum::body::Bytes, ApiError> {
    let images = state.deps.page_images.as_ref();
    let images = images
        .ok_or_else(|| ApiError::new("image.not_available", "this server draws no pages", ""))?;
    let page = PageNo::new(number).unwrap_or(PageNo::FIRST);
    let request = ImageRequest::for_page(page, width);
    images.image(archive, listed, &request).await
}

fn svg(words: &PageWords, cache: &'static str) -> Response {
    response("image/svg+xml", cache, text_page(words))
}

fn response(content_type: &'static str, cache: &'static str, body: impl IntoResponse) -> Response {
    let headers: [(HeaderName, &str); 2] = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, cache),
    ];
    (headers, body).into_response()
}
