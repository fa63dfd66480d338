//! Search: sections and documents that fit a question.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_answers::tree_search;
use stemma_retrieval::RankingStrategy;
use utoipa::ToSchema;

use stemma_archive::{BrowseResponse, SearchRequest, SearchResponse, TreeSearchOptions};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::{checked_limit, parse_body, parse_filter};
use stemma_gateway::cursor;
use stemma_gateway::extract::{HandlerResult, json};
use stemma_gateway::problem::Problem;

/// What `POST /v1/search` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "query": "hedging of foreign currency", "strategy": "best_first", "explain": true }))]
#[serde(deny_unknown_fields)]
pub(super) struct SearchBody {
    /// A question, or key words.
    query: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths; all documents without.
    #[serde(default)]
    scopes: Vec<String>,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = crate::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Only in this Item: 1A, II.1A.
    item: Option<String>,
    /// Hits of the answer, 10 without.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the answer before.
    cursor: Option<String>,
    /// `auto`, `ranked` or `lexical`; or one that asks a model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    #[schema(pattern = "^(auto|ranked|lexical|single|best_first|beam|mcts|auto-with-model)$")]
    strategy: Option<String>,
    /// Calls of a model at most; as configured without.
    #[schema(format = "uint32")]
    budget_calls: Option<u32>,
    /// Tokens of prompts and replies at most; as configured without.
    #[schema(format = "uint64")]
    budget_tokens: Option<u64>,
    /// Say what scores are made of.
    #[serde(default)]
    explain: bool,
    /// Say where words stand on their pages; costs a read of each text.
    #[serde(default)]
    rectangles: bool,
}

/// What `POST /v1/browse` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowseBody {
    /// A question, or key words.
    query: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// A folder or axis path; all documents without.
    #[serde(default)]
    scope: String,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = crate::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Documents of folders below, too.
    #[serde(default)]
    recursive: bool,
    /// Documents of the answer, 10 without.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Sections that fit, and where to go on.
#[derive(Serialize, ToSchema)]
pub(super) struct SearchPage {
    #[serde(flatten)]
    response: SearchResponse,
    /// Asks for the next ones; `null` at the end.
    next_cursor: Option<String>,
}

/// Search sections
///
/// Sections that fit a question, best first, with the pages and words that speak for them. A model is asked only where the
/// strategy is one of those that ask one; `reasoning` then says what it did, what it cost, and where it did less than asked.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchBody,
    responses((status = 200, body = SearchPage)))]
pub(super) async fn search(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let request: SearchBody = parse_body(&parts, body)?;
    let (strategy, tree_search_options) = strategies(&request)?;
    if tree_search_options.is_some() {
        // Its place is held until it is answered: who goes away stops it, and what was paid for is remembered.
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

/// How a request wants to be ranked, and how a model is asked for it.
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
/// Documents of a folder that fit a question, best first, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseBody,
    responses((status = 200, body = BrowseResponse)))]
pub(super) async fn browse(
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
