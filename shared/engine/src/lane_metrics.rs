//! Gauges of the lanes, for dashboards, alerts and scaling.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::diagnosis::{DiagnosisContext, gather_context};
use crate::heartbeat::HeartbeatReporter;
use crate::metrics;
use crate::ports::Ports;

// Prometheus scrapes about every 15 to 60 s.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the lanes until `stop`. Every coordinator reports all messages and slots, and the tasks of its own runs.
pub async fn observe_lanes(
    ports: Ports,
    heartbeat: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let facts = gather_context(&ports).await;
        record(&facts, &heartbeat);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = ports.env.sleep(INTERVAL) => {}
        }
    }
}

// Unknown lanes keep their last values; `stemma_port_away` says why.
fn record(facts: &DiagnosisContext, heartbeat: &HeartbeatReporter) {
    let unfinished = heartbeat.unfinished();
    for ((lane, priority), depth) in &facts.depths {
        let serving = facts.processes.iter().filter(|process| !process.draining);
        let lanes = serving.flat_map(|process| &process.lanes);
        let slots = lanes
            .filter(|status| (status.lane, status.priority) == (*lane, *priority))
            .map(|status| u64::from(status.slots))
            .sum();
        let oldest = unfinished
            .iter()
            .find(|task| (task.lane, task.priority) == (*lane, *priority))
            .map_or(0, |task| facts.now_ms.saturating_sub(task.since_ms));
        metrics::lane(*lane, *priority, *depth, slots, oldest);
    }
}
