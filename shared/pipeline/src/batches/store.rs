//! The batches of a collection in the store: what is to be asked, what was submitted, and the replies.
//!
//! | key below `c/{collection}/batches/{bucket}/` | content |
//! |---|---|
//! | `items/{item}.json` | a request that waits, or is in a batch; deleted when its reply is stored |
//! | `replies/{item}.json` | the result of a request, paid or not |
//! | `log/{seq}/plan.json` | batch number `seq`: its items |
//! | `log/{seq}/attempt-{n}.json` | a submission is about to begin |
//! | `log/{seq}/submitted.json` | the provider's id |
//! | `log/{seq}/ended.json` | nothing is left to do |
//!
//! Every object is created once. Batch `seq` is planned by a process that has read all plans before it, so no item is in two
//! batches: the loser of a race for a number reads the winner's plan and plans anew.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_store::blobs::{Blobs, PutOutcome, get_json, list_all, put_json};
use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;
use stemma_store::{JobId, PortError, PortResult, RetryingBlobs, RunRef, TaskKey};

use stemma_llm::batch::BatchResult;
use stemma_llm::request::{FinishReason, LlmReply, TokenUsage};

/// Prefix of the marks that tell which collections have batches at which provider: `batches/{bucket}/{collection}`.
const MARKS: &str = "batches/";

/// A request that waits for a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchItem {
    /// See [`item_id`].
    pub id: String,
    pub run: RunRef,
    pub task: TaskKey,
    pub stage: String,
    pub attempt: u32,
    pub model: String,
    /// Digest of the request.
    pub request: String,
    /// The longest prompt and reply, for budgets.
    pub most: TokenUsage,
    /// The request as the provider takes it.
    pub line: String,
    /// The message that wakes the task.
    pub message: String,
}

/// Id of the request of a task: 32 hexadecimal digits. The key of a task names everything that its request depends on.
/// `round` counts the batches in which it was not executed.
pub(crate) fn item_id(scope: &str, task: &TaskKey, round: u32) -> String {
    let name = format!("{scope}\n{task}\n{round}");
    blake3::hash(name.as_bytes()).to_hex().as_str()[..32].into()
}

/// The result of a request, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredReply {
    /// Time of storing it, and of its line in the call log.
    pub at_ms: Millis,
    /// Time since the submission.
    pub took_ms: Millis,
    pub result: StoredResult,
    /// What it costs; `None` if nothing, and in replies of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<ReplyPayment>,
}

/// What a reply costs and who pays, as of the moment it was stored. Kept with the reply, because both are part of the name
/// of its line in the call log, which a repeated step must write under the same name, and both may change meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyPayment {
    pub cost: SpendAmount,
    pub jobs: Vec<JobId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredResult {
    Reply {
        text: String,
        usage: TokenUsage,
        /// Whether the reply reached the output limit.
        cut: bool,
        /// Whether the model thought; `false` in replies of older releases.
        #[serde(default)]
        has_thought: bool,
    },
    /// A billed or refused request without a usable reply.
    Failed {
        code: String,
        usage: TokenUsage,
    },
    NotExecuted,
}

impl StoredResult {
    pub(super) fn from_result(result: &BatchResult) -> Self {
        match result {
            BatchResult::Reply(reply) => Self::Reply {
                text: reply.text.clone(),
                usage: reply.usage,
                cut: reply.finish == FinishReason::Length,
                has_thought: reply.has_thought,
            },
            BatchResult::Failed(error) => Self::Failed {
                code: error.code().into(),
                usage: error.billed_usage(),
            },
            BatchResult::NotExecuted => Self::NotExecuted,
        }
    }

    /// The tokens that the provider bills; `None` if it bills nothing.
    pub(super) fn billed(&self) -> Option<TokenUsage> {
        match self {
            Self::Reply { usage, .. } => Some(*usage),
            Self::Failed { usage, .. } => Some(*usage).filter(|usage| usage.total() > 0),
            Self::NotExecuted => None,
        }
    }

    /// The reply, if there is one.
    pub(crate) fn reply(&self) -> Option<LlmReply> {
        let Self::Reply {
            text,
            usage,
            cut,
            has_thought,
        } = self
        else {
            return None;
        };
        let finish = if *cut {
            FinishReason::Length
        } else {
            FinishReason::Complete
        };
        Some(LlmReply {
            finish,
            has_thought: *has_thought,
            ..LlmReply::new(text.clone(), *usage)
        })
    }
}

/// A batch before it is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchPlan {
    /// Unique for all time; the provider knows the batch by it.
    pub(super) name: String,
    pub(super) planned_ms: Millis,
    pub(super) items: Vec<String>,
    /// The runs of the items, each once.
    pub(super) runs: Vec<RunRef>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Submission {
    /// The provider's id.
    pub(super) id: String,
    pub(super) at_ms: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchEnd {
    pub(super) at_ms: Millis,
    /// Why there are no results; empty if there are.
    #[serde(default)]
    pub(super) code: String,
}

/// The batches of one collection at one provider.
#[derive(Clone)]
pub(crate) struct BatchStore {
    pub(super) blobs: RetryingBlobs,
    /// Blob prefix of the collection, without a trailing slash.
    pub(super) collection: String,
    prefix: String,
    mark: String,
}

/// Name of a rate limit bucket in keys.
fn bucket_name(bucket: &str) -> String {
    blake3::hash(bucket.as_bytes()).to_hex().as_str()[..16].into()
}

/// The collections that have ever had batches in a bucket, as blob prefixes.
pub(super) async fn collections(blobs: &RetryingBlobs, bucket: &str) -> PortResult<Vec<String>> {
    let prefix = format!("{MARKS}{}/", bucket_name(bucket));
    let names = list_all(blobs, &prefix).await?;
    Ok(names
        .iter()
        .filter_map(|name| Some(format!("c/{}", name.strip_prefix(&prefix)?)))
        .collect())
}

impl BatchStore {
    /// The store of a collection (`c/{name}`) for a rate limit bucket.
    pub(crate) fn new(blobs: &RetryingBlobs, collection: &str, bucket: &str) -> Self {
        let bucket = bucket_name(bucket);
        let name = collection.trim_start_matches("c/");
        Self {
            blobs: blobs.clone(),
            collection: collection.into(),
            prefix: format!("{collection}/batches/{bucket}/"),
            mark: format!("{MARKS}{bucket}/{name}"),
        }
    }

    /// The stored result of a request.
    pub(crate) async fn reply(&self, item: &str) -> PortResult<Option<StoredReply>> {
        self.get_or_remove(self.reply_key(item)).await
    }

    /// Adds a request, once. It is asked after this returns.
    pub(crate) async fn add(&self, item: &BatchItem) -> PortResult<()> {
        // The mark first: a request in a collection without a mark would never be seen.
        put_json(&self.blobs, &self.mark, &()).await?;
        put_json(&self.blobs, &self.item_key(&item.id), item).await?;
        Ok(())
    }

    pub(super) async fn item_ids(&self) -> PortResult<Vec<String>> {
        let prefix = format!("{}items/", self.prefix);
        let keys = list_all(&self.blobs, &prefix).await?;
        Ok(keys
            .iter()
            .filter_map(|key| Some(key.strip_prefix(&prefix)?.strip_suffix(".json")?.into()))
            .collect())
    }

    pub(super) async fn item(&self, id: &str) -> PortResult<Option<BatchItem>> {
        self.get_or_remove(self.item_key(id)).await
    }

    pub(super) async fn has_reply(&self, id: &str) -> PortResult<bool> {
        Ok(self.blobs.size(&self.reply_key(id)).await?.is_some())
    }

    pub(super) async fn remove_item(&self, id: &str) -> PortResult<()> {
        self.blobs.delete(&self.item_key(id)).await
    }

    pub(super) async fn remove_reply(&self, id: &str) -> PortResult<()> {
        self.blobs.delete(&self.reply_key(id)).await
    }

    /// Stores a result. Returns the one that was stored first, and whether that is this one.
    pub(super) async fn store_reply(
        &self,
        id: &str,
        reply: StoredReply,
    ) -> PortResult<(StoredReply, bool)> {
        let blobs = self.blobs.with_long_retries();
        for _ in 0..2 {
            if put_json(&blobs, &self.reply_key(id), &reply).await? == PutOutcome::Created {
                return Ok((reply, true));
            }
            // Reading removes a torn one, and ours takes its place.
            if let Some(first) = self.reply(id).await? {
                return Ok((first, false));
            }
        }
        Err(PortError::transient(
            "blobs.put",
            format!("{id}: a reply exists, but cannot be read"),
        ))
    }

    /// The numbers of all batches with the names of their records, in order.
    pub(super) async fn log(&self) -> PortResult<Vec<(u64, String)>> {
        let prefix = self.log_prefix();
        let keys = list_all(&self.blobs, &prefix).await?;
        let records = keys.iter().filter_map(|key| {
            let (seq, record) = key.strip_prefix(&prefix)?.split_once('/')?;
            Some((seq.parse().ok()?, record.strip_suffix(".json")?.to_string()))
        });
        Ok(records.collect())
    }

    pub(super) async fn read<T: DeserializeOwned + Send>(
        &self,
        seq: u64,
        record: &str,
    ) -> PortResult<Option<T>> {
        get_json(&self.blobs, &self.record_key(seq, record)).await
    }

    /// As `read`; a record that a power loss has torn is removed.
    pub(super) async fn read_or_remove<T: DeserializeOwned>(
        &self,
        seq: u64,
        record: &str,
    ) -> PortResult<Option<T>> {
        self.get_or_remove(self.record_key(seq, record)).await
    }

    pub(super) async fn write<T: Serialize + Sync>(
        &self,
        seq: u64,
        record: &str,
        value: &T,
    ) -> PortResult<PutOutcome> {
        put_json(&self.blobs, &self.record_key(seq, record), value).await
    }

    pub(super) async fn remove(&self, seq: u64, record: &str) -> PortResult<()> {
        self.blobs.delete(&self.record_key(seq, record)).await
    }

    // An object that a power loss has torn is removed, and made again.
    async fn get_or_remove<T: DeserializeOwned>(&self, key: String) -> PortResult<Option<T>> {
        let Some(json) = self.blobs.get(&key).await? else {
            return Ok(None);
        };
        if let Ok(value) = serde_json::from_slice(&json) {
            return Ok(Some(value));
        }
        tracing::warn!(key, "removed an unreadable object of a batch");
        self.blobs.delete(&key).await?;
        Ok(None)
    }

    fn item_key(&self, id: &str) -> String {
        format!("{}items/{id}.json", self.prefix)
    }

    fn reply_key(&self, id: &str) -> String {
        format!("{}replies/{id}.json", self.prefix)
    }

    fn log_prefix(&self) -> String {
        format!("{}log/", self.prefix)
    }

    fn record_key(&self, seq: u64, record: &str) -> String {
        format!("{}{seq:010}/{record}.json", self.log_prefix())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_replies_say_whether_they_are_whole_and_thought_about() {
        let usage = TokenUsage::default();
        for (finish, has_thought) in [
            (FinishReason::Length, true),
            (FinishReason::Length, false),
            (FinishReason::Complete, true),
        ] {
            let reply = LlmReply {
                finish,
                has_thought,
                ..LlmReply::new("{", usage)
            };
            let stored = StoredResult::from_result(&BatchResult::Reply(reply.clone()));
            let json = serde_json::to_value(&stored).unwrap();
            let read: StoredResult = serde_json::from_value(json).unwrap();
            assert_eq!(read.reply(), Some(reply));
        }
        let older = json!({ "reply": { "text": "{", "usage": usage, "cut": false } });
        let read: StoredResult = serde_json::from_value(older).unwrap();
        assert_eq!(read.reply(), Some(LlmReply::new("{", usage)));
    }
}
