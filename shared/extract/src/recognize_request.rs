//! Which page text recognition is to read, and with what.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stemma_document::PageNo;

use crate::ExtractError;

/// A page for text recognition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognizeRequest {
    pub page: PageNo,
    /// The absolute path of tesseract: a child has no search path.
    pub program: PathBuf,
    /// Tesseract's names of the languages, the main one first.
    pub languages: Vec<String>,
    /// Reads the numbers again.
    pub second_reader: Option<ModelFile>,
}

/// A file with a model that the user brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    pub path: PathBuf,
    /// SHA-256 of its content, in lower-case hexadecimal digits.
    pub sha256: String,
}

impl RecognizeRequest {
    /// CPU time that drawing and reading a page may take. A dense page takes two to three seconds (`tests/bench/run ocr`), coarse print of 60
    /// dpi as long.
    // Builds for tests are not optimized, and draw several times as long.
    pub const MAX_SECONDS: u32 = if cfg!(debug_assertions) { 30 } else { 10 };

    /// That a page takes longer.
    pub fn timeout_error() -> ExtractError {
        ExtractError::new(
            "ocr.timeout",
            format!(
                "drawing the page and recognizing its text take more than {} s of CPU time",
                Self::MAX_SECONDS
            ),
            "look at the page: it may be a photograph, or an image of unusual size",
        )
    }
}
