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
use stemma_sim::{Behavior, Provider, ReplyFault, ReplyFaults};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Scenario;
use super::fault_plan::{ChaosFault, fault_plan};
use super::report::{ChaosReport, InjectedFault};
use super::run::{Baseline, LIMIT, end_message, paced_latency, settings, wait_until_busy};
use crate::compare::{bucket_trees, differences};
use crate::duplicate_calls::{CallSummary, ProcessOutage, calls_per_digest};
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
/// Duration of an S3 fault that retries within one call outlast.
const S3_FAULT_PERIOD: Duration = Duration::from_secs(2);
/// Duration of an S3 fault that they do not.
const LASTING_S3_FAULT_PERIOD: Duration = Duration::from_secs(60);
/// How long frozen processes stand still: longer than a lease with its grace.
const FREEZE_PERIOD: Duration = Duration::from_secs(45);
/// How long Redis is silent: shorter than a lease, longer than the timeout of a call.
const SILENCE_PERIOD: Duration = Duration::from_secs(20);
/// Duration of a wrong password, and of an alarm of the broker.
const REFUSAL_PERIOD: Duration = Duration::from_secs(30);
/// How long the provider fails: shorter than the attempts of a call last together.
const PROVIDER_FAULT_PERIOD: Duration = Duration::from_secs(20);
/// Share of questions that the failing provider does not answer.
const PROVIDER_FAULT_SHARE: f64 = 0.8;
/// The other password of Redis.
const OTHER_PASSWORD: &str = "rotated";

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
            harness: self,
            provider: &provider,
            fleet,
            broker,
            redis,
            s3,
            outages: Vec::new(),
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
    provider: &'a Provider,
    fleet: ServiceFleet,
    broker: Proxy,
    redis: Proxy,
    s3: Proxy,
    outages: Vec<ProcessOutage>,
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
            ChaosFault::RefuseS3 => self.inject_s3(refused(0.5), S3_FAULT_PERIOD).await,
            ChaosFault::SlowS3 => {
                let faults = slowed(0.5, Duration::from_secs(1));
                self.inject_s3(faults, S3_FAULT_PERIOD).await;
            }
            ChaosFault::ResetS3 => {
                let faults = ProxyFaults {
                    reset: 0.5,
                    ..ProxyFaults::default()
                };
                self.inject_s3(faults, S3_FAULT_PERIOD).await;
            }
            ChaosFault::RefuseS3ForMinute => {
                self.inject_s3(refused(1.0), LASTING_S3_FAULT_PERIOD).await;
            }
            ChaosFault::SlowS3ForMinute => {
                let faults = slowed(1.0, Duration::from_millis(500));
                self.inject_s3(faults, LASTING_S3_FAULT_PERIOD).await;
            }
            ChaosFault::FreezeWorker => {
                let worker = self.pick(ServiceRole::Worker)?;
                self.freeze(vec![worker]).await?;
            }
            ChaosFault::FreezeCoordinator => {
                let coordinator = self.pick(ServiceRole::Coordinator)?;
                self.freeze(vec![coordinator]).await?;
            }
            ChaosFault::FreezeAllWorkers => {
                let workers = self.fleet.running(ServiceRole::Worker);
                self.freeze(workers).await?;
            }
            ChaosFault::PauseRedis => {
                self.inject_redis(ProxyFaults {
                    paused: true,
                    ..ProxyFaults::default()
                })
                .await;
            }
            ChaosFault::DropRedisReplies => {
                self.inject_redis(ProxyFaults {
                    replies_paused: true,
                    ..ProxyFaults::default()
                })
                .await;
                // What was held back belongs to connections that are given up.
                self.redis.cut();
            }
            ChaosFault::ChangeRedisPassword => {
                servers.require_redis_password(OTHER_PASSWORD).await?;
                self.redis.cut();
                sleep(REFUSAL_PERIOD).await;
                servers.remove_redis_password(OTHER_PASSWORD).await?;
            }
            ChaosFault::BlockPublishers => {
                servers.set_memory_alarm(true).await?;
                sleep(REFUSAL_PERIOD).await;
                servers.set_memory_alarm(false).await?;
            }
            ChaosFault::FailProvider => {
                self.provider.set_behavior(Behavior {
                    faults: ReplyFaults {
                        always: PROVIDER_FAULT_SHARE,
                        kinds: vec![ReplyFault::Error],
                        ..ReplyFaults::default()
                    },
                    ..Behavior::with_latency(LATENCY)
                });
                // The caller sets the next behavior.
                sleep(PROVIDER_FAULT_PERIOD).await;
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

    async fn inject_s3(&self, faults: ProxyFaults, period: Duration) {
        self.s3.set_faults(faults);
        sleep(period).await;
        self.s3.set_faults(ProxyFaults::default());
    }

    async fn inject_redis(&self, faults: ProxyFaults) {
        self.redis.set_faults(faults);
        sleep(SILENCE_PERIOD).await;
        self.redis.set_faults(ProxyFaults::default());
    }

    /// Kills one process of a role, and starts another.
    fn kill(&mut self, role: ServiceRole) -> Result<()> {
        let victim = self.pick(role)?;
        self.outages.push(self.fleet.kill(&victim)?);
        self.fleet.spawn(role, &[]).map(drop)
    }

    async fn freeze(&mut self, processes: Vec<String>) -> Result<()> {
        let from = Instant::now();
        for process in &processes {
            self.fleet.freeze(process)?;
        }
        sleep(FREEZE_PERIOD).await;
        for process in processes {
            self.fleet.thaw(&process)?;
            self.outages.push(ProcessOutage {
                process,
                from,
                until: Some(Instant::now()),
            });
        }
        Ok(())
    }

    /// A process of a role at random.
    fn pick(&mut self, role: ServiceRole) -> Result<String> {
        let mut running = self.fleet.running(role);
        ensure!(!running.is_empty(), "no {} runs", role.command());
        Ok(running.swap_remove(self.rng.random_range(0..running.len())))
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

fn refused(share: f64) -> ProxyFaults {
    ProxyFaults {
        refused: share,
        ..ProxyFaults::default()
    }
}

fn slowed(share: f64, by: Duration) -> ProxyFaults {
    ProxyFaults {
        slow: share,
        slow_by: by,
        ..ProxyFaults::default()
    }
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
