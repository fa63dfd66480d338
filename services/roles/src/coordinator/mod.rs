//! The coordinator: runs the engine's coordinator on filings, submits jobs, and turns [`reindex`] messages into
//! jobs. Several instances may run side by side.

pub mod reindex;

use std::sync::Arc;
use std::time::Duration;

use stemma_document::Collection;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::{Coordinator, Observer};
use stemma_engine::flow::{JobManifest, JobOptions};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{JobStart, JobWriter};
use stemma_engine::queue::QueueName;
use stemma_engine::{Ports, jobs, settings};
use stemma_pipeline::{FilingFlow, RunSettings, Submission};
use stemma_store::{JobId, PortResult, Priority};
use tokio_util::sync::CancellationToken;

use self::reindex::Reindex;

/// Runs the coordinator until `stop`, then drains. Opens at most `open_documents` runs at once.
pub async fn run(
    ports: Ports,
    open_documents: usize,
    observer: Observer,
    heartbeat: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    Coordinator::<FilingFlow>::new(ports, open_documents, observer, heartbeat)
        .run(stop)
        .await;
}

// How long reindex messages may be handled after a stop: each takes a lookup, the time of a batch, and a submission.
const REINDEX_GRACE: Duration = Duration::from_secs(5);
// Concurrent reindex messages: as many as may become one job.
const REINDEX_CONCURRENCY: u16 = 256;

/// Consumes the reindex queue until `stop`.
pub async fn run_reindex(
    reindex: Reindex,
    heartbeat: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let env = reindex.ports.env.clone();
    let queue = reindex.ports.queue.clone();
    let name = QueueName::Reindex;
    let concurrency = REINDEX_CONCURRENCY;
    let grace = REINDEX_GRACE;
    Consumer {
        env,
        queue,
        name,
        concurrency,
        grace,
        heartbeat,
    }
    .run(Arc::new(reindex), stop)
    .await;
}

/// What a submission asks for.
pub struct SubmitRequest<'a> {
    pub collection: &'a Collection,
    /// Everything that changes results; frozen with the job.
    pub settings: &'a RunSettings,
    pub priority: Priority,
    /// Label, name, failure limit and budget. One name is one job of the same label, however often it is submitted.
    pub options: JobOptions,
}

/// Starts to submit a job: push a [`Submission::job_entry`] per document, then finish.
///
/// # Errors
/// A port is unavailable, or the name is invalid.
pub async fn start_job(ports: &Ports, order: SubmitRequest<'_>) -> PortResult<JobStart> {
    let blobs = &ports.blobs;
    let settings = settings::freeze::<FilingFlow>(blobs, order.settings).await?;
    let fresh = JobId::new(ports.env.now_ms(), ports.env.random());
    let collection = order.collection.to_string();
    let job = match &order.options.name {
        Some(name) => jobs::job_for_name(blobs, &collection, name, Some(&fresh))
            .await?
            .unwrap_or(fresh),
        None => fresh,
    };
    let priority = order.priority;
    let options = order.options;
    let submitted_ms = ports.env.now_ms();
    let draft = JobManifest {
        job,
        collection,
        settings,
        priority,
        entries: 0,
        submitted_ms,
        options,
    };
    JobWriter::start(ports, draft).await
}

/// Submits a list of documents as a job.
pub async fn submit(
    ports: &Ports,
    order: SubmitRequest<'_>,
    documents: &[Submission],
) -> PortResult<JobManifest> {
    match start_job(ports, order).await? {
        JobStart::Existing(manifest) => Ok(manifest),
        JobStart::NameTaken(taken) => Err(taken.into()),
        JobStart::New(mut submitting) => {
            for document in documents {
                submitting.push(&ports.blobs, document.job_entry()?).await?;
            }
            submitting.finish(ports).await
        }
    }
}

/// An observer that ignores all events.
pub fn no_observer() -> Observer {
    Arc::new(|_| {})
}
