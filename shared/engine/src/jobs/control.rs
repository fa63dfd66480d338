//! Control of a job after it was submitted: create-only records, so that whoever looks later sees the same, in the same
//! order. Coordinators look every few seconds; a word to them makes it faster.

use serde::{Deserialize, Serialize};

use super::budget::JobBudget;
use super::{get_json, put_json};
use crate::blobs::Blobs;
use crate::env::{Env, Millis};
use crate::key::{JobId, Priority};
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::port_error::{PortError, with_retry};
use crate::ports::Ports;

/// Why a job was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// Someone asked for it.
    Person,
    /// More entries failed than it allows.
    TooManyFailed,
}

/// That a job was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Why.
    pub reason: CancelReason,
    /// When.
    pub at_ms: Millis,
}

/// Why a job is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Its budget is used up.
    Budget,
    /// A key or a configuration is wrong: nothing would succeed.
    Credentials,
    /// Someone asked for it.
    Person,
}

/// That a job is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Why.
    pub reason: PauseReason,
    /// Since when.
    pub since_ms: Millis,
}

/// Where a job stands, by what people and the engine said about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobControl {
    /// It was cancelled, or stopped itself.
    pub cancelled: Option<Cancelled>,
    /// It is paused.
    pub paused: Option<Paused>,
    /// Who waits for it now, if that was changed: decides which job's entries are opened first.
    pub class: Option<Priority>,
    /// What it may spend now, if that was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<JobBudget>,
}

impl JobControl {
    /// Whether new work may be asked for on its behalf.
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

/// Cancels a job. Open runs that only it waits for end cancelled; what they made is kept, and a later submission of the
/// same documents goes on from it. Does nothing to a job that has ended.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn cancel(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    reason: CancelReason,
) -> Result<(), PortError> {
    let record = Cancelled {
        reason,
        at_ms: env.now_ms(),
    };
    put_json(env, ports.blobs.as_ref(), &cancelled_key(job), &record).await?;
    notify(env, ports, job).await;
    Ok(())
}

/// Pauses a job: nothing more of it is opened or asked for; what is under way is finished.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn pause(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    reason: PauseReason,
) -> Result<(), PortError> {
    write_command(env, ports, job, "paused", &ControlCommand::Paused(reason)).await
}

/// Lets a paused job go on.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn resume(env: &Env, ports: &Ports, job: &JobId) -> Result<(), PortError> {
    write_command(env, ports, job, "resumed", &ControlCommand::Resumed).await
}

/// Says who waits for a job, from now on.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn prioritize(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    class: Priority,
) -> Result<(), PortError> {
    write_command(
        env,
        ports,
        job,
        "priority",
        &ControlCommand::Priority(class),
    )
    .await
}

/// Says what a job may spend in all, from now on.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn set_budget(
    env: &Env,
    ports: &Ports,
    job: &JobId,
    budget: JobBudget,
) -> Result<(), PortError> {
    write_command(env, ports, job, "budget", &ControlCommand::Budget(budget)).await
}

/// Where a job stands. One listing, unless something was said about it.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn load_control(blobs: &dyn Blobs, job: &JobId) -> Result<JobControl, PortError> {
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

/// Reads the last word of each kind: their names say the kind, and when it was said.
async fn apply_commands(
    blobs: &dyn Blobs,
    job: &JobId,
    control: &mut JobControl,
) -> Result<(), PortError> {
    let names = crate::blobs::list_all(blobs, &control_prefix(job)).await?;
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
                })
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
) -> Result<(), PortError> {
    let prefix = control_prefix(job);
    let before = with_retry(env, || {
        crate::blobs::list_all(ports.blobs.as_ref(), &prefix)
    })
    .await?;
    // The last word counts: one of the same millisecond, or of a faster clock, must not stand behind this one.
    let at_ms = env
        .now_ms()
        .max(before.last().map_or(0, |name| command_time_ms(name) + 1));
    let key = format!(
        "{prefix}{at_ms:013}-{:08x}-{kind}.json",
        env.random() & 0xffff_ffff
    );
    put_json(env, ports.blobs.as_ref(), &key, command).await?;
    notify(env, ports, job).await;
    Ok(())
}

/// A word to the coordinator; if it is lost, the coordinator finds the record by itself.
async fn notify(env: &Env, ports: &Ports, job: &JobId) {
    let message = CoordinatorMessage::Job(job.clone());
    if let Err(error) = notify_coordinator(env, ports, &message).await {
        tracing::debug!(%job, %error, "a coordinator was not told; it looks by itself");
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

    #[tokio::test(start_paused = true)]
    async fn latest_control_command_wins() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let job = JobId("job".into());
        let stands = async || load_control(ports.blobs.as_ref(), &job).await.unwrap();
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
