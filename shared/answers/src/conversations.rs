//! Stored conversations: what was asked one after another, and the ids of the answers.
//!
//! Each turn is an object `c/{collection}/conversations/{id}/{n}.json`, created once: a writer that finds a number taken takes the
//! next one, so that none loses a turn. A conversation exists as long as its first turn. Ids sort the newest first.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_document::{Collection, blob_keys};
use stemma_store::blobs::{Blobs, PutOutcome, list_all};
use stemma_store::env::Millis;
use stemma_store::port_retry::with_retry;
use stemma_store::{Env, PortError, PortResult};
use utoipa::ToSchema;

/// Turns of a conversation.
pub const MAX_CONVERSATION_TURNS: usize = 200;
const MAX_TITLE_CHARS: usize = 120;
const TIME_DIGITS: usize = 12;
const RANDOM_DIGITS: usize = 16;
// Times in ids count down from here.
const LAST_MS: Millis = (1 << (4 * TIME_DIGITS)) - 1;
const READS_AT_ONCE: usize = 8;
const LIST_PAGE: usize = 500;

/// A question of a stored conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTurn {
    pub question: String,
    /// The id of its answer, which may be stored as a degraded one ([`super::AnswerStore::get_promised`]).
    pub answer: String,
    pub asked_ms: Millis,
    #[serde(flatten)]
    pub scope: QuestionScope,
}

/// What a question is restricted to, as it was written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct QuestionScope {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// A conversation, or its beginning and its end.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredConversation {
    pub id: String,
    pub length: usize,
    pub first: StoredTurn,
    /// The last turns, oldest first; as many as were asked for.
    pub latest: Vec<StoredTurn>,
}

impl StoredConversation {
    /// The first question, or its beginning.
    pub fn title(&self) -> String {
        match self.first.question.char_indices().nth(MAX_TITLE_CHARS) {
            Some((end, _)) => format!("{}…", &self.first.question[..end]),
            None => self.first.question.clone(),
        }
    }

    pub fn updated_ms(&self) -> Millis {
        self.latest.last().unwrap_or(&self.first).asked_ms
    }
}

/// Why a conversation cannot be read or continued.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConversationError {
    #[error("no conversation has this id")]
    NotFound,
    #[error("the conversation has {MAX_CONVERSATION_TURNS} questions, which is the most")]
    Full,
    /// The store takes no conversations of this process.
    #[error("conversations cannot be stored: {0}")]
    NotWritable(PortError),
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The conversations of one collection.
pub struct ConversationStore {
    env: Env,
    blobs: Arc<dyn Blobs>,
    prefix: String,
}

impl ConversationStore {
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::conversations_prefix(collection);
        Self { env, blobs, prefix }
    }

    /// Adds a question to a conversation, `None` to a new one. Returns the id of the conversation.
    ///
    /// # Errors
    /// [`ConversationError`], each kind.
    pub async fn append(
        &self,
        id: Option<&str>,
        question: &str,
        answer: &str,
        scope: &QuestionScope,
    ) -> Result<String, ConversationError> {
        let turn = StoredTurn {
            question: question.to_owned(),
            answer: answer.to_owned(),
            asked_ms: self.env.now_ms(),
            scope: scope.clone(),
        };
        let json: Bytes = serde_json::to_vec(&turn)
            .map_err(|error| PortError::permanent("blobs.put", error.to_string()))?
            .into();
        if let Some(id) = id {
            self.append_to(id, &json).await?;
            return Ok(id.to_owned());
        }
        loop {
            let id = self.new_id(turn.asked_ms);
            if self.put(&self.key(&id, 0), &json).await? {
                return Ok(id);
            }
        }
    }

    async fn append_to(&self, id: &str, json: &Bytes) -> Result<(), ConversationError> {
        let keys = self.keys(id).await?;
        let first = self.key(id, 0);
        if keys.first() != Some(&first) {
            return Err(ConversationError::NotFound);
        }
        for number in keys.len()..MAX_CONVERSATION_TURNS {
            let key = self.key(id, number);
            if !self.put(&key, json).await? {
                continue;
            }
            // Whoever deletes the conversation removes its first turn, then what is there: this turn may have come later.
            if self.blobs.size(&first).await?.is_none() {
                self.blobs.delete(&key).await?;
                return Err(ConversationError::NotFound);
            }
            return Ok(());
        }
        Err(ConversationError::Full)
    }

    // Whether the object is ours. A write that is retried after it took effect finds its own object.
    async fn put(&self, key: &str, json: &Bytes) -> Result<bool, ConversationError> {
        let put = with_retry(&self.env, || self.blobs.put(key, json.clone())).await;
        match put.map_err(not_writable)? {
            PutOutcome::Created => Ok(true),
            PutOutcome::Exists => Ok(self.blobs.get(key).await?.as_ref() == Some(json)),
        }
    }

    /// A conversation with its `latest` last turns.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], also for what is not an id; [`ConversationError::Port`].
    pub async fn get(
        &self,
        id: &str,
        latest: usize,
    ) -> Result<StoredConversation, ConversationError> {
        let found = self.read(id, latest).await?;
        found.ok_or(ConversationError::NotFound)
    }

    /// Conversations after the one with the id `after`, the newest first, at most `limit`, each with its last turn.
    pub async fn list(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<StoredConversation>> {
        let mut found = Vec::new();
        let mut last = after.map(|id| format!("{id}/"));
        let page = limit.min(LIST_PAGE);
        while found.len() < limit {
            let names = self.blobs.children(&self.prefix, last.as_deref(), page);
            let names = names.await?;
            let is_end = names.len() < page;
            last = names.last().cloned();
            // Made beforehand: a closure that makes them would tie this future to one lifetime, and it could not be sent.
            let reads: Vec<_> = names
                .into_iter()
                .map(|name| async move { self.read(name.trim_end_matches('/'), 1).await })
                .collect();
            let read: Vec<_> = stream::iter(reads)
                .buffered(READS_AT_ONCE)
                .try_collect()
                .await?;
            found.extend(read.into_iter().flatten());
            if is_end {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Deletes a conversation; its answers stay. Deleting again removes what a failed deletion left.
    ///
    /// # Errors
    /// [`ConversationError`], except [`ConversationError::Full`].
    pub async fn delete(&self, id: &str) -> Result<(), ConversationError> {
        let found = self.keys(id).await?;
        if found.is_empty() {
            return Err(ConversationError::NotFound);
        }
        let first = self.key(id, 0);
        self.blobs.delete(&first).await.map_err(not_writable)?;
        for key in self.keys(id).await? {
            self.blobs.delete(&key).await.map_err(not_writable)?;
        }
        Ok(())
    }

    async fn read(&self, id: &str, latest: usize) -> PortResult<Option<StoredConversation>> {
        let keys = self.keys(id).await?;
        if keys.first() != Some(&self.key(id, 0)) {
            return Ok(None);
        }
        let begin = keys.len().saturating_sub(latest);
        let reads: Vec<_> = keys[..1]
            .iter()
            .chain(&keys[begin.max(1)..])
            .map(|key| self.read_turn(key))
            .collect();
        let mut turns: Vec<_> = stream::iter(reads)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let Some(first) = turns[0].clone() else {
            return Ok(None);
        };
        if begin > 0 {
            turns.remove(0);
        }
        Ok(Some(StoredConversation {
            id: id.to_owned(),
            length: keys.len(),
            first,
            latest: turns.into_iter().flatten().collect(),
        }))
    }

    // A power loss may tear a turn. The others are still a conversation.
    async fn read_turn(&self, key: &str) -> PortResult<Option<StoredTurn>> {
        let Some(json) = self.blobs.get(key).await? else {
            return Ok(None);
        };
        let turn = serde_json::from_slice(&json);
        Ok(turn
            .inspect_err(|error| tracing::warn!(key, %error, "a stored turn cannot be parsed"))
            .ok())
    }

    // In order; none for what is not an id.
    async fn keys(&self, id: &str) -> PortResult<Vec<String>> {
        if !is_conversation_id(id) {
            return Ok(Vec::new());
        }
        list_all(self.blobs.as_ref(), &format!("{}{id}/", self.prefix)).await
    }

    fn key(&self, id: &str, number: usize) -> String {
        format!("{}{id}/{number:03}.json", self.prefix)
    }

    fn new_id(&self, created_ms: Millis) -> String {
        let time = LAST_MS.saturating_sub(created_ms);
        format!(
            "c-{time:0TIME_DIGITS$x}{:0RANDOM_DIGITS$x}",
            self.env.random()
        )
    }
}

fn not_writable(error: PortError) -> ConversationError {
    if error.is_transient() {
        ConversationError::Port(error)
    } else {
        ConversationError::NotWritable(error)
    }
}

/// Whether `id` can be the id of a conversation.
pub fn is_conversation_id(id: &str) -> bool {
    id.strip_prefix("c-").is_some_and(|digits| {
        digits.len() == TIME_DIGITS + RANDOM_DIGITS
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use stemma_store::blobs::{FolderBlobs, MemoryBlobs};

    use super::*;

    fn store_in(env: &Env, blobs: &Arc<dyn Blobs>) -> ConversationStore {
        ConversationStore::new(env.clone(), Arc::clone(blobs), &Collection::default())
    }

    async fn ask(store: &ConversationStore, id: Option<&str>, question: &str) -> String {
        let scope = QuestionScope::default();
        store.append(id, question, "a-1", &scope).await.unwrap()
    }

    fn questions(conversation: &StoredConversation) -> Vec<&str> {
        let turns = conversation.latest.iter();
        turns.map(|turn| turn.question.as_str()).collect()
    }

    #[tokio::test]
    async fn concurrent_writers_lose_no_turn() {
        let folder = tempfile::tempdir().unwrap();
        let stores: [Arc<dyn Blobs>; 2] = [
            Arc::new(MemoryBlobs::default()),
            Arc::new(FolderBlobs::open(folder.path()).unwrap()),
        ];
        for blobs in stores {
            let env = Env::system();
            let id = ask(&store_in(&env, &blobs), None, "capex?").await;
            let writers = (0..20).map(|n| {
                let (env, blobs, id) = (env.clone(), Arc::clone(&blobs), id.clone());
                tokio::spawn(async move {
                    ask(&store_in(&env, &blobs), Some(&id), &format!("and {n}?")).await
                })
            });
            for written in join_all(writers).await {
                assert_eq!(written.unwrap(), id);
            }
            let store = store_in(&env, &blobs);
            let whole = store.get(&id, usize::MAX).await.unwrap();
            let mut found = questions(&whole);
            assert_eq!((found[0], whole.length), ("capex?", 21));
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 21, "{found:?}");
            let end = store.get(&id, 2).await.unwrap();
            assert_eq!((&end.first, end.length), (&whole.first, 21));
            assert_eq!(end.latest, whole.latest[19..]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ids_follow_from_the_seed_and_list_the_newest_first() {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let env = Env::simulated(7);
            let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
            let store = store_in(&env, &blobs);
            let mut ids = Vec::new();
            for n in 0..5 {
                ids.push(ask(&store, None, &format!("question {n}")).await);
                env.sleep(std::time::Duration::from_millis(1)).await;
            }
            ids.reverse();
            let listed = store.list(None, 10).await.unwrap();
            let names: Vec<&str> = listed.iter().map(|found| found.id.as_str()).collect();
            assert_eq!(names, ids);
            assert_eq!(listed[0].title(), "question 4");
            let rest = store.list(Some(&ids[1]), 2).await.unwrap();
            assert_eq!(rest, listed[2..4]);
            runs.push(ids);
        }
        assert_eq!(runs[0], runs[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn conversations_are_bounded() {
        let env = Env::simulated(7);
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let store = store_in(&env, &blobs);
        let id = ask(&store, None, &"é".repeat(4_000)).await;
        for n in 1..MAX_CONVERSATION_TURNS {
            ask(&store, Some(&id), &format!("question {n}")).await;
        }
        let scope = QuestionScope::default();
        let full = store.append(Some(&id), "more?", "a-1", &scope).await;
        assert!(matches!(full, Err(ConversationError::Full)));
        let found = store.get(&id, 1).await.unwrap();
        assert_eq!(found.length, MAX_CONVERSATION_TURNS);
        assert_eq!(questions(&found), ["question 199"]);
        assert_eq!(found.title().chars().count(), MAX_TITLE_CHARS + 1);
    }

    #[tokio::test]
    async fn names_that_are_not_ids_reach_no_object() {
        let env = Env::system();
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let store = store_in(&env, &blobs);
        let id = ask(&store, None, "capex?").await;
        for name in [
            "",
            "c-",
            "..",
            "../answers",
            "new",
            &id.to_uppercase(),
            &id[2..],
            &format!("{id}/000"),
            &format!("{id}0"),
        ] {
            let read = store.get(name, 1).await;
            assert!(matches!(read, Err(ConversationError::NotFound)), "{name}");
            let deleted = store.delete(name).await;
            assert!(
                matches!(deleted, Err(ConversationError::NotFound)),
                "{name}"
            );
            let scope = QuestionScope::default();
            let added = store.append(Some(name), "x", "a-1", &scope).await;
            assert!(matches!(added, Err(ConversationError::NotFound)), "{name}");
        }
        assert_eq!(store.list(None, 10).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_deleted_conversation_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let blobs: Arc<dyn Blobs> = Arc::new(FolderBlobs::open(folder.path()).unwrap());
        let env = Env::system();
        let store = store_in(&env, &blobs);
        let kept = ask(&store, None, "capex?").await;
        let id = ask(&store, None, "revenue?").await;
        let writers = (0..10).map(|n| {
            let (env, blobs, id) = (env.clone(), Arc::clone(&blobs), id.clone());
            tokio::spawn(async move {
                let scope = QuestionScope::default();
                let question = format!("and {n}?");
                let store = store_in(&env, &blobs);
                store.append(Some(&id), &question, "a-1", &scope).await
            })
        });
        let (written, deleted) = tokio::join!(join_all(writers), store.delete(&id));
        deleted.unwrap();
        for result in written {
            assert!(matches!(
                result.unwrap(),
                Ok(_) | Err(ConversationError::NotFound)
            ));
        }
        let prefix = blob_keys::conversations_prefix(&Collection::default());
        let keys = list_all(blobs.as_ref(), &prefix).await.unwrap();
        assert_eq!(keys, [format!("{prefix}{kept}/000.json")]);
        let listed = store.list(None, 1).await.unwrap();
        assert_eq!((listed.len(), listed[0].id.as_str()), (1, kept.as_str()));
        let again = store.delete(&id).await;
        assert!(matches!(again, Err(ConversationError::NotFound)));
    }

    #[tokio::test]
    async fn a_torn_turn_hides_neither_the_others_nor_other_conversations() {
        let env = Env::system();
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let store = store_in(&env, &blobs);
        let id = ask(&store, None, "capex?").await;
        for question in ["and 2021?", "and 2020?"] {
            ask(&store, Some(&id), question).await;
        }
        let tear = async |number: usize| {
            let key = store.key(&id, number);
            blobs.delete(&key).await.unwrap();
            blobs.put(&key, Bytes::from("{")).await.unwrap();
        };
        tear(1).await;
        let found = store.get(&id, usize::MAX).await.unwrap();
        assert_eq!(questions(&found), ["capex?", "and 2020?"]);
        tear(0).await;
        let other = ask(&store, None, "revenue?").await;
        let listed = store.list(None, 10).await.unwrap();
        assert_eq!((listed.len(), &listed[0].id), (1, &other));
        store.delete(&id).await.unwrap();
    }
}
