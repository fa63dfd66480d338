//! `grep_document`: the lines of a document that match a pattern, counted first.

use std::collections::HashMap;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::Resource;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{GrepHit, GrepOptions, GrepResponse};
use stemma_document::DocId;
use stemma_document::text::{self, BodyLine};

use crate::error::ToolError;
use crate::paging::{PageRequest, default_limit};
use crate::tool_context::{DocumentRef, ToolContext, link, part_locator, section_address};
use crate::tool_result::{ToolOutcome, ToolResult, delimited, first_chars, take_fitting};

const MAX_COUNTED: usize = 10_000;
const MAX_LINKS: usize = 3;
const LINE_CHARS: usize = 300;
const TITLE_CHARS: usize = 120;
const LINK_CHARS: usize = 60;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GrepDocumentArguments {
    /// or a part: NAME#item-7, NAME#p=40-60
    doc_name: String,
    /// regular expression, or plain text
    pattern: String,
    #[serde(default)]
    ignore_case: bool,
    /// lines around each match
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: usize,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
    #[serde(default)]
    offset: usize,
    #[schemars(extend("x-hidden" = true))]
    cursor: Option<String>,
    #[schemars(extend("x-hidden" = true))]
    folder_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GrepDocumentOutput {
    doc_name: String,
    total: usize,
    total_is_exact: bool,
    matches: Vec<MatchRow>,
    truncated: bool,
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct MatchRow {
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    line: u32,
    section_id: String,
    title: String,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    after: Vec<String>,
}

#[tool_router(router = grep_document_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Lines of a document that match a pattern, with page and section.",
        output_schema = schema_for_output::<GrepDocumentOutput>()
    )]
    async fn grep_document(
        &self,
        Parameters(arguments): Parameters<GrepDocumentArguments>,
    ) -> ToolOutcome<GrepDocumentOutput> {
        let list = format!(
            "{} {} {}",
            arguments.doc_name, arguments.pattern, arguments.ignore_case
        );
        let cursor = arguments.cursor.as_deref();
        let page = PageRequest::new(arguments.limit, arguments.offset, cursor, &list)?;
        let document =
            self.resolve_document(&arguments.doc_name, arguments.folder_id.as_deref())?;
        let listed = self.listed(&document)?;
        let scope = part_locator(&listed.label, document.fragment.as_ref());
        let mut options = GrepOptions {
            pattern: arguments.pattern,
            ignore_case: arguments.ignore_case,
            fixed: false,
            limit: MAX_COUNTED,
        };
        let mut response = self.archive.grep(&scope, &options).await;
        if matches!(&response, Err(error) if error.code == "grep.pattern_invalid") {
            options.fixed = true;
            response = self.archive.grep(&scope, &options).await;
        }
        let response = response?;
        let hits: Vec<&GrepHit> = response
            .hits
            .iter()
            .skip(page.offset)
            .take(page.limit)
            .collect();
        let around = self
            .lines_around(&document, &hits, arguments.context)
            .await?;
        let rows = hits
            .iter()
            .zip(around)
            .map(|(hit, around)| row(hit, around));
        let matches = take_fitting(rows, self.format.limit(None));
        let links = links(document.doc, &hits[..matches.len()]);
        let name = name_of(&listed);
        let as_text = if options.fixed {
            " (as text: it is not a regular expression)"
        } else {
            ""
        };
        Ok(grep_result(name, &response, matches, page.offset, as_text).with_links(links))
    }
}

#[derive(Default)]
struct LinesAround {
    before: Vec<String>,
    after: Vec<String>,
}

impl ToolContext {
    // For each hit. The lines stay within the section of the match.
    async fn lines_around(
        &self,
        document: &DocumentRef,
        hits: &[&GrepHit],
        count: usize,
    ) -> Result<Vec<LinesAround>, ToolError> {
        let mut around: Vec<LinesAround> = hits.iter().map(|_| LinesAround::default()).collect();
        if count == 0 || hits.is_empty() {
            return Ok(around);
        }
        let (_, published) = self.load_published(document).await?;
        let Some(body) = self.archive.load_body(&published).await? else {
            return Ok(around);
        };
        let mut lines_by_section: HashMap<&str, Vec<BodyLine<'_>>> = HashMap::new();
        for (hit, around) in hits.iter().zip(&mut around) {
            let lines = lines_by_section.entry(&hit.section_id).or_insert_with(|| {
                let id = hit.section_id.parse().ok();
                id.and_then(|id| published.tree.section(id))
                    .map(|section| text::own_lines(section, &body))
                    .unwrap_or_default()
            });
            let position = lines.iter().position(|line| {
                line.page.map(|page| page.get()) == hit.page && line.number == hit.line
            });
            if let Some(at) = position {
                around.before = shortened(&lines[at.saturating_sub(count)..at]);
                around.after = shortened(&lines[at + 1..(at + 1 + count).min(lines.len())]);
            }
        }
        Ok(around)
    }
}

fn shortened(lines: &[BodyLine<'_>]) -> Vec<String> {
    lines
        .iter()
        .map(|line| first_chars(line.text, LINE_CHARS).to_owned())
        .collect()
}

fn grep_result(
    name: &str,
    response: &GrepResponse,
    matches: Vec<MatchRow>,
    offset: usize,
    as_text: &str,
) -> ToolResult<GrepDocumentOutput> {
    let total = response.hits.len();
    let next = offset + matches.len();
    let more = next < total;
    let at_least = if response.truncated { "at least " } else { "" };
    let range = match matches.len() {
        0 => "none shown".to_owned(),
        _ => format!("shown from {} to {next}", offset + 1),
    };
    let summary = format!("{at_least}{total} lines of {name} match{as_text}; {range}");
    let next_step = match total {
        0 => "Try ignore_case: true, fewer words, or search()",
        _ => "Text around a line: get_page_content(doc_name, pages), or context: 3",
    };
    let text = delimited(name, &listing(&matches));
    let data = GrepDocumentOutput {
        doc_name: name.to_owned(),
        total,
        total_is_exact: !response.truncated,
        matches,
        truncated: more || response.truncated,
        next_offset: more.then_some(next),
    };
    ToolResult::new(data, summary)
        .with_text(text)
        .with_options(more.then(|| format!("More: the same call with offset: {next}")))
        .with_option(next_step)
}

// One link per section.
fn links(doc: DocId, hits: &[&GrepHit]) -> Vec<Resource> {
    let mut links: Vec<Resource> = Vec::new();
    for hit in hits {
        let address = section_address(doc, &hit.section_id);
        if links.len() < MAX_LINKS && links.iter().all(|link| link.uri != address) {
            links.push(link(address, first_chars(&hit.title, LINK_CHARS)));
        }
    }
    links
}

fn row(hit: &GrepHit, around: LinesAround) -> MatchRow {
    MatchRow {
        page: hit.page,
        label: hit.label.clone(),
        line: hit.line,
        section_id: hit.section_id.clone(),
        title: first_chars(&hit.title, TITLE_CHARS).to_owned(),
        text: hit.text.clone(),
        before: around.before,
        after: around.after,
    }
}

fn listing(matches: &[MatchRow]) -> String {
    let mut lines = Vec::new();
    for row in matches {
        lines.extend(row.before.iter().map(|line| format!("    {line}")));
        let place = match (row.page, &row.label) {
            (Some(page), Some(label)) => format!("p {page} ({label})"),
            (Some(page), None) => format!("p {page}"),
            (None, _) => format!("line {}", row.line),
        };
        lines.push(format!(
            "{place} #{} {}: {}",
            row.section_id, row.title, row.text
        ));
        lines.extend(row.after.iter().map(|line| format!("    {line}")));
    }
    lines.join("\n")
}
