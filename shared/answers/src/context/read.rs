//! Reads the pages of sections into passages.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_document::{DocId, Extent, SectionId, SectionSpan};
use stemma_retrieval::query_terms::TermRarity;
use stemma_store::PortResult;

use super::open_document::{DocumentText, OpenDoc};
use super::passage_source::{ChosenLines, PassageSource, TextLine};
use super::selection::{self, PASSAGE_OVERHEAD_TOKENS, ReadCandidate};
use super::{AnswerContext, Passage, SectionRequest};

// Tokens read at once from a section of a document without pages.
const TEXT_TOKENS: u32 = 1_500;
// The best pages, which are read with the page before or after where a table or section continues there.
const CONTINUED_PAGES: usize = 4;
// The beginning of a section on the page before is read if it is no longer than this, and so are column heads.
const LEAD_TOKENS: u32 = 250;
// A section that begins within the first lines of a page ends the table before it.
const FIRST_LINES: usize = 3;

impl AnswerContext {
    /// Reads pages of the requests in order until `room` tokens are used: the first pages whole, of later ones what fits the
    /// question. Text that is in a passage already is not added again. Returns the indexes of the new passages.
    pub(crate) async fn read(
        &mut self,
        store: &dyn DocumentStore,
        catalog: &Catalog,
        requests: &[SectionRequest],
        room: u32,
    ) -> PortResult<Range<usize>> {
        let before = self.passages.len();
        let requested = catalog.set_of(requests.iter().map(|request| request.doc))?;
        let documents: PortResult<Vec<_>> = catalog.list(&requested).collect();
        for document in documents? {
            self.open_document(store, &document).await?;
        }
        let mut candidates = self.candidates(requests);
        candidates.truncate(selection::most_pages(room));
        self.load_pages(store, catalog, &candidates).await?;
        for (passage, page, lines) in self.choose_passages(&candidates, room) {
            let included = self.included_lines.entry((passage.doc, page));
            included.or_default().extend(lines);
            self.passages.push(passage);
        }
        Ok(before..self.passages.len())
    }

    // The pages of requests in their order, each once.
    fn candidates<'r>(&self, requests: &'r [SectionRequest]) -> Vec<ReadCandidate<'r>> {
        let mut candidates = Vec::new();
        let mut pages: BTreeSet<(DocId, u32)> = BTreeSet::new();
        for request in requests {
            let Some(open_doc) = self.documents.get(&request.doc) else {
                continue;
            };
            if open_doc.lines.is_some() {
                candidates.push(ReadCandidate {
                    request,
                    page: None,
                });
            }
            for page in open_doc.requested_pages(request) {
                if pages.insert((request.doc, page)) {
                    let page = Some(page);
                    candidates.push(ReadCandidate { request, page });
                }
            }
        }
        candidates
    }

    // Each passage with its page (0 without pages) and the lines in it.
    fn choose_passages(
        &self,
        candidates: &[ReadCandidate<'_>],
        room: u32,
    ) -> Vec<(Passage, u32, Vec<usize>)> {
        let texts = self.page_texts(candidates);
        let sizes: Vec<u32> = texts
            .iter()
            .map(|text| match text.page {
                0 => text.tokens().min(TEXT_TOKENS),
                _ => text.tokens(),
            })
            .collect();
        let rarity = TermRarity::new(texts.iter().flat_map(PassageSource::matches));
        let allotted = texts.iter().zip(selection::allot(&sizes, room));
        allotted
            .filter(|(_, room)| *room > 0)
            .filter_map(|(text, room)| {
                let chosen = text.choose(room, &self.terms, &rarity);
                let lines: Vec<usize> = chosen.lines.iter().map(|line| line.at).collect();
                Some((passage(text, &chosen)?, text.page, lines))
            })
            .collect()
    }

    async fn open_document(
        &mut self,
        store: &dyn DocumentStore,
        document: &CatalogDocument,
    ) -> PortResult<()> {
        if let Entry::Vacant(place) = self.documents.entry(document.doc()) {
            let Some(tree) = store.tree(document).await? else {
                return Ok(());
            };
            let lines = match tree.extent {
                Extent::Lines(_) => store.lines(document).await?,
                Extent::Pages(_) => None,
            };
            let text = DocumentText {
                lines,
                readings: store.readings(document).await?,
                tables: store.tables(document).await?,
                facts: store.facts(document).await?,
            };
            place.insert(OpenDoc::new(document, tree, text, self.item.as_ref()));
        }
        Ok(())
    }

    // Reads the pages of candidates, and the pages next to them: a table may continue there, and a quote may run over.
    async fn load_pages(
        &mut self,
        store: &dyn DocumentStore,
        catalog: &Catalog,
        candidates: &[ReadCandidate<'_>],
    ) -> PortResult<()> {
        let mut numbers: BTreeMap<DocId, BTreeSet<u32>> = BTreeMap::new();
        for candidate in candidates {
            if let Some(page) = candidate.page {
                let near = page.saturating_sub(1)..=page.saturating_add(2);
                numbers
                    .entry(candidate.request.doc)
                    .or_default()
                    .extend(near);
            }
        }
        for (doc, numbers) in numbers {
            let Some(open_doc) = self.documents.get_mut(&doc) else {
                continue;
            };
            let numbers = open_doc.missing_pages(numbers);
            if numbers.is_empty() {
                continue;
            }
            if let Some(document) = catalog.get(doc)? {
                open_doc
                    .pages
                    .extend(store.pages(&document, &numbers).await?);
            }
        }
        Ok(())
    }

    // The texts of candidates in their order. The best pages come with the pages on which their tables and sections begin or
    // continue.
    fn page_texts(&self, candidates: &[ReadCandidate<'_>]) -> Vec<PassageSource<'_>> {
        let pages: BTreeSet<_> = candidates
            .iter()
            .map(|candidate| (candidate.request.doc, candidate.page))
            .collect();
        let mut placed: BTreeSet<(DocId, u32)> = BTreeSet::new();
        let mut texts = Vec::new();
        for (rank, candidate) in candidates.iter().enumerate() {
            let doc = candidate.request.doc;
            let Some(page) = candidate.page else {
                texts.extend(self.section_text(candidate));
                continue;
            };
            if !placed.insert((doc, page)) {
                continue;
            }
            let Some(text) = self.page_text(candidate, page) else {
                continue;
            };
            let is_best = rank < CONTINUED_PAGES;
            if let Some((before, is_whole)) = self.text_before(candidate, &text, is_best) {
                let is_new = match is_whole {
                    true => placed.insert((doc, before.page)),
                    false => !pages.contains(&(doc, Some(before.page))),
                };
                texts.extend(is_new.then_some(before));
            }
            let after = is_best.then(|| self.page_text(candidate, page + 1));
            let after = after
                .flatten()
                .filter(|after| self.continues(&text, after) && placed.insert((doc, after.page)));
            texts.push(text);
            texts.extend(after);
        }
        texts
    }

    // The lines of a page that are in no passage yet; `None` if there is nothing to read.
    fn page_text(&self, candidate: &ReadCandidate<'_>, page: u32) -> Option<PassageSource<'_>> {
        let open_doc = self.documents.get(&candidate.request.doc)?;
        let lines = open_doc.page_lines(page);
        let requested = candidate
            .request
            .section
            .filter(|_| candidate.page == Some(page));
        let section = match requested {
            Some(section) => section,
            None => open_doc.opening_section(page)?.id,
        };
        self.text(candidate, section, page, lines)
    }

    fn section_text(&self, candidate: &ReadCandidate<'_>) -> Option<PassageSource<'_>> {
        let open_doc = self.documents.get(&candidate.request.doc)?;
        let section = open_doc.tree.section(candidate.request.section?)?;
        let lines = open_doc.section_lines(section);
        self.text(candidate, section.id, 0, lines)
    }

    fn text(
        &self,
        candidate: &ReadCandidate<'_>,
        section: SectionId,
        page: u32,
        mut lines: Vec<TextLine>,
    ) -> Option<PassageSource<'_>> {
        let request = candidate.request;
        if let Some(included) = self.included_lines.get(&(request.doc, page)) {
            lines.retain(|line| !included.contains(&line.at));
        }
        let mut text = PassageSource::new(request.doc, section, page, lines, &self.terms);
        text.score = request.score;
        text.why.clone_from(&request.why);
        // The excerpt is of the page that was found, not of its neighbors.
        if candidate.page.is_none_or(|found| found == page) {
            text.excerpt.clone_from(&request.excerpt);
        }
        (!text.is_stub()).then_some(text)
    }

    // Whether a table of one page goes on on the next.
    fn continues(&self, text: &PassageSource<'_>, next: &PassageSource<'_>) -> bool {
        let begins_section = self
            .documents
            .get(&next.doc)
            .is_some_and(|open_doc| open_doc.begins_section(next.page, FIRST_LINES));
        !begins_section && text.ends_with_table() && next.continues_table(text)
    }

    // What is needed from the page before to read a page: all of it, where a table of one of the best pages began there (then
    // true), else the column heads of the table, or the beginning of the section that the page opens with.
    fn text_before(
        &self,
        candidate: &ReadCandidate<'_>,
        text: &PassageSource<'_>,
        is_best: bool,
    ) -> Option<(PassageSource<'_>, bool)> {
        let open_doc = self.documents.get(&text.doc)?;
        let number = text.page.checked_sub(1)?;
        let begins = match open_doc.opening_section(text.page)?.span {
            SectionSpan::Pages { from, .. } if from.page.get() == number => Some(from.line),
            _ => None,
        };
        if !is_best && begins.is_none() && !text.begins_with_rows() {
            return None;
        }
        let before = self.page_text(candidate, number)?;
        let goes_on = self.continues(&before, text);
        if is_best && goes_on {
            return Some((before, true));
        }
        let lines: Vec<TextLine> = if goes_on && text.begins_with_rows() {
            before.closing_column_heads()
        } else {
            let begins = begins? as usize;
            before
                .lines
                .iter()
                .filter(|line| line.at >= begins)
                .cloned()
                .collect()
        };
        let tokens: u32 = lines.iter().map(|line| line.tokens).sum();
        if lines.is_empty() || tokens > LEAD_TOKENS {
            return None;
        }
        let lead = self.text(candidate, text.section, number, lines)?;
        Some((lead, false))
    }
}

// `None` if nothing was chosen.
fn passage(text: &PassageSource<'_>, chosen: &ChosenLines) -> Option<Passage> {
    let first = chosen.lines.first()?.at as u32 + 1;
    let last = chosen.lines.last()?.at as u32 + 1;
    let (number, last_line) = match text.page {
        0 => (first, Some(last)),
        page => (page, None),
    };
    Some(Passage {
        doc: text.doc,
        section: text.section,
        number,
        last_line,
        text: chosen.text.clone(),
        tokens: chosen.tokens + PASSAGE_OVERHEAD_TOKENS,
        score: text.score,
        why: text.why.clone(),
        excerpt: text.excerpt.clone(),
    })
}
