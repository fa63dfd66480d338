//! Which documents a question is for, where a model is asked: by their descriptions, or by what must be true of them.
//!
//! What a model says about metadata can only name fields and values that documents have: it chooses from a list, and never
//! writes a condition of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::OutputSchema;

use super::llm_session::{LlmSession, Prompt, SessionError};
use super::result::Note;
use super::search_tree::{one_line, truncate};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::filter::{Condition, Filter, FilterField, FilterOp};

/// How often a model looks at descriptions: where none fits, at those that fit next by words, once.
pub(super) const MAX_ROUNDS: usize = 2;
/// Characters of the description of a document.
const ABOUT_CHARS: usize = 300;
/// Values of a field that are shown.
const MAX_VALUES_SHOWN: usize = 40;
/// Fields a model may choose from.
const FIELDS: [FilterField; 4] = [
    FilterField::Company,
    FilterField::Form,
    FilterField::FiscalYear,
    FilterField::FiscalPeriod,
];
/// The score from which on a document is taken.
const MIN_SCORE: f32 = 0.3;

/// How documents are chosen for a question that does not name one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// By content, or by the model where that leaves many: by the descriptions of the `routing_described` that fit best by
    /// content; by metadata where content says nothing.
    #[default]
    Auto,
    /// By what search without a model finds in them.
    Content,
    /// The model chooses by descriptions.
    Description,
    /// The model names what must be true of them.
    Metadata,
}

impl Routing {
    /// How documents were chosen, in a few words.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Auto | Self::Content => "by content and years",
            Self::Description => "by their descriptions",
            Self::Metadata => "by what must be true of them",
        }
    }
}

/// What a model left of the documents.
#[derive(Debug, Default)]
pub(super) struct RoutingOutcome {
    /// Those that are left; `None`: it said nothing about them.
    pub(super) documents: Option<Vec<DocId>>,
    /// Facets and values it named that no document has.
    pub(super) unknown: u32,
    pub(super) note: Option<Note>,
}

impl Routing {
    /// The documents a model leaves of those in scope; `candidates`: those that fit best without one, of which so many are
    /// `describe_document` at a time.
    ///
    /// # Errors
    /// [`SessionError`] when there is no answer.
    pub(super) async fn narrow(
        self,
        question: &str,
        scope: &[&CatalogDocument],
        (candidates, described): (&[&CatalogDocument], usize),
        session: &LlmSession,
    ) -> Result<RoutingOutcome, SessionError> {
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
                let documents = matching_documents(&filter, scope);
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

/// The documents of these fiscal years, and of the year after each, which tells of the year before; `None`: of no year, or
/// there are none.
pub(super) fn documents_of_years(years: &[u16], scope: &[&CatalogDocument]) -> Option<Vec<DocId>> {
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
    matching_documents(
        &Filter {
            conditions: (!years.is_empty())
                .then_some(condition)
                .into_iter()
                .collect(),
        },
        scope,
    )
}

/// The documents that fit, best first, by their descriptions.
async fn by_description(
    question: &str,
    candidates: &[&CatalogDocument],
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
    struct Named {
        document: u64,
        score: f32,
    }
    #[derive(Deserialize)]
    struct Said {
        documents: Vec<Named>,
    }
    let mut choices = session
        .complete(&prompt, |reply: Said| Ok(reply.documents))
        .await?;
    choices.retain(|choices| choices.score >= MIN_SCORE);
    choices.sort_by(|a, b| b.score.total_cmp(&a.score));
    // A number that was not shown is no document.
    let mut distinct = BTreeSet::new();
    Ok(choices
        .iter()
        .filter_map(|choices: &Named| {
            candidates.get(usize::try_from(choices.document.checked_sub(1)?).ok()?)
        })
        .map(|catalog_document| catalog_document.doc())
        .filter(|doc| distinct.insert(*doc))
        .collect())
}

/// What must be true of documents, by what is true of some.
async fn by_metadata(
    question: &str,
    documents: &[&CatalogDocument],
    session: &LlmSession,
) -> Result<(Filter, u32), SessionError> {
    let field_values = values(question, documents);
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
    struct Named {
        facet: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct Said {
        conditions: Vec<Named>,
    }
    let choices = session
        .complete(&prompt, |reply: Said| Ok(reply.conditions))
        .await?;
    let mut chosen: BTreeMap<FilterField, Vec<String>> = BTreeMap::new();
    let mut unknown = 0;
    for Named { facet, value } in choices {
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
    // A document tells of the year before its own, too.
    if let Some(years) = chosen.get_mut(&FilterField::FiscalYear) {
        let later: Vec<String> = years
            .iter()
            .filter_map(|year: &String| Some((year.parse::<u16>().ok()? + 1).to_string()))
            .filter(|year| !years.contains(year))
            .collect();
        years.extend(later);
    }
    Ok((
        Filter {
            conditions: chosen
                .into_iter()
                .map(|(field, values)| Condition {
                    field,
                    op: FilterOp::In,
                    values,
                })
                .collect(),
        },
        unknown,
    ))
}

/// The values documents have, those with words of the question first.
fn values(question: &str, documents: &[&CatalogDocument]) -> BTreeMap<FilterField, Vec<String>> {
    let lower = question.to_lowercase();
    let is_mentioned = |value: &str| {
        value
            .split_whitespace()
            .any(|word| word.len() > 1 && lower.contains(word))
    };
    FIELDS
        .into_iter()
        .map(|field: FilterField| {
            let all: BTreeSet<String> = documents
                .iter()
                .flat_map(|document| field.values(document))
                .collect();
            let (mut first, rest): (Vec<String>, Vec<String>) =
                all.into_iter().partition(|value| is_mentioned(value));
            first.extend(rest);
            first.truncate(MAX_VALUES_SHOWN);
            (
                field,
                first
                    .iter()
                    .map(|value| one_line(value))
                    .collect::<Vec<_>>(),
            )
        })
        .filter(|(_, values)| values.len() > 1)
        .collect()
}

/// The documents for which a filter holds; `None` where it says nothing, or leaves none.
fn matching_documents(filter: &Filter, scope: &[&CatalogDocument]) -> Option<Vec<DocId>> {
    let fits = scope
        .iter()
        .filter(|document| filter.matches(document))
        .map(|document| document.doc());
    let fits: Vec<DocId> = if filter.is_empty() {
        Vec::new()
    } else {
        fits.collect()
    };
    Some(fits).filter(|fits| !fits.is_empty())
}

/// All documents with a tree in scope.
pub(super) fn in_scope<'a>(
    catalog: &'a Catalog,
    within: &stemma_retrieval::DocumentScope,
    filter: &Filter,
) -> Vec<&'a CatalogDocument> {
    catalog
        .documents()
        .iter()
        .filter(|document: &&CatalogDocument| match within {
            stemma_retrieval::DocumentScope::All => true,
            stemma_retrieval::DocumentScope::Documents(docs) => docs.contains(&document.doc()),
        })
        .filter(|document: &&CatalogDocument| {
            document.entry().is_some() && filter.matches(document)
        })
        .collect()
}

fn describe_document(document: &CatalogDocument) -> String {
    let facts = FIELDS
        .iter()
        .flat_map(|field| field.values(document))
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
