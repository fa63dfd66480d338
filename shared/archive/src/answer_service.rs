//! Generates answers in background tasks, and shares each with everyone who asks the same question meanwhile.
//!
//! A question that is already being answered joins that answer and receives its events from the first: a hundred callers
//! with one question cost one generation. An answer is completed and stored even if all callers disconnect.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stemma_answers::tree_search::TreeSearchSources;
use stemma_answers::{
    Answer, AnswerError, AnswerEvent, AnswerLimits, AnswerMode, AnswerStore, Answerer, AskRequest,
    CachedAnswerer, EventSink, ToolSet,
};
use stemma_document::Collection;
use stemma_store::blobs::Blobs;
use stemma_store::work::outliving;
use stemma_store::{Env, PortResult};
use tokio::sync::watch;

use crate::vision::ArchiveViewer;
use crate::{AgentTools, Archive, Conversations, Vision};

/// Limits of all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerSettings {
    /// Upper bounds for one answer. A request may set lower ones; higher ones are an error. `nanodollars` 0: no cost limit.
    pub limits: AnswerLimits,
    /// Seconds after which generation is canceled.
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

/// Answers questions over the collections of one store: with the model of the archive, or by search alone.
pub struct AnswerService {
    env: Env,
    blobs: Arc<dyn Blobs>,
    collections: Mutex<HashMap<Collection, Arc<CollectionAnswers>>>,
    settings: AnswerSettings,
    vision: Option<Arc<Vision>>,
}

// The answers of one collection, stored and in progress.
struct CollectionAnswers {
    store: AnswerStore,
    in_flight: Mutex<HashMap<String, Arc<EventLog>>>,
}

// The events of an answer in progress.
struct EventLog {
    events: Mutex<Vec<AnswerEvent>>,
    // Number of events so far, and the result.
    progress: watch::Sender<(usize, Option<Result<Answer, AnswerError>>)>,
}

/// Creates an answerer for an archive.
pub trait AnswererFactory: Send + Sync {
    /// An answerer over the documents of `archive`.
    fn answerer(&self, archive: &Arc<Archive>) -> Arc<dyn Answerer>;

    /// The stored conversations of a collection; `None` where none are stored.
    fn conversations(&self, _collection: &Collection) -> Option<Conversations> {
        None
    }
}

impl AnswerService {
    /// Creates a service over `blobs`. Nothing is read before the first question.
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, settings: AnswerSettings) -> Self {
        Self {
            env,
            blobs,
            collections: Mutex::default(),
            settings,
            vision: None,
        }
    }

    /// Adds a vision model for the questions that ask for it.
    #[must_use]
    pub fn with_vision(self, vision: Option<Arc<Vision>>) -> Self {
        Self { vision, ..self }
    }

    fn collection_answers(&self, collection: &Collection) -> Arc<CollectionAnswers> {
        let mut collections = self.collections.lock();
        let answers = collections.entry(collection.clone()).or_insert_with(|| {
            Arc::new(CollectionAnswers {
                store: AnswerStore::new(self.env.clone(), Arc::clone(&self.blobs), collection),
                in_flight: Mutex::default(),
            })
        });
        Arc::clone(answers)
    }
}

impl AnswererFactory for AnswerService {
    fn answerer(&self, archive: &Arc<Archive>) -> Arc<dyn Answerer> {
        Arc::new(SnapshotAnswerer {
            env: self.env.clone(),
            archive: Arc::clone(archive),
            answers: self.collection_answers(&archive.collection),
            settings: self.settings,
            viewer: self
                .vision
                .as_ref()
                .map(|vision| Arc::new(ArchiveViewer::new(vision, archive))),
            id: OnceLock::new(),
        })
    }

    fn conversations(&self, collection: &Collection) -> Option<Conversations> {
        let blobs = Arc::clone(&self.blobs);
        Some(Conversations::new(self.env.clone(), blobs, collection))
    }
}

// Answers over one snapshot of a collection.
struct SnapshotAnswerer {
    env: Env,
    archive: Arc<Archive>,
    answers: Arc<CollectionAnswers>,
    settings: AnswerSettings,
    viewer: Option<Arc<ArchiveViewer>>,
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
            vision: self.viewer.as_ref().map(|viewer| viewer.vision()),
            max_limits: self.settings.limits,
        }
    }

    // The answer in progress to this question; starts one if there is none.
    fn start_or_join(&self, id: &str, question: &AskRequest) -> Arc<EventLog> {
        let mut in_flight = self.answers.in_flight.lock();
        if let Some(log) = in_flight.get(id) {
            return Arc::clone(log);
        }
        let log = Arc::new(EventLog {
            events: Mutex::default(),
            progress: watch::Sender::new((0, None)),
        });
        in_flight.insert(id.to_owned(), Arc::clone(&log));
        let answerer = Self {
            env: self.env.clone(),
            archive: Arc::clone(&self.archive),
            answers: Arc::clone(&self.answers),
            settings: self.settings,
            viewer: self.viewer.clone(),
            id: OnceLock::new(),
        };
        let id = id.to_owned();
        let question = question.clone();
        let producer = Arc::clone(&log);
        let answering = async move {
            let answered =
                AssertUnwindSafe(answerer.answer_with_timeout(&id, &question, &producer))
                    .catch_unwind()
                    .await;
            let ended = answered.unwrap_or_else(|_| {
                tracing::error!(id, "answer generation panicked");
                Err(AnswerError::Internal)
            });
            answerer.answers.in_flight.lock().remove(&id);
            producer.progress.send_modify(|(_, end)| *end = Some(ended));
        };
        drop(self.env.spawn(outliving(answering))); // ends with the answer
        log
    }

    // Generates the answer within the time limit: all callers may have disconnected, and an agent could run for long.
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
                let timeout = AnswerError::Timeout { seconds };
                let mut sink = log;
                sink.send(AnswerEvent::Error {
                    code: timeout.code().into(),
                    message: timeout.to_string(),
                });
                Err(timeout)
            }
        }
    }

    async fn generate(
        &self,
        id: &str,
        question: &AskRequest,
        log: &EventLog,
    ) -> Result<Answer, AnswerError> {
        let tools = match question.mode {
            AnswerMode::Search => None,
            AnswerMode::Auto | AnswerMode::Agent => {
                let in_scope = self
                    .archive
                    .restricted(&question.within, &question.filter)?;
                Some(AgentTools::new(Arc::new(in_scope), question.item.clone()))
            }
        };
        let tools = tools.as_ref().map(|tools| tools as &dyn ToolSet);
        let mut sink = log;
        self.cached_answerer(tools)
            .answer(id, question, &mut sink)
            .await
    }
}

impl EventLog {
    // Sends all events from the first, and later ones as they come, until the end.
    async fn stream_to(&self, events: &mut dyn EventSink) -> Result<Answer, AnswerError> {
        let mut length = self.progress.subscribe();
        let mut sent = 0;
        loop {
            let end = {
                let state = length.borrow_and_update();
                state.1.clone()
            };
            let fresh: Vec<AnswerEvent> = self.events.lock()[sent..].to_vec();
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
            let mut events = self.events.lock();
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
        self.start_or_join(&self.answer_id(question)?, question)
            .stream_to(events)
            .await
    }

    async fn follow(
        &self,
        id: &str,
        events: &mut dyn EventSink,
    ) -> Option<Result<Answer, AnswerError>> {
        let log = self.answers.in_flight.lock().get(id).cloned()?;
        Some(log.stream_to(events).await)
    }

    fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        self.cached_answerer(None).check(question)
    }

    fn answer_id(&self, question: &AskRequest) -> PortResult<String> {
        if let Some((_, id)) = self.id.get().filter(|(memoized, _)| memoized == question) {
            return Ok(id.clone());
        }
        let id = self.cached_answerer(None).answer_id(question)?;
        let (memoized, first) = self.id.get_or_init(|| (question.clone(), id.clone()));
        Ok(if memoized == question {
            first.clone()
        } else {
            id
        })
    }

    fn is_in_flight(&self, id: &str) -> bool {
        self.answers.in_flight.lock().contains_key(id)
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        let stored = self.answers.store.get_promised(id).await?;
        match stored {
            Some(answer) if self.has_all_sources(&answer)? => Ok(Some(answer)),
            _ => Ok(None),
        }
    }
}

impl SnapshotAnswerer {
    // Whether all documents that an answer quotes still exist. An answer that quotes a removed document is not returned.
    fn has_all_sources(&self, answer: &Answer) -> PortResult<bool> {
        let quoted = answer.citations.iter().map(|citation| &citation.doc_id);
        let sources = quoted.chain(answer.sections.iter().map(|section| &section.doc_id));
        for doc in sources {
            let has_tree = match doc.parse() {
                Ok(doc) => self.archive.catalog().tree_version(doc)?.is_some(),
                Err(_) => false,
            };
            if !has_tree {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
