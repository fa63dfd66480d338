//! Chooses documents for a question: by content, and where that leaves many, with a model, which reads the descriptions of those
//! that fit best by content.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::OutputSchema;
use stemma_store::PortResult;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::TreeSearchReport;
use super::scoring::ScoringQuestion;
use super::search_tree::{one_line, truncate};
use super::searcher::TreeSearchSources;
use super::session_error::SessionError;
use crate::document_scope::documents_in_scope;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::filter::{Condition, Filter, FilterOp};
use stemma_catalog::property::Property;
use stemma_retrieval::search::{DocumentScope, Query, SearchError, SearchResults};

// Documents that are walked for a question.
const WALKED: usize = 3;
// Documents that are described in one call: with 6 the right one is missed in 4.5 % of questions, with 24 it is found as with 12
// (docs/guide/search.md).
const DESCRIBED: usize = 12;
// When no description fits, the next best documents by content are described once more.
const MAX_ROUNDS: usize = 2;
// Hits used to choose documents. Several per described document, since many hits in one document crowd out others.
const ROUTING_HITS: usize = 8 * MAX_ROUNDS * DESCRIBED;
const ABOUT_CHARS: usize = 300;
// Properties of a document that its description starts with.
const FIELDS: [Property; 4] = [
    Property::Company,
    Property::Form,
    Property::FiscalYear,
    Property::FiscalPeriod,
];
const MIN_SCORE: f32 = 0.3;

// The documents to choose from.
#[derive(Clone, Copy)]
struct RoutingScope<'a> {
    catalog: &'a Catalog,
    documents: &'a DocumentSet,
}

/// At most `WALKED` documents to walk, and the hits of search without a model in them.
///
/// # Errors
/// [`SearchError`] when search without a model fails, or the catalog cannot be read.
pub(super) async fn route(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    question: &ScoringQuestion,
    session: &LlmSession,
    report: &mut TreeSearchReport,
) -> Result<(SearchResults, Vec<DocId>), SearchError> {
    let in_scope = documents_in_scope(sources.catalog, &plain.within, &plain.filter)?
        .and(&sources.catalog.with_tree()?);
    let scope = RoutingScope {
        catalog: sources.catalog,
        documents: &in_scope,
    };
    let wide = Query {
        limit: ROUTING_HITS,
        ..plain.clone()
    };
    let first = sources.search.search(&wide, Some(session)).await?;
    if in_scope.len() <= 1 {
        return Ok((first, sources.catalog.ids(&in_scope)?));
    }
    let ranked = best_documents(&first, MAX_ROUNDS * DESCRIBED);
    // Content leaves no more documents than are walked, as where the question names its issuer.
    let fitting = match (1..=WALKED).contains(&ranked.len()) {
        true => None,
        false => {
            let shortlist = described(scope, &ranked)?;
            let fitting = by_description(&question.question, &shortlist, session).await;
            fitting.unwrap_or_else(|error| {
                report.note_failure("routing", &error);
                None
            })
        }
    };
    let is_described = fitting.is_some();
    let narrowed = match fitting {
        Some(documents) => documents,
        None => match documents_of_years(question, scope)? {
            Some(documents) => documents,
            None => return Ok((first, ranked.into_iter().take(WALKED).collect())),
        },
    };
    let how = match is_described {
        true => "by their descriptions",
        false => "by content and years",
    };
    report.add_step(
        "routing",
        format!("{} of {} documents, {how}", narrowed.len(), in_scope.len()),
    );
    let within = DocumentScope::Documents(narrowed.clone());
    let wide = Query { within, ..wide };
    let results = sources.search.search(&wide, Some(session)).await?;
    let by_content = best_documents(&results, narrowed.len());
    // The model puts the documents that it chooses in order.
    let mut order = match is_described || by_content.is_empty() {
        true => narrowed,
        false => by_content,
    };
    order.truncate(WALKED);
    // Metadata may be wrong or missing, and so may the model: the best document by content is always walked.
    if let Some(best) = ranked.first().filter(|best| !order.contains(best)) {
        order.truncate(WALKED - 1);
        order.push(*best);
    }
    Ok((results, order))
}

// The documents that are described: the best ones by content, or the first in scope without any. Without hits there is no next
// best document for a second round.
fn described(scope: RoutingScope<'_>, ranked: &[DocId]) -> PortResult<Vec<Arc<CatalogDocument>>> {
    let listed = ranked.iter().map(|doc| scope.catalog.get(*doc));
    let listed = listed.collect::<PortResult<Vec<_>>>()?;
    let shortlist: Vec<_> = listed.into_iter().flatten().collect();
    if !shortlist.is_empty() {
        return Ok(shortlist);
    }
    scope
        .catalog
        .list(scope.documents)
        .take(DESCRIBED)
        .collect()
}

fn best_documents(results: &SearchResults, most: usize) -> Vec<DocId> {
    let mut scores: Vec<(DocId, f64, u32)> = Vec::new();
    for hit in &results.hits {
        match scores.iter_mut().find(|(doc, ..)| *doc == hit.doc_id) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + hit.score, *count + 1),
            None => scores.push((hit.doc_id, hit.score, 1)),
        }
    }
    // Sum of scores over the root of n + 1 (PageIndex's DocScore): many matching sections speak for a document, but each less
    // than the first.
    let mut ranked: Vec<(DocId, f64)> = scores
        .into_iter()
        .map(|(doc, sum, count)| (doc, sum / f64::from(count + 1).sqrt()))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
        .into_iter()
        .take(most.max(1))
        .map(|(doc, _)| doc)
        .collect()
}

// A filing also tells of the year before, so the filings of the year after each count too. `None` when nothing matches.
fn documents_of_years(
    question: &ScoringQuestion,
    scope: RoutingScope<'_>,
) -> PortResult<Option<Vec<DocId>>> {
    let values: Vec<String> = question
        .analysis
        .iter()
        .flat_map(|analysis| &analysis.years)
        .flat_map(|year| [*year, year + 1])
        .map(|year| year.to_string())
        .collect();
    if values.is_empty() {
        return Ok(None);
    }
    let filter = Filter::Condition(Condition {
        field: Property::FiscalYear,
        op: FilterOp::In,
        values,
    });
    let fits = scope.catalog.matching(&filter)?.and(scope.documents);
    let documents = scope
        .catalog
        .list(&fits)
        .map(|document| Ok(document?.doc()))
        .collect::<PortResult<Vec<DocId>>>()?;
    Ok(Some(documents).filter(|documents| !documents.is_empty()))
}

// Documents that may have the answer, best first; `None` if no description fits.
async fn by_description(
    question: &str,
    shortlist: &[Arc<CatalogDocument>],
    session: &LlmSession,
) -> Result<Option<Vec<DocId>>, SessionError> {
    for batch in shortlist.chunks(DESCRIBED).take(MAX_ROUNDS) {
        let fitting = fitting_documents(question, batch, session).await?;
        if !fitting.is_empty() {
            return Ok(Some(fitting));
        }
    }
    Ok(None)
}

async fn fitting_documents(
    question: &str,
    candidates: &[Arc<CatalogDocument>],
    session: &LlmSession,
) -> Result<Vec<DocId>, SessionError> {
    let node = json!({
        "type": "object",
        "properties": { "document": { "type": "integer" }, "score": { "type": "number" }, "reason": { "type": "string" } },
        "required": ["document", "score", "reason"],
        "additionalProperties": false,
    });
    let properties = json!({ "documents": { "type": "array", "items": node } });
    let system = "Choose the documents that answer a question, by their descriptions. Give each that may a score from 0 \
                  (surely not) to 1 (surely) and a reason of a few words; leave the others out.";
    let mut prompt = Prompt::new(system, OutputSchema::strict("route_documents", &properties))
        .with_block("Question", question);
    for (at, catalog_document) in candidates.iter().enumerate() {
        prompt = prompt.with_block(
            format!("Document {}", at + 1),
            describe_document(catalog_document),
        );
    }
    #[derive(Deserialize)]
    struct DocumentScore {
        document: u64,
        score: f32,
    }
    #[derive(Deserialize)]
    struct RankedDocuments {
        documents: Vec<DocumentScore>,
    }
    let mut choices = session
        .complete(&prompt, |reply: RankedDocuments| Ok(reply.documents))
        .await?;
    choices.retain(|choice| choice.score >= MIN_SCORE);
    choices.sort_by(|a, b| b.score.total_cmp(&a.score));
    // Numbers that were not shown are ignored.
    let mut distinct = BTreeSet::new();
    Ok(choices
        .iter()
        .filter_map(|choice: &DocumentScore| {
            candidates.get(usize::try_from(choice.document.checked_sub(1)?).ok()?)
        })
        .map(|catalog_document| catalog_document.doc())
        .filter(|doc| distinct.insert(*doc))
        .collect())
}

fn describe_document(document: &CatalogDocument) -> String {
    let facts = FIELDS
        .iter()
        .flat_map(|field| field.canonical_values(document))
        .collect::<Vec<_>>()
        .join(", ");
    let about = document
        .entry()
        .and_then(|entry| entry.description.clone())
        .unwrap_or_default();
    let lines = [
        one_line(&document.version().name),
        one_line(&facts),
        truncate(&one_line(&about), ABOUT_CHARS),
    ];
    lines
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
