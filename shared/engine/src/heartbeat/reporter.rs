//! Collects the status of a process and posts it as heartbeats.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use stemma_store::env::{Env, Millis};
use stemma_store::key::{Priority, RunId, TaskKey};
use stemma_store::latency::LatencyHistogram;
use stemma_store::minute_window::MinuteWindow;
use stemma_store::port_error::{PortError, PortResult};
use tokio_util::sync::CancellationToken;

use super::{
    HEARTBEAT_INTERVAL, HEARTBEAT_TTL, Heartbeat, HeartbeatExtras, LaneStatus, MAX_LISTED_TASKS,
    OldestTask, StageStatus, TaskStatus,
};
use crate::ledger::{Ledger, StatusRecord, StatusTopic};
use crate::message::TaskMessage;
use crate::queue::{Lane, QueueName};

/// Collects the status of one process; shared by its consumers and executors.
pub struct HeartbeatReporter {
    process: String,
    service: String,
    since_ms: Millis,
    state: Mutex<ReporterState>,
}

#[derive(Default)]
struct ReporterState {
    draining: bool,
    lanes: BTreeMap<(Lane, Priority), LaneStatus>,
    running: HashMap<(RunId, TaskKey), TaskStatus>,
    stages: BTreeMap<String, StageCounters>,
    unfinished: Vec<OldestTask>,
}

#[derive(Default)]
struct StageCounters {
    done: u64,
    failed: u64,
    retried: u64,
    last_minute: MinuteWindow,
    durations: LatencyHistogram,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Done,
    Failed,
    Retried,
}

// Removes the task from the list on drop, however its handler ends.
pub(crate) struct RunningTask {
    heartbeat: Arc<HeartbeatReporter>,
    name: (RunId, TaskKey),
    stage: String,
    since_ms: Millis,
}

// Frees the slot on drop.
pub(crate) struct BusySlot(Arc<HeartbeatReporter>, (Lane, Priority));

impl HeartbeatReporter {
    /// A reporter for a process that starts now. `process` and `service` are as in [`Heartbeat`].
    pub fn new(env: &Env, process: impl Into<String>, service: &str) -> Arc<Self> {
        let process = process.into();
        let since_ms = env.now_ms();
        Arc::new(Self {
            process,
            service: service.into(),
            since_ms,
            state: Mutex::default(),
        })
    }

    pub fn process(&self) -> &str {
        &self.process
    }

    /// Reports from now on that the process takes no new tasks.
    pub fn start_draining(&self) {
        self.state.lock().draining = true;
    }

    /// Whether the process takes no new tasks.
    pub fn is_draining(&self) -> bool {
        self.state.lock().draining
    }

    /// The heartbeat as of `now_ms`.
    pub fn heartbeat(&self, now_ms: Millis, extras: HeartbeatExtras) -> Heartbeat {
        let record = self.state.lock();
        let mut tasks: Vec<TaskStatus> = record.running.values().cloned().collect();
        tasks.sort_by(|a, b| (a.since_ms, &a.run, a.key).cmp(&(b.since_ms, &b.run, b.key)));
        tasks.truncate(MAX_LISTED_TASKS);
        Heartbeat {
            process: self.process.clone(),
            service: self.service.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            since_ms: self.since_ms,
            at_ms: now_ms,
            draining: record.draining,
            lanes: record.lanes.values().copied().collect(),
            tasks,
            stages: record
                .stages
                .iter()
                .map(|(name, stage)| (name.clone(), stage.status(now_ms)))
                .collect(),
            models: extras.models,
            troubles: extras.troubles,
            unfinished: record.unfinished.clone(),
        }
    }

    pub(crate) fn set_unfinished(&self, unfinished: Vec<OldestTask>) {
        self.state.lock().unfinished = unfinished;
    }

    /// The oldest unfinished task of each lane, as the coordinator of this process last reported.
    pub fn unfinished(&self) -> Vec<OldestTask> {
        self.state.lock().unfinished.clone()
    }

    // Only lanes are reported, not other queues.
    pub(crate) fn register_lane(&self, queue: QueueName, slots: u16) {
        if let Some((lane, priority)) = queue.lane() {
            self.state.lock().lanes.insert(
                (lane, priority),
                LaneStatus {
                    lane,
                    priority,
                    slots,
                    busy: 0,
                    taken_ms: None,
                },
            );
        }
    }

    pub(crate) fn occupy_slot(self: &Arc<Self>, queue: QueueName) -> Option<BusySlot> {
        let (lane, priority) = queue.lane()?;
        if let Some(lane_status) = self.state.lock().lanes.get_mut(&(lane, priority)) {
            lane_status.busy += 1;
        }
        Some(BusySlot(Arc::clone(self), (lane, priority)))
    }

    pub(crate) fn start_task(
        self: &Arc<Self>,
        task: &TaskMessage,
        task_lane: Lane,
        now_ms: Millis,
    ) -> RunningTask {
        let run = task.run.run.clone();
        let key = task.key;
        let stage = task.stage.clone();
        let status = TaskStatus {
            run: run.clone(),
            key,
            stage: stage.clone(),
            since_ms: now_ms,
        };
        let mut state = self.state.lock();
        state.running.insert((run.clone(), key), status);
        for lane in state.lanes.values_mut() {
            if lane.lane == task_lane && lane.priority == task.priority {
                lane.taken_ms = lane.taken_ms.max(Some(task.published_ms));
            }
        }
        drop(state);
        RunningTask {
            heartbeat: Arc::clone(self),
            name: (run, key),
            stage,
            since_ms: now_ms,
        }
    }
}

impl RunningTask {
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// Counts how the attempt ended. Returns its duration in milliseconds.
    pub(crate) fn finish(&self, how: AttemptOutcome, now_ms: Millis) -> Millis {
        let spent_ms = now_ms.saturating_sub(self.since_ms);
        self.heartbeat
            .state
            .lock()
            .stages
            .entry(self.stage.clone())
            .or_default()
            .record(how, now_ms, spent_ms);
        spent_ms
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.heartbeat.state.lock().running.remove(&self.name);
    }
}

impl Drop for BusySlot {
    fn drop(&mut self) {
        if let Some(lane_status) = self.0.state.lock().lanes.get_mut(&self.1) {
            lane_status.busy = lane_status.busy.saturating_sub(1);
        }
    }
}

impl StageCounters {
    fn record(&mut self, how: AttemptOutcome, now_ms: Millis, spent_ms: Millis) {
        match how {
            AttemptOutcome::Failed => self.failed += 1,
            AttemptOutcome::Retried => self.retried += 1,
            AttemptOutcome::Done => {
                self.done += 1;
                self.durations.record(now_ms, spent_ms);
                self.last_minute.add(now_ms, 1);
            }
        }
    }

    fn status(&self, now_ms: Millis) -> StageStatus {
        StageStatus {
            done: self.done,
            failed: self.failed,
            retried: self.retried,
            last_minute: self.last_minute.sum(now_ms),
            p50_ms: self.durations.percentile_ms(now_ms, 50),
            p95_ms: self.durations.percentile_ms(now_ms, 95),
        }
    }
}

/// Posts a heartbeat every [`HEARTBEAT_INTERVAL`] until `stop`, then removes it. Errors are not retried: the next
/// heartbeat follows soon.
pub async fn send_heartbeats(
    env: Env,
    ledger: Arc<dyn Ledger>,
    heartbeat: Arc<HeartbeatReporter>,
    extras: impl Fn() -> HeartbeatExtras + Send,
    stop: CancellationToken,
) {
    let mut was_posted = true;
    loop {
        let posted = post_heartbeat(
            &env,
            ledger.as_ref(),
            &heartbeat,
            extras(),
            HEARTBEAT_TTL.as_millis() as Millis,
        )
        .await;
        if let (Err(error), true) = (&posted, was_posted) {
            tracing::warn!(%error, "cannot post the heartbeat");
        }
        was_posted = posted.is_ok();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = env.sleep(HEARTBEAT_INTERVAL) => {}
        }
    }
    if let Err(error) = post_heartbeat(&env, ledger.as_ref(), &heartbeat, extras(), 0).await {
        tracing::debug!(%error, "cannot remove the heartbeat; it will expire");
    }
}

async fn post_heartbeat(
    env: &Env,
    ledger: &dyn Ledger,
    heartbeat: &HeartbeatReporter,
    extras: HeartbeatExtras,
    lasts_ms: Millis,
) -> PortResult<()> {
    let now = env.now_ms();
    let body = serde_json::to_vec(&heartbeat.heartbeat(now, extras))
        .map_err(|error| PortError::permanent("ledger.post", error.to_string()))?;
    let record = StatusRecord {
        name: heartbeat.process.clone(),
        body: body.into(),
        until_ms: now + lasts_ms,
    };
    ledger
        .post_status(StatusTopic::Processes, record, now)
        .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stemma_store::key::RunRef;

    use super::*;
    use crate::ledger::MemoryLedger;

    fn task(n: u32) -> TaskMessage {
        let run = RunRef {
            run: RunId(format!("run-{n}")),
            header: String::new(),
            scope: String::new(),
        };
        TaskMessage {
            run,
            key: TaskKey::builder("read", n).finish(),
            stage: "read".into(),
            revision: 1,
            settings: String::new(),
            priority: Priority::Bulk,
            published_ms: 0,
            payload: serde_json::value::RawValue::from_string("null".into()).unwrap(),
            signature: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeat_lists_running_tasks_and_counts_ended_ones() {
        let env = Env::simulated(1);
        let heartbeat = HeartbeatReporter::new(&env, "w-1", "worker");
        let lane = QueueName::Lane(Lane::Cpu, Priority::Bulk);
        heartbeat.register_lane(lane, 3);
        let busy = heartbeat.occupy_slot(lane);
        let first = heartbeat.start_task(&task(1), Lane::Cpu, env.now_ms());
        let cut_off = heartbeat.start_task(&task(2), Lane::Cpu, env.now_ms());
        env.sleep(Duration::from_millis(400)).await;
        assert_eq!(first.finish(AttemptOutcome::Done, env.now_ms()), 400);
        drop(first);
        heartbeat
            .start_task(&task(3), Lane::Cpu, env.now_ms())
            .finish(AttemptOutcome::Retried, env.now_ms());
        let report = heartbeat.heartbeat(env.now_ms(), HeartbeatExtras::default());
        assert_eq!(
            report
                .tasks
                .iter()
                .map(|task| task.run.0.as_str())
                .collect::<Vec<_>>(),
            ["run-2"]
        );
        assert_eq!((report.lanes[0].slots, report.lanes[0].busy), (3, 1));
        assert_eq!(
            report.lanes[0].taken_ms,
            Some(0),
            "the published times of the tasks"
        );
        let read = report.stages["read"];
        assert_eq!(
            (read.done, read.failed, read.retried, read.last_minute),
            (1, 0, 1, 1)
        );
        assert!((400..=450).contains(&read.p50_ms), "{read:?}");
        drop((busy, cut_off));
        env.sleep(Duration::from_secs(61)).await;
        let report = heartbeat.heartbeat(env.now_ms(), HeartbeatExtras::default());
        assert_eq!(
            (
                report.tasks.len(),
                report.lanes[0].busy,
                report.stages["read"].last_minute
            ),
            (0, 0, 0)
        );
        assert_eq!(report.stages["read"].done, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeat_is_posted_while_running_and_removed_on_stop() {
        let env = Env::simulated(1);
        let ledger = Arc::new(MemoryLedger::default());
        let stop = CancellationToken::new();
        let heartbeat = HeartbeatReporter::new(&env, "w-1", "worker");
        let ours: Arc<dyn Ledger> = Arc::<MemoryLedger>::clone(&ledger);
        let beating = env.spawn(send_heartbeats(
            env.clone(),
            ours,
            Arc::clone(&heartbeat),
            HeartbeatExtras::default,
            stop.clone(),
        ));
        env.sleep(Duration::from_secs(30)).await;
        let records = ledger
            .status_records(StatusTopic::Processes, env.now_ms())
            .await
            .unwrap();
        let heartbeat: Heartbeat = serde_json::from_slice(&records[0].body).unwrap();
        assert!(
            env.now_ms() - heartbeat.at_ms <= 2_000 && !heartbeat.draining,
            "{heartbeat:?}"
        );
        stop.cancel();
        beating.await.unwrap();
        assert_eq!(
            ledger
                .status_records(StatusTopic::Processes, env.now_ms())
                .await
                .unwrap(),
            []
        );
    }
}
