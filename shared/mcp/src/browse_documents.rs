//! `browse_documents`: documents and folders of a folder or axis path, newest first or ranked by a question.

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_archive::ApiError;
use stemma_archive::list::FolderContents;
use stemma_archive::pageindex_fields::{
    created_at, description, is_root, metadata, name_of, page_count, sort_date, status,
};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::Scope;
use stemma_catalog::filter::Filter;
use stemma_document::DocId;
use stemma_retrieval::{DocumentScope, Query};

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::paging::{PageRequest, page_request};
use crate::tool_context::ToolContext;
use crate::tool_result::{ToolResult, delimited, take_fitting, token_cost};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "browse_documents";
const RANKED_SECTIONS: usize = 200;
const MAX_FOLDERS: usize = 100;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "folder_id": { "type": "string", "default": "root", "description": "id of a folder, or a path: /@company/3M/@form/10-K; /@form lists the forms" },
        "recursive": { "type": "boolean", "description": "documents of sub-folders too" },
        "sort": { "type": "string", "enum": ["time", "relevance"] },
        "query": { "type": "string", "description": "with sort=relevance" },
        "where": { "description": "filter: form=10-K and fiscal_year>=2020" },
        "offset": { "type": "integer", "minimum": 0 },
        "cursor": { "type": "string" },
        "limit": { "type": "integer", "minimum": 1, "maximum": 50, "default": 10 },
    });
    let gives = json!({
        "total": { "type": "integer" },
        "documents": items(json!({
            "name": { "type": "string" },
            "id": { "type": "string" },
            "description": { "type": "string" },
            "status": { "type": "string" },
            "page_count": { "type": ["integer", "null"] },
            "metadata": { "type": "object" },
        })),
        "folders": items(json!({ "id": { "type": "string" }, "count": { "type": "integer" } })),
        "has_more": { "type": "boolean" },
        "next_offset": { "type": ["integer", "null"] },
    });
    let about = "List documents and folders, newest period first, or ranked by a question (sort=relevance, query). \
Folders include axes: /@company, /@form, /@fiscal_year.";
    read_only_tool(NAME, about, takes, &[], gives)
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let folder = arguments
        .text("folder_id")?
        .filter(|folder| !is_root(folder))
        .unwrap_or_else(|| "/".into());
    let recursive = arguments.flag("recursive")?;
    let query = arguments.text("query")?;
    let sort = arguments.choice("sort", &["time", "relevance"])?;
    let filter = filter(&mut arguments)?;
    let page = page_request(
        &mut arguments,
        50,
        &format!("{folder} {recursive} {sort} {query:?} {filter:?}"),
    )?;
    arguments.reject_unknown()?;
    // Models often send `query` without `sort=relevance`.
    let question = match (sort, query) {
        ("relevance", None) => return Err(ToolError::invalid("sort=relevance needs a `query`")),
        (_, query) => query,
    };
    let catalog = call.archive.catalog();
    let scope = Scope::parse(&folder, catalog).map_err(ApiError::from)?;
    let level = call.archive.folder_contents(&scope, recursive);
    let folders = folders(&level);
    let documents = match &question {
        // In any subfolder.
        Some(_) if !recursive => call.archive.folder_contents(&scope, true).documents,
        _ => level.documents,
    };
    let mut documents: Vec<&CatalogDocument> = documents
        .into_iter()
        .filter(|listed| filter.matches(listed))
        .collect();
    match &question {
        Some(question) => documents = ranked(call, question, &documents).await?,
        None => documents.sort_by_cached_key(|listed| std::cmp::Reverse(sort_date(listed))),
    }
    Ok(answer(
        call,
        &documents,
        &folders,
        &page,
        if question.is_some() {
            "relevance"
        } else {
            "time"
        },
    ))
}

// `where` is a filter expression or a JSON object.
pub(crate) fn filter(arguments: &mut Arguments) -> Result<Filter, ToolError> {
    let read = match arguments.value("where") {
        None => return Ok(Filter::default()),
        Some(Value::String(text)) => Filter::parse(&text),
        Some(value) => Filter::from_json(&value),
    };
    read.map_err(|error| ToolError::invalid(error.to_string()))
}

// Ranks documents by their best sections.
async fn ranked<'a>(
    call: &ToolContext<'_>,
    question: &str,
    among: &[&'a CatalogDocument],
) -> Result<Vec<&'a CatalogDocument>, ToolError> {
    let docs: Vec<DocId> = among.iter().map(|listed| listed.doc()).collect();
    let whole = docs.len() == call.archive.catalog().documents().len();
    let within = if whole {
        DocumentScope::All
    } else {
        DocumentScope::Documents(docs)
    };
    let response = call
        .search(&Query {
            within,
            limit: RANKED_SECTIONS,
            ..Query::new(question)
        })
        .await?;
    let mut ranked: Vec<&CatalogDocument> = Vec::new();
    for hit in &response.hits {
        let listed = among.iter().find(|listed| listed.doc() == hit.doc);
        ranked
            .extend(listed.filter(|listed| ranked.iter().all(|there| there.doc() != listed.doc())));
    }
    Ok(ranked)
}

// Subfolders with document counts or the values of an axis, then the axes that narrow the path, with value counts.
fn folders(level: &FolderContents<'_>) -> Vec<Value> {
    let real = level.folders.iter();
    let real = real.map(
        |folder| json!({ "id": folder.locator, "name": folder.name, "count": folder.documents }),
    );
    let axes = level.axes.iter();
    let axes = axes
        .map(|axis| json!({ "id": axis.locator, "name": format!("by {}", axis.axis.as_str()), "count": axis.values }));
    real.take(MAX_FOLDERS).chain(axes).collect()
}

fn answer(
    call: &ToolContext<'_>,
    documents: &[&CatalogDocument],
    folders: &[Value],
    page: &PageRequest,
    sort: &str,
) -> ToolResult {
    let room = call
        .form
        .limit(None)
        .saturating_sub(folders.iter().map(token_cost).sum());
    let page_documents = documents.iter().skip(page.offset).take(page.limit);
    let rows = take_fitting(page_documents.map(|listed| document(listed)), room);
    let next = page.offset + rows.len();
    let has_more = next < documents.len();
    let total = documents.len();
    let summary = match (rows.len(), folders.len()) {
        (0, 0) => "No documents here".to_owned(),
        (rows, folders) => {
            format!("{rows} of {total} documents, {folders} folders, sorted by {sort}")
        }
    };
    let body = delimited("catalogue", &listing(&rows, folders));
    let data = json!({
        "total": total,
        "documents": rows,
        "folders": folders,
        "sort": sort,
        "has_more": has_more,
        "next_offset": has_more.then_some(next),
        "next_cursor": has_more.then(|| page.cursor(next)),
    });
    let mut answer = ToolResult::new(data, summary).text_body(body);
    if total > 0 {
        answer = answer.with_option(
            "Next: get_document(doc_name) with a name from here; check that form, company and year are those meant",
        );
    }
    if has_more {
        answer = answer.with_option(format!("More: the same call with offset: {next}"));
    }
    answer
}

fn document(listed: &CatalogDocument) -> Value {
    let entry = listed.entry();
    json!({
        "name": name_of(listed),
        "id": listed.doc().to_string(),
        "description": description(listed),
        "status": status(listed.state),
        "created_at": created_at(listed).unwrap_or_default(),
        "page_count": page_count(listed),
        "tokens": entry.map(|entry| entry.tokens),
        "metadata": metadata(listed),
    })
}

fn listing(documents: &[Value], folders: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = folders
        .iter()
        .map(|folder| format!("{} ({})", text(&folder["id"]), folder["count"]))
        .collect();
    for document in documents {
        let facts = ["company", "form", "fiscal_year", "period_end"]
            .map(|name| text(&document["metadata"][name]));
        let facts = facts
            .into_iter()
            .filter(|fact| !fact.is_empty())
            .collect::<Vec<_>>()
            .join(" · ");
        let pages = document["page_count"]
            .as_u64()
            .map(|pages| format!("{pages} pages · "))
            .unwrap_or_default();
        lines.push(format!(
            "{} [{pages}{}] {facts}",
            text(&document["name"]),
            text(&document["status"])
        ));
        let about: String = text(&document["description"]).chars().take(160).collect();
        if !about.is_empty() {
            lines.push(format!("  {about}"));
        }
    }
    lines.join("\n")
}
