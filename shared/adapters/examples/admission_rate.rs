//! Measures how fast coordinators take documents up whose runs do nothing, over a distant bucket.
//!
//! `cargo run --release -p stemma-adapters --example admission_rate [--memory] [documents]`, with the servers of `tests/services` in
//! STEMMA_TEST_RABBITMQ, STEMMA_TEST_REDIS and STEMMA_TEST_S3. Each call of the bucket takes 25 ms longer. With `--memory` the
//! bucket is in the memory of this process, so that no S3 server takes CPU time of the coordinators. The coordinators share one
//! process, with connections of their own. Calls of their ports are counted by kind, with the time that they took.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "ends with the message of what failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use stemma_adapters::rabbit::{RabbitQueue, RabbitSettings};
use stemma_adapters::redis::{RedisClient, RedisLedger, RedisSettings};
use stemma_adapters::s3::{S3, S3Blobs, S3Credentials, S3Settings};
use stemma_engine::coordinator::Coordinator;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest, RunRecord};
use stemma_engine::heartbeat::{HeartbeatExtras, HeartbeatReporter, send_heartbeats};
use stemma_engine::ledger::Ledger;
use stemma_engine::limit::MemoryLimiter;
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::Queue;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Work;
use stemma_engine::{Ports, jobs, settings};
use stemma_store::blobs::{Blobs, MemoryBlobs, list_all};
use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef};
use stemma_store::port_layer::{Layered, PortLayer};
use stemma_store::{Env, PortResult, Secret};
use tokio_util::sync::CancellationToken;

// Added to each call of the bucket.
const DELAY: Duration = Duration::from_millis(25);
// Fewer than a coordinator can claim in a second, so that slots are always full.
const SLOTS: usize = 64;
// Uploads at once.
const UPLOADS: usize = 500;
// How often a job is asked for its report; of many jobs less often, or the store would be busy with the questions.
const POLL: Duration = Duration::from_millis(50);
const POLL_OF_MANY: Duration = Duration::from_secs(1);

// The runs that have ended, in place of what a stage would store.
static ENDED: Mutex<BTreeSet<RunId>> = Mutex::new(BTreeSet::new());

/// Documents without a stage: a run ends with its first replay.
struct EmptyWork;

impl Work for EmptyWork {
    type Settings = String;
    type Tools = ();

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/header"),
            scope: scope.into(),
        })
    }
}

#[async_trait]
impl Flow for EmptyWork {
    const REVISION: u32 = 1;

    fn flow(_: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        ENDED.lock().insert(run.at.run.clone());
        Ok(FlowOutput { gaps: 0 })
    }

    // Two calls for a new document, as for a filing; one for a known one.
    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let name = entry.input.as_str().unwrap_or_default();
        let scope = format!("c/{}/d/{name}", job.collection);
        if !list_all(&ports.blobs, &format!("{scope}/"))
            .await?
            .is_empty()
        {
            return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged));
        }
        let header = RunHeader {
            at: RunRef {
                run: RunId(name.into()),
                header: format!("{scope}/header"),
                scope,
            },
            settings: job.settings.clone(),
            flow_revision: 1,
            class: job.class,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        let json = serde_json::to_vec(&header).expect("it has text keys");
        ports.blobs.put(&header.at.header, json.into()).await?;
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(_: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let has_ended = ENDED.lock().contains(&run.at.run);
        Ok(has_ended.then_some(RunOutcome::Done))
    }

    // A put and a listing, as for change records of filings.
    async fn record_states(env: &Env, ports: &Ports, records: &[RunRecord]) -> PortResult<()> {
        let runs: Vec<_> = records.iter().map(|record| &record.run.at.run.0).collect();
        let json = serde_json::to_vec(&runs).expect("it has text keys");
        let key = format!("changes/{:016x}", env.random());
        ports.blobs.put(&key, json.into()).await?;
        ports.blobs.children("changes/", Some("~"), 1).await?;
        Ok(())
    }
}

/// Calls by kind, and the time that they took.
#[derive(Clone, Default)]
struct CallCounts(Arc<Mutex<BTreeMap<&'static str, (u64, Duration)>>>);

impl CallCounts {
    fn print(&self, documents: usize) {
        for (operation, (calls, took)) in std::mem::take(&mut *self.0.lock()) {
            let per_document = calls as f64 / documents as f64;
            let mean_ms = 1e3 * took.as_secs_f64() / calls as f64;
            println!("  {operation}: {per_document:.2} calls a document, {mean_ms:.1} ms each");
        }
    }
}

/// Makes every call start late, and counts it.
#[derive(Clone)]
struct Measured {
    delay: Duration,
    counts: CallCounts,
}

impl PortLayer for Measured {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        _about: impl Fn() -> String + Send + 'a,
        mut call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        let began = Instant::now();
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let result = call().await;
        let mut counts = self.counts.0.lock();
        let (calls, took) = counts.entry(operation).or_default();
        *calls += 1;
        *took += began.elapsed();
        result
    }
}

struct Bench {
    env: Env,
    // Of queues, keys and the bucket.
    name: String,
    // The bucket of all processes; `None`: on the S3 server.
    memory: Option<Arc<MemoryBlobs>>,
    // Of the coordinators.
    counts: CallCounts,
}

fn server(name: &str) -> String {
    std::env::var(name).expect("start the servers with tests/services")
}

impl Bench {
    async fn ports(&self, process: &str, counts: &CallCounts) -> Ports {
        let rabbit = RabbitSettings {
            url: server("STEMMA_TEST_RABBITMQ").as_str().into(),
            prefix: self.name.clone(),
            name: process.into(),
        };
        let redis = RedisSettings {
            prefix: self.name.clone(),
            ..RedisSettings::new(server("STEMMA_TEST_REDIS").as_str().into())
        };
        let measured = |delay| Measured {
            delay,
            counts: counts.clone(),
        };
        let queue: Arc<dyn Queue> =
            Arc::new(RabbitQueue::connect(&rabbit, &self.env).await.unwrap());
        let ledger: Arc<dyn Ledger> =
            Arc::new(RedisLedger::new(RedisClient::open(&redis).unwrap()));
        let queue = Layered {
            layer: measured(Duration::ZERO),
            port: queue,
        };
        let ledger = Layered {
            layer: measured(Duration::ZERO),
            port: ledger,
        };
        let blobs = Layered {
            layer: measured(DELAY),
            port: self.blobs().await,
        };
        Ports::new(
            &self.env,
            Arc::new(queue),
            Arc::new(ledger),
            Arc::new(blobs),
            Arc::new(MemoryLimiter::default()),
        )
    }

    async fn blobs(&self) -> Arc<dyn Blobs> {
        if let Some(memory) = &self.memory {
            return Arc::<MemoryBlobs>::clone(memory);
        }
        let store = server("STEMMA_TEST_S3");
        let mut store = store.split_whitespace();
        let endpoint = store.next().map(str::to_string);
        let mut secret = || Secret::from(store.next().expect("URL ACCESS SECRET"));
        let s3 = S3Settings {
            endpoint,
            access: S3Credentials::Key {
                id: secret(),
                secret: secret(),
            },
            force_path_style: true,
            checksums_when_required: true,
            call_timeout: Duration::from_secs(30),
            ..S3Settings::default()
        };
        let s3 = S3::connect(&s3).await.unwrap();
        s3.create_bucket(&self.name).await.unwrap();
        Arc::new(S3Blobs::new(s3, &self.name, "store").unwrap())
    }

    async fn start_coordinator(
        &self,
        name: &str,
        stop: &CancellationToken,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        let ports = self.ports(name, &self.counts).await;
        let presence = HeartbeatReporter::new(&self.env, name, "coordinator");
        let ledger = Arc::clone(ports.ledger.raw());
        let beats = send_heartbeats(
            self.env.clone(),
            ledger,
            Arc::clone(&presence),
            HeartbeatExtras::default,
            stop.clone(),
        );
        let coordinator = Coordinator::<EmptyWork>::new(
            self.env.clone(),
            ports,
            SLOTS,
            Arc::new(|_| ()),
            presence,
        );
        vec![
            tokio::spawn(beats),
            tokio::spawn(coordinator.run(stop.clone())),
        ]
    }

    async fn submit(&self, ports: &Ports, class: Priority, documents: Vec<String>) -> JobId {
        let job = JobId::new(self.env.now_ms(), self.env.random());
        let draft = JobManifest {
            job,
            collection: "x".into(),
            settings: settings::freeze::<EmptyWork>(&ports.blobs, &"s".into())
                .await
                .unwrap(),
            class,
            entries: 0,
            submitted_ms: self.env.now_ms(),
            terms: jobs::JobOptions::default(),
        };
        let entries: Vec<_> = documents
            .into_iter()
            .map(|document| JobEntry {
                weight: 1,
                input: document.into(),
            })
            .collect();
        let submitted = jobs::submit(&self.env, ports, &draft, &entries).await;
        submitted.unwrap().job
    }

    async fn ended(&self, ports: &Ports, job: &JobId, poll: Duration) {
        while jobs::report(ports.blobs.raw().as_ref(), job)
            .await
            .unwrap()
            .is_none()
        {
            tokio::time::sleep(poll).await;
        }
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn documents(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{name}-{n}")).collect()
}

#[tokio::main]
async fn main() {
    let (flags, numbers): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--memory");
    let count = numbers.first().map_or(Ok(4_000), |count| count.parse());
    let count: usize = count.expect("usage: admission_rate [--memory] [documents]");
    let mut last = String::new();
    for members in [1, 2, 4] {
        let env = Env::system();
        let name = format!(
            "admission{members}-{}-{:x}",
            std::process::id(),
            env.now_ms()
        );
        let bench = Bench {
            env,
            name,
            memory: (!flags.is_empty()).then(Arc::default),
            counts: CallCounts::default(),
        };
        let ports = bench.ports("client", &CallCounts::default()).await;
        let stop = CancellationToken::new();
        let mut running = Vec::new();
        for n in 0..members {
            running.extend(
                bench
                    .start_coordinator(&format!("coordinator-{n}"), &stop)
                    .await,
            );
        }
        tokio::time::sleep(Duration::from_secs(25)).await; // until each has its share
        bench.counts.0.lock().clear();
        let began = Instant::now();
        let before = cpu_seconds();
        let known = documents("document", count);
        let job = bench.submit(&ports, Priority::Bulk, known.clone()).await;
        bench.ended(&ports, &job, POLL).await;
        let rate = count as f64 / began.elapsed().as_secs_f64();
        // The submission is in it, too.
        let cpu_ms = 1e3 * (cpu_seconds() - before) / count as f64;
        println!(
            "{members} coordinators, slots full: {rate:.0} documents/s, {cpu_ms:.2} ms CPU a document"
        );
        bench.counts.print(count);
        if members == 1 {
            let began = Instant::now();
            let uploads = (0..UPLOADS).map(|n| {
                let document = documents(&format!("upload-{n}"), 1);
                bench.submit(&ports, Priority::Interactive, document)
            });
            let uploads = join_all(uploads).await;
            join_all(
                uploads
                    .iter()
                    .map(|job| bench.ended(&ports, job, POLL_OF_MANY)),
            )
            .await;
            let rate = UPLOADS as f64 / began.elapsed().as_secs_f64();
            println!("{UPLOADS} uploads: {rate:.0} documents/s");
            let nightly = bench.submit(&ports, Priority::Bulk, known).await;
            let began = Instant::now();
            let document = documents("beside", 1);
            let upload = bench.submit(&ports, Priority::Interactive, document).await;
            bench.ended(&ports, &upload, POLL).await;
            let waited = began.elapsed().as_secs_f64();
            bench.ended(&ports, &nightly, POLL).await;
            let rate = count as f64 / began.elapsed().as_secs_f64();
            last = format!(
                "an upload beside {count} unchanged documents ({rate:.0}/s): {waited:.1} s"
            );
        }
        stop.cancel();
        join_all(running).await;
    }
    println!("{last}");
}
