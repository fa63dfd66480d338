//! What every route begins and ends with: the parameters of a request, the collection it means, and an answer in JSON.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stemma_catalog::catalogue::Listed;
use stemma_document::DocId;
use utoipa::ToSchema;

use super::keys::Reach;
use super::parameters::Parameters;
use super::problem::Problem;
use super::routes::Site;
use crate::reader::aside;
use crate::{DocumentView, Reader, Refusal};

/// The most items of a list.
pub(super) const MAX_LISTED: usize = 500;
/// Items of a list, where the request does not say how many.
const LISTED: usize = 50;

/// A request whose collection is known: its reader, and the parameters that were not read yet.
pub(super) struct Asked {
    pub(super) reader: Arc<Reader>,
    pub(super) parameters: Parameters,
    segments: Vec<(String, String)>,
}

impl FromRequestParts<Site> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let segments = RawPathParams::from_request_parts(parts, site).await;
        let segments = segments.map_err(|_| {
            Problem::parameter(
                400,
                "path",
                "the path of the URL is not percent-encoded UTF-8",
            )
        })?;
        let segments = segments
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut parameters = Parameters::of(parts.uri.query())?;
        let reader = site.reader(Reach::of(parts), parameters.text("collection").as_deref())?;
        Ok(Self {
            reader,
            parameters,
            segments,
        })
    }
}

impl Asked {
    /// A named part of the path.
    pub(super) fn segment(&self, name: &str) -> &str {
        self.segments
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    /// How many items are asked for.
    pub(super) fn limit(&mut self) -> Result<usize, Problem> {
        match self.parameters.number("limit")?.unwrap_or(LISTED) {
            limit @ 1..=MAX_LISTED => Ok(limit),
            _ => Err(Problem::parameter(
                400,
                "limit",
                format!("limit is from 1 to {MAX_LISTED}"),
            )),
        }
    }

    /// The document in the path, once all parameters are read: an id, a name or a path.
    pub(super) fn document(&self) -> Result<&Listed, Problem> {
        self.parameters.none_left()?;
        self.named()
    }

    /// The same whatever else was sent.
    pub(super) fn named(&self) -> Result<&Listed, Problem> {
        named(&self.reader, self.segment("doc")).map_err(Problem::from)
    }

    /// The document in the path, where it has a tree.
    pub(super) fn published(&self) -> Result<&Listed, Stop> {
        let listed = self.document()?;
        if listed.entry().is_some() {
            Ok(listed)
        } else {
            Err(Stop::NotReady(Box::new(NotReady {
                ready: false,
                document: DocumentView::of(listed),
            })))
        }
    }
}

/// The document of an id, a name or a path.
pub(super) fn named<'a>(reader: &'a Reader, doc: &str) -> Result<&'a Listed, Refusal> {
    let known = doc
        .parse::<DocId>()
        .ok()
        .and_then(|id| reader.catalogue().get(id));
    known.map_or_else(
        || reader.catalogue().resolve(doc).map_err(Refusal::from),
        Ok,
    )
}

/// Why a handler ends before its end.
pub(super) enum Stop {
    /// The request is wrong, or cannot be answered.
    Problem(Problem),
    /// The document is known and has no tree: its state is the answer.
    NotReady(Box<NotReady>),
}

/// What a handler answers.
pub(super) type Answer = Result<Response, Stop>;

/// What is asked of a tree, or what state the document is in where it has none.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Ready<T> {
    Yes(T),
    No(Box<NotReady>),
}

/// A document that is known and has no tree yet, or never will have.
#[derive(Serialize, ToSchema)]
pub(super) struct NotReady {
    /// Always false.
    ready: bool,
    /// Its state, and how it failed.
    document: DocumentView,
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Stop::Problem(problem)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Problem(refusal.into())
    }
}

impl IntoResponse for Stop {
    fn into_response(self) -> Response {
        match self {
            Stop::Problem(problem) => problem.into_response(),
            Stop::NotReady(state) => axum::Json(Ready::<()>::No(state)).into_response(),
        }
    }
}

/// An answer in JSON. Trees are megabytes: written off the threads that serve IO.
pub(super) async fn json<T: Serialize + Send + 'static>(value: T) -> Answer {
    let body = aside(move || serde_json::to_vec(&value))
        .await
        .map_err(Refusal::from)?;
    let body = body.map_err(|error| Problem::new(500, "server.answer", error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
