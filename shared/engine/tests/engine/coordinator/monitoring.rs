//! What monitoring sees of coordinators and workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use stemma_engine::flow::JobOptions;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, PauseReason};
use stemma_engine::lane_metrics::observe_lanes;
use stemma_engine::ledger::{BATCH_CODE, DeliveryKind, Lease, Ledger, Retry};
use stemma_engine::queue::{Lane, Message, QueueName};
use stemma_engine_testing::fault::FaultPlan;
use stemma_store::{Priority, RunId};
use tokio_util::sync::CancellationToken;

use super::cluster::ProbeCluster;

/// The counters and gauges that exist, by name and sorted labels.
#[derive(Default)]
struct RecordedMetrics(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl RecordedMetrics {
    fn register(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels();
        let mut words: Vec<String> = labels
            .map(|label| format!(" {}={}", label.key(), label.value()))
            .collect();
        words.sort();
        let name = format!("{}{}", key.name(), words.concat());
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn counter(&self, name: &str) -> Option<u64> {
        let all = self.0.lock().unwrap();
        all.get(name).map(|value| value.load(Ordering::Relaxed))
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        self.counter(name).map(f64::from_bits)
    }
}

impl Recorder for RecordedMetrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Finding 13 of the operator review: `increase` misses the first event of a counter that begins with it.
#[tokio::test(start_paused = true)]
async fn counters_are_zero_before_their_first_event() {
    let recorded = RecordedMetrics::default();
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let heartbeat = HeartbeatReporter::new(&cluster.env, "both", "both");
    let coordinator = metrics::with_local_recorder(&recorded, || {
        cluster.coordinator_of(Arc::clone(&heartbeat), 1)
    });
    let published = ["false", "true"]
        .map(|again| format!("stemma_tasks_published_total again={again} queue=cpu.bulk"));
    let documents = ["done", "done_with_gaps", "unchanged", "failed", "cancelled"]
        .map(|outcome| format!("stemma_documents_total outcome={outcome}"));
    let others = [
        "stemma_dead_letters_total",
        "stemma_redeliveries_total queue=flow",
        "stemma_port_errors_total operation=put port=blobs",
    ];
    let others = others.map(String::from);
    for name in published.iter().chain(&documents).chain(&others) {
        assert_eq!(recorded.counter(name), Some(0), "{name}");
    }
    drop(coordinator);

    let recorded = RecordedMetrics::default();
    let worker = metrics::with_local_recorder(&recorded, || cluster.executor(&heartbeat));
    for outcome in ["done", "failed", "poison", "port_away"] {
        let name = format!("stemma_tasks_total outcome={outcome} stage=behave");
        assert_eq!(recorded.counter(&name), Some(0), "{name}");
    }
    assert_eq!(recorded.counter(&others[1]), Some(0));
    drop(worker);
}

/// A coordinator without workers, and what it reports.
struct Monitored {
    cluster: ProbeCluster,
    heartbeat: Arc<HeartbeatReporter>,
    recorded: Arc<RecordedMetrics>,
    stop: CancellationToken,
}

impl Monitored {
    fn start(recorded: Arc<RecordedMetrics>) -> Self {
        let (cluster, _) = ProbeCluster::new(FaultPlan::default());
        let heartbeat = HeartbeatReporter::new(&cluster.env, "coordinator", "coordinator");
        let coordinator = cluster.coordinator_of(Arc::clone(&heartbeat), 10);
        let stop = CancellationToken::new();
        let env = &cluster.env;
        env.spawn(coordinator.run(stop.clone()));
        let ports = cluster.ports.clone();
        let watched = Arc::clone(&heartbeat);
        env.spawn(observe_lanes(ports, watched, stop.clone()));
        Self {
            cluster,
            heartbeat,
            recorded,
            stop,
        }
    }

    async fn sleep(&self, seconds: u64) {
        self.cluster.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// Age of the oldest task of a lane in seconds.
    fn oldest(&self, lane: &str) -> f64 {
        let gauge = format!("stemma_lane_oldest_seconds class=bulk lane={lane}");
        self.recorded.gauge(&gauge).unwrap()
    }

    /// The open documents of this state.
    fn open_runs(&self, state: &str) -> f64 {
        let gauge = format!("stemma_open_runs state={state}");
        self.recorded.gauge(&gauge).unwrap()
    }
}

impl Drop for Monitored {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Finding 11 of the operator review: without a worker the age was missing, and with one it was that of the tasks in work.
#[tokio::test(start_paused = true)]
async fn oldest_task_of_a_lane_is_known_while_no_worker_takes_it() {
    let recorded = Arc::new(RecordedMetrics::default());
    let _local = metrics::set_default_local_recorder(&recorded);
    let monitored = Monitored::start(Arc::clone(&recorded));
    let cluster = &monitored.cluster;
    let age = || monitored.oldest("cpu");
    let job = cluster.submit(&["first".into()]).await;
    monitored.sleep(60).await;
    assert!((45.0..=60.0).contains(&age()), "{} s", age());

    // A later task does not make the lane look younger.
    let second = ["second".into()];
    let later = cluster.submit_as("later", Priority::Bulk, &second).await;
    monitored.sleep(60).await;
    assert!((105.0..=120.0).contains(&age()), "{} s", age());
    assert_eq!(monitored.heartbeat.unfinished().len(), 1);
    assert_eq!(monitored.open_runs("active"), 2.0);

    let _worker = cluster.worker("worker", 4);
    for job in [job, later] {
        cluster.report(&job, Duration::from_secs(60)).await;
    }
    monitored.sleep(60).await;
    assert_eq!(age(), 0.0);
}

/// Two alerts that wake a person fired for a job that a person had paused.
#[tokio::test(start_paused = true)]
async fn a_paused_job_does_not_look_like_one_that_is_stuck() {
    let recorded = Arc::new(RecordedMetrics::default());
    let _local = metrics::set_default_local_recorder(&recorded);
    let monitored = Monitored::start(Arc::clone(&recorded));
    let ProbeCluster { ports, .. } = &monitored.cluster;
    let job = monitored.cluster.submit(&["first".into()]).await;
    monitored.sleep(60).await;
    jobs::pause(ports, &job, PauseReason::Person).await.unwrap();
    for _ in 0..4 {
        monitored.sleep(1_800).await;
        assert_eq!(monitored.oldest("cpu"), 0.0);
        assert_eq!(monitored.open_runs("active"), 0.0);
        assert_eq!(monitored.open_runs("paused"), 1.0);
    }

    // The pause does not count as waiting.
    jobs::resume(ports, &job).await.unwrap();
    monitored.sleep(60).await;
    let age = monitored.oldest("cpu");
    assert!((30.0..=60.0).contains(&age), "{age} s");
    assert_eq!(monitored.open_runs("active"), 1.0);
}

/// The same for a job that waits for a batch of its provider, which may take a day.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_batch_does_not_look_like_one_that_is_stuck() {
    let recorded = Arc::new(RecordedMetrics::default());
    let _local = metrics::set_default_local_recorder(&recorded);
    let monitored = Monitored::start(Arc::clone(&recorded));
    let ProbeCluster { ports, .. } = &monitored.cluster;
    let batch = JobOptions {
        batch: true,
        ..JobOptions::default()
    };
    let document = ["asks a model".into()];
    monitored.cluster.submit_with(batch, &document).await;
    monitored.sleep(60).await;
    let run = RunId("asks-a-model".into());
    let lease = async || {
        let task = ports.ledger.open_tasks(&run).await.unwrap().remove(0);
        let now = ports.env.now_ms();
        let published = DeliveryKind::Published;
        let ledger = &ports.ledger;
        let leased = ledger.lease(&run, &task.key, "worker", now, now + 10_000, published);
        assert!(matches!(leased.await, Ok(Lease::Granted { .. })));
        task.key
    };
    let key = lease().await;
    let waits = Retry {
        code: BATCH_CODE.into(),
        next_ms: ports.env.now_ms() + 24 * 3_600_000,
        counted: false,
    };
    let released = ports.ledger.release(&run, &key, "worker", Some(&waits));
    released.await.unwrap();
    monitored.sleep(120).await;
    for _ in 0..4 {
        assert_eq!(monitored.oldest("llm"), 0.0);
        assert_eq!(monitored.open_runs("active"), 0.0);
        assert_eq!(monitored.open_runs("batch"), 1.0);
        monitored.sleep(1_800).await;
    }

    // Once a worker has taken it again, it counts from then on.
    lease().await;
    monitored.sleep(600).await;
    let age = monitored.oldest("llm");
    assert!((480.0..=600.0).contains(&age), "{age} s");
}

/// The lane ocr is scaled by its own depth, so other lanes do not count towards it.
#[tokio::test(start_paused = true)]
async fn each_lane_has_its_own_depth() {
    let recorded = RecordedMetrics::default();
    let _local = metrics::set_default_local_recorder(&recorded);
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let env = &cluster.env;
    let heartbeat = HeartbeatReporter::new(env, "coordinator", "coordinator");
    let stop = CancellationToken::new();
    let waiting = [
        (QueueName::Lane(Lane::Ocr, Priority::Bulk), 5),
        (QueueName::Continuation(Lane::Ocr, Priority::Bulk), 2),
        (QueueName::Lane(Lane::Ocr, Priority::Interactive), 1),
        (QueueName::Lane(Lane::Cpu, Priority::Bulk), 11),
    ];
    for (queue, count) in waiting {
        let messages = (0..count).map(|_| Message::new(Bytes::from_static(b"{}")));
        let queues = cluster.ports.queue.raw();
        queues.publish(queue, messages.collect()).await.unwrap();
    }
    let ports = cluster.ports.clone();
    env.spawn(observe_lanes(ports, heartbeat, stop.clone()));
    env.sleep(Duration::from_secs(30)).await;
    let depth = |lane: &str, priority: &str| {
        let name = format!("stemma_lane_messages class={priority} lane={lane}");
        recorded.gauge(&name).unwrap()
    };
    assert_eq!(depth("ocr", "bulk"), 7.0);
    assert_eq!(depth("ocr", "interactive"), 1.0);
    assert_eq!(depth("cpu", "bulk"), 11.0);
    assert_eq!(depth("llm", "bulk"), 0.0);
    stop.cancel();
}
