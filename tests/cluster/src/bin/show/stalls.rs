//! Injects at least one stall for each cause and checks the answer of `why`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stemma_cluster::{BrokerClient, ServiceRole};
use stemma_engine::jobs::{self, PauseReason};
use stemma_engine::ledger::{DeliveryKind, Ledger, RENEWAL_GRACE};
use stemma_filings::markdown;
use stemma_sim::{Behavior, Provider, SimulatedLimits};
use stemma_store::env::Millis;
use stemma_store::{JobId, RunId};
use tokio::time::sleep;

use crate::harness::{DemoHarness, Deployment, TIMEOUT};

/// One wrong cause is allowed per this many.
const ALLOWED_WRONG_ONE_IN: usize = 20;
/// Time limit of `why`.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Expired leases after which a task counts as poison.
const POISON_CRASHES: u64 = 10;

const COORDINATOR: (ServiceRole, &[&str]) = (ServiceRole::Coordinator, &[]);
const WORKER: (ServiceRole, &[&str]) = (ServiceRole::Worker, &[]);
const CPU_WORKER: (ServiceRole, &[&str]) = (ServiceRole::Worker, &["--lanes", "cpu"]);
const ASSEMBLER: (ServiceRole, &[&str]) = (ServiceRole::Assembler, &[]);
const ALL: &[(ServiceRole, &[&str])] = &[COORDINATOR, WORKER, ASSEMBLER];
const ONE_CALL: (&str, &str) = ("MODEL__CONCURRENCY", "1");

struct Stall {
    name: &'static str,
    cause: &'static str,
    services: &'static [(ServiceRole, &'static [&'static str])],
    settings: &'static [(&'static str, &'static str)],
    behavior: Behavior,
    documents: u64,
    /// Requests to the provider before the action.
    min_requests: usize,
    action: StallAction,
    /// Seconds from the action to the call of `why`. Heartbeats are sent every two seconds and expire after ten.
    settle: u64,
}

/// The fault that is injected while tasks run.
#[derive(Clone, Copy, PartialEq)]
enum StallAction {
    Nothing,
    Command(&'static [&'static str]),
    Budget,
    /// The provider recovers.
    Heal,
    /// `kill -STOP` of the first worker.
    Stop,
    /// `kill -9` of the first process of a role.
    Kill(ServiceRole),
    /// A second job, for which `why` is called.
    Second,
    /// The queue of the model lane is purged, then a worker for it starts.
    Purge,
    /// A task that crashes every worker; `why` is called for its document.
    Poison,
    /// The provider becomes unreachable.
    Gone,
    /// A single request gets no reply.
    Straggler,
}

fn latency(millis: u64) -> Behavior {
    Behavior::with_latency(Duration::from_millis(millis))
}

fn stalls() -> Vec<Stall> {
    let stall = |name, cause| Stall {
        name,
        cause,
        services: ALL,
        settings: &[],
        behavior: latency(20_000),
        documents: 2,
        min_requests: 1,
        action: StallAction::Nothing,
        settle: 4,
    };
    let calm = Behavior::default();
    let hanging = Behavior::hanging();
    vec![
        Stall {
            services: &[COORDINATOR, ASSEMBLER],
            min_requests: 0,
            settle: 6,
            ..stall("no worker", "no_worker")
        },
        Stall {
            services: &[COORDINATOR, ASSEMBLER, CPU_WORKER],
            min_requests: 0,
            settle: 10,
            ..stall("no worker for the model", "no_worker")
        },
        Stall {
            services: &[COORDINATOR, WORKER],
            behavior: calm,
            settle: 15,
            ..stall("no assembler", "no_worker")
        },
        Stall {
            services: &[WORKER, ASSEMBLER],
            min_requests: 0,
            ..stall("no coordinator", "no_worker")
        },
        Stall {
            action: StallAction::Kill(ServiceRole::Coordinator),
            settle: 13,
            ..stall("the coordinator was killed", "no_worker")
        },
        Stall {
            settings: &[ONE_CALL],
            behavior: latency(4_000),
            documents: 6,
            action: StallAction::Second,
            settle: 8,
            ..stall("workers busy with another job", "workers_busy")
        },
        Stall {
            settings: &[ONE_CALL],
            behavior: latency(3_000),
            documents: 6,
            settle: 6,
            ..stall("workers busy with the job itself", "workers_busy")
        },
        Stall {
            settings: &[("MODEL__REQUESTS_PER_MINUTE", "6")],
            behavior: latency(50),
            settle: 12,
            ..stall("the request limit", "rate_limit")
        },
        Stall {
            settings: &[("MODEL__TOKENS_PER_MINUTE", "3000")],
            behavior: latency(50),
            settle: 12,
            ..stall("the token limit", "rate_limit")
        },
        Stall {
            behavior: Behavior {
                limits: SimulatedLimits {
                    requests_per_minute: Some(2),
                    ..SimulatedLimits::default()
                },
                ..latency(50)
            },
            min_requests: 3,
            settle: 6,
            ..stall("the provider's own limit", "rate_limit")
        },
        Stall {
            min_requests: 0,
            action: StallAction::Gone,
            settle: 12,
            ..stall("no provider", "breaker_open")
        },
        Stall {
            documents: 6,
            min_requests: 4,
            action: StallAction::Gone,
            settle: 25,
            ..stall("the provider became unreachable", "breaker_open")
        },
        Stall {
            action: StallAction::Command(&["job", "pause"]),
            ..stall("paused by the user", "paused")
        },
        Stall {
            action: StallAction::Budget,
            ..stall("the budget", "budget")
        },
        Stall {
            settings: &[ONE_CALL, ("MODEL__TIMEOUT_SECONDS", "2")],
            behavior: hanging.clone(),
            documents: 1,
            action: StallAction::Heal,
            settle: 5,
            ..stall("one call timed out", "retry")
        },
        Stall {
            settings: &[ONE_CALL, ("MODEL__TIMEOUT_SECONDS", "2")],
            behavior: hanging.clone(),
            documents: 1,
            min_requests: 2,
            action: StallAction::Heal,
            settle: 5,
            ..stall("two calls timed out", "retry")
        },
        // A stopped process sends no heartbeat, so the cause is a lane without workers.
        Stall {
            action: StallAction::Stop,
            settle: 14,
            ..stall("the only worker was stopped", "no_worker")
        },
        Stall {
            action: StallAction::Kill(ServiceRole::Worker),
            settle: 14,
            ..stall("the only worker was killed", "no_worker")
        },
        Stall {
            services: &[COORDINATOR, WORKER, WORKER, ASSEMBLER],
            settings: &[ONE_CALL],
            documents: 4,
            min_requests: 2,
            action: StallAction::Stop,
            settle: 14,
            ..stall("one of two workers was stopped", "silent_worker")
        },
        Stall {
            services: &[COORDINATOR, WORKER, WORKER, ASSEMBLER],
            settings: &[ONE_CALL],
            documents: 4,
            min_requests: 2,
            action: StallAction::Kill(ServiceRole::Worker),
            settle: 14,
            ..stall("one of two workers was killed", "silent_worker")
        },
        Stall {
            settings: &[("MODEL__CONCURRENCY", "4")],
            behavior: latency(100),
            documents: 1,
            min_requests: 30,
            action: StallAction::Straggler,
            ..stall("all but one call is done", "sibling_stage")
        },
        Stall {
            behavior: latency(40_000),
            settle: 14,
            ..stall("a slow provider", "provider_slow")
        },
        Stall {
            behavior: hanging,
            settle: 14,
            ..stall("a provider that hangs", "provider_slow")
        },
        Stall {
            services: &[COORDINATOR, ASSEMBLER],
            documents: 1,
            min_requests: 0,
            action: StallAction::Poison,
            settle: 12,
            ..stall("poison", "dead_letter")
        },
        Stall {
            action: StallAction::Command(&["cancel"]),
            ..stall("cancelled", "cancelled")
        },
        Stall {
            settings: &[("MODEL__CONCURRENCY", "64")],
            behavior: latency(2_000),
            documents: 1,
            settle: 6,
            ..stall("a long task", "long")
        },
        Stall {
            settings: &[("LOCAL__OPEN_DOCUMENTS", "1")],
            documents: 1,
            action: StallAction::Second,
            settle: 6,
            ..stall("the limit of open documents", "queued")
        },
        Stall {
            services: &[COORDINATOR, ASSEMBLER, CPU_WORKER],
            min_requests: 0,
            action: StallAction::Purge,
            settle: 9,
            ..stall("a lost message", "lost_message")
        },
    ]
}

/// Injects the stalls whose names start with one of `prefixes`, or all.
pub async fn show(harness: &DemoHarness, prefixes: &[String]) -> Result<bool> {
    let mut checked = 0;
    let mut wrong = 0;
    let mut slow = Vec::new();
    for stall in stalls() {
        if !(prefixes.is_empty()
            || prefixes
                .iter()
                .any(|name| stall.name.starts_with(name.as_str())))
        {
            continue;
        }
        checked += 1;
        match inject(harness, &stall).await {
            Ok((answer, took)) => {
                let reported_cause = answer["diagnosis"]["cause"].as_str().unwrap_or("nothing");
                let right = reported_cause == stall.cause;
                wrong += usize::from(!right);
                slow.push(took);
                let mark = if right { "ok" } else { "WRONG" };
                println!(
                    "{mark:5} {:<32} {reported_cause} in {} ms",
                    stall.name,
                    took.as_millis()
                );
                println!(
                    "      {}",
                    answer["diagnosis"]["says"].as_str().unwrap_or_default()
                );
                if !right {
                    println!("      expected {}: {answer}", stall.cause);
                }
            }
            Err(error) => {
                wrong += 1;
                println!("WRONG {:<32} {error:#}", stall.name);
            }
        }
    }
    slow.sort();
    let typical = slow.get(slow.len() / 2).copied().unwrap_or_default();
    let most = slow.last().copied();
    let most = most.unwrap_or_default();
    println!(
        "{} of {checked} correct; `why` took {typical:.1?} (median), {most:.1?} at most",
        checked - wrong
    );
    Ok(wrong * ALLOWED_WRONG_ONE_IN <= checked && most <= MAX_ANSWER_TIME)
}

/// Injects a stall and calls `why`.
async fn inject(harness: &DemoHarness, stall: &Stall) -> Result<(Value, Duration)> {
    let mut provider = Some(Provider::start(stall.behavior.clone()).await?);
    let mut deployment =
        harness.deploy(provider.as_ref().context("a provider")?, stall.settings)?;
    deployment.start(stall.services).await?;
    let first = folder(stall.documents, 1)?;
    let second = folder(1, 100)?;
    let job = deployment.submit(first.path(), &[]).await?;
    wait_until(|| {
        provider
            .as_ref()
            .is_some_and(|provider| provider.requests().len() >= stall.min_requests)
    })
    .await?;
    let subject = match stall.action {
        StallAction::Second => deployment.submit(second.path(), &[]).await?,
        StallAction::Poison => {
            poison(&mut deployment, &job).await?;
            "00000.md".into()
        }
        action => {
            perform(action, &mut deployment, &job, &mut provider).await?;
            job
        }
    };
    sleep(Duration::from_secs(stall.settle)).await;
    deployment.run_json(&["why", &subject, "--json"]).await
}

fn folder(documents: u64, seed: u64) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    (0..documents).try_for_each(|n| write(folder.path(), n, seed + n))?;
    Ok(folder)
}

fn write(folder: &Path, n: u64, seed: u64) -> Result<()> {
    Ok(fs::write(
        folder.join(format!("{n:05}.md")),
        markdown(seed, 30).0,
    )?)
}

async fn wait_until(done: impl Fn() -> bool) -> Result<()> {
    let started = Instant::now();
    while !done() {
        anyhow::ensure!(
            started.elapsed() < TIMEOUT,
            "the condition was not met in time"
        );
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn perform(
    action: StallAction,
    deployment: &mut Deployment,
    job: &str,
    provider: &mut Option<Provider>,
) -> Result<()> {
    match action {
        StallAction::Nothing | StallAction::Second | StallAction::Poison => {}
        StallAction::Command(words) => {
            let mut command = words.to_vec();
            command.extend([job, "--json"]);
            deployment.run_json(&command).await?;
        }
        StallAction::Budget => {
            let ports = deployment.ports().await?;
            jobs::pause(&ports, &JobId(job.into()), PauseReason::Budget).await?;
        }
        StallAction::Heal => provider
            .as_ref()
            .context("a provider")?
            .set_behavior(latency(60_000)),
        StallAction::Gone => *provider = None,
        StallAction::Stop => {
            let worker = deployment.fleet.running(ServiceRole::Worker).remove(0);
            let pid = i32::try_from(deployment.fleet.pid(&worker)?)?;
            kill_process(Pid::from_raw(pid).context("a process id")?, Signal::STOP)?;
        }
        StallAction::Kill(role) => {
            let first = deployment.fleet.running(role).remove(0);
            deployment.fleet.kill(&first)?;
        }
        StallAction::Purge => {
            sleep(Duration::from_secs(8)).await;
            let (url, prefix) = deployment.broker();
            let purged = BrokerClient::connect(url, prefix)
                .await?
                .purge("llm.bulk")
                .await?;
            anyhow::ensure!(purged > 0, "no message to purge");
            deployment
                .start(&[(ServiceRole::Worker, &["--lanes", "llm"])])
                .await?;
        }
        StallAction::Straggler => straggler(provider.as_ref().context("a provider")?).await?,
    }
    Ok(())
}

/// Lets the next request hang, and waits until all others are done.
async fn straggler(provider: &Provider) -> Result<()> {
    let request_count = provider.requests().len();
    provider.set_behavior(Behavior::hanging());
    wait_until(|| provider.requests().len() > request_count).await?;
    provider.set_behavior(latency(100));
    let started = Instant::now();
    let mut still = 0;
    let mut before = 0;
    while still < 20 {
        anyhow::ensure!(
            started.elapsed() < TIMEOUT,
            "the other requests do not end: {} in flight",
            provider.in_flight()
        );
        let requests = provider.requests().len();
        still = if requests == before { still + 1 } else { 0 };
        before = requests;
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Expires the leases of a run's tasks as if one worker after another had crashed, then starts a worker.
async fn poison(deployment: &mut Deployment, job: &str) -> Result<()> {
    let ports = deployment.ports().await?;
    let run = awaited_run(deployment, job).await?;
    let grace = RENEWAL_GRACE.as_millis() as Millis;
    let now = ports.env.now_ms();
    for crash in 0..=POISON_CRASHES {
        let holder = format!("ghost-{crash}");
        let ago = (POISON_CRASHES + 1 - crash) * (grace + 10);
        for task in ports.ledger.open_tasks(&run).await? {
            // The first request only extends the lease of the ghost before.
            for at in [now - ago, now - ago + grace] {
                ports
                    .ledger
                    .lease(
                        &run,
                        &task.key,
                        &holder,
                        at,
                        at + 1,
                        DeliveryKind::Redelivered,
                    )
                    .await?;
            }
        }
    }
    deployment.start(&[WORKER]).await.map(drop)
}

/// The unfinished run of a job.
async fn awaited_run(deployment: &Deployment, job: &str) -> Result<RunId> {
    let started = Instant::now();
    while started.elapsed() < TIMEOUT {
        let (answer, _) = deployment.run_json(&["why", job, "--json"]).await?;
        if let Some(run) = answer["run"].as_str() {
            return Ok(RunId(run.into()));
        }
    }
    anyhow::bail!("{job} has no open run")
}
