//! Processes, lanes, stages and models, as their heartbeats and the queues say.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_engine::diagnosis::{DiagnosisContext, ServerTrouble};
use stemma_engine::heartbeat::{Heartbeat, TaskStatus};
use stemma_engine::queue::{Depth, Lane};
use stemma_store::Priority;
use stemma_store::model_status::ModelBatch;

/// What the running processes do.
#[derive(Debug, Serialize)]
pub struct ClusterStatus {
    /// Servers that do not answer; what only they know is missing.
    pub troubles: Vec<ServerTrouble>,
    pub processes: Vec<ProcessStatus>,
    /// Lanes with workers or messages.
    pub lanes: Vec<LaneSummary>,
    /// Work of the running processes, by stage.
    pub stages: BTreeMap<String, StageWork>,
    pub models: BTreeMap<String, ModelSummary>,
}

impl ClusterStatus {
    /// What heartbeats and queues say at `now_ms`.
    pub fn new(facts: DiagnosisContext, now_ms: u64) -> Self {
        Self {
            troubles: facts.troubles,
            lanes: lanes(&facts.processes, &facts.depths, now_ms),
            stages: stages(&facts.processes),
            models: models(&facts.processes),
            processes: facts.processes.into_iter().map(process).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ProcessStatus {
    pub process: String,
    pub service: String,
    pub version: String,
    pub since_ms: u64,
    pub draining: bool,
    /// Running tasks, oldest first; at most 64.
    pub tasks: Vec<TaskStatus>,
}

#[derive(Debug, Serialize)]
pub struct LaneSummary {
    pub lane: &'static str,
    #[serde(rename = "class")]
    pub priority: Priority,
    pub ready: u64,
    pub unacked: u64,
    pub delayed: u64,
    /// Processes that serve it.
    pub workers: usize,
    /// Running tasks, and the most that can run.
    pub busy: u64,
    pub slots: u64,
    /// Age of the oldest waiting task in milliseconds; `null` when none waits.
    pub oldest_ms: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct StageWork {
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
    pub per_second: f64,
    pub p50_ms: u64,
    pub p95_ms: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct ModelSummary {
    pub requests_last_minute: u64,
    pub requests_limit: u32,
    pub tokens_last_minute: u64,
    pub tokens_limit: u32,
    pub waiting: u32,
    pub calling: u32,
    pub p95_ms: u64,
    pub breaker_open_until_ms: Option<u64>,
    pub paused_until_ms: Option<u64>,
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<ModelBatch>,
}

fn process(beat: Heartbeat) -> ProcessStatus {
    ProcessStatus {
        process: beat.process,
        service: beat.service,
        version: beat.version,
        since_ms: beat.since_ms,
        draining: beat.draining,
        tasks: beat.tasks,
    }
}

fn lanes(
    beats: &[Heartbeat],
    depths: &BTreeMap<(Lane, Priority), Depth>,
    now: u64,
) -> Vec<LaneSummary> {
    let lanes = depths
        .iter()
        .map(|((lane, priority), depth): (&(Lane, Priority), &Depth)| {
            let serving = beats.iter().filter_map(|beat| {
                let here = beat
                    .lanes
                    .iter()
                    .find(|here| here.lane == *lane && here.priority == *priority)?;
                Some((beat, here))
            });
            let sum = serving.clone().fold((0, 0), |(busy, slots), (_, here)| {
                (busy + u64::from(here.busy), slots + u64::from(here.slots))
            });
            // What waits was requested after the oldest unfinished task, and published after what was taken.
            let unfinished = beats.iter().flat_map(|beat| &beat.unfinished);
            let unfinished = unfinished
                .filter(|oldest| oldest.lane == *lane && oldest.priority == *priority)
                .map(|oldest| oldest.since_ms)
                .min();
            let taken = serving.clone().filter_map(|(_, here)| here.taken_ms).max();
            let oldest = unfinished.max(taken).filter(|_| depth.ready > 0);
            LaneSummary {
                lane: lane.name(),
                priority: *priority,
                ready: depth.ready,
                unacked: depth.unacked,
                delayed: depth.delayed,
                workers: serving.count(),
                busy: sum.0,
                slots: sum.1,
                oldest_ms: oldest.map(|since| now.saturating_sub(since)),
            }
        });
    lanes
        .filter(|lane| lane.workers > 0 || lane.ready + lane.unacked + lane.delayed > 0)
        .collect()
}

fn stages(beats: &[Heartbeat]) -> BTreeMap<String, StageWork> {
    let mut sums: BTreeMap<String, StageWork> = BTreeMap::new();
    for (name, stage) in beats.iter().flat_map(|beat| &beat.stages) {
        let sum = sums.entry(name.clone()).or_default();
        sum.done += stage.done;
        sum.failed += stage.failed;
        sum.retried += stage.retried;
        sum.per_second += stage.last_minute as f64 / 60.0;
        (sum.p50_ms, sum.p95_ms) = (sum.p50_ms.max(stage.p50_ms), sum.p95_ms.max(stage.p95_ms));
    }
    sums
}

fn models(beats: &[Heartbeat]) -> BTreeMap<String, ModelSummary> {
    let mut sums: BTreeMap<String, ModelSummary> = BTreeMap::new();
    for (name, model) in beats.iter().flat_map(|beat| &beat.models) {
        let sum = sums.entry(name.clone()).or_default();
        sum.requests_last_minute += model.requests_last_minute;
        sum.tokens_last_minute += model.tokens_last_minute;
        (sum.waiting, sum.calling) = (sum.waiting + model.waiting, sum.calling + model.calling);
        (sum.requests_limit, sum.tokens_limit) = (model.requests_limit, model.tokens_limit);
        sum.p95_ms = sum.p95_ms.max(model.p95_ms);
        sum.breaker_open_until_ms = sum.breaker_open_until_ms.max(model.breaker_open_until_ms);
        sum.paused_until_ms = sum.paused_until_ms.max(model.paused_until_ms);
        sum.last_error = model.last_error.clone().or(sum.last_error.take());
        sum.batches.extend(model.batches.iter().cloned());
    }
    sums
}

#[cfg(test)]
mod tests {
    use stemma_engine::heartbeat::{LaneStatus, OldestTask};

    use super::*;

    const LANE: (Lane, Priority) = (Lane::Cpu, Priority::Bulk);

    // A coordinator with an unfinished task, or a worker that has taken one.
    fn beat(unfinished: Option<u64>, taken_ms: Option<u64>) -> Heartbeat {
        let (lane, priority) = LANE;
        let served = LaneStatus {
            lane,
            priority,
            slots: 2,
            busy: 1,
            taken_ms,
        };
        Heartbeat {
            process: "p".into(),
            service: "all".into(),
            version: "1".into(),
            since_ms: 0,
            at_ms: 0,
            draining: false,
            lanes: taken_ms.map(|_| served).into_iter().collect(),
            tasks: Vec::new(),
            stages: BTreeMap::new(),
            models: BTreeMap::new(),
            troubles: Vec::new(),
            unfinished: unfinished
                .map(|since_ms| OldestTask {
                    lane,
                    priority,
                    since_ms,
                })
                .into_iter()
                .collect(),
        }
    }

    fn oldest_ms(beats: &[Heartbeat], ready: u64) -> Option<u64> {
        let depth = Depth {
            ready,
            unacked: 1,
            delayed: 0,
            consumers: 1,
        };
        let listed = lanes(beats, &BTreeMap::from([(LANE, depth)]), 10_000);
        assert_eq!(listed.len(), 1);
        listed[0].oldest_ms
    }

    #[test]
    fn oldest_waiting_task_is_neither_older_than_the_unfinished_nor_than_the_taken() {
        let coordinators = [beat(Some(4_000), None), beat(Some(3_000), None)];
        assert_eq!(oldest_ms(&coordinators, 5), Some(7_000));
        // Workers took what was published at 6 s: what still waits came later.
        let mut all = coordinators.to_vec();
        all.extend([beat(None, Some(5_000)), beat(None, Some(6_000))]);
        assert_eq!(oldest_ms(&all, 5), Some(4_000));
        assert_eq!(oldest_ms(&all, 0), None, "nothing waits");
        assert_eq!(oldest_ms(&[], 5), None, "no process knows");
    }
}
