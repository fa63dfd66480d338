//! Queue-triggered reindexing: each message or notification on the reindex queue becomes a job of one document.
//!
//! A message only says where to look; the *current* state of the object decides (one HEAD request), so neither order
//! nor duplicates matter. While a run of the document is open its messages wait, and then find the newest state, so ten
//! changes during one run cause one more run. Results are announced as `document.published` or `document.for_removal`,
//! and are listed in the change records.

mod message;

use async_trait::async_trait;
use stemma_document::{Collection, Origin};
use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::flow::JobOptions;
use stemma_engine::port_retry::with_retry;
use stemma_engine::queue::{Message, RetryDelay};
use stemma_engine::s3::{BucketReader, ObjectMeta};
use stemma_engine::{Env, PortError, PortResult, Ports};
use stemma_pipeline::sources::{is_document, object_uri};
use stemma_pipeline::{CorrectionChange, RunSettings, Submission};

use crate::{SubmitRequest, submit};
use message::ReindexRequest;

/// Assigns the documents below a bucket prefix to a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexSource {
    pub collection: Collection,
    pub bucket: String,
    /// Prefix of keys; empty for all.
    pub prefix: String,
}

/// Looks up objects.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// Metadata of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`PortError`]: transient when the server is unavailable, permanent when it refuses.
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>>;
}

#[async_trait]
impl ObjectLookup for BucketReader {
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        BucketReader::head(self, bucket, key, None).await
    }
}

/// Handler of the reindex queue.
pub struct Reindex {
    pub env: Env,
    pub ports: Ports,
    pub objects: Box<dyn ObjectLookup>,
    /// Only documents of these sources may be indexed: senders cannot name arbitrary objects.
    pub sources: Vec<ReindexSource>,
    /// Settings of new runs.
    pub settings: RunSettings,
}

enum ReindexError {
    // Not in the configured sources, or in another collection than the message says.
    NotListed,
    Port(PortError),
}

impl From<PortError> for ReindexError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ReindexOutcome {
    // A job was submitted, or nothing is to be done.
    Done,
    // A run of the document is open: check again later.
    Busy,
}

#[async_trait]
impl Handler for Reindex {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let requests = match message::parse(&message.body) {
            Ok(requests) => requests,
            Err(error) => {
                tracing::warn!(%error, "invalid reindex message; moving it to the dead letters");
                return Disposition::DeadLetter;
            }
        };
        let mut disposition = Disposition::Ack;
        for request in requests {
            match self.process(&request).await {
                Ok(ReindexOutcome::Done) => {}
                // Requests handled before are handled again at no cost when the message is redelivered.
                Ok(ReindexOutcome::Busy) => disposition = retry_later(message, RetryDelay::Short),
                Err(ReindexError::NotListed) if request.collection.is_some() => {
                    return Disposition::DeadLetter;
                }
                // A bucket may send notifications for more than is indexed.
                Err(ReindexError::NotListed) => {
                    tracing::debug!(
                        bucket = request.bucket,
                        "ignoring a notification for an object outside the configured sources"
                    );
                }
                Err(ReindexError::Port(error)) if !error.is_permanent() => {
                    tracing::warn!(%error, "a port is unavailable; the reindex message will be retried");
                    disposition = retry_later(message, RetryDelay::for_attempt(message.attempts));
                }
                Err(ReindexError::Port(error)) => {
                    tracing::error!(bucket = request.bucket, %error, "cannot process reindex message");
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
        if stemma_pipeline::has_open_run(&self.ports, &source.collection, &uri).await? {
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
            correction: CorrectionChange::Keep,
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

    // The longest matching prefix wins, within the collection that the message names, if any.
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

    // One name per state of an object, so that a duplicate message is the same job. An object restored to old bytes has
    // a later modification time. `None` for a retry of a failed version, which is always a new job.
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
