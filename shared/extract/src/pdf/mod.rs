//! PDF to [`Source`].

use stemma_document::Source;

use crate::{ExtractError, Limits};

/// Reads a PDF.
///
/// # Errors
///
/// `pdf.not_a_pdf`.
pub fn read(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Result<Source, ExtractError> {
    let _ = (bytes, password, limits);
    Err(ExtractError::new("pdf.not_a_pdf", "the file is not a PDF", "check the file"))
}
