//! Queue-triggered reindexing: messages and notifications on the reindex queue become jobs of one document each.
//!
//! What a message says is only a reason to look: the object as it is *now* decides (one HEAD), so neither the order of
//! messages nor duplicates matter. While a run of the document is open its messages wait; they then find the newest
//! state at once, so ten changes during one run are one more run. What becomes of it is announced as
//! `document.published` or `document.for_removal`, and stands in the change records.

mod message;

use async_trait::async_trait;
use stemma_document::{Collection, Origin};
use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::flow::JobOptions;
use stemma_engine::port_error::with_retry;
use stemma_engine::queue::{Message, RetryDelay};
use stemma_engine::s3::{BucketReader, ObjectMeta};
use stemma_engine::{Env, PortError, Ports};
use stemma_pipeline::sources::{is_document, object_uri};
use stemma_pipeline::{RunSettings, Submission};

use crate::{SubmitRequest, submit};
use message::ReindexRequest;

/// A prefix in a bucket whose documents belong to a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexSource {
    /// The tenant.
    pub collection: Collection,
    /// The bucket.
    pub bucket: String,
    /// What keys begin with; empty for all.
    pub prefix: String,
}

/// Objects, as far as they are looked at.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// An object as it is now; `None` when there is none.
    ///
    /// # Errors
    /// [`PortError`]: passing when the server is away, lasting when it refuses.
    async fn head(&self, bucket: &str, key: &str) -> Result<Option<ObjectMeta>, PortError>;
}

#[async_trait]
impl ObjectLookup for BucketReader {
    async fn head(&self, bucket: &str, key: &str) -> Result<Option<ObjectMeta>, PortError> {
        BucketReader::head(self, bucket, key, None).await
    }
}

/// Handles the reindex queue.
pub struct Reindex {
    /// The world.
    pub env: Env,
    /// The ports.
    pub ports: Ports,
    /// Where objects are looked at.
    pub objects: Box<dyn ObjectLookup>,
    /// What may be indexed: a network names only what is listed (architecture §8).
    pub sources: Vec<ReindexSource>,
    /// What new versions are indexed under.
    pub settings: RunSettings,
}

/// Why a request was not carried out.
enum ReindexError {
    /// It names what is not listed, or contradicts the list.
    NotListed,
    /// A port is away, or refuses.
    Port(PortError),
}

impl From<PortError> for ReindexError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
enum ReindexOutcome {
    /// A job, or nothing to do.
    Done,
    /// The document is in work: look again later.
    Busy,
}

#[async_trait]
impl Handler for Reindex {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let requests = match message::parse(&message.body) {
            Ok(requests) => requests,
            Err(error) => {
                tracing::warn!(%error, "reindex message refused; kept with the dead letters");
                return Disposition::DeadLetter;
            }
        };
        let mut disposition = Disposition::Ack;
        for request in requests {
            match self.process(&request).await {
                Ok(ReindexOutcome::Done) => {}
                // What was settled before is settled again at no cost when the message comes back.
                Ok(ReindexOutcome::Busy) => disposition = retry_later(message, RetryDelay::Short),
                Err(ReindexError::NotListed) if request.collection.is_some() => {
                    return Disposition::DeadLetter;
                }
                // A bucket may notify of more than is indexed.
                Err(ReindexError::NotListed) => {
                    tracing::debug!(bucket = request.bucket, "notified of what is not listed")
                }
                Err(ReindexError::Port(error)) if error.transient => {
                    tracing::warn!(%error, "reindex message waits for a port");
                    disposition = retry_later(message, RetryDelay::for_attempt(message.attempts));
                }
                Err(ReindexError::Port(error)) => {
                    tracing::error!(bucket = request.bucket, %error, "reindex message cannot be carried out");
                    return Disposition::DeadLetter;
                }
            }
        }
        disposition
    }
}

fn retry_later(message: &Message, delay: RetryDelay) -> Disposition {
    Disposition::Retry {
        delay,
        attempts: message.attempts.saturating_add(1),
    }
}

impl Reindex {
    async fn process(&self, request: &ReindexRequest) -> Result<ReindexOutcome, ReindexError> {
        let source = self.find_source(request).ok_or(ReindexError::NotListed)?;
        if !is_document(&request.key) {
            return Ok(ReindexOutcome::Done);
        }
        let uri = object_uri(&request.bucket, &request.key);
        if stemma_pipeline::has_open_run(&self.env, &self.ports, &source.collection, &uri).await? {
            return Ok(ReindexOutcome::Busy);
        }
        let object = with_retry(&self.env, || {
            self.objects.head(&request.bucket, &request.key)
        })
        .await?;
        let submission = match &object {
            Some(entry) => Submission::from_object(&request.bucket, &source.prefix, entry),
            None => Submission::for_removal(uri, relative_key(&request.key, &source.prefix)),
        };
        let submission = Submission {
            retry_failed: request.retry_failed,
            ..submission
        };
        let name = self.job_name(&submission, object.as_ref());
        let order = SubmitRequest {
            collection: &source.collection,
            settings: &self.settings,
            class: request.class,
            terms: JobOptions {
                label: format!("reindex {}", submission.path),
                name,
                ..JobOptions::default()
            },
        };
        let job = submit(&self.env, &self.ports, order, &[submission]).await?;
        tracing::info!(job = %job.job, bucket = request.bucket, removed = object.is_none(), "reindex");
        Ok(ReindexOutcome::Done)
    }

    /// The list's longest prefix that fits, of the collection the message names, if it names one.
    fn find_source(&self, request: &ReindexRequest) -> Option<&ReindexSource> {
        self.sources
            .iter()
            .filter(|source: &&ReindexSource| {
                request
                    .collection
                    .as_ref()
                    .is_none_or(|name| *name == source.collection.to_string())
            })
            .filter(|source: &&ReindexSource| {
                source.bucket == request.bucket && request.key.starts_with(&source.prefix)
            })
            .max_by_key(|source| source.prefix.len())
    }

    /// One name for one state of an object, so that a message that comes twice is one job. An object that has its old
    /// bytes again has a later time. None where a failed version is to be tried again: that is always a new job.
    fn job_name(&self, submission: &Submission, object: Option<&ObjectMeta>) -> Option<String> {
        if submission.retry_failed || submission.origin == Origin::Removed {
            return None;
        }
        let state =
            serde_json::to_vec(&(&submission.uri, &submission.source, &submission.origin)).ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&state)
            .update(&object.map_or(0, |entry| entry.modified_ms).to_le_bytes());
        hasher.update(&serde_json::to_vec(&self.settings).ok()?);
        Some(format!(
            "reindex-{}",
            &hasher.finalize().to_hex().as_str()[..32]
        ))
    }
}

fn relative_key(key: &str, prefix: &str) -> String {
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
