//! `search`: sections that fit a question, best first.

use rmcp::model::{Resource, Tool};
use serde_json::{Value, json};
use stemma_catalog::locator::{Fragment, Locator, section_locator};
use stemma_retrieval::find::Total;
use stemma_retrieval::{Found, Hit, Query, Within, find};

use super::answer::{Answer, fence, fitting};
use super::arguments::Arguments;
use super::browse_documents::filter;
use super::call::{Call, is_root, link, locator_of, name_of, section_address};
use super::failure::Failure;
use super::paging::{Page, paging};
use super::tools::{items, reading};

pub(super) const NAME: &str = "search";
/// Its name in prompts written for PageIndex's cloud.
pub(super) const ALIAS: &str = "search_documents";
/// Results that are linked to.
const MAX_LINKS: usize = 5;
/// Characters of a path of titles.
const TITLE_CHARS: usize = 160;

fn query_argument() -> Value {
    json!({ "type": "string", "description": "a question, or key words" })
}

/// How it is announced.
pub(super) fn tool() -> Tool {
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
    reading(NAME, about, takes, &["query"], gives)
}

/// The same under its other name.
pub(super) fn alias() -> Tool {
    let mut tool = tool();
    tool.name = ALIAS.into();
    tool
}

/// The same with nothing but a question.
pub(super) fn query_only() -> Tool {
    reading(
        NAME,
        "Search filings; returns results with ids for fetch.",
        json!({ "query": query_argument() }),
        &["query"],
        json!({}),
    )
}

/// Calls it.
pub(super) async fn call(call: &mut Call<'_>, mut arguments: Arguments) -> Result<Answer, Failure> {
    let text = arguments.needed("query")?;
    let scope = arguments.text("scope")?;
    // Prompts for folders name the place like this.
    let folder = arguments.text("folder_id")?;
    let scope = scope.or(folder).filter(|scope| !is_root(scope));
    let filter = filter(&mut arguments)?;
    let page = paging(&mut arguments, 50, &format!("{text} {scope:?} {filter:?}"))?;
    arguments.none_left()?;
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
    let found = call.find(&query).await?;
    Ok(answer(call, &found, &page))
}

/// The documents, and the Item, of a scope.
fn within(
    call: &Call<'_>,
    scope: Option<&str>,
) -> Result<(Within, Option<find::ItemRef>), Failure> {
    let Some(scope) = scope else {
        return Ok((Within::All, None));
    };
    let Locator { document, fragment } = locator_of(scope);
    let docs = call
        .reader
        .in_scope(&document)?
        .iter()
        .map(|listed| listed.doc())
        .collect();
    let item = match fragment {
        None => None,
        Some(Fragment::Item { part, number }) => Some(find::ItemRef { part, number }),
        Some(other) => {
            return Err(
                Failure::invalid(format!("a search within `#{other}` is not possible"))
                    .option("Search the document or an Item of it (…#item-7), or grep_document()"),
            );
        }
    };
    Ok((Within::Documents(docs), item))
}

fn answer(call: &Call<'_>, found: &Found, page: &Page) -> Answer {
    let results = fitting(
        found.hits.iter().map(|hit| result(call, hit)),
        call.form.limit(None),
    );
    let next = page.offset + results.len();
    let next = (results.len() < found.hits.len() || found.next.is_some()).then_some(next);
    let (total, more) = match found.total {
        Total::Exact(total) => (total, ""),
        Total::AtLeast(total) => (total, " at least"),
    };
    let chips: Vec<String> = found
        .routed
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
        found.searched.documents,
        found.searched.documents_in_scope
    );
    let body = fence("search results", &listing(&results));
    let links = links(found, results.len());
    let data = json!({
        "total": total,
        "results": results,
        "routed": found.routed.iter().map(|chip| json!({ "facet": chip.facet, "value": chip.value })).collect::<Vec<_>>(),
        "documents_searched": found.searched.documents,
        "next_cursor": next.map(|next| page.cursor(next)),
    });
    let mut answer = Answer::new(data, summary)
        .body(body)
        .links(links)
        .bare_as_json();
    if found.hits.is_empty() {
        answer =
            answer.option("Other words, a wider scope, or grep_document() for exact characters");
    } else {
        answer = answer.option(
            "Text: fetch(id), or get_page_content(doc_name, pages); read before you answer",
        );
    }
    match next {
        Some(next) => answer.option(format!(
            "More: the same call with cursor: \"{}\"",
            page.cursor(next)
        )),
        None => answer,
    }
}

fn result(call: &Call<'_>, hit: &Hit) -> Value {
    let listed = call.reader.catalogue().get(hit.doc);
    let (label, name) = listed.map_or_else(
        || (hit.doc.to_string(), hit.name.as_str()),
        |listed| (listed.label.clone(), name_of(listed)),
    );
    let path: String = shortened(&hit.path);
    let mut result = json!({
        "id": section_locator(&label, hit.section),
        "title": format!("{name} › {path}"),
        "url": section_address(hit.doc, hit.section),
        "snippet": hit.excerpt.text,
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

/// A path of titles; of a long one the last, which says most.
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

fn links(found: &Found, shown: usize) -> Vec<Resource> {
    let hits = found.hits.iter().take(shown.min(MAX_LINKS));
    let name = |hit: &Hit| {
        hit.path.last().map_or_else(
            || hit.name.clone(),
            |title| title.chars().take(60).collect(),
        )
    };
    hits.map(|hit| link(section_address(hit.doc, hit.section), &name(hit)))
        .collect()
}
