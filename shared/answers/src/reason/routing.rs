//! Which documents a question is for, where a model is asked: by their descriptions, or by what must be true of them.
//!
//! What a model says about metadata can only name fields and values that documents have: it chooses from a list, and never
//! writes a condition of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::Schema;

use super::asker::{AskError, Consultation, Prompt};
use super::outline::{cut, one_line};
use super::walked::Note;
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::filter::{Condition, Field, Filter, Op};

/// How often a model looks at descriptions: where none fits, at those that fit next by words, once.
pub(super) const LOOKS: usize = 2;
/// Characters of the description of a document.
const ABOUT_CHARS: usize = 300;
/// Values of a field that are shown.
const VALUES: usize = 40;
/// Fields a model may choose from.
const FIELDS: [Field; 4] = [
    Field::Company,
    Field::Form,
    Field::FiscalYear,
    Field::FiscalPeriod,
];
/// The score from which on a document is taken.
const FITS: f32 = 0.3;

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
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Auto | Self::Content => "by content and years",
            Self::Description => "by their descriptions",
            Self::Metadata => "by what must be true of them",
        }
    }
}

/// What a model left of the documents.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Those that are left; `None`: it said nothing about them.
    pub(super) documents: Option<Vec<DocId>>,
    /// Facets and values it named that no document has.
    pub(super) unknown: u32,
    pub(super) note: Option<Note>,
}

impl Routing {
    /// The documents a model leaves of those in scope; `candidates`: those that fit best without one, of which so many are
    /// `described` at a time.
    ///
    /// # Errors
    /// [`AskError`] when there is no answer.
    pub(super) async fn left(
        self,
        question: &str,
        scope: &[&Listed],
        (candidates, described): (&[&Listed], usize),
        consultation: &Consultation,
    ) -> Result<Left, AskError> {
        match self {
            Self::Auto | Self::Content => Ok(Left::default()),
            Self::Description => {
                for shown in candidates.chunks(described.max(1)).take(LOOKS) {
                    let fit = by_description(question, shown, consultation).await?;
                    if !fit.is_empty() {
                        return Ok(Left {
                            documents: Some(fit),
                            ..Left::default()
                        });
                    }
                }
                Ok(Left::default())
            }
            Self::Metadata => {
                let (filter, unknown) = by_metadata(question, scope, consultation).await?;
                let documents = holding(&filter, scope);
                let message =
                    "no document has all that the model asked of its metadata: that was left out";
                let is_empty = documents.is_none() && !filter.is_empty();
                let note = is_empty.then(|| Note::new("routing.filter_empty", message));
                Ok(Left {
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
pub(super) fn of_years(years: &[u16], scope: &[&Listed]) -> Option<Vec<DocId>> {
    let values: Vec<String> = years
        .iter()
        .flat_map(|year| [*year, year + 1])
        .map(|year| year.to_string())
        .collect();
    let condition = Condition {
        field: Field::FiscalYear,
        op: Op::In,
        values,
    };
    holding(
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
    candidates: &[&Listed],
    consultation: &Consultation,
) -> Result<Vec<DocId>, AskError> {
    let node = json!({
        "type": "object",
        "properties": { "document": { "type": "integer" }, "score": { "type": "number" }, "reason": { "type": "string" } },
        "required": ["document", "score", "reason"],
        "additionalProperties": false,
    });
    let properties = json!({ "documents": { "type": "array", "items": node } });
    let system = "Choose the documents that answer a question, by their descriptions. Give each that may a score from 0 \
                  (surely not) to 1 (surely) and a reason of a few words; leave the others out.";
    let mut prompt = Prompt::new(system, Schema::strict("route_documents", &properties))
        .block("Question", question);
    for (at, listed) in candidates.iter().enumerate() {
        prompt = prompt.block(format!("Document {}", at + 1), described(listed));
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
    let mut named = consultation
        .ask(&prompt, |said: Said| Ok(said.documents))
        .await?;
    named.retain(|named| named.score >= FITS);
    named.sort_by(|a, b| b.score.total_cmp(&a.score));
    // A number that was not shown is no document.
    let mut seen = BTreeSet::new();
    Ok(named
        .iter()
        .filter_map(|named: &Named| {
            candidates.get(usize::try_from(named.document.checked_sub(1)?).ok()?)
        })
        .map(|listed| listed.doc())
        .filter(|doc| seen.insert(*doc))
        .collect())
}

/// What must be true of documents, by what is true of some.
async fn by_metadata(
    question: &str,
    documents: &[&Listed],
    consultation: &Consultation,
) -> Result<(Filter, u32), AskError> {
    let known = values(question, documents);
    if known.is_empty() {
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
    let listing: Vec<String> = known
        .iter()
        .map(|(field, values)| format!("{}: {}", field.as_str(), values.join(" | ")))
        .collect();
    let prompt = Prompt::new(system, Schema::strict("route_filter", &properties))
        .block("Question", question)
        .block("Facets", listing.join("\n"));
    #[derive(Deserialize)]
    struct Named {
        facet: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct Said {
        conditions: Vec<Named>,
    }
    let named = consultation
        .ask(&prompt, |said: Said| Ok(said.conditions))
        .await?;
    let mut chosen: BTreeMap<Field, Vec<String>> = BTreeMap::new();
    let mut unknown = 0;
    for Named { facet, value } in named {
        let of = Field::named(&facet).and_then(|field| Some((field, known.get(&field)?)));
        match of.and_then(|(field, values)| {
            values
                .iter()
                .find(|known| **known == field.canonical(&value))
                .map(|v| (field, v))
        }) {
            Some((field, value)) => chosen.entry(field).or_default().push(value.clone()),
            None => unknown += 1,
        }
    }
    // A document tells of the year before its own, too.
    if let Some(years) = chosen.get_mut(&Field::FiscalYear) {
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
                    op: Op::In,
                    values,
                })
                .collect(),
        },
        unknown,
    ))
}

/// The values documents have, those with words of the question first.
fn values(question: &str, documents: &[&Listed]) -> BTreeMap<Field, Vec<String>> {
    let lower = question.to_lowercase();
    let named = |value: &str| {
        value
            .split_whitespace()
            .any(|word| word.len() > 1 && lower.contains(word))
    };
    FIELDS
        .into_iter()
        .map(|field: Field| {
            let all: BTreeSet<String> = documents
                .iter()
                .flat_map(|listed| field.values(listed))
                .collect();
            let (mut first, rest): (Vec<String>, Vec<String>) =
                all.into_iter().partition(|value| named(value));
            first.extend(rest);
            first.truncate(VALUES);
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
fn holding(filter: &Filter, scope: &[&Listed]) -> Option<Vec<DocId>> {
    let fits = scope
        .iter()
        .filter(|listed| filter.holds(listed))
        .map(|listed| listed.doc());
    let fits: Vec<DocId> = if filter.is_empty() {
        Vec::new()
    } else {
        fits.collect()
    };
    Some(fits).filter(|fits| !fits.is_empty())
}

/// All documents with a tree in scope.
pub(super) fn in_scope<'a>(
    catalogue: &'a Catalogue,
    within: &stemma_retrieval::Within,
    filter: &Filter,
) -> Vec<&'a Listed> {
    catalogue
        .documents()
        .iter()
        .filter(|listed: &&Listed| match within {
            stemma_retrieval::Within::All => true,
            stemma_retrieval::Within::Documents(docs) => docs.contains(&listed.doc()),
        })
        .filter(|listed: &&Listed| listed.entry().is_some() && filter.holds(listed))
        .collect()
}

fn described(listed: &Listed) -> String {
    let facts = FIELDS
        .iter()
        .flat_map(|field| field.values(listed))
        .collect::<Vec<_>>()
        .join(", ");
    let about = listed
        .entry()
        .and_then(|entry| entry.description.clone())
        .unwrap_or_default();
    let lines = [
        one_line(&listed.version().name),
        one_line(&facts),
        cut(&one_line(&about), ABOUT_CHARS),
    ];
    lines
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
