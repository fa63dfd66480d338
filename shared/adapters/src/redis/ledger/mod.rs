//! A ledger in Redis. Redis may lose data: what is lost is rebuilt from the blobs (I-1).
//!
//! - Each call is one script or command and therefore atomic; long lists are split into bounded, atomic parts. All keys
//!   of
//!   a run share a hash tag, so they are on one node of a cluster.
//! - The epoch of a run is the server's time in microseconds at the first write. A cursor of an earlier epoch is
//!   detected. If a key of the run is evicted, or the end of its log lost in a failover, all of it is dropped and a new
//!   epoch starts.
//! - Everything expires: a run and the due-time index a week after the last write, a run with only leases ten minutes
//!   after the last one expires, and status topics a minute after their last record.
//! - Callers pass the time. Where their clocks differ, a lease seems longer or shorter by the difference. Leases are
//!   renewed every three seconds, so the difference must stay below their length.
//!
//! The layout is described in `run.lua`, its reasons in ADR 0012.

mod encoding;
mod scripts;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use redis::{Script, ScriptInvocation};
use stemma_engine::ledger::{
    DeliveryKind, FAR_FUTURE, Lease, Ledger, MAX_LEASE, MAX_REPUBLISH_WAIT, OpenTask, OutcomeBatch,
    RENEWAL_GRACE, Retry, ScheduledItem, StatusRecord, StatusTopic, TaskOutcome, TaskSpec,
};
use stemma_store::env::Millis;
use stemma_store::key::{JobId, RunId, TaskKey};
use stemma_store::port_error::{PortError, PortResult};

use self::encoding::LogCursor;
use self::scripts::LedgerScripts;
use super::RedisClient;

// Outcomes per read. The scripts also bound the bytes.
const PAGE_ENTRIES: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;
// Task requests per call.
const REQUESTS_AT_ONCE: usize = 1_000;
// Overdue tasks per call.
const OVERDUE_AT_ONCE: usize = 1_000;
// Status records per topic; those that expire first make room.
const MAX_STATUS_RECORDS: usize = 1_000;
// How often a read restarts because the run was forgotten meanwhile.
const MAX_READS: usize = 5;

/// Shared short-term state of all processes. Cheap to clone.
#[derive(Clone)]
pub struct RedisLedger {
    redis: RedisClient,
    scripts: Arc<LedgerScripts>,
}

impl RedisLedger {
    pub fn new(redis: RedisClient) -> Self {
        Self {
            redis,
            scripts: Arc::default(),
        }
    }

    fn run_key(&self, run: &RunId, what: &str) -> String {
        self.redis.key(&run.0, what)
    }

    /// All keys of a run, in the order that `run.lua` expects.
    fn run_keys(&self, run: &RunId) -> Vec<String> {
        ["log", "ended", "open", "due", "jobs"]
            .map(|what| self.run_key(run, what))
            .to_vec()
    }

    fn result_key(&self, run: &RunId, key: &TaskKey) -> String {
        self.run_key(run, &format!("result:{key}"))
    }

    fn run_script<'a>(&self, run: &RunId, script: &'a Script) -> ScriptInvocation<'a> {
        let mut script = script.prepare_invoke();
        script.key(self.run_keys(run));
        script
    }

    fn due_index_key(&self) -> String {
        self.redis.key("due", "index")
    }

    fn topic_keys(&self, topic: StatusTopic) -> [String; 2] {
        ["until", "body"].map(|what| self.redis.key(topic.name(), what))
    }

    // Reads from `since` to the end of the log; `None` when the epoch changes on the way.
    async fn read_outcomes(&self, run: &RunId, since: u64) -> PortResult<Option<OutcomeBatch>> {
        let mut outcomes = OutcomeBatch::default();
        let mut cursor = LogCursor::from_number(since);
        loop {
            let mut script = self.run_script(run, &self.scripts.outcomes);
            script
                .arg(cursor.position)
                .arg(cursor.mark())
                .arg(PAGE_ENTRIES)
                .arg(PAGE_BYTES);
            let page: (String, u64, u64, Vec<Vec<u8>>, u64) =
                self.redis.invoke("ledger.outcomes", &script).await?;
            let (epoch, length, from, lines, parked) = page;
            outcomes.parked = parked == 1;
            let epoch =
                encoding::parse_number(&epoch).map_err(unreadable_error("ledger.outcomes"))?;
            if !outcomes.entries.is_empty() && epoch != outcomes.epoch {
                return Ok(None);
            }
            outcomes.epoch = epoch;
            let entries = lines
                .into_iter()
                .map(encoding::decode_log_entry)
                .collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(unreadable_error("ledger.outcomes"))?;
            let here = if from == cursor.position {
                cursor
            } else {
                LogCursor::from_number(0)
            };
            cursor = LogCursor::after_entries(from, &entries).unwrap_or(here);
            outcomes.entries.extend(entries);
            if cursor.position >= length {
                return Ok(Some(OutcomeBatch {
                    next: cursor.number(),
                    ..outcomes
                }));
            }
        }
    }
}

fn far_future_ms(now_ms: Millis) -> Millis {
    now_ms + FAR_FUTURE.as_millis() as Millis
}

// Stored data that we cannot decode: another program, or another version of this one, writes to our keys.
fn unreadable_error(operation: &'static str) -> impl Fn(String) -> PortError {
    move |error| PortError::refused(operation, format!("Redis holds unexpected data: {error}"))
}

fn parse_task_keys(operation: &'static str, digits: &[String]) -> PortResult<Vec<TaskKey>> {
    digits
        .iter()
        .map(|key| key.parse::<TaskKey>())
        .collect::<Result<_, _>>()
        .map_err(unreadable_error(operation))
}

fn to_json<T: serde::Serialize>(operation: &'static str, value: &T) -> PortResult<String> {
    serde_json::to_string(value).map_err(|error| PortError::permanent(operation, error.to_string()))
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> PortResult<OutcomeBatch> {
        for _ in 0..MAX_READS {
            if let Some(outcomes) = self.read_outcomes(run, since).await? {
                return Ok(outcomes);
            }
        }
        Err(PortError::transient(
            "ledger.outcomes",
            format!("run {run} was forgotten repeatedly while it was read"),
        ))
    }

    async fn record(&self, run: &RunId, key: &TaskKey, entry: TaskOutcome) -> PortResult<()> {
        let entry = encoding::encode_outcome(&entry)
            .map_err(|error| PortError::permanent("ledger.record", error))?;
        let mut script = self.run_script(run, &self.scripts.record);
        script.arg(key.to_string()).arg(entry);
        self.redis.invoke("ledger.record", &script).await
    }

    async fn request_tasks(
        &self,
        run: &RunId,
        tasks: &[TaskSpec],
        now_ms: Millis,
        due_ms: Millis,
    ) -> PortResult<Vec<TaskKey>> {
        let mut new = Vec::new();
        for part in tasks.chunks(REQUESTS_AT_ONCE) {
            let mut script = self.run_script(run, &self.scripts.request_tasks);
            script.arg(now_ms).arg(due_ms);
            for task_spec in part {
                script
                    .arg(task_spec.key.to_string())
                    .arg(&task_spec.stage)
                    .arg(task_spec.lane.name());
            }
            let part: Vec<String> = self.redis.invoke("ledger.want", &script).await?;
            new.extend(parse_task_keys("ledger.want", &part)?);
        }
        Ok(new)
    }

    async fn overdue(
        &self,
        run: &RunId,
        due_by_ms: Millis,
        now_ms: Millis,
    ) -> PortResult<Vec<TaskKey>> {
        let mut overdue = Vec::new();
        loop {
            let mut script = self.run_script(run, &self.scripts.overdue);
            script
                .arg(due_by_ms)
                .arg(overdue.len())
                .arg(OVERDUE_AT_ONCE)
                .arg(far_future_ms(now_ms));
            let part: Vec<String> = self.redis.invoke("ledger.overdue", &script).await?;
            overdue.extend(parse_task_keys("ledger.overdue", &part)?);
            if part.len() < OVERDUE_AT_ONCE {
                // A task whose lease was renewed between two parts may be in both.
                overdue.sort();
                overdue.dedup();
                return Ok(overdue);
            }
        }
    }

    async fn mark_republished(
        &self,
        run: &RunId,
        keys: &[TaskKey],
        now_ms: Millis,
    ) -> PortResult<()> {
        for part in keys.chunks(REQUESTS_AT_ONCE) {
            let mut script = self.run_script(run, &self.scripts.mark_republished);
            script
                .arg(now_ms)
                .arg(MAX_REPUBLISH_WAIT.as_millis() as u64);
            for key in part {
                script.arg(key.to_string());
            }
            let () = self
                .redis
                .invoke("ledger.mark_republished", &script)
                .await?;
        }
        Ok(())
    }

    async fn open_tasks(&self, run: &RunId) -> PortResult<Vec<OpenTask>> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.run_key(run, "open"));
        let fields: Vec<(String, String)> = self.redis.query("ledger.open_tasks", &command).await?;
        let tasks = fields.iter().filter(|(key, _)| !key.is_empty());
        let open = tasks.map(|(key, task)| {
            encoding::from_json::<encoding::StoredTask>(task)?.into_open_task(key.parse()?)
        });
        let open = open
            .filter_map(Result::transpose)
            .collect::<Result<Vec<_>, _>>();
        let mut open = open.map_err(unreadable_error("ledger.open_tasks"))?;
        open.sort_by_key(|task| task.key);
        Ok(open)
    }

    async fn lease(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        now_ms: Millis,
        until_ms: Millis,
        delivery: DeliveryKind,
    ) -> PortResult<Lease> {
        let retried_ms = match delivery {
            DeliveryKind::Retried(due_ms) => due_ms.to_string(),
            DeliveryKind::Published | DeliveryKind::Redelivered => String::new(),
        };
        let mut script = self.run_script(run, &self.scripts.lease);
        script
            .arg(key.to_string())
            .arg(holder)
            .arg(now_ms)
            .arg(until_ms)
            .arg(u32::from(delivery == DeliveryKind::Redelivered))
            .arg(RENEWAL_GRACE.as_millis() as Millis)
            .arg(MAX_LEASE.as_millis() as Millis)
            .arg(retried_ms);
        let reply: Vec<String> = self.redis.invoke("ledger.lease", &script).await?;
        encoding::decode_lease(&reply).map_err(unreadable_error("ledger.lease"))
    }

    async fn park_run(&self, run: &RunId, parked: bool) -> PortResult<()> {
        let mut script = self.run_script(run, &self.scripts.park_run);
        script.arg(if parked { "parked" } else { "" });
        self.redis.invoke("ledger.park_run", &script).await
    }

    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> PortResult<u32> {
        let mut script = self.run_script(run, &self.scripts.release);
        let counted = retry.is_some_and(|retry| retry.counted);
        script
            .arg(key.to_string())
            .arg(holder)
            .arg(u32::from(counted));
        if let Some(retry) = retry {
            script.arg(to_json("ledger.release", retry)?);
        }
        self.redis.invoke("ledger.release", &script).await
    }

    async fn schedule(&self, item: &ScheduledItem, at_ms: Millis) -> PortResult<()> {
        let mut script = self.scripts.schedule.key(self.due_index_key());
        script.arg(to_json("ledger.schedule", item)?).arg(at_ms);
        self.redis.invoke("ledger.schedule", &script).await
    }

    async fn claim_due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> PortResult<Vec<ScheduledItem>> {
        let mut script = self.scripts.claim_due.key(self.due_index_key());
        script
            .arg(now_ms)
            .arg(again_ms)
            .arg(limit)
            .arg(far_future_ms(now_ms));
        let things: Vec<String> = self.redis.invoke("ledger.due", &script).await?;
        things
            .iter()
            .map(|thing| encoding::from_json(thing))
            .collect::<Result<_, _>>()
            .map_err(unreadable_error("ledger.due"))
    }

    async fn unschedule(&self, item: &ScheduledItem) -> PortResult<()> {
        let mut command = redis::cmd("ZREM");
        command
            .arg(self.due_index_key())
            .arg(to_json("ledger.unschedule", item)?);
        self.redis.query("ledger.unschedule", &command).await
    }

    async fn add_watcher(&self, run: &RunId, job: &JobId) -> PortResult<()> {
        let mut script = self.run_script(run, &self.scripts.add_watcher);
        script.arg(&job.0);
        self.redis.invoke("ledger.watch", &script).await
    }

    async fn watchers(&self, run: &RunId) -> PortResult<Vec<JobId>> {
        let mut command = redis::cmd("SMEMBERS");
        command.arg(self.run_key(run, "jobs"));
        let mut jobs: Vec<String> = self.redis.query("ledger.watchers", &command).await?;
        jobs.retain(|job| !job.is_empty());
        jobs.sort();
        Ok(jobs.into_iter().map(JobId).collect())
    }

    async fn hold_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        result: Bytes,
        now_ms: Millis,
        until_ms: Millis,
    ) -> PortResult<()> {
        let mut command = redis::cmd("SET");
        command.arg(self.result_key(run, key)).arg(result.as_ref());
        command
            .arg("PX")
            .arg(until_ms.saturating_sub(now_ms).max(1));
        self.redis.query("ledger.hold_result", &command).await
    }

    async fn held_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        _now_ms: Millis,
    ) -> PortResult<Option<Bytes>> {
        let mut command = redis::cmd("GET");
        command.arg(self.result_key(run, key));
        let result: Option<Vec<u8>> = self.redis.query("ledger.held_result", &command).await?;
        Ok(result.map(Bytes::from))
    }

    async fn drop_result(&self, run: &RunId, key: &TaskKey) -> PortResult<()> {
        let mut command = redis::cmd("UNLINK");
        command.arg(self.result_key(run, key));
        self.redis.query("ledger.drop_result", &command).await
    }

    async fn forget_run(&self, run: &RunId) -> PortResult<()> {
        let mut command = redis::cmd("UNLINK");
        command.arg(self.run_keys(run));
        self.redis.query("ledger.forget", &command).await
    }

    async fn post_status(
        &self,
        topic: StatusTopic,
        record: StatusRecord,
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut script = self.scripts.post_status.prepare_invoke();
        script.key(self.topic_keys(topic).to_vec());
        script
            .arg(record.name)
            .arg(record.body.as_ref())
            .arg(record.until_ms)
            .arg(now_ms)
            .arg(MAX_STATUS_RECORDS);
        self.redis.invoke("ledger.post", &script).await
    }

    async fn status_records(
        &self,
        topic: StatusTopic,
        now_ms: Millis,
    ) -> PortResult<Vec<StatusRecord>> {
        let mut script = self.scripts.status_records.prepare_invoke();
        script.key(self.topic_keys(topic).to_vec()).arg(now_ms);
        let notices: Vec<(String, Vec<u8>, String)> =
            self.redis.invoke("ledger.notices", &script).await?;
        let mut notices = notices
            .into_iter()
            .map(|(name, body, until): (String, Vec<u8>, String)| {
                Ok(StatusRecord {
                    name,
                    body: body.into(),
                    until_ms: encoding::parse_number(&until)?,
                })
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable_error("ledger.notices"))?;
        notices.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(notices)
    }
}
