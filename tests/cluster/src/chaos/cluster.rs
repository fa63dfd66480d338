//! Chaos over the cluster: all services as processes, real servers, proxies before broker and S3.

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
use super::plan::{Fault, plan};
use super::report::{Done, Report};
use super::run::{LIMIT, Peace, calmer, end, settings, until_busy};
use crate::asked::{Asked, Death, counts};
use crate::compare::{bucket_trees, differences};
use crate::{Fleet, Proxy, Role, Server, Servers, Trouble, binary, documents};

const BUCKET: &str = "chaos";
/// The processes of each role.
const PROCESSES: [(Role, usize); 3] = [
    (Role::Coordinator, 2),
    (Role::Worker, 4),
    (Role::Assembler, 2),
];
/// Model calls one worker has in flight.
const CALLS: usize = 24;
/// How long a process may take until it is ready, on a machine that does much else.
const READY: Duration = Duration::from_secs(120);
/// Latency of the provider in the quiet run.
const LATENCY: Duration = Duration::from_millis(100);
/// How long S3 stays in trouble.
const TROUBLED: Duration = Duration::from_secs(2);

/// Runs a scenario on a cluster of its own.
///
/// # Errors
/// When the ground gives way: servers that cannot be had, a quiet run that does not work. What the faults did wrong
/// stands in the report.
pub async fn cluster(scenario: &Scenario) -> Result<Report> {
    let ground = Ground::make(scenario).await?;
    let peace = ground.peace().await?;
    eprintln!(
        "quiet run: {} model tasks, {} s",
        peace.tasks,
        peace.took.as_secs()
    );
    ground.storm(scenario, &peace).await
}

/// What both runs stand on.
struct Ground {
    servers: Servers,
    binary: PathBuf,
    filings: TempDir,
}

impl Ground {
    async fn make(scenario: &Scenario) -> Result<Self> {
        let binary = binary()?;
        let filings = tempfile::tempdir()?;
        documents::write(
            filings.path(),
            scenario.documents,
            scenario.pages,
            scenario.seed,
        )?;
        let servers = Servers::start().await?;
        servers.make_bucket(BUCKET).await?;
        Ok(Self {
            servers,
            binary,
            filings,
        })
    }

    /// A fleet on a store, queues and keys of this name, with everything ready.
    async fn fleet(
        &self,
        name: &str,
        through: &[(Server, std::net::SocketAddr)],
        provider: &Provider,
    ) -> Result<Fleet> {
        let mut all = self.servers.settings(through)?;
        all.extend(settings(CALLS));
        let own = [
            ("STEMMA_BROKER__PREFIX", name),
            ("STEMMA_REDIS__PREFIX", name),
        ];
        all.extend(own.map(|(key, value)| (key.to_string(), value.to_string())));
        let mut fleet = Fleet::new(self.binary.clone(), &format!("s3://{BUCKET}/{name}"), all)?;
        fleet.ask(provider.address());
        for (role, count) in PROCESSES {
            for _ in 0..count {
                fleet.spawn(role, &[])?;
            }
        }
        for (role, _) in PROCESSES {
            for process in fleet.running(role) {
                fleet.ready(&process, READY).await?;
            }
        }
        Ok(fleet)
    }

    fn submit(&self, fleet: &Fleet) -> Result<JoinHandle<std::io::Result<Output>>> {
        let folder = self
            .filings
            .path()
            .to_str()
            .context("a folder that can be written down")?;
        let submit = fleet.launch("cli", &["submit", folder, "--wait", "--json"])?;
        Ok(tokio::spawn(submit.wait_with_output()))
    }

    async fn trees(&self, name: &str) -> Result<std::collections::BTreeMap<String, bytes::Bytes>> {
        bucket_trees(&self.servers.s3(), BUCKET, name, &Collection::default()).await
    }

    async fn peace(&self) -> Result<Peace> {
        let provider = Provider::start(Behavior::after(LATENCY)).await?;
        let mut fleet = self.fleet("quiet", &[], &provider).await?;
        let begun = Instant::now();
        let output = timeout(LIMIT, self.submit(&fleet)?)
            .await
            .context("the quiet run does not end")???;
        ensure!(
            output.status.success(),
            "the quiet run ended badly: {}",
            end(&output)
        );
        let fallen = fleet.ended()?;
        ensure!(fallen.is_empty(), "in the quiet run {}", fallen.join("\n"));
        let took = begun.elapsed();
        Ok(Peace {
            needed: counts(&provider.asks()),
            tasks: provider.asks().len(),
            took,
            trees: self.trees("quiet").await?,
        })
    }

    async fn storm(&self, scenario: &Scenario, peace: &Peace) -> Result<Report> {
        let Scenario { seed, demand, .. } = *scenario;
        let provider = Provider::start(Behavior::after(calmer(
            scenario,
            peace,
            0,
            Duration::ZERO,
            0,
            slots(),
        )))
        .await?;
        let broker = Proxy::tcp(self.servers.address(Server::RabbitMq)?).await?;
        let s3 = Proxy::http(self.servers.address(Server::S3)?, seed).await?;
        let through = [
            (Server::RabbitMq, broker.address()),
            (Server::S3, s3.address()),
        ];
        let fleet = self.fleet("storm", &through, &provider).await?;
        let begun = Instant::now();
        let mut job = self.submit(&fleet)?;
        let mut storm = Storm {
            ground: self,
            fleet,
            broker,
            s3,
            deaths: Vec::new(),
            wrong: Vec::new(),
            dice: SmallRng::seed_from_u64(seed),
        };
        let mut done = Vec::new();
        for fault in plan(demand.kinds, seed, demand.faults, demand.each) {
            if !until_busy(&provider, demand.in_flight, &job).await {
                break;
            }
            done.push(Done {
                fault,
                in_flight: provider.in_flight(),
            });
            eprintln!(
                "{:>6.1} s  {:>3}  {} ({} in flight)",
                begun.elapsed().as_secs_f64(),
                done.len(),
                fault.name(),
                provider.in_flight()
            );
            storm.strike(fault).await?;
            storm.replace_fallen()?;
            let latency = calmer(
                scenario,
                peace,
                done.len(),
                begun.elapsed(),
                counts(&provider.asks()).len(),
                slots(),
            );
            provider.behave(Behavior::after(latency));
            let pause = scenario.pace * storm.dice.random_range(0.5..1.5);
            sleep(Duration::from_secs_f64(pause)).await;
        }
        provider.behave(Behavior::after(LATENCY));
        match timeout(LIMIT, &mut job).await {
            Ok(output) => {
                let output = output??;
                if !output.status.success() {
                    storm
                        .wrong
                        .push(format!("the job ended badly: {}", end(&output)));
                }
            }
            Err(_) => {
                job.abort();
                storm.wrong.push(format!(
                    "the job had not ended {} s after the last fault",
                    LIMIT.as_secs()
                ));
            }
        }
        storm.replace_fallen()?;
        let took = begun.elapsed();
        Ok(Report {
            seed,
            demand,
            documents: usize::try_from(scenario.documents)?,
            quiet: (peace.tasks, peace.took),
            took,
            done,
            trees: peace.trees.len(),
            differences: differences(&peace.trees, &self.trees("storm").await?),
            asked: Asked::judge(&provider.asks(), &storm.deaths, &peace.needed),
            wrong: storm.wrong,
        })
    }
}

/// Model calls that all workers have in flight together.
fn slots() -> usize {
    let workers = PROCESSES
        .iter()
        .filter(|(role, _)| *role == Role::Worker)
        .map(|(_, count)| count)
        .sum::<usize>();
    workers * CALLS
}

/// A run under faults.
struct Storm<'a> {
    ground: &'a Ground,
    fleet: Fleet,
    broker: Proxy,
    s3: Proxy,
    deaths: Vec<Death>,
    wrong: Vec<String>,
    dice: SmallRng,
}

impl Storm<'_> {
    async fn strike(&mut self, fault: Fault) -> Result<()> {
        let servers = &self.ground.servers;
        match fault {
            Fault::KillWorker => self.kill(Role::Worker)?,
            Fault::KillCoordinator => self.kill(Role::Coordinator)?,
            Fault::KillAssembler => self.kill(Role::Assembler)?,
            Fault::RestartBroker => {
                servers.kill(Server::RabbitMq).await?;
                servers.restart(Server::RabbitMq).await?;
            }
            Fault::CutConnections => {
                self.broker.cut();
            }
            Fault::FlushRedis => servers.flush_redis().await?,
            Fault::RestartRedis => {
                servers.kill(Server::Redis).await?;
                servers.restart(Server::Redis).await?;
            }
            Fault::RefuseS3 => {
                self.trouble(Trouble {
                    refused: 0.5,
                    ..Trouble::default()
                })
                .await
            }
            Fault::SlowS3 => {
                self.trouble(Trouble {
                    slow: 0.5,
                    slowness: Duration::from_secs(1),
                    ..Trouble::default()
                })
                .await;
            }
            Fault::ResetS3 => {
                self.trouble(Trouble {
                    reset: 0.5,
                    ..Trouble::default()
                })
                .await
            }
            Fault::LoseAllButS3 => {
                for server in [Server::RabbitMq, Server::Redis] {
                    servers.lose(server).await?;
                    servers.restart(server).await?;
                }
            }
            Fault::KillIngest => anyhow::bail!("a cluster has no ingest to kill"),
        }
        Ok(())
    }

    async fn trouble(&self, trouble: Trouble) {
        self.s3.make(trouble);
        sleep(TROUBLED).await;
        self.s3.make(Trouble::default());
    }

    /// Kills one process of a role, and starts another.
    fn kill(&mut self, role: Role) -> Result<()> {
        let running = self.fleet.running(role);
        let victim = running
            .get(self.dice.random_range(0..running.len().max(1)))
            .context("nobody to kill")?;
        self.deaths.push(self.fleet.kill(victim)?);
        self.fleet.spawn(role, &[]).map(drop)
    }

    /// A process that ends by itself is a defect; the run goes on without it being felt.
    fn replace_fallen(&mut self) -> Result<()> {
        self.wrong.extend(self.fleet.ended()?);
        for (role, count) in PROCESSES {
            for _ in self.fleet.running(role).len()..count {
                self.fleet.spawn(role, &[])?;
            }
        }
        Ok(())
    }
}
