//! Answers that were given: created once, read by their ids, never changed.
//!
//! They lie at `c/{collection}/answers/{id}.json`. Whoever loses a race for an id reads the winner (I-2), so that two who ask
//! the same get the same citations. Where the store may not be written, this process keeps what it answered lately. They stay as
//! long as what they rest on does ([`unfounded`]).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::Deserialize;
use stemma_document::{Collection, Digest, DocId, TreeObject, layout};
use stemma_engine::blobs::{Blobs, Put, list_all};
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

/// Answers that rest on what is not there any more: a document that was removed, or a version whose tree is gone or among
/// `going`, the keys that are being removed. What cannot be read as an answer is not judged.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn unfounded(
    blobs: &dyn Blobs,
    collection: &Collection,
    going: &HashSet<&str>,
) -> Result<Vec<String>, PortError> {
    let (mut known, mut unfounded) = (HashMap::new(), Vec::new());
    for key in list_all(blobs, &layout::answers_prefix(collection)).await? {
        let Some(json) = blobs.get(&key).await? else { continue };
        let Ok(grounds) = serde_json::from_slice::<Grounds>(&json) else { continue };
        for (doc, version) in grounds.all() {
            let Ok(doc) = doc.parse::<DocId>() else { continue };
            let there = match known.entry(doc) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(trees(blobs, collection, doc, going).await?),
            };
            if !there.as_ref().is_some_and(|trees| version.is_none_or(|version| trees.contains(&version))) {
                unfounded.push(key);
                break;
            }
        }
    }
    Ok(unfounded)
}

/// The versions of a document whose trees stay; `None` where it was removed.
async fn trees(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    going: &HashSet<&str>,
) -> Result<Option<HashSet<u64>>, PortError> {
    let keys = list_all(blobs, &layout::trees_prefix(collection, doc)).await?;
    let Some(newest) = keys.last() else { return Ok(None) };
    let newest = blobs.get(newest).await?.and_then(|json| serde_json::from_slice(&json).ok());
    if matches!(newest, Some(TreeObject::Removed)) {
        return Ok(None);
    }
    let stays = keys.iter().filter(|key| !going.contains(key.as_str()));
    Ok(Some(stays.filter_map(|key| layout::seq_of(key)).collect()))
}

/// What an answer rests on.
#[derive(Deserialize)]
struct Grounds {
    citations: Vec<Place>,
    sections: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    doc_id: String,
    #[serde(default)]
    version: Option<u64>,
}

impl Grounds {
    /// Documents, and the versions of those that are quoted.
    fn all(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.citations.iter().chain(&self.sections).map(|place| (place.doc_id.as_str(), place.version))
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

    #[tokio::test]
    async fn answers_stay_as_long_as_what_they_quote() {
        let (blobs, collection) = (MemoryBlobs::default(), Collection::default());
        let doc = |n: u32| DocId::of(&collection, &format!("file:///{n}"));
        let put = async |key: &str, json: &str| blobs.put(key, json.to_owned().into()).await.map(drop).unwrap();
        let removed = serde_json::to_string(&TreeObject::Removed).unwrap();
        let tree = |n: u32, seq: u64| layout::tree_key(&collection, doc(n), seq);
        for (key, json) in [(tree(1, 1), "{}"), (tree(1, 2), "{}"), (tree(2, 1), "{}"), (tree(2, 2), &removed)] {
            put(&key, json).await;
        }
        let answer = |name: &str| format!("{}{name}.json", layout::answers_prefix(&collection));
        let quotes = |n: u32, version: u64| format!(r#"{{"doc_id":"{}","version":{version}}}"#, doc(n));
        let told = |cited: &str, read: &str| format!(r#"{{"citations":[{cited}],"sections":[{read}]}}"#);
        let read = |n: u32| format!(r#"{{"doc_id":"{}"}}"#, doc(n));
        for (name, json) in [
            ("a-newer", told(&quotes(1, 2), &read(1))),
            ("a-older", told(&quotes(1, 1), &read(1))),
            ("a-quotes-removed", told(&quotes(2, 1), "")),
            ("a-read-removed", told(&quotes(1, 2), &format!("{},{}", read(1), read(2)))),
            ("a-unknown", told(&quotes(3, 1), "")),
            ("a-nothing", told("", "")),
            ("a-torn", "{".to_owned()),
        ] {
            put(&answer(name), &json).await;
        }
        let found = unfounded(&blobs, &collection, &HashSet::new()).await.unwrap();
        assert_eq!(found, ["a-quotes-removed", "a-read-removed", "a-unknown"].map(answer));
        let superseded = tree(1, 1);
        let found = unfounded(&blobs, &collection, &HashSet::from([superseded.as_str()])).await.unwrap();
        assert_eq!(found[0], answer("a-older"));
    }
}
