//! Who answers: gives again what was answered before, or makes an answer and keeps it.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_document::Collection;

use super::answer::Answer;
use super::event::{AnswerEvent, EventSink};
use super::generate::AnswerBuilder;
use super::prompt;
use super::request::{AnswerLimits, AskRequest, ConversationTurn, MAX_EARLIER};
use super::store::{AnswerStore, answer_id};
use super::tools::ToolSet;
use super::{AnswerError, Answerer};
use crate::tree_search::{TreeSearchSources, TreeSearcher};
use stemma_retrieval::search::DocumentScope;

/// Changes whenever answers are made in another way, so that older ones are not taken for new.
const REVISION: &str = "2";

/// Answers from one collection as it is now. Cheap to make: one for each question.
pub struct CachedAnswerer<'a> {
    /// The collection.
    pub collection: &'a Collection,
    /// Search, trees, texts, and the documents there are.
    pub sources: TreeSearchSources<'a>,
    /// The model, and how trees are walked with it; `None`: none is configured, and answers are those of search.
    pub tree_searcher: Option<Arc<TreeSearcher>>,
    /// What an agent may call; `None`: a question for an agent is answered by searching.
    pub tools: Option<&'a dyn ToolSet>,
    /// The answers that were given.
    pub store: &'a AnswerStore,
    /// What one answer may cost at most, whatever its question says.
    pub max_limits: AnswerLimits,
}

impl CachedAnswerer<'_> {
    /// The versions of all trees that a question may be answered from.
    fn tree_versions(&self, question: &AskRequest) -> String {
        let document = self
            .sources
            .catalog
            .documents()
            .iter()
            .filter(|document| document.entry().is_some());
        let inside = |doc| match &question.within {
            DocumentScope::All => true,
            DocumentScope::Documents(docs) => docs.contains(&doc),
        };
        let fitting =
            document.filter(|document| inside(document.doc()) && question.filter.matches(document));
        let mut trees: Vec<String> = fitting
            .map(|document| format!("{}:{}", document.doc(), document.version().seq))
            .collect();
        trees.sort_unstable();
        trees.join(" ")
    }
}

#[async_trait]
impl Answerer for CachedAnswerer<'_> {
    async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        let question = self.normalized(question);
        let answered = match question.check(&self.max_limits) {
            Ok(()) => self.get_or_generate(&question, events).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answered {
            let message = if error.code() == "store.unreadable" {
                "the store cannot be read".into()
            } else {
                error.to_string()
            };
            events.send(AnswerEvent::Error {
                code: error.code().into(),
                message,
            });
        }
        answered
    }

    fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        self.normalized(question).check(&self.max_limits)
    }

    fn answer_id(&self, question: &AskRequest) -> String {
        let question = self.normalized(question);
        let model = self
            .tree_searcher
            .as_ref()
            .map_or("", |searcher| searcher.client().model());
        let question_json = serde_json::to_string(&question).unwrap_or_default();
        let schema = prompt::answer_schema().json.to_string();
        let trace = self
            .tree_searcher
            .as_ref()
            .map(|searcher| searcher.fingerprint())
            .unwrap_or_default();
        let trees = self.tree_versions(&question);
        answer_id(&[
            REVISION,
            &question_json,
            model,
            prompt::INSTRUCTIONS,
            &schema,
            &trace,
            &trees,
        ])
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        Ok(self.store.get_promised(id).await?)
    }
}

impl CachedAnswerer<'_> {
    /// The question as it is answered: white space folded, the last turns alone, documents in order, money within what it may cost.
    fn normalized(&self, question: &AskRequest) -> AskRequest {
        let mut normalized = question.clone();
        normalized.text = question
            .text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let early = normalized.earlier.len().saturating_sub(MAX_EARLIER);
        normalized.earlier.drain(..early);
        normalized
            .earlier
            .iter_mut()
            .for_each(ConversationTurn::shorten);
        if let DocumentScope::Documents(docs) = &mut normalized.within {
            docs.sort_unstable();
            docs.dedup();
        }
        if normalized.limits.nanodollars == 0 {
            normalized.limits.nanodollars = self.max_limits.nanodollars;
        }
        normalized
    }

    async fn get_or_generate(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        let id = self.answer_id(question);
        if let Some(stored) = self.store.get(&id).await? {
            let stored = Answer {
                is_replay: true,
                ..stored
            };
            stored.replay(events);
            return Ok(stored);
        }
        let mut making = AnswerBuilder::new(self, question, events);
        let draft = making.generate().await?;
        let answer = making.finish(&id, draft.as_ref());
        let saved = self.store.save(answer, &id).await;
        saved.send_content(events);
        Ok(saved)
    }
}
