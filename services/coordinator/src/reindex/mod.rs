//! Queue-triggered reindexing: messages and notifications on the reindex queue become jobs of one document each.
//!
//! What a message says is only a reason to look: the object as it is *now* decides (one HEAD), so neither the order of
//! messages nor duplicates matter. While a run of the document is open its messages wait; they then find the newest
//! state at once, so ten changes during one run are one more run. What becomes of it is announced as
//! `document.published` or `document.removed`, and stands in the change records.

mod message;

use async_trait::async_trait;
use stemma_document::{Collection, Origin};
use stemma_engine::consume::{Disposition, Handler};
use stemma_engine::flow::Terms;
use stemma_engine::port::ask;
use stemma_engine::queue::{Message, Rung};
use stemma_engine::s3::{Buckets, Entry};
use stemma_engine::{Env, PortError, Ports};
use stemma_pipeline::originals::{is_document, object_uri};
use stemma_pipeline::{Settings, Submission};

use crate::{Order, submit};
use message::Request;

/// A prefix in a bucket whose documents belong to a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The tenant.
    pub collection: Collection,
    /// The bucket.
    pub bucket: String,
    /// What keys begin with; empty for all.
    pub prefix: String,
}

/// Objects, as far as they are looked at.
#[async_trait]
pub trait Look: Send + Sync {
    /// An object as it is now; `None` when there is none.
    ///
    /// # Errors
    /// [`PortError`]: passing when the server is away, lasting when it refuses.
    async fn head(&self, bucket: &str, key: &str) -> Result<Option<Entry>, PortError>;
}

#[async_trait]
impl Look for Buckets {
    async fn head(&self, bucket: &str, key: &str) -> Result<Option<Entry>, PortError> {
        Buckets::head(self, bucket, key, None).await
    }
}

/// Handles the reindex queue.
pub struct Reindex {
    /// The world.
    pub env: Env,
    /// The ports.
    pub ports: Ports,
    /// Where objects are looked at.
    pub objects: Box<dyn Look>,
    /// What may be indexed: a network names only what is listed (architecture §8).
    pub sources: Vec<Source>,
    /// What new versions are indexed under.
    pub settings: Settings,
}

/// Why a request was not carried out.
enum Refusal {
    /// It names what is not listed, or contradicts the list.
    NotListed,
    /// A port is away, or refuses.
    Port(PortError),
}

impl From<PortError> for Refusal {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A job, or nothing to do.
    Settled,
    /// The document is in work: look again later.
    InWork,
}

#[async_trait]
impl Handler for Reindex {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let requests = match message::read(&message.body) {
            Ok(requests) => requests,
            Err(error) => {
                tracing::warn!(%error, "reindex message refused; kept with the dead letters");
                return Disposition::Dead;
            }
        };
        let mut disposition = Disposition::Ack;
        for request in requests {
            match self.carry_out(&request).await {
                Ok(Answer::Settled) => {}
                // What was settled before is settled again at no cost when the message comes back.
                Ok(Answer::InWork) => disposition = again(message, Rung::Short),
                Err(Refusal::NotListed) if request.collection.is_some() => {
                    return Disposition::Dead;
                }
                // A bucket may notify of more than is indexed.
                Err(Refusal::NotListed) => {
                    tracing::debug!(bucket = request.bucket, "notified of what is not listed")
                }
                Err(Refusal::Port(error)) if error.passing => {
                    tracing::warn!(%error, "reindex message waits for a port");
                    disposition = again(message, Rung::of_attempt(message.attempts));
                }
                Err(Refusal::Port(error)) => {
                    tracing::error!(bucket = request.bucket, %error, "reindex message cannot be carried out");
                    return Disposition::Dead;
                }
            }
        }
        disposition
    }
}

fn again(message: &Message, rung: Rung) -> Disposition {
    Disposition::Later {
        rung,
        attempts: message.attempts.saturating_add(1),
    }
}

impl Reindex {
    async fn carry_out(&self, request: &Request) -> Result<Answer, Refusal> {
        let source = self.source(request).ok_or(Refusal::NotListed)?;
        if !is_document(&request.key) {
            return Ok(Answer::Settled);
        }
        let uri = object_uri(&request.bucket, &request.key);
        if stemma_pipeline::in_work(&self.env, &self.ports, &source.collection, &uri).await? {
            return Ok(Answer::InWork);
        }
        let found = ask(&self.env, || {
            self.objects.head(&request.bucket, &request.key)
        })
        .await?;
        let submission = match &found {
            Some(entry) => Submission::of_object(&request.bucket, &source.prefix, entry),
            None => Submission::removed(uri, below(&request.key, &source.prefix)),
        };
        let submission = Submission {
            retry_failed: request.retry_failed,
            ..submission
        };
        let name = self.name(&submission, found.as_ref());
        let order = Order {
            collection: &source.collection,
            settings: &self.settings,
            class: request.class,
            terms: Terms {
                label: format!("reindex {}", submission.path),
                name,
                ..Terms::default()
            },
        };
        let job = submit(&self.env, &self.ports, order, &[submission]).await?;
        tracing::info!(job = %job.job, bucket = request.bucket, removed = found.is_none(), "reindex");
        Ok(Answer::Settled)
    }

    /// The list's longest prefix that fits, of the collection the message names, if it names one.
    fn source(&self, request: &Request) -> Option<&Source> {
        self.sources
            .iter()
            .filter(|source: &&Source| {
                request
                    .collection
                    .as_ref()
                    .is_none_or(|name| *name == source.collection.to_string())
            })
            .filter(|source: &&Source| {
                source.bucket == request.bucket && request.key.starts_with(&source.prefix)
            })
            .max_by_key(|source| source.prefix.len())
    }

    /// One name for one state of an object, so that a message that comes twice is one job. An object that has its old
    /// bytes again has a later time. None where a failed version is to be tried again: that is always a new job.
    fn name(&self, submission: &Submission, found: Option<&Entry>) -> Option<String> {
        if submission.retry_failed || submission.origin == Origin::Removed {
            return None;
        }
        let state =
            serde_json::to_vec(&(&submission.uri, &submission.source, &submission.origin)).ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&state)
            .update(&found.map_or(0, |entry| entry.modified_ms).to_le_bytes());
        hasher.update(&serde_json::to_vec(&self.settings).ok()?);
        Some(format!(
            "reindex-{}",
            &hasher.finalize().to_hex().as_str()[..32]
        ))
    }
}

fn below(key: &str, prefix: &str) -> String {
    let path = key
        .strip_prefix(prefix)
        .unwrap_or(key)
        .trim_start_matches('/');
    if path.is_empty() {
        key.into()
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests;
