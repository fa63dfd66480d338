//! Lists the documents of a set in the order of one of their properties.
//!
//! Each value has the set of its documents, so this order goes through the values, and through the documents of each by path.
//! Documents without the property come last. A document with several values is listed at its first: an issuer before its
//! co-registrants.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::DocId;
use stemma_store::PortResult;

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::document_set::{Documents, WholeSets};
use crate::property::Property;
use crate::store::FieldValues;
use crate::store::terms::{TermField, number_term};

/// What a list is ordered by: a property, ascending or descending. Its text is the name of the property, behind `-` if it
/// descends. The default is by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentOrder {
    pub field: Property,
    /// Of the values. Documents with the same value are always by path.
    pub is_descending: bool,
}

/// The place of a document in an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderPosition {
    value: Option<String>,
    path: String,
    doc: DocId,
}

impl Default for DocumentOrder {
    fn default() -> Self {
        Self {
            field: Property::Path,
            is_descending: false,
        }
    }
}

impl DocumentOrder {
    pub fn position(self, document: &CatalogDocument) -> OrderPosition {
        OrderPosition {
            value: self.value(document),
            path: document.version().path.clone(),
            doc: document.doc(),
        }
    }

    pub fn compare(self, left: &OrderPosition, right: &OrderPosition) -> Ordering {
        let by_value = match (&left.value, &right.value) {
            (Some(left), Some(right)) if self.is_descending => right.cmp(left),
            (Some(left), Some(right)) => left.cmp(right),
            (left, right) => left.is_none().cmp(&right.is_none()),
        };
        let by_path = (&left.path, left.doc).cmp(&(&right.path, right.doc));
        by_value.then(if self.descends_by_path() {
            by_path.reverse()
        } else {
            by_path
        })
    }

    fn descends_by_path(self) -> bool {
        self.field == Property::Path && self.is_descending
    }

    // `None` for paths, which have a table of their own.
    fn term_field(self) -> Option<TermField> {
        if self.field.is_facet() {
            Some(TermField::Text(self.field))
        } else {
            TermField::for_filter(self.field)
        }
    }

    // As it is stored.
    fn value(self, document: &CatalogDocument) -> Option<String> {
        match self.term_field()? {
            TermField::Number(field) => number_term(field.canonical_values(document).first()?),
            _ => self.field.canonical_values(document).into_iter().next(),
        }
    }
}

impl fmt::Display for DocumentOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_descending { "-" } else { "" };
        write!(f, "{sign}{}", self.field.name())
    }
}

/// The text names no order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a list is sorted by {fields}, or by one of these after `-` to descend",
    fields = Property::orders().map(Property::name).collect::<Vec<_>>().join(", ")
)]
pub struct OrderError;

impl FromStr for DocumentOrder {
    type Err = OrderError;

    fn from_str(text: &str) -> Result<Self, OrderError> {
        let name = text.strip_prefix('-');
        let is_descending = name.is_some();
        let name = name.unwrap_or(text);
        Property::orders()
            .find(|field| field.name() == name)
            .map(|field| Self {
                field,
                is_descending,
            })
            .ok_or(OrderError)
    }
}

/// Documents in some order, read one after another.
pub type OrderedDocuments<'c> = Box<dyn Iterator<Item = PortResult<Arc<CatalogDocument>>> + 'c>;

impl Catalog {
    /// The documents of a set, ordered by path, then id.
    pub fn list<'a>(&'a self, set: &'a DocumentSet) -> OrderedDocuments<'a> {
        self.list_ordered(set, DocumentOrder::default(), None)
    }

    /// The documents of a set in an order, from the one behind a position.
    ///
    /// A page goes through all values of the field at most, or through all paths if many documents share a value.
    pub fn list_ordered<'a>(
        &'a self,
        set: &'a DocumentSet,
        order: DocumentOrder,
        after: Option<OrderPosition>,
    ) -> OrderedDocuments<'a> {
        self.list_ordered_by(set, order, after, WholeSets::default())
    }

    pub(crate) fn list_ordered_by<'a>(
        &'a self,
        set: &'a DocumentSet,
        order: DocumentOrder,
        after: Option<OrderPosition>,
        whole: WholeSets,
    ) -> OrderedDocuments<'a> {
        let listed = match order.term_field() {
            None => {
                let after = after.map(OrderPosition::into_path);
                let set = Cow::Borrowed(set);
                let is_descending = order.descends_by_path();
                return Box::new(Documents::new(self, set, after, is_descending, whole));
            }
            Some(_) if set.numbers.len() <= whole.max_read => self
                .sorted_by_value(set, order, after.as_ref())
                .map(|numbers| -> OrderedDocuments<'a> {
                    Box::new(Documents::from_numbers(self, numbers))
                }),
            Some(field) => self.listed_by_value(set, (order, field), after, whole),
        };
        listed.unwrap_or_else(|error| Box::new(Documents::failed(self, error)))
    }

    fn sorted_by_value(
        &self,
        set: &DocumentSet,
        order: DocumentOrder,
        after: Option<&OrderPosition>,
    ) -> PortResult<Vec<u32>> {
        let mut entries = Vec::with_capacity(set.len());
        for number in &set.numbers {
            let Some(document) = self.reader().unlabeled(number)? else {
                continue;
            };
            let position = order.position(&document);
            if after.is_none_or(|after| order.compare(&position, after).is_gt()) {
                entries.push((position, number));
            }
        }
        entries.sort_unstable_by(|(left, _), (right, _)| order.compare(left, right));
        Ok(entries.into_iter().map(|(_, number)| number).collect())
    }

    fn listed_by_value<'a>(
        &'a self,
        set: &'a DocumentSet,
        (order, field): (DocumentOrder, TermField),
        after: Option<OrderPosition>,
        whole: WholeSets,
    ) -> PortResult<OrderedDocuments<'a>> {
        let first = after.as_ref().map(|after| after.value.clone());
        let values = match &first {
            // Behind all values.
            Some(None) => None,
            Some(Some(value)) if order.is_descending => {
                Some(self.reader().values_down(field, Some(value))?)
            }
            Some(Some(value)) => Some(self.reader().values_from(field, value)?),
            None if order.is_descending => Some(self.reader().values_down(field, None)?),
            None => Some(self.reader().values_from(field, "")?),
        };
        let having = self
            .reader()
            .with_value(TermField::HasValue, order.field.name())?;
        let without = DocumentSet::in_folder(&set.numbers - having, &set.folder);
        let groups = ValueGroups {
            set,
            values: values.map(Iterator::peekable),
        };
        let groups = groups.chain([Ok((None, without))]);
        let after = after.map(|after| (after.value.clone(), after.into_path()));
        let listed = groups.flat_map(move |group| {
            let (value, documents) = match group {
                Ok((value, set)) => {
                    let after = after.as_ref().filter(|(first, _)| *first == value);
                    let after = after.map(|(_, path)| path.clone());
                    let set = Cow::Owned(set);
                    (value, Documents::new(self, set, after, false, whole))
                }
                Err(error) => (None, Documents::failed(self, error)),
            };
            documents.filter(move |document| match document {
                Ok(document) => order.value(document) == value,
                Err(_) => true,
            })
        });
        Ok(Box::new(listed))
    }
}

impl OrderPosition {
    fn into_path(self) -> (String, DocId) {
        (self.path, self.doc)
    }
}

// The documents of a set by value, in the order of the values.
struct ValueGroups<'a> {
    set: &'a DocumentSet,
    values: Option<Peekable<FieldValues>>,
}

impl Iterator for ValueGroups<'_> {
    type Item = PortResult<(Option<String>, DocumentSet)>;

    fn next(&mut self) -> Option<Self::Item> {
        let values = self.values.as_mut()?;
        loop {
            let mut first = match values.next()? {
                Ok(first) => first,
                Err(error) => return Some(Err(error)),
            };
            // The same value in other spellings.
            while let Some(Ok(other)) = values
                .next_if(|other| matches!(other, Ok(other) if other.normalized == first.normalized))
            {
                first.numbers |= other.numbers;
            }
            first.numbers &= &self.set.numbers;
            if !first.numbers.is_empty() {
                let set = DocumentSet::in_folder(first.numbers, &self.set.folder);
                return Some(Ok((Some(first.normalized), set)));
            }
        }
    }
}
