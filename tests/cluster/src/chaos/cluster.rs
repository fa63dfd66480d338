//! Chaos on the cluster: all services as processes, real servers, proxies in front of broker and S3.

use std::path::PathBuf;
use std::process::Output;
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
use super::fault_plan::{ChaosFault, fault_plan};
use super::report::{ChaosReport, InjectedFault};
use super::run::{Baseline, LIMIT, end_message, paced_latency, settings, wait_until_busy};
use crate::compare::{bucket_trees, differences};
use crate::duplicate_calls::{CallSummary, KilledProcess, calls_per_digest};
use crate::{
    Proxy, ProxyFaults, ServerKind, ServiceFleet, ServiceRole, TestServers, binary, documents,
};

const BUCKET: &str = "chaos";
/// Processes of each role.
const PROCESSES: [(ServiceRole, usize); 3] = [
    (ServiceRole::Coordinator, 2),
    (ServiceRole::Worker, 4),
    (ServiceRole::Assembler, 2),
];
/// Concurrent model calls of one worker.
const CALLS_PER_WORKER: usize = 24;
/// Generous, because the machine may run other work.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Latency of the provider in the run without faults.
const LATENCY: Duration = Duration::from_millis(100);
/// Duration of an S3 fault.
const S3_FAULT_PERIOD: Duration = Duration::from_secs(2);

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
        all.extend(settings(CALLS_PER_WORKER));
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
        let submit = fleet.launch("cli", &["submit", folder, "--wait", "--json"])?;
        Ok(tokio::spawn(submit.wait_with_output()))
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
        let provider = Provider::start(Behavior::with_latency(paced_latency(
            scenario,
            baseline,
            0,
            Duration::ZERO,
            0,
            slots(),
        )))
        .await?;
        let broker = Proxy::tcp(self.servers.address(ServerKind::RabbitMq)?).await?;
        let s3 = Proxy::http(self.servers.address(ServerKind::S3)?, seed).await?;
        let through = [
            (ServerKind::RabbitMq, broker.address()),
            (ServerKind::S3, s3.address()),
        ];
        let fleet = self.fleet("storm", &through, &provider).await?;
        let started = Instant::now();
        let mut job = self.submit(&fleet)?;
        let mut storm = ClusterFaultRun {
            harness: self,
            fleet,
            broker,
            s3,
            killed: Vec::new(),
            errors: Vec::new(),
            rng: SmallRng::seed_from_u64(seed),
        };
        let mut done = Vec::new();
        for fault in fault_plan(demand.kinds, seed, demand.faults, demand.min_per_kind) {
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
            let latency = paced_latency(
                scenario,
                baseline,
                done.len(),
                started.elapsed(),
                calls_per_digest(&provider.requests()).len(),
                slots(),
            );
            provider.set_behavior(Behavior::with_latency(latency));
            let pause = scenario.fault_interval * storm.rng.random_range(0.5..1.5);
            sleep(Duration::from_secs_f64(pause)).await;
        }
        provider.set_behavior(Behavior::with_latency(LATENCY));
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
                &storm.killed,
                &baseline.needed,
            ),
            errors: storm.errors,
        })
    }
}

/// Model calls that all workers have in flight together.
fn slots() -> usize {
    let workers = PROCESSES
        .iter()
        .filter(|(role, _)| *role == ServiceRole::Worker)
        .map(|(_, count)| count)
        .sum::<usize>();
    workers * CALLS_PER_WORKER
}

/// A run under faults.
struct ClusterFaultRun<'a> {
    harness: &'a ClusterHarness,
    fleet: ServiceFleet,
    broker: Proxy,
    s3: Proxy,
    killed: Vec<KilledProcess>,
    errors: Vec<String>,
    rng: SmallRng,
}

impl ClusterFaultRun<'_> {
    async fn inject(&mut self, fault: ChaosFault) -> Result<()> {
        let servers = &self.harness.servers;
        match fault {
            ChaosFault::KillWorker => self.kill(ServiceRole::Worker)?,
            ChaosFault::KillCoordinator => self.kill(ServiceRole::Coordinator)?,
            ChaosFault::KillAssembler => self.kill(ServiceRole::Assembler)?,
            ChaosFault::RestartBroker => {
                servers.kill(ServerKind::RabbitMq).await?;
                servers.restart(ServerKind::RabbitMq).await?;
            }
            ChaosFault::CutConnections => {
                self.broker.cut();
            }
            ChaosFault::FlushRedis => servers.flush_redis().await?,
            ChaosFault::RestartRedis => {
                servers.kill(ServerKind::Redis).await?;
                servers.restart(ServerKind::Redis).await?;
            }
            ChaosFault::RefuseS3 => {
                self.set_s3_faults(ProxyFaults {
                    refused: 0.5,
                    ..ProxyFaults::default()
                })
                .await;
            }
            ChaosFault::SlowS3 => {
                self.set_s3_faults(ProxyFaults {
                    slow: 0.5,
                    slow_by: Duration::from_secs(1),
                    ..ProxyFaults::default()
                })
                .await;
            }
            ChaosFault::ResetS3 => {
                self.set_s3_faults(ProxyFaults {
                    reset: 0.5,
                    ..ProxyFaults::default()
                })
                .await;
            }
            ChaosFault::LoseAllButS3 => {
                for server in [ServerKind::RabbitMq, ServerKind::Redis] {
                    servers.destroy(server).await?;
                    servers.restart(server).await?;
                }
            }
            ChaosFault::KillIngest => anyhow::bail!("a cluster has no ingest process to kill"),
        }
        Ok(())
    }

    async fn set_s3_faults(&self, faults: ProxyFaults) {
        self.s3.set_faults(faults);
        sleep(S3_FAULT_PERIOD).await;
        self.s3.set_faults(ProxyFaults::default());
    }

    /// Kills one process of a role, and starts another.
    fn kill(&mut self, role: ServiceRole) -> Result<()> {
        let running = self.fleet.running(role);
        let victim = running
            .get(self.rng.random_range(0..running.len().max(1)))
            .context("no process to kill")?;
        self.killed.push(self.fleet.kill(victim)?);
        self.fleet.spawn(role, &[]).map(drop)
    }

    /// A process that ends by itself is a defect. It is replaced, so that the run continues.
    fn replace_crashed(&mut self) -> Result<()> {
        self.errors.extend(self.fleet.take_ended()?);
        for (role, count) in PROCESSES {
            for _ in self.fleet.running(role).len()..count {
                self.fleet.spawn(role, &[])?;
            }
        }
        Ok(())
    }
}
