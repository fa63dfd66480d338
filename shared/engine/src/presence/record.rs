//! What a process knows of its own work, kept as it goes, and said on the board every few seconds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{
    BEAT_EVERY, Beat, LaneBeat, ModelBeat, SILENT_AFTER, StageBeat, TASKS_NAMED, TaskBeat,
};
use crate::env::{Env, Millis};
use crate::key::{Class, RunId, TaskKey};
use crate::ledger::{Board, Ledger, Notice};
use crate::message::TaskMessage;
use crate::port::PortError;
use crate::queue::{Lane, QueueName};
use crate::waits::Waits;

/// Width of a slot of the count over the last minute.
const SLOT_MS: Millis = 5_000;
/// Slots in a minute.
const SLOTS: usize = 12;

/// The work of one process: shared by its consumers and performers, which note what they do.
pub struct Presence {
    process: String,
    service: String,
    since_ms: Millis,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    draining: bool,
    lanes: BTreeMap<(Lane, Class), LaneBeat>,
    running: HashMap<(RunId, TaskKey), TaskBeat>,
    stages: BTreeMap<String, StageRecord>,
}

#[derive(Default)]
struct StageRecord {
    done: u64,
    failed: u64,
    retried: u64,
    /// The last minute: the number of a slot of time, and what was done in it.
    slots: [(Millis, u64); SLOTS],
    spent: Waits,
}

/// How an attempt ended, as far as counts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// With an outcome.
    Done,
    /// For good, without one.
    Failed,
    /// To be tried again.
    Retried,
}

/// A task in work; off the list when dropped, however its handler ends.
pub(crate) struct Underway {
    presence: Arc<Presence>,
    name: (RunId, TaskKey),
    stage: String,
    since_ms: Millis,
}

/// A busy slot of a lane; free again when dropped.
pub(crate) struct Busy(Arc<Presence>, (Lane, Class));

impl Presence {
    /// The presence of a process that begins now. `process` and `service` are as in [`Beat`].
    pub fn new(env: &Env, process: impl Into<String>, service: &str) -> Arc<Self> {
        let process = process.into();
        let since_ms = env.now_ms();
        Arc::new(Self {
            process,
            service: service.into(),
            since_ms,
            record: Mutex::default(),
        })
    }

    /// The name of the process.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Says from now on that the process takes nothing new.
    pub fn drain(&self) {
        self.record().draining = true;
    }

    /// Whether the process takes nothing new.
    pub fn is_draining(&self) -> bool {
        self.record().draining
    }

    /// Everything, as of `now_ms`.
    pub fn say(&self, now_ms: Millis, models: BTreeMap<String, ModelBeat>) -> Beat {
        let record = self.record();
        let mut tasks: Vec<TaskBeat> = record.running.values().cloned().collect();
        tasks.sort_by(|a, b| (a.since_ms, &a.run, a.key).cmp(&(b.since_ms, &b.run, b.key)));
        tasks.truncate(TASKS_NAMED);
        Beat {
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
                .map(|(name, stage)| (name.clone(), stage.say(now_ms)))
                .collect(),
            models,
        }
    }

    /// Notes that a queue is consumed with so many slots; only lanes are listed.
    pub(crate) fn consumes(&self, queue: QueueName, slots: u16) {
        if let QueueName::Lane(lane, class) = queue {
            self.record().lanes.insert(
                (lane, class),
                LaneBeat {
                    lane,
                    class,
                    slots,
                    busy: 0,
                },
            );
        }
    }

    /// Notes that a slot of a lane is busy.
    pub(crate) fn occupy(self: &Arc<Self>, queue: QueueName) -> Option<Busy> {
        let QueueName::Lane(lane, class) = queue else {
            return None;
        };
        if let Some(beat) = self.record().lanes.get_mut(&(lane, class)) {
            beat.busy += 1;
        }
        Some(Busy(Arc::clone(self), (lane, class)))
    }

    /// Notes that a task is in work.
    pub(crate) fn begin(self: &Arc<Self>, task: &TaskMessage, now_ms: Millis) -> Underway {
        let run = task.run.run.clone();
        let key = task.key;
        let stage = task.stage.clone();
        let beat = TaskBeat {
            run: run.clone(),
            key,
            stage: stage.clone(),
            since_ms: now_ms,
        };
        self.record().running.insert((run.clone(), key), beat);
        Underway {
            presence: Arc::clone(self),
            name: (run, key),
            stage,
            since_ms: now_ms,
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Underway {
    /// The stage.
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// Counts how the attempt ended. Returns how long it took in milliseconds.
    pub(crate) fn close(&self, how: Close, now_ms: Millis) -> Millis {
        let spent_ms = now_ms.saturating_sub(self.since_ms);
        self.presence
            .record()
            .stages
            .entry(self.stage.clone())
            .or_default()
            .note(how, now_ms, spent_ms);
        spent_ms
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.presence.record().running.remove(&self.name);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(beat) = self.0.record().lanes.get_mut(&self.1) {
            beat.busy = beat.busy.saturating_sub(1);
        }
    }
}

impl StageRecord {
    fn note(&mut self, how: Close, now_ms: Millis, spent_ms: Millis) {
        match how {
            Close::Failed => self.failed += 1,
            Close::Retried => self.retried += 1,
            Close::Done => {
                self.done += 1;
                self.spent.note(now_ms, spent_ms);
                let number = now_ms / SLOT_MS;
                let slot = &mut self.slots[(number % SLOTS as Millis) as usize];
                *slot = if slot.0 == number {
                    (number, slot.1 + 1)
                } else {
                    (number, 1)
                };
            }
        }
    }

    fn say(&self, now_ms: Millis) -> StageBeat {
        let since = (now_ms / SLOT_MS + 1).saturating_sub(SLOTS as Millis);
        StageBeat {
            done: self.done,
            failed: self.failed,
            retried: self.retried,
            last_minute: self
                .slots
                .iter()
                .filter(|(number, _)| *number >= since)
                .map(|(_, count)| count)
                .sum(),
            p50_ms: self.spent.quantile_ms(now_ms, 50),
            p95_ms: self.spent.quantile_ms(now_ms, 95),
        }
    }
}

/// Says what a process does, every [`BEAT_EVERY`], until `stop`; then takes its notice down. A ledger that is away is
/// no matter: the next beat is as good.
pub async fn beat(
    env: Env,
    ledger: Arc<dyn Ledger>,
    presence: Arc<Presence>,
    models: impl Fn() -> BTreeMap<String, ModelBeat> + Send,
    stop: CancellationToken,
) {
    let mut heard = true;
    loop {
        let said = post(
            &env,
            ledger.as_ref(),
            &presence,
            models(),
            SILENT_AFTER.as_millis() as Millis,
        )
        .await;
        if let (Err(error), true) = (&said, heard) {
            tracing::warn!(%error, "the ledger does not take this process's beat");
        }
        heard = said.is_ok();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = env.sleep(BEAT_EVERY) => {}
        }
    }
    if let Err(error) = post(&env, ledger.as_ref(), &presence, models(), 0).await {
        tracing::debug!(%error, "the last beat was not taken; the one before goes by itself");
    }
}

async fn post(
    env: &Env,
    ledger: &dyn Ledger,
    presence: &Presence,
    models: BTreeMap<String, ModelBeat>,
    lasts_ms: Millis,
) -> Result<(), PortError> {
    let now = env.now_ms();
    let body = serde_json::to_vec(&presence.say(now, models))
        .map_err(|error| PortError::lasting("ledger", "post", error.to_string()))?;
    let notice = Notice {
        name: presence.process.clone(),
        body: body.into(),
        until_ms: now + lasts_ms,
    };
    ledger.post(Board::Processes, notice, now).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::RunRef;
    use crate::ledger::MemoryLedger;

    fn task(n: u32) -> TaskMessage {
        let run = RunRef {
            run: RunId(format!("run-{n}")),
            header: String::new(),
            scope: String::new(),
        };
        TaskMessage {
            run,
            key: TaskKey::identity("read", n).finish(),
            stage: "read".into(),
            revision: 1,
            settings: String::new(),
            class: Class::Bulk,
            published_ms: 0,
            payload: serde_json::value::RawValue::from_string("null".into()).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_counted_by_how_they_ended_and_listed_while_they_run() {
        let env = Env::simulated(1);
        let presence = Presence::new(&env, "w-1", "worker");
        let lane = QueueName::Lane(Lane::Cpu, Class::Bulk);
        presence.consumes(lane, 3);
        let busy = presence.occupy(lane);
        let first = presence.begin(&task(1), env.now_ms());
        let cut_off = presence.begin(&task(2), env.now_ms());
        env.sleep(Duration::from_millis(400)).await;
        assert_eq!(first.close(Close::Done, env.now_ms()), 400);
        drop(first);
        presence
            .begin(&task(3), env.now_ms())
            .close(Close::Retried, env.now_ms());
        let beat = presence.say(env.now_ms(), BTreeMap::new());
        assert_eq!(
            beat.tasks
                .iter()
                .map(|task| task.run.0.as_str())
                .collect::<Vec<_>>(),
            ["run-2"]
        );
        assert_eq!((beat.lanes[0].slots, beat.lanes[0].busy), (3, 1));
        let read = beat.stages["read"];
        assert_eq!(
            (read.done, read.failed, read.retried, read.last_minute),
            (1, 0, 1, 1)
        );
        assert!((400..=450).contains(&read.p50_ms), "{read:?}");
        drop((busy, cut_off));
        env.sleep(Duration::from_secs(61)).await;
        let beat = presence.say(env.now_ms(), BTreeMap::new());
        assert_eq!(
            (
                beat.tasks.len(),
                beat.lanes[0].busy,
                beat.stages["read"].last_minute
            ),
            (0, 0, 0)
        );
        assert_eq!(beat.stages["read"].done, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_is_on_the_board_while_it_lives_and_off_it_when_it_stopped() {
        let env = Env::simulated(1);
        let ledger = Arc::new(MemoryLedger::default());
        let stop = CancellationToken::new();
        let presence = Presence::new(&env, "w-1", "worker");
        let ours: Arc<dyn Ledger> = Arc::<MemoryLedger>::clone(&ledger);
        let beating = env.spawn(beat(
            env.clone(),
            ours,
            Arc::clone(&presence),
            BTreeMap::new,
            stop.clone(),
        ));
        env.sleep(Duration::from_secs(30)).await;
        let board = ledger
            .notices(Board::Processes, env.now_ms())
            .await
            .unwrap();
        let said: Beat = serde_json::from_slice(&board[0].body).unwrap();
        assert!(
            env.now_ms() - said.at_ms <= 2_000 && !said.draining,
            "{said:?}"
        );
        stop.cancel();
        beating.await.unwrap();
        assert_eq!(
            ledger
                .notices(Board::Processes, env.now_ms())
                .await
                .unwrap(),
            []
        );
    }
}
