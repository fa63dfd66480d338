//! The documents that a scope and a filter allow.

use stemma_catalog::catalog::{Catalog, DocumentSet};
use stemma_catalog::filter::Filter;
use stemma_retrieval::search::DocumentScope;
use stemma_store::PortResult;

// Includes documents without a tree.
pub(crate) fn documents_in_scope(
    catalog: &Catalog,
    scope: &DocumentScope,
    filter: &Filter,
) -> PortResult<DocumentSet> {
    let matching = catalog.matching(filter)?;
    Ok(match scope {
        DocumentScope::All => matching,
        DocumentScope::Documents(docs) => catalog.set_of(docs.iter().copied())?.and(&matching),
    })
}
