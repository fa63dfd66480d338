//! Filings that have been read, with model calls waiting and nobody who makes them: where measurements of model tasks
//! begin, so that reading PDFs is no part of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use stemma_sim::{Behavior, Provider};
use tempfile::TempDir;
use tokio::time::sleep;

use super::broker::Tap;
use super::{Lab, PATIENCE, ready, submit};
use crate::{Fleet, Role, Server, documents};

/// Looks without change after which nothing more comes.
const STILL: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A job whose model calls wait.
pub(super) struct Backlog {
    pub(super) fleet: Fleet,
    pub(super) provider: Provider,
    pub(super) tap: Tap,
    pub(super) name: String,
    _filings: TempDir,
}

impl Backlog {
    /// Submits `count` filings of `pages` pages to a fleet that makes no model calls yet, and waits until it has done
    /// what it can without.
    pub(super) async fn make(
        lab: &Lab,
        name: &str,
        (count, pages): (u64, u32),
        latency: Duration,
        own: &[(&str, &str)],
        through: &[(Server, SocketAddr)],
    ) -> Result<Self> {
        let name = lab.name(name);
        let filings = tempfile::tempdir()?;
        documents::write(filings.path(), count, pages, 1)?;
        let provider = Provider::start(Behavior::after(latency)).await?;
        let own: Vec<_> = own
            .iter()
            .copied()
            .chain([("STEMMA_STRUCTURE", "llm")])
            .collect();
        let mut fleet = lab.fleet(&name, &own, through, &provider)?;
        fleet.spawn(Role::Coordinator, &[])?;
        fleet.spawn(Role::Assembler, &[])?;
        fleet.spawn(Role::Worker, &["--lanes", "cpu"])?;
        for role in [Role::Coordinator, Role::Assembler, Role::Worker] {
            ready(&mut fleet, role).await?;
        }
        let tap = Tap::on(&lab.broker()?, &name).await?;
        submit(&fleet, filings.path()).await?;
        let backlog = Self {
            fleet,
            provider,
            tap,
            name,
            _filings: filings,
        };
        backlog.until_still().await?;
        Ok(backlog)
    }

    async fn until_still(&self) -> Result<()> {
        let begun = Instant::now();
        let mut last = 0;
        let mut same = 0;
        while same < STILL {
            ensure!(
                begun.elapsed() < PATIENCE,
                "{}: reading the filings takes too long",
                self.name
            );
            sleep(LOOK_EVERY).await;
            let cpu = self.tap.depth("cpu.bulk").await?;
            let llm = self.tap.depth("llm.bulk").await?;
            let still = llm > 0 && llm == last && cpu == 0;
            (last, same) = (llm, if still { same + 1 } else { 0 });
        }
        Ok(())
    }

    /// Starts `count` workers that make `calls` model calls at a time, and waits until they are ready.
    pub(super) async fn work(&mut self, count: usize, calls: usize) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.fleet.spawn(
                Role::Worker,
                &["--lanes", "llm", "--concurrency", &calls.to_string()],
            )?);
        }
        ready(&mut self.fleet, Role::Worker).await?;
        Ok(names)
    }

    /// Waits until so many calls were made.
    pub(super) async fn until_asked(&self, calls: usize) -> Result<()> {
        let begun = Instant::now();
        while self.provider.asked() < calls {
            let name = &self.name;
            let asked = self.provider.asked();
            ensure!(
                begun.elapsed() < PATIENCE,
                "{name}: {asked} of {calls} calls were made in time"
            );
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
