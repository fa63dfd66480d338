//! The coordinator: takes submissions, opens runs, replays their flows, publishes what they want, and looks after what
//! is overdue. Any number of them may run side by side. Beside jobs, [`reindex`] takes messages that name documents.

pub mod reindex;

use std::sync::Arc;
use std::time::Duration;

use stemma_document::Collection;
use stemma_engine::consume::Consumer;
use stemma_engine::coordinate::{Coordinator, Observer};
use stemma_engine::flow::{JobEntry, Manifest, Terms};
use stemma_engine::jobs::{Begun, Submitting};
use stemma_engine::presence::Presence;
use stemma_engine::queue::QueueName;
use stemma_engine::{Class, Env, JobId, PortError, Ports, jobs, settings};
use stemma_pipeline::{Filings, Settings, Submission};
use tokio_util::sync::CancellationToken;

use crate::reindex::Reindex;

/// Bytes of a document that count as one token when fairness between collections is weighed: PDFs are mostly not text.
const BYTES_PER_TOKEN: u64 = 16;

/// Coordinates until `stop`, then drains. At most `open_documents` runs are open at once; `presence` is the
/// process it works in.
pub async fn run(
    env: Env,
    ports: Ports,
    open_documents: usize,
    observer: Observer,
    presence: Arc<Presence>,
    stop: CancellationToken,
) {
    Coordinator::<Filings>::new(env, ports, open_documents, observer, presence)
        .run(stop)
        .await;
}

/// How long reindex messages in work may go on after a stop: each is a look and a submission.
const REINDEX_GRACE: Duration = Duration::from_secs(5);
/// Reindex messages handled at once.
const REINDEX_AT_ONCE: u16 = 4;

/// Takes messages from the reindex queue until `stop`.
pub async fn take_reindex(reindex: Reindex, presence: Arc<Presence>, stop: CancellationToken) {
    let env = reindex.env.clone();
    let queue = Arc::clone(&reindex.ports.queue);
    let name = QueueName::Reindex;
    let concurrency = REINDEX_AT_ONCE;
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
pub struct Order<'a> {
    /// The tenant.
    pub collection: &'a Collection,
    /// What changes results; frozen with the job.
    pub settings: &'a Settings,
    /// Who waits.
    pub class: Class,
    /// Its label, its name, and how many failures end it. One name is one job, however often it is submitted.
    pub terms: Terms,
}

/// Begins to submit a job: push an [`entry`] for each document, then finish.
///
/// # Errors
/// [`PortError`] when a port is away, or the name is none.
pub async fn begin(env: &Env, ports: &Ports, order: Order<'_>) -> Result<Begun, PortError> {
    let blobs = ports.blobs.as_ref();
    let settings = settings::freeze::<Filings>(env, blobs, order.settings).await?;
    let fresh = job_id(env);
    let collection = order.collection.to_string();
    let job = match &order.terms.name {
        Some(name) => jobs::named(env, blobs, &collection, name, Some(&fresh))
            .await?
            .unwrap_or(fresh),
        None => fresh,
    };
    let class = order.class;
    let terms = order.terms;
    let submitted_ms = env.now_ms();
    let draft = Manifest {
        job,
        collection,
        settings,
        class,
        entries: 0,
        submitted_ms,
        terms,
    };
    Submitting::begin(env, ports, draft).await
}

/// Submits documents that are at hand as a job.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn submit(
    env: &Env,
    ports: &Ports,
    order: Order<'_>,
    documents: &[Submission],
) -> Result<Manifest, PortError> {
    match begin(env, ports, order).await? {
        Begun::Known(manifest) => Ok(manifest),
        Begun::New(mut submitting) => {
            for document in documents {
                submitting
                    .push(env, ports.blobs.as_ref(), entry(document)?)
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
pub fn entry(submission: &Submission) -> Result<JobEntry, PortError> {
    let weight = submission.size_bytes / BYTES_PER_TOKEN + 1;
    let input = serde_json::to_value(submission).map_err(|error| {
        PortError::lasting("blobs", "put", format!("{}: {error}", submission.path))
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
