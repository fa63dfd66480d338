//! The ways in which a name refers to documents.

use std::sync::Arc;

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::display_names::{split_id_suffix, split_name, unescape};
use crate::store::terms::NameKind;

const ID_DIGITS: usize = 32;
// Names that differ in case only; more are not worth comparing.
const MAX_CANDIDATES: usize = 1_000;

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

impl Catalog {
    /// The documents that a name means, all or those of a set; at most `most` of them are read.
    pub(crate) fn named(
        &self,
        name: &DocumentName<'_>,
        inside: Option<&DocumentSet>,
        most: usize,
    ) -> PortResult<NamedDocuments> {
        let mut set = self.listed(self.numbers_named(name)?);
        if let Some(inside) = inside {
            set = set.and(inside);
        }
        Ok(NamedDocuments {
            count: set.len(),
            first: self.list(&set).take(most).collect::<PortResult<_>>()?,
        })
    }

    fn numbers_named(&self, name: &DocumentName<'_>) -> PortResult<RoaringBitmap> {
        let reader = self.reader();
        let mut numbers = RoaringBitmap::new();
        match *name {
            DocumentName::Label(label) => numbers.extend(self.labeled(label)?),
            DocumentName::PathOrUri { path, uri } => {
                if let Some(path) = path {
                    numbers.extend(reader.at_path(path)?);
                }
                numbers.extend(reader.named(NameKind::Uri, uri, usize::MAX)?);
            }
            DocumentName::NameOrStem(name) => {
                numbers.extend(reader.named(NameKind::Name, name, usize::MAX)?);
                numbers.extend(reader.named(NameKind::Stem, name, usize::MAX)?);
            }
            DocumentName::IdPrefix(id) => {
                if let Some((from, to)) = ids_with_prefix(id) {
                    numbers.extend(reader.numbers_between(from, to)?);
                    numbers &= reader.all()?.as_ref();
                }
            }
            DocumentName::LabelOrName { label, name } => {
                numbers.extend(self.labeled(label)?);
                numbers.extend(reader.named(NameKind::Name, name, usize::MAX)?);
            }
            DocumentName::WithId { name, id } => {
                numbers.extend(self.named_with_id(NameKind::Name, name, id)?);
            }
            DocumentName::Folded { stem, label } => {
                numbers.extend(reader.named(NameKind::Folded, stem, usize::MAX)?);
                if let Some(label) = label {
                    numbers.extend(self.labeled_in_any_case(label, &numbers)?);
                }
            }
        }
        Ok(numbers)
    }

    // The document with a label. A label tells which names it can be of.
    fn labeled(&self, label: &str) -> PortResult<Option<u32>> {
        let reader = self.reader();
        let plain = unescape(label);
        let mut candidates = reader.named(NameKind::Name, &plain, 2)?;
        candidates.extend(reader.named(NameKind::Stem, &plain, 2)?);
        if let Some((name, id)) = split_id_suffix(&plain) {
            candidates.extend(self.named_with_id(NameKind::Name, &name, id)?);
        }
        if let Ok(doc) = plain.parse() {
            candidates.extend(reader.number(doc)?);
        }
        for number in candidates {
            let document = reader.document(number)?;
            if document.is_some_and(|document| document.label == label) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    // The documents whose labels are the same without regard to case, beside those that are known.
    fn labeled_in_any_case(&self, label: &str, known: &RoaringBitmap) -> PortResult<Vec<u32>> {
        let reader = self.reader();
        let plain = unescape(label);
        let mut candidates = RoaringBitmap::new();
        for stem in [plain.as_str(), split_name(&plain).0] {
            candidates.extend(reader.named(NameKind::Folded, stem, MAX_CANDIDATES)?);
        }
        if let Some((name, id)) = split_id_suffix(&plain) {
            candidates.extend(self.named_with_id(NameKind::Folded, &fold_name(&name), id)?);
        }
        let mut labeled = Vec::new();
        for number in candidates - known {
            let document = reader.document(number)?;
            if document.is_some_and(|document| document.label.to_lowercase() == label) {
                labeled.push(number);
            }
        }
        Ok(labeled)
    }

    fn named_with_id(&self, kind: NameKind, name: &str, id: &str) -> PortResult<Vec<u32>> {
        match ids_with_prefix(id) {
            Some(range) => self.reader().named_between(kind, name, range, usize::MAX),
            None => Ok(Vec::new()),
        }
    }
}

// First and last id with these first hexadecimal digits.
fn ids_with_prefix(digits: &str) -> Option<(u128, u128)> {
    let is_lower_hex = digits
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if digits.is_empty() || digits.len() > ID_DIGITS || !is_lower_hex {
        return None;
    }
    let with = |fill: &str| {
        let rest = fill.repeat(ID_DIGITS - digits.len());
        u128::from_str_radix(&format!("{digits}{rest}"), 16).ok()
    };
    Some((with("0")?, with("f")?))
}

/// Lower case, without the file extension.
pub(crate) fn fold_name(name: &str) -> String {
    split_name(name).0.to_lowercase()
}
