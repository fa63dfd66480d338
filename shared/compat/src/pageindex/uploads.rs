//! `POST /doc/` and `DELETE /doc/{doc}/`: upload and removal, if the server has an upload port.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use serde::Serialize;
use serde_json::{Map, Value};
use stemma_archive::pageindex_fields::is_root;
use stemma_document::DocId;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json as answered};
use stemma_gateway::multipart::{FormField, parse_form};
use stemma_gateway::problem::Problem;
use stemma_gateway::state::AppState;
use stemma_gateway::uploads::{Upload, UploadReceipt, upload_port};
use utoipa::ToSchema;

// The response waits this long until readers see the change.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(5);
// Size of a form without its document.
const FORM_BYTES: usize = 64 << 10;
const MAX_PATH_BYTES: usize = 800;

/// An uploaded document.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read from a form field by field; described here")]
pub(crate) struct UploadForm {
    /// File with its name.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Path of the target folder.
    folder_id: Option<String>,
    /// Metadata as a JSON object of strings, numbers and booleans.
    metadata: Option<String>,
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

/// A removed document.
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
pub(crate) async fn submit(site: State<AppState>, request: Request) -> HandlerResult {
    let (parts, body) = request.into_parts();
    // Check access before the body is read.
    let intake = upload_port(&site, &parts)?;
    let most = usize::try_from(intake.max_bytes())
        .unwrap_or(usize::MAX)
        .saturating_add(FORM_BYTES);
    let body = to_bytes(body, most).await.map_err(|_| {
        let detail = format!(
            "the body broke off, or is larger than {} bytes",
            intake.max_bytes()
        );
        Problem::new(413, "body.too_large", detail)
    })?;
    let upload = parse_upload(&parse_form(&parts.headers, &body).ok_or_else(|| {
        Problem::new(
            415,
            "body.type",
            "the body is to be multipart/form-data with a field `file`",
        )
    })?)?;
    let collection = site
        .archive(CollectionScope::from_parts(&parts), None)?
        .collection
        .clone();
    let name = upload
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let UploadReceipt { doc, job } = intake.submit(&collection, upload).await?;
    wait_until_visible(&site, &parts, doc, true).await;
    answered(UploadResponse {
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
    params(("doc" = String, Path), ("collection" = Option<String>, Query)), responses((status = 200, body = RemoveResponse)))]
pub(crate) async fn remove(
    site: State<AppState>,
    parts: Parts,
    request: ArchiveRequest,
) -> HandlerResult {
    let intake = upload_port(&site, &parts)?;
    let doc = request.path_document()?.doc();
    intake.remove(&request.archive.collection, doc).await?;
    wait_until_visible(&site, &parts, doc, false).await;
    answered(RemoveResponse {
        doc_id: doc.to_string(),
        deleted: true,
        message: "removed",
    })
    .await
}

// Waits briefly until readers see the change, so that the client's next request does.
async fn wait_until_visible(site: &AppState, parts: &Parts, doc: DocId, listed: bool) {
    let pause = Duration::from_millis(50);
    for _ in 0..VISIBILITY_TIMEOUT.as_millis() / pause.as_millis() {
        let Ok(reader) = site.archive(CollectionScope::from_parts(parts), None) else {
            return;
        };
        if reader.catalog().get(doc).is_some() == listed {
            return;
        }
        site.collections.refresh_soon(&reader.collection);
        site.env.sleep(pause).await;
    }
}

fn parse_upload(fields: &[FormField]) -> Result<Upload, Problem> {
    let text = |name: &str| {
        fields
            .iter()
            .find(|field| field.name == name)
            .map(FormField::text)
    };
    let file = fields
        .iter()
        .find(|field| field.name == "file")
        .ok_or_else(|| {
            Problem::parameter(
                422,
                "file",
                "the form has no field `file` with a document in it",
            )
        })?;
    let name = file
        .file_name
        .as_deref()
        .and_then(|name| name.rsplit(['/', '\\']).next())
        .unwrap_or_default();
    let folder = text("folder_id")
        .filter(|folder| !is_root(folder))
        .unwrap_or_default();
    let path = upload_path(&folder, name).ok_or_else(|| {
        Problem::parameter(
            422,
            "file",
            "its name, and the folder, are to be those of a path: no `..`, no `@`, no controls",
        )
    })?;
    if file.bytes.is_empty() {
        return Err(Problem::parameter(422, "file", "the document is empty"));
    }
    let stated = text("metadata")
        .map(|metadata| parse_metadata(&metadata))
        .transpose()?
        .unwrap_or_default();
    Ok(Upload {
        path,
        bytes: file.bytes.clone(),
        metadata: stated,
    })
}

// `None` if the path is invalid. Axis segments (`@company`) are not folders.
fn upload_path(folder: &str, name: &str) -> Option<String> {
    let segments: Vec<&str> = folder
        .trim_matches('/')
        .split('/')
        .filter(|segment| !segment.is_empty())
        .chain([name])
        .collect();
    let path = segments.join("/");
    (segments.iter().all(|segment: &&str| {
        !segment.is_empty()
            && !matches!(*segment, "." | "..")
            && !segment.starts_with('@')
            && !segment.contains(char::is_control)
    }) && path.len() <= MAX_PATH_BYTES)
        .then_some(path)
}

fn parse_metadata(metadata: &str) -> Result<BTreeMap<String, String>, Problem> {
    let object = serde_json::from_str::<Map<String, Value>>(metadata).ok();
    let texts = object.and_then(|object| {
        let texts = object.into_iter().map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            value @ (Value::Number(_) | Value::Bool(_)) => Some((name, value.to_string())),
            _ => None,
        });
        texts.collect()
    });
    texts.ok_or_else(|| {
        Problem::parameter(
            422,
            "metadata",
            "metadata is a JSON object of texts, numbers and booleans",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_paths_stay_inside_their_folder() {
        assert_eq!(
            upload_path("/reports/2022/", "a.pdf").as_deref(),
            Some("reports/2022/a.pdf")
        );
        assert_eq!(upload_path("", "边.pdf").as_deref(), Some("边.pdf"));
        for (folder, name) in [
            ("..", "a.pdf"),
            ("x", ".."),
            ("", ""),
            ("@form/10-K", "a.pdf"),
            ("", "a\n.pdf"),
        ] {
            assert_eq!(upload_path(folder, name), None, "{folder} {name}");
        }
        assert_eq!(upload_path(&"x/".repeat(500), "a.pdf"), None);
    }

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
