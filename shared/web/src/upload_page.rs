//! Uploads: a form that takes files and folders, and what becomes of them.
//!
//! The address of the page lists what was uploaded with it, as `DOCUMENT.JOB`, so that it can be reloaded.

use axum::extract::multipart::{Multipart, MultipartError, MultipartRejection};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use stemma_archive::{ApiError, Archive, DocumentInfo};
use stemma_document::{DocId, SourceFormat};
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::problem::Problem;
use stemma_gateway::uploads::{Upload, UploadReceipt, upload_path};
use stemma_operations::JobId;

use crate::archive_page::state_badge;
use crate::context::PageContext;
use crate::jobs_page::job_url;
use crate::layout::Head::{Number, Text};
use crate::layout::{Screen, collection_field, page, see_other, table, token_field};
use crate::live::live;
use crate::security::FormToken;
use crate::text::{Line, grouped};

// Uploads that one page follows; an address has room for about a hundred. All of them are jobs.
const FOLLOWED: usize = 50;

/// `GET /upload`
pub(crate) async fn form(
    State(state): State<AppState>,
    context: PageContext,
) -> Result<Response, Problem> {
    let uploads = state.uploads()?;
    let archive = context.archive(&state)?;
    let followed = Followed::from_context(&context);
    let limit_mib = uploads.max_bytes() >> 20;
    let accepted: Vec<String> = SourceFormat::extensions()
        .map(|name| format!(".{name}"))
        .collect();
    let body = html! {
        h1 { "Upload" }
        @if context.may_upload {
            form.upload method="post" action="/upload" enctype="multipart/form-data" {
                (token_field(&context))
                (collection_field(&context))
                label for="files" { "Files: PDF, HTML, Markdown or text, up to " (grouped(limit_mib)) " MiB each" }
                input #files type="file" name="file" multiple required accept=(accepted.join(","));
                button type="submit" { "Upload" }
                p.note.with-script hidden { "Files and folders can also be dropped anywhere on this page." }
            }
            p #upload-progress role="status" {}
            ul #upload-failures aria-label="Files that were not accepted" {}
        } @else {
            p.remarks role="status" { "The key of this browser may read, but not upload: it lacks the scope " code { "write" } "." }
        }
        (live("uploads", &followed.table(&context, &archive)?))
    };
    Ok(page(
        &context,
        Some(Screen::Upload),
        "Upload",
        &body,
        &[
            context.command(&["ingest", "FOLDER"]),
            format!(
                "curl http://{}/doc/ -H 'api_key: KEY' -F file=@FILE",
                context.host
            ),
        ],
    ))
}

// What was uploaded with this page.
struct Followed(Vec<(DocId, JobId)>);

impl Followed {
    fn from_context(context: &PageContext) -> Self {
        let entries = context.param("uploads").unwrap_or_default().split(',');
        let entries = entries.filter_map(|entry| {
            let (doc, job) = entry.split_once('.')?;
            Some((doc.parse().ok()?, JobId(job.into())))
        });
        Self(entries.take(FOLLOWED).collect())
    }

    fn table(&self, context: &PageContext, archive: &Archive) -> Result<Markup, Problem> {
        let mut rows = Vec::new();
        for (doc, job) in &self.0 {
            let listed = archive.catalog().get(*doc).map_err(ApiError::from)?;
            let document = listed.map(|listed| DocumentInfo::from_catalog(&listed));
            rows.push((document, job));
        }
        Ok(html! {
            @if !rows.is_empty() {
                h2 { "What becomes of them" }
                (table("Uploaded documents", &[Text("Document"), Text("State"), Number("Pages"), Number("Sections"), Text("Job")], &html! { @for (document, job) in &rows { tr {
                            @if let Some(document) = document {
                                th.title scope="row" { a href=(context.document_url(&document.doc_id, &[])) { (Line(&document.path)) } }
                                td { (state_badge(document))
                                    @if let Some(failure) = &document.failure { " " (Line(&failure.message)) } }
                                td.number { @if let Some(pages) = document.pages { (grouped(pages)) } }
                                td.number { @if let Some(sections) = document.sections { (grouped(sections)) } }
                            } @else {
                                th scope="row" { "accepted" } td { span.badge data-state="queued" { "queued" } } td {} td {}
                            }
                            td { a href=(job_url(context, job, &[])) { "Job" span.hidden { " " (Line(&job.0)) } } }
                        } } }))
            }
        })
    }
}

/// The form of a browser: its token, and the parts that follow it. The token is checked before files are read.
pub(crate) struct UploadForm {
    parts: Multipart,
    token: FormToken,
}

impl axum::extract::FromRequest<AppState> for UploadForm {
    type Rejection = Problem;

    async fn from_request(
        request: axum::extract::Request,
        state: &AppState,
    ) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        WriteRequest::from_request_parts(&mut parts, state).await?;
        let token = FormToken::from_parts(&parts);
        let request = axum::extract::Request::from_parts(parts, body);
        let multipart: Result<Multipart, MultipartRejection> =
            Multipart::from_request(request, state).await;
        Ok(Self {
            parts: multipart.map_err(|_| invalid_form())?,
            token,
        })
    }
}

/// `POST /upload`: submits each file, and leads to the page that follows them.
pub(crate) async fn upload(
    State(state): State<AppState>,
    mut context: PageContext,
    mut form: UploadForm,
) -> Result<Response, Problem> {
    let uploads = state.uploads()?;
    let mut is_checked = false;
    let mut accepted = Vec::new();
    while let Some(field) = form
        .parts
        .next_field()
        .await
        .map_err(|error| form_problem(&error))?
    {
        let name = field.name().unwrap_or_default().to_owned();
        if name == "token" {
            form.token
                .check(&field.text().await.map_err(|error| form_problem(&error))?)?;
            is_checked = true;
            continue;
        }
        if !is_checked {
            form.token.check("")?;
        }
        if name == "collection" {
            context =
                context.with_collection(field.text().await.map_err(|error| form_problem(&error))?);
            continue;
        }
        if name != "file" || accepted.len() >= FOLLOWED {
            continue;
        }
        let path = field.file_name().unwrap_or_default().replace("%22", "\"");
        let path = path.replace('\\', "/");
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        let path = upload_path(folder, file).ok_or_else(|| {
            let detail = "names and folders form a path: no `..`, `@` or control characters";
            Problem::parameter(422, "file", detail)
        })?;
        let bytes = field.bytes().await.map_err(|error| form_problem(&error))?;
        if bytes.is_empty() {
            return Err(Problem::parameter(422, "file", "the document is empty"));
        }
        let collection = context.archive(&state)?.collection.clone();
        let upload = Upload {
            path,
            bytes,
            metadata: Default::default(),
        };
        let UploadReceipt { doc, job } = uploads.submit(&collection, upload).await?;
        state.collections.refresh_soon(&collection);
        accepted.push(format!("{doc}.{job}"));
    }
    if accepted.is_empty() {
        return Err(Problem::parameter(422, "file", "the form has no document"));
    }
    Ok(see_other(
        &context.url("/upload", &[("uploads", &accepted.join(","))]),
    ))
}

fn invalid_form() -> Problem {
    Problem::new(
        415,
        "body.type_unsupported",
        "the body must be multipart/form-data",
    )
}

fn form_problem(error: &MultipartError) -> Problem {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = "the file is larger than this server accepts";
        Problem::new(413, "body.too_large", detail)
    } else {
        invalid_form()
    }
}
