//! Groups long lists of facet values into ranges: by prefix (`a..c`), decade, year or month.

use stemma_store::PortResult;

use crate::catalog::Catalog;
use crate::facets::{FacetSelector, Scope};
use crate::property::Property;

// Longer lists are grouped.
const MAX_LISTED: usize = 200;
// Values that agree in this many characters stay in one group.
const MAX_LETTERS: usize = 24;

/// A row in the listing of a facet: one value, or a range of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetBucket {
    pub selector: FacetSelector,
    /// Display name: the spelling of the first document, or `A–C`.
    pub name: String,
    pub documents: usize,
}

impl Scope {
    /// The rows to list for a facet, in order: its values, or ranges if there are more than 200. Filing dates are
    /// grouped by year, then month.
    pub fn buckets(&self, facet: Property, catalog: &Catalog) -> PortResult<Vec<FacetBucket>> {
        let values = self.values(facet, catalog)?;
        let keys: Vec<&str> = values
            .iter()
            .map(|value| value.normalized.as_str())
            .collect();
        let ranges = match facet {
            Property::Filed => date_buckets(
                &keys,
                if keys.iter().all(|key| key.get(..4) == keys[0].get(..4)) && self.is_in_year() {
                    7
                } else {
                    4
                },
            ),
            _ if keys.len() <= MAX_LISTED => {
                let buckets = values.into_iter().map(|value| FacetBucket {
                    selector: FacetSelector::Exact(value.normalized),
                    name: value.value,
                    documents: value.documents,
                });
                return Ok(buckets.collect());
            }
            Property::PeriodEnd | Property::FiscalYear => date_buckets(
                &keys,
                [3, 4, 7]
                    .into_iter()
                    .find(|letters: &usize| {
                        keys.iter()
                            .any(|key| key.get(..*letters) != keys[0].get(..*letters))
                    })
                    .unwrap_or(10),
            ),
            _ => prefix_buckets(&keys, keys.len().div_ceil(MAX_LISTED).max(MAX_LISTED)),
        };
        let inside = catalog.in_scope(self)?;
        // A document with several values counts once in each group.
        ranges
            .into_iter()
            .map(|selector| {
                Ok(FacetBucket {
                    documents: catalog.with_value(facet, &selector)?.and(&inside).len(),
                    name: bucket_name(&selector),
                    selector,
                })
            })
            .collect()
    }

    // Whether the scope is a single filing year.
    fn is_in_year(&self) -> bool {
        self.filters.iter().any(|(facet, choice): &(Property, FacetSelector)| {
            *facet == Property::Filed
                && matches!(choice, FacetSelector::Range { from, to } if from == to && from.len() == 4)
        })
    }
}

fn bucket_name(choice: &FacetSelector) -> String {
    match choice {
        FacetSelector::Exact(value) => value.clone(),
        FacetSelector::Range { from, to } if from == to => from.clone(),
        FacetSelector::Range { from, to } => {
            format!("{}–{}", from.to_uppercase(), to.to_uppercase())
        }
    }
}

// Groups dates by their first `letters` characters. Values that are not dates stay single.
fn date_buckets(keys: &[&str], letters: usize) -> Vec<FacetSelector> {
    let mut buckets: Vec<FacetSelector> =
        keys.iter().map(|key| date_bucket(key, letters)).collect();
    // The keys are sorted, so equal buckets are adjacent.
    buckets.dedup();
    buckets
}

fn date_bucket(key: &str, letters: usize) -> FacetSelector {
    match letters {
        _ if !starts_with_date(key, letters) => FacetSelector::Exact(key.into()),
        // Three digits of a year select a decade.
        3 => FacetSelector::Range {
            from: format!("{}0", &key[..3]),
            to: format!("{}9", &key[..3]),
        },
        _ => FacetSelector::with_prefix(&key[..letters]),
    }
}

fn starts_with_date(key: &str, letters: usize) -> bool {
    key.len() >= letters
        && key
            .bytes()
            .take(letters)
            .all(|byte| byte.is_ascii_digit() || byte == b'-')
}

// Values between two prefixes.
struct ValueRange {
    from: String,
    to: String,
    values: usize,
    // The prefix is a whole value that is also the prefix of the next range. A range selects by prefix, so the two cannot
    // be separated.
    shares_end: bool,
}

// Merges neighboring prefixes into ranges of about `size` values.
fn prefix_buckets(keys: &[&str], size: usize) -> Vec<FacetSelector> {
    let mut merged: Vec<ValueRange> = Vec::new();
    for stretch in value_ranges(keys, 1, size) {
        match merged.last_mut() {
            Some(last) if last.shares_end || last.values + stretch.values <= size => {
                last.values += stretch.values;
                (last.to, last.shares_end) = (stretch.to, stretch.shares_end);
            }
            _ => merged.push(stretch),
        }
    }
    merged
        .into_iter()
        .map(|ValueRange { from, to, .. }| FacetSelector::Range { from, to })
        .collect()
}

// Groups values by their first `letters` characters, and by more if a group exceeds `size`.
fn value_ranges(keys: &[&str], letters: usize, size: usize) -> Vec<ValueRange> {
    keys.chunk_by(|a, b| prefix(a, letters) == prefix(b, letters))
        .flat_map(|group| {
            let from = prefix(group[0], letters);
            let is_whole = from.chars().count() < letters;
            match group.len() > size && letters < MAX_LETTERS {
                true => value_ranges(group, letters + 1, size),
                false => vec![ValueRange {
                    to: from.clone(),
                    from,
                    values: group.len(),
                    shares_end: is_whole,
                }],
            }
        })
        .collect()
}

fn prefix(key: &str, letters: usize) -> String {
    key.chars().take(letters).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::company_entry;

    fn companies(names: impl IntoIterator<Item = String>) -> Catalog {
        Catalog::from_entries(
            names
                .into_iter()
                .enumerate()
                .map(|(at, name)| company_entry(&format!("{at}.pdf"), &name)),
        )
    }

    fn scope_of(facet: Property) -> Scope {
        Scope {
            values_of: Some(facet),
            ..Scope::default()
        }
    }

    #[test]
    fn only_long_lists_are_bucketed() {
        let few = companies((0..200).map(|n| format!("Firm {n}")));
        assert_eq!(
            scope_of(Property::Company)
                .buckets(Property::Company, &few)
                .unwrap()
                .len(),
            200
        );
        let letters = "abcdefghij"
            .chars()
            .flat_map(|letter| (0..50).map(move |n| format!("{letter}name {n}")));
        let names: Vec<String> = scope_of(Property::Company)
            .buckets(Property::Company, &companies(letters))
            .unwrap()
            .into_iter()
            .map(|group| format!("{} {}", group.name, group.documents))
            .collect();
        assert_eq!(names, ["A–D 200", "E–H 200", "I–J 100"]);
    }

    #[test]
    fn years_are_bucketed_by_decade() {
        let keys: Vec<String> = (1990..2012)
            .flat_map(|year| (1..=12).map(move |month| format!("{year}-{month:02}-28")))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let names: Vec<String> = date_buckets(&keys, 3).iter().map(bucket_name).collect();
        assert_eq!(names, ["1990–1999", "2000–2009", "2010–2019"]);
        assert_eq!(
            date_buckets(&["unknown", "2022-01-01", "2022-02-01"], 4).len(),
            2
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_value_lies_in_one_range_that_parses_back(names in prop::collection::vec("[ab. co]{1,4}[a-c0.]{0,6}x", 201..700)) {
            let catalog = companies(names);
            let groups = scope_of(Property::Company).buckets(Property::Company, &catalog).unwrap();
            prop_assert_eq!(groups.iter().map(|group| group.documents).sum::<usize>(), catalog.len());
            for group in groups {
                let scope = Scope::parse(&group.selector.path(Property::Company), &catalog).unwrap();
                prop_assert_eq!(catalog.in_scope(&scope).unwrap().len(), group.documents);
                prop_assert_eq!(scope.values_of, matches!(group.selector, FacetSelector::Range { .. }).then_some(Property::Company));
            }
        }
    }
}
