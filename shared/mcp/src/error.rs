//! Tool errors. They are results that the model reads, because clients hide the text of protocol errors.

use serde_json::{Value, json};
use stemma_archive::ApiError;
use stemma_gateway::admission::AdmissionError;
use stemma_store::PortError;

/// Error category, as in `errorCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolErrorKind {
    NotFound,
    Ambiguous,
    InvalidInput,
    Forbidden,
    /// The document has no tree, or not yet.
    NotReady,
    /// Timed out, or the store is unavailable.
    Unavailable,
    Internal,
}

impl ToolErrorKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ToolErrorKind::NotFound => "NOT_FOUND",
            ToolErrorKind::Ambiguous => "AMBIGUOUS",
            ToolErrorKind::InvalidInput => "INVALID_INPUT",
            ToolErrorKind::Forbidden => "FORBIDDEN",
            ToolErrorKind::NotReady => "NOT_READY",
            ToolErrorKind::Unavailable => "UNAVAILABLE",
            ToolErrorKind::Internal => "INTERNAL_ERROR",
        }
    }
}

/// A tool error and its next step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolError {
    pub(crate) kind: ToolErrorKind,
    /// Stable code, as on every surface: `locator.ambiguous`.
    pub(crate) code: String,
    pub(crate) message: String,
    /// Similar values, at most five.
    pub(crate) candidates: Vec<String>,
    options: Vec<String>,
}

impl ToolError {
    pub(crate) fn new(kind: ToolErrorKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            candidates: Vec::new(),
            options: Vec::new(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidInput, "request.invalid", message)
    }

    pub(crate) fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::NotFound, code, message)
    }

    pub(crate) fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Unavailable, code, message)
    }

    #[must_use]
    pub(crate) fn with_option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    #[must_use]
    pub(crate) fn with_candidates(mut self, candidates: Vec<String>) -> Self {
        self.candidates = candidates;
        self.candidates.truncate(5);
        self
    }

    /// The envelope: `{error, errorCode, code, candidates, next_steps}`.
    pub(crate) fn data(&self) -> Value {
        let mut data = json!({
            "error": self.message, "errorCode": self.kind.as_str(), "code": self.code,
            "next_steps": { "summary": self.summary(), "options": self.next_steps() },
        });
        if !self.candidates.is_empty() {
            data["candidates"] = json!(self.candidates);
        }
        data
    }

    pub(crate) fn text(&self) -> String {
        let next_steps = self.next_steps().join("\n- ");
        format!("{}: {}\n- {next_steps}", self.kind.as_str(), self.message)
    }

    fn summary(&self) -> &'static str {
        match self.kind {
            ToolErrorKind::NotFound => "Nothing has that name",
            ToolErrorKind::Ambiguous => "More than one thing has that name; choose one",
            ToolErrorKind::InvalidInput => "The arguments are invalid",
            ToolErrorKind::Forbidden => "The API key of this connection does not allow this",
            ToolErrorKind::NotReady => "The document has no section tree to read from",
            ToolErrorKind::Unavailable => "The call could not be completed now",
            ToolErrorKind::Internal => "The tool failed",
        }
    }

    fn next_steps(&self) -> Vec<String> {
        let mut options = self.options.clone();
        if !self.candidates.is_empty() {
            options.insert(0, format!("Use one of: {}", self.candidates.join(", ")));
        }
        if options.is_empty() {
            options.push(match self.kind {
                ToolErrorKind::NotFound | ToolErrorKind::Ambiguous => {
                    "Take a name from browse_documents() or search()".into()
                }
                ToolErrorKind::InvalidInput => "Correct the argument and call again".into(),
                ToolErrorKind::Forbidden => "Use search() and get_page_content()".into(),
                ToolErrorKind::NotReady => "See get_document() for its status".into(),
                ToolErrorKind::Unavailable | ToolErrorKind::Internal => {
                    "Call again in a moment, or ask for less".into()
                }
            });
        }
        options
    }
}

impl From<ApiError> for ToolError {
    fn from(error: ApiError) -> Self {
        if error.is_index_pending() {
            let message = "the index of the documents is still being built";
            return Self::unavailable("index.building", message).with_option(
                "Call again in a few seconds; names, pages and grep_document() need no index",
            );
        }
        let is_not_found = error.is_not_found();
        let ApiError {
            code,
            message,
            next,
            candidates,
            ..
        } = error;
        let kind = match code {
            "locator.ambiguous" | "locator.item_ambiguous" | "scope.ambiguous" => {
                ToolErrorKind::Ambiguous
            }
            "document.no_tree" => ToolErrorKind::NotReady,
            // Errors of the store may contain keys and addresses, so only the log gets them.
            "store.unreadable" => {
                tracing::warn!(error = message, "the store cannot be read");
                let message = "the store cannot be read";
                return Self::unavailable(code, message);
            }
            "server.busy" | "vision.no_model" | "vision.limit_reached" => {
                ToolErrorKind::Unavailable
            }
            _ if code.starts_with("model.") => ToolErrorKind::Unavailable,
            "store.damaged" => ToolErrorKind::Internal,
            "document.no_text" => ToolErrorKind::NotFound,
            _ if is_not_found => ToolErrorKind::NotFound,
            _ => ToolErrorKind::InvalidInput,
        };
        // The next step of an `ApiError` is a command, which a client of this server cannot run.
        let option = match code {
            "search.no_words" => Some("grep_document() finds any characters in one document"),
            // How to write a query is the same everywhere.
            "search.syntax_invalid" | "search.too_long" => next.as_deref(),
            "search.scope_invalid" => {
                Some("Search the document or an Item of it (…#item-7), or grep_document()")
            }
            _ => None,
        };
        let error = Self::new(kind, code, message).with_candidates(candidates);
        match option {
            Some(option) => error.with_option(option),
            None => error,
        }
    }
}

impl From<AdmissionError> for ToolError {
    fn from(error: AdmissionError) -> Self {
        let kind = match error {
            AdmissionError::Busy => ToolErrorKind::Unavailable,
            _ => ToolErrorKind::Forbidden,
        };
        Self::new(kind, error.code(), error.to_string())
    }
}

impl From<PortError> for ToolError {
    fn from(error: PortError) -> Self {
        ApiError::from(error).into()
    }
}
