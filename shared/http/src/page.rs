//! One page: where its words stand.

use axum::extract::State;
use serde::Deserialize;
use stemma_archive::PageWords;
use stemma_document::PageNo;
use stemma_gateway::AppState;
use stemma_gateway::extract::{
    HandlerResult, MaybeReady, Path, QueryParams, json, published_document,
};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

use crate::documents::section_id;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WordsQuery {
    collection: Option<String>,
    /// adds where this section stands on the page: 0007
    #[param(pattern = "^[0-9]{4,9}$")]
    section: Option<String>,
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
        .page_words(&listed.label, page.get(), section)
        .await?;
    json(MaybeReady::Yes(words)).await
}

fn page_number(text: &str) -> Result<PageNo, Problem> {
    let number = text.parse().ok().and_then(PageNo::new);
    number.ok_or_else(|| Problem::parameter(400, "n", "a page is a number, from 1"))
}
