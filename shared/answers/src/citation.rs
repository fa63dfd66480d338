//! The citation object, the same in every interface.

use serde::{Deserialize, Serialize};

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

/// A rectangle on a page in shares (0–1) of its width and height, origin at the top left, rounded to 0.0001.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CitedRect {
    /// Physical page (1-based).
    pub page: u32,
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

/// Result of comparing a quote with the text of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
