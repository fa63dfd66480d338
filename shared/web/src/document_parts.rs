//! Items, tables, facts and provenance of a document.

use maud::{Markup, html};
use stemma_archive::{Archive, FactsRequest, ItemInfo, TableContent};
use stemma_document::PublishedTree;
use stemma_gateway::problem::Problem;

use crate::context::{PageContext, encoded};
use crate::document_page::{DocumentView, Part};
use crate::layout::Head::{Number, Text};
use crate::layout::{collection_field, table};
use crate::text::{Line, Message, Passage, capitalized, grouped};

const FACTS: usize = 100;
// Of Items, tables, rows and notes. A filing has a few hundred of the most frequent of them; a hostile document has any number.
pub(crate) const MAX_ROWS: usize = 1_000;

fn part(
    context: &PageContext,
    view: &DocumentView,
    title: &str,
    command: &str,
    api: &str,
    body: Markup,
) -> Part {
    let path = format!("/v1/documents/{}{api}", encoded(&view.label));
    Part {
        title: title.into(),
        body,
        elsewhere: vec![
            context.command(&[command, &view.label]),
            context.request(&path, &[]),
        ],
    }
}

/// How each Item of the form is answered.
pub(crate) fn items(context: &PageContext, view: &DocumentView) -> Part {
    let items = &view.stat.items;
    let body = html! {
        h2 { "Items of the form" }
        @if items.is_empty() { p { "The form of this document has no Items, or is unknown." } } @else {
            (table("Items of the form", &[Text("Item"), Text("Title"), Text("Status"), Number("Pages"), Number("Tokens"), Text("Content")], &html! { @for item in items.iter().take(MAX_ROWS) { (item_row(context, item)) } }))
            (not_shown(items.len()))
        }
    };
    part(context, view, "Items", "items", "/items", body)
}

/// Says that a list goes on.
pub(crate) fn not_shown(all: usize) -> Markup {
    html! { @if all > MAX_ROWS { p.note { (grouped(all - MAX_ROWS)) " more are not shown here; the requests below return all." } } }
}

fn item_row(context: &PageContext, item: &ItemInfo) -> Markup {
    let part = item
        .part
        .as_deref()
        .map(|part| format!("{part}."))
        .unwrap_or_default();
    let status = item
        .status
        .and_then(|status| serde_json::to_value(status).ok());
    let status = status
        .as_ref()
        .and_then(|status| status.as_str())
        .unwrap_or_default();
    html! {
        tr {
            th scope="row" {
                @match &item.locator {
                    Some(locator) => a href=(context.document_url(locator, &[])) { (part) (item.item) },
                    None => { (part) (item.item) }
                }
            }
            td { bdi { (Line(&item.title)) } }
            td { span.badge data-status=(status) { (status.replace('_', " ")) }
                @if item.boundary_unverifiable { " " span.badge data-state="queued" { "boundary in doubt" } } }
            td.number { @if let Some((first, last)) = item.pages { (pages(first, last)) } }
            td.number { (grouped(item.tokens)) }
            td {
                @for content in &item.content {
                    @match (&content.to, &content.outside) {
                        (Some(to), _) => a href=(context.document_url(to, &[])) { (Line(&content.text)) },
                        (None, Some(outside)) => span { (Line(&content.text)) " (" (Line(outside)) ")" },
                        (None, None) => span { (Line(&content.text)) },
                    }
                    " "
                }
            }
        }
    }
}

fn pages(first: u32, last: u32) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}–{last}")
    }
}

/// The list of tables, or one of them.
pub(crate) async fn tables(
    context: &PageContext,
    archive: &Archive,
    view: &DocumentView,
) -> Result<Part, Problem> {
    if let Some(id) = context.param("table") {
        let locator = format!("{}#{id}", view.label);
        let content = archive.table(&locator).await?;
        let body = one_table(context, view, &content);
        let api = format!("/tables/{}", encoded(id));
        let mut visible = part(context, view, "Table", "table", &api, body);
        visible.elsewhere[0] = context.command(&["table", &locator]);
        return Ok(visible);
    }
    let tables = archive.tables(&view.label).await?.tables;
    let body = html! {
        h2 { (grouped(tables.len())) @if tables.len() == 1 { " table" } @else { " tables" } }
        @if tables.is_empty() { p { "No tables of figures were found." } } @else {
            (table("Tables", &[Text("Table"), Text("Title"), Text("In"), Number("Place"), Number("Rows"), Number("Columns")], &html! { @for table in tables.iter().take(MAX_ROWS) {
                    @let id = table.locator.rsplit('#').next().unwrap_or_default();
                    tr {
                        th scope="row" { a href=(context.document_url(&view.label, &[("view", "tables"), ("table", id)])) { (id) } }
                        td { bdi { (Line(table.title.as_deref().unwrap_or("untitled"))) } }
                        td { (Line(table.unit.as_deref().unwrap_or_default())) }
                        td.number { (table_place(context, view, table.pages, table.lines, table.section.as_deref())) }
                        td.number { (grouped(table.rows)) }
                        td.number { (grouped(table.columns.len())) }
                    }
                } }))
            (not_shown(tables.len()))
        }
    };
    Ok(part(context, view, "Tables", "tables", "/tables", body))
}

// The pages of a table with a link to the first; in a text its lines, with a link to its section.
fn table_place(
    context: &PageContext,
    view: &DocumentView,
    pages_of: Option<(u32, u32)>,
    lines: Option<(u32, u32)>,
    section: Option<&str>,
) -> Markup {
    let (first, last) = pages_of.or(lines).unwrap_or_default();
    let address = match pages_of {
        Some(_) => context.document_url(&view.label, &[("page", &first.to_string())]),
        None => context.document_url(section.unwrap_or(&view.label), &[]),
    };
    html! { a href=(address) { (pages(first, last)) } }
}

fn one_table(context: &PageContext, view: &DocumentView, content: &TableContent) -> Markup {
    let table = &content.table;
    let csv = format!("/documents/{}/tables/{}", encoded(&view.label), table.id);
    html! {
        h2 #table { bdi { (Line(table.title.as_deref().unwrap_or("Untitled table"))) } }
        p.note {
            @if let Some(unit) = &table.unit { (Line(unit)) " · " }
            @if table.page_range().is_some() { "page " } @else { "lines " }
            (table_place(context, view, table.page_range(), table.line_range(), content.section.as_deref()))
            " · " a href=(context.url(&csv, &[])) { "CSV" }
            " · " a href=(context.document_url(&view.label, &[("view", "tables")])) { "all tables" }
        }
        div.scroll tabindex="0" role="region" aria-labelledby="table" { table.figures {
            thead { tr { th scope="col" { span.hidden { "Label" } } @for column in &table.columns { th.number scope="col" { (Line(&column.head)) } } } }
            tbody { @for row in table.rows.iter().take(MAX_ROWS) { tr {
                th scope="row" { @if let Some(group) = &row.group { span.note { (Line(group)) " › " } } bdi { (Line(&row.label)) } }
                @for cell in &row.cells { td.number {
                    @if let Some(cell) = cell {
                        @let concept = cell.facts.first().map(|fact| fact.concept.as_str());
                        span title=[concept] { (Line(&cell.text)) }
                    }
                } }
            } } }
        } }
        (not_shown(table.rows.len()))
        @if let Some(doubt) = table.marks_in_doubt() { p.note { (doubt) } }
        @for note in table.notes.iter().take(MAX_ROWS) { p.note { "(" (Line(&note.mark)) ") " (Passage(&note.text)) } }
    }
}

/// The figures that the filing tags itself.
pub(crate) async fn facts(
    context: &PageContext,
    archive: &Archive,
    view: &DocumentView,
) -> Result<Part, Problem> {
    let concept = context.param("concept");
    let list = archive
        .facts(&FactsRequest {
            document: view.label.clone(),
            concept: context.owned_param("concept"),
            period: context.owned_param("period"),
            dimensions: context.param("dimensions").is_some(),
            limit: FACTS,
            cursor: context.owned_param("cursor"),
        })
        .await?;
    let next = list.next_cursor.as_deref().map(|cursor| {
        let [concept, period, dimensions] = context.params(["concept", "period", "dimensions"]);
        let place = [("view", "facts"), ("cursor", cursor)];
        context.document_url(
            &view.label,
            &[&[concept, period, dimensions][..], &place].concat(),
        )
    });
    let body = html! {
        h2 { (grouped(list.total)) @if list.total == 1 { " tagged fact" } @else { " tagged facts" } }
        form.search method="get" action=(context.document_url(&view.label, &[])) {
            (collection_field(context))
            input type="hidden" name="view" value="facts";
            label.hidden for="concept" { "Concept" }
            input #concept type="search" name="concept" value=[concept] placeholder="Revenues, net income …";
            label { input type="checkbox" name="dimensions" value="true" checked[context.param("dimensions").is_some()]; " with segments" }
            button type="submit" { "Find" }
        }
        @if list.facts.is_empty() { p { "This document tags no such figures (inline XBRL)." } } @else {
            (table("Tagged facts", &[Text("Concept"), Text("Period"), Number("Value"), Text("Unit"), Text("As displayed"), Number("Page"), Text("Table")], &html! { @for fact in &list.facts { tr {
                    th.title scope="row" { span title=(fact.concept) { (Line(&fact.label)) }
                        @for dimension in &fact.dimensions { span.note { (Line(&dimension.member)) } } }
                    td { (fact.from.as_deref().map(|from| format!("{from} to ")).unwrap_or_default()) (fact.to.as_deref().unwrap_or("always")) }
                    td.number { @if fact.numeric { (Line(fact.value.as_deref().unwrap_or_default())) } }
                    td { (Line(fact.unit.as_deref().unwrap_or_default())) }
                    td { (Line(&fact.displayed)) @if fact.sign.is_some() { " " span.note { "negated" } } }
                    td.number { @if let Some(page) = fact.page { a href=(context.document_url(&view.label, &[("page", &page.to_string())])) { (page) } } }
                    td { @if let Some(cell) = &fact.cell {
                        @let id = cell.table.rsplit('#').next().unwrap_or_default();
                        @let title = format!("row {}, column {}", cell.row, cell.column);
                        a href=(context.document_url(&view.label, &[("view", "tables"), ("table", id)])) title=(title) { (id) }
                    } }
                } } }))
        }
        @if let Some(next) = next { nav.pages aria-label="Pages of the list" { a.button rel="next" href=(next) { "Next page" } } }
    };
    Ok(part(context, view, "Facts", "facts", "/facts", body))
}

/// Versions, digests and how the tree was made.
pub(crate) fn about(context: &PageContext, view: &DocumentView, published: &PublishedTree) -> Part {
    let stat = &view.stat;
    let provenance = &published.tree.provenance;
    let facts = stat
        .document
        .facts
        .as_ref()
        .and_then(|facts| serde_json::to_value(facts).ok());
    let facts = facts
        .as_ref()
        .and_then(|facts| facts.as_object())
        .into_iter()
        .flatten();
    let method = serde_json::to_value(provenance.method).ok();
    let body = html! {
        h2 { "About this document" }
        dl {
            dt { "Path" } dd { bdi { (Line(&stat.document.path)) } }
            dt { "Address of the file" } dd { bdi { (Line(&stat.uri)) } }
            dt { "Size" } dd { (grouped(stat.size_bytes)) " bytes" }
            dt { "Digest (BLAKE3)" } dd { code { (stat.source) } }
            dt { "Document id" } dd { code { (stat.document.doc_id) } }
            dt { "Version" } dd { (stat.document.version) @if let Some(newer) = stat.newer_version { "; version " (newer) " is being processed" } }
            dt { "Method" } dd { (method.as_ref().and_then(|method| method.as_str()).unwrap_or_default().replace('_', " ")) }
            dt { "Model" } dd { (Line(&provenance.model)) }
            dt { "Revisions of stages" } dd { @for (stage, revision) in &provenance.revisions { span.pair { (Line(stage)) " " (revision) } " " } }
        }
        h2 { "Facts on its cover" }
        dl { @for (name, fact) in facts {
            @if let Some(value) = fact.get("value").and_then(|value| value.as_str()) {
                dt { (name.replace('_', " ")) } dd { bdi { (Line(value)) } }
            }
        } }
        @if !published.tree.gaps.is_empty() {
            h2 { "Notes on its tree" }
            ul { @for gap in published.tree.gaps.iter().take(MAX_ROWS) { li { (Message(&capitalized(&gap.detail))) " " code { (Line(&gap.code)) } } } }
        }
    };
    part(context, view, "About", "stat", "", body)
}
