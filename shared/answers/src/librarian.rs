//! Who answers: gives again what was answered before, or makes an answer and keeps it.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_document::Collection;

use super::compose;
use super::event::{Event, Sink};
use super::making::Making;
use super::question::{Limits, MAX_EARLIER, Question, Turn};
use super::record::Answer;
use super::store::{Answers, id_of};
use super::tools::Tools;
use super::{AnswerError, Answerer};
use crate::reason::{Reasoner, Sources};
use stemma_retrieval::find::Within;

/// Changes whenever answers are made in another way, so that older ones are not taken for new.
const REVISION: &str = "2";

/// Answers from one collection as it is now. Cheap to make: one for each question.
pub struct Librarian<'a> {
    /// The collection.
    pub collection: &'a Collection,
    /// Search, trees, texts, and the documents there are.
    pub sources: Sources<'a>,
    /// The model, and how trees are walked with it; `None`: none is configured, and answers are those of search.
    pub reasoner: Option<Arc<Reasoner>>,
    /// What an agent may call; `None`: a question for an agent is answered by searching.
    pub tools: Option<&'a dyn Tools>,
    /// The answers that were given.
    pub answers: &'a Answers,
    /// What one answer may cost at most, whatever its question says.
    pub most: Limits,
}

impl Librarian<'_> {
    /// The versions of all trees that a question may be answered from.
    fn trees(&self, question: &Question) -> String {
        let listed = self
            .sources
            .catalogue
            .documents()
            .iter()
            .filter(|listed| listed.entry().is_some());
        let inside = |doc| match &question.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(&doc),
        };
        let fitting = listed.filter(|listed| inside(listed.doc()) && question.filter.holds(listed));
        let mut trees: Vec<String> = fitting
            .map(|listed| format!("{}:{}", listed.doc(), listed.version().seq))
            .collect();
        trees.sort_unstable();
        trees.join(" ")
    }
}

#[async_trait]
impl Answerer for Librarian<'_> {
    async fn answer(
        &self,
        question: &Question,
        events: &mut dyn Sink,
    ) -> Result<Answer, AnswerError> {
        let question = self.settled(question);
        let answered = match question.check(&self.most) {
            Ok(()) => self.kept_or_made(&question, events).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answered {
            let message = if error.code() == "store.unreadable" {
                "the store cannot be read".into()
            } else {
                error.to_string()
            };
            events.hear(Event::Error {
                code: error.code().into(),
                message,
            });
        }
        answered
    }

    fn check(&self, question: &Question) -> Result<(), AnswerError> {
        self.settled(question).check(&self.most)
    }

    fn id_of(&self, question: &Question) -> String {
        let question = self.settled(question);
        let model = self
            .reasoner
            .as_ref()
            .map_or("", |reasoner| reasoner.asker().model());
        let asked = serde_json::to_string(&question).unwrap_or_default();
        let schema = compose::schema().json.to_string();
        let reasoning = self
            .reasoner
            .as_ref()
            .map(|reasoner| reasoner.identity())
            .unwrap_or_default();
        let trees = self.trees(&question);
        id_of(&[
            REVISION,
            &asked,
            model,
            compose::INSTRUCTIONS,
            &schema,
            &reasoning,
            &trees,
        ])
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        Ok(self.answers.under(id).await?)
    }
}

impl Librarian<'_> {
    /// The question as it is answered: white space folded, the last turns alone, documents in order, money within what it may cost.
    fn settled(&self, question: &Question) -> Question {
        let mut settled = question.clone();
        settled.text = question
            .text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let early = settled.earlier.len().saturating_sub(MAX_EARLIER);
        settled.earlier.drain(..early);
        settled.earlier.iter_mut().for_each(Turn::shorten);
        if let Within::Documents(docs) = &mut settled.within {
            docs.sort_unstable();
            docs.dedup();
        }
        if settled.limits.nanodollars == 0 {
            settled.limits.nanodollars = self.most.nanodollars;
        }
        settled
    }

    async fn kept_or_made(
        &self,
        question: &Question,
        events: &mut dyn Sink,
    ) -> Result<Answer, AnswerError> {
        let id = self.id_of(question);
        if let Some(known) = self.answers.get(&id).await? {
            let known = Answer {
                replayed: true,
                ..known
            };
            known.retell(events);
            return Ok(known);
        }
        let mut making = Making::of(self, question, events);
        let draft = making.make().await?;
        let answer = making.record(&id, draft.as_ref());
        let kept = self.answers.keep(answer, &id).await;
        kept.tell(events);
        Ok(kept)
    }
}
