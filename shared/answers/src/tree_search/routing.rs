//! Chooses documents for a question: by content, and where that leaves many, with a model, which reads the descriptions of those
//! that fit best by content.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use stemma_document::DocId;
use stemma_llm::request::OutputSchema;
use stemma_store::PortResult;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::TreeSearchReport;
use super::search_tree::{one_line, truncate};
use super::searcher::TreeSearchSources;
use super::session_error::SessionError;
use crate::document_scope::documents_in_scope;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::property::Property;
use stemma_retrieval::search::{Query, SearchError, SearchResults};

// Documents that are walked for a question.
const WALKED: usize = 3;
// Documents that are described: with 6 the right one is missed in 4.5 % of questions, with 24 it is found as with 12
// (docs/guide/search.md).
const DESCRIBED: usize = 12;
// Hits used to choose documents. Several per described document, since many hits in one document crowd out others.
const ROUTING_HITS: usize = 16 * DESCRIBED;
const ABOUT_CHARS: usize = 300;
// Properties of a document that its description starts with.
const FIELDS: [Property; 4] = [
    Property::Company,
    Property::Form,
    Property::FiscalYear,
    Property::FiscalPeriod,
];
const MIN_SCORE: f32 = 0.3;

/// At most `WALKED` documents to walk, and the results of a search without a model in the whole scope.
///
/// # Errors
/// [`SearchError`] when search without a model fails, or the catalog cannot be read.
pub(super) async fn route(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    question: &str,
    session: &LlmSession,
    report: &mut TreeSearchReport,
) -> Result<(SearchResults, Vec<DocId>), SearchError> {
    let catalog = sources.catalog;
    let in_scope =
        documents_in_scope(catalog, &plain.within, &plain.filter)?.and(&catalog.with_tree()?);
    let wide = Query {
        limit: ROUTING_HITS,
        ..plain.clone()
    };
    let results = sources.search.search(&wide, Some(session)).await?;
    if in_scope.len() <= 1 {
        return Ok((results, catalog.ids(&in_scope)?));
    }
    let mut ranked = best_documents(&results);
    // Content leaves no more documents than are walked, as where the question names its issuer.
    if (1..=WALKED).contains(&ranked.len()) {
        return Ok((results, ranked));
    }
    let shortlist = described(catalog, &in_scope, &ranked)?;
    let named = fitting_documents(question, &shortlist, session).await;
    let mut named = named.unwrap_or_else(|error| {
        report.note_failure("routing", &error);
        Vec::new()
    });
    if named.is_empty() {
        ranked.truncate(WALKED);
        return Ok((results, ranked));
    }
    report.add_step(
        "routing",
        format!(
            "{} of {} documents, by their descriptions",
            named.len(),
            in_scope.len()
        ),
    );
    named.truncate(WALKED);
    // Metadata may be wrong or missing, and so may the model: the best document by content is always walked.
    if let Some(best) = ranked.first().filter(|best| !named.contains(best)) {
        named.truncate(WALKED - 1);
        named.push(*best);
    }
    Ok((results, named))
}

// The documents that are described: the best ones by content, or the first in scope without any.
fn described(
    catalog: &Catalog,
    in_scope: &DocumentSet,
    ranked: &[DocId],
) -> PortResult<Vec<Arc<CatalogDocument>>> {
    let listed: Vec<Option<_>> = ranked
        .iter()
        .map(|doc| catalog.get(*doc))
        .collect::<PortResult<_>>()?;
    let shortlist: Vec<_> = listed.into_iter().flatten().collect();
    match shortlist.is_empty() {
        true => catalog.list(in_scope).take(DESCRIBED).collect(),
        false => Ok(shortlist),
    }
}

// At most `DESCRIBED` documents, best first.
fn best_documents(results: &SearchResults) -> Vec<DocId> {
    let mut scores: BTreeMap<DocId, (f64, u32)> = BTreeMap::new();
    for hit in &results.hits {
        let (sum, count) = scores.entry(hit.doc_id).or_default();
        (*sum, *count) = (*sum + hit.score, *count + 1);
    }
    // Sum of scores over the root of n + 1 (PageIndex's DocScore): many matching sections speak for a document, but each less
    // than the first.
    let mut ranked: Vec<(DocId, f64)> = scores
        .into_iter()
        .map(|(doc, (sum, count))| (doc, sum / f64::from(count + 1).sqrt()))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(DESCRIBED);
    ranked.into_iter().map(|(doc, _)| doc).collect()
}

// Documents that may have the answer by their descriptions, best first.
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
    let mut documents: Vec<DocId> = Vec::new();
    for choice in choices {
        let at = choice.document.checked_sub(1).map(usize::try_from);
        let candidate = at.and_then(|at| candidates.get(at.ok()?));
        let doc = candidate.map(|candidate| candidate.doc());
        documents.extend(doc.filter(|doc| !documents.contains(doc)));
    }
    Ok(documents)
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
