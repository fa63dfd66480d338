//! Exports a published tree as PageIndex JSON.

use serde_json::{Map, Value, json};

use crate::{
    Extent, PublishedTree, Reference, ReferenceTarget, Section, SectionKind, SectionSpan,
    SectionTree,
};

/// Optional fields of the export.
#[derive(Clone, Copy)]
pub struct ExportOptions<'a> {
    /// `summary` of leaves and `prefix_summary` of inner nodes.
    pub summaries: bool,
    /// `text` of each node, computed by this function.
    pub text: Option<&'a dyn Fn(&Section) -> String>,
    /// `node_id`, four digits or more, pre-order from `0000`.
    pub node_ids: bool,
}

impl Default for ExportOptions<'_> {
    // Summaries and ids, no text.
    fn default() -> Self {
        Self {
            summaries: true,
            text: None,
            node_ids: true,
        }
    }
}

/// Exports a tree as a JSON object with `doc_name`, `doc_description`, `structure` (the top sections), `page_count` or
/// `line_count`, `facts`, `provenance` and `references`.
///
/// Nodes with pages have `start_index` and `end_index` (1-based, inclusive, including descendants), `physical_index`,
/// `appear_start` (`yes` if the section starts its page) and `position` (0-based line on that page, `y` in points from
/// its top). Nodes of a text have `line_num` (1-based). Leaves have no `nodes`.
pub fn export(published: &PublishedTree, options: ExportOptions<'_>) -> Value {
    let tree = &published.tree;
    let mut root = Map::new();
    root.insert("doc_name".into(), json!(published.version.name));
    if let Some(description) = &tree.description {
        root.insert("doc_description".into(), json!(description));
    }
    let (key, size) = match tree.extent {
        Extent::Pages(n) => ("page_count", n),
        Extent::Lines(n) => ("line_count", n),
    };
    root.insert(key.into(), json!(size));
    root.insert("structure".into(), nodes(&tree.sections, options));
    root.insert("facts".into(), json!(tree.facts));
    root.insert("provenance".into(), provenance(tree));
    root.insert(
        "references".into(),
        tree.references.iter().map(reference).collect(),
    );
    Value::Object(root)
}

fn provenance(tree: &SectionTree) -> Value {
    let provenance = &tree.provenance;
    json!({
        "method": provenance.method,
        "doubt": provenance.doubt,
        "model": provenance.model,
        "revisions": provenance.revisions,
        "gaps": tree.gaps,
    })
}

fn reference(reference: &Reference) -> Value {
    let to = match reference.to {
        ReferenceTarget::Section(id) => json!(id),
        ReferenceTarget::Unresolved => Value::Null,
    };
    json!({ "from": reference.from, "text": reference.text, "to": to })
}

// The recursion is bounded by the maximum depth of trees.
fn nodes(sections: &[Section], options: ExportOptions<'_>) -> Value {
    sections
        .iter()
        .map(|section| node(section, options))
        .collect()
}

fn node(section: &Section, options: ExportOptions<'_>) -> Value {
    let mut node = Map::new();
    node.insert("title".into(), json!(section.title));
    if options.node_ids {
        node.insert("node_id".into(), json!(section.id));
    }
    node.insert("structure".into(), json!(section.structure));
    insert_position(&mut node, section);
    insert_attributes(&mut node, section);
    if let Some(summary) = section.summary.as_ref().filter(|_| options.summaries) {
        let key = if section.children.is_empty() {
            "summary"
        } else {
            "prefix_summary"
        };
        node.insert(key.into(), json!(summary.text));
    }
    if let Some(text) = options.text {
        node.insert("text".into(), json!(text(section)));
    }
    if !section.children.is_empty() {
        node.insert("nodes".into(), nodes(&section.children, options));
    }
    Value::Object(node)
}

fn insert_position(node: &mut Map<String, Value>, section: &Section) {
    match section.span {
        SectionSpan::Pages { pages, from, .. } => {
            node.insert("start_index".into(), json!(pages.start()));
            node.insert("end_index".into(), json!(pages.end()));
            node.insert("physical_index".into(), json!(from.page));
            node.insert(
                "appear_start".into(),
                json!(if section.starts_page { "yes" } else { "no" }),
            );
            let y = f64::from(from.y.0) / 100.0;
            node.insert("position".into(), json!({ "line": from.line, "y": y }));
        }
        SectionSpan::Lines { start, .. } => {
            node.insert("line_num".into(), json!(start));
        }
    }
}

fn insert_attributes(node: &mut Map<String, Value>, section: &Section) {
    if let Some(number) = &section.number {
        node.insert("number".into(), json!(number));
    }
    if section.kind != SectionKind::Heading {
        node.insert("kind".into(), json!(section.kind));
    }
    node.insert("verified".into(), json!(section.verified));
    if section.tokens > 0 {
        node.insert("tokens".into(), json!(section.tokens));
    }
}
