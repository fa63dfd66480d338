//! A ledger in Redis, which may forget: what it loses is established anew from the blobs (I-1).
//!
//! - Each call is one script or one command, so it is atomic; long lists go and come in bounded parts, each of them
//!   atomic. All keys of a run have one hash tag, so they lie on one node of a cluster.
//! - A memory of a run begins with the first call that writes, and names itself by the server's time in microseconds:
//!   whoever holds a cursor of an earlier one sees another epoch. If a part of it is evicted, or its end lost in a
//!   failover, all of it is dropped and another one begins.
//! - Nothing stays for ever. A run, and the index, go a week after the last write; a run of which there are only
//!   leases goes ten minutes after the last one runs out, and boards a minute after their last notice.
//! - Times are those of the callers. Where clocks differ, a lease seems longer or shorter by as much; it is renewed
//!   every three seconds, so that differences must stay below its length.
//!
//! The layout is written in `run.lua`; why it is so, in ADR 0012.

mod form;
mod scripts;

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Script, ScriptInvocation};

use self::form::Cursor;
use self::scripts::Scripts;
use super::{Board, Due, Entry, Lease, Ledger, Notice, OpenTask, Outcomes, Retry, Want};
use crate::env::Millis;
use crate::key::{JobId, RunId, TaskKey};
use crate::port::PortError;
use crate::redis_client::RedisClient;

/// Outcomes read at once: about that many, and not many more bytes.
const PAGE_ENTRIES: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;
/// Wanted tasks sent at once.
const WANTS_AT_ONCE: usize = 1_000;
/// Overdue tasks taken at once.
const OVERDUE_AT_ONCE: usize = 1_000;
/// Notices on a board; those that go first make room.
const NOTICES: usize = 1_000;
/// How often outcomes are read from the beginning because the run was forgotten meanwhile.
const READS: usize = 5;

/// Short-term memory shared by all processes. Cheap to clone.
#[derive(Clone)]
pub struct RedisLedger {
    redis: RedisClient,
    scripts: Arc<Scripts>,
}

impl RedisLedger {
    /// The ledger behind `redis`.
    pub fn new(redis: RedisClient) -> Self {
        Self {
            redis,
            scripts: Arc::default(),
        }
    }

    fn run_key(&self, run: &RunId, what: &str) -> String {
        self.redis.key(&run.0, what)
    }

    /// All keys of a run, in the order in which `run.lua` names them.
    fn run_keys(&self, run: &RunId) -> Vec<String> {
        ["log", "ended", "open", "due", "jobs"]
            .map(|what| self.run_key(run, what))
            .to_vec()
    }

    /// A script about a run, with its keys.
    fn on<'a>(&self, run: &RunId, script: &'a Script) -> ScriptInvocation<'a> {
        let mut script = script.prepare_invoke();
        script.key(self.run_keys(run));
        script
    }

    fn index(&self) -> String {
        self.redis.key("due", "index")
    }

    fn board(&self, board: Board) -> [String; 2] {
        ["until", "body"].map(|what| self.redis.key(board.name(), what))
    }

    /// Reads on after `since` until the end of the log; `None` when it is another log by then.
    async fn read(&self, run: &RunId, since: u64) -> Result<Option<Outcomes>, PortError> {
        let mut outcomes = Outcomes::default();
        let mut cursor = Cursor::of(since);
        loop {
            let mut script = self.on(run, &self.scripts.outcomes);
            script
                .arg(cursor.position)
                .arg(cursor.mark())
                .arg(PAGE_ENTRIES)
                .arg(PAGE_BYTES);
            let page: (String, u64, u64, Vec<Vec<u8>>) =
                self.redis.invoke(at("outcomes"), &script).await?;
            let (epoch, length, from, lines) = page;
            let epoch = form::number(&epoch).map_err(unreadable("outcomes"))?;
            if !outcomes.entries.is_empty() && epoch != outcomes.epoch {
                return Ok(None);
            }
            outcomes.epoch = epoch;
            let entries = lines
                .into_iter()
                .map(form::logged)
                .collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(unreadable("outcomes"))?;
            let here = if from == cursor.position {
                cursor
            } else {
                Cursor::of(0)
            };
            cursor = Cursor::behind(from, &entries).unwrap_or(here);
            outcomes.entries.extend(entries);
            if cursor.position >= length {
                return Ok(Some(Outcomes {
                    next: cursor.number(),
                    ..outcomes
                }));
            }
        }
    }
}

fn at(operation: &'static str) -> (&'static str, &'static str) {
    ("ledger", operation)
}

/// What we wrote and cannot read: another program writes to our keys, or another version of this one.
fn unreadable(operation: &'static str) -> impl Fn(String) -> PortError {
    move |error| {
        PortError::lasting(
            "ledger",
            operation,
            format!("Redis holds what is not ours: {error}"),
        )
    }
}

/// Keys that a script returned.
fn keys(operation: &'static str, digits: &[String]) -> Result<Vec<TaskKey>, PortError> {
    digits
        .iter()
        .map(|key| key.parse::<TaskKey>())
        .collect::<Result<_, _>>()
        .map_err(unreadable(operation))
}

fn json<T: serde::Serialize>(operation: &'static str, value: &T) -> Result<String, PortError> {
    serde_json::to_string(value)
        .map_err(|error| PortError::lasting("ledger", operation, error.to_string()))
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> Result<Outcomes, PortError> {
        for _ in 0..READS {
            if let Some(outcomes) = self.read(run, since).await? {
                return Ok(outcomes);
            }
        }
        Err(PortError::passing(
            "ledger",
            "outcomes",
            format!("run {run} is forgotten again and again"),
        ))
    }

    async fn record(&self, run: &RunId, key: &TaskKey, entry: Entry) -> Result<(), PortError> {
        let entry =
            form::entry(&entry).map_err(|error| PortError::lasting("ledger", "record", error))?;
        let mut script = self.on(run, &self.scripts.record);
        script.arg(key.to_string()).arg(entry);
        self.redis.invoke(at("record"), &script).await
    }

    async fn want(
        &self,
        run: &RunId,
        tasks: &[Want],
        now_ms: Millis,
        due_ms: Millis,
    ) -> Result<Vec<TaskKey>, PortError> {
        let mut new = Vec::new();
        for part in tasks.chunks(WANTS_AT_ONCE) {
            let mut script = self.on(run, &self.scripts.want);
            script.arg(now_ms).arg(due_ms);
            for want in part {
                script
                    .arg(want.key.to_string())
                    .arg(&want.stage)
                    .arg(want.lane.name());
            }
            let part: Vec<String> = self.redis.invoke(at("want"), &script).await?;
            new.extend(keys("want", &part)?);
        }
        Ok(new)
    }

    async fn overdue(&self, run: &RunId, now_ms: Millis) -> Result<Vec<TaskKey>, PortError> {
        let mut overdue = Vec::new();
        loop {
            let mut script = self.on(run, &self.scripts.overdue);
            script.arg(now_ms).arg(OVERDUE_AT_ONCE);
            let part: Vec<String> = self.redis.invoke(at("overdue"), &script).await?;
            overdue.extend(keys("overdue", &part)?);
            if part.len() < OVERDUE_AT_ONCE {
                overdue.sort();
                return Ok(overdue);
            }
        }
    }

    async fn open_tasks(&self, run: &RunId) -> Result<Vec<OpenTask>, PortError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.run_key(run, "open"));
        let fields: Vec<(String, String)> = self.redis.query(at("open_tasks"), &command).await?;
        let tasks = fields.iter().filter(|(key, _)| !key.is_empty());
        let open = tasks.map(|(key, task)| form::read::<form::Task>(task)?.open(key.parse()?));
        let open = open
            .filter_map(Result::transpose)
            .collect::<Result<Vec<_>, _>>();
        let mut open = open.map_err(unreadable("open_tasks"))?;
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
    ) -> Result<Lease, PortError> {
        let mut script = self.on(run, &self.scripts.lease);
        script
            .arg(key.to_string())
            .arg(holder)
            .arg(now_ms)
            .arg(until_ms);
        let answer: Vec<String> = self.redis.invoke(at("lease"), &script).await?;
        form::lease(&answer).map_err(unreadable("lease"))
    }

    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> Result<u32, PortError> {
        let mut script = self.on(run, &self.scripts.release);
        let counted = retry.is_some_and(|retry| retry.counted);
        script
            .arg(key.to_string())
            .arg(holder)
            .arg(u32::from(counted));
        if let Some(retry) = retry {
            script.arg(json("release", retry)?);
        }
        self.redis.invoke(at("release"), &script).await
    }

    async fn schedule(&self, due: &Due, at_ms: Millis) -> Result<(), PortError> {
        let mut script = self.scripts.schedule.key(self.index());
        script.arg(json("schedule", due)?).arg(at_ms);
        self.redis.invoke(at("schedule"), &script).await
    }

    async fn due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> Result<Vec<Due>, PortError> {
        let mut script = self.scripts.due.key(self.index());
        script.arg(now_ms).arg(again_ms).arg(limit);
        let things: Vec<String> = self.redis.invoke(at("due"), &script).await?;
        things
            .iter()
            .map(|thing| form::read(thing))
            .collect::<Result<_, _>>()
            .map_err(unreadable("due"))
    }

    async fn unschedule(&self, due: &Due) -> Result<(), PortError> {
        let mut command = redis::cmd("ZREM");
        command.arg(self.index()).arg(json("unschedule", due)?);
        self.redis.query(at("unschedule"), &command).await
    }

    async fn watch(&self, run: &RunId, job: &JobId) -> Result<(), PortError> {
        let mut script = self.on(run, &self.scripts.watch);
        script.arg(&job.0);
        self.redis.invoke(at("watch"), &script).await
    }

    async fn watchers(&self, run: &RunId) -> Result<Vec<JobId>, PortError> {
        let mut command = redis::cmd("SMEMBERS");
        command.arg(self.run_key(run, "jobs"));
        let mut jobs: Vec<String> = self.redis.query(at("watchers"), &command).await?;
        jobs.retain(|job| !job.is_empty());
        jobs.sort();
        Ok(jobs.into_iter().map(JobId).collect())
    }

    async fn forget(&self, run: &RunId) -> Result<(), PortError> {
        let mut command = redis::cmd("UNLINK");
        command.arg(self.run_keys(run));
        self.redis.query(at("forget"), &command).await
    }

    async fn post(&self, board: Board, notice: Notice, now_ms: Millis) -> Result<(), PortError> {
        let mut script = self.scripts.post.prepare_invoke();
        script.key(self.board(board).to_vec());
        script
            .arg(notice.name)
            .arg(notice.body.as_ref())
            .arg(notice.until_ms)
            .arg(now_ms)
            .arg(NOTICES);
        self.redis.invoke(at("post"), &script).await
    }

    async fn notices(&self, board: Board, now_ms: Millis) -> Result<Vec<Notice>, PortError> {
        let mut script = self.scripts.notices.prepare_invoke();
        script.key(self.board(board).to_vec()).arg(now_ms);
        let notices: Vec<(String, Vec<u8>, String)> =
            self.redis.invoke(at("notices"), &script).await?;
        let mut notices = notices
            .into_iter()
            .map(|(name, body, until): (String, Vec<u8>, String)| {
                Ok(Notice {
                    name,
                    body: body.into(),
                    until_ms: form::number(&until)?,
                })
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable("notices"))?;
        notices.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(notices)
    }
}
