//! Errors for documents that cannot be read at all. Partial problems are [`stemma_document::Defect`]s.

/// A document that cannot be read, with a reason and a next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExtractError {
    /// Stable code: `input.empty`, `pdf.not_a_pdf`, `pdf.encrypted_password`, `limits.pages` and so on.
    pub code: &'static str,
    /// One sentence, lower case, no full stop. The caller adds the name of the document.
    pub message: String,
    /// The next step for the user, in the same form.
    pub next: &'static str,
}

impl ExtractError {
    pub fn new(code: &'static str, message: impl Into<String>, next: &'static str) -> Self {
        Self {
            code,
            message: message.into(),
            next,
        }
    }
}
