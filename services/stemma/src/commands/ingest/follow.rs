//! Follows the job of an ingest, by events of the coordinator in this process.

use stemma_engine::JobId;
use stemma_engine::blobs::Blobs;
use stemma_engine::coordinator::CoordinatorEvent;
use stemma_engine::flow::MaxFailed;
use stemma_engine::jobs::{JobControl, JobEndReason, PauseReason, load_control};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::progress::{self, IngestProgress};
use super::summary::{IngestEnd, IngestTally};
use crate::context::Context;

/// The job to follow. The coordinator may also resume interrupted jobs; their events are ignored.
pub struct FollowTarget<'a> {
    pub job: &'a JobId,
    pub max_failed: Option<MaxFailed>,
    /// Receives the number of new trees.
    pub created: watch::Sender<u64>,
}

/// Follows the job until it ends, is interrupted, or has too many failures.
pub async fn follow(
    mut events: mpsc::UnboundedReceiver<CoordinatorEvent>,
    stop: &CancellationToken,
    tally: &mut IngestTally,
    progress: &IngestProgress<'_>,
    blobs: &dyn Blobs,
    context: &Context,
    followed: FollowTarget<'_>,
) -> IngestEnd {
    let mut tick = tokio::time::interval(progress::REFRESH_INTERVAL);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return IngestEnd::Interrupted,
            event = events.recv() => event,
            _ = tick.tick() => {
                progress.show(tally);
                match load_control(blobs, followed.job).await {
                    Ok(JobControl { paused: Some(paused), cancelled: None, .. }) if paused.reason != PauseReason::Person => {
                        return IngestEnd::Paused(paused.reason);
                    }
                    _ => continue, // a failed read is repeated at the next tick
                }
            }
        };
        match event {
            None => return IngestEnd::Finished,
            Some(CoordinatorEvent::JobEnded(report)) if report.job == *followed.job => {
                return if report.close == JobEndReason::Finished {
                    IngestEnd::Finished
                } else {
                    IngestEnd::Cancelled
                };
            }
            Some(CoordinatorEvent::EntryEnded {
                job, input, ending, ..
            }) if job == *followed.job => {
                tally
                    .record_end(blobs, &context.collection, &input, ending)
                    .await;
                followed.created.send_replace(tally.created());
                if followed
                    .max_failed
                    .is_some_and(|most| most.exceeded(tally.failed(), progress.total))
                {
                    return IngestEnd::TooManyFailed;
                }
            }
            Some(_) => {}
        }
    }
}
