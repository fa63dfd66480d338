//! The complete flow from submission to tree with failing ports: every call fails once before it takes
//! effect, once after it, or is done twice; every message is delivered twice. The bytes must stay the same,
//! and the document is read once.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::Collection;
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::EntryCounts;
use stemma_engine::queue::{Depth, Lane, Message, Queue, QueueName, RetryDelay, Subscription};
use stemma_engine_testing::fault::{FaultInjector, FaultPlan, FaultRates, PortFault};
use stemma_extract::{ExtractError, ExtractJob, Extractor};
use stemma_filings::{ContentsMode, FilingKind, Spec, generate};
use stemma_pipeline::{RunSettings, WorkerDeps};
use stemma_pipeline_tests::{
    Services, SingleDocument, comparable_results, differences, report, simulate, submission,
};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::MemoryBlobs;
use stemma_store::{Env, PortResult, Priority, Retrying};

// All of the first calls fail in turn, and a sample of the rest.
const ALL_OF_THE_FIRST: u64 = 100;
const SAMPLED: u64 = 50;

// Extracts in this process and counts the calls. The result is cached, because extraction is pure and slow.
struct CountingExtractor {
    calls: AtomicU32,
    packed: Arc<OnceLock<Vec<u8>>>,
}

#[async_trait]
impl Extractor for CountingExtractor {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(packed) = self.packed.get() {
            return Ok(packed.clone());
        }
        let packed = stemma_pipeline::stages::extract_document(job)?;
        Ok(self.packed.get_or_init(|| packed).clone())
    }
}

// A small filing, and the state shared by all schedules.
struct FaultFixture {
    pdf: Vec<u8>,
    packed: Arc<OnceLock<Vec<u8>>>,
}

// The result of a schedule.
struct ScheduleOutcome {
    objects: BTreeMap<String, Bytes>,
    counts: EntryCounts,
    // Port calls before the report.
    calls: u64,
    // How often the document was read.
    read: u32,
}

impl FaultFixture {
    fn new() -> Self {
        let spec = Spec {
            pages: 4,
            contents: ContentsMode::Nothing,
            ..Spec::new(FilingKind::EarningsRelease, 5)
        };
        Self {
            pdf: generate(&spec).pdf,
            packed: Arc::default(),
        }
    }

    fn run(&self, plan: FaultPlan) -> ScheduleOutcome {
        simulate(self.run_async(plan, |queue| queue)).unwrap()
    }

    // Runs a schedule with a wrapped queue.
    async fn run_async(
        &self,
        plan: FaultPlan,
        wrap_queue: impl Fn(Arc<dyn Queue>) -> Arc<dyn Queue>,
    ) -> ScheduleOutcome {
        let env = Env::simulated(1);
        let store = Arc::new(MemoryBlobs::default());
        let faults = FaultInjector::new(env.clone(), plan);
        let mut ports = faults.wrap(&Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store)));
        ports.queue = Retrying::new(&env, wrap_queue(Arc::clone(ports.queue.raw())));
        let extractor = Arc::new(CountingExtractor {
            calls: AtomicU32::new(0),
            packed: Arc::clone(&self.packed),
        });
        let deps = WorkerDeps::new(
            Arc::new(SingleDocument(self.pdf.clone().into())),
            Arc::<CountingExtractor>::clone(&extractor),
        );
        let services = Services::start(&ports, deps, [(Lane::Cpu, 2)]);

        let job = self.submit(&ports).await;
        let report = report(&env, &store, &job).await.unwrap();
        let calls = faults.calls();
        services.stop().await.unwrap();
        let read = extractor.calls.load(Ordering::Relaxed);
        ScheduleOutcome {
            objects: comparable_results(&store),
            counts: report.counts,
            calls,
            read,
        }
    }

    // Submits, and retries while a port is unavailable.
    async fn submit(&self, ports: &Ports) -> stemma_store::JobId {
        let collection = Collection::default();
        let settings = RunSettings::default();
        let submission = submission("release.pdf", &self.pdf);
        loop {
            let documents = std::slice::from_ref(&submission);
            let request = SubmitRequest {
                collection: &collection,
                settings: &settings,
                priority: Priority::Bulk,
                options: JobOptions::default(),
            };
            match submit(ports, request, documents).await {
                Ok(manifest) => return manifest.job,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    }
}

// Same bytes, one finished document, and no repeated extraction.
fn assert_same_outcome(ended: &ScheduleOutcome, expected: &ScheduleOutcome, label: &str) {
    let differ = differences(&ended.objects, &expected.objects);
    assert!(
        differ.is_empty(),
        "{label}: different bytes under {differ:?}"
    );
    let EntryCounts {
        done,
        done_with_gaps,
        unchanged,
        failed,
        cancelled,
    } = ended.counts;
    assert_eq!(done + done_with_gaps + unchanged, 1, "{label}");
    assert_eq!(failed + cancelled, 0, "{label}");
    assert_eq!(ended.read, 1, "{label}: number of extractions");
}

// The calls to fail, out of `calls`.
fn fault_points(calls: u64) -> Vec<u64> {
    let rest = calls.saturating_sub(ALL_OF_THE_FIRST);
    let sampled =
        (0..SAMPLED.min(rest)).map(|n| ALL_OF_THE_FIRST + 1 + n * rest / SAMPLED.min(rest).max(1));
    (1..=calls.min(ALL_OF_THE_FIRST)).chain(sampled).collect()
}

#[test]
fn single_call_failure_keeps_output_identical() {
    let fixture = FaultFixture::new();
    let expected = fixture.run(FaultPlan::default());
    assert_eq!(expected.read, 1);
    assert_eq!(
        expected
            .objects
            .keys()
            .filter(|key| key.contains("/trees/"))
            .count(),
        1
    );
    let points = fault_points(expected.calls);
    println!(
        "{} calls; {} of them fail in turn, before and after they take effect, or happen twice",
        expected.calls,
        points.len()
    );
    assert!(points.len() > 20, "{points:?}");
    for call in points {
        for fault in [
            PortFault::FailBefore,
            PortFault::FailAfter,
            PortFault::Duplicate,
        ] {
            let ended = fixture.run(FaultPlan::nth(call, fault));
            assert_same_outcome(&ended, &expected, &format!("call {call}, {fault:?}"));
        }
    }
}

// Publishes every message twice.
struct DuplicatingQueue(Arc<dyn Queue>);

#[async_trait]
impl Queue for DuplicatingQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> PortResult<()> {
        let twice = messages
            .into_iter()
            .flat_map(|message| [message.clone(), message])
            .collect();
        self.0.publish(queue, twice).await
    }

    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> PortResult<()> {
        self.0.publish_later(queue, message.clone(), delay).await?;
        self.0.publish_later(queue, message, delay).await
    }

    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> PortResult<Box<dyn Subscription>> {
        self.0.subscribe(queue, prefetch).await
    }

    async fn announce(&self, topic: &str, event: Message) -> PortResult<()> {
        self.0.announce(topic, event.clone()).await?;
        self.0.announce(topic, event).await
    }

    async fn depth(&self, queue: QueueName) -> PortResult<Depth> {
        self.0.depth(queue).await
    }
}

#[test]
fn duplicated_messages_keep_output_identical() {
    let fixture = FaultFixture::new();
    let expected = fixture.run(FaultPlan::default());
    let ended = simulate(fixture.run_async(FaultPlan::default(), |queue| {
        Arc::new(DuplicatingQueue(queue))
    }))
    .unwrap();
    println!("{} calls instead of {}", ended.calls, expected.calls);
    assert!(ended.calls > expected.calls);
    assert_same_outcome(&ended, &expected, "every message twice");
}

#[test]
fn random_failures_keep_output_identical() {
    let fixture = FaultFixture::new();
    let expected = fixture.run(FaultPlan::default());
    for seed in 0..10 {
        let chances = FaultRates {
            fail_before: 100,
            fail_after: 100,
            duplicate: 100,
            ..FaultRates::default()
        };
        let ended = fixture.run(FaultPlan::random(seed, chances));
        let differ = differences(&ended.objects, &expected.objects);
        assert!(
            differ.is_empty(),
            "seed {seed}: different bytes under {differ:?}"
        );
        assert_eq!(ended.counts.failed, 0, "seed {seed}");
    }
}
