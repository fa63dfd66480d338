//! Comparison: two documents side by side.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use stemma_archive::{CompareRequest, Comparison, MAX_SENTENCES};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::parse_body;
use stemma_gateway::cursor;
use stemma_gateway::extract::{HandlerResult, json};
use stemma_gateway::problem::Problem;

/// Pairs of an answer at most, and where the request does not say.
const MAX_PAIRS: usize = 500;
const DEFAULT_PAIRS: usize = 100;
/// Sentences of each sort, where the request does not say.
const DEFAULT_SENTENCES: usize = 3;

/// What `POST /v1/comparisons` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareBody {
    /// The document before, or a part of it (`3M_2021_10K#item-7`); without: the filing of the same issuer before `right`.
    left: Option<String>,
    /// The document after, or a part of it.
    right: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// Only this Item and all below it: 1A, II.1A.
    item: Option<String>,
    /// Only pairs of these outcomes: `unchanged`, `modified`, `added`, `removed`, `unknown`; all without.
    #[serde(default)]
    outcomes: Vec<String>,
    /// Sentences of each sort (added, removed, reworded) of each pair, 3 without.
    #[schema(maximum = 20)]
    sentences: Option<usize>,
    /// Pairs of the answer, 100 without.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the answer before.
    cursor: Option<String>,
}

/// Two documents side by side, and where to go on.
#[derive(Serialize, ToSchema)]
pub(super) struct ComparisonPage {
    #[serde(flatten)]
    comparison: Comparison,
    /// Pairs there are, of the outcomes asked for.
    total: usize,
    /// Asks for the next pairs; `null` at the end.
    next_cursor: Option<String>,
}

/// Compare two documents
///
/// Sections of two documents aligned, in the order of the second: unchanged, modified, added, removed; renamed and moved
/// besides; with the share of words that changed in each Item. No model is asked.
#[utoipa::path(post, path = "/v1/comparisons", tag = "search", request_body = CompareBody,
    responses((status = 200, body = ComparisonPage)))]
pub(super) async fn compare(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let request: CompareBody = parse_body(&parts, body)?;
    RequestPermit::from_parts(&parts)?.upgrade_to_long().await?; // held until it is answered: the texts of two documents are read
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
    // Another version of either document is another list.
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
