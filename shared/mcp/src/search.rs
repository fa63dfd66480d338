//! `search`: sections ranked for a question.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stemma_archive::pageindex_fields::{is_root, name_of};
use stemma_archive::{Facet, SearchFacets, SearchHit, SearchRequest, SearchResponse};
use stemma_catalog::short_path::short_path;
use stemma_retrieval::AppliedFilter;
use stemma_retrieval::search::{MissingTerm, TotalHits};

use crate::arguments::Names;
use crate::paging::{PageRequest, default_limit};
use crate::tool_context::{ToolContext, link, locator_of, part_locator, section_address};
use crate::tool_result::{
    ToolOutcome, ToolResult, delimited, first_chars, format_span, take_fitting, token_cost,
};

const MAX_LINKS: usize = 5;
const LINK_CHARS: usize = 60;
// The most frequent values say how to narrow a search; `browse_documents` lists all.
const FACET_VALUES: usize = 5;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct SearchArguments {
    /// a question, or key words; "a phrase", a OR b, -word, title:word, company:3M, year:2022
    query: String,
    /// a document, part (…#item-7), folder or axis path (/@company/3M)
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("x-names" = true))]
    scope: Names,
    // Prompts for PageIndex folders send this instead of `scope`.
    #[schemars(extend("x-hidden" = true))]
    folder_id: Option<String>,
    /// filter: (form=10-K or form=10-Q) and fiscal_year>=2020
    #[serde(rename = "where")]
    filter: Option<Value>,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    #[schemars(extend("x-hidden" = true))]
    #[serde(default)]
    offset: usize,
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SearchOutput {
    total: usize,
    results: Vec<ResultRow>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    routed: Vec<AppliedFilter>,
    /// what was searched otherwise than the query says
    notes: Vec<String>,
    /// matching documents by property
    #[schemars(with = "Vec<Map<String, Value>>")]
    facets: Vec<Facet>,
    /// words of the query that no document in scope has; null while documents are not indexed
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    missing_terms: Option<Vec<MissingTerm>>,
    /// share of the query that one of the best results has; null if unknown
    evidence: Option<f64>,
    /// whether the answer is hardly there; null while documents are not indexed
    low_evidence: Option<bool>,
    documents_searched: usize,
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ResultRow {
    /// for fetch
    id: String,
    title: String,
    url: String,
    snippet: String,
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<String>,
    score: f64,
    why: String,
}

#[tool_router(router = search_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Find sections by meaning of words, over all documents or in one. Companies, years, forms and Items \
in the query narrow it.",
        output_schema = schema_for_output::<SearchOutput>()
    )]
    async fn search(
        &self,
        Parameters(arguments): Parameters<SearchArguments>,
    ) -> ToolOutcome<SearchOutput> {
        let mut scopes = arguments.scope.0;
        scopes.extend(arguments.folder_id.filter(|_| scopes.is_empty()));
        if scopes.iter().any(|scope| is_root(scope)) {
            scopes.clear();
        }
        let query = arguments.query;
        let filter = arguments.filter;
        let list = format!("{query} {scopes:?} {filter:?}");
        let cursor = arguments.cursor.as_deref();
        let page = PageRequest::new(arguments.limit, arguments.offset, cursor, &list)?;
        let scopes = scopes.iter().map(|scope| {
            let locator = locator_of(scope);
            part_locator(&locator.document, locator.fragment.as_ref())
        });
        let request = SearchRequest {
            query,
            scopes: scopes.collect(),
            filter,
            limit: Some(page.limit),
            skip: page.offset,
            ..SearchRequest::default()
        };
        let response = self.find_sections(request).await?;
        Ok(self.search_result(response, &page))
    }
}

impl ToolContext {
    fn search_result(
        &self,
        response: SearchResponse,
        page: &PageRequest,
    ) -> ToolResult<SearchOutput> {
        let rows = response.hits.iter().map(|hit| self.result_row(hit));
        let facets = narrowing_facets(response.facets);
        let facets_cost: usize = facets.iter().map(token_cost).sum();
        let room = self.format.limit(None).saturating_sub(facets_cost);
        let results = take_fitting(rows, room);
        let is_cut = results.len() < response.hits.len() || response.next_cursor.is_some();
        let next_cursor = is_cut.then(|| page.cursor(page.offset + results.len()));
        let (total, at_least) = match response.total {
            TotalHits::Exact(total) => (total, ""),
            TotalHits::AtLeast { at_least: total } => (total, " at least"),
        };
        let mut remarks = String::new();
        if !response.routed.is_empty() {
            let routed: Vec<String> = response.routed.iter().map(routed_to).collect();
            remarks = format!(" · narrowed to {}", routed.join(", "));
        }
        let documents_searched = response.searched.documents;
        let mut notes: Vec<String> = response
            .notes
            .into_iter()
            .map(|note| note.message)
            .collect();
        notes.extend(
            response
                .missing_terms
                .iter()
                .flatten()
                .map(ToString::to_string),
        );
        if response.low_evidence == Some(true) {
            notes.push("low evidence: the results have little of what is asked".into());
        }
        for note in &notes {
            remarks.push_str(&format!(" · {note}"));
        }
        let summary = format!(
            "{} of{at_least} {total} sections, in {} of {} documents{remarks}",
            results.len(),
            documents_searched,
            response.searched.documents_in_scope
        );
        let next_step = if results.is_empty() {
            "Other words, a wider scope, or grep_document() for exact characters"
        } else {
            "Text: fetch(id), or get_page_content(doc_name, pages); read before you answer"
        };
        let more = next_cursor
            .as_ref()
            .map(|cursor| format!("More: the same call with cursor: \"{cursor}\""));
        let text = delimited("search results", &listing(&results, &facets));
        let linked = response.hits.iter().take(results.len().min(MAX_LINKS));
        let links: Vec<_> = linked.map(hit_link).collect();
        let data = SearchOutput {
            total,
            results,
            routed: response.routed,
            notes,
            missing_terms: response.missing_terms,
            evidence: response.evidence,
            low_evidence: response.low_evidence,
            facets,
            documents_searched,
            next_cursor,
        };
        ToolResult::new(data, summary)
            .with_text(text)
            .with_links(links)
            .with_option(next_step)
            .with_options(more)
    }

    fn result_row(&self, hit: &SearchHit) -> ResultRow {
        // The name in the index serves where the catalog has none, or cannot be read.
        let listed = self.archive.catalog().get(hit.doc_id).ok().flatten();
        let name = listed.as_deref().map_or(hit.name.as_str(), name_of);
        let best = hit.best_pages.first();
        ResultRow {
            id: hit.locator.clone(),
            title: format!("{name} › {}", short_path(&hit.path)),
            url: section_address(hit.doc_id, hit.section_id),
            snippet: hit.excerpt.text.clone(),
            page: hit.first_page(),
            page_label: best.and_then(|page| page.label.clone()),
            pages: hit.pages.map(format_span),
            score: hit.score,
            why: hit.why.clone(),
        }
    }
}

fn routed_to(filter: &AppliedFilter) -> String {
    let AppliedFilter {
        facet, value, from, ..
    } = filter;
    match filter.did_you_mean {
        true => format!("{facet}={value} (you wrote {from})"),
        false => format!("{facet}={value}"),
    }
}

// The facets by which the matching documents differ.
fn narrowing_facets(facets: SearchFacets) -> Vec<Facet> {
    if facets.total.at_least() < 2 {
        return Vec::new();
    }
    let mut narrowing = facets.facets;
    narrowing.retain(|facet| facet.distinct > 1);
    for facet in &mut narrowing {
        facet.values.truncate(FACET_VALUES);
    }
    narrowing
}

fn listing(results: &[ResultRow], facets: &[Facet]) -> String {
    let mut lines = Vec::new();
    for row in results {
        let page = row
            .page
            .map(|page| format!("  p {page}"))
            .unwrap_or_default();
        lines.push(format!("{}  {}{page}  {:?}", row.id, row.title, row.score));
        lines.push(format!("  {}", row.snippet));
    }
    for facet in facets {
        let values: Vec<String> = facet
            .values
            .iter()
            .map(|value| format!("{} ({})", value.value, value.documents))
            .collect();
        lines.push(format!(
            "matching documents by {}: {}",
            facet.field,
            values.join(", ")
        ));
    }
    lines.join("\n")
}

fn hit_link(hit: &SearchHit) -> rmcp::model::Resource {
    let name = hit
        .path
        .last()
        .map_or(hit.name.as_str(), |title| first_chars(title, LINK_CHARS));
    link(section_address(hit.doc_id, hit.section_id), name)
}
