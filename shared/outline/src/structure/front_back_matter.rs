//! Rules for headings at both ends of a document: cover lines and the title, signatures and contacts.
//!
//! Covers and signature pages are set like headings throughout, so style cannot tell their lines from sections. What
//! decides is whether the same style returns inside the document.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::EvidenceSource;
use stemma_reading::vocabulary::{FRONT_MATTER_TITLES, RELEASE_TITLES};

use super::counts::counts;
use super::heading_candidate::Document;
use super::heading_style::{HeadingStyle, style_of};
use super::line_features::LineTable;
use super::numbering::{self, NumberClass};
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::statements::{is_statement_key, names_report};
use super::titles;

// Lines, such as a form or a period, that may be between a company's name and the heading it belongs to.
const CAPTION_ROWS: usize = 4;
// Lines at the top of a release in which it is called so.
const RELEASE_ROWS: usize = 10;
// Headings of a list of exhibits, before the statements that are bound behind it.
const HEADS_BEFORE_STATEMENTS: usize = 20;
// Pages without text that a cover may have.
const COVER_PAGES: usize = 4;
// Above all headings known only by their layout.
const HEADLINE_RANK: u32 = LAYOUT_RANK - 1;

/// The lines of a cover: the unnumbered headings known only by their layout before the first paragraph.
struct FrontMatter {
    /// Styles of all sections.
    styles: Vec<HeadingStyle>,
    /// Places of the lines.
    lines: Vec<usize>,
    /// The title of the document, if it is not a section.
    title: Option<usize>,
    /// Lines that are neither the title nor sections.
    others: Vec<usize>,
}

impl FrontMatter {
    // Only two kinds of lines before the first paragraph are sections: the title of the document, and headings whose
    // style returns further on.
    fn find(heads: &[OutlineHead], document: &Document<'_>) -> Self {
        let styles: Vec<HeadingStyle> = heads
            .iter()
            .map(|head| style_of(document.lines, &document.lines.rows[head.rows.0]))
            .collect();
        let lines = front_headings(heads, &styles, document.lines);
        let recurring = StyleCounts::new(&styles, &lines);
        let is_section = |at: usize| {
            let next = document.lines.rows.get(heads[at].rows.1 + 1);
            let over_text = next.is_some_and(|next| next.prose);
            recurring.is_section(styles[at], over_text) || opens_text(&heads[at])
        };
        let title = lines
            .iter()
            .copied()
            .min_by_key(|at| heads[*at].rank)
            .filter(|at| !is_section(*at));
        let others = lines
            .iter()
            .copied()
            .filter(|at| Some(*at) != title && !is_section(*at))
            .collect();
        Self {
            styles,
            lines,
            title,
            others,
        }
    }
}

fn front_headings(
    heads: &[OutlineHead],
    styles: &[HeadingStyle],
    lines: &LineTable<'_>,
) -> Vec<usize> {
    let cover = COVER_PAGES.min(lines.pages()).saturating_sub(1);
    let first = (0..lines.rows_on(cover).end)
        .find(|at| lines.rows[*at].prose && !lines.rows[*at].running)
        .unwrap_or(lines.rows_on(0).end);
    (0..heads.len())
        .filter(|at| {
            let head = &heads[*at];
            head.rows.0 < first
                && head.evidence == EvidenceSource::Layout
                && head.rank >= HEADLINE_RANK
                && !styles[*at].is_numbered()
        })
        .collect()
}

/// Decides the rank of the title.
// The title becomes the parent of everything only in documents like an earnings release, where layout alone says what a
// section is and the title looks like no other heading. Elsewhere it would merely add a root above sections that the author
// listed side by side (ADR 0008).
pub(super) fn rank_title(heads: &mut [OutlineHead], document: &Document<'_>) {
    let front = FrontMatter::find(heads, document);
    let Some(title) = front.title else {
        return;
    };
    let is_announced = heads.iter().any(|head| {
        !matches!(
            head.evidence,
            EvidenceSource::Layout | EvidenceSource::Window
        )
    });
    let is_alone = (0..heads.len())
        .filter(|at| front.lines.binary_search(at).is_err())
        .all(|at| !front.styles[at].is_like(&front.styles[title]));
    // Numbered sections (of a paper) are at the level of the title by convention.
    let numbered = front
        .styles
        .iter()
        .filter(|style| style.is_numbered())
        .count();
    let opens = (document.is_filing || is_release(document.lines))
        && !is_announced
        && is_alone
        && numbered * 2 < heads.len();
    heads[title].leaf = !opens;
    if opens {
        heads[title].rank = HEADLINE_RANK;
    }
}

/// Lines of a cover that are not sections.
pub(super) fn cover_lines(heads: &[OutlineHead], document: &Document<'_>) -> Vec<usize> {
    FrontMatter::find(heads, document).others
}

/// Whether the first lines say that the document is a release.
fn is_release(lines: &LineTable<'_>) -> bool {
    lines
        .rows_on(0)
        .take(RELEASE_ROWS)
        .any(|at| RELEASE_TITLES.occurs_in(&lines.rows[at].key))
}

/// Whether the heading has the usual title of a first section.
fn opens_text(head: &OutlineHead) -> bool {
    FRONT_MATTER_TITLES.contains(titles::normalize_key(&head.title).as_str())
}

/// How often each style occurs on the cover and behind it.
struct StyleCounts {
    /// Headings on the cover, headings behind it.
    counts: BTreeMap<HeadingStyle, (usize, usize)>,
    /// Styles behind the cover, without their numbers.
    behind: BTreeSet<HeadingStyle>,
}

impl StyleCounts {
    fn new(styles: &[HeadingStyle], front: &[usize]) -> Self {
        let mut recurring = Self {
            counts: BTreeMap::new(),
            behind: BTreeSet::new(),
        };
        for (at, style) in styles.iter().enumerate() {
            let count = recurring.counts.entry(*style).or_default();
            if front.binary_search(&at).is_ok() {
                count.0 += 1;
            } else {
                count.1 += 1;
                recurring.behind.insert(style.unnumbered());
            }
        }
        recurring
    }

    // A heading right above the first paragraph needs less evidence: its style only has to occur once behind the cover,
    // and there it may be numbered.
    fn is_section(&self, style: HeadingStyle, over_text: bool) -> bool {
        let more = self
            .counts
            .get(&style)
            .is_some_and(|(front, behind)| behind > front);
        more || (over_text && self.behind.contains(&style))
    }
}

/// Makes leaves of the sections that end a document.
// Statements bound behind the signatures have the level of these.
pub(super) fn close_sections(heads: &mut [OutlineHead], _: &Document<'_>) {
    for at in 0..heads.len() {
        let is_leaf = ends_form(&heads[at]) || is_before_statements(&heads[at..]);
        heads[at].leaf |= is_leaf;
    }
}

/// Headings inside signatures and contacts.
// Names and offices below signatures and contacts are set in bold and would become their sub-sections.
pub(super) fn lines_below_signatures(heads: &[OutlineHead], document: &Document<'_>) -> Vec<usize> {
    let page_of = |head: &OutlineHead| document.lines.rows[head.rows.0].page;
    let mut dropped = Vec::new();
    let mut end: Option<&OutlineHead> = None;
    for (at, head) in heads.iter().enumerate() {
        let is_inside = end.is_some_and(|end| {
            // Below a signature anything on its page is dropped, whatever its rank: a name may be set large.
            let is_signed = is_signature(end) && page_of(end) == page_of(head);
            let is_below = head.rank > end.rank && !is_signature(end);
            head.evidence == EvidenceSource::Layout && (is_signed || is_below)
        });
        if is_inside {
            dropped.push(at);
        } else {
            end = Some(head).filter(|head| {
                is_signature(head) || titles::normalize_key(&head.title).ends_with("contacts")
            });
        }
    }
    dropped
}

/// Captions above other headings.
// A company's name without a paragraph before the next heading says whose statement follows. A line right above
// two or more headings does the same. As sections they would have no text of their own.
pub(super) fn captions(heads: &[OutlineHead], document: &Document<'_>) -> Vec<usize> {
    // Index of the head, its key, and whether the next heading is right below.
    let captions: Vec<(usize, String, bool)> = heads
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| {
            pair[0].evidence == EvidenceSource::Layout
                && numbering::first_number(&pair[0].title).is_none()
        })
        .filter_map(|(at, pair)| {
            let between = document
                .lines
                .rows
                .get(pair[0].rows.1 + 1..pair[1].rows.0)
                .unwrap_or_default();
            let is_caption = between.len() <= CAPTION_ROWS && between.iter().all(|row| !row.prose);
            let key = titles::normalize_key(&pair[0].title);
            is_caption.then_some((at, key, between.is_empty()))
        })
        .collect();
    let above = captions.iter().filter(|(_, _, right_above)| *right_above);
    let count = counts(above.map(|(_, key, _)| key.as_str()));
    captions
        .iter()
        .filter(|(at, key, right_above)| {
            titles::is_company_name(&heads[*at].title)
                || *right_above && count.get(key.as_str()).is_some_and(|count| *count >= 2)
        })
        .map(|(at, _, _)| *at)
        .collect()
}

/// Entries of exhibit lists: `10.1 Credit agreement` is numbered like a section but names another document.
pub(super) fn listed_exhibits(heads: &[OutlineHead], _: &Document<'_>) -> Vec<usize> {
    let mut is_list = false;
    let mut entries = Vec::new();
    for (at, head) in heads.iter().enumerate() {
        let is_decimal = numbering::first_number(&head.title)
            .is_some_and(|number| matches!(number.class, NumberClass::Decimal(2)));
        if is_list && is_decimal && head.evidence == EvidenceSource::Layout {
            entries.push(at);
        } else if head.rank < LAYOUT_RANK {
            is_list = titles::normalize_key(&head.title).contains("exhibits");
        }
    }
    entries
}

/// Whether the section ends the form, so that nothing lies in it.
// Financial statements are often bound behind the signatures or behind Item 16, the last Item of an annual report. Layout
// headings rank below Items, so they would become children of whichever of the two comes last.
fn ends_form(head: &OutlineHead) -> bool {
    is_signature(head) || titles::normalize_key(&head.title).ends_with("form10ksummary")
}

/// Whether the first section is a list of exhibits and financial statements are bound behind it, which are not part of it.
fn is_before_statements(heads: &[OutlineHead]) -> bool {
    let Some((first, behind)) = heads.split_first() else {
        return false;
    };
    titles::is_closing(&titles::normalize_key(&first.title))
        && behind
            .iter()
            .take(HEADS_BEFORE_STATEMENTS)
            .take_while(|head| head.rank > first.rank)
            .any(|head| {
                names_report(&head.title) || is_statement_key(&titles::normalize_key(&head.title))
            })
}

fn is_signature(head: &OutlineHead) -> bool {
    titles::is_signature(&titles::normalize_key(&head.title))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, FixtureLine, line};
    use super::super::{StructureSettings, outline};

    fn entries(doc: &Doc) -> Vec<(u32, u16, String)> {
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
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
            .collect()
    }

    fn expected(entries: &[(u32, u16, &str)]) -> Vec<(u32, u16, String)> {
        entries
            .iter()
            .map(|(page, level, title)| (*page, *level, (*title).to_string()))
            .collect()
    }

    /// A headline as given, sub-headlines, and bold sections behind them.
    fn release(headline: FixtureLine) -> Doc {
        let mut doc = Doc::new(2);
        doc.add(0, line("FOR IMMEDIATE RELEASE"));
        doc.add(0, headline);
        doc.add(0, line("Sales Rise by a Tenth").size(11.0).bold().italic());
        doc.prose(0, 10.0, 8);
        for (page, title) in [
            (0, "Outlook"),
            (0, "Conference Call"),
            (1, "About the Company"),
        ] {
            doc.section(page, title);
        }
        doc
    }

    #[test]
    fn release_headline_is_the_root_section() {
        let doc = release(line("Company Reports Results").size(18.0).bold());
        let expected_entries = [
            (1, 1, "Company Reports Results"),
            (1, 2, "Outlook"),
            (1, 2, "Conference Call"),
            (2, 2, "About the Company"),
        ];
        assert_eq!(entries(&doc), expected(&expected_entries));
    }

    #[test]
    fn title_of_numbered_paper_is_a_sibling() {
        let mut doc = Doc::new(3);
        doc.add(0, line("On the Depth of Trees").size(18.0).bold());
        doc.add(0, line("Ann Author and Ben Author").size(12.0).italic());
        doc.prose(0, 10.0, 8);
        for (page, title) in [(0, "1. Introduction"), (1, "2. Method"), (2, "3. Results")] {
            doc.section(page, title);
        }
        let shape: Vec<u16> = entries(&doc).iter().map(|entry| entry.1).collect();
        assert_eq!(shape, [1, 1, 1, 1]);
    }

    #[test]
    fn statements_bound_behind_a_list_of_exhibits_are_not_part_of_it() {
        let mut doc = Doc::new(8);
        doc.add(0, line("FORM 10-K").size(14.0).bold());
        doc.prose(0, 10.0, 8);
        for (page, title) in [
            (1, "Item 1. Business"),
            (2, "Item 2. Properties"),
            (3, "Item 3. Legal Proceedings"),
            (4, "Item 15. Exhibits and Financial Statement Schedules"),
            (5, "EXHIBIT INDEX"),
            (6, "Report of Independent Registered Public Accounting Firm"),
            (7, "Consolidated Balance Sheets"),
        ] {
            doc.section(page, title);
        }
        let levels: Vec<(String, u16)> = entries(&doc)
            .into_iter()
            .rev()
            .take(3)
            .map(|(_, level, title)| (title, level))
            .collect();
        assert!(levels.iter().all(|(_, level)| *level == 1), "{levels:?}");
    }

    #[test]
    fn names_below_signatures_are_not_sections() {
        let mut doc = Doc::new(3);
        for (page, title) in [(0, "Overview"), (1, "Results"), (2, "Contacts")] {
            doc.section(page, title);
        }
        doc.add(2, line("JANE ROE").size(10.0).bold());
        doc.prose(2, 10.0, 2);
        assert_eq!(
            entries(&doc).last().map(|entry| entry.2.as_str()),
            Some("Contacts")
        );
    }
    #[test]
    fn company_name_over_statement_is_not_a_heading() {
        let mut doc = Doc::new(2);
        for page in 0..2 {
            doc.add(page, line("Example Holdings, Inc.").bold().at(250.0, 60.0));
            doc.add(
                page,
                line("Consolidated Balance Sheets").bold().at(240.0, 76.0),
            );
            doc.prose(page, 10.0, 4);
        }
        assert!(
            entries(&doc)
                .iter()
                .all(|entry| entry.2 == "Consolidated Balance Sheets")
        );
    }

    #[test]
    fn title_repeated_on_next_page_is_one_section() {
        let mut doc = Doc::new(4);
        for (page, title) in [
            (0, "Overview"),
            (1, "Balance Sheet"),
            (2, "Balance Sheet"),
            (3, "Overview"),
        ] {
            doc.section(page, title);
        }
        let titles: Vec<(u32, String)> = entries(&doc)
            .into_iter()
            .map(|(page, _, title)| (page, title))
            .collect();
        assert_eq!(
            titles,
            [
                (1, "Overview".into()),
                (2, "Balance Sheet".into()),
                (4, "Overview".into())
            ]
        );
    }

    #[test]
    fn title_of_a_brochure_holds_no_sections() {
        let mut doc = Doc::new(3);
        doc.add(0, line("Growing Trees in Towns").size(18.0).bold());
        doc.prose(0, 10.0, 8);
        for (page, title) in [(0, "Soil"), (1, "Water"), (2, "Light")] {
            doc.section(page, title);
        }
        let levels: Vec<u16> = entries(&doc).iter().map(|entry| entry.1).collect();
        assert_eq!(levels, [1; 4]);
    }

    #[test]
    fn title_in_display_type_is_one_heading_wherever_it_breaks() {
        let mut doc = Doc::new(4);
        for (at, text) in ["Growing Trees:", "Who They Are,", "What They Think"]
            .iter()
            .enumerate()
        {
            doc.add(0, line(text).size(30.0).at(72.0, 200.0 + 36.0 * at as f32));
        }
        for (page, title) in [(1, "Soil"), (2, "Water"), (3, "Light")] {
            doc.section(page, title);
        }
        assert_eq!(
            entries(&doc)[0],
            (
                1,
                1,
                "Growing Trees: Who They Are, What They Think".to_string()
            )
        );
        assert_eq!(entries(&doc).len(), 4);
    }
}
