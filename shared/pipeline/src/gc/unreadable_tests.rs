//! Tests of jobs that cannot be read: they and what they may need stay, and nothing else does.

use serde_json::json;
use stemma_store::JobId;

use super::tests::{GcFixture, NOW};
use super::*;

/// F8 of the operator review, of the same kind: nothing was collected any more.
#[tokio::test]
async fn a_job_that_cannot_be_read_is_kept_and_stops_nothing() {
    for damaged in ["manifest.json", "report.json"] {
        let fixture = GcFixture::new();
        fixture.job("a", "first", Some(91)).await;
        fixture.job("b", "second", Some(91)).await;
        let key = format!("jobs/a/{damaged}");
        fixture.blobs.delete(&key).await.unwrap();
        fixture.blobs.put(&key, vec![0, 1].into()).await.unwrap();
        let left = fixture.remove_jobs().await;
        let of = |job: &str| left.iter().filter(|key| key.starts_with(job)).count();
        assert_eq!((of("jobs/a/"), of("jobs/b/")), (5, 0), "{left:?}");
    }
}

#[tokio::test]
async fn a_job_whose_manifest_cannot_be_read_keeps_the_versions_since_then() {
    let fixture = GcFixture::new();
    for (seq, days_ago) in (1..=5).zip([60, 50, 40, 30, 3]) {
        fixture.publish(seq, &format!("t{seq}"), days_ago).await;
    }
    assert_ne!(fixture.garbage().await, [""; 0]);
    let job = JobId::new(NOW - 55 * DAY_MS, 1);
    let manifest = format!("jobs/{job}/manifest.json");
    let damaged = fixture.blobs.put(&manifest, vec![0, 1].into());
    damaged.await.unwrap();
    assert_eq!(fixture.garbage().await, [""; 0]);
}

#[tokio::test]
async fn entries_that_cannot_be_read_keep_all_originals() {
    let of_newer_release = json!([{ "weight": 1, "input": { "pointer": "x" } }]).to_string();
    for chunk in [of_newer_release, "[{".into()] {
        let fixture = GcFixture::new();
        fixture.store_original("kept").await;
        let key = "jobs/j-open/entries/a/000000.json";
        fixture.put("jobs/j-open/manifest.json", &json!({})).await;
        fixture.blobs.put(key, chunk.into()).await.unwrap();
        for days in [0, 8, 16] {
            assert_eq!(fixture.originals_after(days).await.len(), 1);
        }
        fixture.blobs.delete(key).await.unwrap();
        fixture.originals_after(16).await;
        assert_eq!(fixture.originals_after(24).await, [""; 0]);
    }
}

#[tokio::test]
async fn originals_of_a_job_whose_manifest_cannot_be_read_stay_and_others_go() {
    let fixture = GcFixture::new();
    fixture.put("jobs/j-open/manifest.json", &json!({})).await;
    let submitted = fixture.store_original("submitted").await;
    fixture.submit("jobs/j-open/entries/a", submitted).await;
    fixture.store_original("unused").await;
    fixture.originals_after(0).await;
    let left = fixture.originals_after(8).await;
    assert_eq!(left, [submitted.to_string()]);
}
