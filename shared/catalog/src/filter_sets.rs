//! Evaluates filters and scopes: each condition is a set of documents that is stored with its value.

use std::collections::BTreeSet;
use std::sync::Arc;

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::facets::{FacetSelector, Scope};
use crate::filter::{Condition, Filter, FilterOp};
use crate::property::Property;
use crate::store::terms::{self, NameKind, TermField, number_term};

impl Catalog {
    pub fn matching(&self, filter: &Filter) -> PortResult<DocumentSet> {
        Ok(self.listed(self.matching_numbers(filter)?))
    }

    fn matching_numbers(&self, filter: &Filter) -> PortResult<RoaringBitmap> {
        match filter {
            Filter::All(filters) => {
                let mut numbers = self.reader().all()?.as_ref().clone();
                for filter in filters {
                    numbers &= self.matching_numbers(filter)?;
                }
                Ok(numbers)
            }
            Filter::Any { any } => {
                let mut numbers = RoaringBitmap::new();
                for filter in any {
                    numbers |= self.matching_numbers(filter)?;
                }
                Ok(numbers)
            }
            Filter::Condition(condition) => self.meeting(condition),
        }
    }

    fn meeting(&self, condition: &Condition) -> PortResult<RoaringBitmap> {
        match condition.op {
            FilterOp::NotIn => {
                let mut numbers = self.reader().all()?.as_ref().clone();
                numbers -= self.equal_to_any(condition)?;
                Ok(numbers)
            }
            FilterOp::In => self.equal_to_any(condition),
            FilterOp::Less | FilterOp::AtMost | FilterOp::More | FilterOp::AtLeast => {
                self.compared(condition)
            }
        }
    }

    fn equal_to_any(&self, condition: &Condition) -> PortResult<RoaringBitmap> {
        let field = condition.field;
        let mut numbers = RoaringBitmap::new();
        for value in &condition.values {
            match TermField::for_filter(field) {
                None => {
                    let named = self
                        .reader()
                        .named(NameKind::Canonical, value, usize::MAX)?;
                    numbers.extend(named);
                }
                Some(stored) => {
                    if let Some(term) = stored_value(field, value) {
                        numbers |= self.reader().with_value(stored, &term)?;
                    }
                }
            }
        }
        Ok(numbers)
    }

    // The documents with a value on one side of any of the values.
    fn compared(&self, condition: &Condition) -> PortResult<RoaringBitmap> {
        let field = condition.field;
        let mut limits: Vec<String> = condition
            .values
            .iter()
            .filter_map(|value| stored_value(field, value))
            .collect();
        limits.sort_unstable();
        let is_upper = matches!(condition.op, FilterOp::Less | FilterOp::AtMost);
        let limit = match is_upper {
            true => limits.pop(),
            false => limits.into_iter().next(),
        };
        let mut numbers = RoaringBitmap::new();
        let Some(limit) = limit else {
            return Ok(numbers);
        };
        let from = if is_upper { "" } else { limit.as_str() };
        let is_behind = |value: &str| is_upper && value > limit.as_str();
        let is_excluded =
            |value: &str| value == limit && matches!(condition.op, FilterOp::Less | FilterOp::More);
        match TermField::for_filter(field) {
            None => {
                for name in self.reader().names_from(NameKind::Canonical, from)? {
                    let (name, number) = name?;
                    if is_behind(&name) {
                        break;
                    }
                    if !is_excluded(&name) {
                        numbers.insert(number);
                    }
                }
            }
            Some(stored) => {
                for value in self.reader().values_from(stored, from)? {
                    let value = value?;
                    if is_behind(&value.normalized) {
                        break;
                    }
                    if !is_excluded(&value.normalized) {
                        numbers |= value.numbers;
                    }
                }
            }
        }
        Ok(numbers)
    }

    pub fn in_scope(&self, scope: &Scope) -> PortResult<DocumentSet> {
        let mut numbers = if scope.folder.is_empty() {
            self.reader().all()?.as_ref().clone()
        } else {
            self.reader().with_value(TermField::Folder, &scope.folder)?
        };
        for (facet, selector) in &scope.filters {
            numbers &= self.selected(*facet, selector)?;
        }
        let numbers = self.listed(numbers).numbers;
        Ok(DocumentSet::in_folder(numbers, &scope.folder))
    }

    pub fn with_value(&self, facet: Property, selector: &FacetSelector) -> PortResult<DocumentSet> {
        Ok(self.listed(self.selected(facet, selector)?))
    }

    /// The documents that spell a value of a facet in a way that fits.
    pub fn with_spelling(
        &self,
        facet: Property,
        fits: &dyn Fn(&str) -> bool,
    ) -> PortResult<DocumentSet> {
        let field = TermField::Text(facet);
        let fitting = self
            .reader()
            .with_fitting_value(field, &|_, spelling| fits(spelling))?;
        Ok(self.listed(fitting))
    }

    /// The normalized values of a facet, in order. A restricted catalog may have no document with some of them.
    pub fn distinct_values(&self, facet: Property) -> PortResult<Vec<String>> {
        self.reader().distinct_values(TermField::Text(facet))
    }

    fn selected(&self, facet: Property, selector: &FacetSelector) -> PortResult<RoaringBitmap> {
        let field = TermField::Text(facet);
        match selector {
            FacetSelector::Exact(value) => self.reader().with_value(field, value),
            FacetSelector::Range { from, .. } => {
                let mut numbers = RoaringBitmap::new();
                for value in self.reader().values_from(field, from)? {
                    let value = value?;
                    if !selector.matches(&value.normalized) {
                        break;
                    }
                    numbers |= value.numbers;
                }
                Ok(numbers)
            }
        }
    }

    /// These documents, and all that share a number of their issuer: filings under a former name, too.
    pub fn same_issuers(&self, documents: &[Arc<CatalogDocument>]) -> PortResult<DocumentSet> {
        let facts = documents.iter().filter_map(|document| document.entry());
        let issuers: BTreeSet<String> = facts
            .flat_map(|entry| entry.facts.issuer_identity())
            .collect();
        let own = self.set_of(documents.iter().map(|document| document.doc()))?;
        Ok(own.or(&self.with_issuer_numbers(&issuers)?))
    }

    /// The documents that have one of these numbers of issuers, as
    /// [`issuer_identity`](stemma_document::FilingFacts::issuer_identity) writes them.
    pub fn with_issuer_numbers<'n>(
        &self,
        issuers: impl IntoIterator<Item = &'n String>,
    ) -> PortResult<DocumentSet> {
        let mut numbers = RoaringBitmap::new();
        for issuer in issuers {
            numbers |= self.reader().with_value(TermField::Issuer, issuer)?;
        }
        Ok(self.listed(numbers))
    }

    /// The documents whose newest run failed, with an earlier tree or without.
    pub fn with_failure(&self) -> PortResult<DocumentSet> {
        let failed = self.reader().with_value(TermField::State, terms::FAILED)?;
        Ok(self.listed(failed))
    }
}

// A value of a condition as it is stored; `None` if no document can have it.
fn stored_value(field: Property, value: &str) -> Option<String> {
    if field.is_number() {
        number_term(value)
    } else {
        Some(value.to_owned())
    }
}
