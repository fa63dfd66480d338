//! Locates what announces sections: the table of contents, the embedded outline and the cross-reference index.

use std::ops::Range;

use stemma_document::{Gap, PageNo, PageSpan, Source, SourceBody};

use super::{LocatedCandidates, OutlineBuilder};
use crate::structure::candidates;
use crate::structure::cross_index::{self, CrossIndex};
use crate::structure::exhibits::BoundDocument;
use crate::structure::forms::SecForm;
use crate::structure::locate::{self, LocatedTitle};
use crate::structure::section_candidate::SectionCandidate;
use crate::structure::{item_headings, toc};

// The cover of a form is among these rows; a later mention of the form's name is not a cover.
const COVER_ROWS: usize = 400;

impl OutlineBuilder<'_, '_> {
    /// Finds the cross-reference index of a report without Item headings, and excludes its rows.
    pub(super) fn detect_cross_index(
        &mut self,
        source: &Source,
        documents: &[BoundDocument],
        form: Option<SecForm>,
    ) -> Option<CrossIndex> {
        let SourceBody::Pages(pages) = &source.body else {
            return None;
        };
        let index = cross_index::find_cross_index(self.lines, pages, self.labels)?;
        let mut excluded = vec![false; self.lines.rows.len()];
        excluded[index.rows.0..=index.rows.1].fill(true);
        let items = index
            .entries
            .iter()
            .filter(|entry| !entry.item.contains('.'))
            .count();
        let main = documents.first()?.rows.clone();
        // If half of the listed Items have headings outside the list, the list is an ordinary table of contents. Sections of
        // an integrated report may have the titles of Items, without their numbers.
        let located_items = form.map_or(0, |form| {
            let hints = vec![None; form.items().len()];
            let located = item_headings::find_items(self.lines, main, form, &hints, &excluded);
            located
                .iter()
                .filter(|located| form.items()[located.key].tag.is_some())
                .filter(|located| !index.is_titled || !located.number.is_empty())
                .count()
        });
        if located_items * 2 >= items {
            return None;
        }
        // The cover of the form is not a section of the report that follows it.
        if let Some(cover) = (0..index.rows.0.min(COVER_ROWS))
            .find(|at| form.is_some() && SecForm::from_cover(&self.lines.rows[*at].key) == form)
        {
            excluded[self.lines.rows_on(self.lines.rows[cover].page as usize)].fill(true);
        }
        self.outline.excluded = excluded;
        Some(index)
    }

    /// Finds the table of contents of a document and locates its entries.
    // Filings often open with a short list of their parts and have the real table of contents some pages later. A first
    // table with neither labels nor links therefore gives way to a second one that has them.
    pub(super) fn locate_toc(
        &mut self,
        document: &BoundDocument,
        form: Option<SecForm>,
    ) -> LocatedCandidates {
        let pages = self.pages_of(&document.rows);
        let form = form.filter(|_| document.is_main());
        let look_at = self.settings.toc_check_pages as usize;
        let range = pages.start as usize..pages.end as usize;
        let mut toc = toc::find_toc(
            self.lines,
            range.clone(),
            look_at,
            &self.links,
            &self.outline.excluded,
        );
        if let Some(first) = toc.as_ref().filter(|first| first.is_bare()) {
            let from = self.lines.rows[first.rows.1].page as usize + 1;
            let second = toc::find_toc(
                self.lines,
                from..range.end,
                look_at,
                &self.links,
                &self.outline.excluded,
            );
            toc = second.filter(|second| !second.is_bare()).or(toc);
        }
        let Some(contents) = toc else {
            return LocatedCandidates::default();
        };
        // The contents of a filing may list pages of its exhibits; those of an exhibit never leave it.
        let listed = if document.is_main() {
            pages.start..self.lines.pages() as u32
        } else {
            pages
        };
        let candidates = candidates::candidates_from_toc(&contents, form, self.labels, listed);
        let rows = contents.rows.0..=contents.rows.1;
        let before = self.outline.excluded[rows.clone()].to_vec();
        self.outline.excluded[rows.clone()].fill(true);
        let mut hits = locate::locate_titles(
            self.lines,
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

    /// Locates the last entries of a table of contents in the documents behind a filing.
    // The contents of a filing may go on with the sections of its exhibits. Only the entries after the last one found in
    // the filing are searched there, and only as a whole: single titles such as `Definitions` occur in any agreement.
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
        let behind = document.rows.end..self.lines.rows.len();
        if !document.is_main() || candidates.len() - first < 3 || behind.is_empty() {
            return;
        }
        let hits_behind = locate::locate_titles(
            self.lines,
            behind,
            &self.outline.excluded,
            &candidates[first..],
        );
        if locate::located_share(&candidates[first..], &hits_behind) >= self.settings.min_accuracy {
            hits[first..].clone_from_slice(&hits_behind);
        }
    }

    /// Locates the embedded outline in the whole file.
    pub(super) fn locate_bookmarks(
        &mut self,
        source: &Source,
        form: Option<SecForm>,
    ) -> LocatedCandidates {
        let candidates = candidates::candidates_from_outline(&source.outline, form);
        let hits = locate::locate_titles(
            self.lines,
            0..self.lines.rows.len(),
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

    fn pages_of(&self, rows: &Range<usize>) -> Range<u32> {
        let first = self.lines.rows.get(rows.start).map_or(0, |row| row.page);
        let last = rows
            .end
            .checked_sub(1)
            .and_then(|at| self.lines.rows.get(at))
            .map_or(0, |row| row.page);
        first..last + 1
    }

    fn page_span(&self, rows: (usize, usize)) -> Option<PageSpan> {
        let first = self.lines.rows.get(rows.0)?.page as usize;
        let last = self.lines.rows.get(rows.1)?.page as usize;
        Some(PageSpan::between(
            PageNo::from_index(first),
            PageNo::from_index(last),
        ))
    }
}
