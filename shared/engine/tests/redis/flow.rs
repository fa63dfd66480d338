//! A whole job over the real ledger: what ends it is the blobs, whatever Redis forgets (I-1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_engine::blobs::MemoryBlobs;
use stemma_engine::consume::Consumer;
use stemma_engine::coordinate::Coordinator;
use stemma_engine::failure::Failure;
use stemma_engine::flow::{Claim, Finish, Flow, JobEntry, Manifest};
use stemma_engine::jobs::{self, Report};
use stemma_engine::key::{Class, Identity, JobId, RunHeader, RunId, RunRef};
use stemma_engine::ledger::{Due, RedisLedger};
use stemma_engine::message::Ending;
use stemma_engine::perform::Performer;
use stemma_engine::presence::Presence;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::{Output, Registry, Stage, Task, Work};
use stemma_engine::{Env, PortError, Ports, settings};
use tokio_util::sync::CancellationToken;

use crate::server::Private;

const DOCUMENTS: u64 = 6;
const PAGES: u64 = 20;

/// Adds up the pages of a document.
struct Sum;

impl Work for Sum {
    type Settings = String;
    /// Pages read so far.
    type Tools = AtomicU32;
}

#[derive(Serialize, Deserialize)]
struct Page {
    document: u64,
    number: u64,
}

#[async_trait]
impl Stage for Page {
    type Work = Sum;
    type Outcome = u64;
    const NAME: &'static str = "page";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut Identity) {
        identity.number(self.document).number(self.number);
    }

    async fn run(&self, task: &Task<'_, Sum>) -> Result<Output<u64>, Failure> {
        task.env.sleep(Duration::from_millis(50)).await;
        task.tools.fetch_add(1, Ordering::SeqCst);
        Ok((self.document * 1_000 + self.number).into())
    }
}

#[derive(Serialize, Deserialize)]
struct Total(u64);

#[async_trait]
impl Stage for Total {
    type Work = Sum;
    type Outcome = u64;
    const NAME: &'static str = "total";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _: &String, identity: &mut Identity) {
        identity.number(self.0);
    }

    async fn run(&self, task: &Task<'_, Sum>) -> Result<Output<u64>, Failure> {
        let stored = task
            .ports
            .blobs
            .put(
                &format!("{}/total", task.run.scope),
                self.0.to_string().into(),
            )
            .await;
        stored.map(|_| self.0.into()).map_err(Failure::from)
    }
}

#[async_trait]
impl Flow for Sum {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<Finish, Stop> {
        let document = run.input.as_u64().unwrap_or_default();
        let pages = replay.all((0..PAGES).map(|number| Page { document, number }))?;
        replay.one(&Total(pages.into_iter().flatten().sum()))?;
        Ok(Finish { gaps: 0 })
    }

    async fn claim(
        _: &Env,
        ports: &Ports,
        job: &Manifest,
        entry: &JobEntry,
    ) -> Result<Claim, PortError> {
        let scope = format!("c/x/d/{}", entry.input);
        let header = RunHeader {
            at: RunRef {
                run: RunId(format!("run-{}", entry.input)),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: 1,
            class: job.class,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        ports
            .blobs
            .put(
                &header.at.header,
                serde_json::to_vec(&header).unwrap().into(),
            )
            .await?;
        Ok(Claim::Run(header))
    }

    async fn ending(_: &Env, ports: &Ports, run: &RunHeader) -> Result<Option<Ending>, PortError> {
        let total = ports.blobs.size(&format!("{}/total", run.at.scope)).await?;
        Ok(total.map(|_| Ending::Done))
    }
}

struct House {
    env: Env,
    ports: Ports,
    pages: Arc<AtomicU32>,
    stop: CancellationToken,
}

impl House {
    fn open(server: &Private) -> Self {
        let ledger = Arc::new(RedisLedger::new(server.client("")));
        let ports = Ports {
            ledger,
            ..Ports::embedded(Arc::new(MemoryBlobs::default()))
        };
        let house = Self {
            env: Env::system(),
            ports,
            pages: Arc::default(),
            stop: CancellationToken::new(),
        };
        let env = house.env.clone();
        let presence = Presence::new(&house.env, "coordinator", "coordinator");
        let coordinator =
            Coordinator::<Sum>::new(env, house.ports.clone(), 100, Arc::new(|_| ()), presence);
        house.env.spawn(coordinator.run(house.stop.clone()));
        let registry = Registry::default().with::<Page>().with::<Total>();
        let tools = Arc::clone(&house.pages);
        let env = house.env.clone();
        let presence = Presence::new(&house.env, "worker", "worker");
        let performer = Performer::new(
            env,
            house.ports.clone(),
            registry,
            tools,
            Arc::clone(&presence),
        );
        let consumer = Consumer {
            env: house.env.clone(),
            queue: Arc::clone(&house.ports.queue),
            name: QueueName::Lane(Lane::Cpu, Class::Bulk),
            concurrency: 4,
            grace: Duration::from_secs(1),
            presence,
        };
        house
            .env
            .spawn(consumer.run(Arc::new(performer), house.stop.clone()));
        house
    }

    async fn submit(&self) -> JobId {
        let manifest = Manifest {
            job: JobId("job".into()),
            collection: "x".into(),
            settings: settings::freeze::<Sum>(&self.env, self.ports.blobs.as_ref(), &"s".into())
                .await
                .unwrap(),
            class: Class::Bulk,
            entries: DOCUMENTS,
            submitted_ms: 0,
            terms: stemma_engine::flow::Terms::default(),
        };
        let entries: Vec<_> = (0..DOCUMENTS)
            .map(|n| JobEntry {
                weight: 1,
                input: n.into(),
            })
            .collect();
        jobs::submit(&self.env, &self.ports, &manifest, &entries)
            .await
            .unwrap();
        manifest.job
    }

    async fn pages(&self, at_least: u32) {
        let begun = Instant::now();
        while self.pages.load(Ordering::SeqCst) < at_least {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "the job stands still"
            );
            self.env.sleep(Duration::from_millis(10)).await;
        }
    }

    async fn report(&self, job: &JobId) -> Report {
        let begun = Instant::now();
        loop {
            if let Some(report) = jobs::report(self.ports.blobs.as_ref(), job).await.unwrap() {
                self.stop.cancel();
                return report;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the job does not end"
            );
            self.env.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn totals(&self) -> Vec<u64> {
        let mut totals = Vec::new();
        for n in 0..DOCUMENTS {
            let total = self
                .ports
                .blobs
                .get(&format!("c/x/d/{n}/total"))
                .await
                .unwrap()
                .unwrap();
            totals.push(std::str::from_utf8(&total).unwrap().parse().unwrap());
        }
        totals
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_ends_the_same_with_redis_flushed_and_restarted() {
    let Some(mut server) = Private::start(&[]) else {
        return;
    };
    let house = House::open(&server);
    let job = house.submit().await;
    house.pages(30).await;
    server.run("", &["FLUSHALL"]).await;
    house.pages(70).await;
    server.restart();
    house.pages(100).await;
    // The scan for forgotten jobs would do this within two minutes.
    house
        .ports
        .ledger
        .schedule(&Due::Job(job.clone()), 0)
        .await
        .unwrap();
    let report = house.report(&job).await;
    assert_eq!((report.counts.done, report.counts.failed), (DOCUMENTS, 0));
    let expected: Vec<u64> = (0..DOCUMENTS)
        .map(|n| PAGES * n * 1_000 + PAGES * (PAGES - 1) / 2)
        .collect();
    assert_eq!(house.totals().await, expected);
    let pages = house.pages.load(Ordering::SeqCst);
    assert_eq!(u64::from(pages), DOCUMENTS * PAGES, "nothing is done twice");
}
