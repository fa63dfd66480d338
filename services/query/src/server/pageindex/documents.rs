//! Documents: what is known of them, their trees, their pages.

use serde::Serialize;
use serde_json::{Value, json};
use stemma_catalog::axes::Scope;
use stemma_catalog::catalogue::Listed;
use stemma_document::{Body, PageNo, PublishedTree};
use utoipa::ToSchema;

use super::super::asked::{Answer, Asked, json as answered};
use super::super::problem::Problem;
use super::{folder_of, nodes};
use crate::Refusal;
use crate::mcp::dialect::{
    created_at, description, metadata as facts, name_of, page_count, status, when,
};
use crate::reader::{aside, no_text};

/// Documents of a list: where the request does not say how many, and at most, as there.
const LISTED: usize = 50;
const MAX_LISTED: usize = 10_000;

/// A document: its tree or its pages.
#[derive(Serialize, ToSchema)]
pub(in crate::server) struct DocumentAnswer {
    doc_id: String,
    /// `queued`, `processing`, `completed`, `failed`.
    status: &'static str,
    /// Whether it has a tree.
    retrieval_ready: bool,
    name: String,
    /// Facts by their names.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Nodes (`title`, `node_id`, `page_index`, `start_index`, `end_index`, `summary`, `text`, `nodes`), pages (`page_index` from 1,
    /// `markdown`, `images`), or one text; null until there is a tree.
    #[schema(schema_with = super::super::openapi::anything)]
    result: Option<Value>,
}

/// What is known of a document.
#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexDocument)]
#[serde(rename_all = "camelCase")]
pub(in crate::server) struct About {
    id: String,
    name: String,
    /// One sentence; empty where there is none.
    description: String,
    /// `queued`, `processing`, `completed`, `failed`.
    status: &'static str,
    /// When its tree was published, RFC 3339 in UTC; null without one.
    created_at: Option<String>,
    /// Pages; null for texts.
    page_num: Option<u32>,
    /// The path of its folder; null at the root.
    folder_id: Option<String>,
    /// The same without its first slash.
    path: Option<String>,
    /// Facts by their names.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Its name here, to paste back.
    locator: String,
}

/// Documents, a part of the list.
#[derive(Serialize, ToSchema)]
pub(in crate::server) struct Documents {
    documents: Vec<About>,
    /// Documents of the whole list.
    total: usize,
    limit: usize,
    offset: usize,
}

/// The tree or the pages of a document
///
/// `type=tree`: nodes; `type=ocr`: pages, or with `format=node` nodes with their texts, with `format=raw` one text. `result` is null
/// until there is a tree. `{doc}` is an id, a name or a path.
#[utoipa::path(get, path = "/doc/{doc}/", operation_id = "pageindex_document", tag = "pageindex",
    params(
        ("doc" = String, Path), ("collection" = Option<String>, Query),
        ("type" = Option<String>, Query, pattern = "^(tree|ocr)$", description = "tree without"),
        ("format" = Option<String>, Query, pattern = "^(page|node|raw)$", description = "of `type=ocr`; page without"),
        ("summary" = Option<bool>, Query, description = "with what each section is about"),
        ("include_text" = Option<bool>, Query, description = "with the own text of each section; true without"),
    ),
    responses((status = 200, body = DocumentAnswer)))]
pub(in crate::server) async fn document(mut asked: Asked) -> Answer {
    let parameter =
        |asked: &mut Asked, name: &str| asked.parameters.text(name).map(|text| text.to_lowercase());
    let what = parameter(&mut asked, "type");
    let format = parameter(&mut asked, "format");
    let summaries = switch(&mut asked, "summary", false)?;
    let texts = switch(&mut asked, "include_text", true)?;
    let wanted = match (
        what.as_deref().unwrap_or("tree"),
        format.as_deref().unwrap_or("page"),
    ) {
        ("tree", "page" | "node" | "raw") => Wanted::Tree { summaries, texts },
        ("ocr", "page") => Wanted::Pages,
        ("ocr", "node") => Wanted::Tree {
            summaries: false,
            texts: true,
        },
        ("ocr", "raw") => Wanted::Raw,
        _ => {
            return Err(Problem::parameter(
                400,
                "type",
                "type is tree or ocr, and format page, node or raw",
            )
            .into());
        }
    };
    let listed = asked.named()?;
    let result = match asked.reader.tree_of(listed).await.map_err(Refusal::from)? {
        Some(published) => Some(result(&asked, listed, published, wanted).await?),
        None => None,
    };
    answered(DocumentAnswer {
        doc_id: listed.doc().to_string(),
        status: status(listed.state),
        retrieval_ready: result.is_some(),
        name: name_of(listed).to_owned(),
        metadata: json!(facts(listed)),
        result,
    })
    .await
}

/// A parameter that is on or off, as Python and as JSON write it.
fn switch(asked: &mut Asked, name: &str, without: bool) -> Result<bool, Problem> {
    match asked
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

/// What is asked of a document.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Tree { summaries: bool, texts: bool },
    Pages,
    Raw,
}

async fn result(
    asked: &Asked,
    listed: &Listed,
    published: PublishedTree,
    wanted: Wanted,
) -> Result<Value, Refusal> {
    let needs_body = !matches!(wanted, Wanted::Tree { texts: false, .. });
    let body = if needs_body {
        asked.reader.body(&published).await?
    } else {
        None
    };
    match (wanted, body) {
        // An imported tree may have no text in the store: its sections are still there.
        (Wanted::Tree { summaries, texts }, body) => {
            let body = body.filter(|_| texts);
            Ok(
                aside(move || nodes::nodes(&published.tree.sections, summaries, body.as_ref()))
                    .await?,
            )
        }
        (Wanted::Pages, Some(body)) => Ok(aside(move || pages(&body)).await?),
        (Wanted::Raw, Some(body)) => Ok(aside(move || json!(raw(&body))).await?),
        (_, None) => Err(no_text(listed)),
    }
}

/// Every page with its number; a text without pages is one.
fn pages(body: &Body) -> Value {
    let page =
        |number: u32, text: String| json!({ "page_index": number, "markdown": text, "images": [] });
    match body {
        Body::Pages(pages) => {
            let numbered = pages.iter().enumerate();
            numbered
                .map(|(index, one)| page(PageNo::from_index(index).get(), one.text()))
                .collect()
        }
        Body::Lines(text) => json!([page(1, text.lines.join("\n"))]),
    }
}

fn raw(body: &Body) -> String {
    match body {
        Body::Pages(pages) => pages
            .iter()
            .map(stemma_document::Page::text)
            .collect::<Vec<_>>()
            .join("\n\n"),
        Body::Lines(text) => text.lines.join("\n"),
    }
}

/// What is known of a document
///
/// Whatever state it is in.
#[utoipa::path(get, path = "/doc/{doc}/metadata/", operation_id = "pageindex_metadata", tag = "pageindex",
    params(("doc" = String, Path), ("collection" = Option<String>, Query)),
    responses((status = 200, body = About)))]
pub(in crate::server) async fn metadata(asked: Asked) -> Answer {
    answered(about(asked.named()?)).await
}

/// List documents
///
/// Newest period first; all, or those of a folder, or of one name.
#[utoipa::path(get, path = "/docs/", operation_id = "pageindex_documents", tag = "pageindex",
    params(
        ("collection" = Option<String>, Query),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "documents of the answer, 50 without"),
        ("offset" = Option<u64>, Query, format = "uint64", description = "documents that are passed over, 0 without"),
        ("folder_id" = Option<String>, Query, description = "a path, or `root`"),
        ("recursive" = Option<bool>, Query, description = "documents of folders below, too"),
        ("name" = Option<String>, Query, description = "the name of a document"),
    ),
    responses((status = 200, body = Documents)))]
pub(in crate::server) async fn list(mut asked: Asked) -> Answer {
    let limit = asked.parameters.number("limit")?.unwrap_or(LISTED);
    let offset = asked.parameters.number("offset")?.unwrap_or(0);
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(
            Problem::parameter(400, "limit", format!("limit is from 1 to {MAX_LISTED}")).into(),
        );
    }
    let recursive = switch(&mut asked, "recursive", false)?;
    let folder = asked.parameters.text("folder_id");
    let name = asked.parameters.text("name");
    let catalogue = asked.reader.catalogue();
    let mut documents: Vec<&Listed> = match folder {
        None => catalogue.documents().iter().collect(),
        Some(folder) => {
            let path = if crate::mcp::dialect::is_root(&folder) {
                "/"
            } else {
                folder.as_str()
            };
            let scope = Scope::parse(path, catalogue).map_err(Refusal::from)?;
            asked.reader.level(&scope, recursive).documents
        }
    };
    if let Some(name) = name {
        documents.retain(|listed| name_of(listed) == name || listed.label == name);
    }
    documents.sort_by_cached_key(|listed| std::cmp::Reverse(when(listed)));
    let total = documents.len();
    let documents = documents
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(about)
        .collect();
    answered(Documents {
        documents,
        total,
        limit,
        offset,
    })
    .await
}

fn about(listed: &Listed) -> About {
    let folder_id = folder_of(listed);
    let path = folder_id
        .as_deref()
        .map(|folder| folder.trim_start_matches('/').to_owned());
    About {
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
