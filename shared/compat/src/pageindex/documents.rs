//! PageIndex documents: metadata, trees and pages.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use stemma_archive::ApiError;
use stemma_archive::archive::{no_text, spawn_cpu};
use stemma_archive::pageindex_fields::{
    created_at, description, metadata as facts, name_of, page_count, sort_date, status,
};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::Scope;
use stemma_document::{PageNo, PublishedTree, SourceBody};
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json as answered};
use stemma_gateway::problem::Problem;
use utoipa::ToSchema;

use crate::pageindex::{folder_of, nodes};

// As in PageIndex Cloud.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 10_000;

/// The tree or pages of a document.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageIndexDocumentContent {
    doc_id: String,
    /// `queued`, `processing`, `completed`, `failed`.
    status: &'static str,
    /// Whether the document has a tree.
    retrieval_ready: bool,
    name: String,
    /// Metadata by name.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Nodes (`title`, `node_id`, `page_index`, `start_index`, `end_index`, `summary`, `text`, `nodes`), pages (`page_index` from 1,
    /// `markdown`, `images`), or one text; null until there is a tree.
    #[schema(schema_with = stemma_gateway::schema::anything)]
    result: Option<Value>,
}

/// Metadata of a document.
#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexDocument)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageIndexDocument {
    id: String,
    name: String,
    /// One sentence, or empty.
    description: String,
    /// `queued`, `processing`, `completed`, `failed`.
    status: &'static str,
    /// Publication time of the tree, RFC 3339 in UTC; null without one.
    created_at: Option<String>,
    /// Number of pages; null in documents without pages.
    page_num: Option<u32>,
    /// Path of the folder; null at the root.
    folder_id: Option<String>,
    /// `folder_id` without the leading slash.
    path: Option<String>,
    /// Metadata by name.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Locator of the document.
    locator: String,
}

/// A page of documents.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageIndexDocumentList {
    documents: Vec<PageIndexDocument>,
    /// Number of documents on all pages.
    total: usize,
    limit: usize,
    offset: usize,
}

/// The tree or the pages of a document
///
/// `type=tree` returns nodes. `type=ocr` returns pages; with `format=node` nodes with text, with `format=raw` one text.
/// `result` is null until there is a tree. `{doc}` is an id, a name or a path.
#[utoipa::path(get, path = "/doc/{doc}/", operation_id = "pageindex_document", tag = "pageindex",
    params(
        ("doc" = String, Path), ("collection" = Option<String>, Query),
        ("type" = Option<String>, Query, pattern = "^(tree|ocr)$", description = "tree without"),
        ("format" = Option<String>, Query, pattern = "^(page|node|raw)$", description = "of `type=ocr`; page without"),
        ("summary" = Option<bool>, Query, description = "with what each section is about"),
        ("include_text" = Option<bool>, Query, description = "with the own text of each section; true without"),
    ),
    responses((status = 200, body = PageIndexDocumentContent)))]
pub(crate) async fn document(mut request: ArchiveRequest) -> HandlerResult {
    let [what, format] = ["type", "format"].map(|name| {
        let text = request.parameters.text(name);
        text.map(|text| text.to_lowercase())
    });
    let summaries = bool_parameter(&mut request, "summary", false)?;
    let texts = bool_parameter(&mut request, "include_text", true)?;
    let kind = match (
        what.as_deref().unwrap_or("tree"),
        format.as_deref().unwrap_or("page"),
    ) {
        ("tree", "page" | "node" | "raw") => ContentKind::Tree { summaries, texts },
        ("ocr", "page") => ContentKind::Pages,
        ("ocr", "node") => ContentKind::Tree {
            summaries: false,
            texts: true,
        },
        ("ocr", "raw") => ContentKind::Raw,
        _ => {
            return Err(Problem::parameter(
                400,
                "type",
                "type is tree or ocr, and format page, node or raw",
            )
            .into());
        }
    };
    let listed = request.path_document()?;
    let result = match request
        .archive
        .load_tree(listed)
        .await
        .map_err(ApiError::from)?
    {
        Some(published) => Some(result(&request, listed, published, kind).await?),
        None => None,
    };
    answered(PageIndexDocumentContent {
        doc_id: listed.doc().to_string(),
        status: status(listed.state),
        retrieval_ready: result.is_some(),
        name: name_of(listed).to_owned(),
        metadata: json!(facts(listed)),
        result,
    })
    .await
}

// Accepts Python's `True` and JSON's `true`.
fn bool_parameter(
    request: &mut ArchiveRequest,
    name: &str,
    without: bool,
) -> Result<bool, Problem> {
    match request
        .parameters
        .text(name)
        .map(|text| text.to_ascii_lowercase())
        .as_deref()
    {
        None => Ok(without),
        Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(Problem::parameter(
            400,
            name,
            format!("{name} is true or false"),
        )),
    }
}

#[derive(Debug, Clone, Copy)]
enum ContentKind {
    Tree { summaries: bool, texts: bool },
    Pages,
    Raw,
}

async fn result(
    request: &ArchiveRequest,
    listed: &CatalogDocument,
    published: Arc<PublishedTree>,
    kind: ContentKind,
) -> Result<Value, ApiError> {
    let needs_body = !matches!(kind, ContentKind::Tree { texts: false, .. });
    let body = if needs_body {
        request.archive.load_body(&published).await?
    } else {
        None
    };
    match (kind, body) {
        // An imported tree may have no text in the store, but still has sections.
        (ContentKind::Tree { summaries, texts }, body) => {
            let body = body.filter(|_| texts);
            Ok(
                spawn_cpu(move || nodes::nodes(&published.tree.sections, summaries, body.as_ref()))
                    .await?,
            )
        }
        (ContentKind::Pages, Some(body)) => Ok(spawn_cpu(move || pages(&body)).await?),
        (ContentKind::Raw, Some(body)) => Ok(spawn_cpu(move || json!(raw(&body))).await?),
        (_, None) => Err(no_text(listed)),
    }
}

// A document without pages counts as one page.
fn pages(body: &SourceBody) -> Value {
    let page =
        |number: u32, text: String| json!({ "page_index": number, "markdown": text, "images": [] });
    match body {
        SourceBody::Pages(pages) => {
            let numbered = pages.iter().enumerate();
            numbered
                .map(|(index, one)| page(PageNo::from_index(index).get(), one.text()))
                .collect()
        }
        SourceBody::Lines(text) => json!([page(1, text.lines.join("\n"))]),
    }
}

fn raw(body: &SourceBody) -> String {
    match body {
        SourceBody::Pages(pages) => pages
            .iter()
            .map(stemma_document::Page::text)
            .collect::<Vec<_>>()
            .join("\n\n"),
        SourceBody::Lines(text) => text.lines.join("\n"),
    }
}

/// The metadata of a document
///
/// In any processing state.
#[utoipa::path(get, path = "/doc/{doc}/metadata/", operation_id = "pageindex_metadata", tag = "pageindex",
    params(("doc" = String, Path), ("collection" = Option<String>, Query)),
    responses((status = 200, body = PageIndexDocument)))]
pub(crate) async fn metadata(request: ArchiveRequest) -> HandlerResult {
    answered(document_info(request.path_document()?)).await
}

/// List documents
///
/// Newest period first, optionally limited to a folder or name.
#[utoipa::path(get, path = "/docs/", operation_id = "pageindex_documents", tag = "pageindex",
    params(
        ("collection" = Option<String>, Query),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "documents of the answer, 50 without"),
        ("offset" = Option<u64>, Query, format = "uint64", description = "documents that are passed over, 0 without"),
        ("folder_id" = Option<String>, Query, description = "a path, or `root`"),
        ("recursive" = Option<bool>, Query, description = "documents of folders below, too"),
        ("name" = Option<String>, Query, description = "the name of a document"),
    ),
    responses((status = 200, body = PageIndexDocumentList)))]
pub(crate) async fn list(mut request: ArchiveRequest) -> HandlerResult {
    let limit = request.parameters.number("limit")?.unwrap_or(DEFAULT_LIMIT);
    let offset = request.parameters.number("offset")?.unwrap_or(0);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(
            Problem::parameter(400, "limit", format!("limit is from 1 to {MAX_LIMIT}")).into(),
        );
    }
    let recursive = bool_parameter(&mut request, "recursive", false)?;
    let folder = request.parameters.text("folder_id");
    let name = request.parameters.text("name");
    let catalog = request.archive.catalog();
    let mut documents: Vec<&CatalogDocument> = match folder {
        None => catalog.documents().iter().collect(),
        Some(folder) => {
            let path = if stemma_archive::pageindex_fields::is_root(&folder) {
                "/"
            } else {
                folder.as_str()
            };
            let scope = Scope::parse(path, catalog).map_err(ApiError::from)?;
            request.archive.folder_contents(&scope, recursive).documents
        }
    };
    if let Some(name) = name {
        documents.retain(|listed| name_of(listed) == name || listed.label == name);
    }
    documents.sort_by_cached_key(|listed| std::cmp::Reverse(sort_date(listed)));
    let total = documents.len();
    let documents = documents
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(document_info)
        .collect();
    answered(PageIndexDocumentList {
        documents,
        total,
        limit,
        offset,
    })
    .await
}

fn document_info(listed: &CatalogDocument) -> PageIndexDocument {
    let folder_id = folder_of(listed);
    let path = folder_id
        .as_deref()
        .map(|folder| folder.trim_start_matches('/').to_owned());
    PageIndexDocument {
        id: listed.doc().to_string(),
        name: name_of(listed).to_owned(),
        description: description(listed),
        status: status(listed.state),
        created_at: created_at(listed),
        page_num: page_count(listed),
        folder_id,
        path,
        metadata: json!(facts(listed)),
        locator: listed.label.clone(),
    }
}
