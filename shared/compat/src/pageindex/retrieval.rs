//! PageIndex retrieval: ranked sections of one document, with their text.
//!
//! PageIndex runs retrievals in the background. Here a retrieval takes milliseconds and runs when its result is requested:
//! the id encodes the question, so any replica can answer it, even after a restart.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_archive::archive::no_text;
use stemma_archive::pageindex_fields::status;
use stemma_archive::{ApiError, SearchHit, SearchRequest};
use stemma_document::{DocId, PageNo, PageSpan};
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, Json, Path, QueryParams, find_document, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_retrieval::search::MAX_QUERY_CHARS;
use utoipa::ToSchema;

use crate::pageindex::LenientQuery;

const NODES: usize = 5;
const PAGES: usize = 3;

/// Body of `POST /retrieval/`. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RetrievalRequest)]
pub(crate) struct RetrievalRequest {
    /// An id, a name or a path.
    doc_id: String,
    #[schema(min_length = 1)]
    query: String,
    /// Accepted for compatibility; the ranking is the same, and no model is called.
    #[serde(default)]
    thinking: bool,
}

/// An accepted retrieval.
#[derive(Serialize, ToSchema)]
pub(crate) struct RetrievalReceipt {
    retrieval_id: String,
    /// `completed`.
    status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RetrievalResponse {
    retrieval_id: String,
    doc_id: String,
    /// `completed`; of a document without a tree its status: `queued`, `processing`, `failed`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// `ranked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    /// Ranked sections, at most five: `title`, `node_id`, `path`, `score`, and `relevant_contents` with the text of the best pages
    /// (`page_index`, `physical_index`, `relevant_content`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    retrieved_nodes: Option<Vec<Value>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RetrievalId {
    doc: DocId,
    query: String,
}

/// Ask for sections of a document
///
/// Accepts a question about one document. No model is called.
#[utoipa::path(post, path = "/retrieval/", operation_id = "pageindex_retrieve", tag = "pageindex", request_body = RetrievalRequest,
    responses((status = 200, body = RetrievalReceipt)))]
pub(crate) async fn submit(
    State(state): State<AppState>,
    collections: CollectionScope,
    Json(body): Json<RetrievalRequest>,
) -> HandlerResult {
    let query = body.query;
    if query.trim().is_empty() || query.chars().count() > MAX_QUERY_CHARS {
        let detail = format!("query must have 1 to {MAX_QUERY_CHARS} characters");
        return Err(Problem::parameter(422, "/query", detail).into());
    }
    let archive = state.archive(&collections, None)?;
    let doc = find_document(&archive, &body.doc_id)?.doc();
    tracing::debug!(thinking = body.thinking, "a retrieval was submitted");
    json(RetrievalReceipt {
        retrieval_id: encode_id(&RetrievalId { doc, query }),
        status: "completed",
    })
    .await
}

/// Sections of a document that fit a question
#[utoipa::path(get, path = "/retrieval/{retrieval}/", operation_id = "pageindex_retrieval", tag = "pageindex",
    params(("retrieval" = String, Path), LenientQuery),
    responses((status = 200, body = RetrievalResponse)))]
pub(crate) async fn result(
    State(state): State<AppState>,
    collections: CollectionScope,
    Path(id): Path<String>,
    QueryParams(parameters): QueryParams<LenientQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, parameters.collection.as_deref())?;
    let RetrievalId { doc, query } = decode_id(&id).ok_or_else(no_retrieval)?;
    let listed = archive.catalog().get(doc).map_err(ApiError::from)?;
    let listed = listed.ok_or_else(no_retrieval)?;
    let mut found = RetrievalResponse {
        retrieval_id: id,
        doc_id: doc.to_string(),
        status: status(listed.state),
        query: None,
        strategy: None,
        retrieved_nodes: None,
    };
    if listed.entry().is_none() {
        return json(found).await;
    }
    let search = SearchRequest {
        query: query.clone(),
        documents: Some(vec![doc]),
        limit: Some(NODES),
        ..SearchRequest::default()
    };
    let response = archive.search(&search).await?;
    let packed = match archive.load_tree(&listed).await.map_err(ApiError::from)? {
        Some(published) => {
            let packed = archive.load_source(&published).await;
            packed.map_err(ApiError::from)?
        }
        None => None,
    };
    let packed = packed.ok_or_else(|| no_text(&listed))?;
    let nodes = stemma_archive::archive::spawn_cpu(move || {
        let nodes = response.hits.iter().map(|hit| node(hit, &packed));
        nodes.collect::<Vec<_>>()
    });
    found.status = "completed";
    found.query = Some(query);
    found.strategy = Some("ranked");
    found.retrieved_nodes = Some(nodes.await.map_err(ApiError::from)?);
    json(found).await
}

fn no_retrieval() -> Problem {
    let detail = "the retrieval does not exist";
    Problem::new(404, "pageindex.no_retrieval", detail)
}

// The text of the best pages, or an excerpt if the section has no pages.
fn node(hit: &SearchHit, packed: &stemma_extract::EncodedSource) -> Value {
    let mut contents: Vec<Value> = hit
        .best_pages
        .iter()
        .take(PAGES)
        .filter_map(|best| page_content(packed, best.page))
        .collect();
    if contents.is_empty() {
        contents.push(json!({ "relevant_content": hit.excerpt.text }));
    }
    json!({
        "title": hit.path.last(),
        "node_id": hit.section_id,
        "path": hit.path,
        "score": hit.score,
        "relevant_contents": contents,
    })
}

fn page_content(packed: &stemma_extract::EncodedSource, number: u32) -> Option<Value> {
    let number = PageNo::new(number)?;
    let pages = packed.pages(PageSpan::between(number, number)).ok()?;
    let text = pages.first()?.text();
    // SDK versions use either name.
    Some(json!({ "page_index": number, "physical_index": number, "relevant_content": text }))
}

// The question and a checksum that detects truncated ids.
fn encode_id(retrieval: &RetrievalId) -> String {
    let text = serde_json::to_string(retrieval).unwrap_or_default();
    format!("rt-{}{}", digest(&text), hex::encode(&text))
}

fn decode_id(id: &str) -> Option<RetrievalId> {
    let (expected_digest, encoded) = id.strip_prefix("rt-")?.split_at_checked(8)?;
    let text = String::from_utf8(hex::decode(encoded).ok()?).ok()?;
    let retrieval = serde_json::from_str(&text).ok();
    retrieval.filter(|_| digest(&text) == expected_digest)
}

fn digest(text: &str) -> String {
    let hex = blake3::hash(text.as_bytes()).to_hex();
    hex.chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retrieval_ids_encode_their_question() {
        let doc = DocId::new(&stemma_document::Collection::default(), "a");
        let retrieval = RetrievalId {
            doc,
            query: "Wie hoch ist die Marge? 边际".into(),
        };
        let id = encode_id(&retrieval);
        assert_eq!(decode_id(&id), Some(retrieval));
        for wrong in [
            "",
            "rt-",
            "rt-00",
            &id[..id.len() - 2],
            &id[3..],
            "rt-éééééééé",
            &format!("{id}é"),
        ] {
            assert_eq!(decode_id(wrong), None, "{wrong}");
        }
    }
}
