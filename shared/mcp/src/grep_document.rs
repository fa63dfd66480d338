//! `grep_document`: the lines of a document that match a pattern, counted first.

use std::collections::HashMap;

use rmcp::model::{Resource, Tool};
use serde_json::{Value, json};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{GrepHit, GrepOptions, GrepResponse};
use stemma_document::{DocId, text};

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::paging::page_request;
use crate::tool_context::{DocumentRef, ToolContext, link, section_address};
use crate::tool_result::{ToolResult, delimited, take_fitting};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "grep_document";
const MAX_COUNTED: usize = 10_000;
const MAX_CONTEXT: usize = 10;
const MAX_LINKS: usize = 3;
const LINE_CHARS: usize = 300;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "doc_name": { "type": "string", "description": "or a part: NAME#item-7, NAME#p=40-60" },
        "pattern": { "type": "string", "description": "regular expression; text where it is none" },
        "ignore_case": { "type": "boolean" },
        "context": { "type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "lines around each match" },
        "limit": { "type": "integer", "minimum": 1, "maximum": 200, "default": 10 },
        "offset": { "type": "integer", "minimum": 0 },
    });
    let gives = json!({
        "total": { "type": "integer" },
        "matches": items(json!({
            "page": { "type": ["integer", "null"] },
            "label": { "type": "string" },
            "section_id": { "type": "string" },
            "title": { "type": "string" },
            "text": { "type": "string" },
        })),
        "truncated": { "type": "boolean" },
        "next_offset": { "type": ["integer", "null"] },
    });
    read_only_tool(
        NAME,
        "Lines of a document that match a pattern, with page and section; the count first.",
        takes,
        &["doc_name", "pattern"],
        gives,
    )
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let name = arguments.required_text("doc_name")?;
    let pattern = arguments.required_text("pattern")?;
    let ignore_case = arguments.flag("ignore_case")?;
    let context = arguments.number("context", 0..=MAX_CONTEXT)?.unwrap_or(0);
    let folder = arguments.text("folder_id")?;
    let page = page_request(
        &mut arguments,
        200,
        &format!("{name} {pattern} {ignore_case}"),
    )?;
    arguments.reject_unknown()?;
    let document = call.resolve_document(&name, folder.as_deref())?;
    let listed = call.listed(&document)?;
    let scope = document.fragment.as_ref().map_or_else(
        || listed.label.clone(),
        |part| format!("{}#{part}", listed.label),
    );
    let options = |fixed| GrepOptions {
        pattern: pattern.clone(),
        ignore_case,
        fixed,
        limit: MAX_COUNTED,
    };
    let (response, fixed) = match call.archive.grep(&scope, &options(false)).await {
        Err(refusal) if refusal.code == "grep.pattern" => {
            (call.archive.grep(&scope, &options(true)).await?, true)
        }
        response => (response?, false),
    };
    let hits: Vec<&GrepHit> = response
        .hits
        .iter()
        .skip(page.offset)
        .take(page.limit)
        .collect();
    let around = around(call, &document, &hits, context).await?;
    let rows = hits.iter().zip(around).map(|(hit, lines)| row(hit, lines));
    let matches = take_fitting(rows, call.form.limit(None));
    let links = links(document.doc, &hits[..matches.len()]);
    let name = name_of(listed);
    let as_text = if fixed {
        " (as text: it is no expression)"
    } else {
        ""
    };
    Ok(answer(name, &response, matches, page.offset, as_text).resources(links))
}

fn answer(
    name: &str,
    response: &GrepResponse,
    matches: Vec<Value>,
    offset: usize,
    as_text: &str,
) -> ToolResult {
    let total = response.hits.len();
    let next = offset + matches.len();
    let more = next < total;
    let at_least = if response.truncated { "at least " } else { "" };
    let count_text = match matches.len() {
        0 => "none shown".to_owned(),
        _ => format!("shown from {} to {next}", offset + 1),
    };
    let summary = format!("{at_least}{total} lines of {name} match{as_text}; {count_text}");
    let body = delimited(name, &listing(&matches));
    let data = json!({
        "doc_name": name,
        "total": total,
        "total_is_exact": !response.truncated,
        "truncated": more || response.truncated,
        "next_offset": more.then_some(next),
    });
    let mut answer = ToolResult::new(data, summary)
        .with_field("matches", matches.into())
        .text_body(body);
    if more {
        answer = answer.with_option(format!("More: the same call with offset: {next}"));
    }
    match total {
        0 => answer.with_option("Try ignore_case: true, fewer words, or search()"),
        _ => answer
            .with_option("Text around a line: get_page_content(doc_name, pages), or context: 3"),
    }
}

fn links(doc: DocId, hits: &[&GrepHit]) -> Vec<Resource> {
    let mut linked: Vec<&str> = Vec::new();
    let first = hits.iter().filter(|hit| {
        let new = !linked.contains(&hit.section_id.as_str());
        linked.push(&hit.section_id);
        new
    });
    let name = |hit: &GrepHit| hit.title.chars().take(60).collect::<String>();
    first
        .take(MAX_LINKS)
        .map(|hit| link(section_address(doc, &hit.section_id), &name(hit)))
        .collect()
}

// Context lines stay within the section of the match.
async fn around(
    call: &ToolContext<'_>,
    document: &DocumentRef,
    hits: &[&GrepHit],
    context: usize,
) -> Result<Vec<(Vec<String>, Vec<String>)>, ToolError> {
    let none = || hits.iter().map(|_| Default::default()).collect();
    if context == 0 || hits.is_empty() {
        return Ok(none());
    }
    let (_, published) = call.load_published(document).await?;
    let Some(body) = call.archive.load_body(&published).await? else {
        return Ok(none());
    };
    let mut lines_of: HashMap<&str, Vec<text::BodyLine<'_>>> = HashMap::new();
    let mut around = Vec::new();
    for hit in hits {
        let lines = lines_of.entry(&hit.section_id).or_insert_with(|| {
            let section = hit
                .section_id
                .parse()
                .ok()
                .and_then(|id| published.tree.section(id));
            section
                .map(|section| text::own_lines(section, &body))
                .unwrap_or_default()
        });
        let at = lines.iter().position(|line| {
            line.page.map(|page| page.get()) == hit.page && line.number == hit.line
        });
        let Some(at) = at else {
            around.push(Default::default());
            continue;
        };
        let cut = |lines: &[text::BodyLine<'_>]| {
            lines
                .iter()
                .map(|line| line.text.chars().take(LINE_CHARS).collect())
                .collect()
        };
        let before = &lines[at.saturating_sub(context)..at];
        let after = &lines[at + 1..(at + 1 + context).min(lines.len())];
        around.push((cut(before), cut(after)));
    }
    Ok(around)
}

fn row(hit: &GrepHit, (before, after): (Vec<String>, Vec<String>)) -> Value {
    let title: String = hit.title.chars().take(120).collect();
    let mut row = json!({ "page": hit.page, "line": hit.line, "section_id": hit.section_id, "title": title, "text": hit.text });
    if let Some(label) = &hit.label {
        row["label"] = json!(label);
    }
    if !before.is_empty() {
        row["before"] = json!(before);
    }
    if !after.is_empty() {
        row["after"] = json!(after);
    }
    row
}

fn listing(matches: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    for row in matches {
        let around = |name: &str| row[name].as_array().cloned().unwrap_or_default();
        lines.extend(
            around("before")
                .iter()
                .map(|line| format!("    {}", text(line))),
        );
        let label = row["label"]
            .as_str()
            .map(|label| format!(" ({label})"))
            .unwrap_or_default();
        let place = row["page"].as_u64().map_or_else(
            || format!("line {}", row["line"]),
            |page| format!("p {page}{label}"),
        );
        lines.push(format!(
            "{place} #{} {}: {}",
            text(&row["section_id"]),
            text(&row["title"]),
            text(&row["text"])
        ));
        lines.extend(
            around("after")
                .iter()
                .map(|line| format!("    {}", text(line))),
        );
    }
    lines.join("\n")
}
