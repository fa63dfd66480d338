//! Outlines of documents with pages: primary outline, layout headings within a budget, splits of large sections, levels.

use std::collections::BTreeMap;

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, Gap, LocatedEntry, Method, OutlineError,
    Page, PageLabel, PageNo, Position, SectionStart, Source, VerifiedOutline,
};

use super::candidates::SectionCandidate;
use super::heading_style::{self, HeadingStyle, LayoutHeading};
use super::line_features::LineTable;
use super::outline_head::{LAYOUT_RANK, OutlineHead, RANK_STEP};
use super::oversized_sections::PageTokens;
use super::page_labels::PageLabels;
use super::primary_outline::{self, PrimaryOutline};
use super::titles::{self, TitleKeys};
use super::{Draft, StructureSettings, front_back_matter, levels, numbering, oversized_sections};

// The budget limits how deep layout headings go, since no cue of layout says where an author stopped (ADR 0008). Its
// constants were fitted on the development filings.
// Headings that any document may have in addition to its share per page: short documents are dense.
const BASE_HEADINGS: f32 = 24.0;
// A short document may have this many headings per page, up to the budget of one with `SHORT_PAGES` pages: the Items of a
// form and its notes do not get fewer with its pages.
const MAX_HEADINGS_PER_PAGE: f32 = 5.0;
const SHORT_PAGES: f32 = 100.0;
// More headings of one style per page are labels of paragraphs.
const MAX_STYLE_PER_PAGE: f32 = 2.0;
const MAX_GAPS: usize = 200;

// The order of the steps matters. Layout headings need the primary outline, which tells which rows and styles are taken.
// Splitting uses the headings that the budget left out. Windows come last: they stand in only where nothing else divides.
pub(super) fn outline(
    source: &Source,
    pages: &[Page],
    settings: &StructureSettings,
) -> Result<Draft, OutlineError> {
    let sheet = LineTable::new(pages);
    let labels = PageLabels::read(&sheet, pages);
    let mut primary = primary_outline::build_primary_outline(source, &sheet, &labels, settings);
    let free = primary_outline::remaining_headings(&sheet, &primary);
    let (mut heads, unused) = within_budget(&sheet, &primary, free, settings);
    let tokens = PageTokens::new(pages);
    split_large(&sheet, &tokens, &mut heads, &unused, settings);
    fold_repeats(&sheet, &mut heads);
    let mut gaps = std::mem::take(&mut primary.gaps);
    add_windows(&sheet, (pages, &tokens), &mut heads, &mut gaps, settings);
    gaps.truncate(MAX_GAPS);
    let method = if heads
        .iter()
        .all(|head| head.evidence == EvidenceSource::Window)
    {
        Method::Windows
    } else {
        primary.method
    };
    let cross_index = primary.cross_index;
    let judged = entries_with_verdicts(&sheet, &heads, primary.rejected);
    let extent = Extent::Pages(u32::try_from(pages.len()).unwrap_or(u32::MAX));
    Ok(Draft {
        outline: VerifiedOutline::new(extent, judged)?,
        method,
        labels: labels.printed(),
        gaps,
        cross_index,
    })
}

// Styles are added whole: half of the headings of one style would give a tree with random holes. They are added from the
// highest down, so that a tight budget cuts off the deepest levels first.
/// Adds layout headings to the primary outline. Returns the heads in reading order and the headings left out.
fn within_budget(
    sheet: &LineTable<'_>,
    primary: &PrimaryOutline,
    free: Vec<LayoutHeading>,
    settings: &StructureSettings,
) -> (Vec<OutlineHead>, Vec<LayoutHeading>) {
    let mut heads = primary.heads.clone();
    let ranks = style_ranks(sheet, &heads, &free);
    // Per style: headings, dense ones, ones above a paragraph. The key orders styles by rank.
    let mut counts: BTreeMap<(u32, HeadingStyle), (usize, usize, usize)> = BTreeMap::new();
    let mut titles: BTreeMap<HeadingStyle, Vec<&str>> = BTreeMap::new();
    for heading in free.iter().filter(|heading| heading.style.is_numbered()) {
        titles
            .entry(heading.style)
            .or_default()
            .push(&heading.title);
    }
    for heading in free.iter().filter(|heading| !heading.statement) {
        let count = counts
            .entry((ranks[&heading.style], heading.style))
            .or_default();
        let dense = usize::from(heading.dense);
        let over_text = usize::from(heading.over_text);
        *count = (count.0 + 1, count.1 + dense, count.2 + over_text);
    }
    let pages = sheet.pages() as f32;
    let dense =
        (MAX_HEADINGS_PER_PAGE * pages).min(settings.nodes_per_page * SHORT_PAGES + BASE_HEADINGS);
    let budget = (settings.nodes_per_page * pages + BASE_HEADINGS).max(dense) as usize;
    // A style that stands above paragraphs throughout is surely one of headings, so it may exceed the budget by half.
    let roomy = budget.max((dense * 1.5) as usize);
    let overrun = (MAX_STYLE_PER_PAGE * pages) as usize;
    let listed = is_listed(&heads);
    let mut used = heads.len();
    let mut accepted: BTreeMap<HeadingStyle, bool> = BTreeMap::new();
    for ((_, style), (count, dense, over_text)) in counts {
        let fits = dense == 0 && used + count <= if over_text == count { roomy } else { budget };
        // While less than half of the budget is used and no contents say how deep to go, one dense style may be the
        // level of sections that this document has. Numbers that go on counting mark sections however many there are:
        // without this exception, papers in two columns lost all of theirs.
        let opens = count <= overrun && ((used * 2 < budget && !listed) || style.is_numbered())
            || style.is_numbered()
                && titles
                    .get(&style)
                    .is_some_and(|titles| numbering::are_sequential(titles));
        used += if fits || opens { count } else { 0 };
        accepted.insert(style, fits || opens);
    }
    let mut unused = Vec::new();
    for heading in free {
        if heading.statement {
            heads.push(OutlineHead {
                leaf: true,
                ..head_from_layout(&heading, LAYOUT_RANK)
            });
        } else if accepted.get(&heading.style).copied().unwrap_or(false) {
            let rank = ranks[&heading.style];
            heads.push(head_from_layout(&heading, rank));
        } else {
            unused.push(heading);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
    lower_statements(sheet, &mut heads);
    // Captions go before the front matter is judged: a company's name on the cover must not count as a title there.
    front_back_matter::drop_captions(sheet, &mut heads);
    front_back_matter::drop_exhibit_lists(&mut heads);
    front_back_matter::filter_front_matter(sheet, &mut heads);
    front_back_matter::filter_back_matter(sheet, &mut heads);
    (heads, unused)
}

// Statements rank highest among layout headings, unless a section titled `… Financial Statements` stands within two pages
// before them; then they are its children. Each statement moves the limit on, so a run of statements stays together.
fn lower_statements(sheet: &LineTable<'_>, heads: &mut [OutlineHead]) {
    let mut above: Option<(u32, u32)> = None;
    for head in heads {
        let page = sheet.rows[head.rows.0].page;
        let statement = head.leaf && head.rank == LAYOUT_RANK;
        match &mut above {
            Some((rank, last)) if statement && page <= *last + 2 => {
                (head.rank, *last) = (*rank + 1, page);
            }
            _ if statement => {}
            _ => {
                let key = titles::normalize_key(&head.title);
                // An index lists the statements and notes explain them; neither contains them.
                let is_statement_list = key.ends_with("financialstatements")
                    && !key.starts_with("index")
                    && !key.starts_with("notes");
                let is_statement_list = is_statement_list && head.rank >= LAYOUT_RANK;
                above = is_statement_list.then_some((head.rank, page));
            }
        }
    }
}

// Contents or an outline with two or more levels already say how deep the author's sections go.
fn is_listed(heads: &[OutlineHead]) -> bool {
    let ranks: std::collections::BTreeSet<u32> = heads
        .iter()
        .filter(|head: &&OutlineHead| {
            !matches!(
                head.evidence,
                EvidenceSource::Grammar | EvidenceSource::Layout
            ) && !head.leaf
        })
        .map(|head| head.rank)
        .collect();
    ranks.len() >= 2
}

// A style that the primary outline uses on one level is set the same way where the outline is silent, so its remaining
// headings take that level. Otherwise the rank is the place of the style among all styles.
fn style_ranks(
    sheet: &LineTable<'_>,
    heads: &[OutlineHead],
    free: &[LayoutHeading],
) -> BTreeMap<HeadingStyle, u32> {
    let order: Vec<HeadingStyle> = free.iter().map(|heading| heading.style).collect();
    let mut styles = order.clone();
    styles.sort();
    let mut count: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for style in &styles {
        *count.entry(*style).or_default() += 1;
    }
    styles.dedup();
    let mut anchored: BTreeMap<HeadingStyle, BTreeMap<u32, usize>> = BTreeMap::new();
    for head in heads
        .iter()
        .filter(|head| head.evidence != EvidenceSource::Grammar && !head.unconfirmed && !head.leaf)
    {
        let style = heading_style::style_of(sheet, &sheet.rows[head.rows.0]);
        *anchored
            .entry(style)
            .or_default()
            .entry(head.rank)
            .or_default() += 1;
    }
    let ranks = styles.iter().map(|style| {
        let own =
            oversized_sections::rank_of(&styles, title_case_twin(&order, *style).unwrap_or(*style));
        let count = count.get(style).copied().unwrap_or(0);
        let anchor = anchored
            .get(style)
            .and_then(|levels| anchored_rank(levels, count));
        (*style, anchor.unwrap_or(own))
    });
    ranks.collect()
}

// The level must be clear: at least two announced headings, most of them on one level, and not few beside the unannounced
// headings of the style. The top level never counts: chapter titles often share their style with headings inside them.
fn anchored_rank(levels: &BTreeMap<u32, usize>, unannounced: usize) -> Option<u32> {
    let total: usize = levels.values().sum();
    let (rank, most) = levels.iter().max_by_key(|(rank, n)| (**n, **rank))?;
    let is_clear = *most >= 2 && most * 2 > total && total * 10 >= unannounced * 4;
    (is_clear && *rank > RANK_STEP).then_some(*rank)
}

// Capitals rank above title case of the same size. A single `OVERVIEW` between sections in title case is one of them,
// though, and must not become the parent of those that follow.
/// The style in title case that a lone title in capitals stands among.
fn title_case_twin(order: &[HeadingStyle], style: HeadingStyle) -> Option<HeadingStyle> {
    let twin = style.uncapped()?;
    let at = order.iter().position(|other| *other == style)?;
    let lone = !order[at + 1..].contains(&style);
    (lone && order[..at].contains(&twin) && order[at + 1..].contains(&twin)).then_some(twin)
}

fn head_from_layout(heading: &LayoutHeading, rank: u32) -> OutlineHead {
    OutlineHead {
        rows: heading.rows,
        title: heading.title.clone(),
        number: numbering::leading_number(&heading.title),
        printed: None,
        target: None,
        evidence: EvidenceSource::Layout,
        unconfirmed: false,
        rank,
        leaf: false,
    }
}

/// Adds headings of lower styles inside spans that are too large.
fn split_large(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    heads: &mut Vec<OutlineHead>,
    unused: &[LayoutHeading],
    settings: &StructureSettings,
) {
    let mut styles: Vec<HeadingStyle> = unused.iter().map(|heading| heading.style).collect();
    styles.sort();
    styles.dedup();
    // Below all styles in use; otherwise an added heading could become the parent of an existing section.
    let below = heads
        .iter()
        .map(|head| head.rank)
        .filter(|rank| *rank >= LAYOUT_RANK)
        .max()
        .unwrap_or(LAYOUT_RANK)
        - LAYOUT_RANK
        + 10;
    let mut added = Vec::new();
    for stretch in oversized_sections::large_spans(sheet, tokens, heads, settings) {
        let inside = oversized_sections::headings_inside(sheet, tokens, &stretch, unused, settings);
        added.extend(inside.into_iter().map(|heading| {
            head_from_layout(
                heading,
                oversized_sections::rank_of(&styles, heading.style) + below,
            )
        }));
    }
    heads.extend(added);
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

/// Removes a first sub-section that repeats the title of its section, and a title repeated at the top of the next page.
fn fold_repeats(sheet: &LineTable<'_>, heads: &mut Vec<OutlineHead>) {
    let mut folded: Vec<OutlineHead> = Vec::with_capacity(heads.len());
    for head in heads.drain(..) {
        let repeats = folded.last().is_some_and(|above| {
            let near = head.rows.0.saturating_sub(above.rows.1) <= 3 && above.rank < head.rank;
            let from_layout =
                head.evidence == EvidenceSource::Layout && sheet.starts_page(head.rows.0);
            let page = sheet.rows[head.rows.0].page;
            let is_continued = from_layout
                && page == sheet.rows[above.rows.0].page + 1
                && above.title == head.title;
            is_continued
                || near
                    && titles::title_similarity(
                        &TitleKeys::new(&above.title),
                        &TitleKeys::new(&head.title),
                    ) > 0.9
        });
        if !repeats {
            folded.push(head);
        }
    }
    *heads = folded;
}

/// Adds windows where a span is still too large, or everywhere if there is no heading at all.
pub(super) fn add_windows(
    sheet: &LineTable<'_>,
    (pages, tokens): (&[Page], &PageTokens),
    heads: &mut Vec<OutlineHead>,
    gaps: &mut Vec<Gap>,
    settings: &StructureSettings,
) {
    if sheet.rows.is_empty() {
        return;
    }
    let whole = oversized_sections::RowSpan {
        rows: 0..sheet.rows.len(),
    };
    let stretches = if heads.is_empty() {
        vec![whole]
    } else {
        oversized_sections::large_spans(sheet, tokens, heads, settings)
    };
    for stretch in stretches {
        for window in oversized_sections::into_windows(sheet, pages, &stretch, settings) {
            heads.push(window.head);
            gaps.push(window.gap);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

/// Every head with its level, place and verdict, then the rejected candidates.
fn entries_with_verdicts(
    sheet: &LineTable<'_>,
    heads: &[OutlineHead],
    rejected: Vec<SectionCandidate>,
) -> Vec<(LocatedEntry, EntryVerdict)> {
    let levels = levels::assign_levels(heads);
    let located = heads.iter().zip(levels).map(|(head, level)| {
        let entry = DraftEntry {
            number: head.number.clone(),
            title: head.title.clone(),
            label: head.printed.clone().map(PageLabel),
            target: head.target,
            level,
            evidence: head.evidence,
        };
        let starts_page = sheet.starts_page(head.rows.0);
        let verdict = match head.evidence {
            EvidenceSource::Window => EntryVerdict::Declared,
            _ if head.unconfirmed => EntryVerdict::Unconfirmed { starts_page },
            _ => EntryVerdict::Confirmed { starts_page },
        };
        (
            LocatedEntry {
                entry,
                place: place(sheet, head.rows.0),
            },
            verdict,
        )
    });
    let dropped = rejected.into_iter().map(|candidate| {
        let entry = DraftEntry {
            number: candidate.number,
            title: candidate.title,
            label: candidate.printed.map(PageLabel),
            target: candidate.target,
            level: candidate.level,
            evidence: candidate.evidence,
        };
        (
            LocatedEntry {
                entry,
                place: place(sheet, 0),
            },
            EntryVerdict::Rejected,
        )
    });
    located.chain(dropped).collect()
}

fn place(sheet: &LineTable<'_>, row: usize) -> SectionStart {
    let row = &sheet.rows[row];
    let y = stemma_document::Pt::new(row.y0);
    SectionStart::Page(Position {
        page: PageNo::from_index(row.page as usize),
        line: row.line,
        y,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::super::{StructureSettings, outline};
    use super::*;

    /// Page, level and title of every entry, and the method.
    fn read_outline(doc: &Doc) -> (Vec<(u32, u16, String)>, Method) {
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
        (
            draft
                .outline
                .entries()
                .iter()
                .map(|e: &stemma_document::VerifiedEntry| {
                    let entry = &e.located.entry;
                    (
                        e.located.place.reading_order().0,
                        entry.level,
                        entry.title.clone(),
                    )
                })
                .collect(),
            draft.method,
        )
    }

    fn titles(doc: &Doc) -> Vec<(u32, u16, String)> {
        read_outline(doc).0
    }

    fn expected(entries: &[(u32, u16, &str)]) -> Vec<(u32, u16, String)> {
        entries
            .iter()
            .map(|(page, level, title)| (*page, *level, (*title).to_string()))
            .collect()
    }

    const SECTIONS: [&str; 6] = [
        "Overview",
        "Business",
        "Risk Factors",
        "Results",
        "Liquidity",
        "Controls",
    ];

    /// A document of six sections, one a page.
    fn sections() -> Doc {
        let mut doc = Doc::new(6);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
        }
        doc
    }

    fn six_sections() -> Vec<(u32, u16, String)> {
        SECTIONS
            .iter()
            .zip(1..)
            .map(|(title, page)| (page, 1, (*title).to_string()))
            .collect()
    }

    #[test]
    fn embedded_outline_is_verified() {
        // Every outline is wrong in another way; the sections come out the same.
        type Bookmark = fn(usize) -> (String, u32);
        let cases: [(&str, Bookmark, Method); 6] = [
            (
                "good",
                |at| (SECTIONS[at].into(), at as u32 + 1),
                Method::Outline,
            ),
            (
                "all on page one",
                |at| (SECTIONS[at].into(), 1),
                Method::Outline,
            ),
            (
                "reversed",
                |at| (SECTIONS[5 - at].into(), 6 - at as u32),
                Method::Outline,
            ),
            (
                "no destinations",
                |at| (SECTIONS[at].into(), 0),
                Method::Outline,
            ),
            (
                "slides",
                |at| (format!("Slide {}", at + 1), at as u32 + 1),
                Method::Layout,
            ),
            (
                "files",
                |at| (format!("part{at}_final.docx"), at as u32 + 1),
                Method::Layout,
            ),
        ];
        for (name, bookmark, method) in cases {
            let mut doc = sections();
            for at in 0..6 {
                let (title, page) = bookmark(at);
                doc.bookmark(&title, 1, page);
            }
            assert_eq!(read_outline(&doc), (six_sections(), method), "{name}");
        }
    }

    /// A contents page and chapters behind it; `label` is what is printed beside the n-th.
    fn with_contents(names: &[&str], label: impl Fn(usize) -> String) -> Doc {
        let mut doc = Doc::new(names.len() + 1);
        doc.add(0, line("CONTENTS").size(16.0).bold());
        for (at, name) in names.iter().enumerate() {
            doc.add(
                0,
                line(&format!(
                    "{name} .............................. {}",
                    label(at)
                )),
            );
        }
        for (at, name) in names.iter().enumerate() {
            doc.section(at + 1, name);
        }
        doc
    }

    #[test]
    fn printed_toc_with_matching_titles_is_used() {
        let doc = with_contents(&SECTIONS, |at| format!("{}", at + 2));
        let (entries, method) = read_outline(&doc);
        assert_eq!(method, Method::PrintedContents);
        assert_eq!(entries.len(), 7);
        assert_eq!(entries[6], (7, 1, "Controls".into()));
    }

    #[test]
    fn wrong_toc_is_rejected() {
        let doc = sections();
        let mut lies = Doc::new(7);
        lies.add(0, line("TABLE OF CONTENTS").size(16.0).bold());
        for page in ["3", "900", "4", "5", "2", "777"] {
            lies.add(
                0,
                line(&format!(
                    "Item {page}. Topic {page} .................... {page}"
                )),
            );
        }
        for (at, title) in SECTIONS.iter().enumerate() {
            lies.section(at + 1, title);
        }
        let moved: Vec<_> = titles(&doc)
            .into_iter()
            .map(|(page, level, title)| (page + 1, level, title))
            .collect();
        assert_eq!(read_outline(&lies), (moved, Method::Layout));
        let draft = outline(&lies.source(), &StructureSettings::default()).unwrap();
        assert_eq!(draft.gaps[0].code, "structure.contents_rejected");
    }

    #[test]
    fn links_disambiguate_equal_titles() {
        // Every chapter ends with a summary; the contents link to the last one only.
        let mut doc = Doc::new(8);
        doc.add(0, line("CONTENTS").size(16.0).bold());
        let rows = [
            ("Overview", 2),
            ("Business", 3),
            ("Results", 5),
            ("Summary", 8),
        ];
        for (title, page) in rows {
            let rect = doc.add(0, line(title));
            doc.link(0, rect, page);
        }
        for (page, title) in [
            (1, "Overview"),
            (2, "Business"),
            (4, "Results"),
            (7, "Summary"),
        ] {
            doc.section(page, title);
        }
        for page in [3, 5, 6] {
            doc.add(page, line("Summary").italic());
            doc.prose(page, 10.0, 6);
        }
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
        assert_eq!(draft.method, Method::ContentsLinks);
        let pages: Vec<_> = draft
            .outline
            .entries()
            .iter()
            .filter(|e: &&stemma_document::VerifiedEntry| {
                e.located.entry.evidence == EvidenceSource::ContentsLinks
            })
            .map(|e| e.located.place.reading_order().0)
            .collect();
        assert_eq!(pages, [2, 3, 5, 8]);
    }

    #[test]
    fn chinese_chapters_and_sections_nest() {
        let names = [
            "第一章 公司概况",
            "第二章 风险因素",
            "第三章 管理层讨论与分析",
            "第四章 财务报表",
        ];
        let doc = with_contents(&names, |at| format!("{}", at + 2));
        let entries = titles(&doc);
        assert_eq!(
            entries.iter().skip(1).map(|e| e.0).collect::<Vec<_>>(),
            [2, 3, 4, 5]
        );
        let mut doc = Doc::new(2);
        for (page, title) in [(0, "第一章 公司概况"), (1, "第二章 风险因素")] {
            doc.add(page, line(title).size(16.0).bold());
            doc.prose(page, 10.0, 5);
            doc.add(page, line("一、基本情况").bold());
            doc.prose(page, 10.0, 5);
            doc.add(page, line("二、其他事项").bold());
            doc.prose(page, 10.0, 5);
        }
        assert_eq!(
            titles(&doc).iter().map(|e| e.1).collect::<Vec<_>>(),
            [1, 2, 2, 1, 2, 2]
        );
    }

    /// An annual report whose headings are as given, two a page, prose between, on `line_features` of a cover.
    fn filing(headings: &[&str]) -> Doc {
        let mut doc = Doc::new(2 + headings.len());
        doc.add(0, line("FORM 10-K").size(14.0).bold());
        doc.add(0, line("Example Corporation").size(18.0).bold());
        doc.prose(1, 10.0, 10);
        for (at, heading) in headings.iter().enumerate() {
            doc.add(at + 2, line(heading).bold());
            doc.prose(at + 2, 10.0, 12);
        }
        doc
    }

    #[test]
    fn item_styles() {
        let part = (3, 1, "PART I");
        let cases: [&[&str]; 5] = [
            &[
                "Item 1. Business",
                "Item 1A. Risk Factors",
                "Item 2. Properties",
                "Item 3. Legal Proceedings",
            ],
            &[
                "ITEM 1 — BUSINESS",
                "ITEM 1A — RISK FACTORS",
                "ITEM 2 — PROPERTIES",
                "ITEM 3 — LEGAL PROCEEDINGS",
            ],
            &[
                "Item 1. | Business",
                "Item 1A. | Risk Factors",
                "Item 2. | Properties",
                "Item 3. | Legal Proceedings",
            ],
            &[
                "1. Business",
                "1A. Risk Factors",
                "2. Properties",
                "3. Legal Proceedings",
            ],
            &[
                "I TEM 1. BUSINESS",
                "I TEM 1A. RISK FACTORS",
                "I TEM 2. PROPERTIES",
                "I TEM 3. LEGAL PROCEEDINGS",
            ],
        ];
        for headings in cases {
            let mut expected_entries = vec![part];
            expected_entries.extend(
                headings
                    .iter()
                    .zip(3..)
                    .map(|(heading, page)| (page, 2, *heading)),
            );
            assert_eq!(
                titles(&filing(headings)),
                expected(&expected_entries),
                "{headings:?}"
            );
        }
    }

    #[test]
    fn combined_items_and_missing_parts() {
        let mut doc = filing(&[
            "PART I",
            "Items 1 and 2. Business and Properties",
            "Item 3. Legal Proceedings",
            "Item 7. Management's Discussion and Analysis of Financial Condition and Results of Operations",
            "Item 8. Financial Statements and Supplementary Data",
            "SIGNATURES",
        ]);
        doc.add(3, line("Item 8 of this report has the statements."));
        doc.add(4, line("Item 7. Management's Discussion, as said before, in the part that follows here and goes on"));
        let entries = titles(&doc);
        let shape: Vec<(u32, u16)> = entries.iter().map(|e| (e.0, e.1)).collect();
        assert_eq!(
            shape,
            [(3, 1), (4, 2), (5, 2), (6, 1), (6, 2), (7, 2), (8, 1)]
        );
        assert_eq!(entries[3].2, "PART II");
    }

    #[test]
    fn quarterly_report_repeats_item_numbers() {
        let mut doc = Doc::new(7);
        doc.add(0, line("FORM 10-Q").size(14.0).bold());
        doc.prose(0, 10.0, 8);
        let headings = [
            "PART I. FINANCIAL INFORMATION",
            "Item 1. Financial Statements",
            "Item 2. Management's Discussion and Analysis of Financial Condition and Results of Operations",
            "PART II. OTHER INFORMATION",
            "Item 1. Legal Proceedings",
            "Item 2. Unregistered Sales of Equity Securities and Use of Proceeds",
        ];
        for (at, heading) in headings.iter().enumerate() {
            doc.add(at + 1, line(heading).bold());
            doc.prose(at + 1, 10.0, 12);
        }
        assert_eq!(
            titles(&doc).iter().map(|e| (e.0, e.1)).collect::<Vec<_>>(),
            [(2, 1), (3, 2), (4, 2), (5, 1), (6, 2), (7, 2)]
        );
    }

    #[test]
    fn current_report_with_exhibit() {
        let mut doc = Doc::new(4);
        doc.add(0, line("FORM 8-K").size(14.0).bold());
        doc.prose(0, 10.0, 8);
        doc.section(
            1,
            "Item 2.02. Results of Operations and Financial Condition.",
        );
        doc.section(1, "Item 9.01 Financial Statements and Exhibits");
        doc.section(2, "SIGNATURE");
        doc.add(3, line("Exhibit 99.1").at(480.0, 40.0));
        doc.section(3, "Company Reports Results");
        let shape: Vec<_> = titles(&doc).iter().map(|e| (e.0, e.1)).collect();
        assert_eq!(shape, [(2, 1), (2, 1), (3, 1), (4, 1), (4, 2)]);
    }

    #[test]
    fn lone_capital_title_is_a_sibling() {
        let mut doc = Doc::new(4);
        for (page, title) in ["Competition", "OVERVIEW", "Results", "Liquidity"]
            .iter()
            .enumerate()
        {
            doc.section(page, title);
        }
        assert!(titles(&doc).iter().all(|entry| entry.1 == 1));
    }

    #[test]
    fn pages_without_headings_become_windows() {
        let mut doc = Doc::new(30);
        for page in 0..30 {
            doc.add(
                page,
                line(&format!("page {page} starts here and goes on for a while")),
            );
            doc.prose(page, 10.0, 30);
        }
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
        assert_eq!(draft.method, Method::Windows);
        assert!(
            draft
                .outline
                .entries()
                .iter()
                .all(|e| e.verdict == EntryVerdict::Declared)
        );
        assert!(draft.gaps.iter().all(|gap| gap.code == "structure.windows"));
        assert_eq!(draft.outline.accuracy(), 1.0);
    }

    #[test]
    fn hostile_sources_are_bounded() {
        let mut doc = Doc::new(3);
        doc.add(0, line("Contents").size(16.0));
        doc.add(0, line(&format!("Title {} 7", ".".repeat(400_000))));
        doc.add(1, line(&"1.".repeat(3_000)));
        doc.add(1, line(&"word ".repeat(200_000)));
        for at in 0..6_000 {
            doc.bookmark(&format!("Entry {}", at % 7), 1 + (at % 900) as u16, at % 4);
        }
        let start = std::time::Instant::now();
        assert!(outline(&doc.source(), &StructureSettings::default()).is_ok());
        assert!(start.elapsed().as_secs() < 20);
        assert!(titles(&Doc::new(0)).is_empty() && titles(&Doc::new(2)).is_empty());
    }
}
