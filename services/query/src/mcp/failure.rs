//! Why a tool has no answer. It is a result that a model reads, not an error of the protocol, whose texts clients swallow.

use serde_json::{Map, Value, json};
use stemma_engine::PortError;
use stemma_retrieval::FindError;

use super::call::is_being_indexed;
use crate::Refusal;
use crate::server::stay::Held;

/// What kind of failure it is; the words are those of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is no such thing.
    NotFound,
    /// More than one thing fits.
    Ambiguous,
    /// The arguments are wrong.
    InvalidInput,
    /// The key of the request may not do that.
    Forbidden,
    /// The document has no tree (yet).
    NotReady,
    /// It took too long, or the store is away.
    Unavailable,
    /// Stemma is at fault.
    Internal,
}

impl Kind {
    /// The word in `errorCode`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::NotFound => "NOT_FOUND",
            Kind::Ambiguous => "AMBIGUOUS",
            Kind::InvalidInput => "INVALID_INPUT",
            Kind::Forbidden => "FORBIDDEN",
            Kind::NotReady => "NOT_READY",
            Kind::Unavailable => "UNAVAILABLE",
            Kind::Internal => "INTERNAL_ERROR",
        }
    }
}

/// Why a tool has no answer, and what to do instead.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// What kind it is.
    pub(super) kind: Kind,
    /// Stable code, as on every surface: `locator.ambiguous`.
    pub(super) code: String,
    /// One sentence.
    pub(super) message: String,
    /// What to choose from, at most five.
    pub(super) candidates: Vec<String>,
    /// What to do.
    options: Vec<String>,
}

impl Failure {
    /// A failure under a stable code.
    pub(super) fn new(kind: Kind, code: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            candidates: Vec::new(),
            options: Vec::new(),
        }
    }

    /// Arguments that are wrong.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidInput, "request.invalid", message)
    }

    /// The same with something to do.
    #[must_use]
    pub(super) fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// The same with what to choose from.
    #[must_use]
    pub(super) fn among(mut self, candidates: Vec<String>) -> Self {
        self.candidates = candidates;
        self.candidates.truncate(5);
        self
    }

    /// Whether the call asked for what is not there, or not to be had, rather than for something that is away now.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::NotFound | Kind::InvalidInput)
    }

    /// The envelope: `{error, errorCode, code, candidates, next_steps}`.
    pub(super) fn data(&self) -> Value {
        let mut data = Map::new();
        data.insert("error".into(), json!(self.message));
        data.insert("errorCode".into(), json!(self.kind.as_str()));
        data.insert("code".into(), json!(self.code));
        if !self.candidates.is_empty() {
            data.insert("candidates".into(), json!(self.candidates));
        }
        data.insert(
            "next_steps".into(),
            json!({ "summary": self.summary(), "options": self.what_to_do() }),
        );
        Value::Object(data)
    }

    /// The same for reading.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: {}", self.kind.as_str(), self.message);
        for option in self.what_to_do() {
            text.push_str("\n- ");
            text.push_str(&option);
        }
        text
    }

    fn summary(&self) -> &'static str {
        match self.kind {
            Kind::NotFound => "There is nothing of that name",
            Kind::Ambiguous => "More than one thing fits that name; choose one",
            Kind::InvalidInput => "The arguments cannot be used as they are",
            Kind::Forbidden => "The key of this connection may not do that",
            Kind::NotReady => "The document has no section tree to read from",
            Kind::Unavailable => "The answer could not be made now",
            Kind::Internal => "The tool failed",
        }
    }

    fn what_to_do(&self) -> Vec<String> {
        let mut options = self.options.clone();
        if !self.candidates.is_empty() {
            options.insert(0, format!("Use one of: {}", self.candidates.join(", ")));
        }
        if options.is_empty() {
            options.push(match self.kind {
                Kind::NotFound | Kind::Ambiguous => {
                    "Take a name from browse_documents() or search()".into()
                }
                Kind::InvalidInput => "Correct the argument and call again".into(),
                Kind::Forbidden => "Use search() and get_page_content()".into(),
                Kind::NotReady => "See get_document() for its status".into(),
                Kind::Unavailable | Kind::Internal => {
                    "Call again in a moment, or ask for less".into()
                }
            });
        }
        options
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.code {
            "locator.ambiguous" | "locator.item_ambiguous" | "scope.ambiguous" => Kind::Ambiguous,
            "document.no_tree" => Kind::NotReady,
            "store.unreadable" => return away(&refusal.message),
            "store.damaged" => Kind::Internal,
            _ if refusal.is_not_found() || refusal.code == "document.no_text" => Kind::NotFound,
            _ => Kind::InvalidInput,
        };
        Self::new(kind, refusal.code, refusal.message).among(refusal.candidates)
    }
}

impl From<Held> for Failure {
    fn from(held: Held) -> Self {
        let kind = if held == Held::Busy {
            Kind::Unavailable
        } else {
            Kind::Forbidden
        };
        Self::new(kind, held.code(), held.to_string())
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        away(&error.to_string())
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Port(error) if is_being_indexed(&error) => Self::new(
                Kind::Unavailable,
                "index.building",
                "the index of the documents is still being made",
            )
            .option("Call again in a few seconds; names, pages and grep_document() need no index"),
            FindError::Port(error) => error.into(),
            FindError::NoWords { .. } => {
                Self::new(Kind::InvalidInput, "search.no_words", error.to_string())
                    .option("grep_document() finds any characters in one document")
            }
            FindError::Item { .. } => {
                Self::new(Kind::InvalidInput, "search.item", error.to_string())
            }
            other => Self::new(Kind::InvalidInput, "search.invalid", other.to_string()),
        }
    }
}

/// What a store says of itself (keys, addresses) is for the log.
fn away(error: &str) -> Failure {
    tracing::warn!(error, "the store cannot be read");
    Failure::new(
        Kind::Unavailable,
        "store.unreadable",
        "the store cannot be read",
    )
}
