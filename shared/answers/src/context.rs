//! The passages put before a model: parts of pages, numbered, with what is needed to check quotes from them.
//!
//! [`selection`] says which pages are read and how much of each, [`passage_source`] which of their lines, and [`open_document`] holds
//! the documents they are read from.

mod open_document;
mod passage_source;
mod selection;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use stemma_document::{DocId, Extent, PageNo, SectionId, SectionSpan};
use stemma_retrieval::parsed_query::ParsedQuery;
use stemma_retrieval::query_terms::{QueryTerms, TermRarity};
use stemma_store::PortResult;

use super::answer::ReadSection;
use super::page_vision::SeenPage;
use super::quote_target::QuoteTarget;
pub(super) use open_document::OpenDoc;
use passage_source::{ChosenLines, PassageSource, TextLine};
pub(super) use selection::{MIN_PART_TOKENS, pages_by_worth};
use selection::{PASSAGE_OVERHEAD_TOKENS, ReadCandidate};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::locator::{page_locator, section_locator};
use stemma_retrieval::search::{ItemRef, SearchHit, Snippet};

// Tokens read at once from a section of a document without pages.
const TEXT_TOKENS: u32 = 1_500;
// The best pages, which are read with the page before or after where a table or section continues there.
const CONTINUED_PAGES: usize = 4;
// The beginning of a section on the page before is read if it is no longer than this, and so are column heads.
const LEAD_TOKENS: u32 = 250;
// A section that begins within the first lines of a page ends the table before it.
const FIRST_LINES: usize = 3;

/// A section to read, and which of its pages.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionRequest {
    pub doc: DocId,
    /// `None`: the section that each page opens with.
    pub section: Option<SectionId>,
    /// Physical pages (1-based), best first; empty: the first pages of the section. They are read whole, or the parts of them
    /// that fit the question.
    pub pages: Vec<u32>,
    pub score: f32,
    pub why: String,
    /// The lines that a search found.
    pub excerpt: Option<Snippet>,
}

impl SectionRequest {
    pub fn from_hit(hit: &SearchHit) -> Self {
        Self {
            doc: hit.doc_id,
            section: Some(hit.section_id),
            pages: hit.best_pages.iter().map(|page| page.page).collect(),
            score: hit.score as f32,
            why: hit.why.clone(),
            excerpt: Some(hit.excerpt.clone()).filter(|snippet| !snippet.text.is_empty()),
        }
    }
}

/// Part of a page, or lines of a document without pages, as the model sees it.
#[derive(Debug, Clone)]
pub(super) struct Passage {
    pub(super) doc: DocId,
    pub(super) section: SectionId,
    // Physical page, or the first line in a document without pages; both 1-based.
    pub(super) number: u32,
    // Set in a document without pages only.
    pub(super) last_line: Option<u32>,
    pub(super) text: String,
    pub(super) tokens: u32,
    score: f32,
    why: String,
    excerpt: Option<Snippet>,
}

#[derive(Default)]
pub(super) struct AnswerContext {
    pub(super) passages: Vec<Passage>,
    documents: HashMap<DocId, OpenDoc>,
    // Indexes of lines that are in a passage already, by document and page.
    included_lines: HashMap<(DocId, u32), BTreeSet<usize>>,
    // Where a text is too long, the part with most of these words is read.
    terms: QueryTerms,
    // The only Item that may be read.
    item: Option<ItemRef>,
    // Indexes of passages that the next prompt leaves out. A passage keeps its number in all prompts of an answer.
    hidden: BTreeSet<usize>,
}

impl AnswerContext {
    pub(super) fn set_question(&mut self, question: &str, item: Option<&ItemRef>) {
        self.terms = QueryTerms::new(&ParsedQuery::parse(question));
        self.item = item.cloned();
    }

    // The passages of the next prompt, with their indexes.
    pub(super) fn prompt_passages(&self) -> impl Iterator<Item = (usize, &Passage)> {
        let passages = self.passages.iter().enumerate();
        passages.filter(|(at, _)| !self.hidden.contains(at))
    }

    // The pages of the next prompt's passages, best first.
    pub(super) fn best_pages(&self, most: usize) -> Vec<(DocId, PageNo)> {
        let mut pages = Vec::new();
        let paged = self
            .prompt_passages()
            .filter(|(_, passage)| passage.last_line.is_none());
        for (_, passage) in paged {
            let page = PageNo::new(passage.number).map(|page| (passage.doc, page));
            pages.extend(page.filter(|page| !pages.contains(page)));
        }
        pages.truncate(most);
        pages
    }

    pub(super) fn seen_page(&self, doc: DocId, page: PageNo) -> SeenPage {
        let open_doc = self.documents.get(&doc);
        let (name, label) = open_doc.map_or(("", ""), |open_doc| {
            (open_doc.name.as_str(), open_doc.label.as_str())
        });
        SeenPage {
            doc_id: doc.to_string(),
            name: name.to_owned(),
            page: page.get(),
            locator: page_locator(label, page),
        }
    }

    // Shows the first of these passages that fit into `room` tokens, until others are read.
    pub(super) fn show(&mut self, order: impl IntoIterator<Item = usize>, room: u32) {
        self.hidden = (0..self.passages.len()).collect();
        let mut left = room;
        for at in order {
            let fits = self.passages.get(at).is_some_and(|one| one.tokens <= left);
            if fits && self.hidden.remove(&at) {
                left -= self.passages[at].tokens;
            }
        }
    }

    /// Reads pages of the requests in order until `room` tokens are used: the first pages whole, of later ones what fits the
    /// question. Text that is in a passage already is not added again. Returns the indexes of the new passages.
    pub(super) async fn read(
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
            let facts = store.facts(document).await?;
            place.insert(OpenDoc::new(
                document,
                tree,
                lines,
                facts,
                self.item.as_ref(),
            ));
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

    // Whether all lines of a page are in passages.
    pub(super) fn has_read(&self, doc: DocId, page: u32) -> bool {
        let included = self.included_lines.get(&(doc, page));
        let open_doc = self.documents.get(&doc);
        included.zip(open_doc).is_some_and(|(included, open_doc)| {
            let mut lines = open_doc.page_lines(page).into_iter();
            lines.all(|line| included.contains(&line.at))
        })
    }

    // Tokens of the whole section that a part was read of.
    pub(super) fn section_tokens(&self, read: &ReadSection) -> Option<u32> {
        let open_doc = self.documents.get(&read.doc_id.parse().ok()?)?;
        let section = open_doc.tree.section(read.section_id.parse().ok()?)?;
        Some(section.tokens)
    }

    pub(super) fn document(&self, passage: &Passage) -> Option<&OpenDoc> {
        self.documents.get(&passage.doc)
    }

    // The texts a quote is searched in: the passage's page and the next, or its lines.
    pub(super) fn quote_targets(&self, passage: &Passage) -> Vec<QuoteTarget<'_>> {
        let Some(open_doc) = self.documents.get(&passage.doc) else {
            return Vec::new();
        };
        if let (Some(lines), Some(last)) = (&open_doc.lines, passage.last_line) {
            let range = passage.number as usize - 1..(last as usize).min(lines.lines.len());
            return lines
                .lines
                .get(range)
                .map(|lines| QuoteTarget::text(passage.number, lines))
                .into_iter()
                .collect();
        }
        let pages = [passage.number, passage.number + 1];
        pages
            .into_iter()
            .map_while(|number| {
                open_doc
                    .pages
                    .get(&number)
                    .map(|page| QuoteTarget::page(number, page))
            })
            .collect()
    }

    // The page before a passage, if it was read: tables go on over pages.
    pub(super) fn target_before(&self, passage: &Passage) -> Option<QuoteTarget<'_>> {
        let number = passage.number.checked_sub(1)?;
        let document = self.documents.get(&passage.doc)?;
        let page = document.pages.get(&number)?;
        passage
            .last_line
            .is_none()
            .then(|| QuoteTarget::page(number, page))
    }

    // A line for each document of the next prompt: its name, what it is, and the unit its tables state.
    pub(super) fn describe_documents(&self) -> String {
        let mut pages: BTreeMap<DocId, Vec<u32>> = BTreeMap::new();
        for (_, passage) in self.prompt_passages() {
            pages.entry(passage.doc).or_default().push(passage.number);
        }
        let lines = pages.into_iter().filter_map(|(doc, pages)| {
            let open_doc = self.documents.get(&doc)?;
            let unit = open_doc.unit(&pages).map(|unit| format!("“{unit}”"));
            let parts = [open_doc.description.clone(), unit.unwrap_or_default()];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            (!parts.is_empty()).then(|| format!("{}: {}", open_doc.name, parts.join(" · ")))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    // Titles from the root down to the section of a passage.
    pub(super) fn section_path(&self, passage: &Passage) -> Vec<String> {
        self.document(passage)
            .map(|open_doc| open_doc.path(passage.section))
            .unwrap_or_default()
    }

    // The passages that were read, by section, in order.
    pub(super) fn read_sections(&self, passages: Range<usize>, step: usize) -> Vec<ReadSection> {
        let mut sections: Vec<ReadSection> = Vec::new();
        for passage in &self.passages[passages] {
            let Some(open_doc) = self.document(passage) else {
                continue;
            };
            let doc_id = passage.doc.to_string();
            let section_id = passage.section.to_string();
            let at = sections.iter().position(|existing| {
                existing.doc_id == doc_id && existing.section_id == section_id
            });
            let at = at.unwrap_or_else(|| {
                sections.push(ReadSection {
                    locator: section_locator(&open_doc.label, passage.section),
                    doc_id,
                    name: open_doc.name.clone(),
                    section_id,
                    path: open_doc.path(passage.section),
                    pages: Vec::new(),
                    lines: None,
                    tokens: 0,
                    score: (f64::from(passage.score) * 1_000.0).round() / 1_000.0,
                    why: passage.why.clone(),
                    excerpt: passage.excerpt.clone(),
                    cited: false,
                    step,
                });
                sections.len() - 1
            });
            let section = &mut sections[at];
            section.tokens += passage.tokens;
            section.excerpt = section.excerpt.take().or(passage.excerpt.clone());
            match passage.last_line {
                Some(last) => {
                    let (first, end) = section.lines.unwrap_or((passage.number, last));
                    section.lines = Some((first.min(passage.number), end.max(last)));
                }
                None => section.pages.push(passage.number),
            }
        }
        sections
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
