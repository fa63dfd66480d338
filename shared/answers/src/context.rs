//! The passages put before a model: parts of pages, numbered, with what is needed to check quotes from them.
//!
//! [`read`] reads the pages of sections: [`selection`] says which of them and how much of each, [`passage_source`] which of their
//! lines, and [`open_document`] holds the documents they are read from.

mod open_document;
mod passage_source;
mod read;
mod selection;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Range, RangeInclusive};

use stemma_document::{DocId, PageNo, SectionId};
use stemma_reading::tables::FigureTable;
use stemma_retrieval::parsed_query::ParsedQuery;
use stemma_retrieval::query_terms::QueryTerms;
use stemma_verify::QuoteTarget;

use super::answer::{ReadSection, SeenPage};
pub(super) use open_document::OpenDoc;
pub(super) use selection::{MIN_PART_TOKENS, pages_by_worth};
use stemma_catalog::locator::{page_locator, section_locator};
use stemma_retrieval::search::{ItemRef, SearchHit, Snippet};

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

    // The tables on the pages or lines that a quote of a passage may be on.
    pub(super) fn tables_near(&self, passage: &Passage) -> Vec<&FigureTable> {
        let last = passage.last_line.unwrap_or(passage.number + 1);
        self.document(passage)
            .map(|open_doc| open_doc.tables_on(passage.number..=last))
            .unwrap_or_default()
    }

    // A line for each document of the next prompt: its name, what it is, and the unit its tables state.
    pub(super) fn describe_documents(&self) -> String {
        let mut places: BTreeMap<DocId, Vec<RangeInclusive<u32>>> = BTreeMap::new();
        for (_, passage) in self.prompt_passages() {
            let place = passage.number..=passage.last_line.unwrap_or(passage.number);
            places.entry(passage.doc).or_default().push(place);
        }
        let lines = places.into_iter().filter_map(|(doc, places)| {
            let open_doc = self.documents.get(&doc)?;
            let unit = open_doc.unit(&places).map(|unit| format!("“{unit}”"));
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
