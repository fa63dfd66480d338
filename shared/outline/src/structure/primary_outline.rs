//! The primary outline: sections announced by a form, a table of contents or the embedded outline.
//!
//! A file may bind several documents (a filing and its exhibits), so sections are found document by document. Within one,
//! evidence is added from the strongest to the weakest, and later duplicates only complete what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::{
    Destination, EvidenceSource, Gap, Method, PageNo, PageSpan, Source, SourceBody,
};

use super::agreements;
use super::candidates::{self, SectionCandidate};
use super::cross_index::{self, CrossIndex, IndexRow};
use super::exhibits::{self, BoundDocument};
use super::forms::SecForm;
use super::heading_style::LayoutHeading;
use super::item_grammar;
use super::item_headings::{self, ItemHint, LocatedItem};
use super::line_features::LineTable;
use super::locate::{self, LocatedTitle};
use super::outline_head::{LAYOUT_RANK, OutlineHead, RANK_STEP};
use super::page_labels::PageLabels;
use super::titles::{self, TitleKeys};
use super::toc;
use super::{StructureSettings, layout, numbering};

// More top sections (the preface not counted) hide the PARTs of a filing: signatures and exhibits go under the last PART
// (ADR 0008).
const MAX_TOP_SECTIONS: usize = 11;
// The cover of a form stands among these rows; a later mention of the form's name is none.
const COVER_ROWS: usize = 400;
// Each new head is compared with the heads of three pages. Without the limit, thousands of bookmarks that point to one
// page make this quadratic; a page with more heads has no real sections anyway.
const NEAR_HEADS: usize = 200;
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
    /// Rows of the index that replaces the Items of the form.
    pub(super) cross_index: Vec<IndexRow>,
}

/// Builds the primary outline, document by document.
pub(super) fn build_primary_outline(
    source: &Source,
    sheet: &LineTable<'_>,
    labels: &PageLabels,
    settings: &StructureSettings,
) -> PrimaryOutline {
    let links = links_by_row(source, sheet);
    let mut builder = OutlineBuilder {
        sheet,
        labels,
        settings,
        links,
        by_page: BTreeMap::new(),
        titles: BTreeSet::new(),
        outline: PrimaryOutline {
            heads: Vec::new(),
            rejected: Vec::new(),
            gaps: Vec::new(),
            excluded: vec![false; sheet.rows.len()],
            method: Method::Layout,
            cross_index: Vec::new(),
        },
    };
    let mut documents = exhibits::split_exhibits(sheet);
    let form = documents
        .first()
        .and_then(|main| item_headings::form_of(sheet, main.rows.clone()));
    // A filing that opens with an exhibit number is still the filing and not that exhibit.
    documents
        .iter_mut()
        .take(1)
        .filter(|_| form.is_some())
        .for_each(|main| main.heading = None);
    // An index replaces the Items: the grammar would take its rows for headings, so the form is dropped with it.
    let index = builder.detect_cross_index(source, &documents, form);
    let form = form.filter(|_| index.is_none());
    let documents = exhibits::split_agreements(sheet, documents, form);
    // All tables and bookmarks are located before any section is added: Items use them as hints, and locating a table
    // excludes its rows from all later searches.
    let tables: Vec<LocatedCandidates> = documents
        .iter()
        .map(|document| builder.locate_toc(document, form))
        .collect();
    let bookmarks = builder.locate_bookmarks(source, form);
    for (document, table) in documents.iter().zip(tables) {
        builder.add_document(document, form, table, &bookmarks);
    }
    builder.add_bookmarks(bookmarks, form);
    builder.add_index(index);
    builder
        .outline
        .heads
        .sort_by_key(|head| (head.rows.0, head.rank));
    if form.is_some() {
        lower_indexes(&mut builder.outline.heads);
        limit_top_sections(&mut builder.outline.heads);
    }
    builder.outline
}

/// Candidates of one source of evidence with their places.
struct LocatedCandidates {
    candidates: Vec<SectionCandidate>,
    hits: Vec<Option<LocatedTitle>>,
    /// Whether enough candidates were found to follow this evidence.
    is_reliable: bool,
    /// Row of the title of the table of contents.
    title: Option<usize>,
}

struct OutlineBuilder<'s, 'a> {
    sheet: &'s LineTable<'a>,
    labels: &'s PageLabels,
    settings: &'s StructureSettings,
    links: Vec<Option<Destination>>,
    /// Indices of the heads by page.
    by_page: BTreeMap<u32, Vec<usize>>,
    /// Normalized titles of all heads.
    titles: BTreeSet<String>,
    outline: PrimaryOutline,
}

impl OutlineBuilder<'_, '_> {
    fn pages_of(&self, rows: &Range<usize>) -> Range<u32> {
        let first = self.sheet.rows.get(rows.start).map_or(0, |row| row.page);
        let last = rows
            .end
            .checked_sub(1)
            .and_then(|at| self.sheet.rows.get(at))
            .map_or(0, |row| row.page);
        first..last + 1
    }

    /// Finds the cross-reference index of a report without Item headings, and excludes its rows.
    fn detect_cross_index(
        &mut self,
        source: &Source,
        documents: &[BoundDocument],
        form: Option<SecForm>,
    ) -> Option<CrossIndex> {
        let SourceBody::Pages(pages) = &source.body else {
            return None;
        };
        let index = cross_index::find_cross_index(self.sheet, pages, self.labels)?;
        let mut excluded = vec![false; self.sheet.rows.len()];
        excluded[index.rows.0..=index.rows.1].fill(true);
        let items = index
            .entries
            .iter()
            .filter(|entry| !entry.item.contains('.'))
            .count();
        let main = documents.first()?.rows.clone();
        // If half of the listed Items have headings outside the list, the list is an ordinary table of contents.
        let located_items = form.map_or(0, |form| {
            let hints = vec![None; form.items().len()];
            let located = item_headings::find_items(self.sheet, main, form, &hints, &excluded);
            located
                .iter()
                .filter(|located| form.items()[located.key].tag.is_some())
                .count()
        });
        if located_items * 2 >= items {
            return None;
        }
        // The cover of the form is not a section of the report that follows it.
        if let Some(cover) = (0..index.rows.0.min(COVER_ROWS)).find(|at: &usize| {
            form.is_some_and(|form| {
                form.cover_words()
                    .contains(&self.sheet.rows[*at].key.as_str())
            })
        }) {
            excluded[self.sheet.rows_on(self.sheet.rows[cover].page as usize)].fill(true);
        }
        self.outline.excluded = excluded;
        Some(index)
    }

    fn add_index(&mut self, index: Option<CrossIndex>) {
        let Some(index) = index else { return };
        if let Some(at) = index.title {
            let head = self.new_head((at, at), self.sheet.rows[at].text, EvidenceSource::Grammar);
            self.push(OutlineHead {
                number: None,
                leaf: true,
                ..head
            });
        }
        self.outline.cross_index = index.entries;
    }

    // Filings often open with a short list of their parts and have the real table of contents some pages later. A first
    // table with neither labels nor links therefore gives way to a second one that has them.
    /// Finds the table of contents of a document and locates its entries.
    fn locate_toc(&mut self, document: &BoundDocument, form: Option<SecForm>) -> LocatedCandidates {
        let pages = self.pages_of(&document.rows);
        let form = form.filter(|_| document.is_main());
        let look_at = self.settings.toc_check_pages as usize;
        let range = pages.start as usize..pages.end as usize;
        let mut toc = toc::find_toc(
            self.sheet,
            range.clone(),
            look_at,
            &self.links,
            &self.outline.excluded,
        );
        if let Some(first) = toc.as_ref().filter(|first| first.is_bare()) {
            let from = self.sheet.rows[first.rows.1].page as usize + 1;
            let second = toc::find_toc(
                self.sheet,
                from..range.end,
                look_at,
                &self.links,
                &self.outline.excluded,
            );
            toc = second.filter(|second| !second.is_bare()).or(toc);
        }
        let Some(contents) = toc else {
            return LocatedCandidates {
                candidates: Vec::new(),
                hits: Vec::new(),
                is_reliable: false,
                title: None,
            };
        };
        // The contents of a filing may list pages of its exhibits; those of an exhibit never leave it.
        let listed = if document.is_main() {
            pages.start..self.sheet.pages() as u32
        } else {
            pages
        };
        let candidates = candidates::candidates_from_toc(&contents, form, self.labels, listed);
        let rows = contents.rows.0..=contents.rows.1;
        let before = self.outline.excluded[rows.clone()].to_vec();
        self.outline.excluded[rows.clone()].fill(true);
        let mut hits = locate::locate_titles(
            self.sheet,
            document.rows.clone(),
            &self.outline.excluded,
            &candidates,
        );
        self.locate_behind(document, &candidates, &mut hits);
        let accuracy = locate::located_share(&candidates, &hits);
        let is_reliable = accuracy >= self.settings.min_accuracy;
        // A plain list may have been mistaken for contents. If its titles are nowhere else, its own lines may be the
        // headings, so they become searchable again.
        if !is_reliable && contents.is_bare() {
            self.outline.excluded[rows].copy_from_slice(&before);
        }
        if !is_reliable {
            let pages = self.page_span(contents.rows);
            let share = (accuracy * 100.0).round();
            let detail = format!(
                "{share} % of the titles in the table of contents were found, too few to follow it"
            );
            self.outline.gaps.push(Gap {
                code: "structure.contents_rejected".into(),
                pages,
                detail,
            });
        }
        LocatedCandidates {
            candidates,
            hits,
            is_reliable,
            title: contents.title,
        }
    }

    // The contents of a filing may go on with the sections of its exhibits. Only the entries after the last one found in
    // the filing are searched there, and only as a whole: single titles such as `Definitions` occur in any agreement.
    /// Locates the last entries of a table of contents in the documents behind a filing.
    fn locate_behind(
        &self,
        document: &BoundDocument,
        candidates: &[SectionCandidate],
        hits: &mut [Option<LocatedTitle>],
    ) {
        let first = hits
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |at| at + 1);
        let behind = document.rows.end..self.sheet.rows.len();
        if !document.is_main() || candidates.len() - first < 3 || behind.is_empty() {
            return;
        }
        let hits_behind = locate::locate_titles(
            self.sheet,
            behind,
            &self.outline.excluded,
            &candidates[first..],
        );
        if locate::located_share(&candidates[first..], &hits_behind) >= self.settings.min_accuracy {
            hits[first..].clone_from_slice(&hits_behind);
        }
    }

    fn page_span(&self, rows: (usize, usize)) -> Option<PageSpan> {
        let first = self.sheet.rows.get(rows.0)?.page as usize;
        let last = self.sheet.rows.get(rows.1)?.page as usize;
        Some(PageSpan::between(
            PageNo::from_index(first),
            PageNo::from_index(last),
        ))
    }

    /// Locates the embedded outline in the whole file.
    fn locate_bookmarks(&mut self, source: &Source, form: Option<SecForm>) -> LocatedCandidates {
        let candidates = candidates::candidates_from_outline(&source.outline, form);
        let hits = locate::locate_titles(
            self.sheet,
            0..self.sheet.rows.len(),
            &self.outline.excluded,
            &candidates,
        );
        let located = hits.iter().flatten().count();
        // The share counts all entries, junk included: an outline of slide or file names with one real title in it must
        // not pass. At least two titles must be found, unless the outline has only one.
        let share = located as f32 / source.outline.len().clamp(1, 5_000) as f32;
        let is_reliable = share >= self.settings.min_accuracy
            && located >= 2.min(source.outline.len())
            && located > 0;
        if !is_reliable && !source.outline.is_empty() {
            let percent = (share * 100.0).round();
            let detail = format!(
                "{percent} % of the titles in the embedded outline were found, too few to follow it"
            );
            self.outline.gaps.push(Gap {
                code: "structure.outline_rejected".into(),
                pages: None,
                detail,
            });
        }
        LocatedCandidates {
            candidates,
            hits,
            is_reliable,
            title: None,
        }
    }

    // The order decides which evidence a section keeps: Items read by the grammar know their form and PART, rows of
    // contents know label and link, clauses of agreements only fill in what the contents left out.
    /// Adds the sections of one document.
    fn add_document(
        &mut self,
        document: &BoundDocument,
        form: Option<SecForm>,
        mut table: LocatedCandidates,
        bookmarks: &LocatedCandidates,
    ) {
        let form = form.filter(|_| document.is_main());
        let mut below = if document.nested { RANK_STEP } else { 0 };
        for rows in document
            .heading
            .map(|at| (at, at))
            .into_iter()
            .chain(document.title)
        {
            let text: Vec<&str> = self.sheet.rows[rows.0..=rows.1]
                .iter()
                .map(|row| row.text)
                .collect();
            self.push(OutlineHead {
                rank: below + RANK_STEP,
                ..self.new_head(rows, &text.join(" "), EvidenceSource::Grammar)
            });
            below += RANK_STEP;
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
                self.sheet,
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
            agreements::find_clauses(self.sheet, document.rows.clone(), &self.outline.excluded);
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
            self.push(OutlineHead {
                rank,
                ..self.new_head(clause.rows, &clause.title, EvidenceSource::Grammar)
            });
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

    fn add_table(&mut self, table: LocatedCandidates, below: u32) {
        if let Some(at) = table.title.filter(|at| !self.sheet.rows[*at].running) {
            let head = self.new_head((at, at), self.sheet.rows[at].text, EvidenceSource::Layout);
            self.push(OutlineHead {
                rank: RANK_STEP + below,
                leaf: true,
                ..head
            });
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
            "`{}` is announced and was not found",
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
        if distinct > 1 || self.sheet.pages() == 1 {
            locate::place_unlocated(
                self.sheet,
                0..self.sheet.rows.len(),
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
                Some(_) if candidates::is_closing(&candidate.prepared.full) => RANK_STEP,
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
        let printed = self.sheet.rows[hit.rows.0].text;
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
            leaf: toc::is_toc_title(&candidate.prepared.full),
        };
        self.push(head);
    }

    // Evidence overlaps: one section is announced by bookmark, contents and grammar. The first head stays, later ones only
    // add what it lacks; an unconfirmed place is replaced by a confirmed one.
    /// Adds a head unless it duplicates one at the same place, or one with the same title and number nearby.
    fn push(&mut self, head: OutlineHead) {
        let page = self.sheet.rows[head.rows.0].page;
        let prepared = TitleKeys::new(&head.title);
        let near = self
            .by_page
            .range(page.saturating_sub(1)..=page + 1)
            .flat_map(|(_, heads)| heads);
        let duplicate = near
            .copied()
            .take(NEAR_HEADS)
            .find(|at| self.is_duplicate(&self.outline.heads[*at], &head, &prepared));
        match duplicate.map(|at| &mut self.outline.heads[at]) {
            None => self.insert(head),
            Some(other) if other.unconfirmed && !head.unconfirmed => {
                (other.rows, other.unconfirmed) = (head.rows, false);
            }
            Some(other) => {
                other.printed = other.printed.take().or(head.printed);
                other.target = other.target.or(head.target);
                other.leaf |= head.leaf;
            }
        }
    }

    fn is_duplicate(&self, other: &OutlineHead, head: &OutlineHead, prepared: &TitleKeys) -> bool {
        // Unconfirmed heads stand at the top of a page by assumption, so sharing a row with one means nothing.
        let confirmed = !(head.unconfirmed || other.unconfirmed);
        let overlap = confirmed && other.rows.0 <= head.rows.1 && head.rows.0 <= other.rows.1;
        // Amendments I to V in a row have almost the same letters, but are different sections.
        let numbers_differ = matches!((&other.number, &head.number), (Some(a), Some(b)) if a != b)
            || differ_in_number(&other.title, &head.title);
        overlap
            || (!numbers_differ
                && titles::title_similarity(&TitleKeys::new(&other.title), prepared) > 0.85)
    }

    fn insert(&mut self, head: OutlineHead) {
        let page = self.sheet.rows[head.rows.0].page;
        self.by_page
            .entry(page)
            .or_default()
            .push(self.outline.heads.len());
        self.titles.insert(titles::normalize_key(&head.title));
        self.outline.heads.push(head);
    }

    fn new_head(&self, rows: (usize, usize), title: &str, evidence: EvidenceSource) -> OutlineHead {
        let title = titles::fold_whitespace(title);
        OutlineHead {
            rows,
            number: numbering::leading_number(&title),
            title,
            printed: None,
            target: None,
            evidence,
            unconfirmed: false,
            rank: RANK_STEP,
            leaf: false,
        }
    }

    /// Adds PARTs and Items of a filing; a missing PART is added at its first Item.
    fn add_items(
        &mut self,
        document: &BoundDocument,
        form: SecForm,
        table: &LocatedCandidates,
        bookmarks: &LocatedCandidates,
    ) {
        let hints = item_hints(form, table, bookmarks);
        let mut items = item_headings::find_items(
            self.sheet,
            document.rows.clone(),
            form,
            &hints,
            &self.outline.excluded,
        );
        // The chain can settle in a list of Items that was not recognized as contents.
        if is_item_index(self.sheet, &items) {
            items.clear();
        }
        // First what can be read on its page, then what was only announced: the second step relies on the neighbors that
        // the first one adds. Fewer than four Items give no order to place announced ones into.
        self.add_stray_items(document, form, &hints, &mut items);
        if (table.is_reliable || bookmarks.is_reliable) && items.len() >= 4 {
            self.add_announced_items(document, form, &hints, &mut items);
        }
        // A current report may report a single event. On other forms one Item alone is more likely a reference.
        let required = if form == SecForm::Current { 1 } else { 2 };
        if items.len() < required {
            return;
        }
        items.sort_by_key(|item| (item.rows.0, item.key));
        let first_listed = table
            .hits
            .iter()
            .flatten()
            .filter(|_| table.is_reliable)
            .map(|hit| hit.rows.0)
            .min();
        let first = items.first().map_or(0, |item| item.rows.0);
        let first = first_listed.map_or(first, |listed| listed.min(first));
        self.outline.excluded[document.rows.start..first].fill(true);
        self.add_missing_parts(form, &items);
        for item in &items {
            let is_part = form.items()[item.key].tag.is_none();
            let rank = if is_part || form == SecForm::Current {
                RANK_STEP
            } else {
                2 * RANK_STEP
            };
            // `insert`, not `push`: the chain has already decided, and combined Items may share rows.
            self.insert(OutlineHead {
                rank,
                number: Some(item.number.clone()).filter(|number| !number.is_empty()),
                unconfirmed: item.unconfirmed,
                ..self.new_head(item.rows, &item.title, EvidenceSource::Grammar)
            });
        }
        self.add_closing_sections(
            document,
            items.iter().map(|item| item.rows.1).max().unwrap_or(first),
        );
    }

    // The chain only accepts Items in the order of the form. Filers that print an Item elsewhere still link it, so it is
    // taken where its title stands on the page (or next to it) that link or label names.
    /// Adds Items that stand out of form order.
    fn add_stray_items(
        &self,
        document: &BoundDocument,
        form: SecForm,
        hints: &[Option<ItemHint>],
        items: &mut Vec<LocatedItem>,
    ) {
        for (key, hint) in hints.iter().enumerate() {
            let Some(hint) = hint
                .as_ref()
                .filter(|_| !has_key(items, key) && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let Some(page) = hint.target.or(hint.predicted) else {
                continue;
            };
            let title = TitleKeys::new(&hint.title);
            let near = [page, page + 1].into_iter().chain(page.checked_sub(1));
            let rows = near
                .flat_map(|page| self.sheet.rows_on(page as usize))
                .filter(|at| document.rows.contains(at));
            let hit = rows.into_iter().find(|at| {
                let row = &self.sheet.rows[*at];
                let own = TitleKeys {
                    full: row.key.clone(),
                    core: TitleKeys::new(row.text).core,
                };
                let fit =
                    !row.running && !row.table && !self.outline.excluded[*at] && row.words <= 40;
                let free = !items
                    .iter()
                    .any(|item| (item.rows.0..=item.rows.1).contains(at));
                fit && free && titles::title_similarity(&own, &title) > 0.8
            });
            if let Some(at) = hit {
                items.push(hint.to_item(key, at, false));
            }
        }
    }

    // An announced Item without a readable heading (an image, a split line) still has its pages. It is placed at the top
    // of the announced page, or right behind the Item before it, only if that keeps the order of the form; where the
    // announcements themselves leave that order, the order of pages is not checked.
    /// Adds Items that were announced but not found, unconfirmed.
    fn add_announced_items(
        &self,
        document: &BoundDocument,
        form: SecForm,
        hints: &[Option<ItemHint>],
        items: &mut Vec<LocatedItem>,
    ) {
        for (key, announced) in hints.iter().enumerate() {
            let Some(page) = hinted_page(announced)
                .filter(|_| !has_key(items, key) && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let before = items
                .iter()
                .filter(|item| item.last_key < key)
                .max_by_key(|item| item.key);
            let after = items
                .iter()
                .filter(|item| item.key > key)
                .min_by_key(|item| item.key);
            let apart = hints[..key]
                .iter()
                .filter_map(hinted_page)
                .any(|earlier| earlier > page);
            let fits = before.is_none_or(|item| item_page(self.sheet, item) <= page || apart)
                && after.is_none_or(|item| item_page(self.sheet, item) >= page || apart);
            let on = self.sheet.rows_on(page as usize);
            let row = on
                .clone()
                .find(|at| !self.sheet.rows[*at].running && document.rows.contains(at));
            let behind = before.map_or(0, |item| item.rows.1 + 1);
            let row = row.map(|row| {
                if on.contains(&behind) {
                    row.max(behind)
                } else {
                    row
                }
            });
            if let (Some(row), true, Some(hint)) = (row, fits, announced) {
                items.push(hint.to_item(key, row, true));
            }
        }
    }

    fn add_missing_parts(&mut self, form: SecForm, located: &[LocatedItem]) {
        let items = form.items();
        let mut present = [false; 8];
        for item in located.iter().filter(|item| items[item.key].tag.is_none()) {
            present[usize::from(items[item.key].part)] = true;
        }
        for item in located {
            let part = usize::from(items[item.key].part);
            if part == 0 || std::mem::replace(&mut present[part], true) {
                continue;
            }
            let numeral = ["", "I", "II", "III", "IV"][part.min(4)];
            let head = self.new_head(
                (item.rows.0, item.rows.0),
                &format!("PART {numeral}"),
                EvidenceSource::Grammar,
            );
            let number = Some(numeral.to_string());
            self.insert(OutlineHead {
                rank: RANK_STEP,
                unconfirmed: true,
                number,
                ..head
            });
        }
    }

    /// Adds signatures and the index of exhibits behind the last Item.
    fn add_closing_sections(&mut self, document: &BoundDocument, last: usize) {
        for at in last + 1..document.rows.end {
            let row = &self.sheet.rows[at];
            let stands_out =
                row.bold || row.caps || row.centered || row.size > self.sheet.body + 0.8;
            if candidates::is_closing(&row.key)
                && stands_out
                && !row.running
                && !self.outline.excluded[at]
            {
                let head = self.new_head((at, at), row.text, EvidenceSource::Grammar);
                self.push(OutlineHead {
                    rank: RANK_STEP,
                    number: None,
                    ..head
                });
            }
        }
    }
}

fn has_key(items: &[LocatedItem], key: usize) -> bool {
    items
        .iter()
        .any(|item| (item.key..=item.last_key).contains(&key))
}

fn item_page(sheet: &LineTable<'_>, item: &LocatedItem) -> u32 {
    sheet.rows[item.rows.0].page
}

fn hinted_page(hint: &Option<ItemHint>) -> Option<u32> {
    hint.as_ref()
        .and_then(|hint| hint.target.or(hint.predicted))
}

// Bookmarks come first because they carry destinations. An unreliable outline gives no hints at all; unreliable contents
// still do, since titles in a form's own contents are right even where most of them could not be located.
/// What outline and contents say about each Item of the form.
fn item_hints(
    form: SecForm,
    table: &LocatedCandidates,
    bookmarks: &LocatedCandidates,
) -> Vec<Option<ItemHint>> {
    let mut hints: Vec<Option<ItemHint>> = vec![None; form.items().len()];
    let sources = [(bookmarks, bookmarks.is_reliable), (table, true)];
    for (table, pointing) in sources {
        for candidate in table.candidates.iter().filter(|_| pointing) {
            let Some((key, last)) = candidate.keys else {
                continue;
            };
            for hint in hints.iter_mut().take(last + 1).skip(key) {
                let hint = hint.get_or_insert_with(ItemHint::default);
                if hint.title.is_empty() {
                    hint.title = candidate.title.clone();
                }
                hint.target = hint.target.or(candidate.target_page());
                hint.predicted = hint.predicted.or(candidate.predicted);
            }
        }
    }
    hints
}

// The body of a long filing spreads its Items over many pages. If more than 80 % of at least eight Items stand on two
// neighboring pages of twenty or more, they are rows of a list.
fn is_item_index(sheet: &LineTable<'_>, items: &[LocatedItem]) -> bool {
    if items.len() < 8 || sheet.pages() < 20 {
        return false;
    }
    items.iter().any(|item| {
        let page = item_page(sheet, item);
        let near = items
            .iter()
            .filter(|other| (page..page + 2).contains(&item_page(sheet, other)))
            .count();
        near * 10 > items.len() * 8
    })
}

// At its usual rank an index of exhibits would close the PART, and the Items behind it would lose their parent.
/// Puts an index of exhibits that stands before the last Item under the Item above it.
fn lower_indexes(heads: &mut [OutlineHead]) {
    let Some(last) = heads.iter().rposition(|head: &OutlineHead| {
        item_grammar::parse_heading(&head.title).is_some_and(|head| !head.tags.is_empty())
    }) else {
        return;
    };
    for head in heads[..last]
        .iter_mut()
        .filter(|head| candidates::is_closing(&titles::normalize_key(&head.title)))
    {
        head.rank = 3 * RANK_STEP;
    }
}

/// Whether two titles differ first in a number: `Amendment II` is not `Amendment III`.
fn differ_in_number(one: &str, other: &str) -> bool {
    let differ = one
        .split_whitespace()
        .zip(other.split_whitespace())
        .find(|(a, b)| !a.eq_ignore_ascii_case(b));
    one.split_whitespace().count() == other.split_whitespace().count()
        && differ.is_some_and(|(a, b)| {
            parse_word(a)
                .zip(parse_word(b))
                .is_some_and(|(a, b)| a != b)
        })
}

fn parse_word(word: &str) -> Option<u32> {
    word.parse().ok().or_else(|| numbering::roman(word))
}

/// If a filing has too many top sections, puts signatures and exhibits under the last PART.
fn limit_top_sections(heads: &mut [OutlineHead]) {
    let top = heads.iter().filter(|head| head.rank == RANK_STEP).count();
    let Some(last_part) = heads
        .iter()
        .rposition(|head: &OutlineHead| {
            head.rank == RANK_STEP
                && item_grammar::parse_heading(&head.title).is_some_and(|h| h.tags.is_empty())
        })
        .filter(|_| top > MAX_TOP_SECTIONS)
    else {
        return;
    };
    // Items of the last PART keep their rank. The first section at the PART's own level ends them; it and everything
    // behind it move down together, so that exhibits keep their own nesting.
    let mut behind = false;
    for head in &mut heads[last_part + 1..] {
        behind |= head.rank == RANK_STEP;
        if head.rank < LAYOUT_RANK && (behind || head.evidence != EvidenceSource::Grammar) {
            head.rank += RANK_STEP;
        }
    }
}

/// The link that lies on each row, if any.
pub(super) fn links_by_row(source: &Source, sheet: &LineTable<'_>) -> Vec<Option<Destination>> {
    let mut links = vec![None; sheet.rows.len()];
    for link in source.links.iter().take(MAX_LINKS) {
        let y0 = link.rect.y0.points();
        let y1 = link.rect.y1.points();
        for at in sheet.rows_on(link.page.index()) {
            let row = &sheet.rows[at];
            // Programs draw link boxes a little off the text; the middle of the row must lie inside, within a point.
            let middle = (row.y0 + row.y1) / 2.0;
            let beside =
                link.rect.x1.points() > row.x0 - 2.0 && link.rect.x0.points() < row.x1 + 2.0;
            if middle > y0 - 1.0 && middle < y1 + 1.0 && beside && links[at].is_none() {
                links[at] = Some(link.target);
            }
        }
    }
    links
}

/// Layout headings outside the primary outline.
pub(super) fn remaining_headings(
    sheet: &LineTable<'_>,
    primary: &PrimaryOutline,
) -> Vec<LayoutHeading> {
    let mut excluded = primary.excluded.clone();
    for head in primary.heads.iter().filter(|head| !head.unconfirmed) {
        excluded[head.rows.0..=head.rows.1].fill(true);
    }
    let sections: Vec<(usize, &str)> = primary
        .heads
        .iter()
        .map(|head| (head.rows.0, head.title.as_str()))
        .collect();
    let parts: BTreeSet<String> = primary
        .heads
        .iter()
        .filter_map(|head| part_key(&head.title))
        .collect();
    let mut free = layout::find_headings(sheet, &excluded, &sections);
    // `PART IV` is often printed at the top of each page of that PART. On a few pages only, extraction does not recognize
    // it as a running head, and it would open a second PART.
    free.retain(|heading| {
        let page = sheet.rows[heading.rows.0].page as usize;
        let is_top = sheet.rows_on(page).start + 1 >= heading.rows.0;
        !(is_top && part_key(&heading.title).is_some_and(|key| parts.contains(&key)))
    });
    free
}

/// `part4` for the title of PART IV, however it is spelled.
fn part_key(title: &str) -> Option<String> {
    let head = item_grammar::parse_heading(title).filter(|head| head.tags.is_empty())?;
    head.part.map(|part| format!("part{part}"))
}
