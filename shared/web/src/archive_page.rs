//! The archive: facets, documents, and which filings there are by company and year.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use stemma_archive::{ApiError, Archive, DocumentInfo, DocumentList, Facet, ListRequest};
use stemma_catalog::catalog::DocumentSet;
use stemma_catalog::document_order::DocumentOrder;
use stemma_catalog::property::{Property, quality_value};
use stemma_document::time_format::{format_date, format_rfc3339};
use stemma_gateway::AppState;
use stemma_gateway::problem::Problem;

use crate::context::PageContext;
use crate::layout::{Screen, collection_field, page};
use crate::text::{Line, capitalized, grouped};

const DOCUMENTS: usize = 50;
const DAY_MS: u64 = 86_400_000;
// Further values are found by the words of the list.
const FACET_VALUES: usize = 8;
// Rows and columns that a reader takes in at once.
const MATRIX_COMPANIES: usize = 12;
const MATRIX_YEARS: usize = 16;

/// `GET /`
pub(crate) async fn archive(
    State(state): State<AppState>,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let filters = Filters::from_context(&context)?;
    let request = filters.request();
    let selected = archive.select(&request)?;
    let cursor = context.param("cursor");
    let documents = archive.list_selected(&selected, &request, DOCUMENTS, cursor)?;
    let fields: Vec<Property> = Property::page_facets().collect();
    let counted = archive.count_selected(&selected, &fields, FACET_VALUES)?;
    let facets = counted.facets;
    let matrix = Matrix::count(&archive, &selected, &facets)?;
    let title = if filters.is_empty() {
        "Archive"
    } else {
        "Archive, filtered"
    };
    let pairs: Vec<_> = filters.pairs().into_iter().chain(filters.sort()).collect();
    let body = html! {
        h1 { "Archive" }
        (search_box(&context, &filters))
        (filters.chips(&context))
        div.columns {
            aside aria-label="Filters" { (facet_lists(&context, &filters, &facets)) }
            div.content {
                (document_table(&context, &filters, &documents))
                (matrix.table(&context, &filters))
            }
        }
    };
    let request = context.request("/v1/documents", &pairs);
    let elsewhere: Vec<String> = filters
        .command(&context)
        .into_iter()
        .chain([request])
        .collect();
    Ok(page(
        &context,
        Some(Screen::Archive),
        title,
        &body,
        &elsewhere,
    ))
}

// Which documents are listed. The names are those of `GET /v1/documents`.
struct Filters {
    facets: BTreeMap<Property, String>,
    words: Option<String>,
    condition: Option<String>,
    scope: Option<String>,
    order: DocumentOrder,
    // The order as a parameter; the default has none.
    sort: Option<String>,
}

impl Filters {
    fn from_context(context: &PageContext) -> Result<Self, Problem> {
        let order = context
            .param("sort")
            .map(str::parse::<DocumentOrder>)
            .transpose();
        let order = order
            .map_err(|error| Problem::parameter(400, "sort", error.to_string()))?
            .unwrap_or_default();
        Ok(Self {
            facets: Property::facets()
                .filter_map(|field| Some((field, context.owned_param(field.facet_name())?)))
                .collect(),
            words: context.owned_param("q"),
            condition: context.owned_param("where"),
            scope: context.owned_param("scope"),
            order,
            sort: (order != DocumentOrder::default()).then(|| order.to_string()),
        })
    }

    fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    fn request(&self) -> ListRequest {
        ListRequest {
            scope: self.scope.clone(),
            filter: self.condition.clone().map(Value::String),
            words: self.words.clone(),
            facets: self.facets.clone(),
            recursive: true,
            order: self.order,
        }
    }

    // The value of a facet that the list is narrowed to, in the form in which values are compared.
    fn chosen(&self, facet: &str) -> Option<(Property, String)> {
        let field = Property::from_facet_name(facet)?;
        let value = self.facets.get(&field)?;
        Some((field, field.canonical(value)))
    }

    fn sort(&self) -> Option<(&'static str, &str)> {
        Some(("sort", self.sort.as_deref()?))
    }

    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let texts = [
            ("q", &self.words),
            ("where", &self.condition),
            ("scope", &self.scope),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)));
        self.facets
            .iter()
            .map(|(field, value)| (field.facet_name(), value.as_str()))
            .chain(texts)
            .collect()
    }

    // The first page of the same list with some parameters changed; an empty value removes one.
    fn url(&self, context: &PageContext, changes: &[(&str, &str)]) -> String {
        context.changed_url("/", self.pairs().into_iter().chain(self.sort()), changes)
    }

    // `None` for words, which no command lists documents by.
    fn command(&self, context: &PageContext) -> Option<String> {
        if self.words.is_some() {
            return None;
        }
        let path = self.facets.iter().fold(
            self.scope.clone().unwrap_or_default(),
            |path, (field, value)| {
                let below = stemma_catalog::facets::value_path(*field, value);
                format!("{}{below}", path.trim_end_matches('/'))
            },
        );
        let mut words = vec!["ls", if path.is_empty() { "/" } else { &path }];
        for (flag, value) in [("--where", &self.condition), ("--sort", &self.sort)] {
            words.extend(value.iter().flat_map(|value| [flag, value.as_str()]));
        }
        Some(context.command(&words))
    }

    fn chips(&self, context: &PageContext) -> Markup {
        html! {
            @if !self.is_empty() {
                ul.chips aria-label="Active filters" {
                    @for (name, value) in self.pairs() {
                        li { a.chip href=(self.url(context, &[(name, "")])) {
                            span { (label(name)) ": " (Line(value)) }
                            span aria-hidden="true" { " ×" } span.hidden { " (remove)" }
                        } }
                    }
                    li { a href=(context.url("/", &[])) { "Clear all" } }
                }
            }
        }
    }
}

// `Fiscal year`
fn label(name: &str) -> String {
    match name {
        "q" => "Words".into(),
        "where" => "Condition".into(),
        "scope" => "Folder".into(),
        property => capitalized(&property.replace('_', " ")),
    }
}

fn search_box(context: &PageContext, filters: &Filters) -> Markup {
    let fields = filters.pairs().into_iter().chain(filters.sort());
    html! {
        form.search role="search" method="get" action="/" {
            (collection_field(context))
            @for (name, value) in fields.filter(|(name, _)| *name != "q") { input type="hidden" name=(name) value=(value); }
            label.hidden for="words" { "Words of a name, company, form or description" }
            input #words type="search" name="q" placeholder="Find documents" value=[context.param("q")] maxlength="400";
            button type="submit" { "Filter" }
        }
    }
}

fn facet_lists(context: &PageContext, filters: &Filters, facets: &[Facet]) -> Markup {
    html! {
        @for facet in facets.iter().filter(|facet| !facet.values.is_empty()) {
            @let chosen = filters.chosen(facet.field);
            section.facet {
                h2 { (label(facet.field)) }
                ul {
                    @for value in &facet.values {
                        @let is_chosen = chosen.as_ref().is_some_and(|(field, chosen)| field.canonical(&value.value) == *chosen);
                        @let to = if is_chosen { "" } else { value.value.as_str() };
                        li {
                            a href=(filters.url(context, &[(facet.field, to)])) aria-current=[is_chosen.then_some("true")] {
                                span.name { (Line(&value.value)) }
                                span.count { (grouped(value.documents)) }
                            }
                        }
                    }
                }
                @if facet.distinct > facet.values.len() {
                    p.note { (grouped(facet.distinct - facet.values.len())) " more; find them by words" }
                }
            }
        }
    }
}

fn document_table(context: &PageContext, filters: &Filters, documents: &DocumentList) -> Markup {
    html! {
        h2 #documents { (grouped(documents.total)) @if documents.total == 1 { " document" } @else { " documents" } }
        @if documents.items.is_empty() {
            @if filters.is_empty() && context.param("cursor").is_none() {
                p { "The archive is empty. " @if context.may_upload { a href=(context.url("/upload", &[])) { "Upload documents" } ", or read" } @else { "Read" }
                    " files into it with " code { "stemma ingest FOLDER" } "." }
            } @else {
                p { "No document matches. " a href=(context.url("/", &[])) { "Show all" } }
            }
        } @else {
            div.scroll tabindex="0" role="region" aria-labelledby="documents" {
                table {
                    thead { tr { @for column in &COLUMNS { (column_head(context, filters, column)) } } }
                    tbody { @for document in &documents.items { (document_row(context, document)) } }
                }
            }
            nav.pages aria-label="Pages of the list" {
                @if context.param("cursor").is_some() { a href=(filters.url(context, &[])) { "First page" } }
                @if let Some(cursor) = &documents.next_cursor {
                    a.button rel="next" href=(filters.url(context, &[("cursor", cursor)])) { "Next page" }
                }
            }
        }
    }
}

struct Column {
    name: &'static str,
    is_number: bool,
    // By which the column is sorted, and whether it descends at first: the newest and the largest are looked for most.
    order: Option<(Property, bool)>,
}

const COLUMNS: [Column; 10] = {
    const fn column(
        name: &'static str,
        is_number: bool,
        order: Option<(Property, bool)>,
    ) -> Column {
        Column {
            name,
            is_number,
            order,
        }
    }
    [
        column("Document", false, Some((Property::Path, false))),
        column("Company", false, Some((Property::Company, false))),
        column("Form", false, Some((Property::Form, false))),
        column("Year", false, Some((Property::FiscalYear, true))),
        column("Pages", true, Some((Property::Pages, true))),
        column("Sections", true, None),
        column("Tokens", true, None),
        column("Status", false, Some((Property::Status, false))),
        column("Doubt", true, Some((Property::Doubt, true))),
        column("Published", false, Some((Property::Published, true))),
    ]
};

fn column_head(context: &PageContext, filters: &Filters, column: &Column) -> Markup {
    let class = column.is_number.then_some("number");
    let Some((field, descends_first)) = column.order else {
        return html! { th class=[class] scope="col" { (column.name) } };
    };
    let order = filters.order;
    let is_current = order.field == field;
    let next = DocumentOrder {
        field,
        is_descending: if is_current {
            !order.is_descending
        } else {
            descends_first
        },
    };
    let (sorted, arrow) = match (is_current, order.is_descending) {
        (false, _) => (None, ""),
        (true, false) => (Some("ascending"), " ↑"),
        (true, true) => (Some("descending"), " ↓"),
    };
    let sort = if next == DocumentOrder::default() {
        String::new()
    } else {
        next.to_string()
    };
    html! {
        th class=[class] scope="col" aria-sort=[sorted] {
            a href=(filters.url(context, &[("sort", &sort)])) { (column.name) span aria-hidden="true" { (arrow) } }
        }
    }
}

fn document_row(context: &PageContext, document: &DocumentInfo) -> Markup {
    let facts = document.facts.as_ref();
    let fact = |fact: Option<&stemma_document::Fact>| {
        fact.map(|fact| fact.value.clone()).unwrap_or_default()
    };
    html! {
        tr {
            th.title scope="row" {
                a href=(context.document_url(&document.locator, &[])) { bdi { (Line(&document.name)) } }
                @if document.path != document.name { span.note { (Line(&document.path)) } }
            }
            td { bdi { (Line(&fact(facts.and_then(|facts| facts.issuer.as_ref())))) } }
            td { (Line(&fact(facts.and_then(|facts| facts.form.as_ref())))) }
            td { (Line(&fact(facts.and_then(|facts| facts.fiscal_year.as_ref())))) }
            td.number { (number(document.pages)) }
            td.number { (number(document.sections)) }
            td.number { (number(document.tokens)) }
            td { (state_badge(document)) }
            td.number { @if let Some(doubt) = document.doubt { (doubt_mark(doubt)) } }
            td { @if let Some(at_ms) = document.published_ms { (published(at_ms)) } }
        }
    }
}

// A day, and in full where a browser shows titles.
fn published(at_ms: u64) -> Markup {
    let time = format_rfc3339(at_ms);
    html! { time datetime=(time) title=(time) { (format_date(at_ms / DAY_MS)) } }
}

fn number(value: Option<u32>) -> String {
    value.map(grouped).unwrap_or_default()
}

/// The state of a document in a word.
pub(crate) fn state_badge(document: &DocumentInfo) -> Markup {
    let state = document.state.as_str();
    let failure = document
        .failure
        .as_ref()
        .map(|failure| failure.message.as_str());
    html! { span.badge data-state=(state) title=[failure] { (state.replace('_', " ")) } }
}

/// A doubt, marked where it may mislead.
pub(crate) fn doubt_mark(doubt: f64) -> Markup {
    let is_high = quality_value(doubt as f32) == "doubtful";
    html! { span.doubt data-high=[is_high.then_some("true")] { (format!("{doubt:.2}")) } }
}

// Number of documents by company and fiscal year, for the companies with most documents.
struct Matrix {
    years: Vec<String>,
    rows: Vec<(String, BTreeMap<String, usize>)>,
}

impl Matrix {
    fn count(
        archive: &Archive,
        selected: &DocumentSet,
        facets: &[Facet],
    ) -> Result<Self, ApiError> {
        let companies = facets
            .iter()
            .filter(|facet| facet.field == Property::Company.facet_name())
            .flat_map(|facet| &facet.values)
            .take(MATRIX_COMPANIES);
        let companies: Vec<&str> = companies.map(|company| company.value.as_str()).collect();
        let rows = (Property::Company, companies.as_slice());
        let counted = archive.cross_count(selected, rows, Property::FiscalYear)?;
        let counts = counted.into_iter().map(|years| {
            years
                .into_iter()
                .map(|year| (year.value, year.documents))
                .collect()
        });
        let names = companies.into_iter().map(str::to_owned);
        let rows: Vec<(String, BTreeMap<String, usize>)> = names.zip(counts).collect();
        let years = rows.iter().flat_map(|(_, row)| row.keys().cloned());
        let years: BTreeSet<String> = years.collect();
        let skipped = years.len().saturating_sub(MATRIX_YEARS);
        Ok(Self {
            years: years.into_iter().skip(skipped).collect(),
            rows,
        })
    }

    fn table(&self, context: &PageContext, filters: &Filters) -> Markup {
        if self.years.is_empty() {
            return html! {};
        }
        html! {
            h2 #coverage { "Filings by company and fiscal year" }
            div.scroll tabindex="0" role="region" aria-labelledby="coverage" {
                table.matrix {
                    thead { tr {
                        th scope="col" { "Company" }
                        @for year in &self.years { th.number scope="col" { (Line(year)) } }
                    } }
                    tbody {
                        @for (company, counts) in &self.rows {
                            tr {
                                th scope="row" { a href=(filters.url(context, &[("company", company)])) { bdi { (Line(company)) } } }
                                @for year in &self.years { td.number {
                                    @if let Some(count) = counts.get(year) {
                                        a href=(filters.url(context, &[("company", company), ("fiscal_year", year)])) { (grouped(*count)) }
                                    } @else { span.none aria-label="none" { "·" } }
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}
