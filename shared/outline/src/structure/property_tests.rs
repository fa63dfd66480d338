//! Invariants of trees, checked on random documents.

use proptest::prelude::*;
use stemma_document::{PageSpan, Section, SectionSpan, SectionTree};

use super::fixture::{Doc, FixtureLine, line};
use super::{StructureSettings, outline};

const PAGES: usize = 12;
const TEXTS: [&str; 16] = [
    "PART I",
    "Item 1. Business",
    "Item 1A. Risk Factors",
    "TABLE OF CONTENTS",
    "Results of Operations .......... 7",
    "NOTE 3 — LEASES",
    "1.2 Scope",
    "ARTICLE IV",
    "SECTION 4.01 Conditions",
    "Exhibit 10.1",
    "Consolidated Balance Sheets",
    "SIGNATURES",
    "第二章 风险因素",
    "FORM 10-K",
    "the goods were sold in the second year and not before, as had been said at length elsewhere",
    "",
];

fn lines() -> impl Strategy<Value = Vec<(usize, FixtureLine)>> {
    let look = (
        0..PAGES,
        0..TEXTS.len(),
        6.0_f32..20.0,
        any::<bool>(),
        any::<bool>(),
        0.0_f32..300.0,
    );
    let styled = look.prop_map(|(page, text, size, bold, italic, indent)| {
        let mut styled = line(TEXTS[text]).size(size).indent(indent);
        styled = if bold { styled.bold() } else { styled };
        (page, if italic { styled.italic() } else { styled })
    });
    proptest::collection::vec(styled, 0..120)
}

fn tree(doc: &Doc) -> SectionTree {
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    SectionTree::build(&draft.outline, draft.method, draft.gaps)
}

fn pages(section: &Section) -> PageSpan {
    match section.span {
        SectionSpan::Pages { pages, .. } => pages,
        ref other => panic!("{other:?} in a document with pages"),
    }
}

/// Siblings in order, children inside their parent, titles not empty.
fn check(sections: &[Section], parent: Option<PageSpan>) {
    for pair in sections.windows(2) {
        assert!(
            pages(&pair[0]).start() <= pages(&pair[1]).start(),
            "{} before {}",
            pair[0].title,
            pair[1].title
        );
    }
    for section in sections {
        let own = pages(section);
        assert!(
            parent.is_none_or(|parent| parent.start() <= own.start() && own.end() <= parent.end())
        );
        assert!(!section.title.trim().is_empty());
        check(&section.children, Some(own));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn trees_of_random_lines_keep_invariants(lines in lines()) {
        let mut doc = Doc::new(PAGES);
        for (page, line) in lines {
            doc.add(page, line);
        }
        let tree = tree(&doc);
        check(&tree.sections, None);
        let mut covered = [false; PAGES];
        for section in &tree.sections {
            pages(section).pages().for_each(|page| covered[page.index()] = true);
        }
        prop_assert!(covered.iter().all(|covered| *covered), "every page lies in a section");
        prop_assert_eq!(&tree, &self::tree(&doc));
    }
}
