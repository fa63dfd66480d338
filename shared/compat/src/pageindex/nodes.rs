//! Sections as PageIndex nodes.

use serde_json::{Map, Value, json};
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
    let mut node = Map::new();
    node.insert("title".into(), json!(section.title));
    node.insert("node_id".into(), json!(section.id));
    match section.span {
        SectionSpan::Pages { pages, .. } => {
            node.insert("page_index".into(), json!(pages.start()));
            node.insert("start_index".into(), json!(pages.start()));
            node.insert("end_index".into(), json!(pages.end()));
        }
        SectionSpan::Lines { start, .. } => {
            node.insert("line_num".into(), json!(start));
        }
    }
    if let Some(summary) = section.summary.as_ref().filter(|_| summaries) {
        let key = if section.children.is_empty() {
            "summary"
        } else {
            "prefix_summary"
        };
        node.insert(key.into(), json!(summary.text));
    }
    if let Some(body) = body {
        node.insert("text".into(), json!(text::own_text(section, body)));
    }
    if !section.children.is_empty() {
        node.insert("nodes".into(), nodes(&section.children, summaries, body));
    }
    Value::Object(node)
}
