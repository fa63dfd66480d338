//! Document fields in the names and formats of PageIndex's tools and cloud API.

use serde_json::{Map, Value, json};
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_document::time_format;

/// Characters of a description or a fact that are shown.
const DESCRIPTION_CHARS: usize = 300;

/// When a document was filed, or else the end of its period; later ones are greater.
pub fn sort_date(listed: &CatalogDocument) -> Option<String> {
    let facts = &listed.entry()?.facts;
    let fact = facts
        .filed
        .as_ref()
        .or(facts.period_end.as_ref())
        .or(facts.fiscal_year.as_ref())?;
    Some(fact.value.clone())
}

/// When the tree of a document was published, as far as the store knows: `2023-11-14T22:13:20Z`.
pub fn created_at(listed: &CatalogDocument) -> Option<String> {
    listed.published_ms.map(time_format::format_rfc3339)
}

/// One sentence about a document: its own, or why it has none.
pub fn description(listed: &CatalogDocument) -> String {
    let own = listed
        .entry()
        .and_then(|entry| entry.description.as_deref());
    let failure = listed.failure.as_ref().map(|it| it.message.as_str());
    let text = own.or(failure).unwrap_or_default();
    text.chars().take(DESCRIPTION_CHARS).collect()
}

/// Pages of a document; `None` for texts, and for documents that were not read yet.
pub fn page_count(listed: &CatalogDocument) -> Option<u32> {
    listed.entry()?.extent.pages()
}

/// Facts stated in a document, the first value of each name.
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

/// Whether a folder is the root, by PageIndex's names or ours.
pub fn is_root(folder: &str) -> bool {
    matches!(folder.trim(), "" | "/" | "root")
}

/// The state in PageIndex's terms.
pub fn status(state: DocumentState) -> &'static str {
    match state {
        DocumentState::Queued => "queued",
        DocumentState::Running => "processing",
        DocumentState::Done | DocumentState::DoneWithGaps => "completed",
        DocumentState::Failed | DocumentState::Cancelled => "failed",
    }
}

/// The name under which a document is given out: its file name where no other document has it, else its label.
pub fn name_of(listed: &CatalogDocument) -> &str {
    let name = &listed.version().name;
    let rest = name.strip_prefix(listed.label.as_str());
    if rest.is_some_and(|ending| ending.is_empty() || ending.starts_with('.')) {
        name
    } else {
        &listed.label
    }
}
