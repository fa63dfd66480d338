//! Resource limits for one document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Defect, Heading, Source, SourceBody, SourceFormat, TextLines};

/// Resource limits for one document. Reaching a limit is always reported, as an error or a defect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Size of the file. Default 512 MiB.
    pub max_bytes: u64,
    /// Pages of a PDF. Default 20,000.
    pub max_pages: u32,
    /// Lines of a Markdown or text document. Default 5,000,000.
    pub max_lines: u32,
    /// Headings of a Markdown or text document. Default 200,000.
    pub max_headings: u32,
    /// Decompressed bytes of all streams. Default 512 MiB.
    pub max_decompressed_bytes: u64,
    /// Decompressed bytes of one page's content stream. Default 64 MiB.
    pub max_content_bytes: u64,
    /// Glyphs per page; the rest of the page is skipped and recorded. Default 500,000.
    pub max_glyphs_per_page: u32,
    /// Nesting of form XObjects. Default 12.
    pub max_form_depth: u32,
    /// Nesting of arrays and dictionaries in files passed to the second parser, which recurses. Default 256.
    pub max_object_depth: u32,
    /// Internal links. Default 100,000.
    pub max_links: u32,
    /// PDF bookmarks. Default 20,000.
    pub max_outline_items: u32,
    /// Levels of PDF bookmarks; deeper ones are flattened into the last level. Default 64.
    pub max_outline_depth: u32,
    /// Named destinations. Default 200,000.
    pub max_destinations: u32,
    /// Recorded defects; the last one counts the rest. Default 1,000.
    pub max_defects: u32,
    /// Seconds of CPU time. Default 30.
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

impl Limits {
    /// The source of a text. Headings over the limit are dropped, which is a defect.
    pub(crate) fn source_of_lines(
        &self,
        format: SourceFormat,
        lines: Vec<String>,
        mut headings: Vec<Heading>,
        metadata: BTreeMap<String, String>,
        mut defects: Vec<Defect>,
    ) -> Source {
        let max = self.max_headings as usize;
        if headings.len() > max {
            defects.push(Defect {
                code: "limits.headings".into(),
                page: None,
                detail: format!(
                    "only the first {max} of {} headings were kept",
                    headings.len()
                ),
            });
            headings.truncate(max);
        }
        Source {
            format,
            body: SourceBody::Lines(TextLines {
                lines,
                tokens: Vec::new(),
                headings,
            }),
            outline: Vec::new(),
            links: Vec::new(),
            metadata,
            defects,
            hidden: Vec::new(),
            encrypted: false,
        }
    }
}
