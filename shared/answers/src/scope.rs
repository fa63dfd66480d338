//! Whether there is anything to answer from: documents in the scope, their trees, and the Item that is asked for.

use super::AnswerError;
use super::request::AskRequest;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::items;
use stemma_retrieval::search::{DocumentScope, ItemRef};

/// Documents that are named in a refusal.
const MAX_LISTED_DOCUMENTS: usize = 5;
/// Documents whose trees are looked at for an Item; in more of them it is taken to be.
const MAX_OPENED_DOCUMENTS: usize = 100;

/// The documents of a question that have a tree or are to have one.
fn documents_in_scope<'c>(question: &AskRequest, catalog: &'c Catalog) -> Vec<&'c CatalogDocument> {
    catalog
        .documents()
        .iter()
        .filter(|document: &&CatalogDocument| match &question.within {
            DocumentScope::All => true,
            DocumentScope::Documents(docs) => docs.contains(&document.doc()),
        })
        .filter(|document| question.filter.matches(document))
        .collect()
}

/// Documents in the scope that have no tree, and why, cut to some; none where all have one.
///
/// # Errors
/// [`AnswerError::AskRequest`] where no document is there, or none has a tree: nobody knows what is in them.
pub(super) fn unreadable_documents(
    question: &AskRequest,
    catalog: &Catalog,
) -> Result<Vec<String>, AnswerError> {
    let inside = documents_in_scope(question, catalog);
    if inside.is_empty() {
        let message = "there are no documents here to answer from".into();
        return Err(AnswerError::Question {
            code: "answer.no_documents",
            message,
        });
    }
    let bare = || inside.iter().filter(|listed| listed.entry().is_none());
    let mut labels: Vec<String> = bare()
        .take(MAX_LISTED_DOCUMENTS)
        .map(|listed| status_text(listed))
        .collect();
    let more = bare().count().saturating_sub(MAX_LISTED_DOCUMENTS);
    labels.extend((more > 0).then(|| format!("and {more} more")));
    if bare().count() == inside.len() {
        let message = format!(
            "nothing here can be read, for there is no tree: {}",
            labels.join(", ")
        );
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

/// Looks for the Item of a question where nothing was found.
///
/// # Errors
/// [`AnswerError::AskRequest`] where no document in the scope has it; or the store could not say.
pub(super) async fn check_item(
    question: &AskRequest,
    catalog: &Catalog,
    store: &dyn DocumentStore,
) -> Result<(), AnswerError> {
    let Some(item) = &question.item else {
        return Ok(());
    };
    let inside = documents_in_scope(question, catalog);
    if inside.len() > MAX_OPENED_DOCUMENTS {
        return Ok(());
    }
    for catalog_document in inside
        .into_iter()
        .filter(|catalog_document| catalog_document.entry().is_some())
    {
        let Some(tree) = store.tree(catalog_document).await? else {
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
        code: "locator.item",
        message,
    })
}

fn matches_item(section_item: &items::SectionItem, item: &ItemRef) -> bool {
    let part = item.part.is_none() || section_item.part.is_none() || section_item.part == item.part;
    part && section_item.number.eq_ignore_ascii_case(&item.number)
}
