//! Document comparison.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_archive::{CompareRequest, Comparison, MAX_SENTENCES};
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::parse_body;
use stemma_gateway::extract::{HandlerResult, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::{AppState, cursor};
use utoipa::ToSchema;

const MAX_PAIRS: usize = 500;
const DEFAULT_PAIRS: usize = 100;
const DEFAULT_SENTENCES: usize = 3;

/// What `POST /v1/comparisons` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareBody {
    /// Earlier document or a part of it (`3M_2021_10K#item-7`). Defaults to the issuer's filing before `right`.
    left: Option<String>,
    /// Later document or a part of it.
    right: String,
    /// Defaults to the server's first collection.
    collection: Option<String>,
    /// Limits the comparison to an Item: 1A, II.1A.
    item: Option<String>,
    /// Outcomes to return: `unchanged`, `modified`, `added`, `removed`, `unknown`. Defaults to all.
    #[serde(default)]
    outcomes: Vec<String>,
    /// Sentences per kind (added, removed, reworded) and pair. Defaults to 3.
    #[schema(maximum = 20)]
    sentences: Option<usize>,
    /// Pairs per page. Defaults to 100.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// A page of a comparison.
#[derive(Serialize, ToSchema)]
pub(crate) struct ComparisonPage {
    #[serde(flatten)]
    comparison: Comparison,
    /// Number of pairs with the requested outcomes.
    total: usize,
    /// Cursor of the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// Compare two documents
///
/// Aligns the sections of two documents, in the order of the second: unchanged, modified, added or removed, and whether
/// renamed or moved, with the share of changed words per Item. No model is called.
#[utoipa::path(post, path = "/v1/comparisons", tag = "search", request_body = CompareBody,
    responses((status = 200, body = ComparisonPage)))]
pub(crate) async fn compare(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let request: CompareBody = parse_body(&parts, body)?;
    RequestPermit::from_parts(&parts)?.upgrade_to_long().await?; // reads the text of two documents
    let CompareBody {
        left,
        right,
        collection,
        item,
        outcomes,
        sentences,
        limit,
        cursor,
    } = request;
    let limit = check_range("/limit", limit.unwrap_or(DEFAULT_PAIRS), 1, MAX_PAIRS)?;
    let sentences = check_range(
        "/sentences",
        sentences.unwrap_or(DEFAULT_SENTENCES),
        0,
        MAX_SENTENCES,
    )?;
    let is_outcome = |word: &String| {
        stemma_diff::DiffStatus::ALL
            .iter()
            .any(|outcome| outcome.as_str() == word)
    };
    if let Some(at) = outcomes.iter().position(|word| !is_outcome(word)) {
        let all = stemma_diff::DiffStatus::ALL
            .map(|outcome| outcome.as_str())
            .join(", ");
        return Err(Problem::parameter(
            422,
            &format!("/outcomes/{at}"),
            format!("outcomes are {all}"),
        )
        .into());
    }
    let archive = site.archive(CollectionScope::from_parts(&parts), collection.as_deref())?;
    let sides = CompareRequest {
        left,
        right,
        item,
        sentences,
    };
    let mut comparison = archive.compare(&sides).await?;
    // The cursor is bound to both versions: a new version changes the pairs.
    let versions = (
        comparison.left.document.version,
        comparison.right.document.version,
    );
    let under = format!("{sides:?}\n{outcomes:?}\n{versions:?}");
    let skip = cursor::decode_offset(cursor, &under)?;
    if !outcomes.is_empty() {
        comparison
            .pairs
            .retain(|pair| outcomes.iter().any(|word| word == pair.outcome.as_str()));
    }
    let total = comparison.pairs.len();
    comparison.pairs = comparison
        .pairs
        .into_iter()
        .skip(skip)
        .take(limit)
        .collect();
    let next = skip + comparison.pairs.len();
    let next_cursor = (next < total).then(|| cursor::encode(&under, &next.to_string()));
    json(ComparisonPage {
        comparison,
        total,
        next_cursor,
    })
    .await
}

fn check_range(pointer: &str, number: usize, least: usize, most: usize) -> Result<usize, Problem> {
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(Problem::parameter(
            422,
            pointer,
            format!("{} is from {least} to {most}", &pointer[1..]),
        )),
    }
}
