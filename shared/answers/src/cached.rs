//! Looks an answer up by its id, or generates and stores it.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use stemma_document::{Collection, DocId};

use super::AnswerError;
use super::answer::Answer;
use super::document_scope::documents_in_scope;
use super::event::{AnswerEvent, EventSink};
use super::generate::AnswerBuilder;
use super::page_vision::PageVision;
use super::prompt;
use super::request::{AnswerLimits, AskRequest, ConversationTurn, MAX_EARLIER};
use super::store::{AnswerStore, answer_id};
use super::tools::ToolSet;
use crate::tree_search::{TreeSearchSources, TreeSearcher};
use stemma_catalog::catalog::Catalog;
use stemma_retrieval::search::DocumentScope;
use stemma_store::PortResult;

// Bump it when answers are generated differently, so that stored answers of older code are not reused. The id covers prompts of
// answers, settings and knowledge, but no other code and no constants, such as those of tree search and of ranking.
const REVISION: &str = "8";

/// Answers over one snapshot of a collection. Cheap to build: one per question.
pub struct CachedAnswerer<'a> {
    pub collection: &'a Collection,
    pub sources: TreeSearchSources<'a>,
    /// `None`: no model is configured, and answers list search results only.
    pub tree_searcher: Option<Arc<TreeSearcher>>,
    /// Tools of the agent mode; `None`: a question in agent mode is answered by search.
    pub tools: Option<&'a dyn ToolSet>,
    pub store: &'a AnswerStore,
    /// `None`: no vision model is configured, and a question that asks for one is refused.
    pub vision: Option<PageVision<'a>>,
    /// Upper bound for the limits of every question.
    pub max_limits: AnswerLimits,
}

/// The versions of the trees that a question may be answered from, by document id. Formats as `doc:seq doc:seq …`.
struct TreeVersions(Vec<(DocId, u64)>);

impl TreeVersions {
    fn in_scope(catalog: &Catalog, question: &AskRequest) -> PortResult<Self> {
        let in_scope = documents_in_scope(catalog, &question.within, &question.filter)?;
        let versions: PortResult<Vec<_>> = catalog.tree_versions(&in_scope).collect();
        let mut versions = versions?;
        versions.sort_unstable();
        Ok(Self(versions))
    }
}

impl fmt::Display for TreeVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (doc, seq)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{doc}:{seq}")?;
        }
        Ok(())
    }
}

impl Serialize for TreeVersions {
    // Streams the text into the digest: a scope may hold tens of thousands of documents.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl CachedAnswerer<'_> {
    /// Checks a question without answering it, by the rules of [`CachedAnswerer::answer`].
    ///
    /// # Errors
    /// [`AnswerError::Question`] when it is empty, too long, or asks for more than an answer may cost.
    pub fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        self.check_normalized(&self.normalized(question))
    }

    /// The id under which a complete answer over the current trees is stored: a digest over every document in scope.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read.
    pub fn answer_id(&self, question: &AskRequest) -> PortResult<String> {
        let question = self.normalized(question);
        let model = self
            .tree_searcher
            .as_ref()
            .map_or("", |searcher| searcher.client().model());
        let question_json = serde_json::to_string(&question).unwrap_or_default();
        let schema = prompt::answer_schema(question.see).json.to_string();
        // Which pages are seen follows from the rest of the id, and their pixels from the revision.
        let model = match self.vision.filter(|_| question.see) {
            Some(vision) => {
                let vision_model = vision.client.model();
                format!("{model} {vision_model} {}", vision.viewer.revision())
            }
            None => model.to_owned(),
        };
        let trace = self
            .tree_searcher
            .as_ref()
            .map(|searcher| searcher.fingerprint())
            .unwrap_or_default();
        Ok(answer_id(&(
            REVISION,
            question_json,
            model,
            prompt::instructions(question.see),
            schema,
            trace,
            TreeVersions::in_scope(self.sources.catalog, &question)?,
        )))
    }

    /// Answers a question, whose [`CachedAnswerer::answer_id`] is `id`: from the store, or by generating the answer.
    ///
    /// # Errors
    /// [`AnswerError`] when there are no documents to answer from, or the store or index cannot be read.
    pub async fn answer(
        &self,
        id: &str,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        let question = self.normalized(question);
        let answered = match self.check_normalized(&question) {
            Ok(()) => self.get_or_generate(id, &question, events).await,
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

    fn check_normalized(&self, question: &AskRequest) -> Result<(), AnswerError> {
        if question.see && self.vision.is_none() {
            let message =
                "no vision model is configured: set vision.model to a model that takes images";
            return Err(AnswerError::Question {
                code: "answer.no_vision_model",
                message: message.into(),
            });
        }
        question.check(&self.max_limits)
    }

    // Equal questions get equal ids: white space folded, only the last turns, documents sorted, the default budget filled in.
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
        id: &str,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        if let Some(stored) = self.store.get(id).await? {
            let stored = Answer {
                is_replay: true,
                ..stored
            };
            stored.replay(events);
            return Ok(stored);
        }
        let mut builder = AnswerBuilder::new(self, question, events);
        let draft = builder.generate().await?;
        let answer = builder.finish(id, draft.as_ref())?;
        let saved = self.store.save(answer, id).await;
        saved.send_content(events);
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_id_of_streamed_versions_equals_joined_text() {
        let collection = Collection::default();
        let docs = [1, 2].map(|n| DocId::new(&collection, &format!("file:///{n}")));
        let versions = TreeVersions(docs.iter().copied().zip([3, 14]).collect());
        let joined = format!("{}:3 {}:14", docs[0], docs[1]);
        assert_eq!(versions.to_string(), joined);
        assert_eq!(answer_id(&("2", versions)), answer_id(&["2", &joined]));
        // Ids are keys in the store: they must stay the digest of this JSON.
        let json = format!(r#"["2","{joined}"]"#);
        let digest = stemma_document::Digest::from_content(json.as_bytes()).to_string();
        assert_eq!(answer_id(&["2", &joined]), format!("a-{}", &digest[..16]));
    }
}
