//! Documents: what is known of them, their trees, their pages.

use serde_json::{Value, json};
use stemma_document::{Body, PageNo, PublishedTree};
use stemma_search::axes::Scope;
use stemma_search::catalogue::Listed;

use super::super::asked::{Answer, Asked, json as answered};
use super::super::problem::Problem;
use super::{folder_of, nodes};
use crate::Refusal;
use crate::mcp::dialect::{created_at, description, metadata as facts, name_of, page_count, status, when};
use crate::reader::{aside, no_text};

/// Documents of a list: where the request does not say how many, and at most, as there.
const LISTED: usize = 50;
const MAX_LISTED: usize = 10_000;

/// `GET /doc/{doc}/?type=tree|ocr`: the tree or the pages of a document; `result` is null until there are some.
pub(super) async fn document(mut asked: Asked) -> Answer {
    let parameter = |asked: &mut Asked, name: &str| asked.parameters.text(name).map(|text| text.to_lowercase());
    let (what, format) = (parameter(&mut asked, "type"), parameter(&mut asked, "format"));
    let on = |text: Option<String>, without: bool| text.map_or(without, |text| text == "true");
    let (summary, text) = (parameter(&mut asked, "summary"), parameter(&mut asked, "include_text"));
    let (summaries, texts) = (on(summary, false), on(text, true));
    let wanted = match (what.as_deref().unwrap_or("tree"), format.as_deref().unwrap_or("page")) {
        ("tree", _) => Wanted::Tree { summaries, texts },
        ("ocr", "page") => Wanted::Pages,
        ("ocr", "node") => Wanted::Tree { summaries: false, texts: true },
        ("ocr", "raw") => Wanted::Raw,
        _ => return Err(Problem::parameter(400, "type", "type is tree or ocr, and format page, node or raw").into()),
    };
    let listed = asked.named()?;
    let result = match asked.reader.tree_of(listed).await.map_err(Refusal::from)? {
        Some(published) => Some(result(&asked, listed, published, wanted).await?),
        None => None,
    };
    answered(json!({
        "doc_id": listed.doc().to_string(),
        "status": status(listed.state),
        "retrieval_ready": result.is_some(),
        "name": name_of(listed),
        "metadata": facts(listed),
        "result": result,
    }))
    .await
}

/// What is asked of a document.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Tree { summaries: bool, texts: bool },
    Pages,
    Raw,
}

async fn result(asked: &Asked, listed: &Listed, published: PublishedTree, wanted: Wanted) -> Result<Value, Refusal> {
    let needs_body = !matches!(wanted, Wanted::Tree { texts: false, .. });
    let body = if needs_body { asked.reader.body(&published).await? } else { None };
    match (wanted, body) {
        // An imported tree may have no text in the store: its sections are still there.
        (Wanted::Tree { summaries, texts }, body) => {
            let body = body.filter(|_| texts);
            Ok(aside(move || nodes::nodes(&published.tree.sections, summaries, body.as_ref())).await?)
        }
        (Wanted::Pages, Some(body)) => Ok(aside(move || pages(&body)).await?),
        (Wanted::Raw, Some(body)) => Ok(aside(move || json!(raw(&body))).await?),
        (_, None) => Err(no_text(listed)),
    }
}

/// Every page with its number; a text without pages is one.
fn pages(body: &Body) -> Value {
    let page = |number: u32, text: String| json!({ "page_index": number, "markdown": text, "images": [] });
    match body {
        Body::Pages(pages) => {
            let numbered = pages.iter().enumerate();
            numbered.map(|(index, one)| page(PageNo::from_index(index).get(), one.text())).collect()
        }
        Body::Lines(text) => json!([page(1, text.lines.join("\n"))]),
    }
}

fn raw(body: &Body) -> String {
    match body {
        Body::Pages(pages) => pages.iter().map(stemma_document::Page::text).collect::<Vec<_>>().join("\n\n"),
        Body::Lines(text) => text.lines.join("\n"),
    }
}

/// `GET /doc/{doc}/metadata/`: what is known of a document, whatever state it is in.
pub(super) async fn metadata(asked: Asked) -> Answer {
    answered(about(asked.named()?)).await
}

/// `GET /docs/`: documents, newest period first; those of a folder, or of one name.
pub(super) async fn list(mut asked: Asked) -> Answer {
    let limit = asked.parameters.number("limit")?.unwrap_or(LISTED);
    let offset = asked.parameters.number("offset")?.unwrap_or(0);
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(Problem::parameter(400, "limit", format!("limit is from 1 to {MAX_LISTED}")).into());
    }
    let recursive = asked.parameters.text("recursive").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let (folder, name) = (asked.parameters.text("folder_id"), asked.parameters.text("name"));
    let catalogue = asked.reader.catalogue();
    let mut documents: Vec<&Listed> = match folder {
        None => catalogue.documents().iter().collect(),
        Some(folder) => {
            let path = if crate::mcp::dialect::is_root(&folder) { "/" } else { folder.as_str() };
            let scope = Scope::parse(path, catalogue).map_err(Refusal::from)?;
            asked.reader.level(&scope, recursive).documents
        }
    };
    if let Some(name) = name {
        documents.retain(|listed| name_of(listed) == name || listed.label == name);
    }
    documents.sort_by_cached_key(|listed| std::cmp::Reverse(when(listed)));
    let total = documents.len();
    let shown: Vec<Value> = documents.into_iter().skip(offset).take(limit).map(about).collect();
    answered(json!({ "documents": shown, "total": total, "limit": limit, "offset": offset })).await
}

/// What is known of a document. `createdAt` is when its tree was published; null without one.
fn about(listed: &Listed) -> Value {
    let folder = folder_of(listed);
    let path = folder.as_deref().map(|folder| folder.trim_start_matches('/').to_owned());
    json!({
        "id": listed.doc().to_string(),
        "name": name_of(listed),
        "description": description(listed),
        "status": status(listed.state),
        "createdAt": created_at(listed),
        "pageNum": page_count(listed),
        "folderId": folder,
        "path": path,
        "metadata": facts(listed),
        "locator": listed.label,
    })
}
