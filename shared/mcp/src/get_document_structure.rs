//! `get_document_structure`: the section tree as PageIndex JSON or as an outline, split into parts.

use std::iter::Peekable;
use std::ops::Range;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{TableInfo, TreeRequest, TreeRow};
use stemma_document::{ItemStatus, SectionKind};

use crate::error::ToolError;
use crate::preset::Preset;
use crate::tool_context::{ToolContext, not_ready};
use crate::tool_result::{
    ToolOutcome, ToolResult, delimited, first_chars, format_span, token_cost,
};

const TITLE_CHARS: usize = 300;
const SUMMARY_CHARS: usize = 1_200;
// PARTs and Items.
const TEXT_DEPTH: usize = 2;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetDocumentStructureArguments {
    doc_name: String,
    /// until pagination.has_more is false
    #[serde(default = "first_part")]
    #[schemars(range(min = 1))]
    part: usize,
    /// only below this section, or item-7
    node_id: Option<String>,
    /// default all
    #[schemars(range(min = 1))]
    depth: Option<usize>,
    /// summary: what each section says
    detail: Option<Detail>,
    /// outline: text, half the tokens
    #[serde(default)]
    format: Format,
    #[schemars(extend("x-nullable" = true))]
    folder_id: Option<String>,
    #[serde(default)]
    wait_for_completion: bool,
}

fn first_part() -> usize {
    1
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Detail {
    Outline,
    Summary,
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Format {
    #[default]
    Json,
    Outline,
    Tables,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GetDocumentStructureOutput {
    doc_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sections: Option<usize>,
    /// nodes: title, node_id, start_index, end_index, nodes
    #[schemars(extend("type" = ["array", "string"]))]
    structure: Structure,
    #[schemars(skip)]
    total_parts: usize,
    pagination: Pagination,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(with = "serde_json::Value")]
enum Structure {
    Nodes(Vec<Node>),
    Outline(String),
    Tables(Vec<TableNode>),
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Pagination {
    part: usize,
    total_parts: usize,
    has_more: bool,
}

// PageIndex's fields, and more of them for full detail.
#[derive(Default, Serialize)]
pub(crate) struct Node {
    title: String,
    node_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_num: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    full: Option<FullDetail>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Node>,
}

// A table without its rows.
#[derive(Serialize)]
pub(crate) struct TableNode {
    // Id for the tool `fetch`.
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    start_index: u32,
    end_index: u32,
    // The section that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    rows: usize,
    columns: Vec<String>,
}

#[derive(Serialize)]
struct FullDetail {
    tokens: u32,
    kind: SectionKind,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ItemStatus>,
}

#[tool_router(router = get_document_structure_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Section tree of a document with ids and pages. Call before get_page_content on long documents.",
        output_schema = schema_for_output::<GetDocumentStructureOutput>()
    )]
    async fn get_document_structure(
        &self,
        Parameters(arguments): Parameters<GetDocumentStructureArguments>,
    ) -> ToolOutcome<GetDocumentStructureOutput> {
        let (document, context) = self
            .open_document(
                &arguments.doc_name,
                arguments.folder_id.as_deref(),
                arguments.wait_for_completion,
            )
            .await?;
        let listed = context.listed(&document)?;
        if listed.entry().is_none() {
            return Err(not_ready(&listed));
        }
        let node = arguments.node_id;
        let node = node.or_else(|| document.fragment.as_ref().map(ToString::to_string));
        let locator = node.map_or_else(
            || listed.label.clone(),
            |node| format!("{}#{node}", listed.label),
        );
        if stemma_archive::document_part(&locator) != listed.label {
            return Err(ToolError::invalid(
                "`node_id` is a section id such as 0007, or an Item such as 7, II.1A or risk-factors",
            ));
        }
        if arguments.format == Format::Tables {
            let found = context.archive.tables(&locator).await?;
            let tables = found.tables.into_iter().map(TableNode::new).collect();
            let limit = context.format.limit(None);
            return Ok(list_tables(name_of(&listed), tables, arguments.part, limit));
        }
        let request = TreeRequest {
            locator,
            summaries: true,
            ..TreeRequest::default()
        };
        let tree = context.archive.tree(&request).await?;
        // PageIndex includes summaries by default; without them a tree takes a fifth of the tokens.
        let default_detail = match self.preset {
            Preset::PageIndex => Detail::Summary,
            _ => Detail::Outline,
        };
        let outline = Outline {
            // Agents that page through the parts expect every section, and do not set a depth.
            rows: outline_rows(&tree.sections, arguments.depth.unwrap_or(usize::MAX)),
            detail: arguments.detail.unwrap_or(default_detail),
            sections: tree.sections.len(),
        };
        let sizes = outline
            .rows
            .iter()
            .map(|row| token_cost(&row.node(outline.detail)));
        let (range, pagination) = part_of(sizes, context.format.limit(None), arguments.part);
        let name = name_of(&listed);
        let as_outline = arguments.format == Format::Outline;
        Ok(outline.result(name, range, pagination, as_outline))
    }
}

// The items of a part, by their sizes in tokens. A part of a tree repeats the ancestors of its first row, so each keeps some room.
fn part_of(
    sizes: impl Iterator<Item = usize>,
    limit: usize,
    part: usize,
) -> (Range<usize>, Pagination) {
    let limit = limit * 9 / 10;
    let mut parts = Vec::new();
    let mut start = 0;
    let mut end = 0;
    let mut used = 0;
    for size in sizes {
        if used + size > limit && end > start {
            parts.push(start..end);
            start = end;
            used = 0;
        }
        used += size;
        end += 1;
    }
    parts.push(start..end);
    let part = part.min(parts.len());
    let pagination = Pagination {
        part,
        total_parts: parts.len(),
        has_more: part < parts.len(),
    };
    (parts.swap_remove(part - 1), pagination)
}

impl TableNode {
    fn new(table: TableInfo) -> Self {
        let section = table
            .section
            .and_then(|locator| locator.rsplit('#').next().map(str::to_owned));
        let short = |text: String| first_chars(&text, TITLE_CHARS).to_owned();
        let (start, end) = table.pages.or(table.lines).unwrap_or_default();
        Self {
            id: table.locator,
            title: table.title.map(short),
            unit: table.unit.map(short),
            start_index: start,
            end_index: end,
            node_id: section,
            rows: table.rows,
            columns: table
                .columns
                .into_iter()
                .map(|column| short(column.head))
                .collect(),
        }
    }

    fn line(&self) -> String {
        let title = [self.title.as_deref(), self.unit.as_deref()];
        let title: Vec<&str> = title.into_iter().flatten().collect();
        format!(
            "{} {}  p {}  {} rows",
            self.id,
            title.join(" "),
            format_span((self.start_index, self.end_index)),
            self.rows
        )
    }
}

fn list_tables(
    name: &str,
    mut tables: Vec<TableNode>,
    part: usize,
    limit: usize,
) -> ToolResult<GetDocumentStructureOutput> {
    let count = tables.len();
    let (range, pagination) = part_of(tables.iter().map(token_cost), limit, part);
    tables.truncate(range.end);
    tables.drain(..range.start);
    let Pagination {
        part,
        total_parts,
        has_more,
    } = pagination;
    let summary = format!(
        "{count} tables, {} shown here, part {part} of {total_parts}",
        tables.len()
    );
    let lines: Vec<String> = tables.iter().map(TableNode::line).collect();
    let more = has_more.then(|| format!("More: the same call with part: {}", part + 1));
    let data = GetDocumentStructureOutput {
        doc_name: name.to_owned(),
        sections: None,
        structure: Structure::Tables(tables),
        total_parts,
        pagination,
    };
    ToolResult::new(data, summary)
        .with_text(delimited(name, &lines.join("\n")))
        .with_options(more)
        .with_option("A table with its rows: fetch(id)")
}

struct OutlineRow<'a> {
    tree_row: &'a TreeRow,
    is_inner: bool,
    hidden: usize,
}

fn outline_rows(all: &[TreeRow], depth: usize) -> Vec<OutlineRow<'_>> {
    let mut rows: Vec<OutlineRow<'_>> = Vec::new();
    for (at, tree_row) in all.iter().enumerate() {
        if tree_row.depth <= depth {
            let next = all.get(at + 1);
            rows.push(OutlineRow {
                tree_row,
                is_inner: next.is_some_and(|next| next.depth > tree_row.depth),
                hidden: 0,
            });
        } else if let Some(last) = rows.last_mut() {
            last.hidden += 1;
        }
    }
    rows
}

struct Outline<'a> {
    rows: Vec<OutlineRow<'a>>,
    detail: Detail,
    sections: usize,
}

impl Outline<'_> {
    fn result(
        &self,
        name: &str,
        range: Range<usize>,
        pagination: Pagination,
        as_outline: bool,
    ) -> ToolResult<GetDocumentStructureOutput> {
        let part_rows = self.rows.get(range.clone()).unwrap_or_default();
        let text = outline_text(part_rows, self.detail);
        // Clients may show the model both forms, so the text of a JSON structure has only the upper levels.
        let upper = part_rows
            .iter()
            .filter(|row| row.tree_row.depth <= TEXT_DEPTH);
        let Pagination {
            part,
            total_parts,
            has_more,
        } = pagination;
        let hidden: usize = self.rows.iter().map(|row| row.hidden).sum();
        let summary = format!(
            "{} sections, {} shown here, part {part} of {total_parts}",
            self.sections,
            part_rows.len()
        );
        let body = match as_outline {
            true => delimited(name, &text),
            false => delimited(name, &outline_text(upper, Detail::Outline)),
        };
        let data = GetDocumentStructureOutput {
            doc_name: name.to_owned(),
            sections: Some(self.sections),
            structure: match as_outline {
                true => Structure::Outline(text),
                false => Structure::Nodes(self.nested(range)),
            },
            total_parts,
            pagination,
        };
        let more = has_more.then(|| {
            format!(
                "More: the same call with part: {}; only the top: depth: 2",
                part + 1
            )
        });
        let as_text =
            (!as_outline).then(|| "All of these sections as text: format: \"outline\"".to_owned());
        let deeper = (hidden > 0)
            .then(|| format!("{hidden} sections lie deeper: depth: 4, or node_id of one section"));
        ToolResult::new(data, summary)
            .with_text(body)
            .with_options(more)
            .with_options(deeper)
            .with_options(as_text)
            .with_option("Text: get_page_content(doc_name, pages or section_id)")
    }

    // Nested nodes of a part, below the ancestors of its first row, which have title and pages only.
    fn nested(&self, range: Range<usize>) -> Vec<Node> {
        let mut ancestors = Vec::new();
        let first = self.rows.get(range.start);
        let mut depth = first.map_or(1, |first| first.tree_row.depth);
        for row in self.rows[..range.start].iter().rev() {
            if row.tree_row.depth < depth {
                depth = row.tree_row.depth;
                ancestors.push((depth, row.node(Detail::Outline)));
            }
        }
        let rows = self.rows.get(range).unwrap_or_default().iter();
        let rows = rows.map(|row| (row.tree_row.depth, row.node(self.detail)));
        nest(&mut ancestors.into_iter().rev().chain(rows).peekable(), 0)
    }
}

fn nest(rows: &mut Peekable<impl Iterator<Item = (usize, Node)>>, parent: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    while let Some((depth, mut node)) = rows.next_if(|(depth, _)| *depth > parent) {
        node.nodes = nest(rows, depth);
        nodes.push(node);
    }
    nodes
}

impl OutlineRow<'_> {
    fn node(&self, detail: Detail) -> Node {
        let section = &self.tree_row.section;
        let summary = self.tree_row.summary.as_deref();
        let summary = summary
            .filter(|_| detail >= Detail::Summary)
            .map(|summary| first_chars(summary, SUMMARY_CHARS).to_owned());
        let mut node = Node {
            title: first_chars(&section.title, TITLE_CHARS).to_owned(),
            node_id: section.section_id.clone(),
            start_index: section.pages.map(|(start, _)| start),
            end_index: section.pages.map(|(_, end)| end),
            line_num: section.lines.map(|(start, _)| start),
            full: (detail == Detail::Full).then(|| FullDetail {
                tokens: section.tokens,
                kind: section.kind,
                verified: section.verified,
                item: self.tree_row.item.clone(),
                status: self.tree_row.status,
            }),
            ..Node::default()
        };
        if self.is_inner {
            node.prefix_summary = summary;
        } else {
            node.summary = summary;
        }
        node
    }
}

fn outline_text<'a>(rows: impl IntoIterator<Item = &'a OutlineRow<'a>>, detail: Detail) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let more = if row.hidden > 0 {
            format!(" (+{} below)", row.hidden)
        } else {
            String::new()
        };
        lines.push(format!("{}{more}", row.tree_row.outline_line()));
        let summary = row.tree_row.summary.as_deref();
        if let Some(summary) = summary.filter(|_| detail >= Detail::Summary) {
            lines.push(format!(
                "{}     {}",
                "  ".repeat(row.tree_row.depth - 1),
                first_chars(summary, SUMMARY_CHARS)
            ));
        }
    }
    lines.join("\n")
}
