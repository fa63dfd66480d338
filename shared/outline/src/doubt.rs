//! Assesses how far a finished tree should be doubted: signs in the tree itself that sections are missing or nested wrongly.
//!
//! A confirmed title proves only that it is on its page. The signs here say what a reader of the tree would notice:
//! sections that hold far too much, numbers that do not go on, headings without text, lines that look like headings but
//! are not sections. Each sign is the share that it concerns; a weight says how much of that share is wrong as a rule. Only the signs of
//! the look rank the labeled trees as their truths do (`look`), so they add up, and of the others the strongest counts.

use std::collections::BTreeMap;

use stemma_document::{
    Doubt, DoubtCode, DoubtReason, EvidenceSource, Extent, PageSpan, Section, SectionKind,
    SectionTree, Source,
};

use self::look::HeadingLooks;
use crate::structure::numbering::{self, NumberClass};

/// Tokens above which a section without sub-sections is too large to be read as one passage of a prompt.
const LARGE_LEAF_TOKENS: u32 = 8_000;
/// Tokens below which a section without sub-sections has no text but its heading.
const TINY_TOKENS: u32 = 20;
/// Share of the document and of its parent above which an unannounced heading dominates.
const DOMINANT_SHARE: f32 = 0.4;
/// Sections per page below which a document has few sections. Nine of ten labeled documents have more.
const SECTIONS_PER_PAGE: f32 = 0.25;
/// Documents with fewer pages need no sections.
const MIN_PAGES: u32 = 5;
/// Fewer numbered siblings make no sequence.
const MIN_NUMBERED: usize = 3;
/// Weaker signs are noise.
const MIN_SHARE: f32 = 0.02;

/// How far the tree should be doubted. `titles_found` is the share of announced titles that were found (0–1).
pub fn assess(tree: &SectionTree, source: &Source, titles_found: f32) -> Doubt {
    let looks = HeadingLooks::new(tree, source);
    let total: u32 = tree.sections.iter().map(|section| section.tokens).sum();
    let mut signs = vec![
        looks.passed_over(tree),
        looks.mixed_looks(),
        windows(tree, total),
        large_leaves(tree, total),
        dominant_section(tree, total),
        numbering_gaps(tree),
        tiny_sections(tree),
        few_sections(tree),
        titles_not_found(titles_found),
        page_defects(tree),
    ];
    signs.retain(|sign| sign.share >= MIN_SHARE);
    signs.sort_by(|a, b| (weight(b.code) * b.share).total_cmp(&(weight(a.code) * a.share)));
    let mut trust = 1.0;
    let mut strongest: f32 = 0.0;
    for sign in &signs {
        let weighed = weight(sign.code) * sign.share;
        match sign.code {
            DoubtCode::PassedOver | DoubtCode::MixedLooks => trust *= 1.0 - weighed,
            // Text in a window or a large leaf has the lines that were passed over.
            _ => strongest = strongest.max(weighed),
        }
    }
    for sign in &mut signs {
        sign.share = rounded(sign.share);
    }
    Doubt {
        score: rounded(strongest.max(1.0 - trust)),
        reasons: signs,
    }
}

/// The pages where the tree itself shows that headings are missing: large sections without sub-sections, windows, and a
/// heading that holds most of the document.
pub fn places_without_headings(tree: &SectionTree) -> Vec<PageSpan> {
    let total: u32 = tree.sections.iter().map(|section| section.tokens).sum();
    let open = sections(tree)
        .filter(|section| section.kind == SectionKind::Window || is_large_leaf(section))
        .filter_map(own_pages);
    open.chain(dominant_section(tree, total).pages).collect()
}

fn sections(tree: &SectionTree) -> impl Iterator<Item = &Section> {
    tree.walk().map(|(_, section)| section)
}

// The pages of its text above the first sub-section.
fn own_pages(section: &Section) -> Option<PageSpan> {
    let pages = section.span.pages()?;
    let below = section.children.first();
    let end = below.and_then(|child| child.span.pages());
    let end = end.map_or(pages.end(), PageSpan::start);
    Some(PageSpan::between(pages.start(), end))
}

fn rounded(share: f32) -> f32 {
    (share * 100.0).round() / 100.0
}

// Windows and defects concern exactly the text they name; the others only point at it, so they weigh less. The weights are
// a judgment and not fitted to the labeled documents. Without the sum of the two signs of the look, or with either alone,
// fewer of the most doubted trees are among the worst by truth; other weights for them change little.
fn weight(code: DoubtCode) -> f32 {
    match code {
        DoubtCode::Windows | DoubtCode::PageDefects => 1.0,
        DoubtCode::PassedOver
        | DoubtCode::MixedLooks
        | DoubtCode::LargeLeaf
        | DoubtCode::DominantSection
        | DoubtCode::NumberingGap
        | DoubtCode::FewSections => 0.6,
        DoubtCode::TinySections | DoubtCode::TitlesNotFound => 0.4,
    }
}

fn sign(code: DoubtCode, share: f32, worst: Option<&Section>, detail: String) -> DoubtReason {
    DoubtReason {
        code,
        share: share.clamp(0.0, 1.0),
        section: worst.map(|section| section.id),
        pages: worst.and_then(|section| section.span.pages()),
        detail,
    }
}

fn share_of(part: u32, whole: u32) -> f32 {
    part as f32 / whole.max(1) as f32
}

fn windows(tree: &SectionTree, total: u32) -> DoubtReason {
    let windows = || sections(tree).filter(|section| section.kind == SectionKind::Window);
    let tokens = windows().map(|section| section.own_tokens).sum();
    let detail = format!("{} windows replace sections", windows().count());
    sign(
        DoubtCode::Windows,
        share_of(tokens, total),
        windows().next(),
        detail,
    )
}

fn large_leaves(tree: &SectionTree, total: u32) -> DoubtReason {
    let large = || sections(tree).filter(|section| is_large_leaf(section));
    let excess = large()
        .map(|section| section.own_tokens - LARGE_LEAF_TOKENS)
        .sum();
    let worst = large().max_by_key(|section| section.own_tokens);
    let detail = worst.map_or_else(String::new, |section| {
        format!(
            "`{}` has {} tokens without a sub-section",
            section.title, section.own_tokens
        )
    });
    sign(DoubtCode::LargeLeaf, share_of(excess, total), worst, detail)
}

fn is_large_leaf(section: &Section) -> bool {
    section.kind != SectionKind::Window && section.own_tokens > LARGE_LEAF_TOKENS
}

// A minor heading that swallows what follows. Headings that the document announces may be as large as they like, and so
// may the first section at the top, which often has the title of the whole document.
fn dominant_section(tree: &SectionTree, total: u32) -> DoubtReason {
    let mut worst: Option<(f32, &Section)> = None;
    let first = tree.sections.first().map(|section| section.id);
    let mut stack: Vec<(&[Section], u32)> = vec![(&tree.sections, total)];
    while let Some((sections, around)) = stack.pop() {
        for section in sections {
            let share = share_of(section.tokens, total);
            let dominant = section.evidence == EvidenceSource::Layout
                && !section.children.is_empty()
                && section.number.is_none()
                && Some(section.id) != first
                && share > DOMINANT_SHARE
                && share_of(section.tokens, around) > DOMINANT_SHARE;
            if dominant && worst.is_none_or(|(most, _)| share < most) {
                worst = Some((share, section));
            }
            stack.push((&section.children, section.tokens));
        }
    }
    let detail = worst.map_or_else(String::new, |(share, section)| {
        format!(
            "`{}` holds {:.0} % of the document",
            section.title,
            100.0 * share
        )
    });
    sign(
        DoubtCode::DominantSection,
        worst.map_or(0.0, |(share, _)| share),
        worst.map(|(_, section)| section),
        detail,
    )
}

/// Steps of numbered siblings, and those that skip a number.
#[derive(Default)]
struct NumberSteps<'t> {
    numbered: usize,
    gaps: usize,
    first: Option<(&'t Section, u32)>,
}

impl<'t> NumberSteps<'t> {
    fn count_siblings(&mut self, sections: &'t [Section]) {
        let mut last: BTreeMap<(NumberClass, u32), u32> = BTreeMap::new();
        for section in sections {
            let Some(number) = numbering::first_number(&section.title)
                .filter(|number| goes_on_counting(number.class) && !number.bare)
            else {
                continue;
            };
            let expected = last
                .insert((number.class, number.stem), number.value)
                .map_or(1, |value| value + 1);
            self.numbered += 1;
            if number.value > expected {
                self.gaps += 1;
                self.first.get_or_insert((section, expected));
            }
        }
    }
}

// Items of a form may be left out, exhibits and figures have the numbers of other documents, and letters are often
// abbreviations.
fn goes_on_counting(class: NumberClass) -> bool {
    matches!(
        class,
        NumberClass::Chapter
            | NumberClass::Article
            | NumberClass::Section
            | NumberClass::Note
            | NumberClass::Decimal(_)
            | NumberClass::UpperRoman
            | NumberClass::CjkChapter
            | NumberClass::CjkSection
    )
}

fn numbering_gaps(tree: &SectionTree) -> DoubtReason {
    let mut steps = NumberSteps::default();
    steps.count_siblings(&tree.sections);
    for (_, section) in tree.walk() {
        steps.count_siblings(&section.children);
    }
    let share = if steps.numbered >= MIN_NUMBERED {
        steps.gaps as f32 / steps.numbered as f32
    } else {
        0.0
    };
    let detail = steps.first.map_or_else(String::new, |(section, expected)| {
        format!("number {expected} is missing before `{}`", section.title)
    });
    sign(
        DoubtCode::NumberingGap,
        share,
        steps.first.map(|(section, _)| section),
        detail,
    )
}

fn tiny_sections(tree: &SectionTree) -> DoubtReason {
    let leaves = || {
        sections(tree)
            .filter(|section| section.kind == SectionKind::Heading && section.children.is_empty())
    };
    let tiny = || leaves().filter(|section| section.own_tokens < TINY_TOKENS);
    let share = tiny().count() as f32 / leaves().count().max(1) as f32;
    let detail = format!("{} sections have a heading and no text", tiny().count());
    sign(DoubtCode::TinySections, share, tiny().next(), detail)
}

fn few_sections(tree: &SectionTree) -> DoubtReason {
    let sections = tree.walk().count();
    let (pages, wanted) = match tree.extent {
        Extent::Pages(pages) if pages >= MIN_PAGES => (pages, SECTIONS_PER_PAGE * pages as f32),
        _ => (0, 0.0),
    };
    let share = 1.0 - (sections as f32 / wanted.max(f32::MIN_POSITIVE)).min(1.0);
    let detail = format!("{sections} sections on {pages} pages");
    sign(DoubtCode::FewSections, share, None, detail)
}

fn titles_not_found(found: f32) -> DoubtReason {
    let share = 1.0 - found;
    let detail = format!(
        "{:.0} % of the announced titles were not found",
        100.0 * share
    );
    sign(DoubtCode::TitlesNotFound, share, None, detail)
}

fn page_defects(tree: &SectionTree) -> DoubtReason {
    let Extent::Pages(count) = tree.extent else {
        return sign(DoubtCode::PageDefects, 0.0, None, String::new());
    };
    let mut pages: Vec<PageSpan> = tree
        .gaps
        .iter()
        .filter(|gap| gap.code.starts_with("pdf."))
        .filter_map(|gap| gap.pages)
        .collect();
    pages.sort_by_key(|span| span.start());
    pages.dedup();
    let share = pages.len() as f32 / count.max(1) as f32;
    let detail = format!("{} pages could not be read fully", pages.len());
    DoubtReason {
        pages: pages.first().copied(),
        ..sign(DoubtCode::PageDefects, share, None, detail)
    }
}

mod look;

#[cfg(test)]
mod tests {
    use stemma_document::{
        DraftEntry, EntryVerdict, LocatedEntry, Method, PageNo, Position, Pt, SectionId,
        SectionStart, VerifiedOutline,
    };

    use super::*;
    use crate::enrich::fixture;

    /// A tree of 10 pages with these headings: title, level, page, tokens of its own text.
    fn tree(headings: &[(&str, u16, u32, u32)]) -> SectionTree {
        let entries = headings.iter().map(|(title, level, page, _)| {
            let entry = DraftEntry {
                number: None,
                title: (*title).to_string(),
                label: None,
                target: None,
                level: *level,
                evidence: EvidenceSource::Layout,
            };
            let place = SectionStart::Page(Position {
                page: PageNo::new(*page).unwrap(),
                line: 1,
                y: Pt::new(72.0),
            });
            (
                LocatedEntry { entry, place },
                EntryVerdict::Confirmed { starts_page: true },
            )
        });
        let outline = VerifiedOutline::new(Extent::Pages(10), entries.collect()).unwrap();
        let mut tree = SectionTree::build(&outline, Method::Layout, Vec::new());
        let mut own = headings.iter().map(|heading| heading.3);
        set_tokens(&mut tree.sections, &mut own);
        tree
    }

    fn set_tokens(sections: &mut [Section], own: &mut impl Iterator<Item = u32>) {
        for section in sections {
            section.own_tokens = own.next().unwrap();
            set_tokens(&mut section.children, own);
            let below: u32 = section.children.iter().map(|child| child.tokens).sum();
            section.tokens = section.own_tokens + below;
        }
    }

    fn codes(tree: &SectionTree) -> Vec<DoubtCode> {
        let doubt = assess(tree, &fixture::paged(&[]), 1.0);
        doubt.reasons.iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn an_even_tree_is_not_doubted() {
        let tree = tree(&[
            ("1. Scope", 1, 1, 300),
            ("2. Terms", 1, 3, 300),
            ("3. Duties", 1, 6, 300),
            ("4. Notices", 1, 9, 300),
        ]);
        assert_eq!(
            assess(&tree, &fixture::paged(&[]), 1.0),
            Doubt {
                score: 0.0,
                reasons: Vec::new()
            }
        );
    }

    #[test]
    fn a_missing_number_names_its_place() {
        let tree = tree(&[
            ("1. Scope", 1, 1, 300),
            ("2. Terms", 1, 3, 300),
            ("5. Notices", 1, 9, 300),
        ]);
        let doubt = assess(&tree, &fixture::paged(&[]), 1.0);
        assert_eq!(doubt.reasons[0].code, DoubtCode::NumberingGap);
        assert_eq!(doubt.reasons[0].section, Some(SectionId(2)));
        assert_eq!(
            doubt.reasons[0].detail,
            "number 3 is missing before `5. Notices`"
        );
    }

    #[test]
    fn a_minor_heading_that_swallows_the_rest_is_doubted() {
        let tree = tree(&[
            ("Overview", 1, 1, 300),
            ("Outlook", 1, 2, 100),
            ("Results", 2, 3, 300),
            ("Notes", 2, 6, 300),
        ]);
        assert_eq!(codes(&tree), [DoubtCode::DominantSection]);
    }

    #[test]
    fn large_leaves_and_bare_headings_are_doubted() {
        let tree = tree(&[
            ("Overview", 1, 1, 10),
            ("Results", 1, 2, 20_000),
            ("Outlook", 1, 9, 300),
        ]);
        assert_eq!(
            codes(&tree),
            [DoubtCode::LargeLeaf, DoubtCode::TinySections]
        );
    }

    #[test]
    fn places_without_headings_are_the_large_sections() {
        let tree = tree(&[
            ("Overview", 1, 1, 300),
            ("Results", 1, 2, 20_000),
            ("Outlook", 1, 9, 300),
        ]);
        assert_eq!(
            places_without_headings(&tree),
            [PageSpan::new(2, 8).unwrap()]
        );
    }

    #[test]
    fn sub_sections_of_a_large_text_are_not_places_without_headings() {
        let tree = tree(&[
            ("Results", 1, 1, 20_000),
            ("Sales", 2, 4, 300),
            ("Costs", 2, 8, 300),
        ]);
        assert_eq!(
            places_without_headings(&tree),
            [PageSpan::new(1, 4).unwrap()]
        );
    }

    #[test]
    fn few_sections_on_many_pages_are_doubted() {
        let tree = tree(&[("Report", 1, 1, 3_000)]);
        let doubt = assess(&tree, &fixture::paged(&[]), 0.5);
        assert_eq!(
            doubt
                .reasons
                .iter()
                .map(|reason| reason.code)
                .collect::<Vec<_>>(),
            [DoubtCode::FewSections, DoubtCode::TitlesNotFound]
        );
        assert!(doubt.score > 0.3, "{doubt:?}");
    }

    /// Codes and shares for these pages and headings `(page, line, level, title)`; lines in asterisks are bold.
    fn signs_of_look(
        pages: &[&str],
        headings: &[(u32, u32, u16, &str)],
    ) -> Vec<(DoubtCode, f32, Option<SectionId>)> {
        let source = fixture::paged(pages);
        let tree = fixture::tree(&source, headings);
        let doubt = assess(&tree, &source, 1.0);
        let look = [DoubtCode::PassedOver, DoubtCode::MixedLooks];
        doubt
            .reasons
            .iter()
            .filter(|reason| look.contains(&reason.code))
            .map(|reason| (reason.code, reason.share, reason.section))
            .collect()
    }

    const TEXT: &str = "We make many anvils and sell them to customers in all the states.";

    #[test]
    fn lines_that_look_like_headings_are_passed_over() {
        let page = format!(
            "*A cover*\n*Overview*\n{TEXT}\n*Anvils*\n{TEXT}\n*Hammers*\n{TEXT}\n*$ 1,234 5,678*"
        );
        assert_eq!(
            signs_of_look(&[&page], &[(1, 1, 1, "Overview"), (1, 3, 1, "Anvils")]),
            [(DoubtCode::PassedOver, 0.33, Some(SectionId(1)))]
        );
        assert_eq!(
            signs_of_look(
                &[&page],
                &[
                    (1, 1, 1, "Overview"),
                    (1, 3, 1, "Anvils"),
                    (1, 5, 1, "Hammers")
                ]
            ),
            []
        );
    }

    #[test]
    fn the_second_line_of_a_heading_is_not_passed_over() {
        let page = format!("*Anvils of the*\n*Western States*\n{TEXT}\n{TEXT}");
        let headings = [(1, 0, 1, "Anvils of the Western States")];
        assert_eq!(signs_of_look(&[&page], &headings), []);
    }

    #[test]
    fn headings_of_one_level_that_look_different_are_doubted() {
        let page = format!("*Overview*\n{TEXT}\n*Anvils*\n{TEXT}\nHammers and more\n{TEXT}");
        let headings = |level| {
            [
                (1, 0, 1, "Overview"),
                (1, 2, 1, "Anvils"),
                (1, 4, level, "Hammers and more"),
            ]
        };
        let mixed = signs_of_look(&[&page], &headings(1));
        assert_eq!(mixed, [(DoubtCode::MixedLooks, 0.33, Some(SectionId(2)))]);
        assert_eq!(signs_of_look(&[&page], &headings(2)), []);
    }

    #[test]
    fn of_other_signs_the_strongest_counts() {
        let large = tree(&[
            ("Overview", 1, 1, 10),
            ("Results", 1, 2, 20_000),
            ("Outlook", 1, 9, 300),
        ]);
        let doubt = assess(&large, &fixture::paged(&[]), 1.0);
        let strongest = doubt
            .reasons
            .iter()
            .map(|reason| weight(reason.code) * reason.share)
            .fold(0.0, f32::max);
        assert!(doubt.reasons.len() > 1);
        assert!((doubt.score - strongest).abs() < 0.01, "{doubt:?}");
    }
}
