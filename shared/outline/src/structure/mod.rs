//! Deterministic structure: from a [`Source`] to a [`VerifiedOutline`] without a model.
//!
//! Witnesses claim sections: the embedded outline, links and rows of contents pages, the grammar of a form, the look of
//! headings. Every claim is looked for on paper; the chain that rises in position and key decides which lines are meant
//! (`monotone_chain`); what stands where it was claimed is `Found`. The strongest witness that holds is the method: outline →
//! contents links → printed contents → layout and grammar → windows of pages. Weaker witnesses still add what the
//! stronger one leaves out, inside its sections.
//!
//! Everything is linear or `n log n` in lines and claims, capped where a hostile file could make it more, and pure: the
//! same source gives the same outline.

mod agreements;
mod candidates;
mod cross_index;
mod exhibits;
mod false_headings;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub(crate) mod form_items;
mod forms;
mod front_back_matter;
mod heading_filters;
mod heading_style;
mod item_grammar;
mod item_headings;
mod layout;
mod levels;
mod line_features;
mod locate;
mod monotone_chain;
mod numbering;
mod outline_head;
mod oversized_sections;
mod page_labels;
mod paged_outline;
mod primary_outline;
#[cfg(test)]
mod property_tests;
mod statements;
mod text_outline;
mod titles;
mod toc;
pub mod verify_titles;
mod windows;

pub use cross_index::{IndexNote, IndexRow};
use serde::{Deserialize, Serialize};
use stemma_document::{Gap, Method, OutlineError, PageLabel, Source, SourceBody, VerifiedOutline};

/// Code of the gap that says where windows stand in for sections.
pub const WINDOWS: &str = "structure.windows";

/// What structure work may be told. Part of the settings that travel with a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructureSettings {
    /// Pages from the start of a document (or of an exhibit in it) that are searched for a table of contents.
    pub toc_check_pages: u32,
    /// Share of a witness's claims (0–1) that must be found on paper for the witness to be believed.
    pub min_accuracy: f32,
    /// Sections per page up to which headings seen only by their look are added, highest styles first.
    pub nodes_per_page: f32,
    /// Pages above which a section without sub-sections is split, if it is also over `max_tokens_per_node`.
    pub max_pages_per_node: u32,
    /// Tokens above which a section without sub-sections is split, if it is also over `max_pages_per_node` (pages only).
    pub max_tokens_per_node: u32,
    /// Tokens of a window of pages, where there is nothing to split at.
    pub window_tokens: u32,
    /// Texts without pages: a section whose subtree has fewer tokens takes its sub-sections in; 0 keeps all.
    pub thin_below_tokens: u32,
}

impl Default for StructureSettings {
    fn default() -> Self {
        Self {
            toc_check_pages: 20,
            min_accuracy: 0.6,
            nodes_per_page: 0.65,
            max_pages_per_node: 10,
            max_tokens_per_node: 20_000,
            window_tokens: 20_000,
            thin_below_tokens: 0,
        }
    }
}

/// What deterministic structure makes of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// The sections, each looked at where it stands.
    pub outline: VerifiedOutline,
    /// The strongest witness that held.
    pub method: Method,
    /// The label each page prints in its head or foot; empty for texts without pages.
    pub labels: Vec<Option<PageLabel>>,
    /// What was claimed and not believed or not found, and where windows stand in for sections.
    pub gaps: Vec<Gap>,
    /// The cross-reference index of a report that has the Items of its form nowhere else, in the order printed; empty for
    /// all other documents.
    pub cross_index: Vec<IndexRow>,
}

/// Finds the sections of `source`.
///
/// # Errors
/// [`OutlineError`] when an entry would lie outside the document; this does not happen for a `Source` whose headings lie
/// inside its lines.
pub fn outline(source: &Source, settings: &StructureSettings) -> Result<Draft, OutlineError> {
    match &source.body {
        SourceBody::Pages(pages) => paged_outline::outline(source, pages, settings),
        SourceBody::Lines(lines) => text_outline::outline(source.extent(), lines, settings),
    }
}
