//! `get_document`: status, metadata and Items (pages, tokens) of a document.

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_archive::ItemInfo;
use stemma_archive::documents::rounded_share;
use stemma_archive::pageindex_fields::{
    created_at, description, metadata, name_of, page_count, status,
};
use stemma_catalog::catalog::CatalogDocument;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::tool_context::{ToolContext, link, section_address};
use crate::tool_result::{ToolResult, delimited, token_cost};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "get_document";
const MAX_ITEMS: usize = 60;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "doc_name": { "type": "string", "description": "name, id or locator" },
        "folder_id": { "type": ["string", "null"] },
        "wait_for_completion": { "type": "boolean", "description": "wait up to 17 s" },
    });
    let gives = json!({
        "name": { "type": "string" },
        "id": { "type": "string" },
        "status": { "type": "string", "description": "queued, processing, completed or failed" },
        "page_count": { "type": ["integer", "null"] },
        "metadata": { "type": "object" },
        "items": items(json!({
            "item": { "type": "string" },
            "title": { "type": "string" },
            "pages": { "type": "string" },
            "tokens": { "type": "integer" },
        })),
    });
    let about =
        "Status, metadata and Item map (pages and tokens of each Item of a filing) of a document.";
    read_only_tool(NAME, about, takes, &["doc_name"], gives)
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let name = arguments.required_text("doc_name")?;
    let folder = arguments.text("folder_id")?;
    let wait = arguments.flag("wait_for_completion")?;
    arguments.reject_unknown()?;
    let document = call.resolve_document(&name, folder.as_deref())?;
    if wait {
        call.wait_until_ready(&document).await?;
    }
    let listed = call.listed(&document)?;
    let state = status(listed.state);
    let items = match listed.entry() {
        Some(_) => call.archive.items(&listed.label).await?.items,
        None => Vec::new(),
    };
    let rows = rows(call, &items);
    let links = items.iter().filter_map(|item| {
        let section = item.section_id.as_ref()?;
        Some(link(
            section_address(listed.doc(), section),
            &format!("Item {}", item.item),
        ))
    });
    let links = links.take(5).collect();
    let name = name_of(listed);
    let body = delimited(name, &overview(listed, &rows));
    let answer = ToolResult::new(data(listed, &rows), summary(listed))
        .text_body(body)
        .resources(links);
    Ok(match state {
        "completed" => answer
            .with_option(format!(
                "Sections: get_document_structure(doc_name: \"{name}\")"
            ))
            .with_option(format!(
                "Text: get_page_content(doc_name: \"{name}\", pages: \"1-3\"), or item: \"7\""
            )),
        "failed" => {
            answer.with_option("It has to be ingested again; other documents: browse_documents()")
        }
        _ => answer.with_option(format!(
            "Later: get_document(doc_name: \"{name}\", wait_for_completion: true)"
        )),
    })
}

fn summary(listed: &CatalogDocument) -> String {
    let name = name_of(listed);
    match (page_count(listed), listed.entry()) {
        (Some(pages), _) => format!("{name}: completed, {pages} pages"),
        (None, Some(_)) => format!("{name}: completed, a text without pages"),
        (None, None) => format!("{name}: {}; {}", status(listed.state), cause(listed)),
    }
}

fn cause(listed: &CatalogDocument) -> String {
    match &listed.failure {
        Some(failure) => format!("{}: {}", failure.code, failure.message),
        None => "its run has not ended".into(),
    }
}

fn data(listed: &CatalogDocument, items: &[Value]) -> Value {
    let version = listed.version();
    let entry = listed.entry();
    let folder = version
        .path
        .rsplit_once('/')
        .map(|(folder, _)| format!("/{folder}"));
    let mut data = json!({
        "name": name_of(listed),
        "id": listed.doc().to_string(),
        "locator": listed.label,
        "description": description(listed),
        "status": status(listed.state),
        "created_at": created_at(listed).unwrap_or_default(),
        "page_count": page_count(listed),
        "folder_id": folder,
        "metadata": metadata(listed),
        "items": items,
    });
    if let Some(entry) = entry {
        data["quality"] = json!({
            "method": entry.method,
            "titles_verified": rounded_share(entry.accuracy),
            "sections": entry.sections,
            "tokens": entry.tokens,
            "gaps": entry.gaps,
        });
    } else {
        data["cause"] = json!(cause(listed));
        // A tree is published as a whole, so there is no partial progress to report.
        data["progress"] = json!(0);
    }
    data
}

fn rows(call: &ToolContext<'_>, items: &[ItemInfo]) -> Vec<Value> {
    let mut room = call.form.limit(None) * 3 / 4;
    let mut rows = Vec::new();
    for item in items.iter().take(MAX_ITEMS) {
        let row = row(item);
        let size = token_cost(&row);
        if size > room {
            break;
        }
        room -= size;
        rows.push(row);
    }
    rows
}

pub(crate) fn row(item: &ItemInfo) -> Value {
    let title: String = item.title.chars().take(120).collect();
    let mut row = json!({ "item": item.id.as_ref().unwrap_or(&item.item), "title": title, "tokens": item.tokens });
    if let Some(section) = &item.section_id {
        row["section_id"] = json!(section);
    }
    if let Some((start, end)) = item.pages {
        row["pages"] = json!(if start == end {
            start.to_string()
        } else {
            format!("{start}-{end}")
        });
    }
    if let Some(status) = &item.status {
        row["status"] = json!(status);
    }
    let elsewhere: Vec<&String> = item
        .content
        .iter()
        .filter_map(|link| link.to.as_ref().or(link.outside.as_ref()))
        .take(4)
        .collect();
    if !elsewhere.is_empty() {
        row["content_at"] = json!(elsewhere);
    }
    row
}

fn overview(listed: &CatalogDocument, items: &[Value]) -> String {
    let mut lines = vec![description(listed)];
    lines.extend(
        metadata(listed)
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default())),
    );
    if let Some(entry) = listed.entry() {
        lines.push(format!(
            "{} sections, {} tokens",
            entry.sections, entry.tokens
        ));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for item in items {
        let elsewhere = item["content_at"]
            .as_array()
            .map(|to| to.iter().map(text).collect::<Vec<_>>().join(", "));
        let elsewhere = elsewhere.map(|to| format!(" → {to}")).unwrap_or_default();
        let id = text(&item["item"]);
        let pages = text(&item["pages"]);
        let state = text(&item["status"]);
        lines.push(format!(
            "{id} {}  p {pages}  {} tokens {state}{elsewhere}",
            text(&item["title"]),
            item["tokens"]
        ));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}
