//! Injects the faults of a cluster run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::Rng;
use rand::rngs::SmallRng;
use stemma_sim::{Behavior, LimitHeaders, Provider, ReplyFault, ReplyFaults, SimulatedLimits};
use tokio::time::sleep;

use super::cluster::{BUDGET_TOKENS, JOB, LATENCY, PROCESSES};
use super::fault_plan::ChaosFault;
use super::run::end_message;
use crate::duplicate_calls::ProcessOutage;
use crate::servers::BROKER_PASSWORD;
use crate::{Proxy, ProxyFaults, ServerKind, ServiceFleet, ServiceRole, TestServers};

/// Share of questions that the failing provider does not answer.
const PROVIDER_FAULT_SHARE: f64 = 0.8;
/// A limit far below what the workers ask for.
const THROTTLED_REQUESTS_PER_MINUTE: u32 = 60;
/// Time limit of a command during the job.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// The other password of Redis and RabbitMQ.
const OTHER_PASSWORD: &str = "rotated";

/// A run under faults.
pub(super) struct ClusterFaultRun<'a> {
    pub(super) servers: &'a TestServers,
    pub(super) provider: &'a Provider,
    pub(super) fleet: ServiceFleet,
    pub(super) broker: Proxy,
    pub(super) redis: Proxy,
    pub(super) s3: Proxy,
    pub(super) outages: Vec<ProcessOutage>,
    pub(super) errors: Vec<String>,
    /// Trees imported so far.
    pub(super) imports: usize,
    pub(super) rng: SmallRng,
}

impl ClusterFaultRun<'_> {
    pub(super) async fn inject(&mut self, fault: ChaosFault) -> Result<()> {
        let servers = self.servers;
        let period = fault.period();
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
            ChaosFault::RefuseS3 => inject(&self.s3, refused(0.5), period).await,
            ChaosFault::SlowS3 => {
                let faults = slowed(0.5, Duration::from_secs(1));
                inject(&self.s3, faults, period).await;
            }
            ChaosFault::ResetS3 => {
                let faults = ProxyFaults {
                    reset: 0.5,
                    ..ProxyFaults::default()
                };
                inject(&self.s3, faults, period).await;
            }
            ChaosFault::RefuseS3ForMinute => {
                inject(&self.s3, refused(1.0), period).await;
            }
            ChaosFault::SlowS3ForMinute => {
                let faults = slowed(1.0, Duration::from_millis(500));
                inject(&self.s3, faults, period).await;
            }
            ChaosFault::FreezeWorker => {
                let worker = self.pick(ServiceRole::Worker)?;
                self.freeze(vec![worker], period).await?;
            }
            ChaosFault::FreezeCoordinator => {
                let coordinator = self.pick(ServiceRole::Coordinator)?;
                self.freeze(vec![coordinator], period).await?;
            }
            ChaosFault::FreezeAllWorkers => {
                let workers = self.fleet.running(ServiceRole::Worker);
                self.freeze(workers, period).await?;
            }
            ChaosFault::PauseRedis => {
                inject(&self.redis, paused(), period).await;
            }
            ChaosFault::DropRedisReplies => {
                drop_replies(&self.redis, period).await;
            }
            ChaosFault::DropS3Replies => {
                drop_replies(&self.s3, period).await;
            }
            ChaosFault::DropBrokerReplies => {
                drop_replies(&self.broker, period).await;
            }
            ChaosFault::DenyS3 => {
                let faults = ProxyFaults {
                    denied: 1.0,
                    ..ProxyFaults::default()
                };
                inject(&self.s3, faults, period).await;
            }
            ChaosFault::ChangeRedisPassword => {
                servers.require_redis_password(OTHER_PASSWORD).await?;
                self.redis.cut();
                sleep(period).await;
                servers.remove_redis_password(OTHER_PASSWORD).await?;
            }
            ChaosFault::ChangeBrokerPassword => {
                servers.change_broker_password(OTHER_PASSWORD).await?;
                self.broker.cut();
                sleep(period).await;
                servers.change_broker_password(BROKER_PASSWORD).await?;
            }
            ChaosFault::BlockPublishers => {
                servers.set_memory_alarm(true).await?;
                sleep(period).await;
                servers.set_memory_alarm(false).await?;
            }
            ChaosFault::FillBrokerDisk => {
                servers.set_disk_alarm(true).await?;
                sleep(period).await;
                servers.set_disk_alarm(false).await?;
            }
            ChaosFault::PauseBroker => {
                inject(&self.broker, paused(), period).await;
                // What was held back belongs to connections that the broker has given up.
                self.broker.cut();
            }
            ChaosFault::AbandonBroker => {
                self.broker.abandon();
            }
            ChaosFault::AbandonRedis => {
                self.redis.abandon();
            }
            ChaosFault::ExhaustBudget => {
                self.set_budget("1").await?;
                sleep(period).await;
                self.set_budget(BUDGET_TOKENS).await?;
            }
            ChaosFault::Housekeeping => self.maintain_store().await?,
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
                sleep(period).await;
            }
            ChaosFault::ThrottleProvider => {
                self.provider.set_behavior(Behavior {
                    limits: SimulatedLimits {
                        requests_per_minute: Some(THROTTLED_REQUESTS_PER_MINUTE),
                        // A reported limit would hold when this one has ended: no reply reports another.
                        headers: LimitHeaders::Pause,
                        ..SimulatedLimits::default()
                    },
                    ..Behavior::with_latency(LATENCY)
                });
                sleep(period).await;
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

    async fn set_budget(&mut self, tokens: &str) -> Result<()> {
        let arguments = ["job", "resume", JOB, "--budget-tokens", tokens];
        let output = self.fleet.run(&arguments, COMMAND_TIMEOUT).await?;
        if !output.status.success() {
            let message = end_message(&output);
            self.errors.push(format!("job resume: {message}"));
        }
        Ok(())
    }

    /// Changes another collection while the job runs, as operators do, and collects the garbage of both.
    async fn maintain_store(&mut self) -> Result<()> {
        self.imports += 1;
        let folder = tempfile::tempdir()?;
        let name = format!("other-{}.json", self.imports);
        let file = folder.path().join(&name);
        std::fs::write(
            &file,
            r#"{"structure": [{"title": "One", "start_index": 1, "end_index": 2}]}"#,
        )?;
        let file = file.to_str().context("folder path is not UTF-8")?;
        let document = name.trim_end_matches(".json");
        for arguments in [
            &["import", file, "--collection", "other"][..],
            &["rm", document, "--yes", "--collection", "other"],
            &["gc", "--yes", "--collection", "other"],
            &["gc", "--yes"],
        ] {
            let output = self.fleet.run(arguments, COMMAND_TIMEOUT).await?;
            if !output.status.success() {
                let command = arguments.join(" ");
                self.errors
                    .push(format!("{command}: {}", end_message(&output)));
            }
        }
        Ok(())
    }

    /// Kills one process of a role, and starts another.
    fn kill(&mut self, role: ServiceRole) -> Result<()> {
        let victim = self.pick(role)?;
        self.outages.push(self.fleet.kill(&victim)?);
        self.fleet.spawn(role, &[]).map(drop)
    }

    async fn freeze(&mut self, processes: Vec<String>, period: Duration) -> Result<()> {
        let from = Instant::now();
        for process in &processes {
            self.fleet.freeze(process)?;
        }
        sleep(period).await;
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
    pub(super) fn replace_crashed(&mut self) -> Result<()> {
        self.errors.extend(self.fleet.take_ended()?);
        for (role, count) in PROCESSES {
            for _ in self.fleet.running(role).len()..count {
                self.fleet.spawn(role, &[])?;
            }
        }
        Ok(())
    }
}

async fn inject(proxy: &Proxy, faults: ProxyFaults, period: Duration) {
    proxy.set_faults(faults);
    sleep(period).await;
    proxy.set_faults(ProxyFaults::default());
}

async fn drop_replies(proxy: &Proxy, period: Duration) {
    let faults = ProxyFaults {
        replies_paused: true,
        ..ProxyFaults::default()
    };
    inject(proxy, faults, period).await;
    // What was held back belongs to connections that are given up.
    proxy.cut();
}

fn paused() -> ProxyFaults {
    ProxyFaults {
        paused: true,
        ..ProxyFaults::default()
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
