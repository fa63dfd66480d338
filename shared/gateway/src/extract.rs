//! What every route begins and ends with: the parameters of a request, the collection it means, and an answer in JSON.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::DocId;
use utoipa::ToSchema;

use crate::auth::CollectionScope;
use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::state::AppState;
use stemma_archive::archive::spawn_cpu;
use stemma_archive::{ApiError, Archive, DocumentInfo};

/// The most items of a list.
pub const MAX_LIMIT: usize = 500;
/// Items of a list, where the request does not say how many.
const DEFAULT_LIMIT: usize = 50;

/// A request whose collection is known: its reader, and the parameters that were not read yet.
pub struct ArchiveRequest {
    pub archive: Arc<Archive>,
    pub parameters: Parameters,
    segments: Vec<(String, String)>,
}

impl FromRequestParts<AppState> for ArchiveRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &AppState) -> Result<Self, Problem> {
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
        let mut parameters = Parameters::from_query(parts.uri.query())?;
        let archive = site.archive(
            CollectionScope::from_parts(parts),
            parameters.text("collection").as_deref(),
        )?;
        Ok(Self {
            archive,
            parameters,
            segments,
        })
    }
}

impl ArchiveRequest {
    /// A named part of the path.
    pub fn segment(&self, name: &str) -> &str {
        self.segments
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    /// How many items are asked for.
    pub fn limit(&mut self) -> Result<usize, Problem> {
        match self.parameters.number("limit")?.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => Ok(limit),
            _ => Err(Problem::parameter(
                400,
                "limit",
                format!("limit is from 1 to {MAX_LIMIT}"),
            )),
        }
    }

    /// The document in the path, once all parameters are read: an id, a name or a path.
    pub fn document(&self) -> Result<&CatalogDocument, Problem> {
        self.parameters.reject_unknown()?;
        self.path_document()
    }

    /// The same whatever else was sent.
    pub fn path_document(&self) -> Result<&CatalogDocument, Problem> {
        find_document(&self.archive, self.segment("doc")).map_err(Problem::from)
    }

    /// The document in the path, where it has a tree.
    pub fn published_document(&self) -> Result<&CatalogDocument, HandlerError> {
        let listed = self.document()?;
        if listed.entry().is_some() {
            Ok(listed)
        } else {
            Err(HandlerError::NotReady(Box::new(NotReady {
                ready: false,
                document: DocumentInfo::from_catalog(listed),
            })))
        }
    }
}

/// The document of an id, a name or a path.
pub fn find_document<'a>(archive: &'a Archive, doc: &str) -> Result<&'a CatalogDocument, ApiError> {
    let by_id = doc
        .parse::<DocId>()
        .ok()
        .and_then(|id| archive.catalog().get(id));
    by_id.map_or_else(
        || archive.catalog().resolve(doc).map_err(ApiError::from),
        Ok,
    )
}

/// Why a handler ends before its end.
pub enum HandlerError {
    /// The request is wrong, or cannot be answered.
    Problem(Problem),
    /// The document is known and has no tree: its state is the answer.
    NotReady(Box<NotReady>),
}

/// What a handler answers.
pub type HandlerResult = Result<Response, HandlerError>;

/// What is asked of a tree, or what state the document is in where it has none.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum MaybeReady<T> {
    Yes(T),
    No(Box<NotReady>),
}

/// A document that is known and has no tree yet, or never will have.
#[derive(Serialize, ToSchema)]
pub struct NotReady {
    /// Always false.
    ready: bool,
    /// Its state, and how it failed.
    document: DocumentInfo,
}

impl From<Problem> for HandlerError {
    fn from(problem: Problem) -> Self {
        HandlerError::Problem(problem)
    }
}

impl From<ApiError> for HandlerError {
    fn from(refusal: ApiError) -> Self {
        HandlerError::Problem(refusal.into())
    }
}

impl IntoResponse for HandlerError {
    fn into_response(self) -> Response {
        match self {
            HandlerError::Problem(problem) => problem.into_response(),
            HandlerError::NotReady(state) => {
                axum::Json(MaybeReady::<()>::No(state)).into_response()
            }
        }
    }
}

/// An answer in JSON. Trees are megabytes: written off the threads that serve IO.
pub async fn json<T: Serialize + Send + 'static>(value: T) -> HandlerResult {
    let body = spawn_cpu(move || serde_json::to_vec(&value))
        .await
        .map_err(ApiError::from)?;
    let body = body.map_err(|error| Problem::new(500, "server.answer", error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
