//! Chooses documents for a question with a model: by their descriptions, or by metadata conditions.
//!
//! Conditions can only name fields and values that documents have: the model picks from a list and never writes a condition of
//! its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::OutputSchema;
use stemma_store::{PortError, PortResult};

use super::llm_session::{LlmSession, Prompt, SessionError};
use super::result::Note;

use super::search_tree::{one_line, truncate};
use crate::document_scope::documents_in_scope;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::facets::FacetField;
use stemma_catalog::filter::{Condition, Filter, FilterField, FilterOp};

// When no description fits, the next best documents by content are described once more.
pub(super) const MAX_ROUNDS: usize = 2;
const ABOUT_CHARS: usize = 300;
const MAX_VALUES_SHOWN: usize = 40;
const FIELDS: [(FilterField, FacetField); 4] = [
    (FilterField::Company, FacetField::Company),
    (FilterField::Form, FacetField::Form),
    (FilterField::FiscalYear, FacetField::FiscalYear),
    (FilterField::FiscalPeriod, FacetField::FiscalPeriod),
];
const MIN_SCORE: f32 = 0.3;

/// How documents are chosen for a question that does not name one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// By content. When that leaves many, by the descriptions of the `routing_described` that fit best by content; by
    /// metadata when content says nothing.
    #[default]
    Auto,
    /// By what search without a model finds in them.
    Content,
    /// The model picks by descriptions.
    Description,
    /// The model names metadata conditions.
    Metadata,
}

/// The documents to choose from.
#[derive(Clone, Copy)]
pub(super) struct RoutingScope<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) documents: &'a DocumentSet,
}

/// Why documents were not chosen.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoutingError {
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The catalog cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Routing {
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Auto | Self::Content => "by content and years",
            Self::Description => "by their descriptions",
            Self::Metadata => "by what must be true of them",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RoutingOutcome {
    // `None`: the model's reply does not restrict the documents.
    pub(super) documents: Option<Vec<DocId>>,
    // Facets and values in the reply that no document has.
    pub(super) unknown: u32,
    pub(super) note: Option<Note>,
}

impl Routing {
    // `candidates`: the documents that fit best by content, of which `described` are described per call.
    pub(super) async fn narrow(
        self,
        question: &str,
        scope: RoutingScope<'_>,
        (candidates, described): (&[Arc<CatalogDocument>], usize),
        session: &LlmSession,
    ) -> Result<RoutingOutcome, RoutingError> {
        match self {
            Self::Auto | Self::Content => Ok(RoutingOutcome::default()),
            Self::Description => {
                for batch in candidates.chunks(described.max(1)).take(MAX_ROUNDS) {
                    let fit = by_description(question, batch, session).await?;
                    if !fit.is_empty() {
                        return Ok(RoutingOutcome {
                            documents: Some(fit),
                            ..RoutingOutcome::default()
                        });
                    }
                }
                Ok(RoutingOutcome::default())
            }
            Self::Metadata => {
                let (filter, unknown) = by_metadata(question, scope, session).await?;
                let documents = matching_documents(&filter, scope)?;
                let message =
                    "no document has all that the model asked of its metadata: that was left out";
                let is_empty = documents.is_none() && !filter.is_empty();
                let note = is_empty.then(|| Note::new("routing.filter_empty", message));
                Ok(RoutingOutcome {
                    documents,
                    unknown,
                    note,
                })
            }
        }
    }
}

// A filing also tells of the year before, so the filings of the year after each count too. `None` when nothing matches.
pub(super) fn documents_of_years(
    years: &[u16],
    scope: RoutingScope<'_>,
) -> PortResult<Option<Vec<DocId>>> {
    let values: Vec<String> = years
        .iter()
        .flat_map(|year| [*year, year + 1])
        .map(|year| year.to_string())
        .collect();
    let condition = Condition {
        field: FilterField::FiscalYear,
        op: FilterOp::In,
        values,
    };
    if years.is_empty() {
        return Ok(None);
    }
    matching_documents(&Filter::Condition(condition), scope)
}

// Matching documents, best first.
async fn by_description(
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

// The conditions of the model's reply, and how many of them no document has.
async fn by_metadata(
    question: &str,
    scope: RoutingScope<'_>,
    session: &LlmSession,
) -> Result<(Filter, u32), RoutingError> {
    let field_values = values(question, scope)?;
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
        .map(|(field, values)| format!("{}: {}", field.as_str(), values.join(" | ")))
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
    let mut chosen: BTreeMap<FilterField, Vec<String>> = BTreeMap::new();
    let mut unknown = 0;

    for NamedCondition { facet, value } in choices {
        let of = FilterField::from_name(&facet)
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
    if let Some(years) = chosen.get_mut(&FilterField::FiscalYear) {
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
fn values(
    question: &str,
    scope: RoutingScope<'_>,
) -> PortResult<BTreeMap<FilterField, Vec<String>>> {
    let lower = question.to_lowercase();
    let mut values = BTreeMap::new();
    for (field, facet) in FIELDS {
        let all = scope.catalog.facet_counts(scope.documents, facet)?;
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

// Documents in scope that have a tree.
pub(super) fn in_scope(
    catalog: &Catalog,
    within: &stemma_retrieval::DocumentScope,
    filter: &Filter,
) -> PortResult<DocumentSet> {
    Ok(documents_in_scope(catalog, within, filter)?.and(&catalog.with_tree()?))
}

fn describe_document(document: &CatalogDocument) -> String {
    let facts = FIELDS
        .iter()
        .flat_map(|(field, _)| field.values(document))
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
