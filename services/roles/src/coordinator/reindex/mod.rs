//! Queue-triggered reindexing: messages and notifications on the reindex queue become jobs.
//!
//! A message only says where to look; the state of the object when its entry is *claimed* decides (one HEAD request; the
//! folder of a filing is read again, too), so neither order nor duplicates matter. While a run of the document is open its
//! entries wait, and then find the newest state, so ten changes during one run cause one more run. Messages of a few seconds
//! become one job. Results are announced as `document.published` or `document.for_removal`, and are listed in the change
//! records.

mod batch;
mod message;

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, SourceFormat, name_extensions};
use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::queue::{DeadReason, Message, QueueName, RetryDelay};
use stemma_engine::{Ports, RepeatedLog, dead_letter};
use stemma_pipeline::filing_folders::{BucketFolder, may_change_document};
use stemma_pipeline::sources::is_document;
use stemma_pipeline::{FollowedObject, RunSettings, Submission};
use stemma_store::{PortError, PortResult};

use batch::Batches;
use message::ReindexRequest;

// Objects of one notification that are looked up at once.
const LOOKUPS_AT_ONCE: usize = 16;

/// Assigns the documents below a bucket prefix to a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexSource {
    pub collection: Collection,
    pub bucket: String,
    /// Prefix of keys; empty for all.
    pub prefix: String,
}

// Whoever triggers reindexing can send any number of messages.
static DEAD_LETTERS: RepeatedLog = RepeatedLog::new();

/// Handler of the reindex queue.
pub struct Reindex {
    pub(crate) ports: Ports,
    // Only documents of these sources may be indexed: senders cannot name arbitrary objects.
    sources: Vec<ReindexSource>,
    // Settings of new runs.
    settings: RunSettings,
    batches: Batches,
}

enum ReindexError {
    /// Nothing that may be indexed was asked for; the reason.
    Refused(String),
    Port(PortError),
}

impl From<PortError> for ReindexError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

#[async_trait]
impl Handler for Reindex {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        match self.process(&message.body).await {
            Ok(()) => Disposition::Ack,
            Err(ReindexError::Refused(reason)) => self.put_away(message, &reason).await,
            Err(ReindexError::Port(error)) if error.is_permanent() => {
                self.put_away(message, &error.to_string()).await
            }
            Err(ReindexError::Port(error)) => {
                tracing::warn!(%error, "a port is unavailable; the reindex message will be retried");
                retry_later(message)
            }
        }
    }
}

fn retry_later(message: &Message) -> Disposition {
    Disposition::Retry {
        delay: RetryDelay::for_attempt(message.attempts),
        attempts: message.attempts.saturating_add(1),
        retry_ms: None,
    }
}

impl Reindex {
    /// A handler whose ports can look up objects. Only documents of `sources` are indexed.
    pub fn new(ports: Ports, sources: Vec<ReindexSource>, settings: RunSettings) -> Self {
        Self {
            ports,
            sources,
            settings,
            batches: Batches::default(),
        }
    }

    async fn process(&self, body: &[u8]) -> Result<(), ReindexError> {
        let requests =
            message::parse(body).map_err(|error| ReindexError::Refused(error.to_string()))?;
        let found = stream::iter(requests).map(|request| async move {
            let Some(source) = self.find_source(&request)? else {
                return Ok(None);
            };
            let documents = self.look_up(source, &request).await?;
            Ok::<_, ReindexError>(Some((
                (source.collection.clone(), request.priority),
                documents,
            )))
        });
        let found: Vec<_> = found.buffered(LOOKUPS_AT_ONCE).try_collect().await?;
        let mut batches = BTreeMap::<_, Vec<Submission>>::new();
        for (batch, documents) in found.into_iter().flatten() {
            batches.entry(batch).or_default().extend(documents);
        }
        let submissions =
            batches
                .into_iter()
                .map(|((collection, priority), documents)| async move {
                    let batch = (&collection, priority);
                    self.batches
                        .submit(&self.ports, &self.settings, batch, documents)
                        .await
                });
        try_join_all(submissions).await?;
        Ok(())
    }

    // The state now, for coordinators of older versions. Newer ones look again when the entry is claimed. A file of a
    // mirrored folder changes which of its files are documents, so all of them are submitted; unchanged ones cost a claim.
    async fn look_up(
        &self,
        source: &ReindexSource,
        request: &ReindexRequest,
    ) -> PortResult<Vec<Submission>> {
        let bucket = request.bucket.as_str();
        let follow = |key: &str| FollowedObject {
            bucket: bucket.into(),
            key: key.into(),
            prefix: source.prefix.clone(),
        };
        let Some(objects) = &self.ports.objects else {
            return Err(PortError::refused("bucket.head", "no access to buckets"));
        };
        let folder = BucketFolder::find(objects.as_ref(), bucket, &request.key).await?;
        let is_listed = folder
            .as_ref()
            .is_some_and(|folder| folder.has_object(&request.key));
        let mut documents = Vec::new();
        if let Some(folder) = folder {
            let plan = folder.plan(objects.as_ref(), bucket).await?;
            documents.extend(plan.documents().map(|document| {
                let object = follow(&document.object.key);
                Submission::from_followed(&object, Some(document.object)).with_filing(document)
            }));
            let superseded = plan.superseded();
            documents.extend(
                superseded.map(|object| Submission::from_followed(&follow(&object.key), None)),
            );
        }
        // The labels of a filing are not a document, even where they were removed.
        if !is_listed && is_document(&request.key) {
            let found = objects.head(bucket, &request.key).await?;
            documents.push(Submission::from_followed(
                &follow(&request.key),
                found.as_ref(),
            ));
        }
        for document in &mut documents {
            document.retry_failed = request.retry_failed;
        }
        Ok(documents)
    }

    // The longest matching prefix wins, within the collection that the message names, if any. `None` for what a bucket
    // notifies of and nobody wants indexed: it may notify of more.
    fn find_source(
        &self,
        request: &ReindexRequest,
    ) -> Result<Option<&ReindexSource>, ReindexError> {
        let source = self
            .sources
            .iter()
            .filter(|source| {
                let name = request.collection.as_ref();
                name.is_none_or(|name| *name == source.collection.to_string())
            })
            .filter(|source: &&ReindexSource| {
                source.bucket == request.bucket && request.key.starts_with(&source.prefix)
            })
            .max_by_key(|source| source.prefix.len());
        let refusal = match source {
            Some(source) if may_change_document(&request.key) => return Ok(Some(source)),
            Some(_) => format!(
                "is not a {} file",
                name_extensions(SourceFormat::extensions(), "or")
            ),
            None => "is in no configured source of this collection".into(),
        };
        let name = format!("s3://{}/{}", request.bucket, request.key);
        if request.is_notification {
            tracing::debug!(name, refusal, "ignoring a notification");
            return Ok(None);
        }
        Err(ReindexError::Refused(format!("{name} {refusal}")))
    }

    // Stores the message as a dead letter, with the reason.
    async fn put_away(&self, message: &Message, reason: &str) -> Disposition {
        if let Some(repeated) = DEAD_LETTERS.note("reindex", self.ports.env.now_ms()) {
            tracing::warn!(reason, repeated, "a reindex message becomes a dead letter");
        }
        let dead = DeadReason {
            queue: QueueName::Reindex.to_string(),
            reason: reason.into(),
            deliveries: 1,
        };
        let letter = Message {
            dead: Some(dead),
            ..message.clone()
        };
        match dead_letter::record(&self.ports, &letter, None).await {
            Ok(()) => Disposition::Ack,
            Err(error) => {
                tracing::warn!(%error, "cannot store the dead letter; the message will be retried");
                retry_later(message)
            }
        }
    }
}

#[cfg(test)]
mod tests;
