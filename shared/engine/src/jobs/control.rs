//! Control of a submitted job. Commands are create-only records, so every reader sees the same ones in the same order.
//! Coordinators poll them; a notification only makes that faster.

use serde::{Deserialize, Serialize};
use stemma_store::blobs::{Blobs, get_json, list_all, put_json};
use stemma_store::env::{Env, Millis};
use stemma_store::key::{JobId, Priority};
use stemma_store::port_error::PortResult;
use stemma_store::spend::JobBudget;

use super::JobEndReason;
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::ports::Ports;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    Person,
    /// More entries failed than the job allows.
    TooManyFailed,
}

impl From<CancelReason> for JobEndReason {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::Person => Self::Cancelled,
            CancelReason::TooManyFailed => Self::TooManyFailed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    pub reason: CancelReason,
    pub at_ms: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The budget is used up.
    Budget,
    /// A key or configuration is wrong, so that nothing would succeed.
    Credentials,
    Person,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub reason: PauseReason,
    pub since_ms: Millis,
}

/// Control state of a job: the result of all its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobControl {
    pub cancelled: Option<Cancelled>,
    pub paused: Option<Paused>,
    /// Changed priority; decides which job's entries are opened first.
    #[serde(rename = "class")]
    pub priority: Option<Priority>,
    /// Changed budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<JobBudget>,
    /// How often the budget was changed.
    #[serde(skip)]
    pub(crate) budget_version: u64,
}

impl JobControl {
    /// Whether new tasks may be requested for the job.
    pub fn is_running(&self) -> bool {
        self.cancelled.is_none() && self.paused.is_none()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlCommand {
    Paused(PauseReason),
    Resumed,
    Priority(Priority),
    Budget(JobBudget),
}

/// Cancels a job. Open runs that no other job waits for are cancelled too; their artifacts stay, and a later submission
/// of the same documents reuses them. Does nothing to a job that has ended.
pub async fn cancel(ports: &Ports, job: &JobId, reason: CancelReason) -> PortResult<()> {
    let record = Cancelled {
        reason,
        at_ms: ports.env.now_ms(),
    };
    put_json(&ports.blobs, &cancelled_key(job), &record).await?;
    notify(ports, job).await;
    Ok(())
}

/// Pauses a job: nothing more is opened or requested; running tasks finish.
pub async fn pause(ports: &Ports, job: &JobId, reason: PauseReason) -> PortResult<()> {
    write_command(ports, job, "paused", &ControlCommand::Paused(reason)).await
}

/// What [`pause_once`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PauseResult {
    Paused,
    NotRunning,
    /// The budget was changed after the reason was found.
    BudgetChanged,
}

/// Pauses a running job for a reason that many processes find at once: all of them write one record.
///
/// The first to claim the pause says when it began, under a key named by the last record before it. All others, also one that
/// takes over from a crash, write the record that the claim describes.
///
/// A reason found under one version of the budget names it. The record counts only while the job has this version: it may be
/// written, and dated, after the budget was raised.
pub(crate) async fn pause_once(
    ports: &Ports,
    job: &JobId,
    reason: PauseReason,
    budget_version: Option<u64>,
) -> PortResult<PauseResult> {
    let blobs = &ports.blobs;
    let (control, last) = load_commands(blobs, job).await?;
    if !control.is_running() {
        return Ok(PauseResult::NotRunning);
    }
    if budget_version.is_some_and(|version| version != control.budget_version) {
        return Ok(PauseResult::BudgetChanged);
    }
    let version = budget_version.map_or(String::new(), |version| format!("-v{version}"));
    let before = last.as_ref().and_then(|name| name.rsplit('/').next());
    let claim = format!("jobs/{job}/pauses/{}{version}", before.unwrap_or("first"));
    let ours = new_record_key(&ports.env, job, last.as_ref(), &format!("paused{version}"));
    put_json(blobs, &claim, &ours).await?;
    let key = get_json::<String>(blobs, &claim).await?.unwrap_or(ours);
    put_json(blobs, &key, &ControlCommand::Paused(reason)).await?;
    notify(ports, job).await;
    Ok(PauseResult::Paused)
}

/// Resumes a paused job.
pub async fn resume(ports: &Ports, job: &JobId) -> PortResult<()> {
    write_command(ports, job, "resumed", &ControlCommand::Resumed).await
}

/// Changes the priority of a job.
pub async fn prioritize(ports: &Ports, job: &JobId, priority: Priority) -> PortResult<()> {
    write_command(ports, job, "priority", &ControlCommand::Priority(priority)).await
}

/// Changes the budget of a job.
pub async fn set_budget(ports: &Ports, job: &JobId, budget: JobBudget) -> PortResult<()> {
    write_command(ports, job, "budget", &ControlCommand::Budget(budget)).await
}

/// The control state of a job: one listing, and one read per kind of command.
pub async fn load_control(blobs: &dyn Blobs, job: &JobId) -> PortResult<JobControl> {
    load_commands(blobs, job).await.map(|(control, _)| control)
}

// Also returns the name of the last record.
async fn load_commands(blobs: &dyn Blobs, job: &JobId) -> PortResult<(JobControl, Option<String>)> {
    const NAMES: usize = 10;
    let names = blobs.children(&format!("jobs/{job}/"), None, NAMES).await?;
    let mut control = JobControl::default();
    if names.iter().any(|name| name == "cancelled") {
        control.cancelled = get_json(blobs, &cancelled_key(job)).await?;
    }
    let mut records = Vec::new();
    if names.iter().any(|name| name == "control/") {
        records = list_all(blobs, &control_prefix(job)).await?;
        apply_commands(blobs, &records, &mut control).await?;
    }
    Ok((control, records.pop()))
}

// Record names contain kind and time, so only the last record of each kind is read.
async fn apply_commands(
    blobs: &dyn Blobs,
    records: &[String],
    control: &mut JobControl,
) -> PortResult<()> {
    control.budget_version = records.iter().filter(is_budget).count() as u64;
    let version = control.budget_version;
    for name in [
        records.iter().rfind(|name| {
            let is_pause = name.contains("-paused");
            name.contains("-resumed")
                || is_pause && paused_version(name).is_none_or(|paused| paused == version)
        }),
        records.iter().rfind(|name| name.contains("-priority")),
        records.iter().rfind(is_budget),
    ]
    .into_iter()
    .flatten()
    {
        match get_json::<ControlCommand>(blobs, name).await? {
            Some(ControlCommand::Paused(reason)) => {
                control.paused = Some(Paused {
                    reason,
                    since_ms: command_time_ms(name),
                });
            }
            Some(ControlCommand::Priority(priority)) => control.priority = Some(priority),
            Some(ControlCommand::Budget(budget)) => control.budget = Some(budget),
            Some(ControlCommand::Resumed) | None => {}
        }
    }
    Ok(())
}

fn is_budget(name: &&String) -> bool {
    name.contains("-budget")
}

// The version of the budget that a pause names. It is part of the name, so that older binaries read the same pause.
fn paused_version(name: &str) -> Option<u64> {
    let (_, version) = name.rsplit_once("-paused-v")?;
    version.strip_suffix(".json")?.parse().ok()
}

fn command_time_ms(name: &str) -> Millis {
    let file = name.rsplit('/').next().unwrap_or_default();
    file.split('-')
        .next()
        .and_then(|millis| millis.parse().ok())
        .unwrap_or_default()
}

async fn write_command(
    ports: &Ports,
    job: &JobId,
    kind: &str,
    command: &ControlCommand,
) -> PortResult<()> {
    let before = list_all(&ports.blobs, &control_prefix(job)).await?;
    let key = new_record_key(&ports.env, job, before.last(), kind);
    put_json(&ports.blobs, &key, command).await?;
    notify(ports, job).await;
    Ok(())
}

// The last record wins, so this one must sort after records of the same millisecond or of a faster clock.
fn new_record_key(env: &Env, job: &JobId, last: Option<&String>, kind: &str) -> String {
    let at_ms = env
        .now_ms()
        .max(last.map_or(0, |name| command_time_ms(name) + 1));
    let random = env.random() & 0xffff_ffff;
    format!(
        "{}{at_ms:013}-{random:08x}-{kind}.json",
        control_prefix(job)
    )
}

// Best effort: coordinators also poll the control records.
async fn notify(ports: &Ports, job: &JobId) {
    let message = CoordinatorMessage::Job(job.clone());
    if let Err(error) = notify_coordinator(ports, &message).await {
        tracing::debug!(%job, %error, "cannot notify the coordinator; it will poll");
    }
}

fn cancelled_key(job: &JobId) -> String {
    format!("jobs/{job}/cancelled")
}

fn control_prefix(job: &JobId) -> String {
    format!("jobs/{job}/control/")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two processes find the same wrong key while the store takes its time.
    #[tokio::test(start_paused = true)]
    async fn processes_that_pause_a_job_together_write_one_record() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let job = JobId("job".into());
        let records = async || list_all(&ports.blobs, &control_prefix(&job)).await.unwrap();
        for round in 1..=2 {
            let reason = PauseReason::Credentials;
            // Both looked before either of them wrote.
            let before = records().await;
            let last = before.last().and_then(|name| name.rsplit('/').next());
            let claim = format!("jobs/{job}/pauses/{}", last.unwrap_or("first"));
            let slower = new_record_key(&env, &job, before.last(), "paused");
            let pause = async || pause_once(&ports, &job, reason, None).await.unwrap();
            assert_eq!(pause().await, PauseResult::Paused);
            put_json(&ports.blobs, &claim, &slower).await.unwrap();
            let key: String = get_json(&ports.blobs, &claim).await.unwrap().unwrap();
            assert!(
                records().await.contains(&key),
                "the slower one writes the same record"
            );
            assert_eq!(pause().await, PauseResult::NotRunning);
            assert_eq!(records().await.len(), 2 * round - 1);
            env.sleep(std::time::Duration::from_secs(5)).await;
            resume(&ports, &job).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn latest_control_command_wins() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let job = JobId("job".into());
        let load = async || load_control(&ports.blobs, &job).await.unwrap();
        assert_eq!(load().await, JobControl::default());
        let step = async || env.sleep(std::time::Duration::from_millis(5)).await;
        pause(&ports, &job, PauseReason::Budget).await.unwrap();
        step().await;
        prioritize(&ports, &job, Priority::Interactive)
            .await
            .unwrap();
        let paused = load().await;
        assert_eq!(
            paused.paused,
            Some(Paused {
                reason: PauseReason::Budget,
                since_ms: env.now_ms() - 5
            })
        );
        assert_eq!(
            (paused.priority, paused.is_running()),
            (Some(Priority::Interactive), false)
        );
        step().await;
        resume(&ports, &job).await.unwrap();
        assert!(load().await.is_running());
        cancel(&ports, &job, CancelReason::Person).await.unwrap();
        cancel(&ports, &job, CancelReason::TooManyFailed)
            .await
            .unwrap();
        assert_eq!(load().await.cancelled.unwrap().reason, CancelReason::Person);
        assert!(!load().await.is_running());
    }
}
