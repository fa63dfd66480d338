//! Keeps equal values of many documents in memory once.
//!
//! A collection has a few issuers, forms, years and settings, each in thousands of documents.

use std::collections::HashSet;
use std::sync::Arc;

use stemma_document::{CatalogEntry, Fact};

// So few values are not worth looking for those that nobody shares.
const MIN_SWEEP: usize = 1_024;

/// Values of documents, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedValues {
    facts: HashSet<Fact>,
    settings: HashSet<Arc<str>>,
    // Unused facts are dropped when there are as many facts as this.
    sweep_at: usize,
}

impl SharedValues {
    /// Replaces values of an entry by equal ones of earlier entries.
    pub(crate) fn share(&mut self, entry: &mut CatalogEntry) {
        for fact in entry.facts.common_facts_mut() {
            match self.facts.get(fact) {
                Some(known) => *fact = known.clone(),
                None => {
                    self.facts.insert(fact.clone());
                }
            }
        }
        let settings = &mut entry.version.settings;
        match self.settings.get(settings) {
            Some(known) => *settings = Arc::clone(known),
            None => {
                self.settings.insert(Arc::clone(settings));
            }
        }
        if self.facts.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.facts.retain(Fact::is_shared);
            self.sweep_at = 2 * self.facts.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::of_company;

    #[test]
    fn equal_facts_of_two_documents_share_their_memory() {
        let mut values = SharedValues::default();
        let mut entries = ["a", "b"].map(|path| of_company(path, "Company"));
        let before = entries.clone();
        for entry in &mut entries {
            values.share(entry);
        }
        assert_eq!(entries, before);
        let [first, second] = entries;
        let issuer =
            |entry: &CatalogEntry| std::ptr::from_ref(&**entry.facts.issuer.as_ref().unwrap());
        assert_eq!(issuer(&first), issuer(&second));
        assert!(Arc::ptr_eq(
            &first.version.settings,
            &second.version.settings
        ));
    }

    #[test]
    fn values_of_replaced_entries_are_dropped() {
        let mut values = SharedValues::default();
        for number in 0..10 * MIN_SWEEP {
            values.share(&mut of_company("a", &format!("Company {number}")));
        }
        assert!(values.facts.len() <= MIN_SWEEP, "{}", values.facts.len());
    }
}
