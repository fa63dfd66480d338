//! The documents that a scope and a filter allow.

use std::collections::HashSet;

use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::filter::Filter;
use stemma_document::DocId;
use stemma_retrieval::search::DocumentScope;

/// The documents of a scope as a set; `None` for all documents.
pub(super) fn scope_set(scope: &DocumentScope) -> Option<HashSet<DocId>> {
    match scope {
        DocumentScope::All => None,
        DocumentScope::Documents(docs) => Some(docs.iter().copied().collect()),
    }
}

// Includes documents without a tree. A folder may list tens of thousands of documents, so membership is a set lookup.
pub(crate) fn documents_in_scope<'a>(
    catalog: &'a Catalog,
    scope: &DocumentScope,
    filter: &'a Filter,
) -> impl Iterator<Item = &'a CatalogDocument> + use<'a> {
    let docs = scope_set(scope);
    catalog
        .documents()
        .iter()
        .filter(move |document| {
            docs.as_ref()
                .is_none_or(|docs| docs.contains(&document.doc()))
        })
        .filter(|document| filter.matches(document))
}
