//! Question answering: ask, stream, and read stored answers.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stemma_answers::{
    AnswerLimits, AnswerMode, CitationPolicy, ConversationTurn, MAX_EARLIER, RetrievalStrategy,
};
use stemma_archive::SearchRequest;
use stemma_gateway::AppState;
use stemma_gateway::accept::{Accept, EVENTS, JSON};
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::{parse_body, parse_filter};
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json};
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_gateway::sse::{sse_response, stored_response, stream_answer, stream_in_progress};
use utoipa::ToSchema;

// After this the reply is 202 with the answer id.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);
const RETRY_AFTER_SECONDS: &str = "2";

/// What `POST /v1/answers` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "question": "What was revenue?", "where": "fiscal_year>=2015" }))]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerRequest {
    question: String,
    /// Defaults to the server's first collection.
    collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths. Defaults to all documents. The answer never uses others.
    #[serde(default)]
    scopes: Vec<String>,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = crate::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Limits the answer to an Item: 1A, II.1A.
    item: Option<String>,
    /// Previous turns, oldest first: `{question, answer}`.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    earlier: Vec<ConversationTurn>,
    /// Retrieval strategy: `auto`, `ranked`, `lexical`; with a model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    strategy: Option<String>,
    /// `search` retrieves sections, then answers; `agent` lets the model call tools.
    #[schema(pattern = "^(search|agent)$")]
    mode: Option<String>,
    /// `verified` omits citations whose quote is not on the cited page.
    #[schema(pattern = "^(all|verified)$")]
    citations: Option<String>,
    #[schema(schema_with = crate::openapi::limits)]
    limits: Option<NamedLimits>,
}

// serde would also read a struct from an array; limits must be an object.
#[derive(Debug, Deserialize)]
#[serde(try_from = "serde_json::Map<String, serde_json::Value>")]
struct NamedLimits(AnswerLimits);

impl TryFrom<serde_json::Map<String, serde_json::Value>> for NamedLimits {
    type Error = serde_json::Error;

    fn try_from(map: serde_json::Map<String, serde_json::Value>) -> Result<Self, Self::Error> {
        serde_json::from_value(map.into()).map(Self)
    }
}

/// An answer in progress.
#[derive(Serialize, ToSchema)]
pub(crate) struct AnswerInProgress {
    /// Id of the answer.
    id: String,
    /// `running`.
    status: &'static str,
}

/// Ask a question
///
/// Answers from the documents, with citations verified against their pages. Answers are stored: the same question over the
/// same trees returns the same answer. With `Accept: text/event-stream` it is streamed: `route, step, section, delta, citation, usage,
/// done, error`; `Last-Event-ID` resumes after that event of the same run. Otherwise a slow answer is a 202 with its id.
#[utoipa::path(post, path = "/v1/answers", tag = "answers", request_body = AnswerRequest,
    responses(
        (status = 200, content((crate::openapi::AnswerObject = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")), description = "the answer or its events"),
        (status = 202, body = AnswerInProgress, description = "in progress: read it at Location"),
    ))]
pub(crate) async fn ask(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let place = RequestPermit::from_parts(&parts)?
        .upgrade_for_model()
        .await?;
    let request: AnswerRequest = parse_body(&parts, body)?;
    let archive = site.archive(
        CollectionScope::from_parts(&parts),
        request.collection.as_deref(),
    )?;
    let answerer = site.answerer(&archive)?;
    let question = question(request, &archive)?;
    answerer.check(&question).map_err(answer_problem)?;
    let id = answerer.answer_id(&question);
    if wants_events(&parts) {
        return Ok(sse_response(
            &id,
            stream_answer(&site.env, place, answerer, question),
            &parts.headers,
        ));
    }
    let answering = async move {
        let _place = place;
        answerer.answer(&question, &mut ()).await
    };
    let mut answer = site.env.spawn(answering); // detached: generation continues after a disconnect
    match tokio::time::timeout(ANSWER_TIMEOUT, &mut answer).await {
        Ok(Ok(answered)) => json(answered.map_err(answer_problem)?).await,
        Ok(Err(_)) => Err(answer_problem(stemma_answers::AnswerError::Internal).into()),
        Err(_) => Ok(running(&id)),
    }
}

/// Read an answer
///
/// Returns the stored answer, or with `Accept: text/event-stream` its events after `Last-Event-ID`. An answer in progress is
/// 202 or a live stream. 204 if `Last-Event-ID` is the last event.
#[utoipa::path(get, path = "/v1/answers/{id}", tag = "answers",
    params(("id" = String, Path, pattern = "^a-[0-9a-f]{16}$"), ("collection" = Option<String>, Query)),
    responses((status = 200, content((crate::openapi::AnswerObject = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream"))), (status = 202, body = AnswerInProgress, description = "in progress"), (status = 204, description = "`Last-Event-ID` is the last event")))]
pub(crate) async fn stored(
    site: axum::extract::State<AppState>,
    parts: Parts,
    request: ArchiveRequest,
) -> HandlerResult {
    request.parameters.reject_unknown()?;
    let id = request.segment("id").to_owned();
    let answerer = site.answerer(&request.archive)?;
    let making = answerer.is_in_flight(&id);
    let events = wants_events(&parts);
    match answerer.stored(&id).await.map_err(answer_problem)? {
        Some(answer) if events => Ok(stored_response(&id, &answer, &parts.headers)),
        Some(answer) => json(answer).await,
        None if making && events => Ok(sse_response(
            &id,
            stream_in_progress(&site.env, answerer, id.clone()),
            &parts.headers,
        )),
        None if making => Ok(running(&id)),
        None => Err(
            Problem::new(404, "answer.unknown", "there is no answer of this id")
                .with_next("POST /v1/answers")
                .into(),
        ),
    }
}

fn question(
    request: AnswerRequest,
    archive: &stemma_archive::Archive,
) -> Result<stemma_answers::AskRequest, stemma_gateway::extract::HandlerError> {
    let AnswerRequest {
        question,
        scopes,
        filter,
        item,
        mut earlier,
        strategy,
        mode,
        citations,
        limits,
        ..
    } = request;
    let searched = SearchRequest {
        text: question,
        scopes,
        filter: parse_filter(filter)?,
        item,
        ..SearchRequest::default()
    };
    let ask_request = archive.ask_request(&searched)?;
    let wrong = |pointer: &str, words: &str| {
        Problem::parameter(
            422,
            pointer,
            format!("`{}` is one of {words}", &pointer[1..]),
        )
    };
    let strategy = match strategy.as_deref() {
        None => RetrievalStrategy::default(),
        Some(name) => RetrievalStrategy::from_name(name)
            .ok_or_else(|| wrong("/strategy", &RetrievalStrategy::names().join(", ")))?,
    };
    let mode = match mode.as_deref() {
        None => AnswerMode::default(),
        Some(name) => AnswerMode::from_name(name).ok_or_else(|| wrong("/mode", "search, agent"))?,
    };
    let citations = match citations.as_deref() {
        None | Some("all") => CitationPolicy::All,
        Some("verified") => CitationPolicy::Verified,
        Some(_) => return Err(wrong("/citations", "all, verified").into()),
    };
    earlier.drain(..earlier.len().saturating_sub(MAX_EARLIER));
    let limits = limits.map(|limits| limits.0).unwrap_or_default();
    Ok(stemma_answers::AskRequest {
        earlier,
        strategy,
        mode,
        citations,
        limits,
        ..ask_request
    })
}

fn running(id: &str) -> Response {
    let body = AnswerInProgress {
        id: id.to_owned(),
        status: "running",
    };
    let headers = [
        (header::LOCATION, format!("/v1/answers/{id}")),
        (header::RETRY_AFTER, RETRY_AFTER_SECONDS.to_owned()),
    ];
    (StatusCode::ACCEPTED, headers, axum::Json(body)).into_response()
}

fn wants_events(parts: &Parts) -> bool {
    Accept::from_headers(&parts.headers).prefers(EVENTS, JSON)
}
