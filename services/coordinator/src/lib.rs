//! The coordinator: takes submissions, opens runs, replays their flows, publishes what they want, and looks after what
//! is overdue. Any number of them may run side by side.

use std::sync::Arc;

use stemma_document::Collection;
use stemma_engine::coordinate::{Coordinator, Observer};
use stemma_engine::flow::{JobEntry, Manifest};
use stemma_engine::presence::Presence;
use stemma_engine::{Class, Env, JobId, PortError, Ports, jobs, settings};
use stemma_pipeline::{Filings, Settings, Submission};
use tokio_util::sync::CancellationToken;

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
    Coordinator::<Filings>::new(env, ports, open_documents, observer, presence).run(stop).await;
}

/// What is submitted, and how.
pub struct Order<'a> {
    /// The tenant.
    pub collection: &'a Collection,
    /// What changes results; frozen with the job.
    pub settings: &'a Settings,
    /// Who waits.
    pub class: Class,
    /// The documents.
    pub documents: &'a [Submission],
}

/// Submits documents as a job.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn submit(env: &Env, ports: &Ports, order: Order<'_>) -> Result<Manifest, PortError> {
    let settings = settings::freeze::<Filings>(env, ports.blobs.as_ref(), order.settings).await?;
    let entries = order.documents.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    let manifest = Manifest {
        job: job_id(env),
        collection: order.collection.to_string(),
        settings,
        class: order.class,
        entries: entries.len() as u64,
        submitted_ms: env.now_ms(),
    };
    jobs::submit(env, ports, &manifest, &entries).await?;
    Ok(manifest)
}

fn entry(submission: &Submission) -> Result<JobEntry, PortError> {
    let weight = submission.size_bytes / BYTES_PER_TOKEN + 1;
    let input = serde_json::to_value(submission)
        .map_err(|error| PortError::lasting("blobs", "put", format!("{}: {error}", submission.path)))?;
    Ok(JobEntry { weight, input })
}

/// Ids sort by time: `j-`, milliseconds in hexadecimal, four random digits.
fn job_id(env: &Env) -> JobId {
    JobId(format!("j-{:011x}{:04x}", env.now_ms(), env.random() & 0xffff))
}

/// An observer that is told nothing.
pub fn no_observer() -> Observer {
    Arc::new(|_| {})
}
