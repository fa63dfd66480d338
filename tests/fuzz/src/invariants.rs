//! Invariants of trees and errors that hold for any input.

use stemma_document::{Extent, Method, Section, SectionSpan, SectionTree};
use stemma_extract::ExtractError;

/// As documented at `SectionTree::build`.
const MAX_DEPTH: usize = 32;

/// Ids are pre-order. Top sections cover all pages; in texts, blank lines at the start have no section, and imported
/// trees may begin later. Children lie inside their parents, in order. Titles are not empty.
pub fn check_tree(tree: &SectionTree) {
    let size = tree.extent.size();
    let whole =
        matches!(tree.extent, Extent::Pages(_)) && tree.provenance.method != Method::Imported;
    let mut next = tree
        .sections
        .first()
        .filter(|_| !whole)
        .map_or(1, |first| ends(first).0);
    for section in &tree.sections {
        let (start, end) = ends(section);
        assert!(start <= next, "nothing covers {next}");
        next = next.max(end + 1);
    }
    if !tree.sections.is_empty() {
        assert_eq!(next, size.max(1) + 1, "the end is not covered");
    }
    for (at, (depth, section)) in tree.walk().enumerate() {
        assert_eq!(section.id.0 as usize, at, "ids are not pre-order");
        assert!(depth <= MAX_DEPTH, "depth {depth}");
        assert!(
            !section.title.trim().is_empty(),
            "a section without a title"
        );
        let (start, end) = ends(section);
        assert!(
            1 <= start && start <= end && end <= size.max(1),
            "{start} to {end} of {size}"
        );
        let mut before = start;
        for child in &section.children {
            let (a, b) = ends(child);
            assert!(
                before <= a && b <= end,
                "{a} to {b} in {start} to {end}, after {before}"
            );
            before = a;
        }
    }
    assert!(
        tree.references
            .iter()
            .all(|reference| (reference.from.0 as usize) < tree.walk().count())
    );
    for gap in &tree.gaps {
        one_line(&gap.detail);
    }
}

/// An error has a code, a message of one line and a next step.
pub fn check_error(error: &ExtractError) {
    assert!(!error.code.is_empty() && !error.next.is_empty());
    one_line(&error.message);
}

fn one_line(message: &str) {
    assert!(
        !message.is_empty() && !message.chars().any(char::is_control),
        "{message:?}"
    );
}

fn ends(section: &Section) -> (u32, u32) {
    match section.span {
        SectionSpan::Pages { pages, .. } => (pages.start().get(), pages.end().get()),
        SectionSpan::Lines { start, end } => (start, end),
    }
}
