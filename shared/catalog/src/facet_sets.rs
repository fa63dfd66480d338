//! Counts values and folders of sets of documents.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use crate::catalog::{Catalog, DocumentSet, FolderLevel};
use crate::facets::{FacetCounts, ValueCount};
use crate::property::Property;
use crate::store::FieldValue;
use crate::store::terms::TermField;

// Reading a document takes as long as intersecting the set with about this many values.
const VALUES_PER_DOCUMENT: u64 = 8;

// How often each spelling of a value occurs, and the documents that have it.
#[derive(Default)]
struct SpelledValue {
    spellings: Vec<(String, u64)>,
    numbers: RoaringBitmap,
}

impl Catalog {
    /// The values of a facet among the documents of a set.
    pub fn facet_counts(&self, set: &DocumentSet, facet: Property) -> PortResult<FacetCounts> {
        let set = self.listed(set.numbers.clone());
        let values = if set.numbers.len() * VALUES_PER_DOCUMENT < self.distinct(facet) {
            self.values_of_documents(&set, facet)?
        } else {
            let counted = self.values_by_set(&[&set], facet)?;
            counted.into_iter().flatten().collect()
        };
        let with_value = self
            .reader()
            .with_value(TermField::HasValue, facet.name())?;
        let without = set.numbers.len() - set.numbers.intersection_len(&with_value);
        Ok(FacetCounts {
            values,
            without: usize::try_from(without).unwrap_or(usize::MAX),
        })
    }

    // Number of values of a facet among all documents of the collection.
    fn distinct(&self, facet: Property) -> u64 {
        let distinct = self.reader().state.distinct.get(facet as usize);
        distinct.copied().unwrap_or(0)
    }

    /// How many values of a facet the documents of a set have.
    pub(crate) fn value_count(&self, set: &DocumentSet, facet: Property) -> PortResult<usize> {
        // Most listings are of the whole collection, where some facets have a value for each document.
        if set.numbers.len() == self.reader().state.listed {
            return Ok(usize::try_from(self.distinct(facet)).unwrap_or(usize::MAX));
        }
        Ok(self.facet_counts(set, facet)?.values.len())
    }

    /// The values of a facet in each of some sets. Reads the values once.
    pub fn values_by_set(
        &self,
        sets: &[&DocumentSet],
        facet: Property,
    ) -> PortResult<Vec<Vec<ValueCount>>> {
        let mut counted = vec![Vec::new(); sets.len()];
        let mut rest = self.reader().values_from(TermField::Text(facet), "")?;
        let mut next = rest.next().transpose()?;
        while let Some(first) = next.take() {
            let mut spellings = vec![first];
            for value in rest.by_ref() {
                let value = value?;
                if value.normalized != spellings[0].normalized {
                    next = Some(value);
                    break;
                }
                spellings.push(value);
            }
            for (set, values) in sets.iter().zip(&mut counted) {
                values.extend(count_inside(set, &spellings));
            }
        }
        Ok(counted)
    }

    fn values_of_documents(
        &self,
        set: &DocumentSet,
        facet: Property,
    ) -> PortResult<Vec<ValueCount>> {
        let mut values: BTreeMap<String, (BTreeMap<String, u64>, RoaringBitmap)> = BTreeMap::new();
        for number in &set.numbers {
            let Some(document) = self.reader().unlabeled(number)? else {
                continue;
            };
            for value in facet.values(&document) {
                let (spellings, numbers) = values.entry(facet.canonical(value)).or_default();
                if numbers.insert(number) || !spellings.contains_key(value) {
                    *spellings.entry(value.to_owned()).or_default() += 1;
                }
            }
        }
        let values = values
            .into_iter()
            .map(|(normalized, (spellings, numbers))| {
                let spellings = spellings.into_iter().collect();
                value_count((normalized, SpelledValue { spellings, numbers }))
            });
        Ok(values.collect())
    }

    /// The folders and documents directly in a folder; empty for all.
    pub fn folder_level(&self, folder: &str) -> PortResult<FolderLevel> {
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let mut level = FolderLevel::default();
        let mut deeper = RoaringBitmap::new();
        let mut folders: BTreeMap<String, usize> = BTreeMap::new();
        let mut from = prefix.clone();
        while let Some(value) = self.reader().first_value(TermField::Folder, &from)? {
            let Some(rest) = value.strip_prefix(&prefix) else {
                break;
            };
            if let Some((inner, _)) = rest.split_once('/') {
                // All that is below this folder: `0` is the character behind `/`.
                from = format!("{prefix}{inner}0");
                continue;
            }
            let inside = self.listed(self.reader().with_value(TermField::Folder, &value)?);
            if !inside.is_empty() {
                folders.insert(rest.to_owned(), inside.len());
            }
            deeper |= inside.numbers;
            from = format!("{value}\0");
        }
        level.folders = folders.into_iter().collect();
        let all = if folder.is_empty() {
            self.all()?.numbers
        } else {
            self.listed(self.reader().with_value(TermField::Folder, folder)?)
                .numbers
        };
        let direct = DocumentSet::in_folder(all - deeper, folder);
        level.documents = self.list(&direct).collect::<PortResult<_>>()?;
        Ok(level)
    }

    /// All folders, each with the number of documents in it and below it; by path.
    pub fn folders(&self) -> PortResult<Vec<(String, usize)>> {
        let mut folders = Vec::new();
        for value in self.reader().values_from(TermField::Folder, "")? {
            let value = value?;
            let inside = self.listed(value.numbers);
            if !inside.is_empty() {
                folders.push((value.normalized, inside.len()));
            }
        }
        Ok(folders)
    }

    /// Whether a document is in this folder or below it.
    pub(crate) fn has_folder(&self, folder: &str) -> PortResult<bool> {
        let inside = self.reader().with_value(TermField::Folder, folder)?;
        Ok(!self.listed(inside).is_empty())
    }
}

// The value in a set, by its spellings; `None` if no document of the set has it.
fn count_inside(set: &DocumentSet, spellings: &[FieldValue]) -> Option<ValueCount> {
    let mut spelled = SpelledValue::default();
    for value in spellings {
        let numbers = &value.numbers & &set.numbers;
        if !numbers.is_empty() {
            let spelling = value.spelling.clone();
            spelled.spellings.push((spelling, numbers.len()));
            spelled.numbers |= numbers;
        }
    }
    let normalized = spellings.first()?.normalized.clone();
    (!spelled.numbers.is_empty()).then(|| value_count((normalized, spelled)))
}

fn value_count((normalized, spelled): (String, SpelledValue)) -> ValueCount {
    // If spellings are equally frequent, the first.
    let usual = spelled
        .spellings
        .into_iter()
        .max_by(|(a, n), (b, m)| n.cmp(m).then(b.cmp(a)));
    ValueCount {
        normalized,
        value: usual.map(|(spelling, _)| spelling).unwrap_or_default(),
        documents: usize::try_from(spelled.numbers.len()).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Change, ChangeKind};

    use super::*;
    use crate::fixtures::company_entry;
    use crate::store::{CatalogStore, StoreBatch};

    // More documents than a set that is stored as a whole has.
    const DOCUMENTS: usize = 4_200;

    fn companies(store: &CatalogStore) -> Vec<(String, usize)> {
        let catalog = Catalog::from_store(store).unwrap();
        let all = catalog.all().unwrap();
        let values = catalog
            .facet_counts(&all, Property::Company)
            .unwrap()
            .values;
        assert_eq!(
            catalog.value_count(&all, Property::Company).unwrap(),
            values.len()
        );
        let values = values.into_iter();
        values.map(|value| (value.value, value.documents)).collect()
    }

    #[test]
    fn values_are_counted_while_their_sets_are_divided_and_emptied() {
        let store = CatalogStore::in_memory().unwrap();
        let change = |kind| Change { at_ms: 0, kind };
        let entry = |number: usize, company: &str| company_entry(&format!("{number}.pdf"), company);
        let publish = |numbers: std::ops::Range<usize>, company: &str| {
            let changes = numbers
                .map(|number| change(ChangeKind::Published(Box::new(entry(number, company)))))
                .collect();
            store
                .apply(StoreBatch {
                    changes,
                    ..StoreBatch::default()
                })
                .unwrap();
        };
        let remove = |numbers: std::ops::Range<usize>| {
            let changes = numbers.map(|number| {
                let doc = entry(number, "").version.doc;
                change(ChangeKind::Removed { doc, seq: 2 })
            });
            let changes = changes.collect();
            store
                .apply(StoreBatch {
                    changes,
                    ..StoreBatch::default()
                })
                .unwrap();
        };
        let one = |count| vec![("One".to_owned(), count)];
        publish(0..4_000, "One");
        assert_eq!(companies(&store), one(4_000));
        publish(4_000..DOCUMENTS, "One");
        assert_eq!(companies(&store), one(DOCUMENTS));
        publish(DOCUMENTS..DOCUMENTS + 1, "Two");
        assert_eq!(companies(&store).len(), 2);
        remove(10..DOCUMENTS + 1);
        assert_eq!(companies(&store), one(10));
        publish(DOCUMENTS + 1..DOCUMENTS + 2, "One");
        assert_eq!(companies(&store), one(11));
        remove(0..10);
        remove(DOCUMENTS + 1..DOCUMENTS + 2);
        assert_eq!(companies(&store), []);
    }
}
