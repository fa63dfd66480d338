//! What monitoring sees of coordinators and workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::lane_metrics::observe_lanes;
use stemma_engine_testing::fault::FaultPlan;
use tokio_util::sync::CancellationToken;

use crate::cluster::ProbeCluster;

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
    let presence = HeartbeatReporter::new(&cluster.env, "both", "both");
    let coordinator = metrics::with_local_recorder(&recorded, || {
        cluster.coordinator_of(Arc::clone(&presence), 1)
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
    let worker = metrics::with_local_recorder(&recorded, || cluster.executor(&presence));
    for outcome in ["done", "failed", "poison", "port_away"] {
        let name = format!("stemma_tasks_total outcome={outcome} stage=behave");
        assert_eq!(recorded.counter(&name), Some(0), "{name}");
    }
    assert_eq!(recorded.counter(&others[1]), Some(0));
    drop(worker);
}

/// Finding 11 of the operator review: without a worker the age was missing, and with one it was that of the tasks in work.
#[tokio::test(start_paused = true)]
async fn oldest_task_of_a_lane_is_known_while_no_worker_takes_it() {
    let recorded = RecordedMetrics::default();
    let _local = metrics::set_default_local_recorder(&recorded);
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let presence = HeartbeatReporter::new(&cluster.env, "coordinator", "coordinator");
    let coordinator = cluster.coordinator_of(Arc::clone(&presence), 10);
    let stop = CancellationToken::new();
    let env = &cluster.env;
    env.spawn(coordinator.run(stop.clone()));
    let ports = cluster.ports.clone();
    let watched = Arc::clone(&presence);
    env.spawn(observe_lanes(env.clone(), ports, watched, stop.clone()));
    let age = || {
        let gauge = "stemma_lane_oldest_seconds class=bulk lane=cpu";
        recorded.gauge(gauge).unwrap()
    };
    let job = cluster.submit(&["first".into()]).await;
    env.sleep(Duration::from_secs(60)).await;
    assert!((45.0..=60.0).contains(&age()), "{} s", age());

    // A later task does not make the lane look younger.
    let second = ["second".into()];
    let later = cluster
        .submit_as("later", stemma_engine::Priority::Bulk, &second)
        .await;
    env.sleep(Duration::from_secs(60)).await;
    assert!((105.0..=120.0).contains(&age()), "{} s", age());
    assert_eq!(presence.unfinished().len(), 1);

    let _worker = cluster.worker("worker", 4);
    for job in [job, later] {
        cluster.report(&job, Duration::from_secs(60)).await;
    }
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(age(), 0.0);
    stop.cancel();
}
