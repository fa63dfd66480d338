//! Servers, a binary and isolated fleets for the demonstrations.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use stemma_adapters::rabbit::{RabbitQueue, RabbitSettings};
use stemma_adapters::redis::{RedisClient, RedisLedger, RedisLimiter, RedisSettings};
use stemma_adapters::s3::{S3, S3Blobs, S3Credentials, S3Settings};
use stemma_cluster::{ServiceFleet, ServiceRole, TestServers, binary};
use stemma_engine::Ports;
use stemma_sim::Provider;
use stemma_store::Env;

const BUCKET: &str = "show";
/// Time limit for a process to become ready, and for a command.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub struct DemoHarness {
    servers: TestServers,
    binary: PathBuf,
    deployments: AtomicUsize,
}

/// A fleet with its own store, queues and keys.
pub struct Deployment {
    pub fleet: ServiceFleet,
    name: String,
    settings: Vec<(String, String)>,
}

impl DemoHarness {
    /// Uses the servers that the environment names, or starts new ones.
    pub async fn start() -> Result<Self> {
        let servers = TestServers::from_env_or_start().await?;
        servers.make_bucket(BUCKET).await?;
        Ok(Self {
            servers,
            binary: binary()?,
            deployments: AtomicUsize::new(0),
        })
    }

    /// A deployment without processes whose steps all use the simulated model. Names in `settings` have no `STEMMA_`.
    pub fn deploy(&self, provider: &Provider, settings: &[(&str, &str)]) -> Result<Deployment> {
        let name = format!(
            "show{}-{}",
            std::process::id(),
            self.deployments.fetch_add(1, Ordering::Relaxed)
        );
        let mut all = self.servers.settings(&[])?;
        let own = [
            ("STRUCTURE", "llm"),
            ("MODEL__NAME", "echo"),
            ("MODEL__API_KEY", "none"),
            ("LOCAL__CONCURRENCY", "2"),
            ("BROKER__PREFIX", &name),
            ("REDIS__PREFIX", &name),
        ];
        all.extend(
            own.iter()
                .chain(settings)
                .map(|(key, value)| (format!("STEMMA_{key}"), (*value).to_string())),
        );
        let mut fleet = ServiceFleet::new(
            self.binary.clone(),
            &format!("s3://{BUCKET}/{name}"),
            all.clone(),
        )?;
        fleet.use_provider(provider.address());
        Ok(Deployment {
            fleet,
            name,
            settings: all,
        })
    }
}

impl Deployment {
    /// Starts processes and waits until all are ready.
    pub async fn start(&mut self, services: &[(ServiceRole, &[&str])]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (role, arguments) in services {
            names.push(self.fleet.spawn(*role, arguments)?);
        }
        for name in &names {
            self.fleet.wait_until_ready(name, TIMEOUT).await?;
        }
        Ok(names)
    }

    /// Submits a folder and returns the job.
    pub async fn submit(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        let folder = folder.to_str().context("folder path is not UTF-8")?;
        let mut command = vec!["submit", folder, "--json"];
        command.extend(arguments);
        let (value, _) = self.run_json(&command).await?;
        Ok(value["job"]
            .as_str()
            .with_context(|| format!("no job in {value}"))?
            .to_string())
    }

    /// The JSON output of a command, and its duration.
    pub async fn run_json(&self, command: &[&str]) -> Result<(Value, Duration)> {
        let started = Instant::now();
        let output = self.fleet.run(command, TIMEOUT).await?;
        let took = started.elapsed();
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.stdout.is_empty(),
            "stemma {} printed no JSON: {words}",
            command.join(" ")
        );
        Ok((serde_json::from_slice(&output.stdout)?, took))
    }

    /// The output of `status` for a job.
    pub async fn status(&self, job: &str) -> Result<Value> {
        Ok(self.run_json(&["status", job, "--json"]).await?.0["jobs"][0].take())
    }

    /// Waits until a job has ended and returns its last status.
    pub async fn wait_for_end(&self, job: &str, limit: Duration) -> Result<Value> {
        let started = Instant::now();
        loop {
            let status = self.status(job).await?;
            if !status["ended_ms"].is_null() {
                return Ok(status);
            }
            ensure!(
                started.elapsed() < limit,
                "{job} has not ended after {limit:?}: {status}"
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// The ports of the deployment, for actions without a command.
    pub async fn ports(&self) -> Result<Ports> {
        let env = Env::system();
        let of = |key: &str| self.setting(key);
        let redis = RedisSettings {
            prefix: self.name.clone(),
            ..RedisSettings::new(of("REDIS__URL").into())
        };
        let redis = RedisClient::open(&redis)?;
        let rabbit = RabbitSettings {
            url: of("BROKER__URL").into(),
            prefix: self.name.clone(),
            name: "show".into(),
        };
        let s3 = S3Settings {
            endpoint: Some(of("S3__ENDPOINT").into()),
            access: S3Credentials::Key {
                id: of("S3__ACCESS_KEY").into(),
                secret: of("S3__SECRET_KEY").into(),
            },
            force_path_style: true,
            ..S3Settings::default()
        };
        let ports = Ports::new(
            &env,
            Arc::new(RabbitQueue::connect(&rabbit, &env).await?),
            Arc::new(RedisLedger::new(redis.clone())),
            Arc::new(S3Blobs::new(S3::connect(&s3).await?, BUCKET, &self.name)?),
            Arc::new(RedisLimiter::new(redis, env.clone())),
        );
        Ok(ports)
    }

    /// The URL of the broker, and the prefix of its queues and exchanges.
    pub fn broker(&self) -> (&str, &str) {
        (self.setting("BROKER__URL"), &self.name)
    }

    fn setting(&self, key: &str) -> &str {
        let own = self
            .settings
            .iter()
            .find(|(name, _)| name.strip_prefix("STEMMA_") == Some(key));
        own.map_or("", |(_, value)| value.as_str())
    }
}
