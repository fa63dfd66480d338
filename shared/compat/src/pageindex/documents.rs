//! PageIndex documents: metadata, trees and pages.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_archive::archive::{no_text, reserve_tree, spawn_cpu};
use stemma_archive::pageindex_fields::{
    created_at, description, is_root, metadata as facts, name_of, page_count, sort_date, status,
};
use stemma_archive::{ApiError, Archive, ListRequest};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::{PageNo, PublishedTree, SourceBody};
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, Path, QueryParams, find_document, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_store::PortResult;
use utoipa::{IntoParams, ToSchema};

use crate::pageindex::{LenientQuery, folder_of, lenient_bool, nodes};

// As in PageIndex Cloud.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 10_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentQuery {
    collection: Option<String>,
    /// tree without
    #[param(pattern = "^(tree|ocr)$")]
    #[serde(rename = "type")]
    kind: Option<String>,
    /// of `type=ocr`; page without
    #[param(pattern = "^(page|node|raw)$")]
    format: Option<String>,
    /// with what each section is about
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default, deserialize_with = "lenient_bool")]
    summary: bool,
    /// with the own text of each section; true without
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default = "default_include_text", deserialize_with = "lenient_bool")]
    include_text: bool,
}

fn default_include_text() -> bool {
    true
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    collection: Option<String>,
    /// documents of the answer, 50 without
    #[param(value_type = Option<u32>, minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// documents that are passed over, 0 without
    #[param(value_type = Option<u64>, required = false, format = "uint64")]
    #[serde(default)]
    offset: usize,
    /// a path, or `root`
    folder_id: Option<String>,
    /// documents of folders below, too
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default, deserialize_with = "lenient_bool")]
    recursive: bool,
    /// the name of a document
    name: Option<String>,
}

/// The tree or pages of a document.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageIndexDocumentContent {
    doc_id: String,
    /// `queued`, `processing`, `completed`, `failed`.
    status: &'static str,
    /// Whether the document has a tree.
    retrieval_ready: bool,
    name: String,
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
    #[schema(value_type = Object)]
    metadata: Value,
    locator: String,
}

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
    params(("doc" = String, Path), DocumentQuery),
    responses((status = 200, body = PageIndexDocumentContent)))]
pub(crate) async fn document(
    State(state): State<AppState>,
    collections: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<DocumentQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, query.collection.as_deref())?;
    let kind = query.kind.map(|kind| kind.to_lowercase());
    let format = query.format.map(|format| format.to_lowercase());
    let kind = kind.as_deref().unwrap_or("tree");
    let tree = |summaries, texts| ContentKind::Tree { summaries, texts };
    let kind = match (kind, format.as_deref().unwrap_or("page")) {
        ("tree", "page" | "node" | "raw") => tree(query.summary, query.include_text),
        ("ocr", "page") => ContentKind::Pages,
        ("ocr", "node") => tree(false, true),
        ("ocr", "raw") => ContentKind::Raw,
        _ => {
            let detail = "type must be tree or ocr, and format page, node or raw";
            return Err(Problem::parameter(400, "type", detail).into());
        }
    };
    let listed = find_document(&archive, &doc)?;
    let result = match archive.load_tree(&listed).await.map_err(ApiError::from)? {
        Some(published) => Some(result(&archive, &listed, published, kind).await?),
        None => None,
    };
    json(PageIndexDocumentContent {
        doc_id: listed.doc().to_string(),
        status: status(listed.state),
        retrieval_ready: result.is_some(),
        name: name_of(&listed).to_owned(),
        metadata: json!(facts(&listed)),
        result,
    })
    .await
}

#[derive(Debug, Clone, Copy)]
enum ContentKind {
    Tree { summaries: bool, texts: bool },
    Pages,
    Raw,
}

async fn result(
    archive: &Archive,
    listed: &CatalogDocument,
    published: Arc<PublishedTree>,
    kind: ContentKind,
) -> Result<Value, ApiError> {
    let body = match kind {
        ContentKind::Tree { texts: false, .. } => None,
        _ => archive.load_body(&published).await?,
    };
    if matches!(kind, ContentKind::Tree { .. }) {
        reserve_tree(&published).await?;
    }
    match (kind, body) {
        // An imported tree may have no text in the store, but still has sections.
        (ContentKind::Tree { summaries, .. }, body) => {
            let nodes =
                spawn_cpu(move || nodes::nodes(&published.tree.sections, summaries, body.as_ref()));
            Ok(nodes.await?)
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
        SourceBody::Pages(pages) => (pages.iter().enumerate())
            .map(|(index, one)| page(PageNo::from_index(index).get(), one.text()))
            .collect(),
        SourceBody::Lines(text) => json!([page(1, text.lines.join("\n"))]),
    }
}

fn raw(body: &SourceBody) -> String {
    match body {
        SourceBody::Pages(pages) => {
            let texts = pages.iter().map(stemma_document::Page::text);
            texts.collect::<Vec<_>>().join("\n\n")
        }
        SourceBody::Lines(text) => text.lines.join("\n"),
    }
}

/// The metadata of a document
///
/// In any processing state.
#[utoipa::path(get, path = "/doc/{doc}/metadata/", operation_id = "pageindex_metadata", tag = "pageindex",
    params(("doc" = String, Path), LenientQuery),
    responses((status = 200, body = PageIndexDocument)))]
pub(crate) async fn metadata(
    State(state): State<AppState>,
    collections: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<LenientQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, query.collection.as_deref())?;
    let listed = find_document(&archive, &doc)?;
    json(document_info(&listed)).await
}

/// List documents
///
/// Newest period first, optionally limited to a folder or name.
#[utoipa::path(get, path = "/docs/", operation_id = "pageindex_documents", tag = "pageindex",
    params(ListQuery), responses((status = 200, body = PageIndexDocumentList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    collections: CollectionScope,
    QueryParams(query): QueryParams<ListQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, query.collection.as_deref())?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let offset = query.offset;
    if !(1..=MAX_LIMIT).contains(&limit) {
        let detail = format!("limit must be from 1 to {MAX_LIMIT}");
        return Err(Problem::parameter(400, "limit", detail).into());
    }
    let catalog = archive.catalog();
    let mut documents: Vec<Arc<CatalogDocument>> = match query.folder_id {
        None => {
            let all = catalog.documents().collect::<PortResult<_>>();
            all.map_err(ApiError::from)?
        }
        Some(folder) => {
            let path = if is_root(&folder) { "/" } else { &folder };
            let mut request = ListRequest::new(path);
            request.recursive = query.recursive;
            archive.folder(&request)?.documents
        }
    };
    if let Some(name) = query.name {
        documents.retain(|listed| name_of(listed) == name || listed.label == name);
    }
    documents.sort_by_cached_key(|listed| std::cmp::Reverse(sort_date(listed)));
    let total = documents.len();
    let documents = documents
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(|listed| document_info(&listed))
        .collect();
    json(PageIndexDocumentList {
        documents,
        total,
        limit,
        offset,
    })
    .await
}

fn document_info(listed: &CatalogDocument) -> PageIndexDocument {
    let folder_id = folder_of(listed);
    let path = folder_id.as_deref();
    let path = path.map(|folder| folder.trim_start_matches('/').to_owned());
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
