//! Outlines of documents with pages: primary outline, layout headings within a budget, splits of large sections, levels.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, LocatedEntry, Method, OutlineError, Page,
    PageLabel, PageNo, Position, SectionStart, Source, VerifiedOutline,
};

use super::heading_budget::within_budget;
use super::heading_style::LayoutHeading;
use super::line_features::LineTable;
use super::outline_head::OutlineHead;
use super::oversized_sections::RowTokens;
use super::page_labels::PageLabels;
use super::primary_outline;
use super::rule_outline::RuleOutline;
use super::section_candidate::SectionCandidate;
use super::statements::names_report;
use super::text_blocks::BlockStarts;
use super::titles::{self, TitleKeys};
use super::{
    Draft, StructureSettings, display_type, levels, numbered_chapters, oversized_sections,
};

const MAX_GAPS: usize = 200;

pub(super) fn outline(
    source: &Source,
    pages: &[Page],
    settings: &StructureSettings,
) -> Result<Draft, OutlineError> {
    RuleOutline::new(source, pages, settings).draft()
}

impl<'a> RuleOutline<'a> {
    // The order of the steps matters. Layout headings need the primary outline, which tells which rows and styles are
    // taken. Splitting uses the headings that the budget left out.
    pub fn new(source: &Source, pages: &'a [Page], settings: &'a StructureSettings) -> Self {
        let lines = LineTable::new(pages);
        let labels = PageLabels::read(&lines, pages);
        let primary = primary_outline::build_primary_outline(source, &lines, &labels, settings);
        let mut free = primary_outline::remaining_headings(&lines, &primary);
        let is_filing = is_filing(&primary.heads, &free);
        if !is_filing {
            display_type::drop_display_type(&lines, &primary.heads, &mut free);
        }
        let mut seen = free.clone();
        let (mut heads, unused) = within_budget(&lines, &primary, free, is_filing, settings);
        let tokens = RowTokens::new(&lines, pages);
        oversized_sections::divide_leaves(&lines, &tokens, &mut heads, &unused);
        BlockStarts::new(source, pages, &lines).add_declared(&mut heads, &unused);
        fold_repeats(&lines, &mut heads);
        if !is_filing {
            display_type::lower_lone_titles(&lines, &mut heads);
            numbered_chapters::align_with_chapters(&lines, &mut heads);
            display_type::flatten_wrappers(&lines, &mut heads);
            numbered_chapters::drop_references(&lines, &mut heads);
        }
        let of_heads = heads.iter().map(|head| (head.rows.0, head.rank));
        let of_unused = unused.iter().map(|heading| (heading.rows.0, heading.rank));
        let ranks: BTreeMap<usize, u32> = of_unused.chain(of_heads).collect();
        let mut false_headings = BTreeSet::new();
        seen.retain_mut(|heading| match ranks.get(&heading.rows.0) {
            Some(rank) => {
                heading.rank = *rank;
                true
            }
            None => {
                false_headings.insert(heading.rows.0);
                false
            }
        });
        Self {
            pages,
            settings,
            lines,
            tokens,
            labels,
            primary,
            heads,
            seen,
            false_headings,
        }
    }

    /// Windows stand in where nothing divides the text.
    ///
    /// # Errors
    /// [`OutlineError`] if a heading lies outside the document, which rows of its pages never do.
    pub fn draft(&self) -> Result<Draft, OutlineError> {
        let mut heads = self.heads.clone();
        let mut gaps = self.primary.gaps.clone();
        let pages = (self.pages, &self.tokens);
        oversized_sections::add_windows(&self.lines, pages, &mut heads, &mut gaps, self.settings);
        gaps.truncate(MAX_GAPS);
        let method = heads
            .iter()
            .map(|head| head.evidence)
            .filter(|evidence| *evidence != EvidenceSource::Window)
            .min()
            .map_or(Method::Windows, |strongest| match strongest {
                EvidenceSource::Model => Method::Model,
                _ => self.primary.method,
            });
        let judged = entries_with_verdicts(&self.lines, &heads, self.primary.rejected.clone());
        let extent = Extent::Pages(u32::try_from(self.pages.len()).unwrap_or(u32::MAX));
        Ok(Draft {
            outline: VerifiedOutline::new(extent, judged)?,
            method,
            labels: self.labels.printed(),
            gaps,
            cross_index: self.primary.cross_index.clone(),
        })
    }
}

/// Whether the document is a filing, an agreement or a release with statements.
// They have a grammar of their own; the rules for papers, manuals and brochures would only disturb it.
fn is_filing(heads: &[OutlineHead], free: &[LayoutHeading]) -> bool {
    heads
        .iter()
        .any(|head| head.evidence == EvidenceSource::Grammar)
        || free.iter().any(|heading| {
            let key = titles::normalize_key(&heading.title);
            let named = ["consolidatedstatement", "consolidatedbalancesheet"];
            heading.statement || named.iter().any(|name| key.contains(name))
        })
}

/// Removes a first sub-section that repeats the title of its section, and a title repeated at the top of the next page.
fn fold_repeats(lines: &LineTable<'_>, heads: &mut Vec<OutlineHead>) {
    let mut folded: Vec<OutlineHead> = Vec::with_capacity(heads.len());
    for head in heads.drain(..) {
        let repeats = folded.last().is_some_and(|above| {
            // `Section 2.01 Events of Default` is the first of Article II, `Events of Default`.
            let has_own_number = head.number.is_some() && head.number != above.number;
            let near = head.rows.0.saturating_sub(above.rows.1) <= 3
                && above.rank < head.rank
                && !has_own_number;
            let from_layout =
                head.evidence == EvidenceSource::Layout && lines.starts_page(head.rows.0);
            let page = lines.rows[head.rows.0].page;
            // One report of the auditors may judge the statements and the next one the controls.
            let is_continued = from_layout
                && !names_report(&head.title)
                && page == lines.rows[above.rows.0].page + 1
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

/// Every head with its level, place and verdict, then the rejected candidates.
fn entries_with_verdicts(
    lines: &LineTable<'_>,
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
        let starts_page = lines.starts_page(head.rows.0);
        let verdict = match head.evidence {
            EvidenceSource::Window => EntryVerdict::Declared,
            _ if head.unconfirmed => EntryVerdict::Unconfirmed { starts_page },
            _ => EntryVerdict::Confirmed { starts_page },
        };
        (
            LocatedEntry {
                entry,
                place: place(lines, head.rows.0),
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
                place: place(lines, 0),
            },
            EntryVerdict::Rejected,
        )
    });
    located.chain(dropped).collect()
}

fn place(lines: &LineTable<'_>, row: usize) -> SectionStart {
    let row = &lines.rows[row];
    let y = stemma_document::Pt::new(row.y0);
    SectionStart::Page(Position {
        page: PageNo::from_index(row.page as usize),
        line: row.line,
        y,
    })
}

#[cfg(test)]
mod tests;
