//! Collects requests for a moment, so that many messages become one job.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use stemma_document::Collection;
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_pipeline::{RunSettings, Submission};
use stemma_store::{PortError, PortResult, Priority};
use tokio::sync::oneshot;

use crate::coordinator::{SubmitRequest, submit};

/// Requests that will become jobs, by collection and priority.
#[derive(Default)]
pub(super) struct Batches(Mutex<BTreeMap<(Collection, Priority), Batch>>);

#[derive(Default)]
struct Batch {
    // By URI; whether failed versions are tried again makes a difference.
    documents: BTreeMap<(String, bool), Submission>,
    waiting: Vec<oneshot::Sender<PortResult<()>>>,
}

// How long requests are collected. A person waits for interactive ones.
fn collecting_time(priority: Priority) -> Duration {
    match priority {
        Priority::Bulk => Duration::from_secs(3),
        Priority::Interactive => Duration::from_millis(300),
    }
}

impl Batches {
    /// Returns once the documents are part of a submitted job. The first request of a batch submits it for all; if it is
    /// interrupted, the others fail and are repeated.
    pub(super) async fn submit(
        &self,
        ports: &Ports,
        settings: &RunSettings,
        (collection, priority): (&Collection, Priority),
        documents: Vec<Submission>,
    ) -> PortResult<()> {
        let key = (collection.clone(), priority);
        if let Some(submitted) = self.join(&key, documents) {
            return submitted.await.map_err(|_| {
                PortError::transient("jobs.submit", "the submission was interrupted")
            })?;
        }
        let open = OpenBatch {
            batches: self,
            key: Some(key),
        };
        ports.env.sleep(collecting_time(priority)).await;
        let batch = open.take();
        let documents: Vec<Submission> = batch.documents.into_values().collect();
        let label = match documents.as_slice() {
            [document] => format!("reindex {}", document.path),
            documents => format!("reindex of {} documents", documents.len()),
        };
        let order = SubmitRequest {
            collection,
            settings,
            priority,
            options: JobOptions {
                label,
                ..JobOptions::default()
            },
        };
        let result = submit(ports, order, &documents).await;
        if let Ok(job) = &result {
            tracing::info!(job = %job.job, documents = documents.len(), "reindex");
        }
        let result = result.map(drop);
        for sender in batch.waiting {
            let _ = sender.send(result.clone()); // its handler was interrupted
        }
        result
    }

    // Adds documents to a batch. Returns where its submission is announced; `None` to the first, who submits it.
    fn join(
        &self,
        key: &(Collection, Priority),
        documents: Vec<Submission>,
    ) -> Option<oneshot::Receiver<PortResult<()>>> {
        let mut batches = self.0.lock();
        let is_first = !batches.contains_key(key);
        let batch = batches.entry(key.clone()).or_default();
        let documents = documents
            .into_iter()
            .map(|document| ((document.uri.clone(), document.retry_failed), document));
        batch.documents.extend(documents);
        if is_first {
            return None;
        }
        let (sender, submitted) = oneshot::channel();
        batch.waiting.push(sender);
        Some(submitted)
    }
}

// A batch that is collected. Dropped with its handler, so that the requests which wait for it fail.
struct OpenBatch<'a> {
    batches: &'a Batches,
    // `None` once it was taken.
    key: Option<(Collection, Priority)>,
}

impl OpenBatch<'_> {
    fn take(mut self) -> Batch {
        self.remove().unwrap_or_default()
    }

    fn remove(&mut self) -> Option<Batch> {
        let key = self.key.take()?;
        self.batches.0.lock().remove(&key)
    }
}

impl Drop for OpenBatch<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
