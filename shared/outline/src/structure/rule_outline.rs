//! The sections of the rules before they become a draft, which a model may add headings to.

use std::collections::BTreeSet;

use stemma_document::Page;

use super::StructureSettings;
use super::heading_style::LayoutHeading;
use super::line_features::LineTable;
use super::outline_head::OutlineHead;
use super::oversized_sections::RowTokens;
use super::page_labels::PageLabels;
use super::primary_outline::PrimaryOutline;

/// The sections that the rules find in a document with pages. A model may add headings to them before they become a draft
/// (see [`reading_windows`](Self::reading_windows) and [`add_headings`](Self::add_headings)).
pub struct RuleOutline<'a> {
    pub(super) pages: &'a [Page],
    pub(super) settings: &'a StructureSettings,
    pub(super) lines: LineTable<'a>,
    pub(super) tokens: RowTokens,
    pub(super) labels: PageLabels,
    pub(super) primary: PrimaryOutline,
    /// In reading order.
    pub(super) heads: Vec<OutlineHead>,
    /// What looks like a heading, used or not, with its rank; in reading order.
    pub(super) seen: Vec<LayoutHeading>,
    /// First rows of what looks like a heading and is none.
    pub(super) false_headings: BTreeSet<usize>,
}
