//! The archive: facets, documents, and which filings there are by company and year.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use stemma_archive::{ApiError, Archive, DocumentInfo, DocumentList, Facet, ListRequest};
use stemma_catalog::catalog::DocumentSet;
use stemma_catalog::facets::FacetField;
use stemma_gateway::AppState;
use stemma_gateway::problem::Problem;

use crate::context::PageContext;
use crate::layout::{Page, Screen, page};
use crate::text::{Line, grouped};

const DOCUMENTS: usize = 50;
// Further values are found by the words of the list.
const FACET_VALUES: usize = 8;
const FACETS: [(FacetField, &str); 5] = [
    (FacetField::Company, "Company"),
    (FacetField::Form, "Form"),
    (FacetField::FiscalYear, "Fiscal year"),
    (FacetField::Status, "Status"),
    (FacetField::Quality, "Doubt"),
];
// Rows and columns that a reader takes in at once.
const MATRIX_COMPANIES: usize = 12;
const MATRIX_YEARS: usize = 16;

/// `GET /`
pub(crate) async fn archive(
    State(state): State<AppState>,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let filters = Filters::from_context(&context);
    let request = filters.request();
    let selected = archive.select(&request)?;
    let cursor = context.param("cursor");
    let documents = archive.list_selected(&selected, &request, DOCUMENTS, cursor)?;
    let fields = FACETS.map(|(field, _)| field);
    let counted = archive.count_selected(&selected, &fields, FACET_VALUES)?;
    let facets = counted.facets;
    let matrix = Matrix::count(&archive, &selected, &facets)?;
    let title = if filters.is_empty() {
        "Archive"
    } else {
        "Archive, filtered"
    };
    let pairs = filters.pairs();
    let body = html! {
        h1 { "Archive" }
        (search_box(&context))
        (filters.chips(&context))
        div.columns {
            aside aria-label="Filters" { (facet_lists(&context, &filters, &facets)) }
            div.content {
                (document_table(&context, &filters, &documents))
                (matrix.table(&context, &filters))
            }
        }
    };
    Ok(page(
        &context,
        &Page {
            screen: Some(Screen::Archive),
            title: title.into(),
            body,
            commands: vec![
                context.command(
                    &filters
                        .command()
                        .iter()
                        .map(String::as_str)
                        .collect::<Vec<_>>(),
                ),
            ],
            requests: vec![context.request("/v1/documents", &pairs)],
        },
    ))
}

// Which documents are listed. The names are those of `GET /v1/documents`.
struct Filters {
    facets: BTreeMap<FacetField, String>,
    words: Option<String>,
    condition: Option<String>,
    scope: Option<String>,
}

impl Filters {
    fn from_context(context: &PageContext) -> Self {
        let param = |name| context.param(name).map(str::to_owned);
        let facets = FacetField::ALL.into_iter();
        Self {
            facets: facets
                .filter_map(|field| Some((field, param(field.as_str())?)))
                .collect(),
            words: param("q"),
            condition: param("where"),
            scope: param("scope"),
        }
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
        }
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
        let facets = self.facets.iter();
        facets
            .map(|(field, value)| (field.as_str(), value.as_str()))
            .chain(texts)
            .collect()
    }

    // The same list with `name` set to `value`; an empty value removes it.
    fn url(&self, context: &PageContext, changes: &[(&'static str, &str)]) -> String {
        let base = self.pairs().into_iter();
        let base = base.filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let pairs: Vec<_> = base.chain(changes.iter().copied()).collect();
        context.url("/", &pairs)
    }

    fn command(&self) -> Vec<String> {
        let path = self.facets.iter().fold(
            self.scope.clone().unwrap_or_default(),
            |path, (field, value)| {
                let below = stemma_catalog::facets::value_path(*field, value);
                format!("{}{below}", path.trim_end_matches('/'))
            },
        );
        let path = if path.is_empty() {
            "/".to_owned()
        } else {
            path
        };
        let condition = self.condition.iter();
        let condition = condition.flat_map(|text| ["--where".to_owned(), text.clone()]);
        ["ls".to_owned(), path]
            .into_iter()
            .chain(condition)
            .collect()
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

fn label(name: &str) -> &str {
    let facet = FACETS.iter().find(|(field, _)| field.as_str() == name);
    match (facet, name) {
        (Some((_, label)), _) => label,
        (None, "q") => "Words",
        (None, "where") => "Condition",
        (None, "scope") => "Folder",
        (None, other) => other,
    }
}

fn search_box(context: &PageContext) -> Markup {
    html! {
        form.search role="search" method="get" action="/" {
            (collection_field(context))
            label.hidden for="words" { "Words of a name, company, form or description" }
            input #words type="search" name="q" placeholder="Find documents" value=[context.param("q")] maxlength="400";
            button type="submit" { "Filter" }
        }
    }
}

/// The field that keeps the collection of a form with `method="get"`.
pub(crate) fn collection_field(context: &PageContext) -> Markup {
    html! {
        @if let Some(name) = context.collection() { input type="hidden" name="collection" value=(name); }
    }
}

fn facet_lists(context: &PageContext, filters: &Filters, facets: &[Facet]) -> Markup {
    html! {
        @for facet in facets.iter().filter(|facet| !facet.values.is_empty()) {
            @let chosen = FacetField::from_name(facet.field).and_then(|field| filters.facets.get(&field));
            section.facet {
                h2 { (label(facet.field)) }
                ul {
                    @for value in &facet.values {
                        @let is_chosen = chosen.is_some_and(|chosen| chosen.eq_ignore_ascii_case(&value.value));
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
            p { "No document matches. " a href=(context.url("/", &[])) { "Show all" } }
        } @else {
            div.scroll tabindex="0" role="region" aria-labelledby="documents" {
                table {
                    thead { tr {
                        th scope="col" { "Document" } th scope="col" { "Company" } th scope="col" { "Form" } th scope="col" { "Year" }
                        th.number scope="col" { "Pages" } th.number scope="col" { "Sections" } th.number scope="col" { "Tokens" }
                        th scope="col" { "Status" } th.number scope="col" { "Doubt" }
                    } }
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
        }
    }
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
    html! { span.doubt data-high=[(doubt >= 0.5).then_some("true")] { (format!("{doubt:.2}")) } }
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
            .filter(|facet| facet.field == FacetField::Company.as_str())
            .flat_map(|facet| &facet.values);
        let companies = companies.take(MATRIX_COMPANIES);
        let companies: Vec<&str> = companies.map(|company| company.value.as_str()).collect();
        let rows = (FacetField::Company, companies.as_slice());
        let counted = archive.cross_count(selected, rows, FacetField::FiscalYear)?;
        let counts = counted.into_iter().map(|years| {
            let years = years.into_iter();
            years.map(|year| (year.value, year.documents)).collect()
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
