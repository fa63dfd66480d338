//! How well a quote matches its page.

use serde::{Deserialize, Serialize};

/// Result of comparing a quote with the text of its page.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum QuoteMatch {
    /// Found character for character.
    Exact,
    /// Found after folding white space, hyphens at line ends, quotation marks and case (NFKC).
    #[serde(rename = "normalised")]
    Normalized,
    /// The words were not found together, but every number of the quote was.
    Number,
    /// Not found: shown crossed out, or dropped.
    #[default]
    None,
}

impl QuoteMatch {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Normalized => "normalised",
            Self::Number => "number",
            Self::None => "none",
        }
    }

    /// Whether the words themselves were found.
    pub fn is_verbatim(self) -> bool {
        matches!(self, Self::Exact | Self::Normalized)
    }
}
