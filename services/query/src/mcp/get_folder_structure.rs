//! `get_folder_structure`: folders with their numbers of documents, for prompts written for PageIndex's cloud.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_catalog::axes::Scope;

use super::answer::{Answer, cost, fence};
use super::arguments::Arguments;
use super::call::Call;
use super::failure::Failure;
use super::tools::reading;

pub(super) const NAME: &str = "get_folder_structure";

/// How it is announced.
pub(super) fn tool() -> Tool {
    reading(
        NAME,
        "Folders and virtual folders with their numbers of documents.",
        json!({}),
        &[],
        json!({}),
    )
}

/// Calls it.
pub(super) fn call(call: &Call<'_>, mut arguments: Arguments) -> Result<Answer, Failure> {
    // Its schema is not public; what it may be sent is taken, and all folders are answered.
    arguments.text("folder_id")?;
    arguments.value("max_depth");
    arguments.none_left()?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for listed in call.reader.catalogue().documents() {
        let path = &listed.version().path;
        for (at, _) in path.match_indices('/') {
            *counts.entry(format!("/{}", &path[..at])).or_default() += 1;
        }
    }
    let axes = call
        .reader
        .level(&Scope::default(), false)
        .axes
        .into_iter()
        .map(|axis| (axis.locator, axis.values));
    let documents = call.reader.catalogue().documents().len();
    let mut room = call.form.limit(None);
    let mut folders: Vec<Value> = vec![json!({ "id": "root", "count": documents })];
    let all = counts.len();
    for (id, count) in axes.chain(counts) {
        let folder = json!({ "id": id, "count": count });
        room = match room.checked_sub(cost(&folder)) {
            Some(room) => room,
            None => break,
        };
        folders.push(folder);
    }
    let body = fence(
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
        Answer::new(data, format!("{documents} documents in {all} folders"))
            .body(body)
            .option("Documents: browse_documents(folder_id) with an id from here"),
    )
}
