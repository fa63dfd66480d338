//! Chaos on the cluster: all services as processes, real servers, proxies in front of broker and S3.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stemma_document::Collection;
use stemma_sim::{Behavior, Provider};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Scenario;
use super::cluster_faults::ClusterFaultRun;
use super::fault_plan::fault_plan;
use super::report::{ChaosReport, InjectedFault};
use super::run::{Baseline, LIMIT, Pace, end_message, settings, wait_until_busy};
use crate::compare::{bucket_trees, differences};
use crate::duplicate_calls::{CallSummary, calls_per_digest};
use crate::{Proxy, ServerKind, ServiceFleet, ServiceRole, TestServers, binary, documents};

const BUCKET: &str = "chaos";
/// Name of the job of both runs.
pub(super) const JOB: &str = "filings";
/// Processes of each role.
pub(super) const PROCESSES: [(ServiceRole, usize); 3] = [
    (ServiceRole::Coordinator, 2),
    (ServiceRole::Worker, 4),
    (ServiceRole::Assembler, 2),
];
/// Generous, because the machine may run other work.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Latency of the provider in the run without faults.
pub(super) const LATENCY: Duration = Duration::from_millis(100);
/// Exit code of a command whose job waits at a limit.
const STOPPED: i32 = 4;
/// How often a job that waits is checked again.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// A budget that the job cannot use up, so that every call is reserved and settled.
pub(super) const BUDGET_TOKENS: &str = "1000000000";

/// Runs a scenario on a cluster of its own.
///
/// # Errors
/// If servers cannot be started or the run without faults fails. Failures under faults
/// are in the report.
pub async fn run_cluster(scenario: &Scenario) -> Result<ChaosReport> {
    let harness = ClusterHarness::start(scenario).await?;
    let baseline = harness.run_baseline().await?;
    eprintln!(
        "run without faults: {} model tasks, {} s",
        baseline.tasks,
        baseline.took.as_secs()
    );
    harness.run_with_faults(scenario, &baseline).await
}

/// Servers, proxies and documents of both runs.
struct ClusterHarness {
    servers: TestServers,
    binary: PathBuf,
    filings: TempDir,
    calls_per_worker: usize,
}

impl ClusterHarness {
    async fn start(scenario: &Scenario) -> Result<Self> {
        let binary = binary()?;
        let filings = tempfile::tempdir()?;
        documents::write(
            filings.path(),
            scenario.documents,
            scenario.pages,
            scenario.seed,
        )?;
        let servers = TestServers::start().await?;
        servers.make_bucket(BUCKET).await?;
        Ok(Self {
            servers,
            binary,
            filings,
            calls_per_worker: scenario.calls_per_worker,
        })
    }

    /// A fleet with its own store prefix, queues and keys, ready to work.
    async fn fleet(
        &self,
        name: &str,
        through: &[(ServerKind, std::net::SocketAddr)],
        provider: &Provider,
    ) -> Result<ServiceFleet> {
        let mut all = self.servers.settings(through)?;
        all.extend(settings(self.calls_per_worker));
        let own = [
            ("STEMMA_BROKER__PREFIX", name),
            ("STEMMA_REDIS__PREFIX", name),
        ];
        all.extend(own.map(|(key, value)| (key.to_string(), value.to_string())));
        let mut fleet =
            ServiceFleet::new(self.binary.clone(), &format!("s3://{BUCKET}/{name}"), all)?;
        fleet.use_provider(provider.address());
        for (role, count) in PROCESSES {
            for _ in 0..count {
                fleet.spawn(role, &[])?;
            }
        }
        for (role, _) in PROCESSES {
            for process in fleet.running(role) {
                fleet.wait_until_ready(&process, READY_TIMEOUT).await?;
            }
        }
        Ok(fleet)
    }

    fn submit(&self, fleet: &ServiceFleet) -> Result<JoinHandle<std::io::Result<Output>>> {
        let folder = self
            .filings
            .path()
            .to_str()
            .context("folder path is not UTF-8")?;
        let submit = fleet.launch(
            "cli",
            &[
                "submit",
                folder,
                "--wait",
                "--json",
                "--job",
                JOB,
                "--budget-tokens",
                BUDGET_TOKENS,
            ],
        )?;
        let watch = fleet.command("cli", &["watch", JOB, "--json"]);
        let mut watch = tokio::process::Command::from(watch);
        watch.kill_on_drop(true);
        Ok(tokio::spawn(async move {
            let mut output = submit.wait_with_output().await?;
            // Who follows a job stops when it is paused for its budget.
            while output.status.code() == Some(STOPPED) {
                sleep(WATCH_INTERVAL).await;
                output = watch.output().await?;
            }
            Ok(output)
        }))
    }

    async fn trees(&self, name: &str) -> Result<std::collections::BTreeMap<String, bytes::Bytes>> {
        bucket_trees(&self.servers.s3(), BUCKET, name, &Collection::default()).await
    }

    async fn run_baseline(&self) -> Result<Baseline> {
        let provider = Provider::start(Behavior::with_latency(LATENCY)).await?;
        let mut fleet = self.fleet("baseline", &[], &provider).await?;
        let started = Instant::now();
        let output = timeout(LIMIT, self.submit(&fleet)?)
            .await
            .context("the run without faults did not end")???;
        ensure!(
            output.status.success(),
            "the run without faults failed: {}",
            end_message(&output)
        );
        let crashed = fleet.take_ended()?;
        ensure!(
            crashed.is_empty(),
            "in the run without faults {}",
            crashed.join("\n")
        );
        let took = started.elapsed();
        Ok(Baseline {
            needed: calls_per_digest(&provider.requests()),
            tasks: provider.requests().len(),
            took,
            trees: self.trees("baseline").await?,
        })
    }

    async fn run_with_faults(
        &self,
        scenario: &Scenario,
        baseline: &Baseline,
    ) -> Result<ChaosReport> {
        let Scenario {
            seed,
            requirements: demand,
            ..
        } = *scenario;
        let faults = fault_plan(demand.kinds, seed, demand.faults, demand.min_per_kind);
        let pace = Pace {
            faults: &faults,
            interval: scenario.fault_interval,
            work: baseline.needed.len(),
            slots: slots(scenario.calls_per_worker),
        };
        let latency = pace.latency(0, Duration::ZERO, 0);
        let provider = Provider::start(Behavior::with_latency(latency)).await?;
        provider.limit_replies(pace.max_replies());
        let broker = Proxy::tcp(self.servers.address(ServerKind::RabbitMq)?).await?;
        let redis = Proxy::tcp(self.servers.address(ServerKind::Redis)?).await?;
        let s3 = Proxy::http(self.servers.address(ServerKind::S3)?, seed).await?;
        let through = [
            (ServerKind::RabbitMq, broker.address()),
            (ServerKind::Redis, redis.address()),
            (ServerKind::S3, s3.address()),
        ];
        let load = scenario.busy.then(CpuLoad::start);
        let fleet = self.fleet("storm", &through, &provider).await?;
        let started = Instant::now();
        let mut job = self.submit(&fleet)?;
        let mut storm = ClusterFaultRun {
            servers: &self.servers,
            provider: &provider,
            fleet,
            broker,
            redis,
            s3,
            outages: Vec::new(),
            errors: Vec::new(),
            imports: 0,
            rng: SmallRng::seed_from_u64(seed),
        };
        let mut done = Vec::new();
        for fault in faults.iter().copied() {
            if !wait_until_busy(&provider, demand.in_flight, &job).await {
                break;
            }
            done.push(InjectedFault {
                fault,
                in_flight: provider.in_flight(),
            });
            eprintln!(
                "{:>6.1} s  {:>3}  {} ({} in flight)",
                started.elapsed().as_secs_f64(),
                done.len(),
                fault.name(),
                provider.in_flight()
            );
            storm.inject(fault).await?;
            storm.replace_crashed()?;
            let answered = calls_per_digest(&provider.requests()).len();
            let latency = pace.latency(done.len(), started.elapsed(), answered);
            provider.set_behavior(Behavior::with_latency(latency));
            let pause = scenario.fault_interval * storm.rng.random_range(0.5..1.5);
            sleep(Duration::from_secs_f64(pause)).await;
        }
        provider.set_behavior(Behavior::with_latency(LATENCY));
        provider.limit_replies(usize::MAX);
        match timeout(LIMIT, &mut job).await {
            Ok(output) => {
                let output = output??;
                if !output.status.success() {
                    storm
                        .errors
                        .push(format!("the job failed: {}", end_message(&output)));
                }
            }
            Err(_) => {
                job.abort();
                storm.errors.push(format!(
                    "the job had not ended {} s after the last fault",
                    LIMIT.as_secs()
                ));
            }
        }
        drop(load);
        storm.replace_crashed()?;
        let took = started.elapsed();
        Ok(ChaosReport {
            seed,
            requirements: demand,
            documents: usize::try_from(scenario.documents)?,
            baseline: (baseline.tasks, baseline.took),
            took,
            injected: done,
            trees: baseline.trees.len(),
            differences: differences(&baseline.trees, &self.trees("storm").await?),
            calls: CallSummary::from_requests(
                &provider.requests(),
                &storm.outages,
                &baseline.needed,
            ),
            errors: storm.errors,
        })
    }
}

/// Model calls that all workers have in flight together.
fn slots(calls_per_worker: usize) -> usize {
    let workers = PROCESSES
        .iter()
        .filter(|(role, _)| *role == ServiceRole::Worker)
        .map(|(_, count)| count)
        .sum::<usize>();
    workers * calls_per_worker
}

/// Threads that keep every core busy, like other work on the machine.
struct CpuLoad(Arc<AtomicBool>);

impl CpuLoad {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
