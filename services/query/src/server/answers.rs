//! Answers in words: asked, streamed, and read again by their ids.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stemma_answers::{self, Citations, Finding, Limits, MAX_EARLIER, Mode, Turn};
use utoipa::ToSchema;

use super::accept::{Accept, EVENTS, JSON};
use super::asked::{Answer, Asked, json};
use super::dialogue::refused;
use super::keys::Reach;
use super::problem::Problem;
use super::routes::Site;
use super::searching::{conditions, read};
use super::stay::Stay;
use super::telling::{followed, retold, streamed, told};
use crate::Question;

/// How long an answer in one piece is waited for; then its id is the reply.
const WAIT: Duration = Duration::from_secs(25);
/// After how many seconds it may be ready then.
const ASK_AGAIN: &str = "2";

/// What `POST /v1/answers` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "question": "What was revenue?", "where": "fiscal_year>=2015" }))]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    /// The question.
    question: String,
    /// The first of the server's without.
    collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths; all documents without. Nothing widens it.
    #[serde(default)]
    scopes: Vec<String>,
    /// Conditions on documents: text (`form=10-K and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = super::openapi::conditions)]
    filter: Option<serde_json::Value>,
    /// Only from this Item: 1A, II.1A.
    item: Option<String>,
    /// What was said before, oldest first: `{question, answer}`.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    earlier: Vec<Turn>,
    /// How sections are found: `auto`, `ranked`, `lexical`; or with the model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    strategy: Option<String>,
    /// `search`: find, then answer; `agent`: the model calls tools until it knows enough.
    #[schema(pattern = "^(search|agent)$")]
    mode: Option<String>,
    /// `verified`: leave out citations that do not stand on their page.
    #[schema(pattern = "^(all|verified)$")]
    citations: Option<String>,
    /// What it may cost.
    #[schema(schema_with = super::openapi::limits)]
    limits: Option<Named>,
}

/// Limits by their names; a list of numbers names none.
#[derive(Debug, Deserialize)]
#[serde(try_from = "serde_json::Map<String, serde_json::Value>")]
struct Named(Limits);

impl TryFrom<serde_json::Map<String, serde_json::Value>> for Named {
    type Error = serde_json::Error;

    fn try_from(map: serde_json::Map<String, serde_json::Value>) -> Result<Self, Self::Error> {
        serde_json::from_value(map.into()).map(Self)
    }
}

/// An answer that is still being made.
#[derive(Serialize, ToSchema)]
pub(super) struct Running {
    /// The id under which it can be read.
    id: String,
    /// `running`.
    status: &'static str,
}

/// Ask a question
///
/// Answered from the documents with citations that are checked against their pages; kept, so that the same question over the same
/// trees has the same answer. With `Accept: text/event-stream` told as it is made: `route, step, section, delta, citation, usage,
/// done, error`; `Last-Event-ID` goes on behind that event, where it is one of this telling. In one piece, an answer that takes long is a 202 with its id.
#[utoipa::path(post, path = "/v1/answers", tag = "answers", request_body = AnswerRequest,
    responses(
        (status = 200, content((super::openapi::AnswerObject = "application/json"), (super::openapi::FrameObject = "text/event-stream")), description = "the answer, or its events"),
        (status = 202, body = Running, description = "it is still being made: read it at Location"),
    ))]
pub(super) async fn ask(
    site: axum::extract::State<Site>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let place = Stay::of(&parts)?.ask().await?;
    let request: AnswerRequest = read(&parts, body)?;
    let reader = site.reader(Reach::of(&parts), request.collection.as_deref())?;
    let answerer = site.answerer(&reader)?;
    let question = question(request, &reader)?;
    answerer.check(&question).map_err(refused)?;
    let id = answerer.id_of(&question);
    if wants_events(&parts) {
        return Ok(streamed(
            &id,
            told(&site.env, place, answerer, question),
            &parts.headers,
        ));
    }
    let answering = async move {
        let _place = place;
        answerer.answer(&question, &mut ()).await
    };
    let mut answer = site.env.spawn(answering); // ends with the answer, also where its asker has gone
    match tokio::time::timeout(WAIT, &mut answer).await {
        Ok(Ok(answered)) => json(answered.map_err(refused)?).await,
        Ok(Err(_)) => Err(refused(stemma_answers::AnswerError::Broken).into()),
        Err(_) => Ok(running(&id)),
    }
}

/// Read an answer
///
/// As it was given; with `Accept: text/event-stream` as the events of its making, from `Last-Event-ID` on. While it is made: 202, or the
/// events as they come. 204 to an `EventSource` that has heard the end.
#[utoipa::path(get, path = "/v1/answers/{id}", tag = "answers",
    params(("id" = String, Path, pattern = "^a-[0-9a-f]{16}$"), ("collection" = Option<String>, Query)),
    responses((status = 200, content((super::openapi::AnswerObject = "application/json"), (super::openapi::FrameObject = "text/event-stream"))), (status = 202, body = Running, description = "it is still being made"), (status = 204, description = "`Last-Event-ID` is the end")))]
pub(super) async fn stored(site: axum::extract::State<Site>, parts: Parts, asked: Asked) -> Answer {
    asked.parameters.none_left()?;
    let id = asked.segment("id").to_owned();
    let answerer = site.answerer(&asked.reader)?;
    let making = answerer.is_making(&id);
    let events = wants_events(&parts);
    match answerer.stored(&id).await.map_err(refused)? {
        Some(answer) if events => Ok(retold(&id, &answer, &parts.headers)),
        Some(answer) => json(answer).await,
        None if making && events => Ok(streamed(
            &id,
            followed(&site.env, answerer, id.clone()),
            &parts.headers,
        )),
        None if making => Ok(running(&id)),
        None => Err(
            Problem::new(404, "answer.unknown", "there is no answer of this id")
                .next("POST /v1/answers")
                .into(),
        ),
    }
}

fn question(
    request: AnswerRequest,
    reader: &crate::Reader,
) -> Result<stemma_answers::Question, super::asked::Stop> {
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
    let searched = Question {
        text: question,
        scopes,
        filter: conditions(filter)?,
        item,
        ..Question::default()
    };
    let asked = reader.inquiry(&searched)?;
    let wrong = |pointer: &str, words: &str| {
        Problem::parameter(
            422,
            pointer,
            format!("`{}` is one of {words}", &pointer[1..]),
        )
    };
    let strategy = match strategy.as_deref() {
        None => Finding::default(),
        Some(name) => {
            Finding::named(name).ok_or_else(|| wrong("/strategy", &Finding::names().join(", ")))?
        }
    };
    let mode = match mode.as_deref() {
        None => Mode::default(),
        Some(name) => Mode::named(name).ok_or_else(|| wrong("/mode", "search, agent"))?,
    };
    let citations = match citations.as_deref() {
        None | Some("all") => Citations::All,
        Some("verified") => Citations::Verified,
        Some(_) => return Err(wrong("/citations", "all, verified").into()),
    };
    earlier.drain(..earlier.len().saturating_sub(MAX_EARLIER));
    let limits = limits.map(|limits| limits.0).unwrap_or_default();
    Ok(stemma_answers::Question {
        earlier,
        strategy,
        mode,
        citations,
        limits,
        ..asked
    })
}

fn running(id: &str) -> Response {
    let body = Running {
        id: id.to_owned(),
        status: "running",
    };
    let headers = [
        (header::LOCATION, format!("/v1/answers/{id}")),
        (header::RETRY_AFTER, ASK_AGAIN.to_owned()),
    ];
    (StatusCode::ACCEPTED, headers, axum::Json(body)).into_response()
}

fn wants_events(parts: &Parts) -> bool {
    Accept::of(&parts.headers).prefers(EVENTS, JSON)
}
