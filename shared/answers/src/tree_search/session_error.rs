//! Why a session has no reply of the model.

use stemma_store::Failure;

use super::budget::BUDGET_EXHAUSTED;

/// Why there is no reply. The caller goes on without it and says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The question's budget is exhausted.
    #[error("{message}")]
    BudgetExhausted { message: String },
    /// The model did not reply: unreachable, throttled for too long, or misconfigured.
    #[error("the model is unavailable: {} ({})", .0.message, .0.code)]
    Unavailable(Failure),
    /// The replies are invalid, or the model refused.
    #[error("the model's replies cannot be used: {} ({})", .0.message, .0.code)]
    Unusable(Failure),
    /// The prompt exceeds the limit; no call was made.
    #[error("the prompt of {stage} would have {tokens} tokens, more than {most}")]
    TooLong {
        /// The stage that would have called.
        stage: &'static str,
        /// Tokens of the prompt.
        tokens: u32,
        /// Limit.
        most: u32,
    },
}

impl SessionError {
    /// Codes of exhausted limits: retrying the same question does not help.
    pub const LIMITS: [&str; 2] = ["budget.used_up", "prompt.too_long"];
    pub const CODES: [&str; 4] = [
        Self::LIMITS[0],
        Self::LIMITS[1],
        "model.unavailable",
        "model.unusable",
    ];

    /// Stable code: `budget.used_up`, `model.unavailable`, `model.unusable`, `prompt.too_long`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BudgetExhausted { .. } => Self::CODES[0],
            Self::TooLong { .. } => Self::CODES[1],
            Self::Unavailable(_) => Self::CODES[2],
            Self::Unusable(_) => Self::CODES[3],
        }
    }

    /// What to do about a failure of the model.
    pub fn next(&self) -> Option<&str> {
        match self {
            Self::Unavailable(failure) | Self::Unusable(failure) => failure.next.as_deref(),
            Self::BudgetExhausted { .. } | Self::TooLong { .. } => None,
        }
    }

    pub(super) fn from_failure(failure: Failure) -> Self {
        match failure.code.as_str() {
            BUDGET_EXHAUSTED => Self::BudgetExhausted {
                message: failure.message,
            },
            "model.reply_unreadable"
            | "model.reply_cut_off"
            | "model.context_exceeded"
            | "model.refused"
            | "model.no_images" => Self::Unusable(failure),
            _ => Self::Unavailable(failure),
        }
    }
}
