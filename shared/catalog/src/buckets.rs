//! Long lists of values, put together so that a person can find one: by beginnings (`a..c`), by decade, by month.

use crate::axes::{Axis, Choice, Scope};
use crate::catalogue::Catalogue;

/// Values that are listed one by one.
const MAX_LISTED: usize = 200;
/// Letters by which beginnings may differ.
const MAX_LETTERS: usize = 24;

/// What stands in the listing of an axis: a value, or many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which values.
    pub choice: Choice,
    /// What to show for it: the spelling of the first document, or `A–C`.
    pub name: String,
    /// Documents with one of the values.
    pub documents: usize,
}

impl Scope {
    /// What to list for an axis, in order: its values, or ranges of them where there are more than 200. Filing dates are
    /// years, then months.
    pub fn groups(&self, axis: Axis, catalogue: &Catalogue) -> Vec<Group> {
        let values = self.folded_values(axis, catalogue);
        let keys: Vec<&str> = values.keys().map(String::as_str).collect();
        let ranges = match axis {
            Axis::Filed => dates(
                &keys,
                if keys.iter().all(|key| key.get(..4) == keys[0].get(..4)) && self.in_year() {
                    7
                } else {
                    4
                },
            ),
            _ if keys.len() <= MAX_LISTED => {
                return values
                    .into_iter()
                    .map(|(key, (shown, documents))| Group {
                        choice: Choice::Is(key),
                        name: shown.into(),
                        documents,
                    })
                    .collect();
            }
            Axis::Period | Axis::FiscalYear => dates(
                &keys,
                [3, 4, 7]
                    .into_iter()
                    .find(|letters: &usize| {
                        keys.iter()
                            .any(|key| key.get(..*letters) != keys[0].get(..*letters))
                    })
                    .unwrap_or(10),
            ),
            _ => beginnings(&keys, keys.len().div_ceil(MAX_LISTED).max(MAX_LISTED)),
        };
        let mut groups: Vec<Group> = ranges
            .into_iter()
            .map(|choice| Group {
                name: shown(&choice),
                choice,
                documents: 0,
            })
            .collect();
        for listed in catalogue
            .documents()
            .iter()
            .filter(|listed| self.holds(listed))
        {
            let folded: Vec<String> = axis
                .values(listed)
                .into_iter()
                .map(|value| crate::axes::fold(axis, value))
                .collect();
            // A document with several values is counted once in each group, and only under those that are meant.
            for group in &mut groups {
                group.documents += usize::from(
                    folded
                        .iter()
                        .filter(|value: &&String| values.contains_key(*value))
                        .any(|value| group.choice.holds(value)),
                );
            }
        }
        groups
    }

    /// Whether it is narrowed to filings of one year.
    fn in_year(&self) -> bool {
        self.filters.iter().any(|(axis, choice): &(Axis, Choice)| {
            *axis == Axis::Filed
                && matches!(choice, Choice::Among { from, to } if from == to && from.len() == 4)
        })
    }
}

fn shown(choice: &Choice) -> String {
    match choice {
        Choice::Is(value) => value.clone(),
        Choice::Among { from, to } if from == to => from.clone(),
        Choice::Among { from, to } => format!("{}–{}", from.to_uppercase(), to.to_uppercase()),
    }
}

/// Dates that begin with the same `letters`; what is no date stands alone.
fn dates(keys: &[&str], letters: usize) -> Vec<Choice> {
    let is_date = |key: &str| {
        key.len() >= letters
            && key
                .bytes()
                .take(letters)
                .all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let choice = |key: &str| match letters {
        _ if !is_date(key) => Choice::Is(key.into()),
        3 => Choice::Among {
            from: format!("{}0", &key[..3]),
            to: format!("{}9", &key[..3]),
        },
        _ => Choice::beginning(&key[..letters]),
    };
    let mut choices: Vec<Choice> = keys.iter().map(|key| choice(key)).collect();
    choices.dedup();
    choices
}

/// A stretch of values between two beginnings.
struct Stretch {
    from: String,
    to: String,
    values: usize,
    /// Its last value is the beginning of the next stretch, too: they cannot be told apart.
    joined: bool,
}

/// Ranges of about `size` values, at borders between letters where that is possible.
fn beginnings(keys: &[&str], size: usize) -> Vec<Choice> {
    let mut merged: Vec<Stretch> = Vec::new();
    for stretch in stretches(keys, 1, size) {
        match merged.last_mut() {
            Some(last) if last.joined || last.values + stretch.values <= size => {
                last.values += stretch.values;
                (last.to, last.joined) = (stretch.to, stretch.joined);
            }
            _ => merged.push(stretch),
        }
    }
    merged
        .into_iter()
        .map(|Stretch { from, to, .. }| Choice::Among { from, to })
        .collect()
}

/// Values by their first `letters`, and by more where there are more than `size` of them.
fn stretches(keys: &[&str], letters: usize, size: usize) -> Vec<Stretch> {
    let beginning = |key: &str| key.chars().take(letters).collect::<String>();
    keys.chunk_by(|a, b| beginning(a) == beginning(b))
        .flat_map(|group| {
            let from = beginning(group[0]);
            let is_whole = from.chars().count() < letters;
            match group.len() > size && letters < MAX_LETTERS {
                true => stretches(group, letters + 1, size),
                false => vec![Stretch {
                    to: from.clone(),
                    from,
                    values: group.len(),
                    joined: is_whole,
                }],
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::of_company;

    fn companies(names: impl IntoIterator<Item = String>) -> Catalogue {
        Catalogue::of_entries(
            names
                .into_iter()
                .enumerate()
                .map(|(at, name)| of_company(&format!("{at}.pdf"), &name)),
        )
    }

    fn of(axis: Axis) -> Scope {
        Scope {
            values_of: Some(axis),
            ..Scope::default()
        }
    }

    #[test]
    fn long_lists_are_put_together_and_short_ones_are_not() {
        let few = companies((0..200).map(|n| format!("Firm {n}")));
        assert_eq!(of(Axis::Company).groups(Axis::Company, &few).len(), 200);
        let letters = "abcdefghij"
            .chars()
            .flat_map(|letter| (0..50).map(move |n| format!("{letter}name {n}")));
        let names: Vec<String> = of(Axis::Company)
            .groups(Axis::Company, &companies(letters))
            .into_iter()
            .map(|group| format!("{} {}", group.name, group.documents))
            .collect();
        assert_eq!(names, ["A–D 200", "E–H 200", "I–J 100"]);
    }

    #[test]
    fn years_are_put_together_by_decade() {
        let keys: Vec<String> = (1990..2012)
            .flat_map(|year| (1..=12).map(move |month| format!("{year}-{month:02}-28")))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let names: Vec<String> = dates(&keys, 3).iter().map(shown).collect();
        assert_eq!(names, ["1990–1999", "2000–2009", "2010–2019"]);
        assert_eq!(dates(&["unknown", "2022-01-01", "2022-02-01"], 4).len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_value_lies_in_one_range_that_can_be_pasted_back(names in prop::collection::vec("[ab. co]{1,4}[a-c0.]{0,6}x", 201..700)) {
            let catalogue = companies(names);
            let groups = of(Axis::Company).groups(Axis::Company, &catalogue);
            prop_assert_eq!(groups.iter().map(|group| group.documents).sum::<usize>(), catalogue.documents().len());
            for group in groups {
                let scope = Scope::parse(&group.choice.path(Axis::Company), &catalogue).unwrap();
                prop_assert_eq!(catalogue.documents().iter().filter(|listed| scope.holds(listed)).count(), group.documents);
                prop_assert_eq!(scope.values_of, matches!(group.choice, Choice::Among { .. }).then_some(Axis::Company));
            }
        }
    }
}
