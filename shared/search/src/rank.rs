//! Lexical search: BM25 over sections, streamed over documents, without a model and without an index.
//!
//! A section's fields are its title, its summary and its own text; the titles above it and what its document says about
//! itself count as context. Per term the weighted, length-normalized frequencies of all fields are summed and then
//! saturated (BM25F), so that a term in every field is not counted as four. Documents are read one after the other,
//! as many at once as there are threads; what is kept per section is a few numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_document::{Body, DocId, SectionId, SectionTree, text};
use stemma_engine::PortError;

use crate::catalogue::Listed;
use crate::items;
use crate::lexical::Terms;

/// Weights of the fields.
const TITLE: f32 = 1.0;
const SUMMARY: f32 = 0.7;
const BODY: f32 = 0.3;
/// Titles of the sections above.
const ABOVE: f32 = 0.3;
/// Name and facts of the document.
const DOCUMENT: f32 = 0.5;
/// Saturation of term frequencies (the usual value).
const K1: f32 = 1.2;
/// Usual lengths in tokens, against which lengths are normalized: fixed, so that a score needs one pass.
const TITLE_TOKENS: f32 = 8.0;
const SUMMARY_TOKENS: f32 = 80.0;
const BODY_TOKENS: f32 = 800.0;
/// How much a field's length counts (0–1, the usual value).
const B: f32 = 0.75;
/// Sections kept; over twice as many, the weakest are dropped.
const KEPT: usize = 100_000;

/// A document opened for search.
pub struct Opened {
    /// Its tree.
    pub tree: SectionTree,
    /// Its text; `None` when it is not in the store (an imported tree).
    pub body: Option<Body>,
}

/// Where trees and texts come from.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// Opens a document; `None` when its tree has gone meanwhile.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError>;
}

/// What to look for, and how far.
#[derive(Debug, Clone)]
pub struct Request {
    /// The question, or key words.
    pub query: String,
    /// Hits to return.
    pub limit: usize,
    /// Only sections of this Item (part, number), descendants included.
    pub item: Option<(Option<String>, String)>,
    /// Documents read at most; with more, those are read whose name, facts and description fit best.
    pub max_documents: usize,
    /// Documents read at once.
    pub threads: usize,
}

/// A section that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Index of its document in what was searched.
    pub document: usize,
    /// The document.
    pub doc: DocId,
    /// The section.
    pub section: SectionId,
    /// 0–1: share of the best score the terms allow.
    pub score: f32,
}

/// What was found, best first, and what was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Best first; equal scores in order of documents and sections.
    pub hits: Vec<Hit>,
    /// What was looked at.
    pub coverage: Coverage,
    /// Weight of each term: how rare it is among the sections looked at.
    pub weights: Vec<f32>,
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Coverage {
    /// Documents in scope.
    pub documents_in_scope: usize,
    /// Documents read.
    pub documents_read: usize,
    /// Documents read by title and summary alone: their text is not in the store.
    pub documents_without_text: usize,
    /// Sections looked at.
    pub sections: usize,
    /// What documents were chosen by, when not all were read.
    pub routed_by: Option<&'static str>,
}

/// Searches `documents`, in their order.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn search(shelf: &dyn Shelf, documents: &[&Listed], request: &Request) -> Result<Found, PortError> {
    let terms = Arc::new(Terms::of(&request.query));
    let item = Arc::new(request.item.clone());
    let (chosen, routed_by) = route(documents, &terms, request.max_documents);
    let mut tally = Tally::new(terms.as_slice().len());
    tally.coverage.documents_in_scope = documents.len();
    tally.coverage.routed_by = routed_by;
    let read = chosen.into_iter().map(|at| {
        let (terms, item) = (Arc::clone(&terms), Arc::clone(&item));
        let context = document_context(documents[at], &terms);
        async move {
            let Some(opened) = shelf.open(documents[at]).await? else { return Ok(None) };
            let look = move || look(&opened, &terms, &context, item.as_ref().as_ref());
            let looked = tokio::task::spawn_blocking(look).await;
            looked
                .map(|looked| Some((at, looked)))
                .map_err(|error| PortError::lasting("search", "read", error.to_string()))
        }
    });
    let mut read = stream::iter(read).buffered(request.threads.max(1));
    while let Some(looked) = read.next().await {
        if let Some((at, looked)) = looked? {
            tally.add(at, looked);
        }
    }
    Ok(tally.finish(documents, request.limit))
}

/// Which documents to read: all, or those whose listing fits the question best, in their order.
fn route(documents: &[&Listed], terms: &Terms, max: usize) -> (Vec<usize>, Option<&'static str>) {
    if documents.len() <= max {
        return ((0..documents.len()).collect(), None);
    }
    let counts: Vec<Vec<u32>> = documents.iter().map(|listed| terms.count(&listing_text(listed))).collect();
    let df = |term: usize| counts.iter().filter(|counts| counts[term] > 0).count();
    let weights: Vec<f32> = (0..terms.as_slice().len()).map(|term| rarity(documents.len(), df(term))).collect();
    let score = |counts: &Vec<u32>| -> f32 {
        counts.iter().zip(&weights).map(|(count, weight)| if *count > 0 { *weight } else { 0.0 }).sum()
    };
    let mut ranked: Vec<(f32, usize)> = counts.iter().map(score).enumerate().map(|(at, score)| (score, at)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.truncate(max);
    let fits = ranked.iter().any(|(score, _)| *score > 0.0);
    let mut chosen: Vec<usize> =
        ranked.into_iter().filter(|(score, _)| !fits || *score > 0.0).map(|(_, at)| at).collect();
    chosen.sort_unstable();
    (
        chosen,
        Some(if fits { "name, facts and description" } else { "order: nothing in names, facts or descriptions fits" }),
    )
}

/// What a listing says about a document, names cut into words.
fn listing_text(listed: &Listed) -> String {
    let mut text = context_text(listed);
    if let Some(description) = listed.entry().and_then(|entry| entry.description.as_deref()) {
        text.push_str(description);
    }
    text
}

fn context_text(listed: &Listed) -> String {
    let mut text = listed.version().name.replace(['_', '.'], " ");
    text.push('\n');
    for (_, fact) in listed.entry().map(|entry| entry.facts.known()).unwrap_or_default() {
        text.push_str(&fact.value);
        text.push('\n');
    }
    text
}

/// Which terms the document itself answers to.
fn document_context(listed: &Listed, terms: &Terms) -> Vec<bool> {
    terms.count(&context_text(listed)).into_iter().map(|count| count > 0).collect()
}

/// What one document gave.
struct Looked {
    sections: usize,
    has_text: bool,
    /// Per term, sections that have it.
    df: Vec<u32>,
    /// Sections with at least one term outside the document's context, and their weighted frequencies.
    found: Vec<(SectionId, Box<[f32]>)>,
}

fn look(opened: &Opened, terms: &Terms, context: &[bool], item: Option<&(Option<String>, String)>) -> Looked {
    let count = terms.as_slice().len();
    let inside = item.map(|(part, number)| item_ranges(&opened.tree, part.as_deref(), number));
    let mut looked = Looked { sections: 0, has_text: opened.body.is_some(), df: vec![0; count], found: Vec::new() };
    let mut above: Vec<Vec<u32>> = Vec::new();
    for (depth, section) in opened.tree.walk() {
        above.truncate(depth - 1);
        let title = terms.count(&section.title);
        let wanted = inside.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(&section.id.0)));
        if wanted {
            looked.sections += 1;
            let mut weighted = vec![0.0f32; count].into_boxed_slice();
            add(&mut weighted, &title, TITLE, words(&section.title) / TITLE_TOKENS);
            if let Some(summary) = &section.summary {
                add(&mut weighted, &terms.count(&summary.text), SUMMARY, words(&summary.text) / SUMMARY_TOKENS);
            }
            if let Some(body) = &opened.body {
                let mut counts = vec![0u32; count];
                for line in text::own_lines(section, body) {
                    terms.find(line.text, |at, _| counts[at] += 1);
                }
                add(&mut weighted, &counts, BODY, section.own_tokens as f32 / BODY_TOKENS);
            }
            let own = weighted.iter().any(|frequency| *frequency > 0.0);
            for term in 0..count {
                let from_above = above.iter().any(|titles| titles[term] > 0);
                weighted[term] += if from_above { ABOVE } else { 0.0 } + if context[term] { DOCUMENT } else { 0.0 };
                looked.df[term] += u32::from(weighted[term] > 0.0);
            }
            if own {
                looked.found.push((section.id, weighted));
            }
        }
        above.push(title);
    }
    looked
}

fn words(text: &str) -> f32 {
    text.split_whitespace().count() as f32
}

/// Adds a field's frequencies, divided by how long it is against its usual length.
fn add(to: &mut [f32], counts: &[u32], weight: f32, relative_length: f32) {
    let norm = 1.0 - B + B * relative_length;
    for (sum, count) in to.iter_mut().zip(counts) {
        *sum += weight * *count as f32 / norm;
    }
}

/// Ids of the sections of an Item, as ranges: ids are pre-order.
fn item_ranges(tree: &SectionTree, part: Option<&str>, number: &str) -> Vec<std::ops::Range<u32>> {
    let all = items::items(tree);
    let fits =
        |item: &&items::Item| item.number == number && part.is_none_or(|part| item.part.as_deref() == Some(part));
    let sections = all.iter().filter(fits).filter_map(|item| tree.section(item.section));
    sections
        .map(|section| {
            let mut last = section;
            while let Some(child) = last.children.last() {
                last = child;
            }
            section.id.0..last.id.0 + 1
        })
        .collect()
}

/// Running sums over documents.
struct Tally {
    coverage: Coverage,
    df: Vec<usize>,
    found: Vec<(usize, SectionId, Box<[f32]>)>,
}

impl Tally {
    fn new(terms: usize) -> Self {
        Self { coverage: Coverage::default(), df: vec![0; terms], found: Vec::new() }
    }

    fn add(&mut self, document: usize, looked: Looked) {
        self.coverage.documents_read += 1;
        self.coverage.documents_without_text += usize::from(!looked.has_text);
        self.coverage.sections += looked.sections;
        for (sum, count) in self.df.iter_mut().zip(looked.df) {
            *sum += count as usize;
        }
        self.found.extend(looked.found.into_iter().map(|(section, weighted)| (document, section, weighted)));
        if self.found.len() > 2 * KEPT {
            // Documents arrive in order, so what is dropped here does not depend on threads.
            let ranked = self.ranked(KEPT);
            let mut found: Vec<_> = std::mem::take(&mut self.found).into_iter().map(Some).collect();
            self.found = ranked.into_iter().filter_map(|(_, at)| found[at].take()).collect();
            self.found.sort_by_key(|(document, section, _)| (*document, *section));
        }
    }

    fn weights(&self) -> Vec<f32> {
        self.df.iter().map(|df| rarity(self.coverage.sections, *df)).collect()
    }

    /// Scores and indices, best first.
    fn ranked(&self, limit: usize) -> Vec<(f32, usize)> {
        let weights = self.weights();
        let best: f32 = weights.iter().map(|weight| weight * (K1 + 1.0)).sum();
        let score = |weighted: &[f32]| {
            let terms = weighted.iter().zip(&weights);
            terms.map(|(frequency, weight)| weight * frequency * (K1 + 1.0) / (frequency + K1)).sum::<f32>() / best
        };
        let mut ranked: Vec<(f32, usize)> =
            self.found.iter().enumerate().map(|(at, (_, _, weighted))| (score(weighted), at)).collect();
        let order = |a: &(f32, usize), b: &(f32, usize)| -> Ordering { b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)) };
        if ranked.len() > limit && limit > 0 {
            ranked.select_nth_unstable_by(limit - 1, order);
        }
        ranked.truncate(limit);
        ranked.sort_by(order);
        ranked
    }

    fn finish(self, documents: &[&Listed], limit: usize) -> Found {
        let hits = self.ranked(limit).into_iter().map(|(score, at)| {
            let (document, section, _) = &self.found[at];
            Hit { document: *document, doc: documents[*document].doc(), section: *section, score }
        });
        Found { hits: hits.collect(), weights: self.weights(), coverage: self.coverage }
    }
}

/// Inverse document frequency as BM25 has it; never negative.
fn rarity(all: usize, having: usize) -> f32 {
    let (all, having) = (all as f32, having as f32);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// A page of a section and how well it fits (the sum of its terms' weights, saturated).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageScore {
    /// Physical page, from 1.
    pub page: u32,
    /// Larger is better.
    pub score: f32,
}

/// Words of a section around the terms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Excerpt {
    /// At most 240 characters of one to three lines, white space folded.
    pub text: String,
    /// Bytes of `text` that are words of the question.
    pub marks: Vec<(usize, usize)>,
}

/// The pages of a section's own text that fit best, at most `limit`, best first.
pub fn best_pages(lines: &[text::LineAt<'_>], terms: &Terms, weights: &[f32], limit: usize) -> Vec<PageScore> {
    let mut pages: Vec<(u32, Vec<u32>)> = Vec::new();
    for line in lines {
        let Some(page) = line.page.map(|page| page.get()) else { continue };
        if pages.last().is_none_or(|(last, _)| *last != page) {
            pages.push((page, vec![0; weights.len()]));
        }
        if let Some((_, counts)) = pages.last_mut() {
            terms.find(line.text, |at, _| counts[at] += 1);
        }
    }
    let saturated = |counts: &[u32]| {
        counts.iter().zip(weights).map(|(count, weight)| weight * *count as f32 / (*count as f32 + K1)).sum()
    };
    let mut scored: Vec<PageScore> =
        pages.iter().map(|(page, counts)| PageScore { page: *page, score: saturated(counts) }).collect();
    scored.retain(|page| page.score > 0.0);
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.page.cmp(&b.page)));
    scored.truncate(limit);
    scored
}

/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 240;
/// Lines of an excerpt.
const EXCERPT_LINES: usize = 3;

/// The lines of a section where most of the question stands together, with the words found.
pub fn excerpt(lines: &[text::LineAt<'_>], terms: &Terms, weights: &[f32]) -> Excerpt {
    let present: Vec<Vec<bool>> =
        lines.iter().map(|line| terms.count(line.text).into_iter().map(|count| count > 0).collect()).collect();
    let value = |start: usize| -> f32 {
        let window = &present[start..present.len().min(start + EXCERPT_LINES)];
        let has = |term: &usize| window.iter().any(|line| line[*term]);
        // A window should begin where the question does.
        let first = f32::from(u8::from(window[0].contains(&true)));
        (0..weights.len()).filter(has).map(|term| weights[term]).sum::<f32>() + 0.01 * first
    };
    let mut best = (0.0, 0);
    for start in 0..lines.len() {
        let value = value(start);
        if value > best.0 {
            best = (value, start);
        }
    }
    let window = &lines[best.1..lines.len().min(best.1 + EXCERPT_LINES)];
    let words = window.iter().flat_map(|line| line.text.split_whitespace()).collect::<Vec<_>>().join(" ");
    cut(&words, terms)
}

/// At most [`EXCERPT_CHARS`] of a text, from a little before the first word found.
fn cut(text: &str, terms: &Terms) -> Excerpt {
    let mut first = None;
    terms.find(text, |_, range| first = first.or(Some(range.start)));
    let mut start = 0;
    if text.chars().count() > EXCERPT_CHARS
        && let Some(first) = first.filter(|first| *first > EXCERPT_CHARS / 2)
    {
        let near = text.floor_char_boundary(first - EXCERPT_CHARS / 4);
        start = text[near..first].find(' ').map_or(near, |space| near + space + 1);
    }
    let end = text[start..].char_indices().nth(EXCERPT_CHARS).map_or(text.len(), |(at, _)| start + at);
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    let text = format!("{before}{}{after}", text[start..end].trim_end());
    let mut marks: Vec<(usize, usize)> = Vec::new();
    terms.find(&text, |_, range| {
        if marks.last() != Some(&(range.start, range.end)) {
            marks.push((range.start, range.end));
        }
    });
    Excerpt { text, marks }
}
