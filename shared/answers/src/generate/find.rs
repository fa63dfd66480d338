//! Finds the sections that may answer a question, and reads them.

use std::ops::Range;

use stemma_retrieval::search::{self, DocumentScope, Query, SearchError, SearchResults};
use stemma_retrieval::usage::CallAccount;
use stemma_store::PortResult;

use super::{AnswerBuilder, FIRST_HITS, LIMIT_CODE, RETRY_LATER};
use crate::AnswerError;
use crate::answer::{AnswerStep, SearchSummary, StepKind};
use crate::context::{MIN_PART_TOKENS, SectionRequest, pages_by_worth};
use crate::decompose::{SubQuestion, decompose};
use crate::event::AnswerEvent;
use crate::request::RetrievalStrategy;
use crate::tree_search::{SessionError, TreeSearchStrategy};

// Documents that a summary of a search names.
const MAX_NAMES: usize = 10;

impl AnswerBuilder<'_, '_> {
    // One search for the whole question. It tells what the question names, and is sent as the route.
    pub(super) async fn first_search(&mut self, text: &str) -> Result<SearchResults, AnswerError> {
        let query = self.search_query(text, &self.question.within, FIRST_HITS);
        let results = self.search(&query).await?;
        self.search = SearchSummary {
            documents_in_scope: results.stats.documents_in_scope,
            documents: results.stats.documents,
            sections: results.stats.sections,
            applied_filters: results.applied_filters.clone(),
            documents_not_indexed: results.stats.documents_not_indexed,
            documents_unreadable: results.stats.documents_unreadable,
            missing_terms: results.known_missing_terms(),
            evidence: results.rounded_evidence(),
            low_evidence: results.has_low_evidence(),
            queries: vec![text.to_owned()],
            names: Vec::new(),
        };
        // Sent before anything is read: the names of the documents are known only later.
        self.events.send(AnswerEvent::Route(self.search.clone()));
        Ok(results)
    }

    pub(super) fn search_query(&self, text: &str, within: &DocumentScope, limit: usize) -> Query {
        let filter = self.question.filter.clone();
        let item = self.question.item.clone();
        let within = within.clone();
        Query {
            text: text.to_owned(),
            within,
            filter,
            item,
            limit,
            ..Query::default()
        }
    }

    pub(super) fn sub_questions(
        &mut self,
        text: &str,
        first: &SearchResults,
    ) -> PortResult<Vec<SubQuestion>> {
        let most_parts = (self.question.limits.context_tokens / MIN_PART_TOKENS) as usize;
        let catalog = self.answerer.sources.catalog;
        let plan = decompose(self.question, text, first, catalog, most_parts)?;
        if plan.parts.len() > 1 {
            let names: Vec<&str> = plan
                .parts
                .iter()
                .map(|part| part.subject.as_str())
                .collect();
            self.step(
                StepKind::Plan,
                format!("{} parts: {}", names.len(), names.join(", ")),
            );
        }
        if !plan.missing.is_empty() {
            self.step(
                StepKind::Plan,
                format!("no filing here of: {}", plan.missing.join(", ")),
            );
        }
        Ok(plan.parts)
    }

    // Sections that answer a sub-question, best first.
    pub(super) async fn find_sections(
        &mut self,
        text: &str,
        part: &SubQuestion,
        limit: usize,
        first: &SearchResults,
    ) -> Result<Vec<SectionRequest>, AnswerError> {
        let whole = part.subject.is_empty();
        let mut query = Query {
            item: part.item.clone(),
            ..self.search_query(text, &part.documents, limit)
        };
        let mut requests = match self.question.strategy {
            RetrievalStrategy::TreeSearch(strategy) => self.search_trees(&query, strategy).await?,
            RetrievalStrategy::Ranked if whole && limit <= FIRST_HITS => first.clone(),
            RetrievalStrategy::Ranked => self.search(&query).await?,
        };
        // The Item was guessed from a section's usual name. Where that finds nothing, search without it.
        if requests.hits.is_empty() && query.item != self.question.item {
            query.item.clone_from(&self.question.item);
            requests = self.search(&query).await?;
        }
        requests.hits.truncate(limit);
        self.has_hits |= !requests.hits.is_empty();
        self.reachable
            .extend(requests.hits.iter().map(|hit| hit.doc_id));
        let place = if whole {
            String::new()
        } else {
            format!("{}: ", part.subject)
        };
        self.step(
            StepKind::Search,
            format!(
                "{place}{} sections by {}",
                requests.hits.len(),
                self.question.strategy.as_str()
            ),
        );
        if !whole {
            self.search.queries.push(part.subject.clone());
        }
        Ok(pages_by_worth(&requests.hits))
    }

    // Search without an LLM, charged to the session: it may pay for an embedding of the query.
    pub(super) async fn search(&mut self, query: &Query) -> Result<SearchResults, SearchError> {
        let session = self.session.as_ref();
        let account = session.map(|session| session as &dyn CallAccount);
        let results = self.answerer.sources.search.search(query, account).await?;
        self.note_index_behind(&results);
        Ok(results)
    }

    // Records that documents could not be searched: a later answer may be better.
    fn note_index_behind(&mut self, results: &SearchResults) {
        let behind = results.stats.documents_not_indexed;
        if behind <= self.search.documents_not_indexed {
            return;
        }
        self.search.documents_not_indexed = behind;
        let message = format!("{behind} of the documents in scope were not indexed yet");
        self.degrade(search::INDEX_BEHIND, &message, RETRY_LATER);
    }

    async fn search_trees(
        &mut self,
        query: &Query,
        strategy: TreeSearchStrategy,
    ) -> Result<SearchResults, SearchError> {
        let (Some(searcher), Some(session)) = (&self.answerer.tree_searcher, &self.session) else {
            return self.search(query).await;
        };
        let result = searcher
            .search(self.answerer.sources, query, strategy, session)
            .await?;
        for step in &result.report.steps {
            let what = format!("{}: {}", step.what, step.why);
            let thinking = step.thinking.join("\n");
            self.push_step(AnswerStep {
                kind: StepKind::Search,
                what,
                thinking,
            });
        }
        for note in &result.report.notes {
            match SessionError::CODES.contains(&note.code.as_str()) {
                // A step that the model could not do was done by search; a later answer may be better.
                true if SessionError::LIMITS.contains(&note.code.as_str()) => {
                    self.degrade(LIMIT_CODE, &note.message, "allow more calls or tokens");
                }
                true => {
                    let next = note.next.as_deref().unwrap_or(RETRY_LATER);
                    self.degrade(&note.code, &note.message, next);
                }
                false => self.step(
                    StepKind::Degrade,
                    format!("{}: {}", note.code, note.message),
                ),
            }
        }
        self.note_index_behind(&result.results);
        Ok(result.results)
    }

    pub(super) async fn read_sections(
        &mut self,
        requests: &[SectionRequest],
        room: u32,
    ) -> Result<Range<usize>, AnswerError> {
        let sources = self.answerer.sources;
        let read = self
            .context
            .read(sources.store, sources.catalog, requests, room)
            .await?;
        if read.is_empty() {
            return Ok(read);
        }
        let tokens: u32 = self.context.passages[read.clone()]
            .iter()
            .map(|passage| passage.tokens)
            .sum();
        self.step(
            StepKind::Read,
            format!("{} passages, {tokens} tokens", read.len()),
        );
        let sections = self
            .context
            .read_sections(read.clone(), self.steps.len() - 1);
        for section in sections {
            if self.search.names.len() < MAX_NAMES && !self.search.names.contains(&section.name) {
                self.search.names.push(section.name.clone());
            }
            self.events.send(AnswerEvent::Section(section.clone()));
            self.sections.push(section);
        }
        Ok(read)
    }
}
