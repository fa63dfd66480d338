//! Ranks passages.
//!
//! First, the index sums the words and phrases of the query (BM25) and returns the best candidates. Then the words of
//! each candidate are scored by their rarity in the scope of the query, in the text, in headings, and side by side. What
//! else speaks for a passage is added in shares of the best word score, so that it weighs as much as the words do: the
//! pages and parts that the query names, and in filings the requested statements.

mod candidates;
mod figures;
mod filing;
mod selection;
mod words;

use std::collections::BTreeMap;

use stemma_reading::statement_pages::StatementKind;
use tantivy::{DocAddress, Term};

pub(super) use self::candidates::{PassageSet, ScopeStatistics, inverse_frequency};
use self::figures::{FigureMatch, match_figures};
use self::filing::{FilingRules, PHRASE_WEIGHT};
use self::selection::{Clause, best_passages};
use self::words::WordScorer;
use super::document_filter::has_term;
use super::document_fit::DocumentFit;
use super::schema::{DocumentKind, Fields};
use super::searcher::IndexSearcher;
use crate::parsed_query::ParsedQuery;

// Shares of the best word score for a named caption, and for a named page or the table of contents.
const CAPTION_WEIGHT: f32 = 0.5;
const PAGE_WEIGHT: f32 = 0.7;
// A displayed figure with exactly the name and period of the query is as good as all of its words.
const FIGURE_WEIGHT: f32 = 1.0;
// Relative to the same word in the text, where candidates are selected.
const FIGURE_WORD_WEIGHT: f32 = 0.5;

/// The parts of a score, as returned by `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ScorePart {
    Text,
    Headings,
    Labels,
    Path,
    Summary,
    Adjacency,
    Phrases,
    RowPhrases,
    References,
    Statement,
    Document,
    Figure,
}

impl ScorePart {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ScorePart::Text => "text",
            ScorePart::Headings => "headings",
            ScorePart::Labels => "labels",
            ScorePart::Path => "path",
            ScorePart::Summary => "summary",
            ScorePart::Adjacency => "adjacency",
            ScorePart::Phrases => "phrases",
            ScorePart::RowPhrases => "row_phrases",
            ScorePart::References => "references",
            ScorePart::Statement => "statement",
            ScorePart::Document => "document",
            ScorePart::Figure => "figure",
        }
    }
}

// The scores of all candidates, by part.
struct Parts {
    scores: BTreeMap<ScorePart, Vec<f32>>,
    totals: Vec<f32>,
}

impl Parts {
    fn add(&mut self, part: ScorePart, scores: &[f32]) {
        let sums = self
            .scores
            .entry(part)
            .or_insert_with(|| vec![0.0; self.totals.len()]);
        for ((sum, total), score) in sums.iter_mut().zip(&mut self.totals).zip(scores) {
            *sum += score;
            *total += score;
        }
    }

    fn best(&self) -> f32 {
        self.totals.iter().copied().fold(0.0, f32::max)
    }
}

#[derive(Debug, Clone)]
pub(super) struct ScoredPassage {
    pub(super) address: DocAddress,
    pub(super) doc_key: u64,
    pub(super) page: u64,
    pub(super) score: f32,
    pub(super) parts: BTreeMap<ScorePart, f32>,
    // The phrase and the statement that contributed most.
    pub(super) phrase: Option<String>,
    pub(super) statement: Option<StatementKind>,
    // The displayed figure that matches best.
    pub(super) figure: Option<FigureMatch>,
}

impl ScoredPassage {
    /// A passage with a score of its text alone.
    pub(super) fn for_text(address: DocAddress, score: f32) -> Self {
        Self {
            address,
            doc_key: 0,
            page: 0,
            score,
            parts: BTreeMap::from([(ScorePart::Text, score)]),
            phrase: None,
            statement: None,
            figure: None,
        }
    }
}

/// Ranks the passages of a scope for a query.
pub(super) struct Ranking<'q> {
    searcher: &'q IndexSearcher,
    fields: Fields,
    parsed: &'q ParsedQuery,
    documents: DocumentFit<'q>,
    scope: &'q ScopeStatistics<'q>,
    words: WordScorer,
}

impl<'q> Ranking<'q> {
    /// `scope` knows how rare words are in the passages of the query.
    pub(super) fn new(
        searcher: &'q IndexSearcher,
        parsed: &'q ParsedQuery,
        documents: DocumentFit<'q>,
        scope: &'q ScopeStatistics<'q>,
    ) -> tantivy::Result<Self> {
        let fields = Fields::get();
        Ok(Self {
            searcher,
            fields,
            parsed,
            documents,
            words: WordScorer::new(parsed, &fields, scope)?,
            scope,
        })
    }

    /// Up to `limit` passages of `scope` by their words, phrases, and the pages and parts that the query names, best first.
    /// A smaller limit gives the first of them.
    pub(super) fn candidates(
        &self,
        scope: Option<&PassageSet<'q>>,
        limit: usize,
    ) -> tantivy::Result<Vec<DocAddress>> {
        best_passages(
            self.searcher,
            self.clauses(scope)?,
            self.scope,
            scope,
            limit,
        )
    }

    fn clauses(&self, scope: Option<&PassageSet<'q>>) -> tantivy::Result<Vec<Clause>> {
        let mut clauses: Vec<Clause> = Vec::new();
        for (term, weight) in self.words.weighted_terms() {
            let occurs = self.searcher.doc_freq(term)? > 0
                && match scope {
                    Some(scope) => scope.has_match(&*has_term(term.clone()))?,
                    None => true,
                };
            if occurs {
                clauses.push(Clause {
                    term: term.clone(),
                    weight,
                    has_length: true,
                });
                continue;
            }
            // What no text in scope has may be a title or a running head.
            let word = term.value().as_str().unwrap_or_default().to_owned();
            for field in [self.fields.path, self.fields.running] {
                clauses.push(Clause {
                    term: Term::from_field_text(field, &word),
                    weight,
                    has_length: false,
                });
            }
        }
        for (term, weight) in self.figure_terms()? {
            clauses.push(Clause {
                term,
                weight,
                has_length: false,
            });
        }
        let mut add = |term: Term, weight: f32| -> tantivy::Result<()> {
            clauses.push(Clause {
                weight: weight * self.scope.global_idf(&term)?,
                term,
                has_length: false,
            });
            Ok(())
        };
        for group in &self.parsed.phrase_groups {
            for phrase in &group.phrases {
                let term = Term::from_field_text(self.fields.phrases, phrase);
                add(term, PHRASE_WEIGHT * group.weight)?;
            }
        }
        for (kind, share) in &self.parsed.statements {
            let term = Term::from_field_text(self.fields.statements, kind.code());
            add(term, share / 2.0)?;
        }
        let references = &self.parsed.references;
        for caption in &references.captions {
            add(Term::from_field_text(self.fields.captions, caption), 1.0)?;
        }
        let cover = references.cover.then_some(1);
        for page in references.pages.iter().copied().chain(cover) {
            add(Term::from_field_u64(self.fields.page, page.into()), 1.0)?;
            add(
                Term::from_field_text(self.fields.label, &page.to_string()),
                1.0,
            )?;
        }
        Ok(clauses)
    }

    /// Scores candidates part by part, best first, and drops amendments unless they are allowed.
    pub(super) fn score(
        &self,
        candidates: Vec<DocAddress>,
        amendments: bool,
    ) -> tantivy::Result<Vec<ScoredPassage>> {
        let passages = PassageSet::new(self.searcher, candidates);
        let mut parts = Parts {
            scores: BTreeMap::new(),
            totals: vec![0.0; passages.len()],
        };
        let doc_keys = passages.column("doc_key")?;
        self.words
            .score(&passages, self.scope, &self.fields, &mut parts)?;
        let kinds = passages.column("sort")?;
        let rules = FilingRules {
            parsed: self.parsed,
            fields: &self.fields,
            is_filing: kinds
                .iter()
                .map(|kind| *kind != DocumentKind::Other as u64)
                .collect(),
            passages: &passages,
        };
        let phrases = rules.score_phrases(self.scope, &mut parts)?;
        // Pages named by number count even where no word occurs.
        let unit = parts.best().max(1.0);
        let statements = rules.score_statements(unit, &phrases, &mut parts)?;
        self.score_references(&passages, unit, &mut parts)?;
        rules.score_documents(&self.documents, unit, &mut parts)?;
        let figures = self.score_figures(&passages, unit, &mut parts)?;
        let pages = passages.column("page")?;
        let amended = passages.column("amended")?;
        let mut scored: Vec<ScoredPassage> = passages
            .addresses()
            .enumerate()
            .filter(|(at, _)| amendments || amended[*at] == 0)
            .map(|(at, address)| ScoredPassage {
                address,
                doc_key: doc_keys[at],
                page: pages[at],
                score: parts.totals[at],
                parts: parts
                    .scores
                    .iter()
                    .map(|(part, scores)| (*part, scores[at]))
                    .filter(|(_, score)| *score != 0.0)
                    .collect(),
                phrase: phrases.best[at].clone(),
                statement: statements[at],
                figure: figures[at],
            })
            .collect();
        scored.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.doc_key.cmp(&b.doc_key))
                .then(a.page.cmp(&b.page))
        });
        Ok(scored)
    }

    // The words of the requested figure that names of figures have.
    fn figure_terms(&self) -> tantivy::Result<Vec<(Term, f32)>> {
        let mut terms = Vec::new();
        for (word, _) in self.parsed.figure.iter().flat_map(|figure| &figure.words) {
            let term = Term::from_field_text(self.fields.figures, word);
            if self.searcher.doc_freq(&term)? > 0 {
                let in_text = Term::from_field_text(self.fields.body, word);
                terms.push((term, FIGURE_WORD_WEIGHT * self.scope.idf(&in_text)?));
            }
        }
        Ok(terms)
    }

    // Adds the displayed figures that the query asks for.
    fn score_figures(
        &self,
        passages: &PassageSet<'_>,
        unit: f32,
        parts: &mut Parts,
    ) -> tantivy::Result<Vec<Option<FigureMatch>>> {
        let Some(figure) = &self.parsed.figure else {
            return Ok(vec![None; passages.len()]);
        };
        let matches = match_figures(figure, passages, self.scope, &self.fields)?;
        let scores: Vec<f32> = matches
            .iter()
            .map(|found| found.map_or(0.0, |found| found.strength))
            .collect();
        if scores.iter().any(|score| *score > 0.0) {
            let scores = scores.iter().map(|score| unit * FIGURE_WEIGHT * score);
            parts.add(ScorePart::Figure, &scores.collect::<Vec<_>>());
        }
        Ok(matches)
    }

    // Pages, captions and the table of contents that the query names.
    fn score_references(
        &self,
        passages: &PassageSet<'_>,
        unit: f32,
        parts: &mut Parts,
    ) -> tantivy::Result<()> {
        let references = &self.parsed.references;
        if references.is_empty() {
            return Ok(());
        }
        let mut scores = vec![0.0_f32; passages.len()];
        for caption in &references.captions {
            let term = Term::from_field_text(self.fields.captions, caption);
            for (score, found) in scores.iter_mut().zip(passages.having(&term)?) {
                *score += if found { unit * CAPTION_WEIGHT } else { 0.0 };
            }
        }
        let pages = passages.column("page")?;
        let counts = passages.column("pages")?;
        let contents = passages.column("contents")?;
        let mut add_page = |page: Option<u64>, weight: f32| {
            for (at, score) in scores.iter_mut().enumerate() {
                let is_named = pages[at] > 0 && pages[at] == page.unwrap_or(counts[at]);
                *score += if is_named { unit * weight } else { 0.0 };
            }
        };
        if references.last_page {
            add_page(None, PAGE_WEIGHT);
        }
        for page in references
            .pages
            .iter()
            .copied()
            .chain(references.cover.then_some(1))
        {
            add_page(Some(u64::from(page)), PAGE_WEIGHT);
        }
        for page in &references.pages {
            let term = Term::from_field_text(self.fields.label, &page.to_string());
            for (score, found) in scores.iter_mut().zip(passages.having(&term)?) {
                *score += if found { unit * PAGE_WEIGHT } else { 0.0 };
            }
        }
        if references.contents {
            for (score, contents) in scores.iter_mut().zip(contents) {
                *score += if contents > 0 {
                    unit * PAGE_WEIGHT
                } else {
                    0.0
                };
            }
        }
        parts.add(ScorePart::References, &scores);
        Ok(())
    }
}
