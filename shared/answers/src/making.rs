//! One answer while it is made: found, read, asked for, and written down.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_document::DocId;

use super::AnswerError;
use super::claims::{self, Composed};
use super::compose::{self, Draft, Restated};
use super::event::{Event, Sink, Step, StepKind};
use super::librarian::Librarian;
use super::passages::{Ground, Wanted};
use super::plan::{Part, plan};
use super::question::{Finding, Mode, Question};
use super::record::{Answer, Degraded, Looked, Outcome, ReadSection, Spent};
use super::scope;
use super::store::lesser_id;
use super::tools::{self, DONE, Told, Tools};
use crate::reason::accounted::Accounted;
use crate::reason::{AskError, Budget, Consultation};
use stemma_catalog::locator::Locator;
use stemma_retrieval::find::{self, FindError, Finder as _, Found, MAX_QUERY_CHARS, Query, Within};

/// Hits of the search that says what a question names.
const FIRST_HITS: usize = 20;
/// Names of documents that an answer repeats.
const MAX_NAMES: usize = 10;
/// The code of an answer that stopped at what it may cost.
const LIMIT: &str = "answer.limit";
/// What to do about a model that stays away.
const LATER: &str = "ask again later; stemma doctor says how the model is";

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
    /// Documents that an agent may open: those the question names, and those that searches and tools of this question found.
    /// A name that stands in a title alone is none of them.
    known: BTreeSet<DocId>,
}

impl<'a, 'e> Making<'a, 'e> {
    pub(super) fn of(
        librarian: &'a Librarian<'a>,
        question: &'a Question,
        events: &'e mut dyn Sink,
    ) -> Self {
        let limits = question.limits;
        let nanodollars = (limits.nanodollars > 0).then_some(limits.nanodollars);
        let budget = Budget {
            calls: limits.calls,
            tokens: u64::from(limits.tokens),
            nanodollars,
        };
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
            known: BTreeSet::new(),
        }
    }
}

impl Making<'_, '_> {
    /// What a model says; `None` where none does.
    pub(super) async fn make(&mut self) -> Result<Option<Draft>, AnswerError> {
        let sources = self.librarian.sources;
        let bare = scope::readable(self.question, sources.catalogue)?;
        if !bare.is_empty() {
            self.step(
                StepKind::Plan,
                format!("not searched, for there is no tree: {}", bare.join(", ")),
            );
        }
        let text = self.standalone().await;
        self.ground.look_for(&text);
        let first = self.first(&text).await?;
        if first.hits.is_empty() {
            scope::has_item(self.question, sources.catalogue, sources.shelf).await?;
        }
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
        let Some(last) = self.question.earlier.last() else {
            return text;
        };
        // Without a model the words of both are looked for.
        let both = format!("{text} ({})", last.question);
        let Some(consultation) = self.consultation.clone() else {
            return both;
        };
        match consultation
            .ask(
                &compose::restate(&text, &self.question.earlier),
                |restated: Restated| match restated.standalone.trim() {
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
                self.lessened(&error, "looked for with the words of the question before");
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
        let filter = self.question.filter.clone();
        let item = self.question.item.clone();
        let within = within.clone();
        Query {
            text: text.to_owned(),
            within,
            filter,
            item,
            limit,
            strategy,
            ..Query::default()
        }
    }

    fn parts(&mut self, text: &str, first: &Found) -> Vec<Part> {
        let plan = plan(self.question, text, first, self.librarian.sources.catalogue);
        if plan.parts.len() > 1 {
            let names: Vec<&str> = plan.parts.iter().map(|part| part.what.as_str()).collect();
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
        plan.parts
    }

    /// The sections of a part that answer it, best first.
    async fn find(
        &mut self,
        text: &str,
        part: &Part,
        limit: usize,
        first: &Found,
    ) -> Result<Vec<Wanted>, AnswerError> {
        let whole = part.what.is_empty();
        let mut query = Query {
            item: part.item.clone(),
            ..self.query(text, &part.within, limit)
        };
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
        self.known.extend(found.hits.iter().map(|hit| hit.doc));
        let place = if whole {
            String::new()
        } else {
            format!("{}: ", part.what)
        };
        self.step(
            StepKind::Search,
            format!(
                "{place}{} sections by {}",
                found.hits.len(),
                self.question.strategy.as_str()
            ),
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
            Some(consultation) => {
                Accounted {
                    finder,
                    consultation,
                }
                .find(query)
                .await
            }
            None => finder.find(query).await,
        }
    }

    async fn walk(
        &mut self,
        query: &Query,
        strategy: crate::reason::Strategy,
    ) -> Result<Found, FindError> {
        let (Some(reasoner), Some(consultation)) = (&self.librarian.reasoner, &self.consultation)
        else {
            return self.search(query).await;
        };
        let walked = reasoner
            .walk(self.librarian.sources, query, strategy, consultation)
            .await?;
        for step in &walked.reasoning.steps {
            let what = format!("{}: {}", step.what, step.why);
            let thinking = step.thinking.join("\n");
            self.tell(Step {
                kind: StepKind::Search,
                what,
                thinking,
            });
        }
        for note in &walked.reasoning.notes {
            match AskError::CODES.contains(&note.code.as_str()) {
                // What a walk could not ask, it found by words: another answer may come when it can.
                true if AskError::LIMITS.contains(&note.code.as_str()) => {
                    self.degrade(LIMIT, &note.message, "allow more calls or tokens");
                }
                true => self.degrade(&note.code, &note.message, LATER),
                false => self.step(
                    StepKind::Degrade,
                    format!("{}: {}", note.code, note.message),
                ),
            }
        }
        Ok(walked.found)
    }

    async fn read(&mut self, wanted: &[Wanted], room: u32) -> Result<Range<usize>, AnswerError> {
        let sources = self.librarian.sources;
        let read = self
            .ground
            .read(sources.shelf, sources.catalogue, wanted, room)
            .await?;
        if read.is_empty() {
            return Ok(read);
        }
        let tokens: u32 = self.ground.passages[read.clone()]
            .iter()
            .map(|passage| passage.tokens)
            .sum();
        self.step(
            StepKind::Read,
            format!("{} passages, {tokens} tokens", read.len()),
        );
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
                let what = if draft.answerable {
                    format!("{} claims", draft.claims.len())
                } else {
                    "not answered".into()
                };
                self.step(
                    StepKind::Ask,
                    format!("{}: {what}", consultation.asker().model()),
                );
                Some(draft)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// Lets the model call tools until what was read answers the question. Who chooses never sees text of pages.
    async fn explore(
        &mut self,
        text: &str,
        tools: &dyn Tools,
    ) -> Result<Option<Draft>, AnswerError> {
        let Some(consultation) = self.consultation.clone() else {
            return Ok(None);
        };
        let limits = self.question.limits;
        let (what, data) = self.told_of_reading(0..self.ground.passages.len());
        let mut told = vec![Told { what, data }];
        let mut tried = usize::MAX;
        self.know(text);
        let mut last: Option<Draft> = None;
        for turn in 0..limits.turns.max(1) {
            if self.is_spent(&consultation) {
                return Ok(None);
            }
            let prompt = tools::prompt(text, tools, &told, limits.turns - turn);
            let call = match consultation.ask(&prompt, tools::read).await {
                Ok(call) => call,
                Err(error) => {
                    // What was read can still be answered from, where the model comes back; a budget does not.
                    self.lessened(&error, "no further tool was called");
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
                    None => return Ok(None),
                }
                told.push(Told {
                    what: "answer: what was read so far does not answer the question".into(),
                    ..Told::default()
                });
                continue;
            }
            told.push(self.call(&call, tools).await?);
        }
        if tried != self.ground.passages.len() {
            last = self.ask(text).await;
        }
        // Who could not look on does not know that nothing is there.
        Ok(last.filter(|draft| draft.answerable || self.degraded.is_none()))
    }

    async fn call(
        &mut self,
        call: &tools::ToolCall,
        tools: &dyn Tools,
    ) -> Result<Told, AnswerError> {
        let described = tools.described();
        let known = described
            .iter()
            .find(|(name, _)| *name == call.tool)
            .map(|(name, _)| *name);
        let shown = |text: &str| text.chars().take(80).collect::<String>();
        let arguments = [
            &call.query,
            &call.document,
            &call.pages,
            &call.section,
            &call.item,
            &call.pattern,
        ];
        let arguments: Vec<String> = arguments
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| shown(text))
            .collect();
        let what = format!("{}({})", shown(&call.tool), arguments.join(", "));
        let refused = |told: &str| tools::ToolReply {
            told: told.into(),
            refused: true,
            ..tools::ToolReply::default()
        };
        let reply = match known {
            None => refused("there is no such tool"),
            Some(_) if !self.may_open(&call.document) => {
                refused("refused: neither the question names this document nor has a tool found it")
            }
            Some(_) => tools.call(call).await,
        };
        let kind = if reply.refused {
            StepKind::Refused
        } else {
            StepKind::Tool
        };
        self.refused_calls += u32::from(reply.refused);
        self.tell(Step {
            kind,
            what: what.clone(),
            thinking: shown(&call.why),
        });
        let used: u32 = self
            .ground
            .passages
            .iter()
            .map(|passage| passage.tokens)
            .sum();
        // What is asked for by an agent may take as much again as what was found first.
        let room = self
            .question
            .limits
            .context_tokens
            .saturating_mul(2)
            .saturating_sub(used);
        let read = self.read(&reply.wanted, room).await?;
        self.known.extend(reply.shown);
        let (read, places) = self.told_of_reading(read);
        Ok(Told {
            what: format!("{}: {}; {read}", known.unwrap_or("no tool"), reply.told),
            data: format!("{what}\n{}\n{places}", reply.found),
        })
    }

    /// Takes up what the question itself names, and all of a scope that lists documents.
    fn know(&mut self, text: &str) {
        let catalogue = self.librarian.sources.catalogue;
        let named = text
            .split_whitespace()
            .map(|word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
            .filter(|word| word.len() > 2);
        let named: Vec<DocId> = named
            .filter_map(|word| Some(catalogue.resolve(&word).ok()?.doc()))
            .collect();
        self.known.extend(named);
        if let Within::Documents(docs) = &self.question.within {
            self.known.extend(docs);
        }
    }

    /// Whether an agent may open what it names: nothing, or a document that the question or a tool named. What there is not, the tool
    /// says itself.
    fn may_open(&self, document: &str) -> bool {
        // A name, a locator, or an address of ours: `stemma://DOC/section/0007`.
        let bare = document
            .trim()
            .split_once("://")
            .map_or(document.trim(), |(_, rest)| {
                rest.split('/').next().unwrap_or_default()
            });
        let name = Locator::parse(bare).document;
        let catalogue = self.librarian.sources.catalogue;
        let known = name
            .parse::<DocId>()
            .ok()
            .filter(|doc| catalogue.get(*doc).is_some());
        let doc = known.or_else(|| Some(catalogue.resolve(&name).ok()?.doc()));
        document.trim().is_empty() || doc.is_none_or(|doc| self.known.contains(&doc))
    }

    /// What was read: how much, and of what.
    fn told_of_reading(&self, read: Range<usize>) -> (String, String) {
        let sections = self.ground.sections(read, 0);
        let what = if sections.is_empty() {
            "nothing new was read".into()
        } else {
            format!("{} sections were read", sections.len())
        };
        (
            what,
            sections
                .iter()
                .map(|section: &ReadSection| {
                    let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
                    format!(
                        "read {} · {} · pages {} · {} tokens",
                        section.locator,
                        section.path.join(" › "),
                        pages.join(","),
                        section.tokens
                    )
                })
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }

    /// Whether nothing more may be spent; said where it is so.
    fn is_spent(&mut self, consultation: &Consultation) -> bool {
        let limit = self.question.limits.nanodollars;
        let spent = consultation.spent();
        let over = limit > 0 && spent.nanodollars.is_some_and(|spent| spent >= limit);
        if over {
            self.degrade(
                LIMIT,
                "the money it may cost is used up",
                "allow more: --budget, limits.nanodollars",
            );
        }
        over
    }

    fn failed(&mut self, error: &AskError) {
        self.lessened(error, "these are the sections a search found");
    }

    /// Says that the model did less than it was asked for, why, and what was done instead.
    fn lessened(&mut self, error: &AskError, instead: &str) {
        match error {
            AskError::Budget { message } => {
                self.degrade(
                    LIMIT,
                    &format!("{message}: {instead}"),
                    "allow more calls or tokens",
                );
            }
            AskError::TooLong { .. } => {
                self.degrade(
                    LIMIT,
                    &format!("{error}: {instead}"),
                    "read less: fewer sections, a smaller context",
                );
            }
            AskError::Away(failure) | AskError::Unusable(failure) => {
                let next = failure.next.clone().unwrap_or_else(|| LATER.into());
                self.degrade(
                    &failure.code,
                    &format!("{}: {instead}", failure.message),
                    &next,
                );
            }
        }
    }

    fn degrade(&mut self, code: &str, message: &str, next: &str) {
        self.step(StepKind::Degrade, format!("{code}: {message}"));
        self.degraded.get_or_insert(Degraded {
            code: code.into(),
            message: message.into(),
            next: Some(next.into()),
        });
    }

    fn step(&mut self, kind: StepKind, what: String) {
        self.tell(Step {
            kind,
            what,
            thinking: String::new(),
        });
    }

    fn tell(&mut self, step: Step) {
        self.events.hear(Event::Step(step.clone()));
        self.steps.push(step);
    }

    /// The answer as it is kept.
    pub(super) fn record(mut self, id: &str, draft: Option<&Draft>) -> Answer {
        let Making {
            question,
            librarian,
            ..
        } = self;
        let (outcome, mut composed) = match draft {
            None => (Outcome::SearchOnly, Composed::default()),
            Some(draft) if !draft.answerable => (Outcome::NotInDocuments, Composed::default()),
            Some(draft) => {
                let composed = claims::compose(
                    draft,
                    &self.ground,
                    librarian.collection,
                    question.citations,
                );
                let verified = composed
                    .claims
                    .iter()
                    .filter(|claim| claim.verified)
                    .count();
                self.step(
                    StepKind::Check,
                    format!("{verified} of {} claims verified", composed.claims.len()),
                );
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
            section.cited = composed.citations.iter().any(|citation| {
                citation.doc_id == section.doc_id && citation.section_id == section.section_id
            });
        }
        let spent = self
            .consultation
            .as_ref()
            .map(Consultation::spent)
            .unwrap_or_default();
        let answered = outcome != Outcome::SearchOnly;
        // What was answered without the model, or with less of it than was asked for, is answered again when it is back: it has an
        // id of its own.
        let id = self
            .degraded
            .as_ref()
            .map_or_else(|| id.to_owned(), |degraded| lesser_id(id, &degraded.code));
        Answer {
            id,
            question: question.text.clone(),
            outcome,
            text,
            claims: composed.claims,
            citations: composed.citations,
            confidence: (outcome == Outcome::Answered).then_some(composed.confidence),
            model: librarian
                .reasoner
                .as_ref()
                .filter(|_| answered)
                .map(|reasoner| reasoner.asker().model().to_owned()),
            degraded: self.degraded,
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
        let Looked {
            documents,
            documents_in_scope,
            names,
            ..
        } = &self.looked;
        let read = match names.len() {
            0 => "nothing was found to read".to_owned(),
            1 => format!("{} sections of {} were read", self.sections.len(), names[0]),
            more => format!(
                "{} sections of {more} documents were read",
                self.sections.len()
            ),
        };
        format!(
            "Not in these documents: {documents} of {documents_in_scope} were searched, {read}."
        )
    }
}
