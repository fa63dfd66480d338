//! Chooses documents for a question: by content, and where that leaves many, with a model.
//!
//! The model reads the descriptions of those that fit best by content. Where content says nothing, it names metadata conditions:
//! it picks from fields and values that documents have, and never writes a condition of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::OutputSchema;
use stemma_store::PortResult;

use super::llm_session::{LlmSession, Prompt, SessionError};
use super::result::{Note, TreeSearchTrace};
use super::scoring::ScoringQuestion;
use super::search_tree::{one_line, truncate};
use super::searcher::TreeSearchSources;
use crate::document_scope::documents_in_scope;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::filter::{Condition, Filter, FilterOp};
use stemma_catalog::property::Property;
use stemma_retrieval::search::{DocumentScope, Query, SearchError, SearchResults};

// Documents that are described in one call: with 6 the right one is missed in 4.5 % of questions, with 24 it is found as with 12
// (docs/guide/search.md).
const DESCRIBED: usize = 12;
// When no description fits, the next best documents by content are described once more.
const MAX_ROUNDS: usize = 2;
// Hits used to choose documents. Several per described document, since many hits in one document crowd out others.
const ROUTING_HITS: usize = 8 * MAX_ROUNDS * DESCRIBED;
const ABOUT_CHARS: usize = 300;
const MAX_VALUES_SHOWN: usize = 40;
const FIELDS: [Property; 4] = [
    Property::Company,
    Property::Form,
    Property::FiscalYear,
    Property::FiscalPeriod,
];
const MIN_SCORE: f32 = 0.3;
// How documents were chosen, for the trace.
const BY_CONTENT: &str = "by content and years";
const BY_DESCRIPTION: &str = "by their descriptions";

// The documents to choose from.
#[derive(Clone, Copy)]
struct RoutingScope<'a> {
    catalog: &'a Catalog,
    documents: &'a DocumentSet,
}

/// At most `most` documents to walk, and the hits of search without a model in them.
///
/// # Errors
/// [`SearchError`] when search without a model fails, or the catalog cannot be read.
pub(super) async fn route(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    question: &ScoringQuestion,
    most: usize,
    session: &LlmSession,
    trace: &mut TreeSearchTrace,
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
    let (asked, how) = match ranked.len() {
        // The question names its issuer, or content leaves no more documents than are walked.
        found if (1..=most).contains(&found) => (None, BY_CONTENT),
        // Content does not tell which of very many documents to describe.
        0 if in_scope.len() > DESCRIBED => (
            by_metadata(&question.question, scope, session, trace).await?,
            "by what must be true of them",
        ),
        _ => {
            let shortlist = described(scope, &ranked)?;
            let fitting = by_description(&question.question, &shortlist, session).await;
            let fitting = fitting.unwrap_or_else(|error| {
                trace.note_failure("routing", &error);
                None
            });
            (fitting, BY_DESCRIPTION)
        }
    };
    let years = question
        .analysis
        .iter()
        .flat_map(|analysis| &analysis.years);
    let years: Vec<u16> = years.copied().collect();
    let (narrowed, how) = match asked {
        Some(documents) => (documents, how),
        None => match documents_of_years(&years, scope)? {
            Some(documents) => (documents, BY_CONTENT),
            None => return Ok((first, ranked.into_iter().take(most).collect())),
        },
    };
    trace.add_step(
        "routing",
        format!("{} of {} documents, {how}", narrowed.len(), in_scope.len()),
    );
    let within = DocumentScope::Documents(narrowed.clone());
    let wide = Query { within, ..wide };
    let results = sources.search.search(&wide, Some(session)).await?;
    let by_content = best_documents(&results, narrowed.len());
    // The model puts the documents that it chooses by description in order.
    let mut order = match how == BY_DESCRIPTION || by_content.is_empty() {
        true => narrowed,
        false => by_content,
    };
    order.truncate(most);
    // Metadata may be wrong or missing, and so may the model: the best document by content is always walked.
    if let Some(best) = ranked
        .first()
        .filter(|best| most > 1 && !order.contains(best))
    {
        order.truncate(most - 1);
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
fn documents_of_years(years: &[u16], scope: RoutingScope<'_>) -> PortResult<Option<Vec<DocId>>> {
    let values: Vec<String> = years
        .iter()
        .flat_map(|year| [*year, year + 1])
        .map(|year| year.to_string())
        .collect();
    let condition = Condition {
        field: Property::FiscalYear,
        op: FilterOp::In,
        values,
    };
    if years.is_empty() {
        return Ok(None);
    }
    matching_documents(&Filter::Condition(condition), scope)
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

// Documents that match what the model says; `None` if no document has any of it.
async fn by_metadata(
    question: &str,
    scope: RoutingScope<'_>,
    session: &LlmSession,
    trace: &mut TreeSearchTrace,
) -> PortResult<Option<Vec<DocId>>> {
    let values = known_values(question, scope)?;
    let (filter, unknown) = match named_conditions(question, &values, session).await {
        Ok(named) => named,
        Err(error) => {
            trace.note_failure("routing", &error);
            return Ok(None);
        }
    };
    trace.unknown_ids += unknown;
    let documents = matching_documents(&filter, scope)?;
    if documents.is_none() && !filter.is_empty() {
        let message = "no document has all that the model asked of its metadata: that was left out";
        trace.notes.push(Note::new("routing.filter_empty", message));
    }
    Ok(documents)
}

// The conditions of the model's reply, and how many of them no document has.
async fn named_conditions(
    question: &str,
    field_values: &BTreeMap<Property, Vec<String>>,
    session: &LlmSession,
) -> Result<(Filter, u32), SessionError> {
    if field_values.is_empty() {
        return Ok((Filter::default(), 0));
    }
    let node = json!({
        "type": "object",
        "properties": { "facet": { "type": "string" }, "value": { "type": "string" } },
        "required": ["facet", "value"],
        "additionalProperties": false,
    });
    let properties = json!({ "conditions": { "type": "array", "items": node } });
    let system = "A question is to be answered from documents of which some facts are known. Name the facts that a document \
                  must have to answer it, each with a facet and a value copied from the list; several values of one facet \
                  where any of them will do. None where the question does not say. A document tells of the years before \
                  its own, too.";
    let listing: Vec<String> = field_values
        .iter()
        .map(|(field, values)| format!("{}: {}", field.name(), values.join(" | ")))
        .collect();
    let prompt = Prompt::new(system, OutputSchema::strict("route_filter", &properties))
        .with_block("Question", question)
        .with_block("Facets", listing.join("\n"));
    #[derive(Deserialize)]
    struct NamedCondition {
        facet: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct ConditionList {
        conditions: Vec<NamedCondition>,
    }
    let choices = session
        .complete(&prompt, |reply: ConditionList| Ok(reply.conditions))
        .await?;
    let mut chosen: BTreeMap<Property, Vec<String>> = BTreeMap::new();
    let mut unknown = 0;
    for NamedCondition { facet, value } in choices {
        let of = Property::from_filter_name(&facet)
            .and_then(|field| Some((field, field_values.get(&field)?)));
        match of.and_then(|(field, values)| {
            values
                .iter()
                .find(|field_values| **field_values == field.canonical(&value))
                .map(|v| (field, v))
        }) {
            Some((field, value)) => chosen.entry(field).or_default().push(value.clone()),
            None => unknown += 1,
        }
    }
    // A filing also tells of the year before.
    if let Some(years) = chosen.get_mut(&Property::FiscalYear) {
        let later: Vec<String> = years
            .iter()
            .filter_map(|year: &String| Some((year.parse::<u16>().ok()? + 1).to_string()))
            .filter(|year| !years.contains(year))
            .collect();
        years.extend(later);
    }
    Ok((
        Filter::All(
            chosen
                .into_iter()
                .map(|(field, values)| {
                    Filter::Condition(Condition {
                        field,
                        op: FilterOp::In,
                        values,
                    })
                })
                .collect(),
        ),
        unknown,
    ))
}

// Values of the documents' fields; those that the question mentions come first.
fn known_values(
    question: &str,
    scope: RoutingScope<'_>,
) -> PortResult<BTreeMap<Property, Vec<String>>> {
    let lower = question.to_lowercase();
    let mut values = BTreeMap::new();
    for field in FIELDS {
        let all = scope.catalog.facet_counts(scope.documents, field)?;
        let all = all.values.into_iter().map(|value| value.normalized);
        let (mut first, rest): (Vec<String>, Vec<String>) = all.partition(|value| {
            value
                .split_whitespace()
                .any(|word| word.len() > 1 && lower.contains(word))
        });
        first.extend(rest);
        first.truncate(MAX_VALUES_SHOWN);
        if first.len() > 1 {
            values.insert(field, first.iter().map(|value| one_line(value)).collect());
        }
    }
    Ok(values)
}

// `None` when the filter is empty or nothing matches.
fn matching_documents(filter: &Filter, scope: RoutingScope<'_>) -> PortResult<Option<Vec<DocId>>> {
    if filter.is_empty() {
        return Ok(None);
    }
    let fits = scope.catalog.matching(filter)?.and(scope.documents);
    let documents = scope.catalog.list(&fits);
    let docs = documents.map(|document| Ok(document?.doc()));
    let docs = docs.collect::<PortResult<Vec<DocId>>>()?;
    Ok(Some(docs).filter(|docs| !docs.is_empty()))
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
