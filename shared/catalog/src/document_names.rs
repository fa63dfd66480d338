//! The ways in which a name refers to documents.

use std::sync::Arc;

use stemma_engine::PortResult;

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::display_names::split_name;

/// What a name says about the documents that it means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DocumentName<'n> {
    Label(&'n str),
    PathOrUri {
        path: Option<&'n str>,
        uri: &'n str,
    },
    NameOrStem(&'n str),
    /// The first hexadecimal digits of the id, in lower case.
    IdPrefix(&'n str),
    LabelOrName {
        label: &'n str,
        name: &'n str,
    },
    WithId {
        name: &'n str,
        /// The first digits.
        id: &'n str,
    },
    /// Without regard to case.
    Folded {
        /// By [`fold_name`].
        stem: &'n str,
        /// In lower case.
        label: Option<&'n str>,
    },
}

/// The documents that a name means.
#[derive(Debug, Default)]
pub(crate) struct NamedDocuments {
    pub(crate) count: usize,
    /// By path, then id.
    pub(crate) first: Vec<Arc<CatalogDocument>>,
}

impl DocumentName<'_> {
    pub(crate) fn fits(&self, document: &CatalogDocument) -> bool {
        let version = document.version();
        match *self {
            DocumentName::Label(label) => document.label == label,
            DocumentName::PathOrUri { path, uri } => {
                path.is_some_and(|path| version.path == path) || version.uri == uri
            }
            DocumentName::NameOrStem(name) => {
                version.name == name || split_name(&version.name).0 == name
            }
            DocumentName::IdPrefix(id) => document.doc().to_string().starts_with(id),
            DocumentName::LabelOrName { label, name } => {
                document.label == label || version.name == name
            }
            DocumentName::WithId { name, id } => {
                version.name == name && document.doc().to_string().starts_with(id)
            }
            DocumentName::Folded { stem, label } => {
                fold_name(&version.name) == stem
                    || label.is_some_and(|label| document.label.to_lowercase() == label)
            }
        }
    }
}

impl Catalog {
    /// The documents that a name means, all or those of a set; at most `most` of them are read.
    pub(crate) fn named(
        &self,
        name: &DocumentName<'_>,
        inside: Option<&DocumentSet>,
        most: usize,
    ) -> PortResult<NamedDocuments> {
        let mut named = NamedDocuments::default();
        for document in self.documents() {
            let document = document?;
            if name.fits(&document) && inside.is_none_or(|inside| inside.contains(document.doc())) {
                named.count += 1;
                if named.first.len() < most {
                    named.first.push(document);
                }
            }
        }
        Ok(named)
    }
}

/// Lower case, without the file extension.
pub(crate) fn fold_name(name: &str) -> String {
    split_name(name).0.to_lowercase()
}
