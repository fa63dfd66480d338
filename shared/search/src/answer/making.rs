//! One answer while it is made: found, read, asked for, and written down.

use std::ops::Range;

use super::AnswerError;
use super::claims::{self, Composed};
use super::compose::{self, Draft, Restated};
use super::event::{Event, Sink, Step, StepKind};
use super::librarian::Librarian;
use super::passages::{Ground, Wanted};
use super::plan::{Part, plan};
use super::question::{Finding, Mode, Question};
use super::record::{Answer, Degraded, Looked, Outcome, ReadSection, Spent};
use super::store::id_of;
use super::tools::{self, DONE, Tools};
use crate::find::{self, FindError, Finder as _, Found, MAX_QUERY_CHARS, Query, Within};
use crate::reason::paid::Accounted;
use crate::reason::{AskError, Budget, Consultation};

/// Hits of the search that says what a question names.
const FIRST_HITS: usize = 20;
/// Names of documents that an answer repeats.
const MAX_NAMES: usize = 10;

/// An answer that is being made.
pub(super) struct Making<'a, 'e> {
    librarian: &'a Librarian<'a>,
    question: &'a Question,
    consultation: Option<Consultation>,
    events: &'e mut dyn Sink,
    ground: Ground,
    looked: Looked,
    steps: Vec<Step>,
    sections: Vec<ReadSection>,
    degraded: Option<Degraded>,
    refused_calls: u32,
}

impl<'a, 'e> Making<'a, 'e> {
    pub(super) fn of(librarian: &'a Librarian<'a>, question: &'a Question, events: &'e mut dyn Sink) -> Self {
        let limits = question.limits;
        let nanodollars = (limits.nanodollars > 0).then_some(limits.nanodollars);
        let budget = Budget { calls: limits.calls, tokens: u64::from(limits.tokens), nanodollars };
        let asker = librarian.reasoner.as_ref().map(|reasoner| reasoner.asker());
        Self {
            librarian,
            question,
            consultation: asker.map(|asker| asker.begin(asker.name("ask"), budget)),
            events,
            ground: Ground::default(),
            looked: Looked::default(),
            steps: Vec::new(),
            sections: Vec::new(),
            degraded: None,
            refused_calls: 0,
        }
    }
}

impl Making<'_, '_> {
    /// What a model says; `None` where none does.
    pub(super) async fn make(&mut self) -> Result<Option<Draft>, AnswerError> {
        let text = self.standalone().await;
        let first = self.first(&text).await?;
        let parts = self.parts(&text, &first);
        let mut wanted = Vec::new();
        let share = (self.question.limits.sections / parts.len()).max(1);
        for part in &parts {
            wanted.push(self.find(&text, part, share, &first).await?);
        }
        let room = self.question.limits.context_tokens / parts.len() as u32;
        for wanted in &wanted {
            self.read(wanted, room).await?;
        }
        if self.consultation.is_none() {
            self.degrade(
                "model.absent",
                "no model is configured: these are the sections a search without one found",
                "set [model], see stemma doctor",
            );
            return Ok(None);
        }
        match (self.question.mode, self.librarian.tools) {
            (Mode::Agent, Some(tools)) => self.explore(&text, tools).await,
            _ => Ok(self.ask(&text).await),
        }
    }

    /// The question as it can be understood without what was said before.
    async fn standalone(&mut self) -> String {
        let text = self.question.text.clone();
        let Some(last) = self.question.earlier.last() else { return text };
        // Without a model the words of both are looked for.
        let both = format!("{text} ({})", last.question);
        let Some(consultation) = self.consultation.clone() else { return both };
        let check = |restated: Restated| match restated.standalone.trim() {
            "" => Err("standalone is empty".to_owned()),
            text => Ok(text.chars().take(MAX_QUERY_CHARS).collect::<String>()),
        };
        match consultation.ask(&compose::restate(&text, &self.question.earlier), check).await {
            Ok(standalone) => {
                self.step(StepKind::Plan, format!("understood as: {standalone}"));
                standalone
            }
            Err(error) => {
                self.step(
                    StepKind::Degrade,
                    format!("{}: looked for with the words of the question before", error.code()),
                );
                both
            }
        }
    }

    /// What a question names, and what a first search finds; told as the route.
    async fn first(&mut self, text: &str) -> Result<Found, AnswerError> {
        let query = self.query(text, &self.question.within, FIRST_HITS);
        let found = self.search(&query).await?;
        self.looked = Looked {
            documents_in_scope: found.searched.documents_in_scope,
            documents: found.searched.documents,
            sections: found.searched.sections,
            routed: found.routed.clone(),
            queries: vec![text.to_owned()],
            names: Vec::new(),
        };
        // Told before anything is read: what was read is in the record alone.
        self.events.hear(Event::Route(self.looked.clone()));
        Ok(found)
    }

    fn query(&self, text: &str, within: &Within, limit: usize) -> Query {
        let strategy = match self.question.strategy {
            Finding::Search(strategy) => strategy,
            Finding::Walk(_) => find::Strategy::Auto,
        };
        let (filter, item, within) = (self.question.filter.clone(), self.question.item.clone(), within.clone());
        Query { text: text.to_owned(), within, filter, item, limit, strategy, ..Query::default() }
    }

    fn parts(&mut self, text: &str, first: &Found) -> Vec<Part> {
        let plan = plan(self.question, text, first, self.librarian.sources.catalogue);
        if plan.parts.len() > 1 {
            let names: Vec<&str> = plan.parts.iter().map(|part| part.what.as_str()).collect();
            self.step(StepKind::Plan, format!("{} parts: {}", names.len(), names.join(", ")));
        }
        if !plan.missing.is_empty() {
            self.step(StepKind::Plan, format!("no filing here of: {}", plan.missing.join(", ")));
        }
        plan.parts
    }

    /// The sections of a part that answer it, best first.
    async fn find(&mut self, text: &str, part: &Part, limit: usize, first: &Found) -> Result<Vec<Wanted>, AnswerError> {
        let whole = part.what.is_empty();
        let mut query = Query { item: part.item.clone(), ..self.query(text, &part.within, limit) };
        let mut found = match self.question.strategy {
            Finding::Walk(strategy) => self.walk(&query, strategy).await?,
            Finding::Search(_) if whole && limit <= FIRST_HITS => first.clone(),
            Finding::Search(_) => self.search(&query).await?,
        };
        // The Item was taken from how sections are called: where it has nothing, the question has to do without.
        if found.hits.is_empty() && query.item != self.question.item {
            query.item.clone_from(&self.question.item);
            found = self.search(&query).await?;
        }
        found.hits.truncate(limit);
        let place = if whole { String::new() } else { format!("{}: ", part.what) };
        self.step(
            StepKind::Search,
            format!("{place}{} sections by {}", found.hits.len(), self.question.strategy.as_str()),
        );
        if !whole {
            self.looked.queries.push(part.what.clone());
        }
        Ok(found.hits.iter().map(Wanted::of).collect())
    }

    /// Searches without a model, on the account of the question.
    async fn search(&mut self, query: &Query) -> Result<Found, FindError> {
        let finder = self.librarian.sources.finder;
        match &self.consultation {
            Some(consultation) => Accounted { finder, consultation }.find(query).await,
            None => finder.find(query).await,
        }
    }

    async fn walk(&mut self, query: &Query, strategy: crate::reason::Strategy) -> Result<Found, FindError> {
        let (Some(reasoner), Some(consultation)) = (&self.librarian.reasoner, &self.consultation) else {
            return self.search(query).await;
        };
        let walked = reasoner.walk(self.librarian.sources, query, strategy, consultation).await?;
        for step in &walked.reasoning.steps {
            let (what, thinking) = (format!("{}: {}", step.what, step.why), step.thinking.join("\n"));
            self.tell(Step { kind: StepKind::Search, what, thinking });
        }
        for note in &walked.reasoning.notes {
            self.step(StepKind::Degrade, format!("{}: {}", note.code, note.message));
        }
        Ok(walked.found)
    }

    async fn read(&mut self, wanted: &[Wanted], room: u32) -> Result<Range<usize>, AnswerError> {
        let sources = self.librarian.sources;
        let read = self.ground.read(sources.shelf, sources.catalogue, wanted, room).await?;
        if read.is_empty() {
            return Ok(read);
        }
        let tokens: u32 = self.ground.passages[read.clone()].iter().map(|passage| passage.tokens).sum();
        self.step(StepKind::Read, format!("{} passages, {tokens} tokens", read.len()));
        let sections = self.ground.sections(read.clone(), self.steps.len() - 1);
        for section in sections {
            if self.looked.names.len() < MAX_NAMES && !self.looked.names.contains(&section.name) {
                self.looked.names.push(section.name.clone());
            }
            self.events.hear(Event::Section(section.clone()));
            self.sections.push(section);
        }
        Ok(read)
    }

    /// What the model answers from what was read; `None` where it stays away, or may not be asked any more.
    async fn ask(&mut self, text: &str) -> Option<Draft> {
        if self.ground.passages.is_empty() {
            self.step(StepKind::Ask, "nothing was found to read".into());
            return Some(Draft::default());
        }
        let consultation = self.consultation.clone()?;
        if self.is_spent(&consultation) {
            return None;
        }
        let prompt = compose::prompt(text, &self.question.earlier, &self.ground);
        match consultation.ask(&prompt, compose::read).await {
            Ok(draft) => {
                let what =
                    if draft.answerable { format!("{} claims", draft.claims.len()) } else { "not answered".into() };
                self.step(StepKind::Ask, format!("{}: {what}", consultation.asker().model()));
                Some(draft)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// Lets the model call tools until what was read answers the question. Who chooses never sees text of pages.
    async fn explore(&mut self, text: &str, tools: &dyn Tools) -> Result<Option<Draft>, AnswerError> {
        let Some(consultation) = self.consultation.clone() else { return Ok(None) };
        let limits = self.question.limits;
        let mut told = vec![self.told_of_reading(0..self.ground.passages.len())];
        let mut tried = usize::MAX;
        let mut last: Option<Draft> = None;
        for turn in 0..limits.turns.max(1) {
            if self.is_spent(&consultation) {
                return Ok(last);
            }
            let prompt = tools::prompt(text, tools, &told, limits.turns - turn);
            let call = match consultation.ask(&prompt, tools::read).await {
                Ok(call) => call,
                Err(error) => {
                    // What was read can still be answered from, where the model comes back; a budget does not.
                    self.step(StepKind::Degrade, format!("{}: no further tool is called", error.code()));
                    break;
                }
            };
            if call.tool == DONE {
                if tried == self.ground.passages.len() {
                    break;
                }
                tried = self.ground.passages.len();
                match self.ask(text).await {
                    Some(draft) if draft.answerable => return Ok(Some(draft)),
                    Some(draft) => last = Some(draft),
                    None => return Ok(last),
                }
                told.push("answer: what was read so far does not answer the question".into());
                continue;
            }
            told.push(self.call(&call, tools).await?);
        }
        if tried == self.ground.passages.len() {
            return Ok(last);
        }
        Ok(self.ask(text).await.or(last))
    }

    async fn call(&mut self, call: &tools::ToolCall, tools: &dyn Tools) -> Result<String, AnswerError> {
        let known = tools.described().iter().any(|(name, _)| *name == call.tool);
        let shown = |text: &str| text.chars().take(80).collect::<String>();
        let arguments = [&call.query, &call.document, &call.pages, &call.section, &call.item, &call.pattern];
        let arguments: Vec<String> =
            arguments.into_iter().filter(|text| !text.is_empty()).map(|text| shown(text)).collect();
        let what = format!("{}({})", shown(&call.tool), arguments.join(", "));
        let reply = if known {
            tools.call(call).await
        } else {
            tools::ToolReply { told: "there is no such tool".into(), refused: true, ..tools::ToolReply::default() }
        };
        let kind = if reply.refused { StepKind::Refused } else { StepKind::Tool };
        self.refused_calls += u32::from(reply.refused);
        self.tell(Step { kind, what: what.clone(), thinking: shown(&call.why) });
        let used: u32 = self.ground.passages.iter().map(|passage| passage.tokens).sum();
        // What is asked for by an agent may take as much again as what was found first.
        let room = self.question.limits.context_tokens.saturating_mul(2).saturating_sub(used);
        let read = self.read(&reply.wanted, room).await?;
        Ok(format!("{what}\n{}\n{}", reply.told, self.told_of_reading(read)))
    }

    /// What was read, by names and pages.
    fn told_of_reading(&self, read: Range<usize>) -> String {
        let sections = self.ground.sections(read, 0);
        let line = |section: &ReadSection| {
            let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
            format!(
                "read {} · {} · pages {} · {} tokens",
                section.locator,
                section.path.join(" › "),
                pages.join(","),
                section.tokens
            )
        };
        if sections.is_empty() {
            "nothing new was read".into()
        } else {
            sections.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }

    /// Whether nothing more may be spent; said where it is so.
    fn is_spent(&mut self, consultation: &Consultation) -> bool {
        let (limit, spent) = (self.question.limits.nanodollars, consultation.spent());
        let over = limit > 0 && spent.nanodollars.is_some_and(|spent| spent >= limit);
        if over {
            self.degrade(
                "answer.limit",
                "the money it may cost is used up",
                "allow more: --budget, limits.nanodollars",
            );
        }
        over
    }

    fn failed(&mut self, error: &AskError) {
        let found = "these are the sections a search found";
        match error {
            AskError::Budget { message } => {
                self.degrade("answer.limit", &format!("{message}: {found}"), "allow more calls or tokens");
            }
            AskError::TooLong { .. } => self.degrade(
                "answer.limit",
                &format!("{error}: {found}"),
                "read less: fewer sections, a smaller context",
            ),
            AskError::Away(failure) | AskError::Unusable(failure) => {
                let next = failure
                    .next
                    .clone()
                    .unwrap_or_else(|| "ask again later; stemma doctor says how the model is".into());
                self.degrade(&failure.code, &format!("{}: {found}", failure.message), &next);
            }
        }
    }

    fn degrade(&mut self, code: &str, message: &str, next: &str) {
        self.step(StepKind::Degrade, format!("{code}: {message}"));
        self.degraded.get_or_insert(Degraded { code: code.into(), message: message.into(), next: Some(next.into()) });
    }

    fn step(&mut self, kind: StepKind, what: String) {
        self.tell(Step { kind, what, thinking: String::new() });
    }

    fn tell(&mut self, step: Step) {
        self.events.hear(Event::Step(step.clone()));
        self.steps.push(step);
    }

    /// The answer as it is kept.
    pub(super) fn record(mut self, id: String, draft: Option<&Draft>) -> Answer {
        let Making { question, librarian, .. } = self;
        let (outcome, mut composed) = match draft {
            None => (Outcome::SearchOnly, Composed::default()),
            Some(draft) if !draft.answerable => (Outcome::NotInDocuments, Composed::default()),
            Some(draft) => {
                let composed = claims::compose(draft, &self.ground, librarian.collection, question.citations);
                let verified = composed.claims.iter().filter(|claim| claim.verified).count();
                self.step(StepKind::Check, format!("{verified} of {} claims verified", composed.claims.len()));
                (Outcome::Answered, composed)
            }
        };
        composed.dropped.tool_calls = self.refused_calls;
        let text = match outcome {
            Outcome::Answered => composed.text,
            Outcome::NotInDocuments => self.not_there(),
            Outcome::SearchOnly => String::new(),
        };
        for section in &mut self.sections {
            section.cited = composed
                .citations
                .iter()
                .any(|citation| citation.doc_id == section.doc_id && citation.section_id == section.section_id);
        }
        let spent = self.consultation.as_ref().map(Consultation::spent).unwrap_or_default();
        let answered = outcome != Outcome::SearchOnly;
        // What was answered without the model is answered again when it is back: it has an id of its own.
        let id = match &self.degraded {
            Some(degraded) if !answered => id_of(&[&id, &degraded.code]),
            _ => id,
        };
        Answer {
            id,
            question: question.text.clone(),
            outcome,
            text,
            claims: composed.claims,
            citations: composed.citations,
            confidence: (outcome == Outcome::Answered).then_some(composed.confidence),
            model: librarian.reasoner.as_ref().filter(|_| answered).map(|reasoner| reasoner.asker().model().to_owned()),
            degraded: self.degraded.filter(|_| !answered),
            searched: self.looked,
            sections: self.sections,
            steps: self.steps,
            dropped: composed.dropped,
            usage: Spent {
                calls: spent.calls,
                prompt_tokens: spent.prompt_tokens,
                output_tokens: spent.output_tokens,
                nanodollars: spent.nanodollars,
            },
            replayed: false,
        }
    }

    fn not_there(&self) -> String {
        let Looked { documents, documents_in_scope, names, .. } = &self.looked;
        let read = match names.len() {
            0 => "nothing was found to read".to_owned(),
            1 => format!("{} sections of {} were read", self.sections.len(), names[0]),
            more => format!("{} sections of {more} documents were read", self.sections.len()),
        };
        format!("Not in these documents: {documents} of {documents_in_scope} were searched, {read}.")
    }
}
