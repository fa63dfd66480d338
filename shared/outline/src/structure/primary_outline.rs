//! The primary outline: sections announced by a form, a table of contents or the embedded outline.
//!
//! A file may bind several documents (a filing and its exhibits), so sections are found document by document. Within one,
//! evidence is added from the strongest to the weakest, and later duplicates only complete what is there.

mod evidence;
mod heads;
mod items;

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{Destination, EvidenceSource, Gap, Method, PageNo, PageSpan, Source};

use super::StructureSettings;
use super::agreements;
use super::cross_index::{CrossIndex, IndexRow};
use super::exhibits::{self, BoundDocument};
use super::forms::SecForm;
use super::item_headings;
use super::line_features::LineTable;
use super::locate::{self, LocatedTitle};
use super::outline_head::{OutlineHead, RANK_STEP};
use super::page_labels::PageLabels;
use super::section_candidate::SectionCandidate;
use super::titles;

const MAX_LINKS: usize = 200_000;

/// The sections found by all evidence other than layout.
pub(super) struct PrimaryOutline {
    /// In reading order.
    pub(super) heads: Vec<OutlineHead>,
    /// Announced sections that were not found.
    pub(super) rejected: Vec<SectionCandidate>,
    pub(super) gaps: Vec<Gap>,
    /// Rows that cannot be headings: rows of contents, and everything before the first Item of a filing.
    pub(super) excluded: Vec<bool>,
    pub(super) method: Method,
    /// The row behind the first of the bound documents.
    pub(super) main_end: usize,
    /// Rows of the index that replaces the Items of the form.
    pub(super) cross_index: Vec<IndexRow>,
}

impl PrimaryOutline {
    pub(super) fn taken_rows(&self) -> Vec<bool> {
        let mut taken = self.excluded.clone();
        for head in self.heads.iter().filter(|head| !head.unconfirmed) {
            taken[head.rows.0..=head.rows.1].fill(true);
        }
        taken
    }
}

/// Builds the primary outline, document by document.
pub(super) fn build_primary_outline(
    source: &Source,
    lines: &LineTable<'_>,
    labels: &PageLabels,
    settings: &StructureSettings,
) -> PrimaryOutline {
    let links = links_by_row(source, lines);
    let mut builder = OutlineBuilder {
        lines,
        labels,
        settings,
        links,
        by_page: BTreeMap::new(),
        titles: BTreeSet::new(),
        is_form: false,
        outline: PrimaryOutline {
            heads: Vec::new(),
            rejected: Vec::new(),
            gaps: Vec::new(),
            excluded: vec![false; lines.rows.len()],
            method: Method::Layout,
            main_end: lines.rows.len(),
            cross_index: Vec::new(),
        },
    };
    let mut documents = exhibits::split_exhibits(lines);
    let form = documents
        .first()
        .and_then(|main| item_headings::form_of(lines, main.rows.clone()));
    // A filing that opens with an exhibit number is still the filing and not that exhibit.
    documents
        .iter_mut()
        .take(1)
        .filter(|_| form.is_some())
        .for_each(|main| main.heading = None);
    // An index replaces the Items: the grammar would take its rows for headings, so the form is dropped with it.
    let index = builder.detect_cross_index(source, &documents, form);
    let form = form.filter(|_| index.is_none());
    builder.is_form = form.is_some();
    let documents = exhibits::split_agreements(lines, documents, form);
    // All tables and bookmarks are located before any section is added: Items use them as hints, and locating a table
    // excludes its rows from all later searches.
    let tables: Vec<LocatedCandidates> = documents
        .iter()
        .map(|document| builder.locate_toc(document, form))
        .collect();
    let bookmarks = builder.locate_bookmarks(source, form);
    if let Some(main) = documents.first() {
        builder.outline.main_end = main.rows.end;
    }
    for (document, table) in documents.iter().zip(tables) {
        builder.add_document(document, form, table, &bookmarks);
    }
    builder.add_bookmarks(bookmarks, form);
    builder.add_index(index);
    builder
        .outline
        .heads
        .sort_by_key(|head| (head.rows.0, head.rank));
    heads::lower_notes(&mut builder.outline.heads);
    if form.is_some() {
        items::lower_indexes(&mut builder.outline.heads);
        items::limit_top_sections(&mut builder.outline.heads);
    }
    builder.outline
}

/// Candidates of one source of evidence with their places.
#[derive(Default)]
struct LocatedCandidates {
    candidates: Vec<SectionCandidate>,
    hits: Vec<Option<LocatedTitle>>,
    /// Whether enough candidates were found to follow this evidence.
    is_reliable: bool,
    /// Row of the title of the table of contents.
    title: Option<usize>,
}

struct OutlineBuilder<'s, 'a> {
    lines: &'s LineTable<'a>,
    labels: &'s PageLabels,
    settings: &'s StructureSettings,
    links: Vec<Option<Destination>>,
    /// Indices of the heads by page.
    by_page: BTreeMap<u32, Vec<usize>>,
    /// Normalized titles of all heads.
    titles: BTreeSet<String>,
    is_form: bool,
    outline: PrimaryOutline,
}

impl OutlineBuilder<'_, '_> {
    fn add_index(&mut self, index: Option<CrossIndex>) {
        let Some(index) = index else { return };
        if let Some(at) = index.title {
            self.push(OutlineHead {
                number: None,
                leaf: true,
                ..self.grammar_head((at, at), RANK_STEP)
            });
        }
        self.outline.cross_index = index.entries;
    }

    /// Adds the sections of one document.
    // The order decides which evidence a section keeps: Items read by the grammar know their form and PART, rows of
    // contents know label and link, clauses of agreements only fill in what the contents left out.
    fn add_document(
        &mut self,
        document: &BoundDocument,
        form: Option<SecForm>,
        mut table: LocatedCandidates,
        bookmarks: &LocatedCandidates,
    ) {
        let form = form.filter(|_| document.is_main());
        let mut below = if document.nested { RANK_STEP } else { 0 };
        let heading = document.heading.map(|at| (at, at));
        for rows in heading.into_iter().chain(document.title) {
            below += RANK_STEP;
            self.push(self.grammar_head(rows, below));
        }
        if let Some(form) = form {
            self.add_items(document, form, &table, bookmarks);
        }
        if table.is_reliable {
            self.set_contents_method(&table.candidates);
            let first = table
                .hits
                .iter()
                .flatten()
                .map(|hit| hit.rows.0)
                .min()
                .unwrap_or(document.rows.start);
            // Before the first listed section there is only the cover.
            self.outline.excluded[document.rows.start..first].fill(true);
            // Items are left to the grammar, which also checks their order in the form.
            locate::place_unlocated(
                self.lines,
                document.rows.clone(),
                &table.candidates,
                &mut table.hits,
                |candidate: &SectionCandidate| {
                    candidate.target.is_some() && candidate.keys.is_none()
                },
            );
            self.add_table(table, below);
        }
        if !document.is_main() {
            self.add_clauses(document, below);
        }
    }

    /// Adds ARTICLEs and Sections of an agreement that its contents left out, and its annexes with their sections.
    fn add_clauses(&mut self, document: &BoundDocument, below: u32) {
        let clauses =
            agreements::find_clauses(self.lines, document.rows.clone(), &self.outline.excluded);
        let mut base = below;
        let mut articles = clauses.iter().any(|clause| clause.depth == 1);
        for (at, clause) in clauses.iter().enumerate() {
            let rank = match clause.depth {
                // An annex counts its own sections, with or without ARTICLEs above them.
                0 => {
                    let own = clauses[at + 1..]
                        .iter()
                        .take_while(|clause| clause.depth > 0);
                    articles = own.into_iter().any(|clause| clause.depth == 1);
                    base = below + RANK_STEP;
                    base
                }
                depth => base + if articles { depth } else { 1 } * RANK_STEP,
            };
            let title = clause.title.clone();
            self.push(OutlineHead::new(
                clause.rows,
                title,
                EvidenceSource::Grammar,
                rank,
            ));
        }
    }

    fn set_contents_method(&mut self, candidates: &[SectionCandidate]) {
        let linked = candidates
            .iter()
            .filter(|candidate| candidate.target.is_some())
            .count()
            * 2
            >= candidates.len();
        let method = if linked {
            Method::ContentsLinks
        } else {
            Method::PrintedContents
        };
        self.outline.method = self.outline.method.min(method);
    }

    fn add_table(&mut self, mut table: LocatedCandidates, below: u32) {
        if let Some(at) = table.title.filter(|at| !self.lines.rows[*at].running) {
            self.push(OutlineHead {
                evidence: EvidenceSource::Layout,
                leaf: true,
                ..self.grammar_head((at, at), RANK_STEP + below)
            });
        }
        if !self.is_form {
            raise_orphans(&mut table.candidates, &table.hits);
        }
        for (candidate, hit) in table.candidates.into_iter().zip(table.hits) {
            match hit {
                Some(hit) => {
                    let rank = u32::from(candidate.level) * RANK_STEP + below;
                    self.push_candidate(&candidate, &hit, rank);
                }
                None if candidate.printed.is_some() || candidate.target.is_some() => {
                    self.record_missing(candidate);
                }
                None => {}
            }
        }
    }

    /// Records a candidate that was not found, unless the grammar found its Item.
    fn record_missing(&mut self, candidate: SectionCandidate) {
        if self.titles.contains(&candidate.prepared.full) {
            return;
        }
        let page = candidate
            .page()
            .map(|page| PageNo::from_index(page as usize));
        let detail = format!(
            "`{}` is announced, but was not found",
            titles::truncate_bytes(&candidate.title, 120)
        );
        let pages = page.map(|page| PageSpan::between(page, page));
        self.outline.gaps.push(Gap {
            code: "outline.entry_not_found".into(),
            pages,
            detail,
        });
        self.outline.rejected.push(candidate);
    }

    fn add_bookmarks(&mut self, mut table: LocatedCandidates, form: Option<SecForm>) {
        if !table.is_reliable {
            return;
        }
        self.outline.method = Method::Outline;
        let pages = table
            .candidates
            .iter()
            .filter_map(SectionCandidate::target_page);
        let distinct = pages.collect::<BTreeSet<_>>().len();
        // Some programs let all bookmarks point to page one. Then a destination says nothing about a missing title.
        if distinct > 1 || self.lines.pages() == 1 {
            locate::place_unlocated(
                self.lines,
                0..self.lines.rows.len(),
                &table.candidates,
                &mut table.hits,
                |candidate| candidate.target.is_some(),
            );
        }
        let item_level = table
            .candidates
            .iter()
            .filter(|candidate| candidate.keys.is_some())
            .map(|candidate| candidate.level)
            .max();
        let item_level = item_level.filter(|_| form.is_some());
        // An outline without PARTs lists Items at the top. They move down one level, so that they and their sub-sections
        // line up with Items that the grammar placed below a PART.
        for (candidate, hit) in table.candidates.into_iter().zip(table.hits) {
            let Some(hit) = hit else {
                self.record_missing(candidate);
                continue;
            };
            let rank = match item_level {
                Some(_) if titles::is_closing(&candidate.prepared.full) => RANK_STEP,
                Some(items) if candidate.level >= items && items < 2 => {
                    u32::from(candidate.level - items + 2) * RANK_STEP
                }
                _ => u32::from(candidate.level) * RANK_STEP,
            };
            self.push_candidate(&candidate, &hit, rank);
        }
    }

    fn push_candidate(&mut self, candidate: &SectionCandidate, hit: &LocatedTitle, rank: u32) {
        // Narrow columns of contents lose spaces between words. If the page prints the same letters, its spaces are right.
        let printed = self.lines.rows[hit.rows.0].text;
        let spaced = !hit.unconfirmed
            && hit.rows.0 == hit.rows.1
            && titles::normalize_key(printed) == titles::normalize_key(&candidate.title);
        let title = if spaced && titles::word_count(printed) > titles::word_count(&candidate.title)
        {
            titles::fold_whitespace(printed)
        } else {
            candidate.title.clone()
        };
        let head = OutlineHead {
            rows: hit.rows,
            title,
            number: candidate.number.clone(),
            printed: candidate.printed.clone(),
            target: candidate.target,
            evidence: candidate.evidence,
            unconfirmed: hit.unconfirmed,
            rank,
            leaf: titles::is_toc_title(&candidate.prepared.full),
        };
        self.push(head);
    }
}

/// Moves entries below an entry that was not found up to its level.
// `Appendices` may head a group in the contents and be nowhere else; its appendices would go under the chapter before.
fn raise_orphans(candidates: &mut [SectionCandidate], hits: &[Option<LocatedTitle>]) {
    let mut missing: Vec<u16> = Vec::new();
    for (candidate, hit) in candidates.iter_mut().zip(hits) {
        let level = candidate.level;
        while missing.last().is_some_and(|above| *above >= level) {
            missing.pop();
        }
        let raised = u16::try_from(missing.len()).unwrap_or(level);
        candidate.level = level.saturating_sub(raised).max(1);
        if hit.is_none() {
            missing.push(level);
        }
    }
}

pub(super) fn links_by_row(source: &Source, lines: &LineTable<'_>) -> Vec<Option<Destination>> {
    let mut links = vec![None; lines.rows.len()];
    for link in source.links.iter().take(MAX_LINKS) {
        let y0 = link.rect.y0.points();
        let y1 = link.rect.y1.points();
        for at in lines.rows_on(link.page.index()) {
            let row = &lines.rows[at];
            // Programs draw link boxes a little off the text; the middle of the row must lie inside, within a point.
            let middle = f32::midpoint(row.y0, row.y1);
            let overlaps =
                link.rect.x1.points() > row.x0 - 2.0 && link.rect.x0.points() < row.x1 + 2.0;
            if middle > y0 - 1.0 && middle < y1 + 1.0 && overlaps && links[at].is_none() {
                links[at] = Some(link.target);
            }
        }
    }
    links
}
