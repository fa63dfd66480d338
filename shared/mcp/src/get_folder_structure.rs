//! `get_folder_structure`: folders with document counts, for prompts written for PageIndex Cloud.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_catalog::facets::Scope;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::tool_context::ToolContext;
use crate::tool_result::{ToolResult, delimited, token_cost};
use crate::tools::read_only_tool;

pub(crate) const NAME: &str = "get_folder_structure";

pub(crate) fn tool() -> Tool {
    read_only_tool(
        NAME,
        "Folders and virtual folders with their numbers of documents.",
        json!({}),
        &[],
        json!({}),
    )
}

pub(crate) fn call(
    call: &ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    // PageIndex does not publish this schema: its known arguments are accepted but ignored, and all folders returned.
    arguments.text("folder_id")?;
    arguments.value("max_depth");
    arguments.reject_unknown()?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for listed in call.archive.catalog().documents() {
        let path = &listed.version().path;
        for (at, _) in path.match_indices('/') {
            *counts.entry(format!("/{}", &path[..at])).or_default() += 1;
        }
    }
    let axes = call
        .archive
        .folder_contents(&Scope::default(), false)
        .axes
        .into_iter()
        .map(|axis| (axis.locator, axis.values));
    let documents = call.archive.catalog().documents().len();
    let mut room = call.form.limit(None);
    let mut folders: Vec<Value> = vec![json!({ "id": "root", "count": documents })];
    let all = counts.len();
    for (id, count) in axes.chain(counts) {
        let folder = json!({ "id": id, "count": count });
        room = match room.checked_sub(token_cost(&folder)) {
            Some(room) => room,
            None => break,
        };
        folders.push(folder);
    }
    let body = delimited(
        "catalogue",
        &folders
            .iter()
            .map(|folder: &Value| {
                format!(
                    "{} ({})",
                    folder["id"].as_str().unwrap_or_default(),
                    folder["count"]
                )
            })
            .collect::<Vec<_>>()
            .join("\n"),
    );
    let data = json!({ "folders": folders, "total": all });
    Ok(
        ToolResult::new(data, format!("{documents} documents in {all} folders"))
            .text_body(body)
            .with_option("Documents: browse_documents(folder_id) with an id from here"),
    )
}
