//! Control of a submitted job. Commands are create-only records, so every reader sees the same ones in the same order.
//! Coordinators poll them; a notification only makes that faster.

use serde::{Deserialize, Serialize};

use super::JobEndReason;
use super::manifest::JobBudget;
use crate::blobs::{Blobs, get_json, list_all, put_json};
use crate::env::{Env, Millis};
use crate::key::{JobId, Priority};
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::port_error::PortResult;
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
    pub class: Option<Priority>,
    /// Changed budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<JobBudget>,
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
pub async fn cancel(env: &Env, ports: &Ports, job: &JobId, reason: CancelReason) -> PortResult<()> {
    let record = Cancelled {
        reason,
        at_ms: env.now_ms(),
    };
    put_json(&ports.blobs, &cancelled_key(job), &record).await?;
    notify(ports, job).await;
    Ok(())
}

/// Pauses a job: nothing more is opened or requested; running tasks finish.
pub async fn pause(env: &Env, ports: &Ports, job: &JobId, reason: PauseReason) -> PortResult<()> {
    write_command(env, ports, job, "paused", &ControlCommand::Paused(reason)).await
}

/// Pauses a running job for a reason that many processes find at once: all of them write one record. Returns whether the job
/// was running.
///
/// The first to claim the pause says when it began, under a key named by the last record before it. All others, also one that
/// takes over from a crash, write the record that the claim describes.
pub(crate) async fn pause_once(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    reason: PauseReason,
) -> PortResult<bool> {
    let blobs = &ports.blobs;
    let before = list_all(blobs, &control_prefix(job)).await?;
    if !load_control(blobs, job).await?.is_running() {
        return Ok(false);
    }
    let last = before.last().and_then(|name| name.rsplit('/').next());
    let claim = format!("jobs/{job}/pauses/{}", last.unwrap_or("first"));
    let ours = new_record_key(env, job, before.last(), "paused");
    put_json(blobs, &claim, &ours).await?;
    let key = get_json::<String>(blobs, &claim).await?.unwrap_or(ours);
    put_json(blobs, &key, &ControlCommand::Paused(reason)).await?;
    notify(ports, job).await;
    Ok(true)
}

/// Resumes a paused job.
pub async fn resume(env: &Env, ports: &Ports, job: &JobId) -> PortResult<()> {
    write_command(env, ports, job, "resumed", &ControlCommand::Resumed).await
}

/// Changes the priority of a job.
pub async fn prioritize(env: &Env, ports: &Ports, job: &JobId, class: Priority) -> PortResult<()> {
    write_command(
        env,
        ports,
        job,
        "priority",
        &ControlCommand::Priority(class),
    )
    .await
}

/// Changes the budget of a job.
pub async fn set_budget(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    budget: JobBudget,
) -> PortResult<()> {
    write_command(env, ports, job, "budget", &ControlCommand::Budget(budget)).await
}

/// The control state of a job: one listing, and one read per kind of command.
pub async fn load_control(blobs: &dyn Blobs, job: &JobId) -> PortResult<JobControl> {
    const NAMES: usize = 10;
    let names = blobs.children(&format!("jobs/{job}/"), None, NAMES).await?;
    let mut control = JobControl::default();
    if names.iter().any(|name| name == "cancelled") {
        control.cancelled = get_json(blobs, &cancelled_key(job)).await?;
    }
    if names.iter().any(|name| name == "control/") {
        apply_commands(blobs, job, &mut control).await?;
    }
    Ok(control)
}

// Record names contain kind and time, so only the last record of each kind is read.
async fn apply_commands(
    blobs: &dyn Blobs,
    job: &JobId,
    control: &mut JobControl,
) -> PortResult<()> {
    let names = list_all(blobs, &control_prefix(job)).await?;
    let last = |kinds: [&str; 2]| {
        names
            .iter()
            .rfind(|name| kinds.iter().any(|kind| name.contains(kind)))
    };
    for name in [
        last(["-paused", "-resumed"]),
        last(["-priority"; 2]),
        last(["-budget"; 2]),
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
            Some(ControlCommand::Priority(class)) => control.class = Some(class),
            Some(ControlCommand::Budget(budget)) => control.budget = Some(budget),
            Some(ControlCommand::Resumed) | None => {}
        }
    }
    Ok(())
}

fn command_time_ms(name: &str) -> Millis {
    let file = name.rsplit('/').next().unwrap_or_default();
    file.split('-')
        .next()
        .and_then(|millis| millis.parse().ok())
        .unwrap_or_default()
}

async fn write_command(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    kind: &str,
    command: &ControlCommand,
) -> PortResult<()> {
    let before = list_all(&ports.blobs, &control_prefix(job)).await?;
    let key = new_record_key(env, job, before.last(), kind);
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
            assert!(pause_once(&env, &ports, &job, reason).await.unwrap());
            put_json(&ports.blobs, &claim, &slower).await.unwrap();
            let key: String = get_json(&ports.blobs, &claim).await.unwrap().unwrap();
            assert!(
                records().await.contains(&key),
                "the slower one writes the same record"
            );
            assert!(!pause_once(&env, &ports, &job, reason).await.unwrap());
            assert_eq!(records().await.len(), 2 * round - 1);
            env.sleep(std::time::Duration::from_secs(5)).await;
            resume(&env, &ports, &job).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn latest_control_command_wins() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let job = JobId("job".into());
        let stands = async || load_control(&ports.blobs, &job).await.unwrap();
        assert_eq!(stands().await, JobControl::default());
        let step = async || env.sleep(std::time::Duration::from_millis(5)).await;
        pause(&env, &ports, &job, PauseReason::Budget)
            .await
            .unwrap();
        step().await;
        prioritize(&env, &ports, &job, Priority::Interactive)
            .await
            .unwrap();
        let paused = stands().await;
        assert_eq!(
            paused.paused,
            Some(Paused {
                reason: PauseReason::Budget,
                since_ms: env.now_ms() - 5
            })
        );
        assert_eq!(
            (paused.class, paused.is_running()),
            (Some(Priority::Interactive), false)
        );
        step().await;
        resume(&env, &ports, &job).await.unwrap();
        assert!(stands().await.is_running());
        cancel(&env, &ports, &job, CancelReason::Person)
            .await
            .unwrap();
        cancel(&env, &ports, &job, CancelReason::TooManyFailed)
            .await
            .unwrap();
        assert_eq!(
            stands().await.cancelled.unwrap().reason,
            CancelReason::Person
        );
        assert!(!stands().await.is_running());
    }
}
