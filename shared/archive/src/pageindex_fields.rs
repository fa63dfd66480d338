//! Document fields with the names and formats of PageIndex's tools and cloud API.

use serde_json::{Map, Value, json};
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_document::time_format;

/// Limit of characters of a description or fact.
const DESCRIPTION_CHARS: usize = 300;

/// Sort key by date: the filing date, or else the end of the period.
pub fn sort_date(listed: &CatalogDocument) -> Option<String> {
    let facts = &listed.entry()?.facts;
    let fact = facts
        .filed
        .as_ref()
        .or(facts.period_end.as_ref())
        .or(facts.fiscal_year.as_ref())?;
    Some(fact.value.clone())
}

/// Publication time of the tree, if known: `2023-11-14T22:13:20Z`.
pub fn created_at(listed: &CatalogDocument) -> Option<String> {
    listed.published_ms.map(time_format::format_rfc3339)
}

/// The description of a document, or the reason why it has none.
pub fn description(listed: &CatalogDocument) -> String {
    let own = listed.entry().and_then(|entry| entry.description.clone());
    let text = own
        .or_else(|| {
            listed
                .failure
                .as_ref()
                .map(|failure| failure.message.clone())
        })
        .unwrap_or_default();
    text.chars().take(DESCRIPTION_CHARS).collect()
}

/// Number of pages; `None` for texts and for documents without a tree.
pub fn page_count(listed: &CatalogDocument) -> Option<u32> {
    listed.entry().and_then(|entry| match entry.extent {
        stemma_document::Extent::Pages(pages) => Some(pages),
        stemma_document::Extent::Lines(_) => None,
    })
}

/// The first value of each fact.
pub fn metadata(listed: &CatalogDocument) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (name, fact) in listed
        .entry()
        .map(|entry| entry.facts.entries())
        .unwrap_or_default()
    {
        let value: String = fact.value.chars().take(DESCRIPTION_CHARS).collect();
        metadata.entry(name).or_insert_with(|| json!(value));
    }
    if listed.state == DocumentState::DoneWithGaps {
        metadata.insert(
            "gaps".into(),
            json!(listed.entry().map(|entry| entry.gaps.join(", "))),
        );
    }
    metadata
}

/// Whether a folder is the root, as PageIndex or Stemma names it.
pub fn is_root(folder: &str) -> bool {
    matches!(folder.trim(), "" | "/" | "root")
}

/// The state as PageIndex names it.
pub fn status(state: DocumentState) -> &'static str {
    match state {
        DocumentState::Queued => "queued",
        DocumentState::Running => "processing",
        DocumentState::Done | DocumentState::DoneWithGaps => "completed",
        DocumentState::Failed | DocumentState::Cancelled => "failed",
    }
}

/// The public name of a document: its file name if it is unique, else its label.
pub fn name_of(listed: &CatalogDocument) -> &str {
    let name = &listed.version().name;
    let rest = name.strip_prefix(listed.label.as_str());
    if rest.is_some_and(|ending| ending.is_empty() || ending.starts_with('.')) {
        name
    } else {
        &listed.label
    }
}
