//! Outlines of documents with pages: announced sections, headings known by their layout, splits of large sections, levels.

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, LocatedEntry, Method, OutlineError, Page,
    PageLabel, SectionStart, Source, VerifiedOutline,
};

use super::heading_candidate::{Document, HeadingCandidate, Verdict};
use super::line_features::LineTable;
use super::outline_head::OutlineHead;
use super::oversized_sections::RowTokens;
use super::page_labels::PageLabels;
use super::primary_outline::{self, PrimaryOutline};
use super::section_candidate::SectionCandidate;
use super::section_rules::{BUDGETED, DIVIDED, OUTSIDE_FILINGS, Sections};
use super::statements;
use super::text_blocks::BlockStarts;
use super::{Draft, StructureSettings, heading_budget, heading_rules, levels, oversized_sections};

const MAX_GAPS: usize = 200;

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
    /// What looks like a heading, with what was decided about it; in reading order.
    pub(super) candidates: Vec<HeadingCandidate>,
    /// Announced sections that a rule dropped, with its name.
    pub(super) dropped: Vec<(OutlineHead, &'static str)>,
}

impl<'a> RuleOutline<'a> {
    // The order of the steps matters. Candidates need the primary outline, which tells which rows and styles are taken.
    // Splitting uses the headings that the budget left out.
    pub fn new(source: &Source, pages: &'a [Page], settings: &'a StructureSettings) -> Self {
        let lines = LineTable::new(pages);
        let labels = PageLabels::read(&lines, pages);
        let primary = primary_outline::build_primary_outline(source, &lines, &labels, settings);
        let mut document = Document {
            lines: &lines,
            announced: &primary.heads,
            is_filing: false,
        };
        let mut candidates = heading_rules::judge_candidates(&document, &primary.taken_rows());
        document.is_filing = heading_rules::is_filing(&document, &candidates);
        if !document.is_filing {
            heading_rules::judge_display_type(&document, &mut candidates);
        }
        heading_budget::keep_within_budget(&document, primary.main_end, &mut candidates, settings);
        let mut sections = Sections::new(&primary.heads, candidates);
        sections.apply(BUDGETED, &document);
        let tokens = RowTokens::from_rows(&lines, pages);
        sections.add_left_out(|heads, left_out| {
            oversized_sections::dividing_headings(&lines, &tokens, heads, left_out)
        });
        let blocks = BlockStarts::new(source, pages, &lines);
        sections.add_left_out(|heads, left_out| blocks.declared_headings(heads, left_out));
        sections.apply(DIVIDED, &document);
        if !document.is_filing {
            sections.apply(OUTSIDE_FILINGS, &document);
        }
        sections.copy_ranks();
        let Sections {
            heads,
            candidates,
            dropped,
        } = sections;
        Self {
            pages,
            settings,
            lines,
            tokens,
            labels,
            primary,
            heads,
            candidates,
            dropped,
        }
    }

    pub(super) fn candidate_at(&self, row: usize) -> Option<&HeadingCandidate> {
        let at = self
            .candidates
            .binary_search_by_key(&row, |candidate| candidate.rows.0);
        Some(&self.candidates[at.ok()?])
    }

    /// The heading that begins in a row, used or not.
    pub(super) fn heading_at(&self, row: usize) -> Option<&HeadingCandidate> {
        self.candidate_at(row)
            .filter(|candidate| candidate.is_heading())
    }

    /// Whether a heading begins in a row that is not a section of the outline.
    pub(super) fn is_false_heading(&self, row: usize) -> bool {
        self.candidate_at(row)
            .is_some_and(|candidate| matches!(candidate.verdict, Verdict::NotSection(_)))
    }

    /// Divides the text into windows where nothing else divides it.
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

/// Every head with its level, place and verdict, then the rejected candidates.
fn entries_with_verdicts(
    lines: &LineTable<'_>,
    heads: &[OutlineHead],
    rejected: Vec<SectionCandidate>,
) -> Vec<(LocatedEntry, EntryVerdict)> {
    let mut levels = levels::assign_levels(heads);
    let titles: Vec<&str> = heads.iter().map(|head| head.title.as_str()).collect();
    statements::nest_under_index(&titles, &mut levels);
    let place = |row: usize| SectionStart::Page(lines.rows[row].position());
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
                place: place(head.rows.0),
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
                place: place(0),
            },
            EntryVerdict::Rejected,
        )
    });
    located.chain(dropped).collect()
}

#[cfg(test)]
mod tests;
