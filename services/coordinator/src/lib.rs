//! The coordinator: takes submissions, opens runs, replays their flows, publishes what they want, and looks after what
//! is overdue. Any number of them may run side by side. Beside jobs, [`reindex`] takes messages that name documents.

pub mod reindex;

use std::sync::Arc;
use std::time::Duration;

use stemma_document::Collection;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::{Coordinator, Observer};
use stemma_engine::flow::{JobEntry, JobManifest, JobOptions};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{JobStart, JobWriter};
use stemma_engine::queue::QueueName;
use stemma_engine::{Env, JobId, PortError, Ports, Priority, jobs, settings};
use stemma_pipeline::{FilingFlow, RunSettings, Submission};
use tokio_util::sync::CancellationToken;

use crate::reindex::Reindex;

/// Bytes of a document that count as one token when fairness between collections is weighed: PDFs are mostly not text.
const BYTES_PER_TOKEN: u64 = 16;

/// Coordinates until `stop`, then drains. At most `open_documents` runs are open at once; `heartbeat` is the
/// process it works in.
pub async fn run(
    env: Env,
    ports: Ports,
    open_documents: usize,
    observer: Observer,
    presence: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    Coordinator::<FilingFlow>::new(env, ports, open_documents, observer, presence)
        .run(stop)
        .await;
}

/// How long reindex messages in work may go on after a stop: each is a look and a submission.
const REINDEX_GRACE: Duration = Duration::from_secs(5);
/// Reindex messages handled at once.
const REINDEX_CONCURRENCY: u16 = 4;

/// Takes messages from the reindex queue until `stop`.
pub async fn run_reindex(
    reindex: Reindex,
    presence: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let env = reindex.env.clone();
    let queue = Arc::clone(&reindex.ports.queue);
    let name = QueueName::Reindex;
    let concurrency = REINDEX_CONCURRENCY;
    let grace = REINDEX_GRACE;
    Consumer {
        env,
        queue,
        name,
        concurrency,
        grace,
        presence,
    }
    .run(Arc::new(reindex), stop)
    .await;
}

/// What a job is submitted under.
pub struct SubmitRequest<'a> {
    /// The tenant.
    pub collection: &'a Collection,
    /// What changes results; frozen with the job.
    pub settings: &'a RunSettings,
    /// Who waits.
    pub class: Priority,
    /// Its label, its name, and how many failures end it. One name is one job, however often it is submitted.
    pub terms: JobOptions,
}

/// Begins to submit a job: push an [`job_entry`] for each document, then finish.
///
/// # Errors
/// [`PortError`] when a port is away, or the name is none.
pub async fn start_job(
    env: &Env,
    ports: &Ports,
    order: SubmitRequest<'_>,
) -> Result<JobStart, PortError> {
    let blobs = ports.blobs.as_ref();
    let settings = settings::freeze::<FilingFlow>(env, blobs, order.settings).await?;
    let fresh = job_id(env);
    let collection = order.collection.to_string();
    let job = match &order.terms.name {
        Some(name) => jobs::job_for_name(env, blobs, &collection, name, Some(&fresh))
            .await?
            .unwrap_or(fresh),
        None => fresh,
    };
    let class = order.class;
    let terms = order.terms;
    let submitted_ms = env.now_ms();
    let draft = JobManifest {
        job,
        collection,
        settings,
        class,
        entries: 0,
        submitted_ms,
        terms,
    };
    JobWriter::start(env, ports, draft).await
}

/// Submits documents that are at hand as a job.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn submit(
    env: &Env,
    ports: &Ports,
    order: SubmitRequest<'_>,
    documents: &[Submission],
) -> Result<JobManifest, PortError> {
    match start_job(env, ports, order).await? {
        JobStart::Existing(manifest) => Ok(manifest),
        JobStart::New(mut submitting) => {
            for document in documents {
                submitting
                    .push(env, ports.blobs.as_ref(), job_entry(document)?)
                    .await?;
            }
            submitting.finish(env, ports).await
        }
    }
}

/// What a job asks for with a document.
///
/// # Errors
/// A lasting [`PortError`] when it cannot be written.
pub fn job_entry(submission: &Submission) -> Result<JobEntry, PortError> {
    let weight = submission.size_bytes / BYTES_PER_TOKEN + 1;
    let input = serde_json::to_value(submission).map_err(|error| {
        PortError::permanent("blobs", "put", format!("{}: {error}", submission.path))
    })?;
    Ok(JobEntry { weight, input })
}

/// Ids sort by time: `j-`, milliseconds in hexadecimal, four random digits.
fn job_id(env: &Env) -> JobId {
    JobId(format!(
        "j-{:011x}{:04x}",
        env.now_ms(),
        env.random() & 0xffff
    ))
}

/// An observer that is told nothing.
pub fn no_observer() -> Observer {
    Arc::new(|_| {})
}
