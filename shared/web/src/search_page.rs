//! Search: sections that match, what no document has, and the facets of the matching documents.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use stemma_archive::{Facet, SearchHit, SearchRequest, SearchResponse};
use stemma_gateway::AppState;
use stemma_gateway::problem::Problem;

use crate::context::PageContext;
use crate::layout::{Screen, collection_field, page};
use crate::page_view::image_url;
use crate::text::{Line, Message, capitalized, grouped};

const HITS: usize = 10;
// Width of a thumbnail in pixels.
const THUMBNAIL_WIDTH: &str = "200";
const PARAMS: [&str; 4] = ["q", "where", "scope", "item"];

/// `GET /search`
pub(crate) async fn search(
    State(state): State<AppState>,
    context: PageContext,
) -> Result<Response, Problem> {
    let query = context.param("q").unwrap_or_default();
    let found = if query.is_empty() {
        None
    } else {
        let archive = context.archive(&state)?;
        Some(archive.search(&request(&context, query)).await?)
    };
    let title = if query.is_empty() {
        "Search".to_owned()
    } else {
        format!("{query} · Search")
    };
    let mut words = vec!["search", query];
    for (name, flag) in [("where", "--where"), ("scope", "--in"), ("item", "--item")] {
        if let Some(value) = context.param(name) {
            words.extend([flag, value]);
        }
    }
    let params = context.params(PARAMS).map(|(name, value)| match name {
        "scope" => ("documents", value),
        name => (name, value),
    });
    let elsewhere = match &found {
        Some(_) => vec![
            context.command(&words),
            context.request("/v1/search", &params),
        ],
        None => Vec::new(),
    };
    let body = html! {
        h1 { "Search" }
        (search_form(&context))
        @if let Some(found) = &found { (results(&context, found)) }
        @else { p.note { "Words, " code { "\"a phrase\"" } ", " code { "a OR b" } ", " code { "-without" } ", " code { "company:3M" } ", " code { "year:2022" } "." } }
    };
    Ok(page(
        &context,
        Some(Screen::Search),
        &title,
        &body,
        &elsewhere,
    ))
}

fn request(context: &PageContext, query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        scopes: context.owned_param("scope").into_iter().collect(),
        filter: context.owned_param("where").map(Value::String),
        item: context.owned_param("item"),
        limit: Some(HITS),
        cursor: context.owned_param("cursor"),
        // Links are followed without asking anyone, so they must not cost anything.
        free_only: true,
        ..SearchRequest::default()
    }
}

// The same search with changes.
fn search_url(context: &PageContext, changes: &[(&str, &str)]) -> String {
    context.changed_url("/search", context.params(PARAMS), changes)
}

fn search_form(context: &PageContext) -> Markup {
    let narrowed = ["where", "scope", "item"].map(|name| (name, context.param(name)));
    html! {
        form.search role="search" method="get" action="/search" {
            (collection_field(context))
            @for (name, value) in narrowed { @if let Some(value) = value { input type="hidden" name=(name) value=(value); } }
            label.hidden for="query" { "Question or words" }
            input #query type="search" name="q" value=[context.param("q")] placeholder="Search in all sections" maxlength="1000" required;
            button type="submit" { "Search" }
        }
        ul.chips aria-label="Active filters" {
            @for (name, value) in narrowed { @if let Some(value) = value {
                li { a.chip href=(search_url(context, &[(name, "")])) { span { (Line(value)) } span aria-hidden="true" { " ×" } span.hidden { " (remove)" } } }
            } }
        }
    }
}

fn results(context: &PageContext, found: &SearchResponse) -> Markup {
    html! {
        (remarks(context, found))
        div.columns {
            aside aria-label="Narrow the search" { @for facet in &found.facets.facets { (facet_list(context, facet)) } }
            div.content {
                h2 { (total(found)) }
                ol.hits start=[found.hits.first().map(|hit| hit.rank)] { @for hit in &found.hits { (hit_entry(context, hit)) } }
                @if let Some(cursor) = &found.next_cursor {
                    nav.pages aria-label="Pages of results" { a.button rel="next" href=(search_url(context, &[("cursor", cursor)])) { "More results" } }
                }
                @if !found.hits.is_empty() { p { a href=(context.url("/ask", &[("q", &found.query)])) { "Ask this as a question" } } }
            }
        }
    }
}

fn total(found: &SearchResponse) -> String {
    let count = grouped(found.total.at_least());
    let more = matches!(
        found.total,
        stemma_retrieval::search::TotalHits::AtLeast { .. }
    );
    match (more, count.as_str()) {
        (true, _) => format!("At least {count} sections"),
        (false, "1") => "1 section".into(),
        (false, _) => format!("{count} sections"),
    }
}

// What was searched instead, and what is not here.
fn remarks(context: &PageContext, found: &SearchResponse) -> Markup {
    let missing = found.missing_terms.as_deref().unwrap_or_default();
    html! {
        @if found.low_evidence == Some(true) || !missing.is_empty() || !found.notes.is_empty() || found.routed.iter().any(|filter| filter.did_you_mean) {
            div.remarks role="status" {
                @if found.hits.is_empty() { p { strong { "Nothing in these documents matches." } } }
                @else if found.low_evidence == Some(true) { p { strong { "These documents say little about this." } " The results share few of its words." } }
                @for term in missing { p {
                    "No document has “" (Line(&term.term)) "”."
                    @if !term.nearest.is_empty() { " Did you mean " }
                    @for nearest in &term.nearest {
                        @let corrected = found.query.replace(&term.term, nearest);
                        a href=(search_url(context, &[("q", &corrected)])) { (Line(nearest)) } " "
                    }
                } }
                @for filter in found.routed.iter().filter(|filter| filter.did_you_mean) {
                    p { "“" (Line(&filter.from)) "” was taken as " strong { (Line(&filter.value)) } "." }
                }
                @for note in &found.notes { p { (Message(&capitalized(&note.message))) } }
            }
        }
        @if found.routed.iter().any(|filter| !filter.did_you_mean) {
            p.note { "Read from the query: "
                @for filter in found.routed.iter().filter(|filter| !filter.did_you_mean) {
                    span.badge { (filter.facet.replace('_', " ")) ": " (Line(&filter.value)) @if !filter.narrows { " (first)" } } " "
                }
            }
        }
    }
}

fn facet_list(context: &PageContext, facet: &Facet) -> Markup {
    html! {
        @if facet.values.len() > 1 {
            section.facet {
                h2 { (facet.field.replace('_', " ")) }
                ul { @for value in &facet.values { li {
                    a href=(search_url(context, &[("scope", &value.locator)])) {
                        span.name { (Line(&value.value)) } span.count { (grouped(value.documents)) }
                    }
                } } }
            }
        }
    }
}

fn hit_entry(context: &PageContext, hit: &SearchHit) -> Markup {
    let best = hit
        .best_pages
        .first()
        .map(|page| page.page.to_string())
        .unwrap_or_default();
    let to = context.document_url(&hit.locator, &[("page", &best)]);
    let document = stemma_archive::document_part(&hit.locator);
    let path = &hit.path[..hit.path.len().saturating_sub(1)];
    html! {
        li.hit {
            div {
                h3 { a href=(to) { bdi { (Line(&hit.title)) } } }
                p.note {
                    a href=(context.document_url(&document, &[])) { bdi { (Line(&hit.name)) } }
                    @for above in path.iter().rev().take(2).rev() { " › " bdi { (Line(above)) } }
                    @for page in hit.best_pages.iter().take(3) {
                        " · " a href=(context.document_url(&hit.locator, &[("page", &page.page.to_string())])) { "p " (page.page) }
                    }
                }
                p.excerpt { (highlighted(&hit.excerpt.text, &hit.excerpt.highlights)) }
                p.note { "Matches: " (Line(&hit.why)) }
            }
            @if let Some(page) = hit.best_pages.first() {
                a.thumbnail href=(to) tabindex="-1" aria-hidden="true" {
                    img data-page=(page.page) loading="lazy" alt="" width="200" height="259"
                        src=(image_url(context, &document, page.page, THUMBNAIL_WIDTH));
                }
            }
        }
    }
}

// Marks byte ranges of a text. Ranges that do not fit are left out.
fn highlighted(text: &str, ranges: &[(usize, usize)]) -> Markup {
    let mut at = 0;
    let mut parts = Vec::new();
    for (start, end) in ranges {
        if let (Some(before), Some(marked)) = (text.get(at..*start), text.get(*start..*end)) {
            parts.push((before, marked));
            at = *end;
        }
    }
    html! {
        @for (before, marked) in parts { (crate::text::Passage(before)) mark { (crate::text::Passage(marked)) } }
        (crate::text::Passage(text.get(at..).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highlights_are_marked_and_escaped() {
        let marked = highlighted("a <b> c", &[(2, 5)]).into_string();
        assert_eq!(marked, "a <mark>&lt;b&gt;</mark> c");
        let text = "é x";
        assert_eq!(
            highlighted(text, &[(1, 2), (5, 9), (3, 4)]).into_string(),
            "é <mark>x</mark>"
        );
    }
}
