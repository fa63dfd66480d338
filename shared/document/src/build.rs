//! Builds section trees from verified outlines.

use std::collections::{BTreeMap, HashSet};

use crate::assemble::{FlatSection, Nesting, assemble, assign_ends};
use crate::note_marks::without_raised;
use crate::text::normalize_key;
use crate::{
    EntryVerdict, EvidenceSource, Extent, FilingFacts, Gap, Method, PageNo, PageSpan, Position,
    Provenance, Pt, SectionKind, SectionSpan, SectionStart, SectionTree, VerifiedEntry,
    VerifiedOutline,
};

// Further rejected entries are only counted, so that a bad outline does not flood the tree with gaps.
const LISTED_REJECTIONS: usize = 100;

impl SectionTree {
    /// Builds a tree that covers the whole document.
    ///
    /// - Levels: a skipped level nests under the nearest shallower one; levels beyond 32 are flattened into the last
    ///   one (gap `tree.depth_capped`).
    /// - Ends: a section ends on the page before the next section that is not its descendant, or on that section's page
    ///   if it starts below the top. Its text ends exactly at that heading.
    /// - Text before the first section becomes a [`SectionKind::Preface`]. A title block above a first section on page
    ///   1 becomes part of that section.
    /// - Duplicates: an entry with the place and title of another is dropped. In a document with pages, a first child
    ///   that repeats its parent's title is merged into the parent. In a text, a line holds one section; later claims are
    ///   dropped (gap `tree.same_line`).
    /// - Without entries the document is one section of kind [`SectionKind::Window`] (gap `structure.none`); an empty
    ///   document has none (gap `structure.empty`).
    ///
    /// Rejected entries become gaps `outline.entry_not_found`, unless `gaps` has that code already. Tokens, summaries,
    /// facts and references are filled in later; the provenance is `offline`.
    pub fn build(outline: &VerifiedOutline, method: Method, gaps: Vec<Gap>) -> SectionTree {
        let mut gaps = gaps;
        record_rejected(outline, &mut gaps);
        let mut nodes = flat_sections(outline, &mut gaps);
        ensure_start_covered(&mut nodes, outline.extent(), &mut gaps);
        assign_ends(&mut nodes, outline.extent().size());
        SectionTree {
            extent: outline.extent(),
            description: None,
            facts: FilingFacts::default(),
            sections: assemble(nodes),
            items: Vec::new(),
            references: Vec::new(),
            recognized: Vec::new(),
            gaps,
            provenance: Provenance {
                method,
                doubt: None,
                model: "offline".into(),
                revisions: BTreeMap::new(),
                answers: None,
            },
        }
    }
}

fn record_rejected(outline: &VerifiedOutline, gaps: &mut Vec<Gap>) {
    const CODE: &str = "outline.entry_not_found";
    let rejected = outline.rejected();
    if gaps.iter().any(|gap| gap.code == CODE) {
        return;
    }
    for entry in rejected.iter().take(LISTED_REJECTIONS) {
        let title = truncated_title(&entry.title);
        let detail = format!("`{title}` was not found in the document");
        gaps.push(Gap::new(CODE, detail));
    }
    if let Some(more @ 1..) = rejected.len().checked_sub(LISTED_REJECTIONS) {
        let detail = format!("{more} more entries were not found");
        gaps.push(Gap::new(CODE, detail));
    }
}

fn truncated_title(title: &str) -> String {
    title.chars().take(120).collect()
}

// Nodes with depths, without duplicates. Ends are set later.
fn flat_sections(outline: &VerifiedOutline, gaps: &mut Vec<Gap>) -> Vec<FlatSection> {
    let mut nesting = Nesting::default();
    let mut nodes: Vec<FlatSection> = Vec::with_capacity(outline.entries().len() + 1);
    let mut titles = TitlesAtStart::default();
    let mut crowded = 0;
    for entry in outline.entries() {
        // Several sources may propose the same section.
        match titles.classify(entry) {
            EntryClass::Duplicate => continue,
            EntryClass::LineOccupied => {
                crowded += 1;
                continue;
            }
            EntryClass::New => {}
        }
        let depth = nesting.push(u32::from(entry.located.entry.level));
        let node = flat_section(entry, depth);
        match nodes.last_mut().filter(|last| repeats_parent(last, &node)) {
            // The text and children of the repeated title become the parent's.
            Some(parent) => {
                nesting.pop();
                parent.number = parent.number.take().or(node.number);
            }
            None => nodes.push(node),
        }
    }
    if crowded > 0 {
        let detail = format!("{crowded} entries claim a line that already is a section");
        gaps.push(Gap::new("tree.same_line", detail));
    }
    gaps.extend(nesting.depth_gap("sections"));
    nodes
}

fn title_of(entry: &VerifiedEntry) -> &str {
    &entry.located.entry.title
}

// The normalized titles seen at the current start.
#[derive(Default)]
struct TitlesAtStart {
    start: Option<(u32, u32)>,
    titles: HashSet<String>,
}

enum EntryClass {
    New,
    Duplicate,
    LineOccupied,
}

impl TitlesAtStart {
    fn classify(&mut self, entry: &VerifiedEntry) -> EntryClass {
        let place = Some(entry.located.place.reading_order());
        let same_place = self.start == place;
        if !same_place {
            self.start = place;
            self.titles.clear();
        }
        if !self.titles.insert(normalized_title(title_of(entry))) {
            EntryClass::Duplicate
        } else if same_place && matches!(entry.located.place, SectionStart::Line(_)) {
            EntryClass::LineOccupied
        } else {
            EntryClass::New
        }
    }
}

fn flat_section(entry: &VerifiedEntry, depth: usize) -> FlatSection {
    let draft = &entry.located.entry;
    let (verified, starts_page) = match entry.verdict {
        EntryVerdict::Confirmed { starts_page } => (true, starts_page),
        EntryVerdict::Unconfirmed { starts_page } => (false, starts_page),
        // Windows are page-aligned, so a window without a position starts its page.
        EntryVerdict::Declared | EntryVerdict::Rejected => {
            (false, entry.located.place.reading_order().1 == 0)
        }
    };
    let kind = match (entry.verdict, draft.evidence) {
        (_, EvidenceSource::Window) => SectionKind::Window,
        (EntryVerdict::Declared, _) => SectionKind::Preface,
        _ => SectionKind::Heading,
    };
    FlatSection {
        depth,
        title: without_raised(&draft.title).trim().to_owned(),
        number: draft.number.clone(),
        kind,
        starts_page,
        verified,
        evidence: draft.evidence,
        tokens: 0,
        summary: None,
        span: open_span(entry.located.place),
    }
}

fn open_span(place: SectionStart) -> SectionSpan {
    match place {
        SectionStart::Page(from) => SectionSpan::Pages {
            pages: PageSpan::between(from.page, from.page),
            from,
            to: None,
        },
        SectionStart::Line(start) => SectionSpan::Lines { start, end: start },
    }
}

// Some outlines list a chapter twice: as its number (`Item 7`) and, one level below, as its title.
fn repeats_parent(last: &FlatSection, node: &FlatSection) -> bool {
    if node.depth != last.depth + 1 || node.span.pages().is_none() {
        return false;
    }
    // `Item 7` and `7. Discussion` are the same section, `7` and `7.1` are not.
    let same_number = node.number.is_none() || node.number == last.number;
    let bare = title_without_number(node);
    normalized_title(&last.title) == normalized_title(&node.title)
        || (same_number && !bare.is_empty() && title_without_number(last) == bare)
}

fn title_without_number(node: &FlatSection) -> String {
    let number = node.number.as_deref().filter(|number| !number.is_empty());
    let rest = number
        .and_then(|number| node.title.split_once(number))
        .map(|(_, rest)| rest);
    normalized_title(rest.unwrap_or(&node.title))
}

// Keeps letters and digits only, so that spelling variants and letter-spaced words compare equal. Titles without any
// are compared as they are.
fn normalized_title(title: &str) -> String {
    let folded = normalize_key(title);
    if folded.is_empty() {
        title.trim().into()
    } else {
        folded
    }
}

// Extends the first node to the start of the document, or inserts a node before it.
fn ensure_start_covered(nodes: &mut Vec<FlatSection>, extent: Extent, gaps: &mut Vec<Gap>) {
    if extent.size() == 0 {
        let detail = "the document has no pages and no lines";
        gaps.push(Gap::new("structure.empty", detail));
        return;
    }
    let top = Position {
        page: PageNo::FIRST,
        line: 0,
        y: Pt(0),
    };
    let start = match extent {
        Extent::Pages(_) => SectionStart::Page(top),
        Extent::Lines(_) => SectionStart::Line(1),
    };
    let Some(first) = nodes.first_mut() else {
        let detail = "no headings were found: the document is one section";
        gaps.push(Gap::new("structure.none", detail));
        nodes.push(placeholder("Whole document", SectionKind::Window, start));
        return;
    };
    match &mut first.span {
        SectionSpan::Pages { from, .. } if from.page == PageNo::FIRST => *from = top,
        SectionSpan::Lines { start: 1, .. } => {}
        _ => nodes.insert(0, placeholder("Preface", SectionKind::Preface, start)),
    }
}

fn placeholder(title: &str, kind: SectionKind, start: SectionStart) -> FlatSection {
    FlatSection {
        depth: 1,
        title: title.into(),
        number: None,
        kind,
        starts_page: true,
        verified: false,
        evidence: EvidenceSource::Window,
        tokens: 0,
        summary: None,
        span: open_span(start),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::assemble::tests::check_tree;
    use crate::{DraftEntry, LocatedEntry};

    const STARTS: EntryVerdict = EntryVerdict::Confirmed { starts_page: true };
    const BELOW: EntryVerdict = EntryVerdict::Confirmed { starts_page: false };

    fn at(page: u32, line: u32) -> SectionStart {
        SectionStart::Page(Position {
            page: PageNo::new(page).unwrap(),
            line,
            y: Pt(i32::try_from(line).unwrap() * 1200),
        })
    }

    fn entry(title: &str, level: u16, place: SectionStart) -> LocatedEntry {
        let evidence = EvidenceSource::Layout;
        let entry = DraftEntry {
            number: None,
            title: title.into(),
            label: None,
            target: None,
            level,
            evidence,
        };
        LocatedEntry { entry, place }
    }

    fn tree(extent: Extent, judged: Vec<(LocatedEntry, EntryVerdict)>) -> SectionTree {
        let tree = SectionTree::build(
            &VerifiedOutline::new(extent, judged).unwrap(),
            Method::Layout,
            Vec::new(),
        );
        check_tree(&tree);
        tree
    }

    // `structure title span` per section, and the codes of the gaps.
    fn render_tree(tree: &SectionTree) -> String {
        let mut out = String::new();
        for (_, section) in tree.walk() {
            let span = match section.span {
                SectionSpan::Pages { pages, .. } => pages.to_string(),
                SectionSpan::Lines { start, end } => format!("{start}-{end}"),
            };
            out.push_str(&format!("{} {} {span}\n", section.structure, section.title));
        }
        tree.gaps
            .iter()
            .for_each(|gap| out.push_str(&format!("! {}\n", gap.code)));
        out
    }

    #[test]
    fn ends_depend_on_whether_the_next_section_starts_its_page() {
        let judged = vec![
            (entry("Part I", 1, at(3, 0)), STARTS),
            (entry("Business", 2, at(3, 1)), BELOW),
            (entry("Risk", 2, at(6, 9)), BELOW),
            (entry("Market risk", 3, at(7, 0)), STARTS),
            (entry("Part II", 1, at(9, 0)), STARTS),
        ];
        insta::assert_snapshot!(render_tree(&tree(Extent::Pages(12), judged)), @r"
        1 Preface 1–2
        2 Part I 3–8
        2.1 Business 3–6
        2.2 Risk 6–8
        2.2.1 Market risk 7–8
        3 Part II 9–12
        ");
    }

    #[test]
    fn title_block_joins_the_first_section() {
        let tree = tree(
            Extent::Pages(2),
            vec![(entry("Results", 1, at(1, 4)), BELOW)],
        );
        let Some(SectionSpan::Pages { from, .. }) =
            tree.sections.first().map(|section| section.span)
        else {
            panic!()
        };
        assert_eq!(tree.sections.len(), 1);
        assert_eq!(from.line, 0);
    }

    #[test]
    fn duplicates_and_repeated_parents_are_merged() {
        let mut numbered = entry("Item 7. Discussion", 1, at(2, 0));
        numbered.entry.number = Some("7".into());
        let judged = vec![
            (entry("Cover", 1, at(1, 0)), STARTS),
            (numbered.clone(), STARTS),
            (numbered, STARTS),
            (entry("DISCUSSION", 2, at(2, 1)), BELOW),
            (entry("Results", 3, at(3, 2)), BELOW),
            (entry("Liquidity", 2, at(4, 2)), BELOW),
        ];
        insta::assert_snapshot!(render_tree(&tree(Extent::Pages(5), judged)), @r"
        1 Cover 1
        2 Item 7. Discussion 2–5
        2.1 Results 3–4
        2.2 Liquidity 4–5
        ");
    }

    #[test]
    fn a_text_ends_where_the_next_heading_starts() {
        let line =
            |title: &str, level, line| (entry(title, level, SectionStart::Line(line)), STARTS);
        let judged = vec![
            line("A", 1, 3),
            line("A", 2, 5),
            line("twice", 2, 5),
            line("B", 4, 8),
            line("C", 1, 9),
        ];
        insta::assert_snapshot!(render_tree(&tree(Extent::Lines(20), judged)), @r"
        1 Preface 1-2
        2 A 3-8
        2.1 A 5-8
        2.1.1 B 8-8
        3 C 9-20
        ! tree.same_line
        ");
    }

    #[test]
    fn without_entries_the_document_is_one_section() {
        let rejected = vec![(entry("Nowhere", 1, at(1, 0)), EntryVerdict::Rejected)];
        insta::assert_snapshot!(render_tree(&tree(Extent::Pages(7), rejected)), @r"
        1 Whole document 1–7
        ! outline.entry_not_found
        ! structure.none
        ");
        insta::assert_snapshot!(render_tree(&tree(Extent::Lines(0), vec![])), @"! structure.empty");
    }

    #[test]
    fn deep_and_long_outlines_round_trip() {
        let deep: Vec<_> = (1..=400u16)
            .map(|level| {
                (
                    entry(&format!("Level {level}"), level, at(1, level.into())),
                    BELOW,
                )
            })
            .collect();
        let deep = tree(Extent::Pages(1), deep);
        let json = serde_json::to_string(&deep).unwrap();
        assert_eq!(serde_json::from_str::<SectionTree>(&json).unwrap(), deep);
        assert!(deep.gaps.iter().any(|gap| gap.code == "tree.depth_capped"));
        let long: Vec<_> = (0..50_000u32)
            .map(|n| {
                (
                    entry(
                        &format!("Entry {n}"),
                        (n % 7) as u16,
                        at(n / 50 + 1, n % 50),
                    ),
                    BELOW,
                )
            })
            .collect();
        assert_eq!(tree(Extent::Pages(1000), long).walk().count(), 50_000);
    }

    fn arbitrary_entry() -> impl Strategy<Value = (u32, u32, u16, u8, u8)> {
        (1..15u32, 0..4u32, 0..40u16, 0..4u8, 0..5u8)
    }

    fn judged(
        (page, line, level, title, verdict): (u32, u32, u16, u8, u8),
        paged: bool,
    ) -> (LocatedEntry, EntryVerdict) {
        let place = if paged {
            at(page, line)
        } else {
            SectionStart::Line(page)
        };
        let verdict = match verdict {
            0 => EntryVerdict::Rejected,
            1 => EntryVerdict::Declared,
            2 => BELOW,
            3 => EntryVerdict::Unconfirmed { starts_page: true },
            _ => STARTS,
        };
        (entry(&format!("Title {title}"), level, place), verdict)
    }

    proptest! {
        #[test]
        fn every_outline_makes_a_sound_tree(raw in prop::collection::vec(arbitrary_entry(), 0..60), paged: bool) {
            let extent = if paged { Extent::Pages(15) } else { Extent::Lines(15) };
            let judged: Vec<_> = raw.into_iter().map(|raw| judged(raw, paged)).collect();
            let built = tree(extent, judged.clone());
            prop_assert_eq!(&built, &tree(extent, judged));
            let json = serde_json::to_string(&built).unwrap();
            prop_assert_eq!(serde_json::from_str::<SectionTree>(&json).unwrap(), built);
        }

        #[test]
        fn own_texts_meet_without_gap_or_overlap(raw in prop::collection::vec(arbitrary_entry(), 0..40)) {
            let built = tree(Extent::Pages(15), raw.into_iter().map(|raw| judged(raw, true)).collect());
            let starts: Vec<(u32, u32)> = built.walk().map(|(_, section)| {
                let SectionSpan::Pages { from, .. } = section.span else { unreachable!() };
                (from.page.get(), from.line)
            }).collect();
            // In pre-order each own text runs to the next start, so sorted starts from (1, 0) partition the document.
            prop_assert_eq!(starts[0], (1, 0));
            prop_assert!(starts.is_sorted());
        }
    }
}
