//! The passages put before a model: parts of pages, numbered, with what is needed to check quotes from them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use stemma_document::{
    DocId, Extent, Page, Section, SectionId, SectionSpan, SectionTree, TextLines,
};
use stemma_engine::PortResult;
use stemma_llm::tokens;

use super::answer::ReadSection;
use super::quote_target::QuoteTarget;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::locator::section_locator;
use stemma_retrieval::search::{SearchHit, Snippet};
use stemma_retrieval::tokenizer::{content_words, for_each_word};

// Pages of one section that are read when it has more.
const PAGES_OF_SECTION: usize = 3;
// Tokens read at once from a section of a document without pages.
const TEXT_TOKENS: u32 = 1_500;
// Tokens of a passage's heading and delimiters.
const PASSAGE_OVERHEAD_TOKENS: u32 = 40;
// With less room than this no passage is started.
const MIN_TOKENS: u32 = 120;

/// A section to read, and which of its pages.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionRequest {
    pub doc: DocId,
    /// `None`: the section that the pages belong to.
    pub section: Option<SectionId>,
    /// Physical pages (1-based), best first; empty: the first pages of the section.
    pub pages: Vec<u32>,
    pub score: f32,
    pub why: String,
    /// The lines that a search found.
    pub excerpt: Option<Snippet>,
}

impl SectionRequest {
    /// A short section is read whole; of a longer one, the pages that fit best.
    pub fn from_hit(hit: &SearchHit) -> Self {
        let best: Vec<u32> = hit
            .best_pages
            .iter()
            .map(|page| page.page)
            .take(PAGES_OF_SECTION)
            .collect();
        let mut pages = best;
        if let Some((start, end)) = hit
            .pages
            .filter(|(start, end)| (end - start) < PAGES_OF_SECTION as u32)
        {
            pages.extend(
                (start..=end)
                    .filter(|page| !pages.contains(page))
                    .collect::<Vec<_>>(),
            );
        }
        Self {
            doc: hit.doc_id,
            section: Some(hit.section_id),
            pages,
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

pub(super) struct OpenDoc {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) version: u64,
    // Issuer, form and fiscal year, for the prompt.
    pub(super) description: String,
    tree: Arc<SectionTree>,
    pages: BTreeMap<u32, Page>,
    lines: Option<Arc<TextLines>>,
}

#[derive(Default)]
pub(super) struct AnswerContext {
    pub(super) passages: Vec<Passage>,
    documents: HashMap<DocId, OpenDoc>,
    // Indexes of lines that are in a passage already, by document and page.
    included_lines: HashMap<(DocId, u32), BTreeSet<usize>>,
    used_tokens: u32,
    // Where a text is too long, the part with most of these words is read.
    question_words: BTreeSet<String>,
    // Indexes of passages that the next prompt leaves out. A passage keeps its number in all prompts of an answer.
    hidden: BTreeSet<usize>,
}

impl AnswerContext {
    pub(super) fn set_question(&mut self, question: &str) {
        self.question_words = content_words(question).into_iter().collect();
    }

    // The passages of the next prompt, with their indexes.
    pub(super) fn prompt_passages(&self) -> impl Iterator<Item = (usize, &Passage)> {
        let passages = self.passages.iter().enumerate();
        passages.filter(|(at, _)| !self.hidden.contains(at))
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

    /// Reads requests in order until `room` tokens are used; text that is in a passage already is not added again. Returns the
    /// indexes of the new passages.
    pub(super) async fn read(
        &mut self,
        store: &dyn DocumentStore,
        catalog: &Catalog,
        requests: &[SectionRequest],
        room: u32,
    ) -> PortResult<Range<usize>> {
        let before = self.passages.len();
        let until = self.used_tokens.saturating_add(room);
        let mut of_document: BTreeMap<DocId, Vec<&SectionRequest>> = BTreeMap::new();
        requests
            .iter()
            .for_each(|one| of_document.entry(one.doc).or_default().push(one));
        for (doc, requests) in of_document {
            if let Some(document) = catalog.get(doc) {
                self.open_document(store, document, &requests).await?;
            }
        }
        for one in requests {
            if self.used_tokens + MIN_TOKENS > until {
                break;
            }
            self.add_section(one, until);
        }
        Ok(before..self.passages.len())
    }

    async fn open_document(
        &mut self,
        store: &dyn DocumentStore,
        document: &CatalogDocument,
        requests: &[&SectionRequest],
    ) -> PortResult<()> {
        let doc = document.doc();
        let open_doc = match self.documents.entry(doc) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let Some(tree) = store.tree(document).await? else {
                    return Ok(());
                };
                let lines = match tree.extent {
                    Extent::Lines(_) => store.lines(document).await?,
                    Extent::Pages(_) => None,
                };
                place.insert(OpenDoc::new(document, tree, lines))
            }
        };
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        for one in requests {
            // A quote may run over to the next page.
            numbers.extend(
                open_doc
                    .pages_to_read(one)
                    .into_iter()
                    .flat_map(|page| [page, page + 1]),
            );
        }
        let numbers: Vec<u32> = numbers
            .into_iter()
            .filter(|number| !open_doc.pages.contains_key(number))
            .collect();
        if open_doc.lines.is_none() && !numbers.is_empty() {
            open_doc
                .pages
                .extend(store.pages(document, &numbers).await?);
        }
        Ok(())
    }

    fn add_section(&mut self, request: &SectionRequest, until: u32) {
        let Some(open_doc) = self.documents.get(&request.doc) else {
            return;
        };
        let parts = match &open_doc.lines {
            Some(lines) => open_doc.line_excerpts(request, lines, &self.question_words),
            None => open_doc
                .pages_to_read(request)
                .into_iter()
                .filter_map(|page| open_doc.page_excerpt(request, page))
                .collect(),
        };
        for part in parts {
            let included = self
                .included_lines
                .entry((request.doc, part.key))
                .or_default();
            let room = until.saturating_sub(self.used_tokens);
            let fresh = part
                .lines
                .into_iter()
                .filter(|(at, _, _)| !included.contains(at));
            let fitting = fit_lines(
                fresh,
                room.saturating_sub(PASSAGE_OVERHEAD_TOKENS),
                &self.question_words,
            );
            if !fitting
                .iter()
                .any(|(_, text, _)| text.chars().any(char::is_alphanumeric))
            {
                continue;
            }
            let tokens = fitting.iter().map(|(_, _, tokens)| tokens + 1).sum::<u32>()
                + PASSAGE_OVERHEAD_TOKENS;
            included.extend(fitting.iter().map(|(at, _, _)| *at));
            let (number, last_line) = match (&open_doc.lines, fitting.first(), fitting.last()) {
                (Some(_), Some(first), Some(last)) => (first.0 as u32 + 1, Some(last.0 as u32 + 1)),
                _ => (part.key, None),
            };
            let text = fitting
                .into_iter()
                .map(|(_, text, _)| text)
                .collect::<Vec<_>>()
                .join("\n");
            self.used_tokens += tokens;
            self.passages.push(Passage {
                doc: request.doc,
                section: part.section,
                number,
                last_line,
                text,
                tokens,
                score: request.score,
                why: request.why.clone(),
                excerpt: request.excerpt.clone(),
            });
        }
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

// Lines of a section: index, text, tokens.
struct TextExcerpt {
    section: SectionId,
    // The page; 0 in a document without pages.
    key: u32,
    lines: Vec<(usize, String, u32)>,
}

impl OpenDoc {
    fn new(
        document: &CatalogDocument,
        tree: Arc<SectionTree>,
        lines: Option<Arc<TextLines>>,
    ) -> Self {
        let version = document.version();
        let description = document.entry().map(|entry| {
            let facts = &entry.facts;
            let year = facts.fiscal_year.as_ref();
            [
                facts.issuer.as_ref().map(|issuer| issuer.value.clone()),
                facts.form.as_ref().map(|form| form.value.clone()),
                year.map(|year| format!("FY{}", year.value)),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · ")
        });
        Self {
            name: version.name.clone(),
            label: document.label.clone(),
            version: version.seq,
            description: description.unwrap_or_default(),
            tree,
            pages: BTreeMap::new(),
            lines,
        }
    }

    pub(super) fn path(&self, id: SectionId) -> Vec<String> {
        self.tree
            .path_to(id)
            .into_iter()
            .map(|section| section.title.clone())
            .collect()
    }

    pub(super) fn page(&self, number: u32) -> Option<&Page> {
        self.pages.get(&number)
    }

    fn pages_to_read(&self, request: &SectionRequest) -> Vec<u32> {
        let span = request
            .section
            .and_then(|id| self.tree.section(id))
            .and_then(|section| section.span.pages());
        match (request.pages.is_empty(), span) {
            (true, Some(span)) => span
                .pages()
                .map(|page| page.get())
                .take(PAGES_OF_SECTION)
                .collect(),
            (_, Some(span)) => request
                .pages
                .iter()
                .filter(|page: &&u32| {
                    stemma_document::PageNo::new(**page).is_some_and(|page| span.contains(page))
                })
                .copied()
                .collect(),
            (_, None) => request.pages.clone(),
        }
    }

    fn page_excerpt(&self, request: &SectionRequest, number: u32) -> Option<TextExcerpt> {
        let page = self.pages.get(&number)?;
        let section = match request.section {
            Some(id) => self.tree.section(id)?,
            None => self.deepest_section(number)?,
        };
        let range = match request.section {
            Some(_) => lines_on(section, number, page.lines.len()),
            None => 0..page.lines.len(),
        };
        let lines = page
            .lines
            .iter()
            .enumerate()
            .skip(range.start)
            .take(range.len());
        let lines = lines
            .filter(|(_, line)| !line.is_furniture())
            .map(|(at, line)| (at, line.text.clone(), line.tokens));
        Some(TextExcerpt {
            section: section.id,
            key: number,
            lines: lines.collect(),
        })
    }

    // The section that a page opens with.
    fn deepest_section(&self, page: u32) -> Option<&Section> {
        let sections: Vec<&Section> = self
            .tree
            .walk()
            .map(|(_, section)| section)
            .filter(|section: &&Section| {
                let span = section.span.pages();
                span.is_some_and(|span| span.start().get() <= page && page <= span.end().get())
            })
            .collect();
        // In pre-order, the last section that begins before the page and reaches it is the deepest one at its top.
        let opens = sections.iter().rev().find(|section| {
            section
                .span
                .pages()
                .is_some_and(|span| span.start().get() < page)
        });
        opens.or(sections.first()).copied()
    }

    // The stretch with most question words, as long as is read at once.
    fn line_excerpts(
        &self,
        request: &SectionRequest,
        text: &TextLines,
        words: &BTreeSet<String>,
    ) -> Vec<TextExcerpt> {
        let Some(section) = request.section.and_then(|id| self.tree.section(id)) else {
            return Vec::new();
        };
        let SectionSpan::Lines { start, end } = section.span else {
            return Vec::new();
        };
        let own_end = section.children.first().and_then(|child| match child.span {
            SectionSpan::Lines { start, .. } => Some(start - 1),
            SectionSpan::Pages { .. } => None,
        });
        let first = start.saturating_sub(1) as usize;
        let last = own_end.unwrap_or(end) as usize;
        let last = last.min(text.lines.len());
        let sizes: Vec<u32> = (first..last)
            .map(|at: usize| {
                text.tokens
                    .get(at)
                    .copied()
                    .unwrap_or_else(|| tokens::count(&text.lines[at]))
            })
            .collect();
        let from = first
            + densest_start(
                &sizes,
                |at| word_hits(&text.lines[first + at], words).len(),
                TEXT_TOKENS,
            );
        let lines = (from..last).map(|at| (at, text.lines[at].clone(), sizes[at - first]));
        vec![TextExcerpt {
            section: section.id,
            key: 0,
            lines: fit_lines(lines, TEXT_TOKENS, words),
        }]
    }
}

// A line longer than the room left is truncated around question words.
fn fit_lines(
    lines: impl Iterator<Item = (usize, String, u32)>,
    room: u32,
    words: &BTreeSet<String>,
) -> Vec<(usize, String, u32)> {
    let mut remaining = room;
    let mut fitting = Vec::new();
    for (at, line, size) in lines {
        if size < remaining {
            remaining -= size + 1;
            fitting.push((at, line, size));
            continue;
        }
        if remaining >= MIN_TOKENS {
            let line = truncate_around(&line, size, remaining - 1, words);
            let size = tokens::count(&line);
            fitting.push((at, line, size));
        }
        break;
    }
    fitting
}

// Byte ranges of question words in a text, in order.
fn word_hits(text: &str, words: &BTreeSet<String>) -> Vec<Range<usize>> {
    let mut hits = Vec::new();
    for_each_word(text, |word, at| {
        if words.contains(word) {
            hits.push(at);
        }
    });
    hits
}

// Sliding window: the first index from which `room` tokens hold the most worth; 0 when all fits or nothing counts.
fn densest_start(sizes: &[u32], worth: impl Fn(usize) -> usize, room: u32) -> usize {
    if sizes.iter().map(|size| u64::from(*size)).sum::<u64>() <= u64::from(room) {
        return 0;
    }
    let worths: Vec<usize> = (0..sizes.len()).map(worth).collect();
    let mut best = 0;
    let mut best_worth = 0;
    let mut end = 0;
    let mut window_tokens = 0_u64;
    let mut sum = 0;
    for start in 0..sizes.len() {
        // A single line larger than the room still counts, since it is truncated later.
        while end < sizes.len()
            && (end == start || window_tokens + u64::from(sizes[end]) <= u64::from(room))
        {
            window_tokens += u64::from(sizes[end]);
            sum += worths[end];
            end += 1;
        }
        if sum > best_worth {
            (best, best_worth) = (start, sum);
        }
        window_tokens -= u64::from(sizes[start]);
        sum -= worths[start];
    }
    best
}

// `…` marks what is left out.
fn truncate_around(line: &str, size: u32, room: u32, words: &BTreeSet<String>) -> String {
    let places = word_hits(line, words);
    let mut length = (line.len() as u64 * u64::from(room) / u64::from(size.max(1))) as usize;
    loop {
        // Begin a quarter of the room before a word: its subject often comes before it.
        let starts = places.iter().map(|at| at.start.saturating_sub(length / 4));
        let start = starts
            .rev()
            .max_by_key(|start: &usize| {
                places
                    .iter()
                    .filter(|at| *start <= at.start && at.end <= start + length)
                    .count()
            })
            .unwrap_or(0)
            .min(line.len().saturating_sub(length));
        let end = line.floor_char_boundary(start + length);
        let start = line.ceil_char_boundary(start);
        let excerpt = line.get(start..end).unwrap_or_default();
        let marked = format!(
            "{}{excerpt}{}",
            if start > 0 { "… " } else { "" },
            if end < line.len() { " …" } else { "" }
        );
        if length < 16 || tokens::count(&marked) <= room {
            return marked;
        }
        length -= length / 8;
    }
}

// Includes the lines of sub-sections.
fn lines_on(section: &Section, page: u32, count: usize) -> Range<usize> {
    let SectionSpan::Pages { from, to, .. } = section.span else {
        return 0..0;
    };
    let start = if from.page.get() == page {
        (from.line as usize).min(count)
    } else {
        0
    };
    let end = to
        .filter(|to| to.page.get() == page)
        .map_or(count, |to| (to.line as usize).min(count));
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> BTreeSet<String> {
        content_words(text).into_iter().collect()
    }

    #[test]
    fn long_lines_are_cut_around_question_words() {
        let filler = "The company went about its business as before. ".repeat(2_000);
        let line = format!("{filler}Zorbco sold 5 million zorbs. {filler}");
        let size = tokens::count(&line);
        let question_words = words("How many zorbs did Zorbco sell?");
        let excerpt = fit_lines(
            [(7, line.clone(), size)].into_iter(),
            TEXT_TOKENS,
            &question_words,
        );
        assert_eq!(excerpt.len(), 1);
        let (at, text, tokens) = &excerpt[0];
        assert!(
            *at == 7 && *tokens <= TEXT_TOKENS && *tokens > TEXT_TOKENS / 2,
            "{tokens}"
        );
        assert!(
            text.contains("Zorbco sold 5 million zorbs.")
                && text.starts_with('…')
                && text.ends_with('…')
        );
        // Without question words, the beginning of the line; without room, nothing.
        let blind = fit_lines(
            [(7, line.clone(), size)].into_iter(),
            TEXT_TOKENS,
            &words("quarks"),
        );
        assert!(blind[0].1.starts_with("The company"));
        assert!(
            fit_lines(
                [(7, line, size)].into_iter(),
                MIN_TOKENS - 1,
                &question_words
            )
            .is_empty()
        );
    }

    #[test]
    fn lines_with_question_words_are_preferred() {
        assert_eq!(
            densest_start(&[10; 100], |at| usize::from(at == 80), 300),
            51
        );
        assert_eq!(densest_start(&[10; 100], |_| 0, 300), 0);
        assert_eq!(densest_start(&[10; 3], |at| at, 300), 0);
        assert_eq!(
            densest_start(&[10, 4_000, 10], |at| usize::from(at == 1), 300),
            1
        );
        assert_eq!(densest_start(&[], |_| 0, 300), 0);
    }

    proptest::proptest! {
        #[test]
        fn truncated_lines_fit(text in ".{0,400}", room in 20u32..60) {
            let size = tokens::count(&text);
            if size > room {
                proptest::prop_assert!(tokens::count(&truncate_around(&text, size, room, &words("of the a b c 1 2"))) <= room.max(20));
            }
        }
    }
}
