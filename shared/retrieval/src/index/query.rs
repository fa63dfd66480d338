//! Runs a query against the index: selects documents, ranks passages and gathers them into sections.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Instant;

use stemma_document::{DocId, SectionId};
use stemma_engine::PortError;
use tantivy::collector::{Count, TopDocs};
use tantivy::query::{
    AllQuery, BooleanQuery, ConstScoreQuery, EmptyQuery, InvertedIndexRangeQuery, Occur,
    Query as IndexQuery, RangeQuery, TermQuery, TermSetQuery,
};
use tantivy::schema::{Field as IndexField, IndexRecordOption, Value};
use tantivy::{DocAddress, Searcher, TantivyDocument, Term};

use super::document_fit::DocumentFit;
use super::entry::{StoredEntry, StoredSection, date_number, doc_key};
use super::evidence::{self, Evidence};
use super::missing::MissingTerms;
use super::operators::TextConditions;
use super::ranking::{PassageSet, Ranking, ScopeStatistics, ScoredPassage};
use super::route::{self, IssuerRouting};
use super::schema::{Fields, IndexEntryKind};
use crate::alias_file::AliasFile;
use crate::dates::QueryPeriod;
use crate::lexicon::Lexicon;
use crate::parsed_query::ParsedQuery;
use crate::query_terms::QueryTerms;
use crate::query_words::QueryWords;
use crate::search::{
    AppliedFilter, DocumentScope, MAX_LIMIT, MAX_QUERY_CHARS, MAX_SKIP, MatchedDocuments, Query,
    RankingFeature, RankingStrategy, SearchError, SearchHit, SearchHitPage, SearchNote,
    SearchResults, SearchStats, TotalHits,
};
use crate::snippet;
use crate::tokenizer::tokenize;
use stemma_catalog::filter::{Condition, Filter, FilterField, FilterOp};

// Passages that are scored part by part.
const CANDIDATES: usize = 400;
// The automaton of a set of terms costs as much as reading some hundred posting lists.
const MAX_UNION_TERMS: usize = 128;
// Bounds a search for all words of a query.
const MAX_TEXT_WORDS: usize = 60;
// Longer lists of pages do not help a reader.
const PAGES_PER_HIT: usize = 20;

/// Searches one commit of an index. `names` are further names of issuers. This is CPU-bound: call it on a blocking thread.
///
/// # Errors
/// [`SearchError`] if the query has no words, or the index cannot be read.
pub fn search(
    searcher: &Searcher,
    names: &AliasFile,
    query: &Query,
) -> Result<SearchResults, SearchError> {
    let started = Instant::now();
    let run = SearchRun::new(searcher, names, query)?;
    let statistics = run.statistics().map_err(|error| damaged(&error))?;
    let missing = run.missing_terms(&statistics);
    let mut results = SearchResults {
        terms: run
            .parsed
            .words
            .iter()
            .map(|(word, _)| word.clone())
            .collect(),
        applied_filters: run.applied_filters().map_err(|error| damaged(&error))?,
        notes: run.notes(&missing).map_err(|error| damaged(&error))?,
        stats: run.stats.clone(),
        missing_terms: missing.find().map_err(|error| damaged(&error))?,
        ..SearchResults::default()
    };
    match query.strategy {
        RankingStrategy::Auto | RankingStrategy::Ranked => run.ranked(&statistics, &mut results),
        RankingStrategy::Lexical => run.lexical(&mut results),
    }
    .map_err(|error| damaged(&error))?;
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
    searcher: &Searcher,
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
    searcher: &Searcher,
    names: &AliasFile,
    query: &Query,
    sections: &[SearchHit],
) -> Result<Vec<bool>, SearchError> {
    let run = SearchRun::new(searcher, names, query)?;
    let tests = sections.iter().map(|section| {
        let conditions = &run.conditions;
        conditions.allows_section(searcher, &run.fields, section)
    });
    let tests: tantivy::Result<Vec<bool>> = tests.collect();
    tests.map_err(|error| damaged(&error))
}

fn damaged(error: &tantivy::TantivyError) -> SearchError {
    SearchError::Port(PortError::permanent("index.search", error.to_string()))
}

struct SearchRun<'s> {
    searcher: &'s Searcher,
    fields: Fields,
    query: &'s Query,
    // The text of the query with its dates in one writing, and its words.
    text: String,
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
        searcher: &'s Searcher,
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
        let (_, unified) = QueryPeriod::parse(&text);
        let words = QueryWords::new(&unified);
        let mut issuers =
            route::route(searcher, &fields, names, &words).map_err(|error| damaged(&error))?;
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
        if single.is_some()
            || query.disabled_features.contains(&RankingFeature::Routing)
            || !query.filter.is_empty() && issuers.documents.is_none()
        {
            issuers = IssuerRouting {
                issuer_words: issuers.issuer_words,
                names: issuers.names,
                ..IssuerRouting::default()
            };
        }
        let parsed = ParsedQuery::parse(&text, &issuers.issuer_words);
        let terms = QueryTerms::new(&parsed);
        let mut run = Self {
            searcher,
            fields,
            query,
            text: unified,
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
        run.select_documents().map_err(|error| damaged(&error))?;
        run.set_conditions().map_err(|error| damaged(&error))?;
        Ok(run)
    }

    // Sets the scope and counts what is in it.
    fn select_documents(&mut self) -> tantivy::Result<()> {
        self.scope = self.allowed_documents();
        self.stats.documents_in_scope = self.count(IndexEntryKind::Document)?;
        self.stats.documents = self.stats.documents_in_scope;
        if let Some(issued) = &self.issuers.documents {
            let keys = issued
                .iter()
                .map(|key| Term::from_field_u64(self.fields.doc_key, *key));
            self.scope.push(any_term(keys.collect()));
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
            self.scope.push(self.term_query(self.fields.items, &item));
            self.of_item = self.passages_of(&self.scope)?;
        }
        Ok(())
    }

    // Tests the operators of the query against the scope.
    fn set_conditions(&mut self) -> tantivy::Result<()> {
        if self.query.operators.is_empty() {
            return Ok(());
        }
        (self.conditions, self.notes) = TextConditions::new(
            self.searcher,
            &self.fields,
            &self.scope,
            &self.query.operators,
            &self.issuers.issuer_words,
        )?;
        Ok(())
    }

    // The Item given by the caller, or else named in the query.
    fn requested_item(&self) -> Option<String> {
        let requested = self.parsed.item.as_ref().map(|(item, _)| item).filter(|_| {
            !self
                .query
                .disabled_features
                .contains(&RankingFeature::Routing)
        });
        let item = self.query.item.as_ref().or(requested)?;
        Some(item.part.as_ref().map_or_else(
            || item.number.clone(),
            |part| format!("{part}.{}", item.number),
        ))
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
            text: &self.text,
            words: &self.words,
            parsed: &self.parsed,
            names: &self.issuers.names,
            issuer_words: &self.issuers.issuer_words,
            statistics,
        }
    }

    // The share of the query that one of the best passages has.
    fn evidence(&self, best: &[ScoredPassage]) -> tantivy::Result<Option<f32>> {
        let evidence = Evidence::new(
            self.searcher,
            &self.fields,
            &self.parsed,
            &self.issuers.issuer_words,
            &self.text,
        )?;
        let mut texts = Vec::new();
        for passage in best.iter().take(evidence::PASSAGES) {
            let stored = StoredPassage::load(self.searcher, &self.fields, passage.address)?;
            let Some(stored) = stored else { continue };
            let paths = stored
                .entry
                .sections
                .iter()
                .map(|section| section.path.join("\n"));
            texts.push(paths.chain([stored.text]).collect::<Vec<_>>().join("\n"));
        }
        Ok(evidence.best(texts.into_iter()))
    }

    // What the query names: issuers, a period, a form, an Item, and operators. A period and a form only order documents.
    fn applied_filters(&self) -> tantivy::Result<Vec<AppliedFilter>> {
        let named = |facet: &str, value: String, from: String| AppliedFilter {
            facet: facet.into(),
            value,
            from,
            ..AppliedFilter::default()
        };
        let period = &self.parsed.period;
        let mut filters = self.issuers.applied_filters.clone();
        for year in &period.years {
            filters.push(AppliedFilter {
                documents: Some(self.count_documents("fiscal_year", u64::from(*year))?),
                ..named("fiscal_year", year.to_string(), year.to_string())
            });
        }
        filters.extend(
            period
                .latest
                .map(|latest| named("period", latest.as_str().to_owned(), "latest".to_owned())),
        );
        if let Some(quarter) = period.quarter {
            let name = format!("Q{quarter}");
            filters.push(AppliedFilter {
                documents: Some(self.count_documents("quarter", u64::from(quarter))?),
                ..named("fiscal_period", name.clone(), name)
            });
        }
        if let Some(form) = &self.parsed.form {
            let term = Term::from_field_text(self.fields.form, form);
            let documents = self.documents.having(&term)?;
            filters.push(AppliedFilter {
                documents: Some(documents.into_iter().filter(|has| *has).count()),
                ..named("form", form.to_uppercase(), form.clone())
            });
        }
        if let Some((item, from)) = &self.parsed.item {
            let passages = self.of_item.as_ref();
            let keys = passages.map(|passages| passages.column("doc_key"));
            let keys = keys.transpose()?.unwrap_or_default();
            filters.push(AppliedFilter {
                narrows: passages.is_some(),
                documents: Some(keys.into_iter().collect::<BTreeSet<_>>().len()),
                ..named("item", item.number.clone(), from.clone())
            });
        }
        filters.extend(self.conditions.applied_filters());
        Ok(filters)
    }

    fn count_documents(&self, column: &str, value: u64) -> tantivy::Result<usize> {
        let values = self.documents.column(column)?;
        Ok(values.into_iter().filter(|found| *found == value).count())
    }

    fn term_query(&self, field: IndexField, text: &str) -> Box<dyn IndexQuery> {
        Box::new(TermQuery::new(
            Term::from_field_text(field, text),
            IndexRecordOption::Basic,
        ))
    }

    // The documents that the caller allows.
    fn allowed_documents(&self) -> Vec<Box<dyn IndexQuery>> {
        let mut scope: Vec<Box<dyn IndexQuery>> = Vec::new();
        let within = match &self.query.within {
            DocumentScope::All => None,
            DocumentScope::Documents(docs) => Some(docs),
        };
        if let Some(docs) = within {
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
            .any(|condition| condition.field == FilterField::Form);
        is_named || self.query.within != DocumentScope::All || self.parsed.wants_amendments
    }

    fn count(&self, kind: IndexEntryKind) -> tantivy::Result<usize> {
        self.searcher.search(&self.in_scope(kind), &Count)
    }

    // The entries of a kind in scope.
    fn in_scope(&self, kind: IndexEntryKind) -> Box<dyn IndexQuery> {
        if self.scope.is_empty() {
            // The index knows the count of a single term without reading postings.
            return self.kind_query(kind);
        }
        Box::new(all_of(&self.scope, self.kind_query(kind)))
    }

    fn kind_query(&self, kind: IndexEntryKind) -> Box<dyn IndexQuery> {
        Box::new(TermQuery::new(
            self.fields.kind_term(kind),
            IndexRecordOption::Basic,
        ))
    }

    // Ranks passages and gathers them into sections.
    fn ranked(
        &self,
        statistics: &ScopeStatistics<'_>,
        results: &mut SearchResults,
    ) -> tantivy::Result<()> {
        let ranking = Ranking::new(
            self.searcher,
            &self.parsed,
            self.document_fit()?,
            &self.query.disabled_features,
            statistics,
        )?;
        let conditioned = match self.conditions.is_empty() {
            true => None,
            false => self.passages_of(&self.passage_scope())?,
        };
        let scope = self.of_item.as_ref().or(self.passages.as_ref());
        let candidate_limit = self.candidate_limit();
        let candidates = ranking.candidates(conditioned.as_ref().or(scope), candidate_limit)?;
        if candidates.is_empty() {
            // What was left out of the question may occur. It is no evidence.
            results.evidence = self.evidence(&[])?;
            return self.by_text(&tokenize(&self.query.text), results);
        }
        let is_limit_reached = candidates.len() == candidate_limit;
        let scored = ranking.score(candidates, self.allows_amendments())?;
        results.evidence = self.evidence(&scored)?;
        self.gather(scored, is_limit_reached, results)
    }

    fn candidate_limit(&self) -> usize {
        CANDIDATES.max(4 * (self.query.skip + self.query.limit.clamp(1, MAX_LIMIT)))
    }

    // The passages that match all filters; `None` without a filter.
    fn passages_of(
        &self,
        filters: &[Box<dyn IndexQuery>],
    ) -> tantivy::Result<Option<PassageSet<'s>>> {
        if filters.is_empty() {
            return Ok(None);
        }
        let query = all_of(filters, self.kind_query(IndexEntryKind::Passage));
        PassageSet::matching(self.searcher, &query).map(Some)
    }

    // The scope with the operators of the query.
    fn passage_scope(&self) -> Vec<Box<dyn IndexQuery>> {
        let scope = self.scope.iter().map(|query| query.box_clone());
        scope.chain(self.conditions.filters()).collect()
    }

    fn document_keys(&self, scored: &[ScoredPassage]) -> tantivy::Result<BTreeSet<u64>> {
        let readers = self.searcher.segment_readers().iter();
        let columns: tantivy::Result<Vec<_>> = readers
            .map(|reader| reader.fast_fields().u64("doc_key"))
            .collect();
        let columns = columns?;
        let keys = scored.iter().filter_map(|passage| {
            let column = columns.get(passage.address.segment_ord as usize)?;
            column.first(passage.address.doc_id)
        });
        Ok(keys.collect())
    }

    fn document_fit(&self) -> tantivy::Result<DocumentFit<'_>> {
        let is_one_issuer = self.issuers.applied_filters.len() == 1;
        DocumentFit::new(&self.parsed, &self.documents, is_one_issuer)
    }

    fn top_passages(
        &self,
        scope: &[Box<dyn IndexQuery>],
        terms: Box<dyn IndexQuery>,
        limit: usize,
    ) -> tantivy::Result<Vec<(f32, DocAddress)>> {
        let query = if scope.is_empty() {
            terms
        } else {
            Box::new(all_of(scope, terms)) as Box<dyn IndexQuery>
        };
        self.searcher
            .search(&query, &TopDocs::with_limit(limit).order_by_score())
    }

    // One hit per section, ordered by its best passage.
    fn gather(
        &self,
        scored: Vec<ScoredPassage>,
        is_limit_reached: bool,
        results: &mut SearchResults,
    ) -> tantivy::Result<()> {
        results.documents = MatchedDocuments {
            keys: self.document_keys(&scored)?,
            is_limit_reached,
        };
        let limit = self.query.limit.clamp(1, MAX_LIMIT);
        let end = self.query.skip + limit;
        let mut hits: Vec<SearchHit> = Vec::new();
        let mut hit_index: BTreeMap<(DocId, SectionId), usize> = BTreeMap::new();
        let mut more = false;
        for passage in scored {
            let Some(hit) = self.hit(&passage)? else {
                continue;
            };
            match hit_index.get(&(hit.doc_id, hit.section_id)) {
                Some(at) => {
                    let pages = &mut hits[*at].best_pages;
                    // A page with very much text has several passages.
                    let is_listed =
                        |new: &SearchHitPage| pages.iter().any(|old| old.page == new.page);
                    let new = hit.best_pages.into_iter().find(|new| !is_listed(new));
                    pages.extend(new);
                }
                None if hits.len() == end => {
                    more = true;
                    break;
                }
                None => {
                    hit_index.insert((hit.doc_id, hit.section_id), hits.len());
                    hits.push(hit);
                }
            }
        }
        for hit in &mut hits {
            hit.best_pages.truncate(PAGES_PER_HIT);
        }
        results.total = if more || is_limit_reached {
            TotalHits::AtLeast {
                at_least: hits.len() + usize::from(more),
            }
        } else {
            TotalHits::Exact(hits.len())
        };
        results.hits = hits.into_iter().skip(self.query.skip).collect();
        Ok(())
    }

    fn hit(&self, passage: &ScoredPassage) -> tantivy::Result<Option<SearchHit>> {
        let Some(stored) = StoredPassage::load(self.searcher, &self.fields, passage.address)?
        else {
            return Ok(None);
        };
        let (snippet, line) = snippet::best_snippet(&stored.text, &self.terms);
        let sections = stored.entry.sections.iter();
        let allowed: Vec<&StoredSection> = sections
            .filter(|section| self.conditions.has_titles(&section.path))
            .collect();
        // The section on whose lines the snippet starts.
        let at = allowed
            .iter()
            .rposition(|section| section.line as usize <= line)
            .unwrap_or(0);
        let section = allowed.get(at);
        let Some(section) = section.filter(|one| !self.conditions.excludes_titles(&one.path))
        else {
            return Ok(None);
        };
        let page = stored.page;
        let page =
            page.map(|page| SearchHitPage::new(page, stored.entry.label.clone(), passage.score));
        Ok(Some(SearchHit {
            best_pages: page.into_iter().collect(),
            score: passage.score.into(),
            parts: if self.query.explain {
                passage
                    .parts
                    .iter()
                    .map(|(part, value)| (part.as_str(), *value))
                    .collect()
            } else {
                BTreeMap::new()
            },
            why: self.explain(passage, &snippet),
            excerpt: snippet,
            ..stored.section_hit(section)
        }))
    }

    // Short reasons for a hit: page class, phrase and words.
    fn explain(&self, passage: &ScoredPassage, snippet: &crate::search::Snippet) -> String {
        let mut reasons: Vec<String> = passage
            .page_class
            .map(|class| class.display_name().to_owned())
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

    // The lexical baseline.
    fn lexical(&self, results: &mut SearchResults) -> tantivy::Result<()> {
        let words = self.parsed.words.iter().map(|(word, _)| word.clone());
        self.by_text(&words.collect::<Vec<_>>(), results)
    }

    // BM25 over the text of passages.
    fn by_text(&self, words: &[String], results: &mut SearchResults) -> tantivy::Result<()> {
        let clauses = words.iter().take(MAX_TEXT_WORDS).map(|word| {
            let term = TermQuery::new(
                Term::from_field_text(self.fields.body, word),
                IndexRecordOption::WithFreqs,
            );
            (Occur::Should, Box::new(term) as Box<dyn IndexQuery>)
        });
        let query = BooleanQuery::new(clauses.collect());
        let mut scope = self.passage_scope();
        if !self.allows_amendments() {
            let term = Term::from_field_u64(self.fields.amended, 0);
            scope.push(Box::new(TermQuery::new(term, IndexRecordOption::Basic)));
        }
        let best = self.top_passages(&scope, Box::new(query), self.candidate_limit())?;
        let is_limit_reached = best.len() == self.candidate_limit();
        let scored = best
            .into_iter()
            .map(|(score, address)| ScoredPassage::for_text(address, score));
        self.gather(scored.collect(), is_limit_reached, results)
    }
}

// The stored fields of an entry.
pub(super) struct StoredPassage {
    doc: DocId,
    seq: u64,
    page: Option<u32>,
    pub(super) entry: StoredEntry,
    text: String,
}

impl StoredPassage {
    pub(super) fn load(
        searcher: &Searcher,
        fields: &Fields,
        address: DocAddress,
    ) -> tantivy::Result<Option<Self>> {
        let stored: TantivyDocument = searcher.doc(address)?;
        let doc = stored_text(&stored, fields.doc).and_then(|doc| doc.parse().ok());
        let entry =
            stored_text(&stored, fields.shown).and_then(|json| serde_json::from_str(json).ok());
        let (Some(doc), Some(entry)) = (doc, entry) else {
            return Ok(None);
        };
        let page = stored_number(&stored, fields.page).and_then(|page| u32::try_from(page).ok());
        let text = stored_text(&stored, fields.text)
            .unwrap_or_default()
            .to_owned();
        Ok(Some(Self {
            doc,
            seq: stored_number(&stored, fields.seq).unwrap_or(0),
            page,
            entry,
            text,
        }))
    }

    // One of its sections as a hit, without the match.
    fn section_hit(&self, section: &StoredSection) -> SearchHit {
        SearchHit {
            pages: section.pages,
            lines: section.lines,
            ..SearchHit::new(
                self.doc,
                self.entry.name.as_str(),
                self.seq,
                SectionId(section.id),
                section.path.clone(),
            )
        }
    }
}

fn stored_text(document: &TantivyDocument, field: IndexField) -> Option<&str> {
    document.get_first(field).and_then(|value| value.as_str())
}

fn stored_number(document: &TantivyDocument, field: IndexField) -> Option<u64> {
    document.get_first(field).and_then(|value| value.as_u64())
}

// All filters, which do not change the score, and the query.
pub(super) fn all_of(filters: &[Box<dyn IndexQuery>], query: Box<dyn IndexQuery>) -> BooleanQuery {
    let filters = filters.iter().map(|filter| {
        (
            Occur::Must,
            Box::new(ConstScoreQuery::new(filter.box_clone(), 0.0)) as Box<dyn IndexQuery>,
        )
    });
    BooleanQuery::new(filters.chain([(Occur::Must, query)]).collect())
}

// Entries with any of the terms. The automaton of a set takes milliseconds to build, so few terms are a union.
fn any_term(terms: Vec<Term>) -> Box<dyn IndexQuery> {
    if terms.len() > MAX_UNION_TERMS {
        return Box::new(TermSetQuery::new(terms));
    }
    let terms = terms.into_iter().map(|term| {
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        (Occur::Should, Box::new(query) as Box<dyn IndexQuery>)
    });
    Box::new(BooleanQuery::new(terms.collect()))
}

fn filter_query(fields: &Fields, filter: &Filter) -> Box<dyn IndexQuery> {
    let (filters, occur) = match filter {
        Filter::All(filters) => (filters, Occur::Must),
        Filter::Any { any } => (any, Occur::Should),
        Filter::Condition(condition) => return condition_query(fields, condition),
    };
    let queries = filters
        .iter()
        .map(|filter| (occur, filter_query(fields, filter)));
    Box::new(BooleanQuery::new(queries.collect()))
}

fn condition_query(fields: &Fields, condition: &Condition) -> Box<dyn IndexQuery> {
    let terms: Vec<Term> = condition
        .values
        .iter()
        .filter_map(|value| value_term(fields, condition.field, value))
        .collect();
    let first = terms.first().cloned();
    match (condition.op, first) {
        (FilterOp::In, _) => any_term(terms),
        (FilterOp::NotIn, _) => Box::new(BooleanQuery::new(vec![
            (Occur::Must, Box::new(AllQuery) as Box<dyn IndexQuery>),
            (Occur::MustNot, any_term(terms)),
        ])),
        (_, None) => Box::new(EmptyQuery),
        (op, Some(term)) => {
            let (lower, upper) = match op {
                FilterOp::Less => (Bound::Unbounded, Bound::Excluded(term)),
                FilterOp::AtMost => (Bound::Unbounded, Bound::Included(term)),
                FilterOp::More => (Bound::Excluded(term), Bound::Unbounded),
                _ => (Bound::Included(term), Bound::Unbounded),
            };
            match is_numeric(condition.field) {
                true => Box::new(RangeQuery::new(lower, upper)),
                false => Box::new(InvertedIndexRangeQuery::new(lower, upper)),
            }
        }
    }
}

fn is_numeric(field: FilterField) -> bool {
    matches!(
        field,
        FilterField::FiscalYear
            | FilterField::PeriodEnd
            | FilterField::Filed
            | FilterField::Doubt
            | FilterField::Pages
    )
}

// A value as an index term; `None` if no document can have it.
fn value_term(fields: &Fields, field: FilterField, value: &str) -> Option<Term> {
    let index = match field {
        FilterField::Company => fields.company,
        FilterField::Ticker => fields.ticker,
        FilterField::Cik => fields.cik,
        FilterField::Form => fields.form,
        FilterField::FiscalYear => fields.fiscal_year,
        FilterField::FiscalPeriod => fields.fiscal_period,
        FilterField::PeriodEnd => fields.period_end,
        FilterField::Filed => fields.filed,
        FilterField::Language => fields.language,
        FilterField::Name => fields.name,
        FilterField::Status => fields.status,
        FilterField::Quality => fields.quality,
        FilterField::Doubt => fields.doubt,
        FilterField::Pages => fields.pages,
    };
    match field {
        FilterField::FiscalYear | FilterField::Pages => rounded_term(index, value.parse().ok()?),
        FilterField::Doubt => rounded_term(index, 1000.0 * value.parse::<f64>().ok()?),
        FilterField::PeriodEnd | FilterField::Filed => {
            Some(Term::from_field_u64(index, date_number(value)?))
        }
        _ => Some(Term::from_field_text(index, value)),
    }
}

fn rounded_term(field: IndexField, number: f64) -> Option<Term> {
    (number >= 0.0).then(|| Term::from_field_u64(field, number.round() as u64))
}
