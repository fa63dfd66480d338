//! Virtual folders: documents by what they say about themselves, beside the folders they were ingested from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Fact, FilingFacts};

pub use crate::buckets::Group;
use crate::catalogue::{Catalogue, Listed};
use crate::labels::{escape, unescape};

/// Axes one path narrows by.
const MAX_FILTERS: usize = 16;

/// A property documents can be listed by: `/@company/…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The registrant.
    Company,
    /// Form type.
    Form,
    /// Fiscal year.
    FiscalYear,
    /// `FY`, `Q1` … `Q4`.
    FiscalPeriod,
    /// End of the period, ISO date.
    Period,
    /// The day it was filed, ISO date; listed by year, then month: `/@filed/2023/02`.
    Filed,
    /// Trading symbol; a document may have several.
    Ticker,
    /// Central Index Key.
    Cik,
    /// ISO 639-1 code of the main language.
    Language,
    /// State of the document.
    Status,
    /// How much of the tree was verified: `verified` (≥ 0.9 of titles), `partly_verified` (≥ 0.6, below which another
    /// method is tried), `unverified`.
    Quality,
}

impl Axis {
    /// All axes in the order they are listed.
    pub const ALL: [Axis; 11] = [
        Axis::Company,
        Axis::Form,
        Axis::FiscalYear,
        Axis::FiscalPeriod,
        Axis::Period,
        Axis::Filed,
        Axis::Ticker,
        Axis::Cik,
        Axis::Language,
        Axis::Status,
        Axis::Quality,
    ];

    /// The word behind the `@`.
    pub fn as_str(self) -> &'static str {
        match self {
            Axis::Company => "company",
            Axis::Form => "form",
            Axis::FiscalYear => "fiscal_year",
            Axis::FiscalPeriod => "fiscal_period",
            Axis::Period => "period",
            Axis::Filed => "filed",
            Axis::Ticker => "ticker",
            Axis::Cik => "cik",
            Axis::Language => "language",
            Axis::Status => "status",
            Axis::Quality => "quality",
        }
    }

    /// The axis of this name, with or without `@`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix('@').unwrap_or(name);
        Axis::ALL
            .into_iter()
            .find(|axis| axis.as_str().eq_ignore_ascii_case(name))
    }

    /// The document's values on this axis, as they are stated; none where it has none.
    pub fn values(self, listed: &Listed) -> Vec<&str> {
        let entry = listed.entry();
        let facts = entry.map(|entry| &entry.facts);
        let one = |fact: fn(&FilingFacts) -> &Option<Fact>| {
            facts
                .and_then(|facts| fact(facts).as_ref())
                .map(|fact| fact.value.as_str())
                .into_iter()
                .collect()
        };
        match self {
            Axis::Company => one(|facts| &facts.issuer),
            Axis::Form => one(|facts| &facts.form),
            Axis::FiscalYear => one(|facts| &facts.fiscal_year),
            Axis::FiscalPeriod => one(|facts| &facts.fiscal_period),
            Axis::Period => one(|facts| &facts.period_end),
            Axis::Filed => one(|facts| &facts.filed),
            Axis::Cik => one(|facts| &facts.cik),
            Axis::Language => one(|facts| &facts.language),
            Axis::Ticker => facts
                .iter()
                .flat_map(|facts| &facts.tickers)
                .map(|ticker| ticker.symbol.value.as_str())
                .collect(),
            Axis::Status => vec![listed.state.as_str()],
            Axis::Quality => entry
                .map(|entry| quality(entry.accuracy))
                .into_iter()
                .collect(),
        }
    }
}

/// The value of [`Axis::Quality`] for a share of titles verified.
pub fn quality(accuracy: f32) -> &'static str {
    match accuracy {
        accuracy if accuracy >= 0.9 => "verified",
        accuracy if accuracy >= 0.6 => "partly_verified",
        _ => "unverified",
    }
}

/// Which values of an axis are meant; texts as [`fold`] makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Is(String),
    /// All from one to another, both included, with all that begin like the last: `a..c`. A year of days is `2022..2022`.
    Among {
        /// The first.
        from: String,
        /// The last, or how the last begin.
        to: String,
    },
}

impl Choice {
    /// Whether a folded value is meant.
    pub fn holds(&self, folded: &str) -> bool {
        match self {
            Choice::Is(value) => value == folded,
            Choice::Among { from, to } => {
                from.as_str() <= folded
                    && (folded <= to.as_str() || folded.starts_with(to.as_str()))
            }
        }
    }

    /// All values that begin so.
    pub fn beginning(with: impl Into<String>) -> Self {
        let from = with.into();
        Choice::Among {
            to: from.clone(),
            from,
        }
    }

    /// The choice as a part of a path behind its axis.
    pub fn path(&self, axis: Axis) -> String {
        let end = |text: &str| segment(text).replace('.', "%2E");
        match self {
            // The months of a year lie in it.
            Choice::Among { from, to } if from == to && axis == Axis::Filed && from.len() == 7 => {
                format!("/@filed/{}", from.replace('-', "/"))
            }
            Choice::Among { from, to } if from == to && axis == Axis::Filed => {
                format!("/@filed/{}", end(from))
            }
            Choice::Among { from, to } => format!("/@{}/{}..{}", axis.as_str(), end(from), end(to)),
            Choice::Is(value) => value_path(axis, value),
        }
    }
}

/// A place in the file-system view: a folder, narrowed by axes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Folder as ingested, without slashes at its ends; empty for all.
    pub folder: String,
    /// All must hold.
    pub filters: Vec<(Axis, Choice)>,
    /// Set where the path ends in an axis without a value (`/@company`), or with many (`/@company/a..c`, `/@filed/2023`):
    /// its values are asked for.
    pub values_of: Option<Axis>,
}

/// Why a path is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// There is no such axis.
    #[error("there is no axis `@{name}`; axes are {}", axes())]
    NoAxis {
        /// As written.
        name: String,
    },
    /// No document has this value.
    #[error("no document has `{value}` on the axis @{axis}")]
    NoValue {
        /// The axis.
        axis: &'static str,
        /// As written.
        value: String,
        /// Values that are like it, at most five.
        near: Vec<String>,
    },
    /// More than one value fits.
    #[error("`{value}` fits more than one value of @{axis}")]
    Ambiguous {
        /// The axis.
        axis: &'static str,
        /// As written.
        value: String,
        /// Values that fit, at most five.
        candidates: Vec<String>,
    },
    /// There is no such folder.
    #[error("there is no folder `{folder}`")]
    NoFolder {
        /// As written.
        folder: String,
    },
    /// More than any listing says.
    #[error("a path narrows by at most {MAX_FILTERS} axes")]
    TooLong,
}

fn axes() -> String {
    let named: Vec<String> = Axis::ALL
        .into_iter()
        .map(|axis| format!("@{}", axis.as_str()))
        .collect();
    named.join(", ")
}

impl Scope {
    /// Reads `/`, `/10-K/2022`, `/@company/3M/@form/10-K`, `/@fiscal_year/2018..2020`, `/@filed/2023/02`. Values may be
    /// given in part: whole words from the start.
    ///
    /// # Errors
    /// [`ScopeError`] when an axis, a value or the folder is not there, or a value fits more than one.
    pub fn parse(path: &str, catalogue: &Catalogue) -> Result<Self, ScopeError> {
        let mut scope = Scope::default();
        let mut segments = path
            .split('/')
            .filter(|segment| !segment.is_empty() && *segment != ".")
            .peekable();
        let mut folder: Vec<String> = Vec::new();
        while let Some(segment) = segments.next() {
            scope.values_of = None;
            let Some(name) = segment.strip_prefix('@') else {
                folder.push(unescape(segment));
                continue;
            };
            let axis = Axis::named(name).ok_or_else(|| ScopeError::NoAxis { name: name.into() })?;
            if scope.filters.len() == MAX_FILTERS {
                return Err(ScopeError::TooLong);
            }
            let Some(value) = segments.next() else {
                scope.values_of = Some(axis);
                break;
            };
            let choice = match axis {
                Axis::Filed => day(
                    value,
                    segments.next_if(|next| value.len() == 4 && is_month(next)),
                ),
                _ => range(value),
            };
            let choice = choice.map_or_else(
                || find_value(axis, &unescape(value), catalogue).map(Choice::Is),
                Ok,
            )?;
            // Days of a month are listed as documents, months of a year and values of a range as folders.
            let is_narrow = matches!(&choice, Choice::Is(_))
                || matches!(&choice, Choice::Among { from, to } if from == to && axis == Axis::Filed && from.len() > 4);
            scope.values_of = Some(axis).filter(|_| !is_narrow);
            scope.filters.push((axis, choice));
        }
        scope.folder = folder.join("/");
        if !scope.folder.is_empty()
            && !catalogue
                .documents()
                .iter()
                .any(|listed: &Listed| below(&scope.folder, &listed.version().path).is_some())
        {
            return Err(ScopeError::NoFolder {
                folder: scope.folder,
            });
        }
        Ok(scope)
    }

    /// Whether a document lies in it.
    pub fn holds(&self, listed: &Listed) -> bool {
        below(&self.folder, &listed.version().path).is_some()
            && self.filters.iter().all(|(axis, choice): &(Axis, Choice)| {
                axis.values(listed)
                    .into_iter()
                    .any(|value| choice.holds(&fold(*axis, value)))
            })
    }

    /// The values of an axis among the documents of this scope, with their numbers of documents, in order. The spelling
    /// is that of the first document.
    pub fn values(&self, axis: Axis, catalogue: &Catalogue) -> Vec<(String, usize)> {
        let values = self.folded_values(axis, catalogue);
        values
            .into_values()
            .map(|(value, documents)| (value.to_owned(), documents))
            .collect()
    }

    /// What [`Scope::values`] says, by folded value.
    pub(crate) fn folded_values<'a>(
        &self,
        axis: Axis,
        catalogue: &'a Catalogue,
    ) -> BTreeMap<String, (&'a str, usize)> {
        let mut values: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        let narrowed: Vec<&Choice> = self
            .filters
            .iter()
            .filter(|(on, _)| *on == axis)
            .map(|(_, choice)| choice)
            .collect();
        for listed in catalogue
            .documents()
            .iter()
            .filter(|listed| self.holds(listed))
        {
            let mut seen: Vec<String> = Vec::new();
            for value in axis.values(listed) {
                let folded = fold(axis, value);
                // A document with several values is counted under each, once, and only under those that are meant.
                if !seen.contains(&folded) && narrowed.iter().all(|choice| choice.holds(&folded)) {
                    values.entry(folded.clone()).or_insert((value, 0)).1 += 1;
                    seen.push(folded);
                }
            }
        }
        values
    }

    /// The scope as a path, values as they are compared; `/` for everything.
    pub fn path(&self) -> String {
        let folder = self.folder.split('/').filter(|name| !name.is_empty());
        let mut path: String = folder.map(|name| format!("/{}", segment(name))).collect();
        path.extend(self.filters.iter().map(|(axis, choice)| choice.path(*axis)));
        if let Some(axis) = self
            .values_of
            .filter(|axis| self.filters.last().is_none_or(|(last, _)| last != axis))
        {
            path.push_str(&format!("/@{}", axis.as_str()));
        }
        if path.is_empty() { "/".into() } else { path }
    }
}

/// `a..c`; `None` where it is no range.
fn range(segment: &str) -> Option<Choice> {
    let (from, to) = segment.split_once("..")?;
    // Ends may stand in the middle of a word, so that legal forms are not looked for.
    Some(Choice::Among {
        from: unescape(from).to_lowercase(),
        to: unescape(to).to_lowercase(),
    })
}

/// A year, a month or a day by which documents were filed.
fn day(segment: &str, month: Option<&str>) -> Option<Choice> {
    if let Some(range) = range(segment) {
        return Some(range);
    }
    let is_day = matches!(segment.len(), 4 | 7 | 10)
        && segment.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    is_day.then(|| {
        Choice::beginning(
            month.map_or_else(|| segment.to_owned(), |month| format!("{segment}-{month}")),
        )
    })
}

/// Two digits, as a year has four.
fn is_month(segment: &str) -> bool {
    segment.len() == 2 && segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// The path of an axis value: `/@form/10-Q%2FA`.
pub fn value_path(axis: Axis, value: &str) -> String {
    // Two dots would be read as a range.
    format!(
        "/@{}/{}",
        axis.as_str(),
        segment(value).replace("..", "%2E%2E")
    )
}

/// A name as a part of a path: what would be read as an axis, or as the folder itself or the one above, is escaped.
pub(crate) fn segment(name: &str) -> String {
    match name {
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        _ => match name.strip_prefix('@') {
            Some(rest) => format!("%40{}", escape(rest)),
            None => escape(name),
        },
    }
}

/// What of `path` lies below `folder`; `None` when it does not.
pub fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    path.strip_prefix(folder)?.strip_prefix('/')
}

/// Endings that say what kind of company one is, not which.
const LEGAL_FORMS: [&str; 16] = [
    "inc",
    "incorporated",
    "corp",
    "corporation",
    "co",
    "company",
    "ltd",
    "limited",
    "plc",
    "llc",
    "lp",
    "sa",
    "ag",
    "nv",
    "se",
    "the",
];

/// The value as it is compared: lower case; a company without punctuation and legal form (`3M COMPANY` is `3m`).
pub fn fold(axis: Axis, value: &str) -> String {
    if axis != Axis::Company {
        return value.trim().to_lowercase();
    }
    let lower = value.to_lowercase().replace(['.', '\'', '’'], "");
    let mut words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '&')
        .filter(|w| !w.is_empty())
        .collect();
    let all = words.clone();
    while words.last().is_some_and(|word| LEGAL_FORMS.contains(word)) {
        words.pop();
    }
    if words.first() == Some(&"the") {
        words.remove(0);
    }
    if words.is_empty() {
        all.join(" ")
    } else {
        words.join(" ")
    }
}

fn find_value(axis: Axis, wanted: &str, catalogue: &Catalogue) -> Result<String, ScopeError> {
    let folded = fold(axis, wanted);
    let values = Scope::default().values(axis, catalogue);
    if values.iter().any(|(value, _)| fold(axis, value) == folded) {
        return Ok(folded);
    }
    let starts = |value: &str| {
        fold(axis, value)
            .strip_prefix(&folded)
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let mut candidates: Vec<String> = values
        .iter()
        .map(|(value, _)| value.clone())
        .filter(|value| starts(value))
        .collect();
    let axis_name = axis.as_str();
    let value = wanted.to_owned();
    match candidates.len() {
        1 if !folded.is_empty() => Ok(fold(axis, &candidates[0])),
        0 => {
            let near = values
                .into_iter()
                .map(|(value, _)| value)
                .filter(|value: &String| !folded.is_empty() && fold(axis, value).contains(&folded))
                .take(5)
                .collect();
            Err(ScopeError::NoValue {
                axis: axis_name,
                value,
                near,
            })
        }
        _ => {
            candidates.truncate(5);
            Err(ScopeError::Ambiguous {
                axis: axis_name,
                value,
                candidates,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{entry, of_company};

    fn catalogue() -> Catalogue {
        Catalogue::of_entries([
            of_company("10-K/a.pdf", "3M COMPANY"),
            of_company("10-K/b.pdf", "3M Co."),
            of_company("8-K/c.pdf", "American Express Company"),
            of_company("8-K/d.pdf", "American Water Works Company, Inc."),
            entry("e.md"),
        ])
    }

    fn held(path: &str) -> Result<Vec<String>, ScopeError> {
        let catalogue = catalogue();
        let scope = Scope::parse(path, &catalogue)?;
        let held = catalogue
            .documents()
            .iter()
            .filter(|listed| scope.holds(listed));
        Ok(held.map(|listed| listed.version().path.clone()).collect())
    }

    #[test]
    fn spellings_of_a_company_are_one_value() {
        let values = Scope::default().values(Axis::Company, &catalogue());
        assert_eq!(values[0], ("3M COMPANY".to_owned(), 2));
        assert_eq!(held("/@company/3m").unwrap(), ["10-K/a.pdf", "10-K/b.pdf"]);
        assert_eq!(
            held("/@company/american express/@status/done").unwrap(),
            ["8-K/c.pdf"]
        );
        assert_eq!(held("/10-K/@quality/verified").unwrap().len(), 2);
    }

    #[test]
    fn a_value_that_fits_two_is_refused() {
        assert!(
            matches!(held("/@company/american"), Err(ScopeError::Ambiguous { candidates, .. }) if candidates.len() == 2)
        );
        assert!(
            matches!(held("/@company/express"), Err(ScopeError::NoValue { near, .. }) if near.len() == 1)
        );
        assert!(matches!(
            held("/@colour/red"),
            Err(ScopeError::NoAxis { .. })
        ));
        assert!(matches!(held("/9-K"), Err(ScopeError::NoFolder { .. })));
    }

    #[test]
    fn printed_values_are_found_again() {
        let catalogue = catalogue();
        for axis in Axis::ALL {
            for (value, documents) in Scope::default().values(axis, &catalogue) {
                let scope = Scope::parse(&value_path(axis, &value), &catalogue).unwrap();
                assert_eq!(
                    catalogue
                        .documents()
                        .iter()
                        .filter(|listed| scope.holds(listed))
                        .count(),
                    documents
                );
            }
        }
    }
}
