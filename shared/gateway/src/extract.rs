//! Extractors and responses shared by the routes: the requested collection and document, and JSON responses.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stemma_archive::archive::spawn_cpu;
use stemma_archive::{ApiError, Archive, DocumentInfo};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::DocId;
use utoipa::ToSchema;

use crate::auth::CollectionScope;
use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::state::AppState;

pub const MAX_LIMIT: usize = 500;
const DEFAULT_LIMIT: usize = 50;

/// A request with its opened collection and the parameters not read yet.
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
    /// A path parameter; empty if the route does not have it.
    pub fn segment(&self, name: &str) -> &str {
        self.segments
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    /// `limit`, 1 to [`MAX_LIMIT`], or the default.
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

    /// The document in the path (id, name or path). Fails if a parameter was not read.
    pub fn document(&self) -> Result<&CatalogDocument, Problem> {
        self.parameters.reject_unknown()?;
        self.path_document()
    }

    /// Like [`Self::document`], but ignores other parameters.
    pub fn path_document(&self) -> Result<&CatalogDocument, Problem> {
        find_document(&self.archive, self.segment("doc")).map_err(Problem::from)
    }

    /// Like [`Self::document`], for documents with a published tree.
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

/// Finds a document by id, name or path.
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

/// An early response of a handler.
pub enum HandlerError {
    Problem(Problem),
    /// The document has no tree; the response is its state.
    NotReady(Box<NotReady>),
}

pub type HandlerResult = Result<Response, HandlerError>;

/// A response from a tree, or the state of a document without one.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum MaybeReady<T> {
    Yes(T),
    No(Box<NotReady>),
}

/// A document without a tree, because processing is not finished or failed.
#[derive(Serialize, ToSchema)]
pub struct NotReady {
    /// Always false.
    ready: bool,
    /// State and failure of the document.
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

/// A JSON response. Serialized off the async workers, because trees can have megabytes.
pub async fn json<T: Serialize + Send + 'static>(value: T) -> HandlerResult {
    let body = spawn_cpu(move || serde_json::to_vec(&value))
        .await
        .map_err(ApiError::from)?;
    let body = body.map_err(|error| Problem::new(500, "server.answer", error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
