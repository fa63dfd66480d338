//! The Items of a document by section.

use std::collections::{BTreeSet, HashMap};

use stemma_catalog::items::SectionItem;
use stemma_document::SectionId;

/// Finds the Items of a passage. A hostile document has as many Items as sections, and each passage asks for its own.
pub(super) struct ItemIndex {
    items: Vec<SectionItem>,
    by_section: HashMap<SectionId, Vec<usize>>,
}

impl ItemIndex {
    pub(super) fn new(items: Vec<SectionItem>) -> Self {
        let mut by_section: HashMap<SectionId, Vec<usize>> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            by_section.entry(item.section).or_default().push(at);
        }
        Self { items, by_section }
    }

    /// The Items of these sections, each once, in the order of the document. The time depends on the sections alone.
    pub(super) fn in_sections(
        &self,
        sections: impl Iterator<Item = SectionId>,
    ) -> impl Iterator<Item = &SectionItem> {
        let found = sections.filter_map(|id| self.by_section.get(&id)).flatten();
        let found: BTreeSet<usize> = found.copied().collect();
        found.into_iter().map(|at| &self.items[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_sections_in_the_order_of_the_document() {
        let item = |number: &str, section| SectionItem {
            part: None,
            number: number.into(),
            section: SectionId(section),
            shares_number: false,
        };
        let index = ItemIndex::new(vec![item("10", 4), item("11", 4), item("1", 2)]);
        let numbers = |sections: &[u32]| -> Vec<&str> {
            let sections = sections.iter().copied().map(SectionId);
            let items = index.in_sections(sections);
            items.map(|item| item.number.as_str()).collect()
        };
        assert_eq!(numbers(&[2, 3]), ["1"]);
        assert_eq!(numbers(&[2, 4, 4]), ["10", "11", "1"]);
        assert!(numbers(&[0, 1]).is_empty());
    }
}
