//! Chaos in embedded mode: the single process is killed during work and started again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stemma_document::Collection;
use stemma_sim::{Behavior, Provider};
use stemma_store::blobs::FolderBlobs;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::Scenario;
use super::fault_plan::fault_plan;
use super::report::{ChaosReport, InjectedFault};
use super::run::{Baseline, LIMIT, Pace, end_message, settings, wait_until_busy};
use crate::compare::{differences, trees};
use crate::duplicate_calls::{CallSummary, ProcessOutage, calls_per_digest};
use crate::{ServiceFleet, binary, documents};

/// Model calls in flight.
const CALLS: usize = 64;
/// Latency of the provider in the run without faults.
const LATENCY: Duration = Duration::from_millis(50);

/// Runs a scenario in one process at a time.
///
/// # Errors
/// If the run without faults fails. Failures under faults are in the report.
pub async fn run_embedded(scenario: &Scenario) -> Result<ChaosReport> {
    let harness = EmbeddedHarness::start(scenario)?;
    let baseline = harness.run_baseline().await?;
    eprintln!(
        "run without faults: {} model tasks, {} s",
        baseline.tasks,
        baseline.took.as_secs()
    );
    harness.run_with_faults(scenario, &baseline).await
}

struct EmbeddedHarness {
    binary: PathBuf,
    folder: TempDir,
}

impl EmbeddedHarness {
    fn start(scenario: &Scenario) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        documents::write(
            &folder.path().join("filings"),
            scenario.documents,
            scenario.pages,
            scenario.seed,
        )?;
        Ok(Self {
            binary: binary()?,
            folder,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ingest(&self, fleet: &ServiceFleet, name: &str) -> Result<tokio::process::Child> {
        fleet.launch(name, &["ingest", text(&self.path("filings"))?, "--json"])
    }

    fn fleet(&self, store: &str, provider: &Provider) -> Result<ServiceFleet> {
        let mut fleet = ServiceFleet::new(
            self.binary.clone(),
            text(&self.path(store))?,
            settings(CALLS),
        )?;
        fleet.use_provider(provider.address());
        Ok(fleet)
    }

    async fn trees(&self, store: &str) -> Result<std::collections::BTreeMap<String, bytes::Bytes>> {
        trees(
            &FolderBlobs::open(&self.path(store))?,
            &Collection::default(),
        )
        .await
    }

    async fn run_baseline(&self) -> Result<Baseline> {
        let provider = Provider::start(Behavior::with_latency(LATENCY)).await?;
        let started = Instant::now();
        let ingest = self
            .ingest(&self.fleet("baseline", &provider)?, "baseline")?
            .wait_with_output();
        let output = timeout(LIMIT, ingest)
            .await
            .context("the run without faults did not end")??;
        ensure!(
            output.status.success(),
            "the run without faults failed: {}",
            end_message(&output)
        );
        let requests = provider.requests();
        let took = started.elapsed();
        Ok(Baseline {
            needed: calls_per_digest(&requests),
            tasks: requests.len(),
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
            slots: CALLS,
        };
        let latency = pace.latency(0, Duration::ZERO, 0);
        let provider = Provider::start(Behavior::with_latency(latency)).await?;
        provider.limit_replies(pace.max_replies());
        let fleet = self.fleet("storm", &provider)?;
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut done = Vec::new();
        let mut deaths = Vec::new();
        let mut wrong = Vec::new();
        let started = Instant::now();
        for fault in faults.iter().copied() {
            let process = format!("ingest-{}", done.len());
            let mut child = self.ingest(&fleet, &process)?;
            let pid = child.id();
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            // The task owns the process, whether it ended by itself or was killed.
            let job = tokio::spawn(async move {
                tokio::select! {
                    ended = child.wait() => ended.map(Some),
                    _ = stopped => child.kill().await.map(|()| None),
                }
            });
            sleep(Duration::from_secs_f64(
                scenario.fault_interval * dice.random_range(0.0..1.0),
            ))
            .await;
            if !wait_until_busy(&provider, demand.in_flight, &job).await {
                break;
            }
            done.push(InjectedFault {
                fault,
                in_flight: provider.in_flight(),
            });
            eprintln!(
                "{:>6.1} s  {:>3}  {} {pid:?}",
                started.elapsed().as_secs_f64(),
                done.len(),
                fault.name()
            );
            deaths.push(ProcessOutage {
                process,
                from: Instant::now(),
                until: None,
            });
            drop(stop);
            if let Some(status) = job.await?? {
                wrong.push(format!("an ingest ended by itself: {status}"));
            }
            let answered = calls_per_digest(&provider.requests()).len();
            let latency = pace.latency(done.len(), started.elapsed(), answered);
            provider.set_behavior(Behavior::with_latency(latency));
        }
        provider.set_behavior(Behavior::with_latency(LATENCY));
        provider.limit_replies(usize::MAX);
        match timeout(LIMIT, self.ingest(&fleet, "last")?.wait_with_output()).await {
            Ok(output) => {
                let output = output?;
                wrong.extend(
                    (!output.status.success())
                        .then(|| format!("the last ingest failed: {}", end_message(&output))),
                );
            }
            Err(_) => wrong.push("the last ingest did not end".into()),
        }
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
            calls: CallSummary::from_requests(&provider.requests(), &deaths, &baseline.needed),
            errors: wrong,
        })
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("folder path is not UTF-8")
}
