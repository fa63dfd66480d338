//! Generates one answer: search, read, ask the model, check its citations.

mod agent;
mod follow_up_search;

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_document::DocId;
use stemma_store::PortResult;

use super::AnswerError;
use super::answer::{
    Answer, AnswerOutcome, Degradation, GenerationUsage, ReadSection, SearchSummary,
};
use super::cached::CachedAnswerer;
use super::claims::{self, ComposedAnswer};
use super::context::{AnswerContext, MIN_PART_TOKENS, SectionRequest, pages_by_worth};
use super::decompose::{SubQuestion, decompose};
use super::event::{AnswerEvent, AnswerStep, EventSink, StepKind};
use super::page_vision::{PageVision, Picture};
use super::prompt::{self, DraftAnswer, StandaloneQuestion};
use super::request::{AnswerMode, AskRequest, RetrievalStrategy};
use super::scope;
use super::store::degraded_id;
use crate::tree_search::{LlmSession, QuestionBudget, SessionError};
use stemma_retrieval::search::{
    self, DocumentScope, MAX_QUERY_CHARS, Query, SearchError, SearchResults,
};
use stemma_retrieval::usage::CallAccount;

// Hits of the first search, which also tells what the question names.
const FIRST_HITS: usize = 20;
const MAX_NAMES: usize = 10;
const LIMIT_CODE: &str = "answer.limit_reached";
const RETRY_LATER: &str = "ask again later";
const SET_MODEL: &str = "set model.name, model.base_url and model.api_key, in the environment or in a file that --config names, to get answers";

pub(super) struct AnswerBuilder<'a, 'e> {
    answerer: &'a CachedAnswerer<'a>,
    question: &'a AskRequest,
    session: Option<LlmSession>,
    // Sees the pages, and the pictures that were drawn; before the first draft there are none.
    vision: Option<PageVision<'a>>,
    pictures: Option<Vec<Picture>>,
    events: &'e mut dyn EventSink,
    context: AnswerContext,
    search: SearchSummary,
    steps: Vec<AnswerStep>,
    sections: Vec<ReadSection>,
    degradation: Option<Degradation>,
    rejected_calls: u32,
    // Whether a search found something to read.
    has_hits: bool,
    // Whether tools were called.
    mode: AnswerMode,
    // Bounds of the calls after the first draft in [`AnswerMode::Auto`].
    allowance: Option<follow_up_search::Allowance>,
    // Passages of the first draft of an answer in steps; 0 in others.
    first_passages: usize,
    // Documents an agent may open: those the question names, and those that searches and tools of this question found. A name
    // that occurs only in a title does not count: a document must not be able to send the agent elsewhere.
    reachable: BTreeSet<DocId>,
}

impl<'a, 'e> AnswerBuilder<'a, 'e> {
    pub(super) fn new(
        answerer: &'a CachedAnswerer<'a>,
        question: &'a AskRequest,
        events: &'e mut dyn EventSink,
    ) -> Self {
        let limits = question.limits;
        let nanodollars = (limits.nanodollars > 0).then_some(limits.nanodollars);
        let budget = QuestionBudget {
            calls: limits.calls,
            tokens: u64::from(limits.tokens),
            nanodollars,
        };
        let vision = answerer.vision.filter(|_| question.see);
        let client = answerer
            .tree_searcher
            .as_ref()
            .map(|searcher| searcher.client())
            .or(vision.map(|vision| vision.client));
        Self {
            answerer,
            question,
            session: client.map(|client| client.start_session(client.new_run_id("ask"), budget)),
            vision,
            pictures: None,
            events,
            context: AnswerContext::default(),
            search: SearchSummary::default(),
            steps: Vec::new(),
            sections: Vec::new(),
            degradation: None,
            rejected_calls: 0,
            has_hits: false,
            mode: AnswerMode::Search,
            allowance: None,
            first_passages: 0,
            reachable: BTreeSet::new(),
        }
    }
}

impl AnswerBuilder<'_, '_> {
    // The model's draft; `None` when no model answered.
    pub(super) async fn generate(&mut self) -> Result<Option<DraftAnswer>, AnswerError> {
        let sources = self.answerer.sources;
        let without_tree = scope::unreadable_documents(self.question, sources.catalog)?;
        if !without_tree.is_empty() {
            self.step(
                StepKind::Plan,
                format!(
                    "not searched, because they have no tree: {}",
                    without_tree.join(", ")
                ),
            );
        }
        let text = self.standalone_question().await;
        self.context
            .set_question(&text, self.question.item.as_ref());
        let first = self.first_search(&text).await?;
        if first.hits.is_empty() {
            scope::check_item(self.question, sources.catalog, sources.store).await?;
        }
        let parts = self.sub_questions(&text, &first)?;
        let mut requests = Vec::new();
        let share = (self.question.limits.sections / parts.len()).max(1);
        for part in &parts {
            requests.push(self.find_sections(&text, part, share, &first).await?);
        }
        let room = self.question.limits.context_tokens / parts.len() as u32;
        for requests in &requests {
            self.read_sections(requests, room).await?;
        }
        if self.session.is_none() {
            self.degrade(
                "model.not_configured",
                "no model is configured: this answer lists what a search without a model found",
                SET_MODEL,
            );
            return Ok(None);
        }
        match (self.question.mode, self.answerer.tools) {
            (AnswerMode::Agent, Some(tools)) => {
                self.run_agent(&text, tools, DraftAnswer::default()).await
            }
            (AnswerMode::Auto, tools) => self.answer_in_steps(&text, tools).await,
            _ => Ok(self.ask_model(&text).await),
        }
    }

    // Rewrites a follow-up so that it can be understood without the turns before.
    async fn standalone_question(&mut self) -> String {
        let text = self.question.text.clone();
        let Some(last) = self.question.earlier.last() else {
            return text;
        };
        // Without a model both questions are searched for.
        let both = format!("{text} ({})", last.question);
        let Some(session) = self.session.clone() else {
            return both;
        };
        match session
            .complete(
                &prompt::standalone_prompt(&text, &self.question.earlier),
                |restated: StandaloneQuestion| match restated.standalone.trim() {
                    "" => Err("standalone is empty".to_owned()),
                    text if text.chars().count() > MAX_QUERY_CHARS => {
                        Err("standalone is too long".to_owned())
                    }
                    text => Ok(text.to_owned()),
                },
            )
            .await
        {
            Ok(standalone) => {
                self.step(StepKind::Plan, format!("understood as: {standalone}"));
                standalone
            }
            Err(error) => {
                self.degrade_after(&error, "searched with the words of the previous question");
                both
            }
        }
    }

    // One search for the whole question. It tells what the question names, and is sent as the route.
    async fn first_search(&mut self, text: &str) -> Result<SearchResults, AnswerError> {
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

    fn search_query(&self, text: &str, within: &DocumentScope, limit: usize) -> Query {
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

    fn sub_questions(&mut self, text: &str, first: &SearchResults) -> PortResult<Vec<SubQuestion>> {
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
    async fn find_sections(
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
    async fn search(&mut self, query: &Query) -> Result<SearchResults, SearchError> {
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
        strategy: crate::tree_search::TreeSearchStrategy,
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

    async fn read_sections(
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

    // `None` when the model is unavailable or the budget is exhausted.
    async fn ask_model(&mut self, text: &str) -> Option<DraftAnswer> {
        if self.context.passages.is_empty() && self.has_hits {
            // What was not read cannot be said to be missing.
            self.degrade(
                LIMIT_CODE,
                "none of the sections found could be read: this answer lists them",
                "allow more context_tokens",
            );
            return None;
        }
        if self.context.passages.is_empty() {
            self.step(StepKind::Ask, "nothing was found to read".into());
            return Some(DraftAnswer::default());
        }
        let session = self.session.clone()?;
        if self.is_budget_exhausted(&session) {
            return None;
        }
        self.view_pages().await;
        let session = self.drafting_session(session);
        let prompt =
            prompt::answer_prompt(text, &self.question.earlier, &self.context, self.pictures());
        let drafted = session.complete(&prompt, |draft| prompt::validate_draft(text, draft));
        match drafted.await {
            Ok(draft) => {
                let what = if draft.answerable {
                    format!("{} claims", draft.claims.len())
                } else {
                    "not answered".into()
                };
                self.step(
                    StepKind::Ask,
                    format!("{}: {what}", session.client().model()),
                );
                Some(draft)
            }
            Err(error) => {
                self.record_failure(&error);
                None
            }
        }
    }

    // Draws the pictures for all drafts, once.
    async fn view_pages(&mut self) {
        let Some(vision) = self.vision.filter(|_| self.pictures.is_none()) else {
            return;
        };
        let (pictures, lacking) = vision.view_pages(&self.context).await;
        let tokens: u32 = pictures.iter().map(|picture| picture.image.tokens()).sum();
        let what = format!("{} pictures of pages, {tokens} tokens", pictures.len());
        self.step(StepKind::Read, what);
        if let Some(Degradation {
            code,
            message,
            next,
        }) = lacking
        {
            let message = format!("{message}: answered without the picture");
            self.degrade(&code, &message, &next.unwrap_or_default());
        }
        self.pictures = Some(pictures);
    }

    fn pictures(&self) -> &[Picture] {
        self.pictures.as_deref().unwrap_or_default()
    }

    // Drafts from pictures are asked of the vision model, on the same account.
    fn drafting_session(&self, session: LlmSession) -> LlmSession {
        match self.vision.filter(|_| !self.pictures().is_empty()) {
            Some(vision) => session.with_client(vision.client),
            None => session,
        }
    }

    // Records the degradation when it is.
    fn is_budget_exhausted(&mut self, session: &LlmSession) -> bool {
        let limit = self.question.limits.nanodollars;
        let usage = session.usage();
        let over = limit > 0 && usage.nanodollars.is_some_and(|usage| usage >= limit);
        if over {
            self.degrade(
                LIMIT_CODE,
                "the money it may cost is used up",
                "allow more: --budget, limits.nanodollars",
            );
        }
        over
    }

    fn record_failure(&mut self, error: &SessionError) {
        self.degrade_after(error, "this answer lists what a search found");
    }

    // Records that the model did less than asked, why, and what was done instead.
    fn degrade_after(&mut self, error: &SessionError, instead: &str) {
        match error {
            SessionError::BudgetExhausted { message } => {
                self.degrade(
                    LIMIT_CODE,
                    &format!("{message}: {instead}"),
                    "allow more calls or tokens",
                );
            }
            SessionError::TooLong { .. } => {
                self.degrade(
                    LIMIT_CODE,
                    &format!("{error}: {instead}"),
                    "read less: fewer sections, a smaller context",
                );
            }
            SessionError::Unavailable(failure) | SessionError::Unusable(failure) => {
                self.degrade(
                    &failure.code,
                    &format!("{}: {instead}", failure.message),
                    error.next().unwrap_or(RETRY_LATER),
                );
            }
        }
    }

    fn degrade(&mut self, code: &str, message: &str, next: &str) {
        self.step(StepKind::Degrade, format!("{code}: {message}"));
        self.degradation.get_or_insert(Degradation {
            code: code.into(),
            message: message.into(),
            next: Some(next.into()),
        });
    }

    fn step(&mut self, kind: StepKind, what: String) {
        self.push_step(AnswerStep {
            kind,
            what,
            thinking: String::new(),
        });
    }

    fn push_step(&mut self, step: AnswerStep) {
        self.events.send(AnswerEvent::Step(step.clone()));
        self.steps.push(step);
    }

    pub(super) fn finish(mut self, id: &str, draft: Option<&DraftAnswer>) -> PortResult<Answer> {
        let AnswerBuilder {
            question, answerer, ..
        } = self;
        let is_absent = draft.is_some_and(|draft| !draft.answerable);
        let unreadable = self.search.documents_unreadable;
        if is_absent && unreadable > 0 {
            let message = format!("{unreadable} of the documents in scope could not be read");
            self.degrade(
                search::UNREADABLE,
                &message,
                "restore them, or ingest them again",
            );
        }
        // Documents that were not searched may have the answer.
        let is_partial = self.search.documents_not_indexed + unreadable > 0;
        let draft = draft.filter(|draft| draft.answerable || !is_partial);
        let (outcome, mut composed) = match draft {
            None => (AnswerOutcome::SearchOnly, ComposedAnswer::default()),
            Some(draft) if !draft.answerable => {
                (AnswerOutcome::NotInDocuments, ComposedAnswer::default())
            }
            Some(draft) => {
                let composed = claims::compose_answer(
                    draft,
                    &self.context,
                    self.pictures(),
                    (answerer.sources.catalog, answerer.collection),
                    question.citations,
                )?;
                let verified = composed
                    .claims
                    .iter()
                    .filter(|claim| claim.verified)
                    .count();
                self.step(
                    StepKind::Check,
                    format!("{verified} of {} claims verified", composed.claims.len()),
                );
                (AnswerOutcome::Answered, composed)
            }
        };
        composed.rejected.tool_calls = self.rejected_calls;
        let text = match outcome {
            AnswerOutcome::Answered => composed.text,
            AnswerOutcome::NotInDocuments => self.not_found_text(),
            AnswerOutcome::SearchOnly => String::new(),
        };
        let missing = draft.map(|draft| draft.missing.clone()).unwrap_or_default();
        for section in &mut self.sections {
            section.cited = composed.citations.iter().any(|citation| {
                citation.doc_id == section.doc_id && citation.section_id == section.section_id
            });
        }
        let usage = self
            .session
            .as_ref()
            .map(LlmSession::usage)
            .unwrap_or_default();
        let answered = outcome != AnswerOutcome::SearchOnly;
        let model = self.session.clone().map(|session| {
            let session = self.drafting_session(session);
            session.client().model().to_owned()
        });
        let pictures = self.pictures.take().unwrap_or_default();
        // A degraded answer gets its own id, so that the question is answered again when the model is back.
        let id = self
            .degradation
            .as_ref()
            .map_or_else(|| id.to_owned(), |degradation| degraded_id(id, degradation));
        Ok(Answer {
            id,
            question: question.text.clone(),
            outcome,
            text,
            final_answer: composed.final_answer,
            missing,
            claims: composed.claims,
            citations: composed.citations,
            pictures: pictures.into_iter().map(|picture| picture.page).collect(),
            confidence: (outcome == AnswerOutcome::Answered).then_some(composed.confidence),
            mode: self.mode,
            model: model.filter(|_| answered),
            degradation: self.degradation,
            searched: self.search,
            sections: self.sections,
            steps: self.steps,
            rejected: composed.rejected,
            usage: GenerationUsage {
                calls: usage.calls,
                prompt_tokens: usage.prompt_tokens,
                output_tokens: usage.output_tokens,
                nanodollars: usage.nanodollars,
            },
            is_replay: false,
        })
    }

    fn not_found_text(&self) -> String {
        let SearchSummary {
            documents,
            documents_in_scope,
            names,
            ..
        } = &self.search;
        let missing_terms = self.search.known_missing_terms();
        let read = match names.len() {
            0 => "nothing was found to read".to_owned(),
            1 => format!("{} sections of {} were read", self.sections.len(), names[0]),
            more => format!(
                "{} sections of {more} documents were read",
                self.sections.len()
            ),
        };
        let lacking = missing_terms.iter().map(|missing| format!("; {missing}"));
        let lacking: String = lacking.collect();
        format!(
            "Not in these documents: {documents} of {documents_in_scope} were searched, {read}{lacking}."
        )
    }
}
