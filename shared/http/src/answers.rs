//! Question answering: ask, stream, and read stored answers.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stemma_archive::archive::outliving;
use stemma_archive::{AnswerReply, AnswerRequest};
use stemma_gateway::accept::{Accept, EVENTS, JSON};
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{CollectionQuery, HandlerResult, Json, Path, QueryParams, json};
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_gateway::rights::CollectionScope;
use stemma_gateway::sse::{sse_response, stored_response, stream_answer, stream_in_progress};
use stemma_gateway::{AppState, PreparedQuestion};
use utoipa::ToSchema;

// After this the reply is 202 with the answer id.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);
const RETRY_AFTER_SECONDS: &str = "2";
// Names the conversation of a stream, whose events have the stored answer only.
const CONVERSATION: HeaderName = HeaderName::from_static("stemma-conversation");

#[derive(Serialize, ToSchema)]
pub(crate) struct AnswerInProgress {
    id: String,
    /// `running`.
    status: &'static str,
    /// The conversation that keeps the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
}

/// Ask a question
///
/// Answers from the documents, with citations verified against their pages. Answers are stored: the same question over the
/// same trees returns the same answer. With `Accept: text/event-stream` it is streamed: `route, step, section, delta, citation, usage,
/// done, error`; `Last-Event-ID` resumes after that event of the same run. Otherwise a slow answer is a 202 with its id.
/// `conversation` of the answer, or the header `Stemma-Conversation` of a stream, names the conversation that keeps the question.
#[utoipa::path(post, path = "/v1/answers", tag = "answers", request_body = AnswerRequest,
    responses(
        (status = 200, content((crate::openapi::AnswerObject = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")), description = "the answer or its events"),
        (status = 202, body = AnswerInProgress, description = "in progress: read it at Location"),
    ))]
pub(crate) async fn ask(
    State(state): State<AppState>,
    ModelRequest(permit): ModelRequest,
    scope: CollectionScope,
    headers: HeaderMap,
    Json(request): Json<AnswerRequest>,
) -> HandlerResult {
    let place = permit.upgrade_for_model().await?;
    let archive = state.archive(&scope, request.collection.as_deref())?;
    let PreparedQuestion {
        answerer,
        question,
        id,
        conversation,
    } = state.prepare_question(&archive, request).await?;
    if wants_events(&headers) {
        let events = stream_answer(&state.env, place, answerer, question);
        let mut response = sse_response(&id, events, &headers);
        let name = conversation.and_then(|id| HeaderValue::try_from(id).ok());
        response
            .headers_mut()
            .extend(name.map(|name| (CONVERSATION, name)));
        return Ok(response);
    }
    let answering = async move {
        let _place = place;
        answerer.answer(&question, &mut ()).await
    };
    let mut answer = state.env.spawn(outliving(answering)); // detached: generation continues after a disconnect
    match tokio::time::timeout(ANSWER_TIMEOUT, &mut answer).await {
        Ok(Ok(answered)) => {
            let answer = answered.map_err(answer_problem)?;
            json(AnswerReply {
                answer,
                conversation,
            })
            .await
        }
        Ok(Err(_)) => Err(answer_problem(stemma_answers::AnswerError::Internal).into()),
        Err(_) => Ok(running(&id, conversation)),
    }
}

/// Read an answer
///
/// Returns the stored answer, or with `Accept: text/event-stream` its events after `Last-Event-ID`. An answer in progress is
/// 202 or a live stream. 204 if `Last-Event-ID` is the last event.
#[utoipa::path(get, path = "/v1/answers/{id}", tag = "answers",
    params(("id" = String, Path, pattern = "^a-[0-9a-f]{16}$"), CollectionQuery),
    responses((status = 200, content((crate::openapi::AnswerObject = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream"))), (status = 202, body = AnswerInProgress, description = "in progress"), (status = 204, description = "`Last-Event-ID` is the last event")))]
pub(crate) async fn stored(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
    headers: HeaderMap,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let answerer = state.answerer(&archive)?;
    let making = answerer.is_in_flight(&id);
    let events = wants_events(&headers);
    match answerer.stored(&id).await.map_err(answer_problem)? {
        Some(answer) if events => Ok(stored_response(&id, &answer, &headers)),
        Some(answer) => json(answer).await,
        None if making && events => Ok(sse_response(
            &id,
            stream_in_progress(&state.env, answerer, id.clone()),
            &headers,
        )),
        None if making => Ok(running(&id, None)),
        None => Err(Problem::new(404, "answer.unknown", "no answer has this id")
            .with_next("POST /v1/answers")
            .into()),
    }
}

fn running(id: &str, conversation: Option<String>) -> Response {
    let body = AnswerInProgress {
        id: id.to_owned(),
        status: "running",
        conversation,
    };
    let headers = [
        (header::LOCATION, format!("/v1/answers/{id}")),
        (header::RETRY_AFTER, RETRY_AFTER_SECONDS.to_owned()),
    ];
    (StatusCode::ACCEPTED, headers, axum::Json(body)).into_response()
}

fn wants_events(headers: &HeaderMap) -> bool {
    Accept::from_headers(headers).prefers(EVENTS, JSON)
}
