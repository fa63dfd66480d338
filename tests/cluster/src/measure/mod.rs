//! Measurements of the cluster on real servers: shared limits, scale, rates, unit costs, and a job of very many documents.
//!
//! Each gives a [`MeasurementTable`] with figures and targets. Machines differ and run other work at the
//! same time, so targets are ratios within one run where possible, shown with the CPU time of every process.

mod backlog;
mod broker;
mod costs;
mod cpu_time;
mod large_job;
mod limit;
mod objects;
mod rates;
mod scale;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub use costs::costs;
pub use large_job::{JobSize, large_job};
pub use limit::limit;
pub use rates::rates;
pub use scale::{SCALE_TASKS, scale};
pub use table::MeasurementTable;

use crate::{ServerKind, ServiceFleet, ServiceRole, TestServers, binary};
use stemma_sim::{Provider, RequestRecord};

const BUCKET: &str = "measure";
/// Time limit for a process to become ready, on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for a command, and for progress of a job.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The servers and the measured binary.
pub struct BenchEnv {
    servers: TestServers,
    binary: PathBuf,
    /// Separates this measurement from earlier ones on the same servers.
    stamp: u64,
}

impl BenchEnv {
    /// Uses the servers that the environment names, or starts new ones; builds the binary unless `STEMMA_TEST_BIN` names it.
    ///
    /// # Errors
    /// If the servers cannot be started or the binary cannot be built.
    pub async fn open() -> Result<Self> {
        let binary = binary()?;
        let servers = TestServers::from_env_or_start().await?;
        servers.make_bucket(BUCKET).await?;
        let stamp = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_secs();
        Ok(Self {
            servers,
            binary,
            stamp,
        })
    }

    /// The measurements.
    pub fn binary(&self) -> String {
        self.binary.display().to_string()
    }

    /// A unique name for queues, keys and objects.
    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.stamp)
    }

    /// A fleet without processes, on a store, queues and keys of this name.
    fn fleet(
        &self,
        name: &str,
        own: &[(&str, &str)],
        through: &[(ServerKind, SocketAddr)],
        provider: &Provider,
    ) -> Result<ServiceFleet> {
        let mut settings = self.servers.settings(through)?;
        let common = [
            ("STEMMA_MODEL__NAME", "echo"),
            ("STEMMA_MODEL__API_KEY", "none"),
            ("STEMMA_LOCAL__CONCURRENCY", "2"),
            ("STEMMA_LOG", "warn"),
            ("STEMMA_BROKER__PREFIX", name),
            ("STEMMA_REDIS__PREFIX", name),
        ];
        settings.extend(
            common
                .iter()
                .chain(own)
                .map(|(key, value)| ((*key).to_string(), (*value).to_string())),
        );
        let mut fleet = ServiceFleet::new(
            self.binary.clone(),
            &format!("s3://{BUCKET}/{name}"),
            settings,
        )?;
        fleet.use_provider(provider.address());
        Ok(fleet)
    }

    /// The URL of the broker, with its password.
    fn broker(&self) -> Result<String> {
        let settings = self.servers.settings(&[])?;
        let url = settings
            .into_iter()
            .find(|(name, _)| name == "STEMMA_BROKER__URL");
        url.map(|(_, url)| url).context("servers without a broker")
    }
}

/// Waits until all processes of a role are ready.
async fn ready(fleet: &mut ServiceFleet, role: ServiceRole) -> Result<()> {
    for name in fleet.running(role) {
        fleet.wait_until_ready(&name, READY_TIMEOUT).await?;
    }
    Ok(())
}

/// Submits a folder without waiting for the job.
async fn submit(fleet: &ServiceFleet, folder: &std::path::Path) -> Result<()> {
    let folder = folder.to_str().context("folder path is not UTF-8")?;
    let output = fleet.run(&["submit", folder], TIMEOUT).await?;
    ensure!(
        output.status.success(),
        "submit: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Accepted requests that arrived in `begin..end`.
fn arrived(requests: &[RequestRecord], begin: Instant, end: Instant) -> usize {
    requests
        .iter()
        .filter(|request| {
            request.status != 429 && request.arrived >= begin && request.arrived < end
        })
        .count()
}
