//! A backlog of extracted filings whose model calls wait for a worker: measurements of model tasks start here,
//! so that they exclude PDF extraction.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use stemma_sim::{Behavior, Provider};
use tempfile::TempDir;
use tokio::time::sleep;

use super::broker::MessageTap;
use super::{BenchEnv, TIMEOUT, ready, submit};
use crate::{ServerKind, ServiceFleet, ServiceRole, documents};

/// Polls without change after which the backlog is complete.
const STABLE_POLLS: usize = 8;
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A job whose model calls wait for a worker.
pub(super) struct Backlog {
    pub(super) fleet: ServiceFleet,
    pub(super) provider: Provider,
    pub(super) tap: MessageTap,
    pub(super) name: String,
    _filings: TempDir,
}

impl Backlog {
    /// Submits `count` filings of `pages` pages to a fleet without model calls, and waits until only model calls
    /// remain.
    pub(super) async fn prepare(
        lab: &BenchEnv,
        name: &str,
        (count, pages): (u64, u32),
        latency: Duration,
        own: &[(&str, &str)],
        through: &[(ServerKind, SocketAddr)],
    ) -> Result<Self> {
        let name = lab.name(name);
        let filings = tempfile::tempdir()?;
        documents::write(filings.path(), count, pages, 1)?;
        let provider = Provider::start(Behavior::with_latency(latency)).await?;
        let own: Vec<_> = own
            .iter()
            .copied()
            .chain([("STEMMA_STRUCTURE", "llm")])
            .collect();
        let mut fleet = lab.fleet(&name, &own, through, &provider)?;
        fleet.spawn(ServiceRole::Coordinator, &[])?;
        fleet.spawn(ServiceRole::Assembler, &[])?;
        fleet.spawn(ServiceRole::Worker, &["--lanes", "cpu"])?;
        for role in [
            ServiceRole::Coordinator,
            ServiceRole::Assembler,
            ServiceRole::Worker,
        ] {
            ready(&mut fleet, role).await?;
        }
        let tap = MessageTap::connect(&lab.broker()?, &name).await?;
        submit(&fleet, filings.path()).await?;
        let backlog = Self {
            fleet,
            provider,
            tap,
            name,
            _filings: filings,
        };
        backlog.wait_until_stable().await?;
        Ok(backlog)
    }

    async fn wait_until_stable(&self) -> Result<()> {
        let started = Instant::now();
        let mut last = 0;
        let mut same = 0;
        while same < STABLE_POLLS {
            ensure!(
                started.elapsed() < TIMEOUT,
                "{}: reading the filings takes too long",
                self.name
            );
            sleep(POLL_INTERVAL).await;
            let cpu = self.tap.depth("cpu.bulk").await?;
            let llm = self.tap.depth("llm.bulk").await?;
            let still = llm > 0 && llm == last && cpu == 0;
            (last, same) = (llm, if still { same + 1 } else { 0 });
        }
        Ok(())
    }

    /// Starts `count` workers that execute `tasks` model tasks at a time, and waits until they are ready.
    pub(super) async fn start_workers(
        &mut self,
        count: usize,
        tasks: usize,
    ) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.fleet.spawn(
                ServiceRole::Worker,
                &["--lanes", "llm", "--concurrency", &tasks.to_string()],
            )?);
        }
        ready(&mut self.fleet, ServiceRole::Worker).await?;
        Ok(names)
    }

    /// Waits until `calls` calls were made.
    pub(super) async fn wait_for_calls(&self, calls: usize) -> Result<()> {
        let started = Instant::now();
        while self.provider.request_count() < calls {
            let name = &self.name;
            let call_count = self.provider.request_count();
            ensure!(
                started.elapsed() < TIMEOUT,
                "{name}: {call_count} of {calls} calls were made in time"
            );
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Checks that a measurement ended before the backlog did: afterwards a low rate says nothing of the workers.
    pub(super) async fn ensure_calls_remain(&self) -> Result<()> {
        let waiting = self.tap.depth("llm.bulk").await?;
        let name = &self.name;
        ensure!(waiting > 0, "{name}: the filings have too few calls");
        Ok(())
    }
}
