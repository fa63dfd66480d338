//! Artifacts that are torn, missing, or of another program, with a role that may not delete.

use std::time::Duration;

use bytes::Bytes;
use stemma_engine::jobs::EntryCounts;
use stemma_engine_testing::fault::{FaultPlan, Outage};
use stemma_store::blobs::Blobs;

use super::cluster::Cluster;

/// Every deletion is refused, as for a worker's role on S3.
fn no_deletions() -> FaultPlan {
    FaultPlan {
        outages: vec![Outage {
            operations: "blobs.delete",
            during: 0..u64::MAX,
            transient: false,
        }],
        ..FaultPlan::default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Harm {
    Header,
    Blob,
    Missing,
    Newer,
}

// Harms the artifact of `make` as soon as it exists, and returns how the job ends, and how often `make` ran.
async fn end_after(harm: Harm) -> (EntryCounts, u32) {
    let cluster = Cluster::new(no_deletions());
    let job = cluster.submit(&["a"]).await;
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker");
    let key = cluster.made("a").await;
    let mut bytes = cluster.store.get(&key).await.unwrap().unwrap().to_vec();
    match harm {
        Harm::Header => bytes[44] ^= 1,
        Harm::Blob => *bytes.last_mut().unwrap() ^= 1,
        Harm::Newer => bytes[3] = b'2',
        Harm::Missing => {}
    }
    if matches!(harm, Harm::Missing) {
        cluster.store.delete(&key).await.unwrap();
    } else {
        cluster.overwrite(&key, Bytes::from(bytes)).await;
    }
    let report = cluster.report(&job, Duration::from_secs(3_600)).await;
    (report.counts, cluster.runs.of("make", "a"))
}

/// D19 of the engine review: whatever could not be read was deleted, and a role without that right tried for ever.
#[tokio::test(start_paused = true)]
async fn torn_or_missing_artifact_is_made_anew_without_a_deletion() {
    for harm in [Harm::Header, Harm::Blob, Harm::Missing] {
        let (counts, made) = end_after(harm).await;
        assert_eq!((counts.done, made), (1, 2), "{harm:?}: {counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn artifact_of_a_newer_program_ends_the_run_and_stays() {
    let (counts, made) = end_after(Harm::Newer).await;
    assert_eq!((counts.failed, made), (1, 1), "{counts:?}");
}
