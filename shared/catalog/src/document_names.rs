//! The ways in which a name refers to documents.

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use crate::catalog::Catalog;
use crate::display_names::{fold_name, split_id_suffix, split_name, unescape};
use crate::store::terms::NameKind;

const ID_DIGITS: usize = 32;
// Names that differ in case only; more are not worth comparing.
const MAX_CANDIDATES: usize = 1_000;

impl Catalog {
    pub(crate) fn with_path_or_uri(
        &self,
        path: Option<&str>,
        uri: &str,
    ) -> PortResult<RoaringBitmap> {
        let reader = self.reader();
        let mut numbers = RoaringBitmap::new();
        if let Some(path) = path {
            numbers.extend(reader.at_path(path)?);
        }
        numbers.extend(reader.named(NameKind::Uri, uri, usize::MAX)?);
        Ok(numbers)
    }

    pub(crate) fn with_name(&self, kind: NameKind, name: &str) -> PortResult<RoaringBitmap> {
        let named = self.reader().named(kind, name, usize::MAX)?;
        Ok(named.into_iter().collect())
    }

    /// The documents whose ids start with these hexadecimal digits, in lower case.
    pub(crate) fn with_id_prefix(&self, id: &str) -> PortResult<RoaringBitmap> {
        let Some((from, to)) = ids_with_prefix(id) else {
            return Ok(RoaringBitmap::new());
        };
        let numbers: RoaringBitmap = self
            .reader()
            .numbers_between(from, to)?
            .into_iter()
            .collect();
        Ok(numbers & self.reader().all()?.as_ref())
    }

    // The document with a label. A label tells which names it can be of.
    pub(crate) fn labeled(&self, label: &str) -> PortResult<RoaringBitmap> {
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
                return Ok(RoaringBitmap::from([number]));
            }
        }
        Ok(RoaringBitmap::new())
    }

    /// The documents whose labels in lower case are `label`, without those that are known.
    pub(crate) fn labeled_in_any_case(
        &self,
        label: &str,
        known: &RoaringBitmap,
    ) -> PortResult<RoaringBitmap> {
        let reader = self.reader();
        let plain = unescape(label);
        let mut candidates = RoaringBitmap::new();
        for stem in [plain.as_str(), split_name(&plain).0] {
            candidates.extend(reader.named(NameKind::Folded, stem, MAX_CANDIDATES)?);
        }
        if let Some((name, id)) = split_id_suffix(&plain) {
            candidates.extend(self.named_with_id(NameKind::Folded, &fold_name(&name), id)?);
        }
        let mut labeled = RoaringBitmap::new();
        for number in candidates - known {
            let document = reader.document(number)?;
            if document.is_some_and(|document| document.label.to_lowercase() == label) {
                labeled.insert(number);
            }
        }
        Ok(labeled)
    }

    /// The documents with a name of this kind, whose ids start with these digits.
    pub(crate) fn named_with_id(
        &self,
        kind: NameKind,
        name: &str,
        id: &str,
    ) -> PortResult<Vec<u32>> {
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
