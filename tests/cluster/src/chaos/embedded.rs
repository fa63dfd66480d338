//! Chaos over the embedded mode: one process that does everything is killed in mid-work and run again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stemma_document::Collection;
use stemma_engine::blobs::FolderBlobs;
use stemma_sim::{Behavior, Provider};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::Scenario;
use super::plan::plan;
use super::report::{Done, Report};
use super::run::{LIMIT, Peace, calmer, end, settings, until_busy};
use crate::asked::{Asked, Death, counts};
use crate::compare::{differences, trees};
use crate::{Fleet, binary, documents};

/// Model calls in flight.
const CALLS: usize = 64;
/// Latency of the provider in the quiet run.
const LATENCY: Duration = Duration::from_millis(50);

/// Runs a scenario in one process at a time.
///
/// # Errors
/// When the quiet run does not work. What the faults did wrong stands in the report.
pub async fn embedded(scenario: &Scenario) -> Result<Report> {
    let ground = Ground::make(scenario)?;
    let peace = ground.peace().await?;
    eprintln!(
        "quiet run: {} model tasks, {} s",
        peace.tasks,
        peace.took.as_secs()
    );
    ground.storm(scenario, &peace).await
}

struct Ground {
    binary: PathBuf,
    folder: TempDir,
}

impl Ground {
    fn make(scenario: &Scenario) -> Result<Self> {
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

    fn ingest(&self, fleet: &Fleet, name: &str) -> Result<tokio::process::Child> {
        fleet.launch(name, &["ingest", text(&self.path("filings"))?, "--json"])
    }

    fn fleet(&self, store: &str, provider: &Provider) -> Result<Fleet> {
        let mut fleet = Fleet::new(
            self.binary.clone(),
            text(&self.path(store))?,
            settings(CALLS),
        )?;
        fleet.ask(provider.address());
        Ok(fleet)
    }

    async fn trees(&self, store: &str) -> Result<std::collections::BTreeMap<String, bytes::Bytes>> {
        trees(
            &FolderBlobs::open(&self.path(store))?,
            &Collection::default(),
        )
        .await
    }

    async fn peace(&self) -> Result<Peace> {
        let provider = Provider::start(Behavior::after(LATENCY)).await?;
        let begun = Instant::now();
        let ingest = self
            .ingest(&self.fleet("quiet", &provider)?, "quiet")?
            .wait_with_output();
        let output = timeout(LIMIT, ingest)
            .await
            .context("the quiet run does not end")??;
        ensure!(
            output.status.success(),
            "the quiet run ended badly: {}",
            end(&output)
        );
        let asks = provider.asks();
        let took = begun.elapsed();
        Ok(Peace {
            needed: counts(&asks),
            tasks: asks.len(),
            took,
            trees: self.trees("quiet").await?,
        })
    }

    async fn storm(&self, scenario: &Scenario, peace: &Peace) -> Result<Report> {
        let Scenario { seed, demand, .. } = *scenario;
        let latency = calmer(scenario, peace, 0, Duration::ZERO, 0, CALLS);
        let provider = Provider::start(Behavior::after(latency)).await?;
        let fleet = self.fleet("storm", &provider)?;
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut done = Vec::new();
        let mut deaths = Vec::new();
        let mut wrong = Vec::new();
        let begun = Instant::now();
        for fault in plan(demand.kinds, seed, demand.faults, demand.each) {
            let process = format!("ingest-{}", done.len());
            let mut child = self.ingest(&fleet, &process)?;
            let pid = child.id();
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            // Ended by itself, or told to die: the task owns the process either way.
            let job = tokio::spawn(async move {
                tokio::select! {
                    ended = child.wait() => ended.map(Some),
                    _ = stopped => child.kill().await.map(|()| None),
                }
            });
            sleep(Duration::from_secs_f64(
                scenario.pace * dice.random_range(0.0..1.0),
            ))
            .await;
            if !until_busy(&provider, demand.in_flight, &job).await {
                break;
            }
            done.push(Done {
                fault,
                in_flight: provider.in_flight(),
            });
            eprintln!(
                "{:>6.1} s  {:>3}  {} {pid:?}",
                begun.elapsed().as_secs_f64(),
                done.len(),
                fault.name()
            );
            deaths.push(Death {
                process,
                at: Instant::now(),
            });
            drop(stop);
            if let Some(status) = job.await?? {
                wrong.push(format!("an ingest ended by itself: {status}"));
            }
            let latency = calmer(
                scenario,
                peace,
                done.len(),
                begun.elapsed(),
                counts(&provider.asks()).len(),
                CALLS,
            );
            provider.behave(Behavior::after(latency));
        }
        provider.behave(Behavior::after(LATENCY));
        match timeout(LIMIT, self.ingest(&fleet, "last")?.wait_with_output()).await {
            Ok(output) => {
                let output = output?;
                wrong.extend(
                    (!output.status.success())
                        .then(|| format!("the last ingest ended badly: {}", end(&output))),
                );
            }
            Err(_) => wrong.push("the last ingest does not end".into()),
        }
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
            asked: Asked::judge(&provider.asks(), &deaths, &peace.needed),
            wrong,
        })
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a folder that can be written down")
}
