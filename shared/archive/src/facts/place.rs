//! The section of a place in a document.

use stemma_document::{SectionId, SectionSpan, SectionTree};
use stemma_xbrl::TaggedFact;

/// The starts of all sections in reading order.
pub(super) struct SectionIndex {
    starts: Vec<((u32, u32), SectionId)>,
}

impl SectionIndex {
    pub(super) fn new(tree: &SectionTree) -> Self {
        let start = |span: SectionSpan| match span {
            SectionSpan::Pages { from, .. } => (from.page.get(), from.line),
            SectionSpan::Lines { start, .. } => (0, start.saturating_sub(1)),
        };
        let mut starts: Vec<((u32, u32), SectionId)> = tree
            .walk()
            .map(|(_, section)| (start(section.span), section.id))
            .collect();
        // Stable: of sections that start together the deepest comes last.
        starts.sort_by_key(|(start, _)| *start);
        Self { starts }
    }

    /// The deepest section with the fact: a section ends where the next one begins.
    pub(super) fn section_of(&self, fact: &TaggedFact<'_>) -> Option<SectionId> {
        let place = (fact.page.map_or(0, |page| page.get()), fact.line?);
        let after = self.starts.partition_point(|(start, _)| *start <= place);
        Some(self.starts[after.checked_sub(1)?].1)
    }
}
