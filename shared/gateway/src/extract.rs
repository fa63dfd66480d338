//! Extractors and responses shared by the routes: axum's own, with problems as rejections.

use std::error::Error;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_archive::archive::spawn_cpu;
use stemma_archive::{ApiError, Archive, DocumentInfo, MAX_LIMIT};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::DocId;
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

const DEFAULT_LIMIT: usize = 50;

/// Query parameters. If `T` denies unknown fields, unknown parameters are refused.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // axum decodes leniently: `%zz` stays `%zz`, and `%ff` becomes U+FFFD.
        if !is_percent_encoded(parts.uri.query().unwrap_or_default()) {
            let detail = "the query of the URL is not percent-encoded UTF-8";
            return Err(Problem::new(400, "request.invalid", detail));
        }
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        query
            .map(|query| Self(query.0))
            .map_err(|rejection| query_problem(&rejection))
    }
}

/// Path parameters.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|_| {
            let detail = "the path of the URL is not percent-encoded UTF-8";
            Problem::parameter(400, "path", detail)
        })
    }
}

/// A JSON body. Query parameters are refused.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        QueryParams::<NoParameters>::from_request_parts(&mut parts, state).await?;
        let json = axum::Json::from_request(Request::from_parts(parts, body), state).await;
        json.map(|json| Self(json.0))
            .map_err(|rejection| body_problem(&rejection))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

/// The only parameter of many routes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CollectionQuery {
    pub collection: Option<String>,
}

fn is_percent_encoded(query: &str) -> bool {
    let mut escapes = query.split('%').skip(1).map(str::as_bytes);
    escapes.all(|escape| escape.len() >= 2 && escape[..2].iter().all(u8::is_ascii_hexdigit))
        && percent_decode_str(query).decode_utf8().is_ok()
}

fn query_problem(rejection: &QueryRejection) -> Problem {
    match deserialize_error::<serde::de::value::Error>(rejection) {
        Some(error) => Problem::parameter(400, &error.path().to_string(), error.to_string()),
        None => Problem::parameter(400, "", rejection.body_text()),
    }
}

fn body_problem(rejection: &JsonRejection) -> Problem {
    let status = rejection.status().as_u16();
    if let Some(error) = deserialize_error::<serde_json::Error>(rejection) {
        let segments = error.path().iter();
        let pointer: String = segments.map(|segment| format!("/{segment}")).collect();
        return Problem::parameter(status, &pointer, error.inner().to_string());
    }
    match rejection {
        JsonRejection::MissingJsonContentType(_) => Problem::new(
            415,
            "body.type_unsupported",
            "the body must be application/json",
        ),
        JsonRejection::BytesRejection(_) if status == 413 => {
            Problem::new(413, "body.too_large", rejection.body_text())
        }
        JsonRejection::BytesRejection(_) => {
            Problem::new(status, "body.unreadable", rejection.body_text())
        }
        _ => Problem::parameter(status, "", rejection.body_text()),
    }
}

// axum's rejections wrap the error that knows the path of the invalid field.
fn deserialize_error<'a, E: Error + 'static>(
    rejection: &'a (dyn Error + 'static),
) -> Option<&'a serde_path_to_error::Error<E>> {
    std::iter::successors(Some(rejection), |&error| error.source())
        .find_map(|error| error.downcast_ref())
}

/// The parameter `limit` of a list, 1 to [`MAX_LIMIT`]; 50 by default.
pub fn page_limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(Problem::parameter(
            400,
            "limit",
            format!("limit must be from 1 to {MAX_LIMIT}"),
        )),
    }
}

/// Finds a document by id, name or path.
pub fn find_document(archive: &Archive, doc: &str) -> Result<Arc<CatalogDocument>, ApiError> {
    let by_id = match doc.parse::<DocId>() {
        Ok(id) => archive.catalog().get(id)?,
        Err(_) => None,
    };
    by_id.map_or_else(
        || archive.catalog().resolve(doc).map_err(ApiError::from),
        Ok,
    )
}

/// Finds a document with a published tree; the error for one without is its state.
pub fn published_document(
    archive: &Archive,
    doc: &str,
) -> Result<Arc<CatalogDocument>, HandlerError> {
    let listed = find_document(archive, doc)?;
    if listed.entry().is_some() {
        Ok(listed)
    } else {
        Err(HandlerError::NotReady(Box::new(NotReady {
            ready: false,
            document: DocumentInfo::from_catalog(&listed),
        })))
    }
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

impl<E: Into<Problem>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        HandlerError::Problem(error.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ListQuery {
        limit: Option<usize>,
        company: Option<String>,
        #[serde(default)]
        text: bool,
    }

    async fn query(query: &str) -> Result<ListQuery, Problem> {
        let request = Request::builder()
            .uri(format!("/?{query}"))
            .body(())
            .unwrap();
        let mut parts = request.into_parts().0;
        let query = QueryParams::from_request_parts(&mut parts, &()).await;
        query.map(|QueryParams(query)| query)
    }

    #[tokio::test]
    async fn unknown_repeated_and_invalid_parameters_are_refused() {
        let parsed = query("limit=5&company=3M+%C3%A4&text=true").await.unwrap();
        let expected = ListQuery {
            limit: Some(5),
            company: Some("3M ä".into()),
            text: true,
        };
        assert_eq!(parsed, expected);
        for wrong in [
            "odd=1",
            "limit=1&limit=2",
            "limit=-1",
            "limit=",
            "text=1",
            "company=%",
            "company=%4",
            "company=%zz",
            "company=%ff",
        ] {
            assert_eq!(
                query(wrong).await.unwrap_err().code(),
                "request.invalid",
                "{wrong}"
            );
        }
        let problem = serde_json::to_value(query("limit=x").await.unwrap_err()).unwrap();
        assert_eq!(problem["errors"][0]["pointer"], "limit");
    }
}
