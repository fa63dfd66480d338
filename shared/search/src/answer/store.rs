//! Answers that were given: created once, read by their ids, never changed.
//!
//! They lie at `c/{collection}/answers/{id}.json`. Whoever loses a race for an id reads the winner (I-2), so that two who ask
//! the same get the same citations. Where the store may not be written, this process keeps what it answered lately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use stemma_document::{Collection, Digest, layout};
use stemma_engine::blobs::{Blobs, Put};
use stemma_engine::env::Millis;
use stemma_engine::port::ask;
use stemma_engine::{Env, PortError};

use super::record::{Answer, Spent};
use crate::cache::Cache;

/// Answers held in memory: bytes, and for how long.
const HELD_BYTES: usize = 32 << 20;
const HELD_MS: Millis = 24 * 3_600_000;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// The answers of one collection. One per process and collection.
pub struct Answers {
    env: Env,
    blobs: Arc<dyn Blobs>,
    prefix: String,
    held: Cache<String, Arc<Answer>>,
    refuses: AtomicBool,
}

impl Answers {
    /// The answers of `collection` in `blobs`.
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = layout::answers_prefix(collection);
        Self { env, blobs, prefix, held: Cache::new(HELD_BYTES, HELD_MS), refuses: AtomicBool::new(false) }
    }

    /// The answer of this id; `None` where there is none, or it is no id.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    pub async fn get(&self, id: &str) -> Result<Option<Answer>, PortError> {
        if !is_id(id) {
            return Ok(None);
        }
        if let Some(held) = self.held.get(&id.to_owned(), self.env.now_ms()) {
            return Ok(Some(Answer::clone(&held)));
        }
        let key = self.key(id);
        let Some(bytes) = self.blobs.get(&key).await? else { return Ok(None) };
        let read: Result<Answer, _> = serde_json::from_slice(&bytes);
        let answer = read.map_err(|error| PortError::lasting("blobs", "get", format!("{key}: {error}")))?;
        self.hold(&answer, bytes.len());
        Ok(Some(answer))
    }

    /// Keeps an answer, and returns the one that is kept under its id: another, where someone else was faster.
    pub(super) async fn keep(&self, answer: Answer) -> Answer {
        let kept = Answer { replayed: false, usage: Spent { nanodollars: None, ..answer.usage }, ..answer.clone() };
        let Ok(json) = serde_json::to_vec(&kept) else { return answer };
        match self.put(&kept.id, json.clone().into()).await {
            Ok(Some(Put::Exists)) => match self.get(&kept.id).await {
                Ok(Some(winner)) => return Answer { usage: answer.usage, ..winner },
                Ok(None) => {}
                Err(error) => tracing::warn!(id = kept.id, %error, "the answer that was given before cannot be read"),
            },
            Ok(_) => {}
            Err(error) => self.refused(&error),
        }
        self.hold(&kept, json.len());
        answer
    }

    async fn put(&self, id: &str, json: Bytes) -> Result<Option<Put>, PortError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let key = self.key(id);
        ask(&self.env, || self.blobs.put(&key, json.clone())).await.map(Some)
    }

    fn refused(&self, error: &PortError) {
        if error.passing {
            tracing::warn!(%error, "an answer was not kept in the store");
        } else if !self.refuses.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the store keeps no answers of this process: give it the right to write below answers/");
        }
    }

    fn hold(&self, answer: &Answer, bytes: usize) {
        self.held.put(answer.id.clone(), Arc::new(answer.clone()), 2 * bytes, self.env.now_ms());
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}.json", self.prefix)
    }
}

/// The id of what these parts determine: `a-` and 16 hexadecimal digits.
pub(super) fn id_of(parts: &[&str]) -> String {
    let json = serde_json::to_vec(parts).unwrap_or_default();
    format!("a-{}", &Digest::of(&json).to_string()[..ID_DIGITS])
}

fn is_id(id: &str) -> bool {
    id.strip_prefix("a-")
        .is_some_and(|digits| digits.len() == ID_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use stemma_engine::blobs::MemoryBlobs;

    use super::*;
    use crate::answer::{Answerer, Question, Scripted};

    #[tokio::test]
    async fn who_comes_second_reads_the_first() {
        let (env, blobs) = (Env::system(), Arc::new(MemoryBlobs::default()));
        let answers = |blobs: &Arc<MemoryBlobs>| {
            Answers::new(env.clone(), Arc::<MemoryBlobs>::clone(blobs), &Collection::default())
        };
        let (one, other) = (answers(&blobs), answers(&blobs));
        let script = Scripted::default().says("capex", "It was 5 [1].");
        let first = script.answer(&Question::of("capex"), &mut ()).await.unwrap();
        assert_eq!(one.get(&first.id).await.unwrap(), None);
        let paid = Answer { usage: Spent { nanodollars: Some(7), ..first.usage }, ..first.clone() };
        assert_eq!(one.keep(paid.clone()).await, paid);
        let second = Answer { text: "It was 6 [1].".into(), ..first.clone() };
        assert_eq!(other.keep(second).await, first);
        // What it costs now is no part of it.
        assert_eq!(other.get(&first.id).await.unwrap(), Some(first));
        for bad in ["", "a-", "../../x", "a-00000000000000000", "a-000000000000000g"] {
            assert_eq!(one.get(bad).await.unwrap(), None, "{bad}");
        }
    }
}
