//! `search`: sections ranked for a question.

use rmcp::model::{Resource, Tool};
use serde_json::{Value, json};
use stemma_archive::pageindex_fields::{is_root, name_of};
use stemma_catalog::locator::{Fragment, Locator, section_locator};
use stemma_retrieval::search::TotalHits;
use stemma_retrieval::{DocumentScope, Query, SearchResults, SectionHit, search};

use crate::arguments::Arguments;
use crate::browse_documents::filter;
use crate::error::ToolError;
use crate::paging::{PageRequest, page_request};
use crate::tool_context::{ToolContext, link, locator_of, section_address};
use crate::tool_result::{ToolResult, delimited, take_fitting};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "search";
// Alias used by prompts written for PageIndex Cloud.
pub(crate) const ALIAS: &str = "search_documents";
const MAX_LINKS: usize = 5;
const TITLE_CHARS: usize = 160;

fn query_argument() -> Value {
    json!({ "type": "string", "description": "a question, or key words" })
}

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "query": query_argument(),
        "scope": { "type": "string", "description": "a document, part (…#item-7), folder or axis path (/@company/3M)" },
        "where": { "description": "filter: form=10-K and fiscal_year>=2020" },
        "limit": { "type": "integer", "minimum": 1, "maximum": 50, "default": 10 },
        "cursor": { "type": "string" },
    });
    let gives = json!({
        "total": { "type": "integer" },
        "results": items(json!({
            "id": { "type": "string", "description": "for fetch" },
            "title": { "type": "string" },
            "url": { "type": "string" },
            "snippet": { "type": "string" },
            "page": { "type": ["integer", "null"] },
            "score": { "type": "number" },
            "why": { "type": "string" },
        })),
        "routed": items(json!({ "facet": { "type": "string" }, "value": { "type": "string" } })),
        "next_cursor": { "type": ["string", "null"] },
    });
    let about = "Find sections by meaning of words, over all documents or in one. Companies, years, forms and Items in \
the query narrow it. Without a model.";
    read_only_tool(NAME, about, takes, &["query"], gives)
}

pub(crate) fn alias() -> Tool {
    let mut tool = tool();
    tool.name = ALIAS.into();
    tool
}

// OpenAI's contract: `query` is the only argument.
pub(crate) fn query_only() -> Tool {
    read_only_tool(
        NAME,
        "Search filings; returns results with ids for fetch.",
        json!({ "query": query_argument() }),
        &["query"],
        json!({}),
    )
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let text = arguments.required_text("query")?;
    let scope = arguments.text("scope")?;
    // Prompts for PageIndex folders send `folder_id`.
    let folder = arguments.text("folder_id")?;
    let scope = scope.or(folder).filter(|scope| !is_root(scope));
    let filter = filter(&mut arguments)?;
    let page = page_request(&mut arguments, 50, &format!("{text} {scope:?} {filter:?}"))?;
    arguments.reject_unknown()?;
    let (within, item) = within(call, scope.as_deref())?;
    let limit = page.limit;
    let skip = page.offset;
    let query = Query {
        text,
        within,
        filter,
        item,
        limit,
        skip,
        ..Query::default()
    };
    let response = call.search(&query).await?;
    Ok(answer(call, &response, &page))
}

fn within(
    call: &ToolContext<'_>,
    scope: Option<&str>,
) -> Result<(DocumentScope, Option<search::ItemRef>), ToolError> {
    let Some(scope) = scope else {
        return Ok((DocumentScope::All, None));
    };
    let Locator { document, fragment } = locator_of(scope);
    let docs = call
        .archive
        .documents_in_scope(&document)?
        .iter()
        .map(|listed| listed.doc())
        .collect();
    let item = match fragment {
        None => None,
        Some(Fragment::Item { part, number }) => Some(search::ItemRef { part, number }),
        Some(other) => {
            return Err(
                ToolError::invalid(format!("a search within `#{other}` is not possible"))
                    .with_option(
                        "Search the document or an Item of it (…#item-7), or grep_document()",
                    ),
            );
        }
    };
    Ok((DocumentScope::Documents(docs), item))
}

fn answer(call: &ToolContext<'_>, response: &SearchResults, page: &PageRequest) -> ToolResult {
    let results = take_fitting(
        response.hits.iter().map(|hit| result(call, hit)),
        call.form.limit(None),
    );
    let next = page.offset + results.len();
    let next =
        (results.len() < response.hits.len() || response.next_skip.is_some()).then_some(next);
    let (total, more) = match response.total {
        TotalHits::Exact(total) => (total, ""),
        TotalHits::AtLeast { at_least: total } => (total, " at least"),
    };
    let chips: Vec<String> = response
        .applied_filters
        .iter()
        .map(|chip| format!("{}={}", chip.facet, chip.value))
        .collect();
    let routed = if chips.is_empty() {
        String::new()
    } else {
        format!(" · narrowed to {}", chips.join(", "))
    };
    let summary = format!(
        "{} of{more} {total} sections, in {} of {} documents{routed}",
        results.len(),
        response.stats.documents,
        response.stats.documents_in_scope
    );
    let body = delimited("search results", &listing(&results));
    let links = links(response, results.len());
    let data = json!({
        "total": total,
        "results": results,
        "routed": response.applied_filters.iter().map(|chip| json!({ "facet": chip.facet, "value": chip.value })).collect::<Vec<_>>(),
        "documents_searched": response.stats.documents,
        "next_cursor": next.map(|next| page.cursor(next)),
    });
    let mut answer = ToolResult::new(data, summary)
        .text_body(body)
        .resources(links)
        .without_json_envelope();
    if response.hits.is_empty() {
        answer = answer
            .with_option("Other words, a wider scope, or grep_document() for exact characters");
    } else {
        answer = answer.with_option(
            "Text: fetch(id), or get_page_content(doc_name, pages); read before you answer",
        );
    }
    match next {
        Some(next) => answer.with_option(format!(
            "More: the same call with cursor: \"{}\"",
            page.cursor(next)
        )),
        None => answer,
    }
}

fn result(call: &ToolContext<'_>, hit: &SectionHit) -> Value {
    let listed = call.archive.catalog().get(hit.doc);
    let (label, name) = listed.map_or_else(
        || (hit.doc.to_string(), hit.name.as_str()),
        |listed| (listed.label.clone(), name_of(listed)),
    );
    let path: String = shortened(&hit.path);
    let mut result = json!({
        "id": section_locator(&label, hit.section),
        "title": format!("{name} › {path}"),
        "url": section_address(hit.doc, hit.section),
        "snippet": hit.snippet.text,
        "page": hit.best_pages.first().map(|page| page.page).or(hit.pages.map(|(start, _)| start)),
        "score": (f64::from(hit.score) * 1000.0).round() / 1000.0,
        "why": hit.why,
    });
    if let Some(label) = hit.best_pages.first().and_then(|page| page.label.as_ref()) {
        result["page_label"] = json!(label);
    }
    if let Some((start, end)) = hit.pages {
        result["pages"] = json!(if start == end {
            start.to_string()
        } else {
            format!("{start}-{end}")
        });
    }
    result
}

// Long paths keep their last titles, which are the most specific.
fn shortened(path: &[String]) -> String {
    let cut = |text: &str| text.chars().take(TITLE_CHARS).collect();
    let whole = path.join(" › ");
    match path.last() {
        Some(last) if path.len() > 1 && whole.chars().count() > TITLE_CHARS => {
            cut(&format!("… › {last}"))
        }
        _ => cut(&whole),
    }
}

fn listing(results: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    for result in results {
        let page = result["page"]
            .as_u64()
            .map(|page| format!("  p {page}"))
            .unwrap_or_default();
        lines.push(format!(
            "{}  {}{page}  {}",
            text(&result["id"]),
            text(&result["title"]),
            result["score"]
        ));
        lines.push(format!("  {}", text(&result["snippet"])));
    }
    lines.join("\n")
}

fn links(response: &SearchResults, count: usize) -> Vec<Resource> {
    let hits = response.hits.iter().take(count.min(MAX_LINKS));
    let name = |hit: &SectionHit| {
        hit.path.last().map_or_else(
            || hit.name.clone(),
            |title| title.chars().take(60).collect(),
        )
    };
    hits.map(|hit| link(section_address(hit.doc, hit.section), &name(hit)))
        .collect()
}
