//! Gathers ranked passages into sections: the hits of a search.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{DocId, SectionId};

use super::entry::StoredSection;
use super::operators::TextConditions;
use super::passage_set::PassageSet;
use super::ranking::ScoredPassage;
use super::schema::Fields;
use super::searcher::IndexSearcher;
use super::stored_passage::StoredPassage;
use crate::lexicon::Lexicon;
use crate::query_terms::QueryTerms;
use crate::search::{
    MAX_LIMIT, MatchedDocuments, Query, SearchHit, SearchHitPage, SearchResults, Snippet, TotalHits,
};
use crate::snippet;

// Longer lists of pages do not help a reader.
const PAGES_PER_HIT: usize = 20;
// If a page has several sections, the one that displays the figure of the query is the hit if name and query have at least half in
// common; else the words of the query decide.
const LEAST_STRENGTH: f32 = 0.5;

/// The hits of a page of results and of those before it: one per section, in the order of its best passage.
pub(super) struct HitList<'r> {
    searcher: &'r IndexSearcher,
    fields: &'r Fields,
    query: &'r Query,
    terms: &'r QueryTerms,
    conditions: &'r TextConditions,
    hits: Vec<SearchHit>,
    positions: BTreeMap<(DocId, SectionId), usize>,
    documents: BTreeSet<u64>,
    has_more: bool,
}

impl<'r> HitList<'r> {
    pub(super) fn new(
        searcher: &'r IndexSearcher,
        fields: &'r Fields,
        query: &'r Query,
        terms: &'r QueryTerms,
        conditions: &'r TextConditions,
    ) -> Self {
        Self {
            searcher,
            fields,
            query,
            terms,
            conditions,
            hits: Vec::new(),
            positions: BTreeMap::new(),
            documents: BTreeSet::new(),
            has_more: false,
        }
    }

    /// Whether there are hits behind this page.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Number of hits on this page and those before it.
    pub(super) fn end(query: &Query) -> usize {
        query.skip + query.limit.clamp(1, MAX_LIMIT)
    }

    /// Adds passages, best first, until it has more than a page needs.
    pub(super) fn add(&mut self, scored: &[ScoredPassage]) -> tantivy::Result<()> {
        self.add_documents(scored)?;
        for passage in scored {
            if self.has_more {
                break;
            }
            if let Some(stored) = StoredPassage::load(self.searcher, self.fields, passage.address)?
            {
                self.add_passage(passage, &stored);
            }
        }
        Ok(())
    }

    /// Puts the page into `results`. `is_limit_reached` says that there are further passages.
    pub(super) fn finish(mut self, is_limit_reached: bool, results: &mut SearchResults) {
        for hit in &mut self.hits {
            hit.best_pages.truncate(PAGES_PER_HIT);
        }
        let count = self.hits.len();
        results.total = match is_limit_reached || self.has_more {
            true => TotalHits::AtLeast {
                at_least: count + usize::from(self.has_more),
            },
            false => TotalHits::Exact(count),
        };
        results.documents = MatchedDocuments {
            keys: self.documents,
            is_limit_reached,
        };
        results.hits = self.hits.into_iter().skip(self.query.skip).collect();
    }

    fn add_documents(&mut self, scored: &[ScoredPassage]) -> tantivy::Result<()> {
        let addresses = scored.iter().map(|passage| passage.address).collect();
        let passages = PassageSet::new(self.searcher, addresses);
        self.documents.extend(passages.column("doc_key")?);
        Ok(())
    }

    fn add_passage(&mut self, passage: &ScoredPassage, stored: &StoredPassage) {
        let allowed: Vec<&StoredSection> = stored
            .entry
            .sections
            .iter()
            .filter(|section| self.conditions.has_titles(&section.path))
            .collect();
        let all_lines = stored.lines_with_kinds();
        let displaying = displaying_section(passage, stored);
        let displaying = displaying.filter(|at| {
            let path = &stored.entry.sections[*at].path;
            allowed.len() > 1 && self.conditions.has_titles(path)
        });
        let section_lines = displaying.and_then(|at| {
            let range = stored.section_lines(at);
            all_lines.get(range.start..range.end.min(all_lines.len()))
        });
        let lines = section_lines.unwrap_or(&all_lines);
        // An excerpt is costly: it is made where several sections share a page, and for the hits of this page of results.
        let excerpt = (allowed.len() > 1).then(|| snippet::best_snippet(lines, self.terms));
        // The section on whose lines the excerpt starts.
        let line = excerpt.as_ref().map_or(0, |(_, line)| *line);
        let at = allowed
            .iter()
            .rposition(|section| section.line as usize <= line)
            .unwrap_or(0);
        let displaying = displaying.map(|at| &stored.entry.sections[at]);
        let section = displaying.or_else(|| allowed.get(at).copied());
        let Some(section) = section.filter(|one| !self.conditions.excludes_titles(&one.path))
        else {
            return;
        };
        let page = stored
            .page
            .map(|page| SearchHitPage::new(page, stored.entry.label.clone(), passage.score));
        let mut hit = stored.section_hit(section);
        let key = (hit.doc_id, hit.section_id);
        if let Some(at) = self.positions.get(&key) {
            let pages = &mut self.hits[*at].best_pages;
            // A page with very much text has several passages.
            let new = page.filter(|new| !pages.iter().any(|old| old.page == new.page));
            pages.extend(new);
            return;
        }
        if self.hits.len() == Self::end(self.query) {
            self.has_more = true;
            return;
        }
        hit.best_pages = page.into_iter().collect();
        hit.score = passage.score.into();
        if self.hits.len() >= self.query.skip {
            let (excerpt, _) = excerpt.unwrap_or_else(|| snippet::best_snippet(lines, self.terms));
            hit.why = explain(passage, &excerpt);
            hit.excerpt = excerpt;
        }
        if self.query.explain {
            hit.parts = passage
                .parts
                .iter()
                .map(|(part, value)| (part.as_str(), *value))
                .collect();
        }
        self.positions.insert(key, self.hits.len());
        self.hits.push(hit);
    }
}

// The section that displays the figure for which the query asks.
fn displaying_section(passage: &ScoredPassage, stored: &StoredPassage) -> Option<usize> {
    let figure = passage
        .figure
        .filter(|figure| figure.strength >= LEAST_STRENGTH)?;
    let mut entries = 0;
    stored.entry.sections.iter().position(|section| {
        entries += section.figures as usize;
        figure.entry < entries
    })
}

// Short reasons for a hit: statement, phrase and words.
fn explain(passage: &ScoredPassage, snippet: &Snippet) -> String {
    let mut reasons: Vec<String> = passage
        .statement
        .map(|kind| kind.display_name().to_owned())
        .into_iter()
        .collect();
    if let Some(phrase) = &passage.phrase
        && let Some(phrase) = Lexicon::get().written(phrase)
    {
        reasons.push(format!("phrase “{phrase}”"));
    }
    let mut words: Vec<&str> = snippet
        .highlights
        .iter()
        .filter_map(|(start, end)| snippet.text.get(*start..*end))
        .collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(5);
    if !words.is_empty() {
        reasons.push(format!("words {}", words.join(", ")));
    }
    reasons.join(" · ")
}
