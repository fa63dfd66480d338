//! A reply that was had is stored, or handed on with its task, before its process may end.

use std::time::Duration;

use stemma_engine::dead_letter::{self, DeadLetter};
use stemma_engine_testing::fault::{FaultPlan, Outage};
use stemma_store::blobs::Blobs;
use stemma_store::key::{RunId, RunRef, TaskKey};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Killed,
    Drained,
}

// A worker gets a reply while the store takes nothing, and ends. How often was the model asked?
async fn replies_asked_for(ending: Ending) -> u32 {
    let away = FaultPlan {
        outages: vec![Outage {
            operations: "blobs.put",
            during: 2_000..60_000,
            transient: true,
        }],
        ..FaultPlan::default()
    };
    let cluster = Cluster::new(away);
    let _coordinator = cluster.coordinator();
    let job = cluster.submit(&["asks-1"]).await;
    let stop = CancellationToken::new();
    cluster.env.sleep(Duration::from_secs(1)).await;
    let first = cluster.worker_until("first", &stop);
    // The reply arrives after two seconds.
    cluster.env.sleep(Duration::from_millis(3_500)).await;
    assert_eq!(cluster.runs.of("ask", "asks-1"), 1);
    if ending == Ending::Killed {
        first.abort();
    } else {
        stop.cancel();
        first.await.unwrap();
    }
    let _second = cluster.worker("second");
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(report.counts.done, 1, "{ending:?}");
    let record = cluster.store.get("calls/asks-1").await.unwrap();
    assert_eq!(record.unwrap().as_ref(), b"1", "its record is stored, too");
    cluster.runs.of("ask", "asks-1")
}

#[tokio::test(start_paused = true)]
async fn a_reply_outlives_its_process_while_the_store_is_away() {
    for ending in [Ending::Killed, Ending::Drained] {
        assert_eq!(replies_asked_for(ending).await, 1, "{ending:?}");
    }
}

// Whoever replays a dead letter makes the ledger forget the run, and with it the leases of other tasks.
#[tokio::test(start_paused = true)]
async fn a_call_under_way_is_not_made_again_when_its_run_is_reloaded() {
    let cluster = Cluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let job = cluster.submit(&["asks-long"]).await;
    let stop = CancellationToken::new();
    let _first = cluster.worker_with_tasks("first", 1, &stop);
    // Between two renewals of its lease.
    cluster.env.sleep(Duration::from_secs(76)).await;
    let _second = cluster.worker("second");
    assert_eq!(cluster.runs.of("ask", "asks-long"), 1);
    let letter = DeadLetter {
        id: "letter".into(),
        at_ms: 0,
        queue: None,
        deliveries: 0,
        run: Some(RunRef {
            run: RunId("asks-long".into()),
            header: "c/x/d/asks-long/header".into(),
            scope: "c/x/d/asks-long".into(),
        }),
        key: Some(TaskKey::builder("other", 1).finish()),
        stage: None,
        attempts: 0,
        reason: String::new(),
        begins: String::new(),
    };
    let replayed = dead_letter::replay(&cluster.ports, &letter);
    replayed.await.unwrap();
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(report.counts.done, 1);
    assert_eq!(cluster.runs.of("ask", "asks-long"), 1);
}
