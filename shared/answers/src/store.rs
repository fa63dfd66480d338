//! Stored answers: created once, read by id, never changed.
//!
//! The key is `c/{collection}/answers/{id}.json`. A writer that loses the race for an id returns the winner's answer (I-2), so
//! that equal questions get equal citations. Without write permission, recent answers are kept in memory only. An answer is
//! deleted when a document it cites is ([`orphaned_answers`]).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use serde::{Deserialize, Serialize};
use stemma_document::{Collection, Digest, DocId, TreeObject, blob_keys};
use stemma_store::blobs::{Blobs, PutOutcome, list_all};
use stemma_store::env::Millis;
use stemma_store::port_retry::with_retry;
use stemma_store::{Env, PortError, PortResult};

use super::answer::{Answer, Degradation, GenerationUsage};
use stemma_store::cache::Cache;

const CACHE_BYTES: usize = 32 << 20;
const CACHE_MS: Millis = 24 * 3_600_000;
const ID_DIGITS: usize = 16;
// The last digits of an id tell complete and degraded answers apart; the others are equal.
const DEGRADED_DIGITS: usize = 4;
// Degraded variants of an id to look at. There is one per code.
const MAX_DEGRADED: usize = 16;
const DEGRADED_CACHE_BYTES: usize = 1 << 20;

/// The answers of one collection. One per process and collection.
pub struct AnswerStore {
    env: Env,
    blobs: Arc<dyn Blobs>,
    prefix: String,
    cache: Cache<String, Arc<Answer>>,
    // By the id of the complete answer, the id of the degraded one stored in its place.
    degraded_ids: Cache<String, String>,
    is_read_only: AtomicBool,
}

impl AnswerStore {
    pub fn new(env: Env, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::answers_prefix(collection);
        Self {
            env,
            blobs,
            prefix,
            cache: Cache::new(CACHE_BYTES, CACHE_MS),
            degraded_ids: Cache::new(DEGRADED_CACHE_BYTES, CACHE_MS),
            is_read_only: AtomicBool::new(false),
        }
    }

    /// The answer with this id; `None` when there is none, or `id` is malformed.
    pub async fn get(&self, id: &str) -> PortResult<Option<Answer>> {
        if !is_answer_id(id) {
            return Ok(None);
        }
        self.read(id).await
    }

    /// The answer with this id, or the degraded answer given in its place. A degraded answer has an id of its own with the same
    /// prefix, so that any replica finds it.
    pub async fn get_promised(&self, id: &str) -> PortResult<Option<Answer>> {
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
                .is_some_and(|degraded| degraded_id(id, degraded) == answer.id)
            {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    // A torn answer was never sent to anyone. It counts as a miss and is generated again.
    async fn read(&self, id: &str) -> PortResult<Option<Answer>> {
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
                tracing::warn!(key, %error, "a stored answer cannot be parsed; it is generated again");
                Ok(None)
            }
        }
    }

    // Stores an answer under its own id and returns what is stored there: another writer's answer, when that one was first.
    // `promised` is the id the caller was told before generation; it differs when the answer is degraded.
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
                    // Show why this run degraded, not why the stored one did.
                    return Answer {
                        usage: answer.usage,
                        degradation: answer.degradation,
                        ..winner
                    };
                }
                Ok(None) => self.repair(&saved.id, json.clone().into()).await,
                Err(error) => {
                    tracing::warn!(id = saved.id, %error, "the answer stored by another writer cannot be read");
                }
            },
            Ok(_) => {}
            Err(error) => self.on_write_error(&error),
        }
        self.cache_answer(&saved, json.len());
        answer
    }

    async fn create(&self, id: &str, json: Bytes) -> PortResult<Option<PutOutcome>> {
        if self.is_read_only.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let key = self.key(id);
        with_retry(&self.env, || self.blobs.put(&key, json.clone()))
            .await
            .map(Some)
    }

    // Replaces a torn answer.
    async fn repair(&self, id: &str, json: Bytes) {
        let key = self.key(id);

        let replaced = async {
            self.blobs.delete(&key).await?;
            self.create(id, json).await
        };
        if let Err(error) = replaced.await {
            tracing::warn!(key, %error, "an unreadable answer could not be replaced");
        }
    }

    fn on_write_error(&self, error: &PortError) {
        if error.is_transient() {
            tracing::warn!(%error, "an answer could not be stored");
        } else if !self.is_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "answers of this process are not stored: grant write permission below answers/");
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

/// Keys of answers that cite a removed document, or a version whose tree is gone or about to be: `going` holds the keys of trees
/// that are being deleted. Objects that cannot be parsed as answers are skipped.
pub async fn orphaned_answers(
    blobs: &dyn Blobs,
    collection: &Collection,
    going: &HashSet<&str>,
) -> PortResult<Vec<String>> {
    let mut versions_by_doc = HashMap::new();

    let mut orphaned = Vec::new();
    for key in list_all(blobs, &blob_keys::answers_prefix(collection)).await? {
        let Some(json) = blobs.get(&key).await? else {
            continue;
        };

        let Ok(references) = serde_json::from_slice::<AnswerReferences>(&json) else {
            continue;
        };

        for (doc, version) in references.all() {
            let Ok(doc) = doc.parse::<DocId>() else {
                continue;
            };
            let versions = match versions_by_doc.entry(doc) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    unknown.insert(remaining_versions(blobs, collection, doc, going).await?)
                }
            };

            if !versions
                .as_ref()
                .is_some_and(|trees| version.is_none_or(|version| trees.contains(&version)))
            {
                orphaned.push(key);
                break;
            }
        }
    }

    Ok(orphaned)
}

// `None` when the document was removed.
async fn remaining_versions(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    going: &HashSet<&str>,
) -> PortResult<Option<HashSet<u64>>> {
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
    Ok(Some(
        keys.iter()
            .filter(|key| !going.contains(key.as_str()))
            .filter_map(|key| blob_keys::parse_seq(key))
            .collect(),
    ))
}

// The fields of a stored answer that decide whether it is orphaned.
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
    fn all(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.citations
            .iter()
            .chain(&self.sections)
            .map(|place| (place.doc_id.as_str(), place.version))
    }
}

/// `a-` and the first 16 hexadecimal digits of the digest of `parts` as JSON. Ids are names in the store: the JSON must not change.
pub(super) fn answer_id(parts: &impl Serialize) -> String {
    let mut hasher = blake3::Hasher::new();
    // Parts are written in small pieces, which the hasher takes slowly. Neither it nor plain text can fail.
    let mut writer = BufWriter::new(&mut hasher);
    drop(serde_json::to_writer(&mut writer, parts));
    drop(writer);
    format!("a-{}", &hasher.finalize().to_hex()[..ID_DIGITS])
}

/// The id of a degraded answer, from the id of the complete one and the reason: [`AnswerStore::get_promised`] finds one by the other.
/// Messages name durations and request ids, so only the code counts.
pub(super) fn degraded_id(id: &str, reason: &Degradation) -> String {
    let text = format!("{id} {}", reason.code);
    let digest = Digest::from_content(text.as_bytes()).to_string();
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
    use stemma_store::blobs::MemoryBlobs;

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
        // The cost of this generation is not stored.
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
                .unwrap();
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
            code: "model.unavailable".into(),
            message: String::new(),
            next: None,
        };
        let degraded_answer = Answer {
            id: degraded_id(&full.id, &degraded),
            degradation: Some(degraded),
            ..full.clone()
        };
        answers().save(degraded_answer.clone(), &full.id).await;
        // As on another replica, or after a restart.
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
