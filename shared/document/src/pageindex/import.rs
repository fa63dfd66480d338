//! Imports PageIndex JSON.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::starts::{StartReader, parse_index};
use crate::assemble::{FlatSection, MAX_LEVELS, Nesting, assemble, assign_ends};
use crate::{
    EvidenceSource, FilingFacts, Gap, Method, PageSpan, Provenance, Reference, ReferenceTarget,
    SectionId, SectionKind, SectionSpan, SectionTree, Summary,
};

// Limits against hostile input. Longer titles and summaries are cut.
const MAX_NODES: usize = 100_000;
const MAX_TITLE_CHARS: usize = 1_000;
const MAX_SUMMARY_CHARS: usize = 20_000;
const MAX_REFERENCES: usize = 10_000;
// Maximum number of nested wrappers such as `{"result": {"tree": […]}}`.
const MAX_WRAPPERS: usize = 4;

/// Invalid PageIndex JSON. `name` is the imported file, `at` the 1-based node in reading order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error(
        "`{name}` holds no tree: expected a list of nodes, or an object with `structure`, `result` or `tree`"
    )]
    NoTree { name: String },
    #[error("node {at} of `{name}` is not an object")]
    NotANode { name: String, at: usize },
    #[error("node {at} of `{name}` has no title")]
    NoTitle { name: String, at: usize },
    #[error("`{name}` has more than {limit} nodes")]
    TooManyNodes { name: String, limit: usize },
}

/// Imports a tree. `name` is used in errors.
///
/// - Nodes are the value itself (a list), or the value of `structure`, `result`, `tree` or `nodes`; children are in
///   `nodes` or `children`. A flat list whose `structure` codes have dots is nested by these codes.
/// - A node starts at `start_index`, `physical_index` or `page` (a number, a numeral, or `<physical_index_5>`), or at
///   `line_num`. A node without a start, or with one before its predecessor, starts where its predecessor does.
/// - Ends follow from the starts, so that parents contain their descendants. `end_index` only determines whether the
///   next section starts its page. If no node has a position, each node counts as one line.
/// - Ids are reassigned in pre-order. Texts are ignored.
///
/// # Errors
/// [`ImportError`] if there are no nodes, more than 100,000, or a node without a title. Other problems are repaired, and
/// recorded as gaps if something is lost.
pub fn import(value: &Value, name: &str) -> Result<SectionTree, ImportError> {
    let list = find_nodes(value).ok_or_else(|| ImportError::NoTree { name: name.into() })?;
    let rows = flatten(list, name)?;
    let mut gaps = Vec::new();
    let depths = depths(&rows, &mut gaps);
    let mut nodes = Vec::with_capacity(rows.len());
    let mut places = StartReader::new(&rows.iter().map(|row| row.object));
    for (index, (row, depth)) in rows.iter().zip(depths).enumerate() {
        let title = title(row.object).ok_or_else(|| ImportError::NoTitle {
            name: name.into(),
            at: index + 1,
        })?;
        nodes.push(node(
            row.object,
            title,
            depth,
            places.next_span(row.object, index),
        ));
    }
    record_cut_titles(&rows, &mut gaps);
    let extent = places.extent(value);
    assign_ends(&mut nodes, extent.size());
    record_uncovered(&nodes, &mut gaps);
    let mut tree = SectionTree {
        extent,
        description: trimmed_text(value.get("doc_description")),
        facts: FilingFacts::default(),
        items: Vec::new(),
        sections: assemble(nodes),
        references: references(value, &rows),
        recognized: Vec::new(),
        gaps,
        provenance: provenance(value),
    };
    import_facts(value, &mut tree);
    Ok(tree)
}

struct ImportedNode<'a> {
    object: &'a Map<String, Value>,
    level: u32,
}

fn find_nodes(value: &Value) -> Option<&[Value]> {
    let mut value = value;
    for _ in 0..=MAX_WRAPPERS {
        match value {
            Value::Array(list) => {
                return Some(list)
                    .filter(|list| !list.is_empty())
                    .map(Vec::as_slice);
            }
            Value::Object(object) => {
                let mut wrapped = ["structure", "result", "tree"]
                    .iter()
                    .filter_map(|key| object.get(*key));
                let inner = wrapped.find(|inner| inner.is_array() || inner.is_object());
                match inner {
                    Some(inner) => value = inner,
                    None if title(object).is_some() => return Some(std::slice::from_ref(value)),
                    None => value = children(object)?,
                }
            }
            _ => return None,
        }
    }
    None
}

fn children(object: &Map<String, Value>) -> Option<&Value> {
    ["nodes", "children"]
        .iter()
        .filter_map(|key| object.get(*key))
        .find(|value| value.is_array())
}

// Returns all nodes in pre-order. Uses an explicit stack, since the value may be deeper than the call stack allows.
fn flatten<'a>(list: &'a [Value], name: &str) -> Result<Vec<ImportedNode<'a>>, ImportError> {
    let mut rows = Vec::new();
    let mut stack: Vec<(&Value, u32)> = list.iter().rev().map(|value| (value, 1)).collect();
    while let Some((value, level)) = stack.pop() {
        // The stack counts too, or one node with millions of children would pass.
        if rows.len() + stack.len() >= MAX_NODES {
            return Err(ImportError::TooManyNodes {
                name: name.into(),
                limit: MAX_NODES,
            });
        }
        let Value::Object(object) = value else {
            return Err(ImportError::NotANode {
                name: name.into(),
                at: rows.len() + 1,
            });
        };
        rows.push(ImportedNode { object, level });
        if let Some(Value::Array(list)) = children(object) {
            stack.extend(list.iter().rev().map(|child| (child, level + 1)));
        }
    }
    Ok(rows)
}

fn depths(rows: &[ImportedNode<'_>], gaps: &mut Vec<Gap>) -> Vec<usize> {
    // PageIndex writes either nested nodes, or a flat list whose codes hold the nesting.
    let flat = rows.iter().all(|row| row.level == 1)
        && rows
            .iter()
            .any(|row| structure_code(row).is_some_and(|c| c.contains('.')));
    if flat {
        return depths_from_codes(rows);
    }
    let mut nesting = Nesting::default();
    let depths = rows.iter().map(|row| nesting.push(row.level)).collect();
    gaps.extend(nesting.depth_gap("nodes"));
    depths
}

fn structure_code<'a>(row: &ImportedNode<'a>) -> Option<&'a str> {
    row.object
        .get("structure")
        .and_then(Value::as_str)
        .map(|code| code.trim().trim_end_matches('.'))
}

// Nests a node under the nearest open node whose code is a prefix of its own.
fn depths_from_codes(rows: &[ImportedNode<'_>]) -> Vec<usize> {
    let mut open: Vec<&str> = Vec::new();
    let mut depths = Vec::with_capacity(rows.len());
    for row in rows {
        let code = structure_code(row).unwrap_or_default();
        while open.last().is_some_and(|parent| {
            let rest = code.strip_prefix(parent).unwrap_or_default();
            parent.is_empty() || !rest.starts_with('.')
        }) {
            open.pop();
        }
        open.truncate(MAX_LEVELS - 1);
        open.push(code);
        depths.push(open.len());
    }
    depths
}

fn title(object: &Map<String, Value>) -> Option<&str> {
    let titles = ["title", "name", "heading"]
        .iter()
        .filter_map(|key| object.get(*key)?.as_str());
    titles.map(str::trim).find(|title| !title.is_empty())
}

fn truncate(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

fn trimmed_text(value: Option<&Value>) -> Option<String> {
    value?
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| truncate(text, MAX_SUMMARY_CHARS))
}

fn node(
    object: &Map<String, Value>,
    title: &str,
    depth: usize,
    (span, starts_page): (SectionSpan, bool),
) -> FlatSection {
    let summary =
        trimmed_text(object.get("summary")).or_else(|| trimmed_text(object.get("prefix_summary")));
    let kind = object
        .get("kind")
        .and_then(|kind| serde_json::from_value(kind.clone()).ok());
    FlatSection {
        depth,
        title: truncate(title, MAX_TITLE_CHARS),
        number: object
            .get("number")
            .and_then(Value::as_str)
            .map(|number| truncate(number, 64)),
        kind: kind.unwrap_or(SectionKind::Heading),
        starts_page,
        verified: object
            .get("verified")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        // The format marks sections itself, as Markdown does.
        evidence: EvidenceSource::Markup,
        tokens: object.get("tokens").and_then(parse_index).unwrap_or(0),
        summary: summary.map(|text| Summary {
            text,
            by: "imported".into(),
        }),
        span,
    }
}

fn record_cut_titles(rows: &[ImportedNode<'_>], gaps: &mut Vec<Gap>) {
    let cut = rows
        .iter()
        .filter(|row: &&ImportedNode<'_>| {
            title(row.object).is_some_and(|title| title.chars().nth(MAX_TITLE_CHARS).is_some())
        })
        .count();
    if cut > 0 {
        let detail = format!("{cut} titles were longer than {MAX_TITLE_CHARS} characters");
        gaps.push(Gap::new("import.title_cut", detail));
    }
}

// Imported trees get no preface: pages before the first node are recorded as a gap.
fn record_uncovered(nodes: &[FlatSection], gaps: &mut Vec<Gap>) {
    let first = nodes
        .first()
        .and_then(|node| node.span.pages())
        .map(|pages| pages.start().get());
    if let Some(pages) = first.and_then(|first| PageSpan::new(1, first - 1)) {
        let detail = "no node covers the pages before the first";
        gaps.push(Gap {
            pages: Some(pages),
            ..Gap::new("import.pages_uncovered", detail)
        });
    }
}

fn provenance(value: &Value) -> Provenance {
    let original = value.get("provenance");
    let model = original.and_then(|original| trimmed_text(original.get("model")));
    Provenance {
        method: Method::Imported,
        doubt: None,
        model: model.map_or_else(|| "imported".into(), |model| truncate(&model, 100)),
        revisions: BTreeMap::new(),
        answers: None,
    }
}

// Resolves references by the ids in the input, since ids are reassigned.
fn references(value: &Value, rows: &[ImportedNode<'_>]) -> Vec<Reference> {
    let mut ids: HashMap<&str, SectionId> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(id) = row.object.get("node_id").and_then(Value::as_str) {
            ids.entry(id)
                .or_insert(SectionId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }
    let id = |value: Option<&Value>| {
        value
            .and_then(Value::as_str)
            .and_then(|id| ids.get(id))
            .copied()
    };
    let list = value
        .get("references")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .filter_map(|entry: &Value| {
            let to =
                id(entry.get("to")).map_or(ReferenceTarget::Unresolved, ReferenceTarget::Section);
            let text = truncate(entry.get("text")?.as_str()?, 200);
            Some(Reference {
                from: id(entry.get("from"))?,
                text,
                to,
            })
        })
        .take(MAX_REFERENCES)
        .collect()
}

fn import_facts(value: &Value, tree: &mut SectionTree) {
    match value
        .get("facts")
        .map(|facts| serde_json::from_value(facts.clone()))
    {
        None => {}
        Some(Ok(facts)) => tree.facts = facts,
        Some(Err(_)) => {
            let detail = "`facts` is not of the known shape";
            tree.gaps.push(Gap::new("import.facts_unreadable", detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::assemble::tests::check_tree;
    use crate::pageindex::{ExportOptions, export};
    use crate::{
        Collection, Digest, DocId, DocumentVersion, DraftEntry, EntryVerdict, Extent, Fact,
        LocatedEntry, PageNo, Position, Pt, PublishedTree, SectionStart, VerifiedOutline,
    };

    fn published(tree: SectionTree) -> PublishedTree {
        let digest = Digest::from_content(b"x");
        let version = DocumentVersion {
            doc: DocId::new(&Collection::default(), "file:///x.pdf"),
            seq: 1,
            uri: "file:///x.pdf".into(),
            name: "x.pdf".into(),
            path: "x.pdf".into(),
            source: digest,
            origin: Default::default(),
            size_bytes: 1,
            settings: digest.to_string().into(),
            sidecar_facts: Default::default(),
            filing_facts: Default::default(),
            correction: None,
            labels: None,
        };
        PublishedTree {
            version,
            text_artifact: String::new(),
            tree,
        }
    }

    fn built(places: &[(u32, u32, u16, bool)], paged: bool) -> SectionTree {
        let judged = places
            .iter()
            .enumerate()
            .map(|(n, &(page, line, level, starts_page))| {
                let place = match PageNo::new(page) {
                    Some(page) if paged => SectionStart::Page(Position {
                        page,
                        line,
                        y: Pt(line as i32 * 100),
                    }),
                    _ => SectionStart::Line(page),
                };
                let entry = DraftEntry {
                    number: Some(n.to_string()),
                    title: format!("Title {n}"),
                    label: None,
                    target: None,
                    level,
                    evidence: EvidenceSource::Markup,
                };
                (
                    LocatedEntry { entry, place },
                    EntryVerdict::Confirmed {
                        starts_page: starts_page || !paged,
                    },
                )
            });
        let extent = if paged {
            Extent::Pages(20)
        } else {
            Extent::Lines(20)
        };
        let outline = VerifiedOutline::new(extent, judged.collect()).unwrap();
        let mut tree = SectionTree::build(&outline, Method::Layout, Vec::new());
        tree.description = Some("A document".into());
        tree.facts.form = Some(Fact::from_text("10-K", PageNo::new(1)));
        let text = "What it says".to_owned();
        tree.sections[0].summary = Some(Summary {
            text,
            by: "imported".into(),
        });
        let from = SectionId(0);
        let to = ReferenceTarget::Section(SectionId(0));
        tree.references.push(Reference {
            from,
            text: "Note 1".into(),
            to,
        });
        tree
    }

    fn without_evidence(mut tree: SectionTree) -> SectionTree {
        fn each(sections: &mut [crate::Section]) {
            for section in sections {
                section.evidence = EvidenceSource::Markup;
                each(&mut section.children);
            }
        }
        each(&mut tree.sections);
        tree.provenance.method = Method::Imported;
        tree.gaps.clear();
        tree
    }

    // `structure title start-end` per node.
    fn outline(value: &Value) -> String {
        let tree = import(value, "test").unwrap();
        tree.walk()
            .map(|(_, section): (usize, &crate::Section)| {
                let (start, end) = match section.span {
                    SectionSpan::Pages { pages, .. } => (pages.start().get(), pages.end().get()),
                    SectionSpan::Lines { start, end } => (start, end),
                };
                format!("{} {} {start}-{end}", section.structure, section.title)
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    proptest! {
        #[test]
        fn export_and_import_keep_everything_they_name(
            places in prop::collection::vec((1..20u32, 0..9u32, 1..5u16, any::<bool>()), 0..30),
            paged: bool,
        ) {
            let tree = built(&places, paged);
            let back = import(&export(&published(tree.clone()), ExportOptions::default()), "x").unwrap();
            check_tree(&back);
            prop_assert_eq!(without_evidence(back), without_evidence(tree));
        }
    }

    #[test]
    fn export_has_the_pageindex_shape() {
        let tree = built(&[(2, 0, 1, true), (3, 7, 2, false)], true);
        let text: &dyn Fn(&crate::Section) -> String = &|section| format!("text of {}", section.id);
        let options = ExportOptions {
            text: Some(text),
            ..ExportOptions::default()
        };
        let value = export(&published(tree), options);
        assert_eq!(value["doc_name"], "x.pdf");
        assert_eq!(value["structure"][0]["summary"], "What it says");
        insta::assert_json_snapshot!(value["structure"][1], @r#"
        {
          "appear_start": "yes",
          "end_index": 20,
          "node_id": "0001",
          "nodes": [
            {
              "appear_start": "no",
              "end_index": 20,
              "node_id": "0002",
              "number": "1",
              "physical_index": 3,
              "position": {
                "line": 7,
                "y": 7.0
              },
              "start_index": 3,
              "structure": "2.1",
              "text": "text of 0002",
              "title": "Title 1",
              "verified": true
            }
          ],
          "number": "0",
          "physical_index": 2,
          "position": {
            "line": 0,
            "y": 0.0
          },
          "start_index": 2,
          "structure": "2",
          "text": "text of 0001",
          "title": "Title 0",
          "verified": true
        }
        "#);
    }

    #[test]
    fn text_documents_export_line_numbers() {
        let value = export(
            &published(built(&[(1, 0, 1, true)], false)),
            ExportOptions::default(),
        );
        let node = value["structure"][0].as_object().unwrap();
        assert_eq!(node["line_num"], 1);
        assert!(!node.contains_key("start_index"));
    }

    #[test]
    fn flat_lists_nest_by_their_codes() {
        let flat = json!([
            {"structure": null, "title": "Cover", "physical_index": "<physical_index_1>"},
            {"structure": "1", "title": "One", "physical_index": "<physical_index_2>"},
            {"structure": "1.1", "title": "First", "physical_index": 2},
            {"structure": "1.1.1", "title": "Deep", "physical_index": "4"},
            {"structure": "2.1", "title": "Orphan", "physical_index": 6},
            {"structure": "3", "title": "Placeless"},
        ]);
        insta::assert_snapshot!(outline(&flat), @r"
        1 Cover 1-1
        2 One 2-5
        2.1 First 2-5
        2.1.1 Deep 4-5
        3 Orphan 6-6
        4 Placeless 6-6
        ");
    }

    #[test]
    fn parents_are_widened_to_cover_descendants() {
        let foreign = json!({"doc_id": "x", "result": {"tree": [
            {"title": "A", "start_index": 1, "end_index": 1, "nodes": [
                {"title": "A.1", "start_index": 1, "end_index": 3},
                {"title": "A.2", "start_index": 3, "end_index": 5}]},
            {"title": "B", "start_index": 6, "end_index": 9},
        ]}});
        insta::assert_snapshot!(outline(&foreign), @r"
        1 A 1-5
        1.1 A.1 1-3
        1.2 A.2 3-5
        2 B 6-9
        ");
    }

    #[test]
    fn trees_without_positions_count_nodes_as_lines() {
        let tree = json!({"name": "Products", "children": [{"name": "Tools", "children": [{"name": "Saws"}]}, {"name": "Food"}]});
        insta::assert_snapshot!(outline(&tree), @r"
        1 Products 1-4
        1.1 Tools 2-3
        1.1.1 Saws 3-3
        1.2 Food 4-4
        ");
    }

    #[test]
    fn invalid_trees_are_errors() {
        for none in [
            json!(null),
            json!([]),
            json!({"structure": "1"}),
            json!("x"),
            json!({"result": {}}),
        ] {
            assert!(
                matches!(import(&none, "x"), Err(ImportError::NoTree { .. })),
                "{none}"
            );
        }
        assert!(matches!(
            import(&json!([{"title": "a"}, 5]), "x"),
            Err(ImportError::NotANode { at: 2, .. })
        ));
        assert!(matches!(
            import(&json!([{"title": " "}]), "x"),
            Err(ImportError::NoTitle { at: 1, .. })
        ));
        let many: Value = (0..=MAX_NODES)
            .map(|n| json!({"title": n.to_string()}))
            .collect();
        assert!(matches!(
            import(&many, "x"),
            Err(ImportError::TooManyNodes { .. })
        ));
    }

    #[test]
    fn hostile_input_is_bounded() {
        let mut deep = json!({"title": "x".repeat(5_000), "start_index": -4, "end_index": 1e300});
        for _ in 0..500 {
            deep = json!({"title": "up", "start_index": 99_999_999_999u64, "nodes": [deep]});
        }
        let tree = import(&json!([deep]), "x").unwrap();
        assert_eq!(tree.walk().map(|(depth, _)| depth).max(), Some(MAX_LEVELS));
        let codes: Vec<&str> = tree.gaps.iter().map(|gap| gap.code.as_str()).collect();
        assert_eq!(codes, ["tree.depth_capped", "import.title_cut"]);
    }
}
