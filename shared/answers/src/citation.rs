//! The citation object, the same in every interface.

use serde::{Deserialize, Serialize};
use stemma_verify::{CitedRect, QuoteMatch};

/// A place in a document that supports a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// Its number in the answer, from "1": `[1]` in the text refers to it.
    pub id: String,
    pub doc_id: String,
    /// The document's file name.
    pub name: String,
    /// The version of the document's tree.
    pub version: u64,
    pub section_id: String,
    /// Titles from the root down to the section, which is the last.
    pub path: Vec<String>,
    /// Physical page on which the quote begins (1-based); `None` in a document without pages.
    pub page: Option<u32>,
    /// The page number printed on the page, when it differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub page_label: Option<String>,
    /// Line on which the quote begins (1-based), in a document without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The words as they are on the page; as the model gave them when they were not found.
    pub quote: String,
    /// One rectangle per line, over one page or two; empty when the quote was not found, or in a document without pages.
    pub rects: Vec<CitedRect>,
    /// Width and height of the page in points; `None` in a document without pages.
    pub page_size: Option<[f64; 2]>,
    pub verified: QuoteMatch,
    /// If text recognition (OCR) read the quote: how sure it is of the least sure word, in percent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ocr_confidence: Option<u8>,
    /// A path of the HTTP API that reads the page: `/v1/documents/{doc}/pages?range=47`.
    pub url: String,
    /// The same place as a locator: `3M_2022_10K#p=47`.
    pub locator: String,
}
