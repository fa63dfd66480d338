//! The error of all read operations.

use serde::Serialize;
use stemma_catalog::facets::ScopeError;
use stemma_catalog::filter::FilterError;
use stemma_catalog::locator::ResolveError;
use stemma_catalog::path::PathError;
use stemma_diff::{AlignError, PriorFilingError};
use stemma_store::PortError;
use stemma_store::work::RESERVE_OPERATION;

/// A failed request: a stable code, one sentence, and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct ApiError {
    /// Stable code, such as `locator.ambiguous`.
    pub code: &'static str,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// The next step: a command.
    pub next: Option<String>,
    /// The document it is about.
    pub file: Option<String>,
    /// Locators (or values) to choose from, at most five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    // Boxed: the error is returned by value everywhere.
    #[serde(skip)]
    detail: Option<Box<ErrorDetail>>,
}

// Details for some surfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ErrorDetail {
    InvalidField { pointer: String },
    IndexPending,
}

impl ApiError {
    /// An error with a next step.
    pub fn new(code: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            next: Some(next.into()),
            file: None,
            candidates: Vec::new(),
            detail: None,
        }
    }

    /// The error for a field of a request with an invalid value; `pointer` is its JSON pointer.
    pub fn invalid_field(pointer: &str, message: impl Into<String>) -> Self {
        let pointer = pointer.to_owned();
        Self {
            detail: Some(Box::new(ErrorDetail::InvalidField { pointer })),
            ..Self::invalid(message)
        }
    }

    /// The error for a request that cannot be meant.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            next: None,
            ..Self::new("request.invalid", message, "")
        }
    }

    /// JSON pointer of the invalid field of the request, if there is one.
    pub fn pointer(&self) -> Option<&str> {
        match self.detail.as_deref() {
            Some(ErrorDetail::InvalidField { pointer }) => Some(pointer),
            _ => None,
        }
    }

    /// Whether the index is being built, so that the same request will succeed later.
    pub fn is_index_pending(&self) -> bool {
        matches!(self.detail.as_deref(), Some(ErrorDetail::IndexPending))
    }

    /// Adds the document that the error is about.
    #[must_use]
    pub fn with_document(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    // The error for a part that a document does not have; its tree shows those it has.
    pub(crate) fn in_document(code: &'static str, message: String, document: &str) -> Self {
        let next = format!("stemma tree {}", shell_quoted(document));
        Self::new(code, message, next).with_document(document)
    }

    pub(crate) fn with_candidates(mut self, candidates: Vec<String>) -> Self {
        self.candidates = candidates;
        self
    }

    /// Whether the request names something unknown.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.code,
            "locator.not_found" | "locator.no_section" | "locator.no_item" | "scope.not_found"
        )
    }
}

/// Whether a code means a failure of the store, the index or the configuration, rather than of the request.
pub fn is_store_error(code: &str) -> bool {
    ["store.", "index.", "config."]
        .iter()
        .any(|group| code.starts_with(group))
}

impl From<PortError> for ApiError {
    fn from(error: PortError) -> Self {
        if error.operation == RESERVE_OPERATION {
            return Self::new("server.busy", error.message, "retry later, or ask for less");
        }
        if error.port() == "index" && error.is_transient() {
            return Self {
                detail: Some(Box::new(ErrorDetail::IndexPending)),
                ..Self::new("index.building", error.message, "stemma index status")
            };
        }
        Self::new("store.unreadable", error.to_string(), "stemma doctor")
    }
}

impl From<ResolveError> for ApiError {
    fn from(error: ResolveError) -> Self {
        let message = error.to_string();
        match error {
            ResolveError::Port(error) => error.into(),
            ResolveError::NotFound { near, .. } => {
                let next = command_for_first("stat", &near).unwrap_or_else(|| "stemma ls".into());
                Self::new("locator.not_found", message, next).with_candidates(near)
            }
            ResolveError::Ambiguous { candidates, .. } => {
                let next = command_for_first("stat", &candidates).unwrap_or_default();
                Self::new("locator.ambiguous", message, next).with_candidates(candidates)
            }
            ResolveError::InvalidPages { document, .. }
            | ResolveError::InvalidFragment { document, .. } => {
                Self::in_document("locator.invalid", message, &document)
            }
            ResolveError::NoSection { document, .. } => {
                Self::in_document("locator.no_section", message, &document)
            }
            ResolveError::NoItem { document, has, .. } => {
                let items = has.iter().take(5).map(|item| format!("{document}#{item}"));
                Self::in_document("locator.no_item", message, &document)
                    .with_candidates(items.collect())
            }
            ResolveError::AmbiguousItem {
                document,
                candidates,
                ..
            } => {
                let next = command_for_first("cat", &candidates).unwrap_or_default();
                Self::new("locator.item_ambiguous", message, next)
                    .with_document(&document)
                    .with_candidates(candidates)
            }
        }
    }
}

fn command_for_first(command: &str, locators: &[String]) -> Option<String> {
    let first = locators.first()?;
    Some(format!("stemma {command} {}", shell_quoted(first)))
}

impl From<PriorFilingError> for ApiError {
    fn from(error: PriorFilingError) -> Self {
        let message = error.to_string();
        let (code, candidates) = match error {
            PriorFilingError::NotAFiling { candidates, .. } => {
                ("comparison.not_a_filing", candidates)
            }
            PriorFilingError::None { candidates, .. } => ("comparison.no_previous", candidates),
            PriorFilingError::NoYear { candidates, .. } => ("comparison.no_filing", candidates),
            PriorFilingError::Several { candidates, .. } => ("comparison.ambiguous", candidates),
            PriorFilingError::Port(error) => return error.into(),
        };
        Self::new(
            code,
            message,
            "name both documents: stemma diff BEFORE AFTER",
        )
        .with_candidates(candidates)
    }
}

impl From<AlignError> for ApiError {
    fn from(error: AlignError) -> Self {
        Self::new(
            "comparison.too_large",
            error.to_string(),
            "compare a section with a section: BEFORE#0007 AFTER#0007",
        )
    }
}

impl From<PathError> for ApiError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Scope(error) => error.into(),
            PathError::Document(error) => error.into(),
        }
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> Self {
        let next = "a filter looks like: (form=10-K or form=10-Q) and fiscal_year>=2020";
        Self::new("filter.invalid", error.to_string(), next)
    }
}

impl From<ScopeError> for ApiError {
    fn from(error: ScopeError) -> Self {
        let message = error.to_string();
        match error {
            ScopeError::NoFacet { .. } => Self::new("scope.facet_unknown", message, "stemma ls /"),
            ScopeError::NoValue { axis, near, .. } => {
                Self::new("scope.not_found", message, format!("stemma ls /@{axis}"))
                    .with_candidates(near)
            }
            ScopeError::Ambiguous {
                axis, candidates, ..
            } => Self::new("scope.ambiguous", message, format!("stemma ls /@{axis}"))
                .with_candidates(candidates),
            ScopeError::TooLong => Self::new("scope.too_long", message, "stemma ls /"),
            ScopeError::NoFolder { .. } => Self::new("scope.not_found", message, "stemma ls /"),
            ScopeError::Port(error) => error.into(),
        }
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && !word.starts_with(['~', '#'])
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || "-_./~@=%,+:#".contains(c));
    if is_plain {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
