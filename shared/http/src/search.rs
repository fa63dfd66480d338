//! Search over sections and documents.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_answers::tree_search;
use stemma_archive::{BrowseResponse, SearchRequest, SearchResponse, TreeSearchOptions};
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::{checked_limit, parse_body, parse_filter};
use stemma_gateway::extract::{HandlerResult, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::{AppState, cursor};
use stemma_retrieval::RankingStrategy;
use utoipa::ToSchema;

/// What `POST /v1/search` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "query": "hedging of foreign currency", "strategy": "best_first", "explain": true }))]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchBody {
    /// A question or keywords.
    query: String,
    /// Defaults to the server's first collection.
    collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths. Defaults to all documents.
    #[serde(default)]
    scopes: Vec<String>,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = crate::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Limits the search to an Item: 1A, II.1A.
    item: Option<String>,
    /// Hits per page. Defaults to 10.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// `auto`, `ranked` or `lexical`; with a model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    #[schema(pattern = "^(auto|ranked|lexical|single|best_first|beam|mcts|auto-with-model)$")]
    strategy: Option<String>,
    /// Maximum model calls. Defaults to the configuration.
    #[schema(format = "uint32")]
    budget_calls: Option<u32>,
    /// Maximum prompt and reply tokens. Defaults to the configuration.
    #[schema(format = "uint64")]
    budget_tokens: Option<u64>,
    /// Include score components.
    #[serde(default)]
    explain: bool,
    /// Include match positions; reads the text of each hit.
    #[serde(default)]
    rectangles: bool,
}

/// What `POST /v1/browse` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrowseBody {
    /// A question or keywords.
    query: String,
    /// Defaults to the server's first collection.
    collection: Option<String>,
    /// A folder or axis path. Defaults to all documents.
    #[serde(default)]
    scope: String,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = crate::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Include subfolders.
    #[serde(default)]
    recursive: bool,
    /// Number of documents. Defaults to 10.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of search results.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchPage {
    #[serde(flatten)]
    response: SearchResponse,
    /// Cursor of the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// Search sections
///
/// Ranked sections with the pages and terms that match. A model is called only by strategies that need one; `reasoning` then
/// reports the steps, the cost and any degradation.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchBody,
    responses((status = 200, body = SearchPage)))]
pub(crate) async fn search(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let request: SearchBody = parse_body(&parts, body)?;
    let (strategy, tree_search_options) = strategies(&request)?;
    if tree_search_options.is_some() {
        // The permit is held until the response. A disconnect cancels the search; paid model replies stay cached.
        RequestPermit::from_parts(&parts)?
            .upgrade_for_model()
            .await?;
    }
    let SearchBody {
        query,
        collection,
        scopes,
        filter,
        item,
        limit,
        cursor,
        explain,
        rectangles,
        ..
    } = request;
    let under = format!(
        "{query}\n{scopes:?}\n{filter:?}\n{item:?}\n{}",
        strategy.as_str()
    );
    let skip = cursor::decode_offset(cursor, &under)?;
    let limit = checked_limit(limit)?;
    let filter = parse_filter(filter)?;
    let archive = site.archive(CollectionScope::from_parts(&parts), collection.as_deref())?;
    let question = SearchRequest {
        text: query,
        scopes,
        filter,
        item,
        limit,
        skip,
        strategy,
        rectangles,
        explain,
        tree_search: tree_search_options,
        free_only: !RequestPermit::from_parts(&parts)?.may_ask(),
        ..SearchRequest::default()
    };
    let (response, next) = archive.search(site.searcher(&archive), &question).await?;
    let next_cursor = next.map(|next| cursor::encode(&under, &next.to_string()));
    json(SearchPage {
        response,
        next_cursor,
    })
    .await
}

// The ranking strategy and, if it needs a model, the tree search request.
fn strategies(
    request: &SearchBody,
) -> Result<(RankingStrategy, Option<TreeSearchOptions>), Problem> {
    let strategy_name = request.strategy.as_deref();
    let calls = request.budget_calls;
    let tokens = request.budget_tokens;
    if let Some(strategy) = strategy_name.and_then(tree_search::TreeSearchStrategy::from_name) {
        return Ok((
            RankingStrategy::default(),
            Some(TreeSearchOptions {
                strategy,
                calls,
                tokens,
            }),
        ));
    }
    if calls.is_some() || tokens.is_some() {
        return Err(Problem::parameter(
            422,
            "/budget_calls",
            "a budget is for strategies that ask a model",
        ));
    }
    let strategy = strategy_name
        .map_or(Some(RankingStrategy::default()), RankingStrategy::from_name)
        .ok_or_else(|| {
            let with =
                tree_search::TreeSearchStrategy::ALL.map(tree_search::TreeSearchStrategy::as_str);
            let all = [
                &RankingStrategy::ALL.map(RankingStrategy::as_str)[..],
                &with[..],
            ]
            .concat()
            .join(", ");
            Problem::parameter(422, "/strategy", format!("strategies are {all}"))
        })?;
    Ok((strategy, None))
}

/// Rank documents
///
/// Ranked documents of a folder, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseBody,
    responses((status = 200, body = BrowseResponse)))]
pub(crate) async fn browse(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let BrowseBody {
        query,
        collection,
        scope,
        filter,
        recursive,
        limit,
    } = parse_body(&parts, body)?;
    let limit = checked_limit(limit)?;
    let filter = parse_filter(filter)?;
    let archive = site.archive(CollectionScope::from_parts(&parts), collection.as_deref())?;
    let free_only = !RequestPermit::from_parts(&parts)?.may_ask();
    let question = SearchRequest {
        text: query,
        filter,
        limit,
        free_only,
        ..SearchRequest::default()
    };
    json(
        archive
            .browse(site.searcher(&archive), &scope, &question, recursive)
            .await?,
    )
    .await
}
