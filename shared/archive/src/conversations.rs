//! Conversations: listed, read with their answers, continued and deleted.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_answers::{
    Answer, AnswerError, Answerer, ConversationError, ConversationStore, ConversationTurn,
    MAX_EARLIER, QuestionScope, StoredConversation, StoredTurn, is_conversation_id,
};
use stemma_document::Collection;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use utoipa::ToSchema;

use crate::{AnswerRequest, ApiError, cursor};

/// The id of a conversation that is to begin.
pub const NEW_CONVERSATION: &str = "new";
const CURSOR_KEY: &str = "conversations";
const READS_AT_ONCE: usize = 8;

/// Conversations, the newest first by their first question.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ConversationList {
    pub conversations: Vec<ConversationSummary>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ConversationSummary {
    pub id: String,
    /// The first question, at most 120 characters.
    pub title: String,
    pub created_ms: Millis,
    /// When its last question was asked.
    pub updated_ms: Millis,
    /// The number of its questions.
    pub length: usize,
    /// What it was started with. It holds for questions that name no scopes, `where` and `item`.
    #[serde(flatten)]
    pub scope: QuestionScope,
}

/// A conversation with the answers that can be read.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ConversationDetails {
    #[serde(flatten)]
    pub summary: ConversationSummary,
    pub turns: Vec<AnsweredTurn>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnsweredTurn {
    pub question: String,
    pub asked_ms: Millis,
    /// The id of the answer: `GET /v1/answers/{id}`.
    pub answer: String,
    pub state: TurnState,
    /// The text of the answer, if it can be read.
    pub text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Answered,
    Running,
    /// A document that it cites was removed, or it was never completed.
    Gone,
}

/// An answer, and the conversation that keeps it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerReply {
    #[serde(flatten)]
    pub answer: Answer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
}

/// The conversations of one collection.
pub struct Conversations(ConversationStore);

impl Conversations {
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        Self(ConversationStore::new(env, blobs, collection))
    }

    /// A page of the list.
    ///
    /// # Errors
    /// `cursor.invalid`, `store.unreadable`.
    pub async fn list(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ConversationList, ApiError> {
        let after = cursor
            .map(|text| cursor::decode(text, CURSOR_KEY))
            .transpose()?;
        if after.as_deref().is_some_and(|id| !is_conversation_id(id)) {
            return Err(cursor::invalid());
        }
        let mut found = self
            .0
            .list(after.as_deref(), limit.saturating_add(1))
            .await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| has_more);
        Ok(ConversationList {
            next_cursor: last.map(|last| cursor::encode(CURSOR_KEY, &last.id)),
            conversations: found.iter().map(summary).collect(),
        })
    }

    /// A conversation, with the answers that `answerer` returns.
    ///
    /// # Errors
    /// `conversation.not_found`, `store.unreadable`.
    pub async fn get(
        &self,
        id: &str,
        answerer: &dyn Answerer,
    ) -> Result<ConversationDetails, ApiError> {
        let found = self.0.get(id, usize::MAX).await?;
        let summary = summary(&found);
        let turns = answered_turns(found.latest, answerer).await?;
        Ok(ConversationDetails { summary, turns })
    }

    /// What a further question of a conversation builds on: the scope that it was started with, and the last turns whose
    /// answers `answerer` returns.
    ///
    /// # Errors
    /// `conversation.not_found`, `store.unreadable`.
    pub async fn resume(
        &self,
        id: &str,
        answerer: &dyn Answerer,
    ) -> Result<(QuestionScope, Vec<ConversationTurn>), ApiError> {
        let found = self.0.get(id, MAX_EARLIER).await?;
        let turns = answered_turns(found.latest, answerer).await?;
        let earlier = turns.into_iter().filter_map(|turn| {
            Some(ConversationTurn {
                question: turn.question,
                answer: turn.text?,
            })
        });
        Ok((found.first.scope, earlier.collect()))
    }

    /// Completes a question of an existing conversation: its earlier turns and, if it names none, its scope.
    ///
    /// # Errors
    /// As [`Self::resume`]; `request.invalid` if it has earlier turns of its own.
    pub async fn complete(
        &self,
        request: &mut AnswerRequest,
        answerer: &dyn Answerer,
    ) -> Result<(), ApiError> {
        if !request.earlier.is_empty() {
            let message = "`earlier` comes from the conversation: leave one of the two out";
            return Err(ApiError::invalid_field("/earlier", message));
        }
        let Some(id) = existing(request.conversation.as_deref()) else {
            return Ok(());
        };
        let (started_with, earlier) = self.resume(id, answerer).await?;
        request.earlier = earlier;
        if question_scope(request) == QuestionScope::default() {
            request.scopes = started_with.scopes;
            request.filter = started_with.filter;
            request.item = started_with.item;
        }
        Ok(())
    }

    /// Stores a question with the id of its answer, in the conversation that it names or in a new one, and returns the id of
    /// the conversation.
    ///
    /// # Errors
    /// `conversation.not_found`, `conversation.full`, `conversation.not_available`, `store.unreadable`.
    pub async fn keep(&self, request: &AnswerRequest, answer: &str) -> Result<String, ApiError> {
        let id = existing(request.conversation.as_deref());
        let scope = question_scope(request);
        Ok(self.0.append(id, &request.question, answer, &scope).await?)
    }

    /// Deletes a conversation. Its answers stay.
    ///
    /// # Errors
    /// `conversation.not_found`, `conversation.not_available`, `store.unreadable`.
    pub async fn delete(&self, id: &str) -> Result<(), ApiError> {
        Ok(self.0.delete(id).await?)
    }
}

fn existing(conversation: Option<&str>) -> Option<&str> {
    conversation.filter(|id| *id != NEW_CONVERSATION)
}

fn question_scope(request: &AnswerRequest) -> QuestionScope {
    QuestionScope {
        scopes: request.scopes.clone(),
        filter: request
            .filter
            .clone()
            .filter(|filter| !filter.is_null() && *filter != ""),
        item: request.item.clone(),
    }
}

fn summary(conversation: &StoredConversation) -> ConversationSummary {
    ConversationSummary {
        id: conversation.id.clone(),
        title: conversation.title(),
        created_ms: conversation.first.asked_ms,
        updated_ms: conversation.updated_ms(),
        length: conversation.length,
        scope: conversation.first.scope.clone(),
    }
}

// The turns with their answers, by the check of every stored answer.
async fn answered_turns(
    turns: Vec<StoredTurn>,
    answerer: &dyn Answerer,
) -> Result<Vec<AnsweredTurn>, ApiError> {
    // Made beforehand: a closure that makes them would tie this future to one lifetime, and it could not be sent.
    let reads: Vec<_> = turns
        .into_iter()
        .map(|turn| async move {
            // Asked first: the answer may be completed meanwhile.
            let is_running = answerer.is_in_flight(&turn.answer);
            let answer = answerer.stored(&turn.answer).await?;
            Ok(AnsweredTurn {
                state: match &answer {
                    Some(_) => TurnState::Answered,
                    None if is_running => TurnState::Running,
                    None => TurnState::Gone,
                },
                text: answer.map(|answer| answer.text),
                question: turn.question,
                asked_ms: turn.asked_ms,
                answer: turn.answer,
            })
        })
        .collect();
    let read = stream::iter(reads).buffered(READS_AT_ONCE).try_collect();
    read.await.map_err(|error: AnswerError| match error {
        AnswerError::Search(error) => error.into(),
        other => ApiError::new("store.unreadable", other.to_string(), "stemma doctor"),
    })
}

impl From<ConversationError> for ApiError {
    fn from(error: ConversationError) -> Self {
        let message = error.to_string();
        match error {
            ConversationError::NotFound => {
                Self::new("conversation.not_found", message, "stemma chat --list")
            }
            ConversationError::Full => {
                Self::new("conversation.full", message, "start a new conversation")
            }
            ConversationError::NotWritable(_) => {
                let next = "grant write permission below conversations/";
                Self::new("conversation.not_available", message, next)
            }
            ConversationError::Port(error) => error.into(),
        }
    }
}
