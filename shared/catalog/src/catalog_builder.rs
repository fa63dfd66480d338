//! Makes the next catalog from the one before and the documents that changed.
//!
//! A display name depends on the documents of similar names only. They are found in a list ordered by name, so a
//! publication relabels the few whose names it touches, and a catalog of a million documents is not made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stemma_document::DocId;

use crate::catalog::Catalog;
use crate::display_names::{self, MANY_EQUAL_NAMES, escape, split_id_suffix, split_name};
use crate::document::CatalogDocument;
use crate::ordered_documents::OrderedDocuments;

/// A catalog that changes.
#[derive(Clone)]
pub(crate) struct CatalogBuilder {
    catalog: Catalog,
    // By name, then id.
    by_name: OrderedDocuments,
}

impl CatalogBuilder {
    pub(crate) fn new(catalog: Catalog) -> Self {
        let mut sorted: Vec<Arc<CatalogDocument>> = catalog.shared_documents().cloned().collect();
        sorted.sort_by(|a, b| by_name(a, b));
        Self {
            catalog,
            by_name: OrderedDocuments::from_sorted(&sorted, by_name),
        }
    }

    /// Sets or removes documents, which have no labels yet.
    pub(crate) fn update(&mut self, changes: Vec<(DocId, Option<CatalogDocument>)>) -> Catalog {
        let mut touched = TouchedNames::default();
        for (doc, new) in &changes {
            let old = self
                .catalog
                .find(*doc)
                .map(|old| old.version().name.clone());
            let new = new.as_ref().map(|new| new.version().name.clone());
            if old != new {
                for name in old.iter().chain(&new) {
                    touched.add(self, *doc, name);
                }
            }
        }
        for (doc, new) in changes {
            let old = self.catalog.remove(doc);
            if let Some(old) = &old {
                self.by_name.remove(old);
            }
            if let Some(mut new) = new {
                if let Some(old) = old {
                    new.label = old.label.clone();
                }
                self.put(new);
            }
        }
        for doc in touched.documents(self) {
            if let Some(document) = self.catalog.find(doc) {
                let label = self.label(document);
                if label != document.label {
                    let document = CatalogDocument::clone(document);
                    self.put(CatalogDocument { label, ..document });
                }
            }
        }
        self.catalog.renumber();
        self.catalog.clone()
    }

    fn put(&mut self, document: CatalogDocument) {
        let document = Arc::new(document);
        self.by_name.insert(Arc::clone(&document));
        self.catalog.insert(document);
    }

    // The documents that have `text` as their name or stem.
    fn named(&self, text: &str) -> impl Iterator<Item = &Arc<CatalogDocument>> {
        let dotted = format!("{text}.");
        let equal = self.by_name.starting_at(&|document| name(document) < text);
        let longer = self
            .by_name
            .starting_at(&|document| name(document) < dotted.as_str());
        let equal = equal.take_while(move |document| name(document) == text);
        let with_stem = longer
            .take_while(move |document| name(document).starts_with(&dotted))
            .filter(move |document| split_name(name(document)).0 == text);
        equal.chain(with_stem)
    }

    // As `display_names::assign_labels` for all documents.
    fn label(&self, document: &CatalogDocument) -> String {
        let own = name(document);
        let (stem, ending) = split_name(own);
        let is_unique = |label: &&str| !label.is_empty() && self.named(label).take(2).count() == 1;
        if let Some(label) = [stem, own].into_iter().find(is_unique) {
            return escape(label);
        }
        let id = document.doc().to_string();
        let others = self.named(own).take(MANY_EQUAL_NAMES + 1).count();
        let digits = display_names::id_digits(others);
        let is_free = |digits: &usize| {
            let label = display_names::label_with_id(stem, ending, &id, *digits);
            self.named(&label).next().is_none()
        };
        let shared = |digits: usize| {
            let neighbors = self.neighbors(own, document.doc()).into_iter();
            let mut ids = neighbors.map(|neighbor| neighbor.doc().to_string());
            ids.any(|other| other[..digits] == id[..digits])
        };
        match digits.into_iter().find(is_free) {
            Some(digits) if !shared(digits) => {
                escape(&display_names::label_with_id(stem, ending, &id, digits))
            }
            _ => id,
        }
    }

    // The documents of this name whose ids are next to `doc`: if another id has the same first digits, one of them has.
    fn neighbors(&self, of: &str, doc: DocId) -> Vec<&Arc<CatalogDocument>> {
        let before = |document: &CatalogDocument| (name(document), document.doc()) < (of, doc);
        let until = |document: &CatalogDocument| (name(document), document.doc()) <= (of, doc);
        let before = self.by_name.last_before(&before);
        let after = self.by_name.starting_at(&until).next();
        let mut neighbors: Vec<_> = before.into_iter().chain(after).collect();
        neighbors.retain(|neighbor| name(neighbor) == of);
        neighbors
    }
}

/// Names and stems whose documents may get other labels.
#[derive(Default)]
struct TouchedNames {
    documents: BTreeSet<DocId>,
    // How many documents had each text before, counted up to one more than many.
    texts: BTreeMap<String, usize>,
    // Documents that have come or gone under a name.
    changed: Vec<(String, DocId)>,
}

impl TouchedNames {
    fn add(&mut self, builder: &CatalogBuilder, doc: DocId, name: &str) {
        self.documents.insert(doc);
        self.changed.push((name.to_owned(), doc));
        for text in [name, split_name(name).0] {
            let count = || builder.named(text).take(MANY_EQUAL_NAMES + 1).count();
            self.texts.entry(text.to_owned()).or_insert_with(count);
        }
    }

    fn documents(self, builder: &CatalogBuilder) -> BTreeSet<DocId> {
        let mut documents = self.documents;
        for (text, before) in &self.texts {
            let after = builder.named(text).take(MANY_EQUAL_NAMES + 1).count();
            // Among many equal names, one more changes no label.
            if (*before).min(after) <= MANY_EQUAL_NAMES {
                documents.extend(builder.named(text).map(|document| document.doc()));
            }
            // A label with digits of an id is not used where a document has it as its name.
            if let Some((name, digits)) = split_id_suffix(text) {
                let labeled = builder.named(&name);
                let labeled = labeled.map(|document| document.doc());
                documents.extend(labeled.filter(|doc| doc.to_string().starts_with(digits)));
            }
        }
        for (name, doc) in &self.changed {
            let neighbors = builder.neighbors(name, *doc);
            documents.extend(neighbors.into_iter().map(|neighbor| neighbor.doc()));
        }
        documents
    }
}

fn name(document: &CatalogDocument) -> &str {
    &document.version().name
}

fn by_name(a: &CatalogDocument, b: &CatalogDocument) -> std::cmp::Ordering {
    (name(a), a.doc()).cmp(&(name(b), b.doc()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stemma_document::{Change, ChangeKind};

    use super::*;
    use crate::fixtures::{self, entry};
    use crate::latest_changes::LatestChanges;
    use crate::started_runs::StartedRuns;

    // Ids that share their first digits, as a few of many random ones do.
    fn doc_id(n: u8) -> DocId {
        let prefix = ["aaaabbbb", "aaaacccc", "aaaabbbb", "ddddeeee"][usize::from(n % 4)];
        format!("{prefix}{n:024x}").parse().unwrap()
    }

    const NAMES: [&str; 10] = [
        "a.pdf",
        "a.txt",
        "a",
        "b.pdf",
        "a.b.pdf",
        "a~aaaa.pdf",
        "a~aaaabbbb.pdf",
        "a~aaaa",
        "",
        ".b",
    ];

    fn change(n: u8, name: usize, seq: u64) -> Change {
        let mut entry = entry(NAMES[name]);
        entry.version.doc = doc_id(n);
        entry.version.seq = seq;
        entry.version.path = format!("{}/{}", n % 3, NAMES[name]);
        let kind = if name.is_multiple_of(9) && seq.is_multiple_of(2) {
            ChangeKind::Removed {
                doc: doc_id(n),
                seq,
            }
        } else {
            ChangeKind::Published(Box::new(entry))
        };
        Change { at_ms: seq, kind }
    }

    proptest! {
        #[test]
        fn a_changed_catalog_equals_one_made_anew(
            batches in prop::collection::vec(prop::collection::vec((0..40_u8, 0..NAMES.len()), 1..12), 1..12),
            equal in 0..30_u8,
        ) {
            let mut current = LatestChanges::default();
            let started = StartedRuns::default();
            for n in 0..equal {
                current.apply(change(100 + n, 0, 1));
            }
            let mut before = Catalog::from_changes(&current, &started);
            let mut builder = CatalogBuilder::new(before.clone());
            let mut seq = 1;
            for batch in batches {
                let mut changed = BTreeSet::new();
                for (n, name) in batch {
                    seq += 1;
                    changed.extend(current.apply(change(n, name, seq)));
                }
                let documents = changed.iter().map(|doc| {
                    (*doc, CatalogDocument::from_changes(&current.latest[doc], false))
                });
                let next = builder.update(documents.collect());
                let anew = Catalog::from_changes(&current, &started);
                prop_assert!(fixtures::documents(&next) == fixtures::documents(&anew));
                prop_assert_eq!(next.len(), anew.len());
                for document in fixtures::documents(&anew) {
                    prop_assert_eq!(next.get(document.doc()).unwrap(), Some(document));
                }
                changed.retain(|doc| before.get(*doc).unwrap() != next.get(*doc).unwrap());
                let differing = next.changed_since(&before.state()).unwrap().unwrap();
                prop_assert!(differing.is_superset(&changed));
                before = next;
            }
        }
    }

    #[test]
    fn a_publication_copies_a_few_of_many_blocks() {
        let entries = (0..20_000).map(|n| entry(&format!("folder/{n:05}.pdf")));
        let before = Catalog::from_entries(entries);
        let mut builder = CatalogBuilder::new(before.clone());
        let mut new = entry("folder/new.pdf");
        new.version.seq = 2;
        let doc = new.version.doc;
        let new = CatalogDocument::from_published(Arc::new(new), None, None);
        let after = builder.update(vec![(doc, Some(new))]);
        let changed = after.changed_since(&before.state()).unwrap().unwrap();
        assert!(changed.contains(&doc));
        assert!(changed.len() < 2_000, "{}", changed.len());
        assert_eq!(before.len(), 20_000);
        assert_eq!(after.len(), 20_001);
        assert_eq!(after.get(doc).unwrap().unwrap().label, "new");
    }
}
