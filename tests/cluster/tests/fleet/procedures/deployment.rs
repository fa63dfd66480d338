//! A fleet over the shared servers, with names of its own, that works on generated filings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use bytes::Bytes;
use stemma_cluster::compare::bucket_trees;
use stemma_cluster::{Login, ServiceFleet, ServiceRole, TestServers, documents};
use stemma_document::Collection;
use stemma_sim::{Behavior, Provider};
use tempfile::TempDir;

const REQUEST: &str = "STEMMA_TEST_PROCEDURES";
pub const BUCKET: &str = "procedures";
pub const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of a drain, beyond the grace period.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Grace period of the processes of a fleet: longer than a call.
const GRACE: Duration = Duration::from_secs(20);
/// Time limit of a job. The machine may do other work.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(600);
/// Latency of the provider.
pub const QUICK: Duration = Duration::from_millis(50);
/// Latency while something is done to the fleet, so that the job outlasts it.
pub const SLOW: Duration = Duration::from_secs(4);
/// One process of each kind.
pub const SINGLE: [(ServiceRole, usize); 3] = [
    (ServiceRole::Worker, 1),
    (ServiceRole::Assembler, 1),
    (ServiceRole::Coordinator, 1),
];

pub type Trees = BTreeMap<String, Bytes>;

pub struct Deployment {
    pub fleet: ServiceFleet,
    pub name: String,
    grace: Duration,
    s3: Client,
}

/// Whether procedures are to be rehearsed: each takes minutes.
pub fn is_requested() -> bool {
    let requested = std::env::var(REQUEST).is_ok_and(|value| value == "1");
    if !requested {
        println!("skipped: {REQUEST}=1 rehearses procedures, which takes minutes");
    }
    requested
}

/// The shared servers, if procedures are to be rehearsed.
pub fn servers() -> Option<TestServers> {
    is_requested().then(TestServers::from_env)?.unwrap()
}

/// A folder of generated filings.
pub fn filings(count: u64, pages: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    documents::write(folder.path(), count, pages, 1).unwrap();
    folder
}

pub async fn provider(latency: Duration) -> Provider {
    Provider::start(Behavior::with_latency(latency))
        .await
        .unwrap()
}

impl Deployment {
    /// A fleet without processes. `name` is that of its store, queues and keys.
    pub async fn new(
        servers: &TestServers,
        name: &str,
        binary: PathBuf,
        provider: &Provider,
    ) -> Self {
        servers.make_bucket(BUCKET).await.unwrap();
        // Unique, because an earlier run may have left data on the same servers.
        let name = format!("{name}-{}", std::process::id());
        let mut settings = servers.settings(&[]).unwrap();
        let own = [
            ("BROKER__PREFIX", name.as_str()),
            ("REDIS__PREFIX", &name),
            ("STRUCTURE", "llm"),
            ("MODEL__NAME", "echo"),
            ("MODEL__API_KEY", "none"),
            ("MODEL__CONCURRENCY", "4"),
            ("LOCAL__CONCURRENCY", "1"),
        ];
        settings.extend(own.map(|(key, value)| (format!("STEMMA_{key}"), value.to_string())));
        let mut fleet =
            ServiceFleet::new(binary, &format!("s3://{BUCKET}/{name}"), settings).unwrap();
        fleet.use_provider(provider.address());
        let mut deployment = Self {
            fleet,
            name,
            grace: GRACE,
            s3: servers.s3(),
        };
        deployment.set_grace(GRACE);
        deployment
    }

    /// Sets the grace period of processes started from now on.
    pub fn set_grace(&mut self, grace: Duration) {
        let seconds = grace.as_secs().to_string();
        self.fleet.set("STEMMA_LOCAL__GRACE_SECONDS", &seconds);
        self.grace = grace;
    }

    /// Sets the login and the key of the provider of processes started from now on.
    pub fn use_login(&mut self, servers: &TestServers, login: &Login, provider_key: &str) {
        for (name, value) in servers.login_settings(login) {
            self.fleet.set(&name, &value);
        }
        self.fleet.set("STEMMA_MODEL__API_KEY", provider_key);
    }

    /// Starts processes and waits until they are ready.
    pub async fn spawn(&mut self, processes: &[(ServiceRole, usize)]) {
        let mut started = Vec::new();
        for (role, count) in processes {
            for _ in 0..*count {
                started.push(self.fleet.spawn(*role, &[]).unwrap());
            }
        }
        for process in started {
            let ready = self.fleet.wait_until_ready(&process, READY_TIMEOUT);
            ready.await.unwrap();
        }
    }

    /// Stops a process as an orchestrator does.
    pub async fn terminate(&mut self, process: &str) {
        let limit = self.grace + DRAIN_TIMEOUT;
        let ended = self.fleet.terminate(process, limit).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{process} did not drain");
    }

    /// Replaces all processes of a role, one after the other, as a rolling update does.
    pub async fn replace(&mut self, role: ServiceRole) {
        for old in self.fleet.running(role) {
            self.spawn(&[(role, 1)]).await;
            self.terminate(&old).await;
        }
    }

    /// Submits a folder and does something with the fleet meanwhile. Returns the trees of the job, which must succeed.
    pub async fn run(&mut self, folder: &Path, meanwhile: impl AsyncFnOnce(&mut Self)) -> Trees {
        let submit = ["submit", folder.to_str().unwrap(), "--wait", "--json"];
        let submit = self.fleet.launch("cli", &submit).unwrap();
        let job = tokio::spawn(submit.wait_with_output());
        meanwhile(self).await;
        let output = tokio::time::timeout(JOB_TIMEOUT, job).await.unwrap();
        let output = output.unwrap().unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{report}");
        assert_eq!(self.fleet.take_ended().unwrap(), [""; 0]);
        self.trees().await
    }

    pub async fn trees(&self) -> Trees {
        let collection = Collection::default();
        let trees = bucket_trees(&self.s3, BUCKET, &self.name, &collection).await;
        trees.unwrap()
    }
}

/// The trees of an undisturbed run.
pub async fn undisturbed(
    servers: &TestServers,
    name: &str,
    binary: PathBuf,
    folder: &Path,
) -> Trees {
    let quick = provider(QUICK).await;
    undisturbed_with(servers, name, binary, folder, &quick).await
}

/// The same with a provider that tells which calls were needed.
pub async fn undisturbed_with(
    servers: &TestServers,
    name: &str,
    binary: PathBuf,
    folder: &Path,
    provider: &Provider,
) -> Trees {
    let mut alone = Deployment::new(servers, name, binary, provider).await;
    alone.spawn(&SINGLE).await;
    alone.run(folder, async |_| {}).await
}

/// Waits until this many further calls were made, so that what follows happens under load.
pub async fn wait_for_calls(provider: &Provider, calls: usize) {
    let target = provider.request_count() + calls;
    let started = Instant::now();
    while provider.request_count() < target {
        assert!(started.elapsed() < JOB_TIMEOUT, "no calls are made");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn set_latency(provider: &Provider, latency: Duration) {
    provider.set_behavior(Behavior::with_latency(latency));
}
