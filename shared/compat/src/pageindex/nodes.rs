//! Sections as PageIndex nodes.

use serde_json::{Value, json};
use stemma_document::{Section, SectionSpan, SourceBody, text};

/// Nodes of sections, with what is below them. Pages count from 1; `end_index` includes sub-sections; `page_index` is the
/// first page, under the name older clients know. With a body, each has its own text: no text is in two nodes. Recursion
/// is as deep as the tree, which building and reading both bound.
pub(super) fn nodes(sections: &[Section], summaries: bool, body: Option<&SourceBody>) -> Value {
    sections
        .iter()
        .map(|section| node(section, summaries, body))
        .collect()
}

fn node(section: &Section, summaries: bool, body: Option<&SourceBody>) -> Value {
    let mut node = json!({ "title": section.title, "node_id": section.id });
    match section.span {
        SectionSpan::Pages { pages, .. } => {
            node["page_index"] = json!(pages.start());
            node["start_index"] = json!(pages.start());
            node["end_index"] = json!(pages.end());
        }
        SectionSpan::Lines { start, .. } => node["line_num"] = json!(start),
    }
    let is_leaf = section.children.is_empty();
    if let Some(summary) = section.summary.as_ref().filter(|_| summaries) {
        let key = if is_leaf { "summary" } else { "prefix_summary" };
        node[key] = json!(summary.text);
    }
    if let Some(body) = body {
        node["text"] = json!(text::own_text(section, body));
    }
    if !is_leaf {
        node["nodes"] = nodes(&section.children, summaries, body);
    }
    node
}
