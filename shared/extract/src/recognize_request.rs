//! Which page text recognition is to read, and with what.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stemma_document::PageNo;

/// A page for text recognition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognizeRequest {
    pub page: PageNo,
    /// The absolute path of tesseract: a child has no search path.
    pub program: PathBuf,
    /// Tesseract's names of the languages, the main one first.
    pub languages: Vec<String>,
}
