//! Why a question is not answered, and what to do instead.

use serde::Serialize;
use stemma_catalog::axes::ScopeError;
use stemma_catalog::filter::FilterError;
use stemma_catalog::locator::ResolveError;
use stemma_catalog::place::PlaceError;
use stemma_diff::{AlignError, PreviousError};
use stemma_engine::PortError;

/// A question that is not answered: stable code, one sentence, the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct Refusal {
    /// Stable code, e.g. `locator.ambiguous`.
    pub code: &'static str,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// What to do: a command.
    pub next: Option<String>,
    /// The document it is about.
    pub file: Option<String>,
    /// Locators (or values) to choose from, at most five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
}

impl Refusal {
    /// A refusal with a next step.
    pub fn new(code: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            next: Some(next.into()),
            file: None,
            candidates: Vec::new(),
        }
    }

    /// The same about a document.
    #[must_use]
    pub fn about(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    fn with(mut self, candidates: Vec<String>) -> Self {
        self.candidates = candidates;
        self
    }

    /// Whether it says that there is no such thing, rather than that the question is wrong or the store is away.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.code,
            "locator.not_found" | "locator.no_section" | "locator.no_item" | "scope.not_found"
        )
    }
}

/// Whether a code says that the store could not, rather than that a question is wrong.
pub fn is_of_store(code: &str) -> bool {
    ["store.", "index.", "config."]
        .iter()
        .any(|group| code.starts_with(group))
}

impl From<PortError> for Refusal {
    fn from(error: PortError) -> Self {
        Self::new("store.unreadable", error.to_string(), "stemma doctor")
    }
}

impl From<ResolveError> for Refusal {
    fn from(error: ResolveError) -> Self {
        let message = error.to_string();
        match error {
            ResolveError::NotFound { near, .. } => {
                let next = near.first().map_or_else(
                    || "stemma ls".into(),
                    |near| format!("stemma stat {}", quoted(near)),
                );
                Self::new("locator.not_found", message, next).with(near)
            }
            ResolveError::Ambiguous { candidates, .. } => {
                let next = candidates
                    .first()
                    .map(|one| format!("stemma stat {}", quoted(one)))
                    .unwrap_or_default();
                Self::new("locator.ambiguous", message, next).with(candidates)
            }
            ResolveError::NoSection { document, .. } => {
                let next = format!("stemma tree {}", quoted(&document));
                Self::new("locator.no_section", message, next).about(&document)
            }
            ResolveError::NoItem { document, has, .. } => {
                let next = format!("stemma tree {}", quoted(&document));
                let has = has
                    .into_iter()
                    .take(5)
                    .map(|item| format!("{document}#{item}"))
                    .collect();
                Self::new("locator.no_item", message, next)
                    .about(&document)
                    .with(has)
            }
            ResolveError::AmbiguousItem {
                document,
                candidates,
                ..
            } => {
                let next = candidates
                    .first()
                    .map(|one| format!("stemma cat {}", quoted(one)))
                    .unwrap_or_default();
                Self::new("locator.item_ambiguous", message, next)
                    .about(&document)
                    .with(candidates)
            }
        }
    }
}

impl From<PreviousError> for Refusal {
    fn from(error: PreviousError) -> Self {
        let message = error.to_string();
        let (code, candidates) = match error {
            PreviousError::NotAFiling { candidates, .. } => ("comparison.not_a_filing", candidates),
            PreviousError::None { candidates, .. } => ("comparison.no_previous", candidates),
            PreviousError::NoYear { candidates, .. } => ("comparison.no_filing", candidates),
            PreviousError::Several { candidates, .. } => ("comparison.ambiguous", candidates),
        };
        Self::new(
            code,
            message,
            "name both documents: stemma diff BEFORE AFTER",
        )
        .with(candidates)
    }
}

impl From<AlignError> for Refusal {
    fn from(error: AlignError) -> Self {
        Self::new(
            "comparison.too_large",
            error.to_string(),
            "compare a section with a section: BEFORE#0007 AFTER#0007",
        )
    }
}

impl From<PlaceError> for Refusal {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Scope(error) => error.into(),
            PlaceError::Document(error) => error.into(),
        }
    }
}

impl From<FilterError> for Refusal {
    fn from(error: FilterError) -> Self {
        let next = "a filter looks like: form=10-K and fiscal_year>=2020 and accuracy<0.9";
        Self::new("filter.invalid", error.to_string(), next)
    }
}

impl From<ScopeError> for Refusal {
    fn from(error: ScopeError) -> Self {
        let message = error.to_string();
        match error {
            ScopeError::NoAxis { .. } => Self::new("scope.no_axis", message, "stemma ls /"),
            ScopeError::NoValue { axis, near, .. } => {
                Self::new("scope.not_found", message, format!("stemma ls /@{axis}")).with(near)
            }
            ScopeError::Ambiguous {
                axis, candidates, ..
            } => Self::new("scope.ambiguous", message, format!("stemma ls /@{axis}"))
                .with(candidates),
            ScopeError::TooLong => Self::new("scope.too_long", message, "stemma ls /"),
            ScopeError::NoFolder { .. } => Self::new("scope.not_found", message, "stemma ls /"),
        }
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_alphanumeric()
            || matches!(
                c,
                '-' | '_' | '.' | '/' | '~' | '@' | '=' | '%' | ',' | '+' | ':'
            )
    };
    let ok = !word.is_empty()
        && word.starts_with(plain)
        && !word.starts_with('~')
        && word.chars().all(|c: char| plain(c) || c == '#');
    if ok {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
