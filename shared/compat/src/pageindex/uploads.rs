//! `POST /doc/` and `DELETE /doc/{doc}/`: upload and removal, if the server has an upload port.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::multipart::{Multipart, MultipartError, MultipartRejection};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use stemma_archive::pageindex_fields::is_root;
use stemma_document::DocId;
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::extract::{HandlerResult, Path, QueryParams, find_document, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_gateway::uploads::{Upload, UploadPort, UploadReceipt, upload_path};
use utoipa::ToSchema;

use crate::pageindex::LenientQuery;

// The response waits this long until readers see the change.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of a form without its document.
pub(super) const FORM_BYTES: usize = 64 << 10;

#[derive(ToSchema)]
pub(crate) struct UploadForm {
    #[schema(value_type = String, format = Binary)]
    file: FormFile,
    /// Path of the target folder.
    folder_id: Option<String>,
    /// Metadata as a JSON object of strings, numbers and booleans.
    metadata: Option<String>,
}

struct FormFile {
    name: String,
    bytes: Bytes,
}

/// An accepted document.
#[derive(Serialize, ToSchema)]
pub(crate) struct UploadResponse {
    doc_id: String,
    name: String,
    /// `queued`.
    status: &'static str,
    /// Id of the processing job.
    job: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RemoveResponse {
    doc_id: String,
    deleted: bool,
    message: &'static str,
}

/// Submit a document
///
/// Starts a job and returns at once; poll `GET /doc/{doc}/metadata/` for its state. Only on `stemma serve`, with the
/// scope `write`.
#[utoipa::path(post, path = "/doc/", operation_id = "pageindex_submit", tag = "pageindex",
    request_body(content = UploadForm, content_type = "multipart/form-data"), responses((status = 200, body = UploadResponse)))]
pub(crate) async fn submit(
    State(state): State<AppState>,
    UploadAccess(uploads): UploadAccess,
    collections: CollectionScope,
    multipart: Result<Multipart, MultipartRejection>,
) -> HandlerResult {
    let multipart = multipart.map_err(|_| invalid_form())?;
    let upload = UploadForm::read(multipart).await?.into_upload()?;
    let collection = state.archive(&collections, None)?.collection.clone();
    let name = upload
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let UploadReceipt { doc, job } = uploads.submit(&collection, upload).await?;
    wait_until_visible(&state, &collections, doc, true).await;
    json(UploadResponse {
        doc_id: doc.to_string(),
        name,
        status: "queued",
        job,
    })
    .await
}

/// Remove a document
///
/// Removes the tree and the listing, never the original file. Only on `stemma serve`, with the scope `write`.
#[utoipa::path(delete, path = "/doc/{doc}/", operation_id = "pageindex_remove", tag = "pageindex",
    params(("doc" = String, Path), LenientQuery), responses((status = 200, body = RemoveResponse)))]
pub(crate) async fn remove(
    State(state): State<AppState>,
    UploadAccess(uploads): UploadAccess,
    collections: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<LenientQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, query.collection.as_deref())?;
    let doc = find_document(&archive, &doc)?.doc();
    uploads.remove(&archive.collection, doc).await?;
    wait_until_visible(&state, &collections, doc, false).await;
    json(RemoveResponse {
        doc_id: doc.to_string(),
        deleted: true,
        message: "removed",
    })
    .await
}

/// The upload port, for requests with write access. It is extracted before the body is read.
pub(crate) struct UploadAccess(Arc<dyn UploadPort>);

impl FromRequestParts<AppState> for UploadAccess {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let uploads = state.uploads()?;
        // Required even on servers without keys: a cross-site page cannot send it without a CORS preflight.
        let headers = &parts.headers;
        if !headers.contains_key("api_key") && !headers.contains_key(header::AUTHORIZATION) {
            let detail = "writing needs a key header; any value if the server has no keys";
            return Err(Problem::new(403, "key.missing", detail)
                .with_next("send `api_key: KEY` or `Authorization: Bearer KEY`"));
        }
        WriteRequest::from_request_parts(parts, state).await?;
        Ok(Self(Arc::clone(uploads)))
    }
}

// Waits briefly until readers see the change, so that the client's next request does.
async fn wait_until_visible(
    state: &AppState,
    collections: &CollectionScope,
    doc: DocId,
    listed: bool,
) {
    let pause = Duration::from_millis(50);
    for _ in 0..VISIBILITY_TIMEOUT.as_millis() / pause.as_millis() {
        let Ok(reader) = state.archive(collections, None) else {
            return;
        };
        // A catalog that cannot be read fails the next request; the upload is stored.
        let is_listed = reader.catalog().get(doc);
        if is_listed.is_ok_and(|document| document.is_some() == listed) {
            return;
        }
        state.collections.refresh_soon(&reader.collection);
        state.env.sleep(pause).await;
    }
}

impl UploadForm {
    // Other fields are skipped without being kept, whatever their number and size.
    async fn read(mut multipart: Multipart) -> Result<Self, Problem> {
        let mut file = None;
        let mut folder_id = None;
        let mut metadata = None;
        while let Some(field) = multipart.next_field().await.map_err(FormError)? {
            match field.name() {
                Some("file") if file.is_none() => {
                    let path = field.file_name().unwrap_or_default();
                    // Browsers escape quotes as `%22`.
                    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
                    file = Some(FormFile {
                        name: name.replace("%22", "\""),
                        bytes: field.bytes().await.map_err(FormError)?,
                    });
                }
                Some("folder_id") if folder_id.is_none() => {
                    folder_id = Some(field.text().await.map_err(FormError)?);
                }
                Some("metadata") if metadata.is_none() => {
                    metadata = Some(field.text().await.map_err(FormError)?);
                }
                _ => {}
            }
        }
        let file = file.ok_or_else(|| {
            Problem::parameter(422, "file", "the form has no field `file` with a document")
        })?;
        Ok(Self {
            file,
            folder_id,
            metadata,
        })
    }

    fn into_upload(self) -> Result<Upload, Problem> {
        let folder = self.folder_id.filter(|folder| !is_root(folder));
        let path = upload_path(&folder.unwrap_or_default(), &self.file.name).ok_or_else(|| {
            let detail =
                "file name and folder must form a path: no `..`, `@` or control characters";
            Problem::parameter(422, "file", detail)
        })?;
        if self.file.bytes.is_empty() {
            return Err(Problem::parameter(422, "file", "the document is empty"));
        }
        let metadata = self.metadata.as_deref().map(parse_metadata).transpose()?;
        Ok(Upload {
            path,
            bytes: self.file.bytes,
            metadata: metadata.unwrap_or_default(),
        })
    }
}

fn invalid_form() -> Problem {
    let detail = "the body must be multipart/form-data with a field `file`";
    Problem::new(415, "body.type_unsupported", detail)
}

struct FormError(MultipartError);

impl From<FormError> for Problem {
    fn from(FormError(error): FormError) -> Self {
        match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(413, "body.too_large", error.body_text()),
            _ => invalid_form(),
        }
    }
}

fn parse_metadata(metadata: &str) -> Result<BTreeMap<String, String>, Problem> {
    let object = serde_json::from_str::<Map<String, Value>>(metadata).ok();
    let facts = object.and_then(|object| {
        let facts = object.into_iter().map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            Value::Number(_) | Value::Bool(_) => Some((name, value.to_string())),
            _ => None,
        });
        facts.collect()
    });
    facts.ok_or_else(|| {
        let detail = "metadata must be a JSON object of strings, numbers and booleans";
        Problem::parameter(422, "metadata", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_parsed_as_facts() {
        let facts = parse_metadata(r#"{"form": "10-K", "fiscal_year": 2022}"#).unwrap();
        assert_eq!(
            facts.into_iter().collect::<Vec<_>>(),
            [
                ("fiscal_year".into(), "2022".into()),
                ("form".into(), "10-K".into())
            ]
        );
        assert!(parse_metadata("[]").is_err() && parse_metadata(r#"{"a": {}}"#).is_err());
    }
}
