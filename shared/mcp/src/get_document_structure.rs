//! `get_document_structure`: the section tree as PageIndex JSON or as an outline, split into parts.

use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use stemma_archive::TreeRow;
use stemma_archive::pageindex_fields::name_of;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::tool_context::{ToolContext, not_ready};
use crate::tool_result::{ToolResult, delimited, token_cost};
use crate::tools::{Preset, read_only_tool};

pub(crate) const NAME: &str = "get_document_structure";
const MAX_DEPTH: usize = 64;
const TITLE_CHARS: usize = 300;
const SUMMARY_CHARS: usize = 1_200;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "doc_name": { "type": "string" },
        "part": { "type": "integer", "minimum": 1, "description": "until pagination.has_more is false" },
        "node_id": { "type": "string", "description": "only below this section, or item-7" },
        "depth": { "type": "integer", "minimum": 1, "description": "levels; default all" },
        "detail": { "type": "string", "enum": ["outline", "summary", "full"], "description": "summary: what each section says" },
        "format": { "type": "string", "enum": ["json", "outline"], "description": "outline: text, half the tokens" },
        "folder_id": { "type": ["string", "null"] },
        "wait_for_completion": { "type": "boolean" },
    });
    let gives = json!({
        "doc_name": { "type": "string" },
        "sections": { "type": "integer" },
        "structure": { "type": ["array", "string"], "description": "nodes: title, node_id, start_index, end_index, nodes" },
        "pagination": { "type": "object", "properties": {
            "part": { "type": "integer" }, "total_parts": { "type": "integer" }, "has_more": { "type": "boolean" },
        } },
    });
    let about = "Section tree of a document with ids and pages. Call before get_page_content on long documents.";
    read_only_tool(NAME, about, takes, &["doc_name"], gives)
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct OutlineDetail {
    summaries: bool,
    all: bool,
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    preset: Preset,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let name = arguments.required_text("doc_name")?;
    let part = arguments.number("part", 1..=1_000_000)?.unwrap_or(1);
    let node = arguments.text("node_id")?;
    let depth = arguments.number("depth", 1..=MAX_DEPTH)?;
    // PageIndex includes summaries by default; without them a tree takes a fifth of the tokens.
    let details: [&'static str; 3] = if preset == Preset::PageIndex {
        ["summary", "outline", "full"]
    } else {
        ["outline", "summary", "full"]
    };
    let detail = arguments.choice("detail", &details)?;
    let detail = OutlineDetail {
        summaries: detail != "outline",
        all: detail == "full",
    };
    let format = arguments.choice("format", &["json", "outline"])?;
    let folder = arguments.text("folder_id")?;
    let wait = arguments.flag("wait_for_completion")?;
    arguments.reject_unknown()?;
    // Agents that page through the parts expect every section, and do not set a depth.
    let depth = depth.unwrap_or(MAX_DEPTH);
    let document = call.resolve_document(&name, folder.as_deref())?;
    if wait {
        call.wait_until_ready(&document).await?;
    }
    let listed = call.listed(&document)?;
    if listed.entry().is_none() {
        return Err(not_ready(listed));
    }
    let fragment = node.or_else(|| document.fragment.as_ref().map(ToString::to_string));
    let locator = fragment.map_or_else(
        || listed.label.clone(),
        |fragment| format!("{}#{fragment}", listed.label),
    );
    if stemma_archive::document_part(&locator) != listed.label {
        return Err(ToolError::invalid(
            "`node_id` is a section id such as 0007, or an Item such as item-7",
        ));
    }
    let view = call.archive.tree(&locator, None, true).await?;
    let rows = rows(&view.sections, depth);
    let parts = parts(&rows, detail, call.form.limit(None));
    let part = part.min(parts.len());
    let part_rows = rows.get(parts[part - 1].clone()).unwrap_or_default();
    Ok(answer(
        name_of(listed),
        &rows,
        part_rows,
        (part, parts.len()),
        detail,
        format,
        view.sections.len(),
    ))
}

struct OutlineRow<'a> {
    tree_row: &'a TreeRow,
    is_inner: bool,
    hidden: usize,
}

fn rows(all: &[TreeRow], depth: usize) -> Vec<OutlineRow<'_>> {
    let mut rows: Vec<OutlineRow<'_>> = Vec::new();
    for (at, row) in all.iter().enumerate() {
        if row.depth <= depth {
            let inner = all.get(at + 1).is_some_and(|next| next.depth > row.depth);
            rows.push(OutlineRow {
                tree_row: row,
                is_inner: inner,
                hidden: 0,
            });
        } else if let Some(last) = rows.last_mut() {
            last.hidden += 1;
        }
    }
    rows
}

// Splits rows into parts that fit one answer. A part repeats the ancestors of its first row, so each keeps some room.
fn parts(
    rows: &[OutlineRow<'_>],
    detail: OutlineDetail,
    limit: usize,
) -> Vec<std::ops::Range<usize>> {
    let limit = limit * 9 / 10;
    let mut parts = Vec::new();
    let mut start = 0;
    let mut used = 0;
    for (at, row) in rows.iter().enumerate() {
        let size = token_cost(&Value::Object(node(row, detail)));
        if used + size > limit && at > start {
            parts.push(start..at);
            (start, used) = (at, 0);
        }
        used += size;
    }
    parts.push(start..rows.len());
    parts
}

fn answer(
    name: &str,
    rows: &[OutlineRow<'_>],
    part_rows: &[OutlineRow<'_>],
    (part, total_parts): (usize, usize),
    detail: OutlineDetail,
    format: &str,
    sections: usize,
) -> ToolResult {
    let outline = outline(part_rows, detail.summaries);
    let nodes = || {
        let first = part_rows.first().map_or(1, |first| first.tree_row.depth);
        let mut nested = above(rows, part_rows, first).into_iter().chain(
            part_rows
                .iter()
                .map(|row| (row.tree_row.depth, node(row, detail))),
        );
        Value::Array(nest(&mut nested.by_ref().peekable(), 0))
    };
    let data = json!({
        "doc_name": name,
        "sections": sections,
        "structure": if format == "outline" { json!(outline) } else { nodes() },
        "total_parts": total_parts,
        "pagination": { "part": part, "total_parts": total_parts, "has_more": part < total_parts },
    });
    let hidden: usize = rows.iter().map(|row| row.hidden).sum();
    let summary = format!(
        "{sections} sections, {} shown here, part {part} of {total_parts}",
        part_rows.len()
    );
    let mut answer = ToolResult::new(data, summary).text_body(delimited(name, &outline));
    if part < total_parts {
        answer = answer.with_option(format!(
            "More: the same call with part: {}; only the top: depth: 2",
            part + 1
        ));
    }
    if hidden > 0 {
        answer = answer.with_option(format!(
            "{hidden} sections lie deeper: depth: 4, or node_id of one section"
        ));
    }
    answer.with_option("Text: get_page_content(doc_name, pages or section_id)")
}

// Ancestors of the first row of a later part, with title and pages only.
fn above(
    rows: &[OutlineRow<'_>],
    part_rows: &[OutlineRow<'_>],
    first: usize,
) -> Vec<(usize, Map<String, Value>)> {
    let Some(start) = part_rows.first().and_then(|part_rows| {
        rows.iter()
            .position(|row| std::ptr::eq(row.tree_row, part_rows.tree_row))
    }) else {
        return Vec::new();
    };
    let mut current = first;
    let mut above = Vec::new();
    for row in rows[..start].iter().rev() {
        if row.tree_row.depth < current {
            current = row.tree_row.depth;
            above.push((
                current,
                node(
                    row,
                    OutlineDetail {
                        summaries: false,
                        all: false,
                    },
                ),
            ));
        }
    }
    above.reverse();
    above
}

// Builds nested nodes from rows with depths.
fn nest(
    rows: &mut std::iter::Peekable<&mut impl Iterator<Item = (usize, Map<String, Value>)>>,
    above: usize,
) -> Vec<Value> {
    let mut nodes = Vec::new();
    while let Some((depth, mut node)) = rows.next_if(|(depth, _)| *depth > above) {
        let below = nest(rows, depth);
        if !below.is_empty() {
            node.insert("nodes".into(), Value::Array(below));
        }
        nodes.push(Value::Object(node));
    }
    nodes
}

// PageIndex's fields, and more of them for full detail.
fn node(row: &OutlineRow<'_>, detail: OutlineDetail) -> Map<String, Value> {
    let section = &row.tree_row.section;
    let mut node = Map::new();
    node.insert("title".into(), json!(cut(&section.title, TITLE_CHARS)));
    node.insert("node_id".into(), json!(section.section_id));
    if let Some((start, end)) = section.pages {
        node.insert("start_index".into(), json!(start));
        node.insert("end_index".into(), json!(end));
    }
    if let Some((start, _)) = section.lines {
        node.insert("line_num".into(), json!(start));
    }
    if let Some(summary) = row.tree_row.summary.as_ref().filter(|_| detail.summaries) {
        let key = if row.is_inner {
            "prefix_summary"
        } else {
            "summary"
        };
        node.insert(key.into(), json!(cut(summary, SUMMARY_CHARS)));
    }
    if detail.all {
        node.insert("tokens".into(), json!(section.tokens));
        node.insert("kind".into(), json!(section.kind));
        node.insert("verified".into(), json!(section.verified));
        node.extend(
            row.tree_row
                .item
                .as_ref()
                .map(|item| ("item".to_owned(), json!(item))),
        );
        node.extend(
            row.tree_row
                .status
                .as_ref()
                .map(|status| ("status".to_owned(), json!(status))),
        );
    }
    node
}

fn cut(text: &str, chars: usize) -> &str {
    text.char_indices()
        .nth(chars)
        .map_or(text, |(at, _)| &text[..at])
}

fn outline(rows: &[OutlineRow<'_>], summaries: bool) -> String {
    let mut lines = Vec::new();
    for OutlineRow {
        tree_row: row,
        hidden,
        ..
    } in rows
    {
        let section = &row.section;
        let indent = "  ".repeat(row.depth - 1);
        let place = match (section.pages, section.lines) {
            (Some((start, end)), _) if start == end => format!("p {start}"),
            (Some((start, end)), _) => format!("p {start}-{end}"),
            (None, Some((start, end))) => format!("lines {start}-{end}"),
            _ => String::new(),
        };
        let more = if *hidden > 0 {
            format!(" (+{hidden} below)")
        } else {
            String::new()
        };
        let title = cut(&section.title, TITLE_CHARS);
        lines.push(format!(
            "{indent}{} {title}  {place}  {} tok{more}",
            section.section_id, section.tokens
        ));
        if let Some(summary) = row.summary.as_ref().filter(|_| summaries) {
            lines.push(format!("{indent}     {}", cut(summary, SUMMARY_CHARS)));
        }
    }
    lines.join("\n")
}
