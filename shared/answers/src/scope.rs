//! Checks that there is something to answer from: documents in scope, their trees, and the requested Item.

use super::AnswerError;
use super::document_scope::documents_in_scope;
use super::request::AskRequest;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::items;
use stemma_retrieval::search::ItemRef;
use stemma_store::PortResult;

// Documents listed in an error message.
const MAX_LISTED_DOCUMENTS: usize = 5;
// Trees opened to look for an Item. In a larger scope the Item is assumed to exist.
const MAX_OPENED_DOCUMENTS: usize = 100;

/// Labels of the documents in scope that have no tree, with the reason, at most a few; empty when all have one.
///
/// # Errors
/// [`AnswerError::Question`] when the scope is empty, or no document in it has a tree.
pub(super) fn unreadable_documents(
    question: &AskRequest,
    catalog: &Catalog,
) -> Result<Vec<String>, AnswerError> {
    let in_scope = documents_in_scope(catalog, &question.within, &question.filter)?;
    if in_scope.is_empty() {
        let message = "there are no documents here to answer from".into();
        return Err(AnswerError::Question {
            code: "answer.no_documents",
            message,
        });
    }
    let without_tree = in_scope.without(&catalog.with_tree()?);
    let listed = catalog.list(&without_tree).take(MAX_LISTED_DOCUMENTS);
    let labels = listed.map(|document| document.map(|document| status_text(&document)));
    let mut labels = labels.collect::<PortResult<Vec<String>>>()?;
    let more = without_tree.len().saturating_sub(MAX_LISTED_DOCUMENTS);
    labels.extend((more > 0).then(|| format!("and {more} more")));

    if without_tree.len() == in_scope.len() {
        let message = format!("no document here has a tree yet: {}", labels.join(", "));
        return Err(AnswerError::Question {
            code: "document.no_tree",
            message,
        });
    }
    Ok(labels)
}

/// `scan (failed: no text layer)`.
fn status_text(document: &CatalogDocument) -> String {
    match &document.failure {
        Some(failure) => format!(
            "{} ({}: {})",
            document.label,
            document.state.as_str(),
            failure.message
        ),
        None => format!("{} ({})", document.label, document.state.as_str()),
    }
}

/// Checks that a document in scope has the Item of the question. Called when the search found nothing.
///
/// # Errors
/// [`AnswerError::Question`] when no document in scope has it, or the error of the store.
pub(super) async fn check_item(
    question: &AskRequest,
    catalog: &Catalog,
    store: &dyn DocumentStore,
) -> Result<(), AnswerError> {
    let Some(item) = &question.item else {
        return Ok(());
    };
    let in_scope = documents_in_scope(catalog, &question.within, &question.filter)?;
    if in_scope.len() > MAX_OPENED_DOCUMENTS {
        return Ok(());
    }
    let with_tree = in_scope.and(&catalog.with_tree()?);
    let documents: PortResult<Vec<_>> = catalog.list(&with_tree).collect();
    for document in documents? {
        let Some(tree) = store.tree(&document).await? else {
            continue;
        };
        if items::section_items(&tree)
            .iter()
            .any(|section_item| matches_item(section_item, item))
        {
            return Ok(());
        }
    }
    let message = format!("no document here has an Item {}", item.number);
    Err(AnswerError::Question {
        code: "locator.no_item",
        message,
    })
}

pub(super) fn matches_item(section_item: &items::SectionItem, item: &ItemRef) -> bool {
    let part = item.part.is_none() || section_item.part.is_none() || section_item.part == item.part;
    part && section_item.number.eq_ignore_ascii_case(&item.number)
}
