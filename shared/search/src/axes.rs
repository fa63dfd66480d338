//! Virtual folders: documents by what they say about themselves, beside the folders they were ingested from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Listed};
use crate::labels::{escape, unescape};

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
    /// End of the period, ISO date.
    Period,
    /// State of the document.
    Status,
    /// How much of the tree was verified: `verified` (≥ 0.9 of titles), `partly_verified` (≥ 0.6, below which another
    /// method is tried), `unverified`.
    Quality,
}

impl Axis {
    /// All axes in the order they are listed.
    pub const ALL: [Axis; 6] = [Axis::Company, Axis::Form, Axis::FiscalYear, Axis::Period, Axis::Status, Axis::Quality];

    /// The word behind the `@`.
    pub fn as_str(self) -> &'static str {
        match self {
            Axis::Company => "company",
            Axis::Form => "form",
            Axis::FiscalYear => "fiscal_year",
            Axis::Period => "period",
            Axis::Status => "status",
            Axis::Quality => "quality",
        }
    }

    /// The axis of this name, with or without `@`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix('@').unwrap_or(name);
        Axis::ALL.into_iter().find(|axis| axis.as_str().eq_ignore_ascii_case(name))
    }

    /// The document's value on this axis; `None` where it has none.
    pub fn value(self, listed: &Listed) -> Option<&str> {
        let entry = listed.entry();
        let facts = entry.map(|entry| &entry.facts);
        let fact = match self {
            Axis::Company => facts?.issuer.as_ref(),
            Axis::Form => facts?.form.as_ref(),
            Axis::FiscalYear => facts?.fiscal_year.as_ref(),
            Axis::Period => facts?.period_end.as_ref(),
            Axis::Status => return Some(listed.state.as_str()),
            Axis::Quality => {
                return entry.map(|entry| match entry.accuracy {
                    accuracy if accuracy >= 0.9 => "verified",
                    accuracy if accuracy >= 0.6 => "partly_verified",
                    _ => "unverified",
                });
            }
        };
        fact.map(|fact| fact.value.as_str())
    }
}

/// A place in the file-system view: a folder, narrowed by axes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Folder as ingested, without slashes at its ends; empty for all.
    pub folder: String,
    /// Axis and folded value (see [`fold`]); all must hold.
    pub filters: Vec<(Axis, String)>,
    /// Set where the path ends in an axis without a value (`/@company`): its values are asked for.
    pub values_of: Option<Axis>,
}

/// Why a path is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// There is no such axis.
    #[error("there is no axis `@{name}`; axes are @company, @form, @fiscal_year, @period, @status and @quality")]
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
}

impl Scope {
    /// Reads `/`, `/10-K/2022`, `/@company/3M/@form/10-K`. Values may be given in part: whole words from the start.
    ///
    /// # Errors
    /// [`ScopeError`] when an axis, a value or the folder is not there, or a value fits more than one.
    pub fn parse(path: &str, catalogue: &Catalogue) -> Result<Self, ScopeError> {
        let mut scope = Scope::default();
        let mut segments = path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").peekable();
        let mut folder: Vec<String> = Vec::new();
        while let Some(segment) = segments.next() {
            let Some(name) = segment.strip_prefix('@') else {
                folder.push(unescape(segment));
                continue;
            };
            let axis = Axis::named(name).ok_or_else(|| ScopeError::NoAxis { name: name.into() })?;
            match segments.next() {
                Some(value) => scope.filters.push((axis, find_value(axis, &unescape(value), catalogue)?)),
                None => scope.values_of = Some(axis),
            }
        }
        scope.folder = folder.join("/");
        let exists = |listed: &Listed| below(&scope.folder, &listed.version().path).is_some();
        if !scope.folder.is_empty() && !catalogue.documents().iter().any(exists) {
            return Err(ScopeError::NoFolder { folder: scope.folder });
        }
        Ok(scope)
    }

    /// Whether a document lies in it.
    pub fn holds(&self, listed: &Listed) -> bool {
        let fits =
            |(axis, folded): &(Axis, String)| axis.value(listed).is_some_and(|value| fold(*axis, value) == *folded);
        below(&self.folder, &listed.version().path).is_some() && self.filters.iter().all(fits)
    }

    /// The values of an axis among the documents of this scope, with their numbers of documents, in order. The spelling
    /// is that of the first document.
    pub fn values(&self, axis: Axis, catalogue: &Catalogue) -> Vec<(String, usize)> {
        let mut values: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for listed in catalogue.documents().iter().filter(|listed| self.holds(listed)) {
            if let Some(value) = axis.value(listed) {
                values.entry(fold(axis, value)).or_insert((value, 0)).1 += 1;
            }
        }
        values.into_values().map(|(value, documents)| (value.to_owned(), documents)).collect()
    }
}

/// The path of an axis value: `/@form/10-Q%2FA`.
pub fn value_path(axis: Axis, value: &str) -> String {
    format!("/@{}/{}", axis.as_str(), escape(value))
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
    let mut words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric() && c != '&').filter(|w| !w.is_empty()).collect();
    let all = words.clone();
    while words.last().is_some_and(|word| LEGAL_FORMS.contains(word)) {
        words.pop();
    }
    if words.first() == Some(&"the") {
        words.remove(0);
    }
    if words.is_empty() { all.join(" ") } else { words.join(" ") }
}

fn find_value(axis: Axis, wanted: &str, catalogue: &Catalogue) -> Result<String, ScopeError> {
    let folded = fold(axis, wanted);
    let values = Scope::default().values(axis, catalogue);
    if values.iter().any(|(value, _)| fold(axis, value) == folded) {
        return Ok(folded);
    }
    let starts = |value: &str| {
        fold(axis, value).strip_prefix(&folded).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let mut candidates: Vec<String> =
        values.iter().map(|(value, _)| value.clone()).filter(|value| starts(value)).collect();
    let (axis_name, value) = (axis.as_str(), wanted.to_owned());
    match candidates.len() {
        1 if !folded.is_empty() => Ok(fold(axis, &candidates[0])),
        0 => {
            let like = |value: &String| !folded.is_empty() && fold(axis, value).contains(&folded);
            let near = values.into_iter().map(|(value, _)| value).filter(like).take(5).collect();
            Err(ScopeError::NoValue { axis: axis_name, value, near })
        }
        _ => {
            candidates.truncate(5);
            Err(ScopeError::Ambiguous { axis: axis_name, value, candidates })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::tests::{entry, of_company};

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
        let held = catalogue.documents().iter().filter(|listed| scope.holds(listed));
        Ok(held.map(|listed| listed.version().path.clone()).collect())
    }

    #[test]
    fn spellings_of_a_company_are_one_value() {
        let values = Scope::default().values(Axis::Company, &catalogue());
        assert_eq!(values[0], ("3M COMPANY".to_owned(), 2));
        assert_eq!(held("/@company/3m").unwrap(), ["10-K/a.pdf", "10-K/b.pdf"]);
        assert_eq!(held("/@company/american express/@status/done").unwrap(), ["8-K/c.pdf"]);
        assert_eq!(held("/10-K/@quality/verified").unwrap().len(), 2);
    }

    #[test]
    fn a_value_that_fits_two_is_refused() {
        assert!(
            matches!(held("/@company/american"), Err(ScopeError::Ambiguous { candidates, .. }) if candidates.len() == 2)
        );
        assert!(matches!(held("/@company/express"), Err(ScopeError::NoValue { near, .. }) if near.len() == 1));
        assert!(matches!(held("/@colour/red"), Err(ScopeError::NoAxis { .. })));
        assert!(matches!(held("/9-K"), Err(ScopeError::NoFolder { .. })));
    }

    #[test]
    fn printed_values_are_found_again() {
        let catalogue = catalogue();
        for axis in Axis::ALL {
            for (value, documents) in Scope::default().values(axis, &catalogue) {
                let scope = Scope::parse(&value_path(axis, &value), &catalogue).unwrap();
                assert_eq!(catalogue.documents().iter().filter(|listed| scope.holds(listed)).count(), documents);
            }
        }
    }
}
