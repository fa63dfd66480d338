//! Who answers questions in words over a store: one librarian for each question, and answers that are being made.
//!
//! Who asks what is being answered already hears the same answer from its beginning: a hundred people with one question are one call
//! of the model. An answer is made to its end also where no one waits for it any more.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use stemma_answers::tree_search::TreeSearchSources;
use stemma_answers::{
    Answer, AnswerError, AnswerEvent, AnswerLimits, AnswerMode, AnswerStore, Answerer, AskRequest,
    CachedAnswerer, EventSink, ToolSet,
};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_retrieval::search::ItemRef;
use tokio::sync::watch;

use crate::Archive;

/// What answers may cost, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerSettings {
    /// What one answer may cost at most: a caller may ask for less and is refused more. `nanodollars` 0: no limit of money.
    pub limits: AnswerLimits,
    /// Seconds in which an answer has to be made, also where no one waits for it any more; then what was begun ends.
    pub seconds: u64,
}

impl Default for AnswerSettings {
    fn default() -> Self {
        Self {
            limits: AnswerLimits::MAX,
            seconds: 900,
        }
    }
}

/// Answers questions from the collections of one store; with the model of each reader, or by search alone.
pub struct AnswerService {
    env: Env,
    blobs: Arc<dyn Blobs>,
    collections: Mutex<HashMap<Collection, Arc<CollectionAnswers>>>,
    settings: AnswerSettings,
    agent_tools: AgentToolsFn,
}

/// What is kept of the answers of one collection.
struct CollectionAnswers {
    store: AnswerStore,
    in_flight: Mutex<HashMap<String, Arc<EventLog>>>,
}

/// What is told of an answer that is being made: how many events, and whether it has ended.
struct EventLog {
    events: Mutex<Vec<AnswerEvent>>,
    /// Events so far, and the end.
    progress: watch::Sender<(usize, Option<Result<Answer, AnswerError>>)>,
}

/// Answers questions in words over what a reader reads.
pub trait AnswererFactory: Send + Sync {
    /// The answerer over this state of a collection.
    fn answerer(&self, archive: &Arc<Archive>) -> Arc<dyn Answerer>;
}

/// Makes the tools with which an agent reads an archive while it answers one question, limited to one Item where the
/// question is.
pub type AgentToolsFn = fn(Env, Arc<Archive>, Option<ItemRef>) -> Box<dyn ToolSet>;

impl AnswerService {
    /// Answers over `blobs`; nothing is read before someone asks.
    pub fn new(
        env: Env,
        blobs: Arc<dyn Blobs>,
        settings: AnswerSettings,
        agent_tools: AgentToolsFn,
    ) -> Self {
        Self {
            env,
            blobs,
            collections: Mutex::default(),
            settings,
            agent_tools,
        }
    }

    fn collection_answers(&self, collection: &Collection) -> Arc<CollectionAnswers> {
        let mut shelves = lock(&self.collections);
        Arc::clone(shelves.entry(collection.clone()).or_insert_with(|| {
            let answers = AnswerStore::new(self.env.clone(), Arc::clone(&self.blobs), collection);
            Arc::new(CollectionAnswers {
                store: answers,
                in_flight: Mutex::default(),
            })
        }))
    }
}

impl AnswererFactory for AnswerService {
    fn answerer(&self, archive: &Arc<Archive>) -> Arc<dyn Answerer> {
        let env = self.env.clone();
        let settings = self.settings;
        Arc::new(SnapshotAnswerer {
            env,
            archive: Arc::clone(archive),
            answers: self.collection_answers(&archive.collection),
            settings,
            agent_tools: self.agent_tools,
            id: OnceLock::new(),
        })
    }
}

/// Answers over one state of a collection.
struct SnapshotAnswerer {
    env: Env,
    archive: Arc<Archive>,
    answers: Arc<CollectionAnswers>,
    settings: AnswerSettings,
    agent_tools: AgentToolsFn,
    // A request asks for the id of its question and then for the answer. Computing the id reads the whole scope.
    id: OnceLock<(AskRequest, String)>,
}

impl SnapshotAnswerer {
    fn cached_answerer<'a>(&'a self, tools: Option<&'a dyn ToolSet>) -> CachedAnswerer<'a> {
        let archive = self.archive.as_ref();
        CachedAnswerer {
            collection: &archive.collection,
            sources: TreeSearchSources {
                search: archive,
                store: archive,
                catalog: archive.catalog(),
            },
            tree_searcher: archive.tree_searcher().cloned(),
            tools,
            store: &self.answers.store,
            max_limits: self.settings.limits,
        }
    }

    /// The answer that is being made to this question; begun, where none is.
    fn start_or_join(&self, id: &str, question: &AskRequest) -> Arc<EventLog> {
        let mut making = lock(&self.answers.in_flight);
        if let Some(log) = making.get(id) {
            return Arc::clone(log);
        }
        let log = Arc::new(EventLog {
            events: Mutex::default(),
            progress: watch::Sender::new((0, None)),
        });
        making.insert(id.to_owned(), Arc::clone(&log));
        let env = self.env.clone();
        let settings = self.settings;
        let over = Self {
            env,
            archive: Arc::clone(&self.archive),
            answers: Arc::clone(&self.answers),
            settings,
            agent_tools: self.agent_tools,
            id: OnceLock::new(),
        };
        let id = id.to_owned();
        let question = question.clone();
        let producer = Arc::clone(&log);
        let answering = async move {
            let answered = AssertUnwindSafe(over.answer_with_timeout(&id, &question, &producer))
                .catch_unwind()
                .await;
            let ended = answered.unwrap_or_else(|_| {
                tracing::error!(id, "the making of an answer panicked");
                Err(AnswerError::Internal)
            });
            lock(&over.answers.in_flight).remove(&id);
            producer.progress.send_modify(|(_, end)| *end = Some(ended));
        };
        drop(self.env.spawn(answering)); // ends with the answer
        log
    }

    /// The answer, or the end of its time: who asked may have gone, and an agent could go on for long.
    async fn answer_with_timeout(
        &self,
        id: &str,
        question: &AskRequest,
        log: &EventLog,
    ) -> Result<Answer, AnswerError> {
        let seconds = self.settings.seconds;
        let generating = self.generate(id, question, log);
        match tokio::time::timeout(Duration::from_secs(seconds), generating).await {
            Ok(answered) => answered,
            Err(_) => {
                let late = AnswerError::Timeout { seconds };
                let mut sink = log;
                sink.send(AnswerEvent::Error {
                    code: late.code().into(),
                    message: late.to_string(),
                });
                Err(late)
            }
        }
    }

    async fn generate(
        &self,
        id: &str,
        question: &AskRequest,
        log: &EventLog,
    ) -> Result<Answer, AnswerError> {
        let mut sink = log;
        if question.mode != AnswerMode::Agent {
            return self
                .cached_answerer(None)
                .answer_as(id, question, &mut sink)
                .await;
        }
        let inside = Arc::new(self.archive.restricted(&question.within, &question.filter));
        let tools = (self.agent_tools)(self.env.clone(), inside, question.item.clone());
        self.cached_answerer(Some(tools.as_ref()))
            .answer_as(id, question, &mut sink)
            .await
    }
}

impl EventLog {
    /// Tells all of it from its beginning, and what comes, to its end.
    async fn stream_to(&self, events: &mut dyn EventSink) -> Result<Answer, AnswerError> {
        let mut length = self.progress.subscribe();
        let mut sent = 0;
        loop {
            let end = {
                let state = length.borrow_and_update();
                state.1.clone()
            };
            let fresh: Vec<AnswerEvent> = lock(&self.events)[sent..].to_vec();
            sent += fresh.len();
            fresh.into_iter().for_each(|event| events.send(event));
            if let Some(end) = end {
                return end;
            }
            if length.changed().await.is_err() {
                return Err(AnswerError::Internal);
            }
        }
    }
}

impl EventSink for &EventLog {
    fn send(&mut self, event: AnswerEvent) {
        let length = {
            let mut events = lock(&self.events);
            events.push(event);
            events.len()
        };
        self.progress.send_modify(|(count, _)| *count = length);
    }
}

#[async_trait]
impl Answerer for SnapshotAnswerer {
    async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        self.start_or_join(&self.answer_id(question), question)
            .stream_to(events)
            .await
    }

    async fn follow(
        &self,
        id: &str,
        events: &mut dyn EventSink,
    ) -> Option<Result<Answer, AnswerError>> {
        let log = lock(&self.answers.in_flight).get(id).cloned()?;
        Some(log.stream_to(events).await)
    }

    fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        self.cached_answerer(None).check(question)
    }

    fn answer_id(&self, question: &AskRequest) -> String {
        let answerer = self.cached_answerer(None);
        let (memoized, id) = self
            .id
            .get_or_init(|| (question.clone(), answerer.answer_id(question)));
        if memoized == question {
            id.clone()
        } else {
            answerer.answer_id(question)
        }
    }

    fn is_in_flight(&self, id: &str) -> bool {
        lock(&self.answers.in_flight).contains_key(id)
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        let stored = self.answers.store.get_promised(id).await?;
        Ok(stored.filter(|answer| self.has_all_sources(answer)))
    }
}

impl SnapshotAnswerer {
    /// Whether all documents that an answer quotes are there: what quotes a removed one is gone with it.
    fn has_all_sources(&self, answer: &Answer) -> bool {
        let quoted = answer.citations.iter().map(|citation| &citation.doc_id);
        let mut all = quoted.chain(answer.sections.iter().map(|section| &section.doc_id));
        let listed = |doc: &String| {
            doc.parse()
                .ok()
                .and_then(|doc| self.archive.catalog().get(doc)?.entry())
        };
        all.all(|doc| listed(doc).is_some())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
