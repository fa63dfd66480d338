//! Sets of documents of a catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use stemma_document::DocId;
use stemma_engine::PortResult;

use crate::document::CatalogDocument;

/// Documents of one catalog, or of a later state of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentSet {
    docs: BTreeSet<DocId>,
}

impl DocumentSet {
    /// Number of documents.
    pub fn len(&self) -> usize {
        self.docs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.docs.is_empty()
    }

    /// The documents of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.docs.intersection(&other.docs).copied().collect()
    }

    /// The documents of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.docs.difference(&other.docs).copied().collect()
    }

    pub(crate) fn contains(&self, doc: DocId) -> bool {
        self.docs.contains(&doc)
    }

    pub(crate) fn docs(&self) -> impl Iterator<Item = DocId> {
        self.docs.iter().copied()
    }
}

impl FromIterator<DocId> for DocumentSet {
    fn from_iter<T: IntoIterator<Item = DocId>>(docs: T) -> Self {
        let docs = docs.into_iter().collect();
        Self { docs }
    }
}

/// Iterates over documents, which are read from the catalog one after another.
pub struct Documents<'a>(Box<dyn Iterator<Item = PortResult<Arc<CatalogDocument>>> + Send + 'a>);

impl<'a> Documents<'a> {
    pub(crate) fn new(
        documents: impl Iterator<Item = PortResult<Arc<CatalogDocument>>> + Send + 'a,
    ) -> Self {
        Self(Box::new(documents))
    }
}

impl Iterator for Documents<'_> {
    type Item = PortResult<Arc<CatalogDocument>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}
