//! Search: sections and documents that fit a question.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::header;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_answers::reason;
use stemma_catalog::filter::Filter;
use stemma_retrieval::Strategy;
use utoipa::ToSchema;

use super::asked::{Answer, MAX_LISTED, json};
use super::cursor;
use super::keys::Reach;
use super::problem::Problem;
use super::routes::Site;
use super::stay::Stay;
use crate::{BrowseView, FoundView, Question, Reasoned, Refusal};

/// What `POST /v1/search` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "query": "hedging of foreign currency", "strategy": "best_first", "explain": true }))]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRequest {
    /// A question, or key words.
    query: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths; all documents without.
    #[serde(default)]
    scopes: Vec<String>,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = super::openapi::conditions)]
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
pub(super) struct BrowseRequest {
    /// A question, or key words.
    query: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// A folder or axis path; all documents without.
    #[serde(default)]
    scope: String,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = super::openapi::conditions)]
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
pub(super) struct SearchAnswer {
    #[serde(flatten)]
    found: FoundView,
    /// Asks for the next ones; `null` at the end.
    next_cursor: Option<String>,
}

/// Search sections
///
/// Sections that fit a question, best first, with the pages and words that speak for them. A model is asked only where the
/// strategy is one of those that ask one; `reasoning` then says what it did, what it cost, and where it did less than asked.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses((status = 200, body = SearchAnswer)))]
pub(super) async fn search(
    site: axum::extract::State<Site>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let request: SearchRequest = read(&parts, body)?;
    let (strategy, reasoned) = strategies(&request)?;
    if reasoned.is_some() {
        // Its place is held until it is answered: who goes away stops it, and what was paid for is remembered.
        Stay::of(&parts)?.ask().await?;
    }
    let SearchRequest {
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
    let skip = cursor::skip(cursor, &under)?;
    let limit = hits(limit)?;
    let filter = conditions(filter)?;
    let reader = site.reader(Reach::of(&parts), collection.as_deref())?;
    let question = Question {
        text: query,
        scopes,
        filter,
        item,
        limit,
        skip,
        strategy,
        rectangles,
        explain,
        reasoned,
        for_nothing: !Stay::of(&parts)?.may_ask(),
        ..Question::default()
    };
    let (found, next) = reader.ask(site.finder(&reader), &question).await?;
    let next_cursor = next.map(|next| cursor::show(&under, &next.to_string()));
    json(SearchAnswer { found, next_cursor }).await
}

/// How a request wants to be ranked, and how a model is asked for it.
fn strategies(request: &SearchRequest) -> Result<(Strategy, Option<Reasoned>), Problem> {
    let named = request.strategy.as_deref();
    let calls = request.budget_calls;
    let tokens = request.budget_tokens;
    if let Some(strategy) = named.and_then(reason::Strategy::named) {
        return Ok((
            Strategy::default(),
            Some(Reasoned {
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
    let strategy = named
        .map_or(Some(Strategy::default()), Strategy::named)
        .ok_or_else(|| {
            let with = reason::Strategy::ALL.map(reason::Strategy::as_str);
            let all = [&Strategy::ALL.map(Strategy::as_str)[..], &with[..]]
                .concat()
                .join(", ");
            Problem::parameter(422, "/strategy", format!("strategies are {all}"))
        })?;
    Ok((strategy, None))
}

/// Rank documents
///
/// Documents of a folder that fit a question, best first, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseRequest,
    responses((status = 200, body = BrowseView)))]
pub(super) async fn browse(
    site: axum::extract::State<Site>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let BrowseRequest {
        query,
        collection,
        scope,
        filter,
        recursive,
        limit,
    } = read(&parts, body)?;
    let limit = hits(limit)?;
    let filter = conditions(filter)?;
    let reader = site.reader(Reach::of(&parts), collection.as_deref())?;
    let for_nothing = !Stay::of(&parts)?.may_ask();
    let question = Question {
        text: query,
        filter,
        limit,
        for_nothing,
        ..Question::default()
    };
    json(
        reader
            .browse(site.finder(&reader), &scope, &question, recursive)
            .await?,
    )
    .await
}

/// The body as what it is to be.
pub(super) fn read<T: DeserializeOwned>(
    parts: &Parts,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Problem> {
    super::parameters::Parameters::of(parts.uri.query())?.none_left()?;
    let body = body.map_err(|rejection| {
        let status = rejection.status().as_u16();
        Problem::new(
            status,
            if status == 413 {
                "body.too_large"
            } else {
                "body.unreadable"
            },
            rejection.body_text(),
        )
    })?;
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            415,
            "body.type",
            "the body is to be application/json",
        ));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let status = if error.is_data() { 422 } else { 400 };
        Problem::parameter(status, "", error.to_string())
    })
}

fn hits(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(10) {
        limit @ 1..=MAX_LISTED => Ok(limit),
        _ => Err(Problem::parameter(
            422,
            "/limit",
            format!("limit is from 1 to {MAX_LISTED}"),
        )),
    }
}

pub(super) fn conditions(filter: Option<serde_json::Value>) -> Result<Filter, Refusal> {
    use serde_json::Value;
    Ok(match filter {
        None | Some(Value::Null) => Filter::default(),
        Some(Value::String(text)) => Filter::parse(&text)?,
        Some(value) => Filter::from_json(&value)?,
    })
}
