//! Why a document could not be read at all. What is only partly wrong is a [`stemma_document::Defect`] instead.

/// A document that cannot be read: what is wrong, and what its owner can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExtractError {
    /// Stable code: `input.empty`, `pdf.not_a_pdf`, `pdf.encrypted_password`, `pdf.no_pages`, `pdf.damaged`,
    /// `pdf.no_text`, `limits.pages` and so on.
    pub code: &'static str,
    /// What is wrong: one sentence, lower case, no full stop. The caller names the document.
    pub message: String,
    /// What the user can do: one sentence, lower case, no full stop.
    pub next: &'static str,
}

impl ExtractError {
    /// An error under a stable code.
    pub fn new(code: &'static str, message: impl Into<String>, next: &'static str) -> Self {
        Self {
            code,
            message: message.into(),
            next,
        }
    }
}
