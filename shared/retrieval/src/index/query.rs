//! Runs a query against the index: selects documents, ranks passages and gathers them into sections.

mod by_text;
mod named;

use std::time::Instant;

use stemma_store::PortError;
use tantivy::collector::Count;
use tantivy::query::Query as IndexQuery;
use tantivy::{DocAddress, TantivyError, Term};

use super::document_entry::doc_key;
use super::document_filter::{all_of, any_term, documents_query, filter_query, has_term};
use super::document_fit::DocumentFit;
use super::evidence::{self, Evidence};
use super::hits::HitList;
use super::missing::MissingTerms;
use super::operators::TextConditions;
use super::passage_set::PassageSet;
use super::ranking::{Ranking, ScoredPassage};
use super::route::{self, IssuerRouting};
use super::schema::{Fields, IndexEntryKind};
use super::scope_statistics::ScopeStatistics;
use super::searcher::IndexSearcher;
use crate::alias_file::AliasFile;
use crate::parsed_query::ParsedQuery;
use crate::query_terms::QueryTerms;
use crate::query_words::QueryWords;
use crate::search::{
    DocumentScope, ItemRef, MAX_LIMIT, MAX_QUERY_CHARS, MAX_SKIP, Query, SearchError, SearchHit,
    SearchNote, SearchResults, SearchStats,
};
use stemma_catalog::property::Property;
use stemma_reading::query_period::QueryPeriod;
use stemma_reading::tokenizer::tokenize;

// Passages that are scored together. The hits of the best ones come before those of the next ones, so that a list stays the
// same from page to page, however far it is read.
const CANDIDATES: usize = 400;
// Passages of the documents that fit the named period and form best are scored with the first candidates, even if later
// filings have more of the words: so many that they fill the lists people read.
const REQUESTED_CANDIDATES: usize = 100;
// The passages of more documents are too large a part of an archive for a search of their own to pay.
const MAX_REQUESTED_DOCUMENTS: usize = 500;
// All hits that can be reached are within so many groups of candidates, at four passages for each.
const MAX_GROUPS: usize = 4 * (MAX_SKIP + MAX_LIMIT) / CANDIDATES;
/// Operation of an error that says that the index cannot be read.
pub const DAMAGED: &str = "index.read";

/// Searches one commit of an index. `names` are further names of issuers. This is CPU-bound: call it on a blocking thread.
///
/// # Errors
/// [`SearchError`] if the query has no words, or the index cannot be read.
pub fn search(
    searcher: &IndexSearcher,
    names: &AliasFile,
    query: &Query,
) -> Result<SearchResults, SearchError> {
    let started = Instant::now();
    let run = SearchRun::new(searcher, names, query)?;
    let statistics = run.statistics()?;
    let missing = run.missing_terms(&statistics);
    let mut results = SearchResults {
        terms: run
            .parsed
            .words
            .iter()
            .map(|(word, _)| word.clone())
            .collect(),
        applied_filters: run.applied_filters()?,
        notes: run.notes(&missing)?,
        stats: run.stats.clone(),
        missing_terms: missing.find()?,
        ..SearchResults::default()
    };
    run.ranked(&statistics, &mut results)?;
    if results.hits.is_empty() && query.skip == 0 {
        results.notes.extend(run.conditions.excluded_note());
    }
    results.stats.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(results)
}

/// The documents and sections that a query covers, without ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryScope {
    /// Whether the text names an issuer that has documents in scope.
    pub names_issuer: bool,
    pub documents_in_scope: usize,
}

/// Reads what a query covers, by the rules of [`search`]. It takes a small part of the time of a search.
///
/// # Errors
/// As [`search`].
pub fn query_scope(
    searcher: &IndexSearcher,
    names: &AliasFile,
    query: &Query,
) -> Result<QueryScope, SearchError> {
    let run = SearchRun::new(searcher, names, query)?;
    Ok(QueryScope {
        names_issuer: !run.issuers.applied_filters.is_empty(),
        documents_in_scope: run.stats.documents_in_scope,
    })
}

/// Whether each of these sections meets the operators of a query. For sections that a model chose.
///
/// # Errors
/// As [`search`].
pub fn meets_operators(
    searcher: &IndexSearcher,
    names: &AliasFile,
    query: &Query,
    sections: &[SearchHit],
) -> Result<Vec<bool>, SearchError> {
    let run = SearchRun::new(searcher, names, query)?;
    let tests = sections.iter().map(|section| {
        let conditions = &run.conditions;
        conditions.allows_section(searcher, &run.fields, section)
    });
    Ok(tests.collect::<tantivy::Result<_>>()?)
}

impl From<TantivyError> for SearchError {
    // Only what cannot be read is damage. Other errors are of the query or of the moment.
    fn from(error: TantivyError) -> Self {
        let operation = match &error {
            _ if super::disk_failure(&error).is_some() => "index.search",
            TantivyError::DataCorruption(_)
            | TantivyError::OpenReadError(_)
            | TantivyError::DeserializeError(_)
            | TantivyError::IncompatibleIndex(_) => DAMAGED,
            _ => "index.search",
        };
        Self::Port(PortError::permanent(operation, error.to_string()))
    }
}

struct SearchRun<'s> {
    searcher: &'s IndexSearcher,
    fields: Fields,
    query: &'s Query,
    words: QueryWords,
    issuers: IssuerRouting,
    parsed: ParsedQuery,
    terms: QueryTerms,
    // Filters that a passage must match. The first ones hold for documents, too.
    scope: Vec<Box<dyn IndexQuery>>,
    document_filters: usize,
    documents: PassageSet<'s>,
    // The passages of these documents, and of the Item alone; `None` for the whole index, and without an Item.
    passages: Option<PassageSet<'s>>,
    of_item: Option<PassageSet<'s>>,
    conditions: TextConditions,
    notes: Vec<SearchNote>,
    stats: SearchStats,
}

impl<'s> SearchRun<'s> {
    fn new(
        searcher: &'s IndexSearcher,
        names: &AliasFile,
        query: &'s Query,
    ) -> Result<Self, SearchError> {
        let text: String = query.text.chars().take(MAX_QUERY_CHARS).collect();
        if query.skip > MAX_SKIP {
            return Err(SearchError::SkipTooLarge);
        }
        if tokenize(&text).is_empty() {
            return Err(SearchError::NoWords {
                text: text.chars().take(80).collect(),
            });
        }
        let fields = Fields::get();
        let (period, text) = QueryPeriod::parse(&text);
        let words = QueryWords::new(&text);
        let mut issuers = route::route(searcher, &fields, names, &words)?;
        let single = match &query.within {
            DocumentScope::Documents(docs) if docs.len() == 1 => docs.first().copied(),
            _ => None,
        };
        // An issuer of other documents is not there.
        if let (Some(doc), Some(documents)) = (single, &issuers.documents)
            && !documents.contains(&doc_key(doc))
        {
            issuers = IssuerRouting::default();
        }
        // A single document leaves nothing to route.
        if single.is_some() || !query.filter.is_empty() && issuers.documents.is_none() {
            issuers.documents = None;
            issuers.applied_filters.clear();
        }
        let issuer_words = std::mem::take(&mut issuers.issuer_words);
        let parsed = ParsedQuery::new(text, period, issuer_words);
        let terms = QueryTerms::new(&parsed);
        let mut run = Self {
            searcher,
            fields,
            query,
            words,
            issuers,
            parsed,
            terms,
            scope: Vec::new(),
            document_filters: 0,
            documents: PassageSet::default(),
            passages: None,
            of_item: None,
            conditions: TextConditions::default(),
            notes: Vec::new(),
            stats: SearchStats::default(),
        };
        run.select_documents()?;
        run.set_conditions()?;
        Ok(run)
    }

    // Sets the scope and counts what is in it.
    fn select_documents(&mut self) -> tantivy::Result<()> {
        self.scope = self.allowed_documents();
        self.stats.documents_in_scope = self.count(IndexEntryKind::Document)?;
        self.stats.documents = self.stats.documents_in_scope;
        if let Some(issued) = &self.issuers.documents {
            self.scope.push(documents_query(&self.fields, issued));
            self.stats.documents = self.count(IndexEntryKind::Document)?;
            if self.stats.documents == 0 && self.stats.documents_in_scope > 0 {
                // The named issuer has no documents in scope. The scope is explicit, so it wins over the name.
                self.issuers.documents = None;
                self.issuers.applied_filters.clear();
                self.issuers.names.clear();
                self.scope.pop();
                self.stats.documents = self.stats.documents_in_scope;
            }
        }
        self.document_filters = self.scope.len();
        let documents = self.in_scope(IndexEntryKind::Document);
        self.documents = PassageSet::matching(self.searcher, documents.as_ref())?;
        let sections: u64 = self.documents.column("sections")?.iter().sum();
        self.stats.sections = usize::try_from(sections).unwrap_or(usize::MAX);
        self.passages = self.passages_of(&self.scope)?;
        if let Some(item) = self.requested_item() {
            self.select_item(&item)?;
        }
        Ok(())
    }

    // An Item that the query names and no document has is ignored; one that the caller gives is not.
    fn select_item(&mut self, item: &ItemRef) -> tantivy::Result<()> {
        let name = item_name(item);
        let term = Term::from_field_text(self.fields.items, &name);
        self.scope.push(has_term(term));
        self.of_item = self.passages_of(&self.scope)?;
        if self.of_item.as_ref().is_some_and(|found| found.len() > 0) || self.stats.documents == 0 {
            return Ok(());
        }
        let mut message = format!("no document in scope has an Item {name}");
        if self.query.item.is_none() {
            self.scope.pop();
            self.of_item = None;
            message.push_str(", so all of their text was searched");
        }
        self.notes
            .push(SearchNote::new("search.filter_matches_nothing", message));
        Ok(())
    }

    // Tests the operators of the query against the scope.
    fn set_conditions(&mut self) -> tantivy::Result<()> {
        if self.query.operators.is_empty() {
            return Ok(());
        }
        let (conditions, notes) = TextConditions::new(
            self.searcher,
            &self.fields,
            &self.scope,
            &self.query.operators,
            &self.parsed.issuer_words,
        )?;
        self.conditions = conditions;
        self.notes.extend(notes);
        Ok(())
    }

    // The Item given by the caller, or else named in the query.
    fn requested_item(&self) -> Option<ItemRef> {
        let requested = self.parsed.item.as_ref().map(|(item, _)| item);
        self.query.item.as_ref().or(requested).cloned()
    }

    fn notes(&self, missing: &MissingTerms<'_>) -> tantivy::Result<Vec<SearchNote>> {
        let periods = missing.period_notes()?;
        Ok(self.notes.iter().cloned().chain(periods).collect())
    }

    fn statistics(&self) -> tantivy::Result<ScopeStatistics<'s>> {
        let scope = self.of_item.as_ref().or(self.passages.as_ref());
        ScopeStatistics::new(self.searcher, &self.fields, scope)
    }

    fn missing_terms<'r>(&'r self, statistics: &'r ScopeStatistics<'r>) -> MissingTerms<'r> {
        MissingTerms {
            searcher: self.searcher,
            fields: &self.fields,
            scope: &self.scope[..self.document_filters],
            documents: &self.documents,
            passages: self.passages.as_ref(),
            words: &self.words,
            parsed: &self.parsed,
            names: &self.issuers.names,
            statistics,
        }
    }

    // The share of the query that one of the best passages has.
    fn evidence(&self, best: &[ScoredPassage]) -> tantivy::Result<Option<f32>> {
        let evidence = Evidence::new(self.searcher, &self.fields, &self.parsed)?;
        let best = best.iter().take(evidence::PASSAGES);
        let best = best.map(|passage| passage.address).collect();
        evidence.best(&PassageSet::new(self.searcher, best), &self.fields)
    }

    // The documents that the caller allows.
    fn allowed_documents(&self) -> Vec<Box<dyn IndexQuery>> {
        let mut scope: Vec<Box<dyn IndexQuery>> = Vec::new();
        if let DocumentScope::Documents(docs) = &self.query.within {
            let terms = docs
                .iter()
                .map(|doc| Term::from_field_text(self.fields.doc, &doc.to_string()));
            scope.push(any_term(terms.collect()));
        }
        if !self.query.filter.is_empty() {
            scope.push(filter_query(&self.fields, &self.query.filter));
        }
        scope
    }

    // Amendments repeat their originals, so they are left out unless the query or the scope asks for them.
    fn allows_amendments(&self) -> bool {
        let is_named = self
            .query
            .filter
            .conditions()
            .iter()
            .any(|condition| condition.field == Property::Form);
        is_named || self.query.within != DocumentScope::All || self.parsed.wants_amendments
    }

    fn count(&self, kind: IndexEntryKind) -> tantivy::Result<usize> {
        self.searcher.search(&self.in_scope(kind), &Count)
    }

    // The entries of a kind in scope.
    fn in_scope(&self, kind: IndexEntryKind) -> Box<dyn IndexQuery> {
        let query = has_term(self.fields.kind_term(kind));
        if self.scope.is_empty() {
            // The index knows the count of a single term without reading postings.
            return query;
        }
        Box::new(all_of(&self.scope, query))
    }

    // Ranks passages and gathers them into sections.
    fn ranked(
        &self,
        statistics: &ScopeStatistics<'_>,
        results: &mut SearchResults,
    ) -> tantivy::Result<()> {
        let fit = self.document_fit()?;
        let requested = self.requested_passages(&fit)?;
        let ranking = Ranking::new(self.searcher, &self.parsed, fit, statistics)?;
        let conditioned = match self.conditions.is_empty() {
            true => None,
            false => self.passages_of(&self.passage_scope())?,
        };
        let scope = self.of_item.as_ref().or(self.passages.as_ref());
        let scope = conditioned.as_ref().or(scope);
        let requested = match &requested {
            Some(requested) => ranking.candidates(Some(requested), REQUESTED_CANDIDATES)?,
            None => Vec::new(),
        };
        let mut hits = self.hit_list();
        let mut groups = HitList::end(self.query).div_ceil(CANDIDATES);
        let mut ranked_groups = 0;
        loop {
            let candidates = ranking.candidates(scope, groups * CANDIDATES)?;
            if candidates.is_empty() {
                // What was left out of the question may occur. It is not evidence.
                results.evidence = self.evidence(&[])?;
                return self.by_text(&tokenize(&self.query.text), results);
            }
            for group in candidates.chunks(CANDIDATES).skip(ranked_groups) {
                if hits.has_more() {
                    break;
                }
                let is_first = ranked_groups == 0;
                let others = group.iter().filter(|address| !requested.contains(address));
                let mut group: Vec<DocAddress> = others.copied().collect();
                if is_first {
                    group.extend(&requested);
                }
                let scored = ranking.score(group, self.allows_amendments())?;
                if is_first {
                    results.evidence = self.evidence(&scored)?;
                }
                hits.add(&scored)?;
                ranked_groups += 1;
            }
            let is_limit_reached = candidates.len() == groups * CANDIDATES;
            if hits.has_more() || !is_limit_reached || groups == MAX_GROUPS {
                let has_groups = ranked_groups * CANDIDATES < candidates.len();
                hits.finish(is_limit_reached || has_groups, results);
                return Ok(());
            }
            groups = (2 * groups).min(MAX_GROUPS);
        }
    }

    fn hit_list(&self) -> HitList<'_> {
        HitList::new(
            self.searcher,
            &self.fields,
            self.query,
            &self.terms,
            &self.conditions,
        )
    }

    // The passages of the documents that fit the named period and form best.
    fn requested_passages(&self, fit: &DocumentFit<'_>) -> tantivy::Result<Option<PassageSet<'s>>> {
        let keys = fit.requested_documents(&self.documents, &self.fields)?;
        if keys.len() == self.documents.len()
            || !(1..=MAX_REQUESTED_DOCUMENTS).contains(&keys.len())
        {
            return Ok(None);
        }
        let mut scope = self.passage_scope();
        scope.push(documents_query(&self.fields, &keys));
        self.passages_of(&scope)
    }

    // The passages that match all filters; `None` without a filter.
    fn passages_of(
        &self,
        filters: &[Box<dyn IndexQuery>],
    ) -> tantivy::Result<Option<PassageSet<'s>>> {
        if filters.is_empty() {
            return Ok(None);
        }
        let passage = has_term(self.fields.kind_term(IndexEntryKind::Passage));
        PassageSet::matching(self.searcher, &all_of(filters, passage)).map(Some)
    }

    // The scope with the operators of the query.
    fn passage_scope(&self) -> Vec<Box<dyn IndexQuery>> {
        let scope = self.scope.iter().map(|query| query.box_clone());
        scope.chain(self.conditions.filters()).collect()
    }

    fn document_fit(&self) -> tantivy::Result<DocumentFit<'_>> {
        let is_one_issuer = self.issuers.applied_filters.len() == 1;
        DocumentFit::new(&self.parsed, &self.documents, is_one_issuer)
    }
}

fn item_name(item: &ItemRef) -> String {
    item.part.as_ref().map_or_else(
        || item.number.clone(),
        |part| format!("{part}.{}", item.number),
    )
}
