//! Who answers questions in words over a store: one librarian for each question, and answers that are being made.
//!
//! Who asks what is being answered already hears the same answer from its beginning: a hundred people with one question are one call
//! of the model. An answer is made to its end also where no one waits for it any more.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use stemma_answers::reason::Sources;
use stemma_answers::{
    Answer, AnswerError, Answerer, Answers, Event, Librarian, Limits, Mode, Question, Sink,
};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use tokio::sync::watch;

use crate::Reader;
use crate::mcp::AgentTools;
use crate::server::Answering;

/// What answers may cost, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerSettings {
    /// What one answer may cost at most: a caller may ask for less and is refused more. `nanodollars` 0: no limit of money.
    pub limits: Limits,
    /// Seconds in which an answer has to be made, also where no one waits for it any more; then what was begun ends.
    pub seconds: u64,
}

impl Default for AnswerSettings {
    fn default() -> Self {
        Self {
            limits: Limits::MOST,
            seconds: 900,
        }
    }
}

/// Answers questions from the collections of one store; with the model of each reader, or by search alone.
pub struct Librarians {
    env: Env,
    blobs: Arc<dyn Blobs>,
    shelves: Mutex<HashMap<Collection, Arc<Shelf>>>,
    settings: AnswerSettings,
}

/// What is kept of the answers of one collection.
struct Shelf {
    answers: Answers,
    making: Mutex<HashMap<String, Arc<Told>>>,
}

/// What is told of an answer that is being made: how many events, and whether it has ended.
struct Told {
    events: Mutex<Vec<Event>>,
    /// Events so far, and the end.
    length: watch::Sender<(usize, Option<Result<Answer, AnswerError>>)>,
}

impl Librarians {
    /// Answers over `blobs`; nothing is read before someone asks.
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, settings: AnswerSettings) -> Self {
        Self {
            env,
            blobs,
            shelves: Mutex::default(),
            settings,
        }
    }

    fn shelf(&self, collection: &Collection) -> Arc<Shelf> {
        let mut shelves = locked(&self.shelves);
        Arc::clone(shelves.entry(collection.clone()).or_insert_with(|| {
            let answers = Answers::new(self.env.clone(), Arc::clone(&self.blobs), collection);
            Arc::new(Shelf {
                answers,
                making: Mutex::default(),
            })
        }))
    }
}

impl Answering for Librarians {
    fn over(&self, reader: &Arc<Reader>) -> Arc<dyn Answerer> {
        let env = self.env.clone();
        let settings = self.settings;
        Arc::new(Over {
            env,
            reader: Arc::clone(reader),
            shelf: self.shelf(&reader.collection),
            settings,
        })
    }
}

/// Answers over one state of a collection.
struct Over {
    env: Env,
    reader: Arc<Reader>,
    shelf: Arc<Shelf>,
    settings: AnswerSettings,
}

impl Over {
    fn librarian<'a>(&'a self, tools: Option<&'a AgentTools>) -> Librarian<'a> {
        let reader = self.reader.as_ref();
        Librarian {
            collection: &reader.collection,
            sources: Sources {
                finder: reader,
                shelf: reader,
                catalogue: reader.catalogue(),
            },
            reasoner: reader.reasoner().cloned(),
            tools: tools.map(|tools| tools as _),
            answers: &self.shelf.answers,
            most: self.settings.limits,
        }
    }

    /// The answer that is being made to this question; begun, where none is.
    fn made(&self, id: &str, question: &Question) -> Arc<Told> {
        let mut making = locked(&self.shelf.making);
        if let Some(told) = making.get(id) {
            return Arc::clone(told);
        }
        let told = Arc::new(Told {
            events: Mutex::default(),
            length: watch::Sender::new((0, None)),
        });
        making.insert(id.to_owned(), Arc::clone(&told));
        let env = self.env.clone();
        let settings = self.settings;
        let over = Self {
            env,
            reader: Arc::clone(&self.reader),
            shelf: Arc::clone(&self.shelf),
            settings,
        };
        let id = id.to_owned();
        let question = question.clone();
        let telling = Arc::clone(&told);
        let answering = async move {
            let answered = AssertUnwindSafe(over.answer_in_time(&question, &telling))
                .catch_unwind()
                .await;
            let ended = answered.unwrap_or_else(|_| {
                tracing::error!(id, "the making of an answer panicked");
                Err(AnswerError::Broken)
            });
            locked(&over.shelf.making).remove(&id);
            telling.length.send_modify(|(_, end)| *end = Some(ended));
        };
        drop(self.env.spawn(answering)); // ends with the answer
        told
    }

    /// The answer, or the end of its time: who asked may have gone, and an agent could go on for long.
    async fn answer_in_time(
        &self,
        question: &Question,
        told: &Told,
    ) -> Result<Answer, AnswerError> {
        let seconds = self.settings.seconds;
        match tokio::time::timeout(
            Duration::from_secs(seconds),
            self.answer_alone(question, told),
        )
        .await
        {
            Ok(answered) => answered,
            Err(_) => {
                let late = AnswerError::Late { seconds };
                let mut sink = told;
                sink.hear(Event::Error {
                    code: late.code().into(),
                    message: late.to_string(),
                });
                Err(late)
            }
        }
    }

    async fn answer_alone(&self, question: &Question, told: &Told) -> Result<Answer, AnswerError> {
        let mut sink = told;
        if question.mode != Mode::Agent {
            return self.librarian(None).answer(question, &mut sink).await;
        }
        let inside = Arc::new(self.reader.restricted(&question.within, &question.filter));
        let tools = AgentTools::new(self.env.clone(), inside, question.item.clone());
        self.librarian(Some(&tools))
            .answer(question, &mut sink)
            .await
    }
}

impl Told {
    /// Tells all of it from its beginning, and what comes, to its end.
    async fn tell(&self, events: &mut dyn Sink) -> Result<Answer, AnswerError> {
        let mut length = self.length.subscribe();
        let mut heard = 0;
        loop {
            let end = {
                let state = length.borrow_and_update();
                state.1.clone()
            };
            let fresh: Vec<Event> = locked(&self.events)[heard..].to_vec();
            heard += fresh.len();
            fresh.into_iter().for_each(|event| events.hear(event));
            if let Some(end) = end {
                return end;
            }
            if length.changed().await.is_err() {
                return Err(AnswerError::Broken);
            }
        }
    }
}

impl Sink for &Told {
    fn hear(&mut self, event: Event) {
        let length = {
            let mut events = locked(&self.events);
            events.push(event);
            events.len()
        };
        self.length.send_modify(|(told, _)| *told = length);
    }
}

#[async_trait]
impl Answerer for Over {
    async fn answer(
        &self,
        question: &Question,
        events: &mut dyn Sink,
    ) -> Result<Answer, AnswerError> {
        self.made(&self.id_of(question), question)
            .tell(events)
            .await
    }

    async fn follow(&self, id: &str, events: &mut dyn Sink) -> Option<Result<Answer, AnswerError>> {
        let told = locked(&self.shelf.making).get(id).cloned()?;
        Some(told.tell(events).await)
    }

    fn check(&self, question: &Question) -> Result<(), AnswerError> {
        self.librarian(None).check(question)
    }

    fn id_of(&self, question: &Question) -> String {
        self.librarian(None).id_of(question)
    }

    fn is_making(&self, id: &str) -> bool {
        locked(&self.shelf.making).contains_key(id)
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        let stored = self.shelf.answers.under(id).await?;
        Ok(stored.filter(|answer| self.is_founded(answer)))
    }
}

impl Over {
    /// Whether all documents that an answer quotes are there: what quotes a removed one is gone with it.
    fn is_founded(&self, answer: &Answer) -> bool {
        let quoted = answer.citations.iter().map(|citation| &citation.doc_id);
        let mut all = quoted.chain(answer.sections.iter().map(|section| &section.doc_id));
        let listed = |doc: &String| {
            doc.parse()
                .ok()
                .and_then(|doc| self.reader.catalogue().get(doc)?.entry())
        };
        all.all(|doc| listed(doc).is_some())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
