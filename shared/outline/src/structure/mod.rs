//! Deterministic structure: from a [`Source`] to a [`VerifiedOutline`] without a model.
//!
//! Evidence announces sections: the embedded outline, links and rows of contents pages, the grammar of a form, the layout
//! of headings. Each announced section is a candidate. Candidates are located on the pages together: `monotone_chain` picks
//! the lines that rise in both position and key. The strongest reliable evidence is the method, in this order: outline,
//! contents links, printed contents, layout and grammar, windows of pages. Weaker evidence adds the sections that the
//! stronger one leaves out. `docs/adr/0008-tree-conventions.md` lists the conventions.
//!
//! All rules are pure and run in `O(n log n)` of lines and candidates. Constants without a source were fitted on the
//! development filings with `stemma eval`; limits named `MAX_*` bound the work on hostile files.

mod added_headings;
mod agreements;
mod candidates;
pub(crate) mod counts;
mod cross_index;
mod display_type;
mod exhibits;
mod explain;
mod false_headings;
#[cfg(test)]
mod filing_tests;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub(crate) mod form_items;
pub(crate) mod forms;
mod front_back_matter;
mod heading_budget;
mod heading_candidate;
mod heading_filters;
mod heading_rules;
mod heading_style;
mod item_grammar;
mod item_headings;
mod large_titles;
mod layout;
mod levels;
mod line_cells;
mod line_features;
mod line_rules;
mod locate;
mod monotone_chain;
mod numbered_chapters;
pub(crate) mod numbering;
mod outline_head;
mod oversized_sections;
pub(crate) mod page_analysis;
pub(crate) mod page_labels;
mod page_references;
mod primary_outline;
#[cfg(test)]
mod property_tests;
mod reading_windows;
mod rule_outline;
#[cfg(test)]
mod script_tests;
pub(crate) mod section_candidate;
mod section_rules;
mod statements;
mod submission_outline;
mod text_blocks;
mod text_items;
mod text_outline;
mod text_rows;
pub(crate) mod titles;
mod toc;
mod weights;
mod windows;

pub use added_headings::{AddedHeadings, NamedHeading};
pub use cross_index::{IndexNote, IndexRow};
pub use explain::{HeadingDecision, HeadingFeatures, HeadingReport, explain_page};
pub use reading_windows::{KnownHeading, KnownLine, ReadingWindow};
pub use rule_outline::RuleOutline;
use serde::{Deserialize, Serialize};
use stemma_document::{Gap, Method, OutlineError, PageLabel, Source, SourceBody, VerifiedOutline};
pub use submission_outline::{outline_documents, visit_documents};

/// Code of the gap that says where windows replace sections.
pub const WINDOWS: &str = "structure.windows";

/// Settings of the structure rules. They are part of the settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructureSettings {
    /// Pages from the start of a document (or of an exhibit in it) that are searched for a table of contents.
    pub toc_check_pages: u32,
    /// Share (0–1) of the announced titles that must be found on the pages before a table of contents or outline is used.
    pub min_accuracy: f32,
    /// Sections per page up to which headings known only by their layout are added, highest styles first.
    pub nodes_per_page: f32,
    /// Pages above which a section without sub-sections is split, if it is also over `max_tokens_per_node`.
    pub max_pages_per_node: u32,
    /// Tokens above which a section without sub-sections is split, if it is also over `max_pages_per_node` (pages only).
    pub max_tokens_per_node: u32,
    /// Tokens of a window of pages where there is no heading to split at.
    pub window_tokens: u32,
    /// Texts without pages: a section whose subtree has fewer tokens absorbs its sub-sections; 0 keeps all.
    pub thin_below_tokens: u32,
}

impl Default for StructureSettings {
    fn default() -> Self {
        Self {
            toc_check_pages: 20,
            min_accuracy: 0.6,
            nodes_per_page: 1.0,
            max_pages_per_node: 10,
            max_tokens_per_node: 20_000,
            window_tokens: 20_000,
            thin_below_tokens: 0,
        }
    }
}

/// The outline that the rules find in a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    pub outline: VerifiedOutline,
    /// The strongest reliable evidence.
    pub method: Method,
    /// The label printed in the header or footer of each page; empty for texts without pages.
    pub labels: Vec<Option<PageLabel>>,
    /// Announced sections that were rejected or not found, and windows that replace sections.
    pub gaps: Vec<Gap>,
    /// Rows of the cross-reference index, in printed order, if the Items of the form appear nowhere else.
    pub cross_index: Vec<IndexRow>,
}

/// Finds the sections of `source`.
///
/// # Errors
/// [`OutlineError`] if an entry lies outside the document. This needs a `Source` with headings outside its lines.
pub fn outline(source: &Source, settings: &StructureSettings) -> Result<Draft, OutlineError> {
    match &source.body {
        SourceBody::Pages(pages) => outline_documents(source, pages, |source, pages| {
            RuleOutline::new(source, pages, settings).draft()
        }),
        SourceBody::Lines(lines) => {
            let is_submission = source.metadata.contains_key("accession");
            text_outline::outline(source.extent(), lines, is_submission, settings)
        }
    }
}
