//! Answers that were given: created once, read by their ids, never changed.
//!
//! They lie at `c/{collection}/answers/{id}.json`. Whoever loses a race for an id reads the winner (I-2), so that two who ask
//! the same get the same citations. Where the store may not be written, this process keeps what it answered lately. They stay as
//! long as what they rest on does ([`orphaned_answers`]).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::Deserialize;
use stemma_document::{Collection, Digest, DocId, TreeObject, blob_keys};
use stemma_engine::blobs::{Blobs, PutOutcome, list_all};
use stemma_engine::env::Millis;
use stemma_engine::port_error::with_retry;
use stemma_engine::{Env, PortError};

use super::answer::{Answer, GenerationUsage};
use stemma_retrieval::cache::Cache;

/// Answers held in memory: bytes, and for how long.
const CACHE_BYTES: usize = 32 << 20;
const CACHE_MS: Millis = 24 * 3_600_000;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;
/// The last of them, in which the ids of answers with and without the model differ.
const DEGRADED_DIGITS: usize = 4;
/// Answers whose ids begin alike that are looked at; there are as many as reasons why a model stays away.
const MAX_DEGRADED: usize = 16;
/// Ids that are remembered: bytes.
const DEGRADED_CACHE_BYTES: usize = 1 << 20;

/// The answers of one collection. One per process and collection.
pub struct AnswerStore {
    env: Env,
    blobs: Arc<dyn Blobs>,
    prefix: String,
    cache: Cache<String, Arc<Answer>>,
    /// Ids of answers that were given in the place of those promised, by the ids of these.
    degraded_ids: Cache<String, String>,
    is_read_only: AtomicBool,
}

impl AnswerStore {
    /// The answers of `collection` in `blobs`.
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::answers_prefix(collection);
        let cache = Cache::new(CACHE_BYTES, CACHE_MS);
        let degraded_ids = Cache::new(DEGRADED_CACHE_BYTES, CACHE_MS);
        Self {
            env,
            blobs,
            prefix,
            cache: cache,
            degraded_ids: degraded_ids,
            is_read_only: AtomicBool::new(false),
        }
    }

    /// The answer of this id; `None` where there is none, or it is no id.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    pub async fn get(&self, id: &str) -> Result<Option<Answer>, PortError> {
        if !is_answer_id(id) {
            return Ok(None);
        }
        self.read(id).await
    }

    /// The answer of this id, or the one that was given in its place: where the model stayed away, or a limit was reached, an answer
    /// has an id of its own, which begins like the one that was promised. Any replica finds it, at any time.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    pub async fn get_promised(&self, id: &str) -> Result<Option<Answer>, PortError> {
        if let Some(answer) = self.get(id).await? {
            return Ok(Some(answer));
        }
        if !is_answer_id(id) {
            return Ok(None);
        }
        let stem = format!("{}{}", self.prefix, &id[..id.len() - DEGRADED_DIGITS]);
        let keys = self
            .blobs
            .list(&self.prefix, Some(&stem), MAX_DEGRADED)
            .await?;
        let stored = keys.iter().filter(|key| key.starts_with(&stem));
        let stored = stored.filter_map(|key| {
            key.strip_prefix(&self.prefix)?
                .strip_suffix(".json")
                .map(str::to_owned)
        });
        let cached_id = self.degraded_ids.get(&id.to_owned(), self.env.now_ms());
        for other in cached_id.into_iter().chain(stored) {
            let Some(answer) = self.get(&other).await? else {
                continue;
            };
            if answer
                .degradation
                .as_ref()
                .is_some_and(|degraded| degraded_id(id, &degraded.code) == answer.id)
            {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Reads an answer. One that is torn was never told: it is a miss, and is made again.
    async fn read(&self, id: &str) -> Result<Option<Answer>, PortError> {
        if let Some(cached) = self.cache.get(&id.to_owned(), self.env.now_ms()) {
            return Ok(Some(Answer::clone(&cached)));
        }
        let key = self.key(id);
        let Some(bytes) = self.blobs.get(&key).await? else {
            return Ok(None);
        };
        match serde_json::from_slice::<Answer>(&bytes) {
            Ok(answer) => {
                self.cache_answer(&answer, bytes.len());
                Ok(Some(answer))
            }
            Err(error) => {
                tracing::warn!(key, %error, "an answer that was kept cannot be read; it is made again");
                Ok(None)
            }
        }
    }

    /// Keeps an answer to a question that was promised one under `promised`, and returns the one that is kept under its id:
    /// another, where someone else was faster.
    pub(super) async fn save(&self, answer: Answer, promised: &str) -> Answer {
        if answer.id != promised {
            let promised = promised.to_owned();
            let id = answer.id.clone();
            self.degraded_ids
                .put(promised, id, 4 * ID_DIGITS, self.env.now_ms());
        }
        let saved = Answer {
            is_replay: false,
            usage: GenerationUsage {
                nanodollars: None,
                ..answer.usage
            },
            ..answer.clone()
        };
        let Ok(json) = serde_json::to_vec(&saved) else {
            return answer;
        };
        match self.create(&saved.id, json.clone().into()).await {
            Ok(Some(PutOutcome::Exists)) => match self.get(&saved.id).await {
                Ok(Some(winner)) => {
                    return Answer {
                        usage: answer.usage,
                        ..winner
                    };
                }
                Ok(None) => self.repair(&saved.id, json.clone().into()).await,
                Err(error) => {
                    tracing::warn!(id = saved.id, %error, "the answer that was given before cannot be read")
                }
            },
            Ok(_) => {}
            Err(error) => self.on_write_error(&error),
        }
        self.cache_answer(&saved, json.len());
        answer
    }

    async fn create(&self, id: &str, json: Bytes) -> Result<Option<PutOutcome>, PortError> {
        if self.is_read_only.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let key = self.key(id);
        with_retry(&self.env, || self.blobs.put(&key, json.clone()))
            .await
            .map(Some)
    }

    /// Puts an answer in the place of one that is torn.
    async fn repair(&self, id: &str, json: Bytes) {
        let key = self.key(id);
        let mended = async {
            self.blobs.delete(&key).await?;
            self.create(id, json).await
        };
        if let Err(error) = mended.await {
            tracing::warn!(key, %error, "an answer that cannot be read could not be replaced");
        }
    }

    fn on_write_error(&self, error: &PortError) {
        if error.transient {
            tracing::warn!(%error, "an answer was not kept in the store");
        } else if !self.is_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the store keeps no answers of this process: give it the right to write below answers/");
        }
    }

    fn cache_answer(&self, answer: &Answer, bytes: usize) {
        self.cache.put(
            answer.id.clone(),
            Arc::new(answer.clone()),
            2 * bytes,
            self.env.now_ms(),
        );
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}.json", self.prefix)
    }
}

/// Answers that rest on what is not there any more: a document that was removed, or a version whose tree is gone or among
/// `going`, the keys that are being removed. What cannot be read as an answer is not judged.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn orphaned_answers(
    blobs: &dyn Blobs,
    collection: &Collection,
    going: &HashSet<&str>,
) -> Result<Vec<String>, PortError> {
    let mut versions_by_doc = HashMap::new();
    let mut unfounded = Vec::new();
    for key in list_all(blobs, &blob_keys::answers_prefix(collection)).await? {
        let Some(json) = blobs.get(&key).await? else {
            continue;
        };
        let Ok(grounds) = serde_json::from_slice::<AnswerReferences>(&json) else {
            continue;
        };
        for (doc, version) in grounds.all() {
            let Ok(doc) = doc.parse::<DocId>() else {
                continue;
            };
            let there = match versions_by_doc.entry(doc) {
                Entry::Occupied(versions_by_doc) => versions_by_doc.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(remaining_versions(blobs, collection, doc, going).await?)
                }
            };
            if !there
                .as_ref()
                .is_some_and(|trees| version.is_none_or(|version| trees.contains(&version)))
            {
                unfounded.push(key);
                break;
            }
        }
    }
    Ok(unfounded)
}

/// The versions of a document whose trees stay; `None` where it was removed.
async fn remaining_versions(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    going: &HashSet<&str>,
) -> Result<Option<HashSet<u64>>, PortError> {
    let keys = list_all(blobs, &blob_keys::trees_prefix(collection, doc)).await?;
    let Some(newest) = keys.last() else {
        return Ok(None);
    };
    let newest = blobs
        .get(newest)
        .await?
        .and_then(|json| serde_json::from_slice(&json).ok());
    if matches!(newest, Some(TreeObject::Removed)) {
        return Ok(None);
    }
    let stays = keys.iter().filter(|key| !going.contains(key.as_str()));
    Ok(Some(
        stays.filter_map(|key| blob_keys::parse_seq(key)).collect(),
    ))
}

/// What an answer rests on.
#[derive(Deserialize)]
struct AnswerReferences {
    citations: Vec<DocumentReference>,
    sections: Vec<DocumentReference>,
}

#[derive(Deserialize)]
struct DocumentReference {
    doc_id: String,
    #[serde(default)]
    version: Option<u64>,
}

impl AnswerReferences {
    /// Documents, and the versions of those that are quoted.
    fn all(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.citations
            .iter()
            .chain(&self.sections)
            .map(|place| (place.doc_id.as_str(), place.version))
    }
}

/// The id of what these parts determine: `a-` and 16 hexadecimal digits.
pub(super) fn answer_id(parts: &[&str]) -> String {
    let json = serde_json::to_vec(parts).unwrap_or_default();
    format!(
        "a-{}",
        &Digest::from_content(&json).to_string()[..ID_DIGITS]
    )
}

/// The id of an answer that is less than the one with this id was to be, for the reason of this code: whoever was promised the one
/// finds the other.
pub(super) fn degraded_id(id: &str, code: &str) -> String {
    let digest = Digest::from_content(format!("{id} {code}").as_bytes()).to_string();
    format!(
        "{}{}",
        &id[..id.len() - DEGRADED_DIGITS],
        &digest[..DEGRADED_DIGITS]
    )
}

fn is_answer_id(id: &str) -> bool {
    id.strip_prefix("a-").is_some_and(|digits| {
        digits.len() == ID_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use stemma_engine::blobs::MemoryBlobs;

    use super::*;
    use crate::{Answerer, AskRequest, Degradation, ScriptedAnswerer};

    #[tokio::test]
    async fn second_writer_gets_first_answer() {
        let env = Env::system();
        let blobs = Arc::new(MemoryBlobs::default());
        let answers = |blobs: &Arc<MemoryBlobs>| {
            AnswerStore::new(
                env.clone(),
                Arc::<MemoryBlobs>::clone(blobs),
                &Collection::default(),
            )
        };
        let one = answers(&blobs);
        let other = answers(&blobs);
        let script = ScriptedAnswerer::default().with_reply("capex", "It was 5 [1].");
        let first = script
            .answer(&AskRequest::new("capex"), &mut ())
            .await
            .unwrap();
        assert_eq!(one.get(&first.id).await.unwrap(), None);
        let paid = Answer {
            usage: GenerationUsage {
                nanodollars: Some(7),
                ..first.usage
            },
            ..first.clone()
        };
        assert_eq!(one.save(paid.clone(), &paid.id).await, paid);
        let second = Answer {
            text: "It was 6 [1].".into(),
            ..first.clone()
        };
        assert_eq!(other.save(second, &first.id).await, first);
        // What it costs now is no part of it.
        assert_eq!(other.get(&first.id).await.unwrap(), Some(first));
        for bad in [
            "",
            "a-",
            "../../x",
            "a-00000000000000000",
            "a-000000000000000g",
        ] {
            assert_eq!(one.get(bad).await.unwrap(), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn answers_are_orphaned_with_their_documents() {
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        let doc = |n: u32| DocId::new(&collection, &format!("file:///{n}"));
        let put = async |key: &str, json: &str| {
            blobs
                .put(key, json.to_owned().into())
                .await
                .map(drop)
                .unwrap()
        };
        let removed = serde_json::to_string(&TreeObject::Removed).unwrap();
        let tree = |n: u32, seq: u64| blob_keys::tree_key(&collection, doc(n), seq);
        for (key, json) in [
            (tree(1, 1), "{}"),
            (tree(1, 2), "{}"),
            (tree(2, 1), "{}"),
            (tree(2, 2), &removed),
        ] {
            put(&key, json).await;
        }
        let answer = |name: &str| format!("{}{name}.json", blob_keys::answers_prefix(&collection));
        let quotes =
            |n: u32, version: u64| format!(r#"{{"doc_id":"{}","version":{version}}}"#, doc(n));
        let orphaned =
            |cited: &str, read: &str| format!(r#"{{"citations":[{cited}],"sections":[{read}]}}"#);
        let read = |n: u32| format!(r#"{{"doc_id":"{}"}}"#, doc(n));
        for (name, json) in [
            ("a-newer", orphaned(&quotes(1, 2), &read(1))),
            ("a-older", orphaned(&quotes(1, 1), &read(1))),
            ("a-quotes-removed", orphaned(&quotes(2, 1), "")),
            (
                "a-read-removed",
                orphaned(&quotes(1, 2), &format!("{},{}", read(1), read(2))),
            ),
            ("a-unknown", orphaned(&quotes(3, 1), "")),
            ("a-nothing", orphaned("", "")),
            ("a-torn", "{".to_owned()),
        ] {
            put(&answer(name), &json).await;
        }
        let orphaned = orphaned_answers(&blobs, &collection, &HashSet::new())
            .await
            .unwrap();
        assert_eq!(
            orphaned,
            ["a-quotes-removed", "a-read-removed", "a-unknown"].map(answer)
        );
        let superseded = tree(1, 1);
        let orphaned = orphaned_answers(&blobs, &collection, &HashSet::from([superseded.as_str()]))
            .await
            .unwrap();
        assert_eq!(orphaned[0], answer("a-older"));
    }

    #[tokio::test]
    async fn promised_id_finds_degraded_answer_and_torn_one_is_rewritten() {
        let env = Env::system();
        let blobs = Arc::new(MemoryBlobs::default());
        let answers = || {
            AnswerStore::new(
                env.clone(),
                Arc::<MemoryBlobs>::clone(&blobs),
                &Collection::default(),
            )
        };
        let script = ScriptedAnswerer::default().with_reply("capex", "It was 5 [1].");
        let full = script
            .answer(&AskRequest::new("capex"), &mut ())
            .await
            .unwrap();
        let degraded = Degradation {
            code: "model.away".into(),
            message: String::new(),
            next: None,
        };
        let degraded_answer = Answer {
            id: degraded_id(&full.id, "model.away"),
            degradation: Some(degraded),
            ..full.clone()
        };
        answers().save(degraded_answer.clone(), &full.id).await;
        // Another replica, or this one after a restart.
        assert_eq!(
            answers().get_promised(&full.id).await.unwrap(),
            Some(degraded_answer.clone())
        );
        assert_eq!(answers().get(&full.id).await.unwrap(), None);
        assert_eq!(
            answers().get_promised("a-0000000000000000").await.unwrap(),
            None
        );
        answers().save(full.clone(), &full.id).await;
        assert_eq!(
            answers().get_promised(&full.id).await.unwrap(),
            Some(full.clone())
        );
        let key = format!(
            "{}{}.json",
            blob_keys::answers_prefix(&Collection::default()),
            full.id
        );
        for torn in ["", "{\"id\": \"a-"] {
            blobs.delete(&key).await.unwrap();
            blobs.put(&key, Bytes::from(torn)).await.unwrap();
            assert_eq!(answers().get(&full.id).await.unwrap(), None);
            answers().save(full.clone(), &full.id).await;
            assert_eq!(answers().get(&full.id).await.unwrap(), Some(full.clone()));
        }
    }
}
