//! What one document may cost. Everything that reads outside bytes takes these and stops at them.

use serde::{Deserialize, Serialize};

/// Budgets for one document. A limit that is reached is reported (an error or a defect), never silently applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest input, in bytes. Default 512 MiB.
    pub max_bytes: u64,
    /// Most pages of a PDF. Default 20,000.
    pub max_pages: u32,
    /// Most lines of a Markdown or text document. Default 5,000,000.
    pub max_lines: u32,
    /// Most headings of a Markdown or text document. Default 200,000.
    pub max_headings: u32,
    /// Decompressed bytes of one document, over all its streams. Default 512 MiB.
    pub max_decompressed_bytes: u64,
    /// Decompressed bytes of one page's content stream. Default 64 MiB.
    pub max_content_bytes: u64,
    /// Glyphs read from one page; the rest of the page is left out and recorded. Default 500,000.
    pub max_glyphs_per_page: u32,
    /// Form XObjects inside form XObjects. Default 12.
    pub max_form_depth: u32,
    /// Nesting of arrays and dictionaries in a file that is read a second time, by a parser that recurses; the first
    /// parser leaves out what nests deeper than 512. Default 256.
    pub max_object_depth: u32,
    /// Internal links. Default 100,000.
    pub max_links: u32,
    /// Entries of the embedded outline. Default 20,000.
    pub max_outline_items: u32,
    /// Levels of the embedded outline; deeper entries are put on the last level. Default 64.
    pub max_outline_depth: u32,
    /// Named destinations. Default 200,000.
    pub max_destinations: u32,
    /// Recorded defects; the last one says how many more there were. Default 1,000.
    pub max_defects: u32,
    /// Wall time for one document, in seconds. Default 30.
    pub max_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 512 << 20,
            max_pages: 20_000,
            max_lines: 5_000_000,
            max_headings: 200_000,
            max_decompressed_bytes: 512 << 20,
            max_content_bytes: 64 << 20,
            max_glyphs_per_page: 500_000,
            max_form_depth: 12,
            max_object_depth: 256,
            max_links: 100_000,
            max_outline_items: 20_000,
            max_outline_depth: 64,
            max_destinations: 200_000,
            max_defects: 1_000,
            max_seconds: 30,
        }
    }
}
