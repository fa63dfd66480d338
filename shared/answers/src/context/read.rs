//! Reads the pages of sections into passages.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_document::{DocId, Extent, SectionId};
use stemma_store::PortResult;

use super::open_document::{DocumentText, OpenDoc};
use super::passage_source::{ChosenLines, MatchedBlock, PassageSource, TextLine};
use super::selection::{self, PASSAGE_OVERHEAD_TOKENS, ReadCandidate};
use super::{AnswerContext, Passage, SectionRequest};

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
        let sources = self.sources(candidates);
        let chosen = selection::choose_lines(&sources, room, &self.terms);
        sources
            .iter()
            .zip(&chosen)
            .filter_map(|(source, chosen)| {
                let lines: Vec<usize> = chosen.lines.iter().map(|line| line.at).collect();
                Some((passage(source, chosen)?, source.page, lines))
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

    // The sources of candidates in their order, each with the pages on which its tables and paragraphs begin or go on.
    fn sources(&self, candidates: &[ReadCandidate<'_>]) -> Vec<PassageSource<'_>> {
        let found: BTreeSet<_> = candidates
            .iter()
            .map(|candidate| (candidate.request.doc, candidate.page))
            .collect();
        let mut neighbors: BTreeSet<(DocId, u32)> = BTreeSet::new();
        let mut sources = Vec::new();
        for candidate in candidates {
            let doc = candidate.request.doc;
            let Some(page) = candidate.page else {
                sources.extend(self.section_source(candidate));
                continue;
            };
            let Some(source) = self.page_source(candidate, page) else {
                continue;
            };
            let mut neighbor = |number: u32| {
                let is_new = !found.contains(&(doc, Some(number)));
                let neighbor = is_new
                    .then(|| self.page_source(candidate, number))
                    .flatten();
                let neighbor = neighbor.filter(|neighbor| Self::is_joined(&source, neighbor));
                neighbor.filter(|_| neighbors.insert((doc, number)))
            };
            let before = neighbor(page - 1);
            let after = neighbor(page + 1);
            sources.extend(before);
            sources.push(source);
            sources.extend(after);
        }
        sources
    }

    // Whether a table or a sentence goes on from one of two pages to the other.
    fn is_joined(one: &PassageSource<'_>, other: &PassageSource<'_>) -> bool {
        let shares_table =
            |block: &MatchedBlock<'_>| (other.blocks.iter()).any(|own| own.shares_table(block));
        let (first, second) = match one.page < other.page {
            true => (one, other),
            false => (other, one),
        };
        first.runs_on_to(second) || one.blocks.iter().any(shares_table)
    }

    // The lines of a page that are in no passage yet; `None` if there is nothing to read.
    fn page_source(&self, candidate: &ReadCandidate<'_>, page: u32) -> Option<PassageSource<'_>> {
        let open_doc = self.documents.get(&candidate.request.doc)?;
        let requested = candidate
            .request
            .section
            .filter(|_| candidate.page == Some(page));
        let section = match requested {
            Some(section) => section,
            None => open_doc.opening_section(page)?.id,
        };
        self.source(candidate, section, page, open_doc.page_lines(page))
    }

    fn section_source(&self, candidate: &ReadCandidate<'_>) -> Option<PassageSource<'_>> {
        let open_doc = self.documents.get(&candidate.request.doc)?;
        let section = open_doc.tree.section(candidate.request.section?)?;
        self.source(candidate, section.id, 0, open_doc.section_lines(section))
    }

    fn source(
        &self,
        candidate: &ReadCandidate<'_>,
        section: SectionId,
        page: u32,
        mut lines: Vec<TextLine>,
    ) -> Option<PassageSource<'_>> {
        let request = candidate.request;
        let open_doc = self.documents.get(&request.doc)?;
        if let Some(included) = self.included_lines.get(&(request.doc, page)) {
            lines.retain(|line| !included.contains(&line.at));
        }
        let tables = open_doc.table_lines(page);
        let mut source =
            PassageSource::new(request.doc, section, page, lines, &tables, &self.terms);
        source.score = request.score;
        source.why.clone_from(&request.why);
        source.is_neighbor = candidate.page.is_some_and(|found| found != page);
        // The excerpt is of the page that was found, not of its neighbors.
        if !source.is_neighbor {
            source.excerpt.clone_from(&request.excerpt);
        }
        (!source.is_stub()).then_some(source)
    }
}

// `None` if nothing was chosen.
fn passage(source: &PassageSource<'_>, chosen: &ChosenLines) -> Option<Passage> {
    let first = chosen.lines.first()?.at as u32 + 1;
    let last = chosen.lines.last()?.at as u32 + 1;
    let (number, last_line) = match source.page {
        0 => (first, Some(last)),
        page => (page, None),
    };
    Some(Passage {
        doc: source.doc,
        section: source.section,
        number,
        last_line,
        text: chosen.text.clone(),
        tokens: chosen.tokens + PASSAGE_OVERHEAD_TOKENS,
        score: source.score,
        why: source.why.clone(),
        excerpt: source.excerpt.clone(),
    })
}
