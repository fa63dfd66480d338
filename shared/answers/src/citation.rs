//! The citation object: the same on every surface (interfaces par. 3).

use serde::{Deserialize, Serialize};

/// A place in a document that a claim rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// Its number in the answer, from "1": `[1]` in the text means it.
    pub id: String,
    /// The document's id.
    pub doc_id: String,
    /// The document's file name, for display.
    pub name: String,
    /// The version of its tree.
    pub version: u64,
    /// The section, in that version.
    pub section_id: String,
    /// Titles from the top down to the section; the last is its own.
    pub path: Vec<String>,
    /// Physical page on which the quote begins, from 1; `None` in a text without pages.
    pub page: Option<u32>,
    /// What is printed on the page as its number, where that differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub page_label: Option<String>,
    /// Line on which the quote begins, from 1, in a text without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The words cited: as they stand on the page where they were found there, else as the model gave them.
    pub quote: String,
    /// Where the quote stands, one rectangle per line, over one page or two; empty where it was not found, or in a text.
    pub rects: Vec<CitedRect>,
    /// Width and height of the page in points; `None` in a text without pages.
    pub page_size: Option<[f64; 2]>,
    /// Whether the quote stands there.
    pub verified: QuoteMatch,
    /// Where the page can be read: a path of the HTTP interface, `/v1/documents/{doc}/pages?range=47`.
    pub url: String,
    /// The same place to paste back: `3M_2022_10K#p=47`.
    pub locator: String,
}

/// A place on a page, 0–1 of its width and height, origin at the top left, rounded to 0.0001.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CitedRect {
    /// Physical page, from 1.
    pub page: u32,
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

/// What the check of a quote against the text of its page said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuoteMatch {
    /// It stands there, character for character.
    Exact,
    /// It stands there but for white space, hyphens at line ends, quotation marks, and case (NFKC).
    #[serde(rename = "normalised")]
    Normalized,
    /// Its words do not stand there together, but every number in it does.
    Number,
    /// It does not stand there: shown crossed out, or dropped.
    None,
}

impl QuoteMatch {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Normalized => "normalised",
            Self::Number => "number",
            Self::None => "none",
        }
    }

    /// Whether the words themselves stand there.
    pub fn is_verbatim(self) -> bool {
        matches!(self, Self::Exact | Self::Normalized)
    }
}
