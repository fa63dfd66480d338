//! Generates one answer. [`find`] searches and reads sections, [`draft`] asks the model, [`follow_up_search`] and [`agent`] look
//! for what a draft leaves open, and [`finish`] checks the citations.

mod agent;
mod draft;
mod find;
mod finish;
mod follow_up_search;

use std::collections::BTreeSet;

use stemma_document::DocId;
use stemma_retrieval::search::MAX_QUERY_CHARS;

use super::AnswerError;
use super::answer::{AnswerStep, Degradation, ReadSection, SearchSummary, StepKind};
use super::cached::CachedAnswerer;
use super::context::AnswerContext;
use super::draft_answer::DraftAnswer;
use super::event::{AnswerEvent, EventSink};
use super::page_vision::{PageVision, Picture};
use super::prompt::{self, StandaloneQuestion};
use super::request::{AnswerMode, AskRequest};
use super::scope;
use crate::tree_search::{LlmSession, QuestionBudget, SessionError};

// Hits of the first search, which also tells what the question names.
const FIRST_HITS: usize = 20;
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
}
