//! Follows the job of an ingest, by events of the coordinator in this process.

use std::time::Duration;

use stemma_boot::store::WritableStore;
use stemma_engine::coordinator::CoordinatorEvent;
use stemma_engine::flow::MaxFailed;
use stemma_engine::jobs::{self, JobControl, JobEndReason, PauseReason, load_control};
use stemma_store::JobId;
use tokio::sync::{mpsc, watch};
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use super::progress::{self, IngestProgress};
use super::summary::{IngestEnd, IngestTally};
use crate::context::Context;
use crate::error::CommandError;

// How often the store is asked whether it still has the job.
const STORE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The job to follow. The coordinator may also resume interrupted jobs; their events are ignored.
pub struct FollowTarget<'a> {
    pub job: &'a JobId,
    pub max_failed: Option<MaxFailed>,
    /// Receives the number of new trees.
    pub created: watch::Sender<u64>,
}

/// Follows the job until it ends, is interrupted, or has too many failures.
///
/// # Errors
/// `store.gone` when the store was deleted meanwhile: its documents would be waited for without end.
pub async fn follow(
    events: &mut mpsc::UnboundedReceiver<CoordinatorEvent>,
    stop: &CancellationToken,
    tally: &mut IngestTally,
    progress: &IngestProgress<'_>,
    store: &WritableStore,
    context: &Context,
    followed: FollowTarget<'_>,
) -> Result<IngestEnd, CommandError> {
    let blobs = store.ports.blobs.raw().as_ref();
    let mut tick = interval(progress::REFRESH_INTERVAL);
    let mut check = interval(STORE_CHECK_INTERVAL);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(IngestEnd::Interrupted),
            event = events.recv() => event,
            _ = check.tick() => {
                // A failed read is repeated at the next tick.
                let is_deleted = matches!(jobs::manifest(blobs, followed.job).await, Ok(None));
                if store.is_gone() || is_deleted {
                    return Err(store_gone(context));
                }
                continue;
            }
            _ = tick.tick() => {
                progress.show(tally);
                match load_control(blobs, followed.job).await {
                    Ok(JobControl { paused: Some(paused), cancelled: None, .. }) if paused.reason != PauseReason::Person => {
                        return Ok(IngestEnd::Paused(paused.reason));
                    }
                    _ => continue, // a failed read is repeated at the next tick
                }
            }
        };
        match event {
            None => return Ok(IngestEnd::Finished),
            Some(CoordinatorEvent::JobEnded(report)) if report.job == *followed.job => {
                return Ok(match report.close {
                    JobEndReason::Finished => IngestEnd::Finished,
                    _ => IngestEnd::Cancelled,
                });
            }
            Some(event @ CoordinatorEvent::EntryEnded { .. }) => {
                record(event, followed.job, tally, store, context).await;
                followed.created.send_replace(tally.created());
                if let Some(most) = followed.max_failed
                    && most.exceeded(tally.failed(), progress.total)
                {
                    return Ok(IngestEnd::TooManyFailed);
                }
            }
            Some(_) => {}
        }
    }
}

/// Counts the end of a document of the job; other events say nothing about it.
pub async fn record(
    event: CoordinatorEvent,
    own: &JobId,
    tally: &mut IngestTally,
    store: &WritableStore,
    context: &Context,
) {
    if let CoordinatorEvent::EntryEnded {
        job, input, ending, ..
    } = event
        && job == *own
    {
        let blobs = store.ports.blobs.raw().as_ref();
        tally
            .record_end(blobs, &context.collection, &input, ending)
            .await;
    }
}

fn store_gone(context: &Context) -> CommandError {
    let message = format!(
        "the store {} was deleted, replaced or unmounted during the ingest",
        context.store
    );
    CommandError::new("store.gone", message)
        .with_next("put it back, or run the same command again to begin a new one")
}
