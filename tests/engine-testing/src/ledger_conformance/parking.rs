//! Runs of paused jobs.

use super::*;

pub(super) async fn parks_runs(ledger: Arc<dyn Ledger>) {
    let run = run();
    let lease = async |n, holder: &str, now_ms| {
        let key = key(n);
        let lease = ledger.lease(
            &run,
            &key,
            holder,
            now_ms,
            now_ms + 100,
            DeliveryKind::Published,
        );
        lease.await.expect("an answer")
    };
    let overdue = async |due_by_ms| {
        let overdue = ledger.overdue(&run, due_by_ms, 1_000).await;
        overdue.expect("overdue")
    };
    let is_parked = async || ledger.outcomes(&run, 0).await.expect("outcomes").parked;
    ledger.park_run(&run, true).await.expect("no such run");
    assert!(!is_parked().await, "an unknown run is not parked");
    let tasks = [1, 2, 3].map(task_spec);
    let requested = ledger.request_tasks(&run, &tasks, 0, 10_000).await;
    assert_eq!(requested.expect("wanted").len(), 3);
    assert!(is_granted(&lease(1, "a", 10).await));
    for _ in 0..2 {
        ledger.park_run(&run, true).await.expect("parked");
    }
    assert!(is_parked().await);
    assert!(is_granted(&lease(1, "a", 50).await), "what runs goes on");
    assert!(matches!(
        lease(1, "b", 60).await,
        Lease::LeasedElsewhere { .. }
    ));
    assert_eq!(lease(2, "b", 60).await, Lease::Parked);
    assert_eq!(lease(2, "b", 61).await, Lease::Parked, "asked again");
    assert_eq!(
        overdue(1).await,
        [key(2)],
        "it was given back, whatever its due time"
    );
    ledger
        .record(&run, &key(1), done(1))
        .await
        .expect("recorded");
    assert_eq!(lease(1, "b", 70).await, Lease::Ended);
    ledger.park_run(&run, false).await.expect("goes on");
    assert!(!is_parked().await);
    assert_eq!(overdue(1).await, [key(2)], "until it is published again");
    ledger
        .mark_republished(&run, &[key(2)], 1_000)
        .await
        .expect("published");
    assert_eq!(overdue(10_999).await, [key(3)], "not earlier");
    let mut both = [key(2), key(3)];
    both.sort();
    assert_eq!(overdue(11_000).await, both, "it waits as long as before");
    assert!(is_granted(&lease(2, "b", 2_000).await));
    assert!(
        is_granted(&lease(3, "b", 2_000).await),
        "it was not asked for"
    );
    ledger.forget_run(&run).await.expect("forgotten");
    assert!(!is_parked().await);
}

/// A holder that disappeared before its run was parked.
pub(super) async fn parks_tasks_of_lost_holders(ledger: Arc<dyn Ledger>) {
    let run = run();
    let grace = RENEWAL_GRACE.as_millis() as Millis;
    ledger
        .request_tasks(&run, &[task_spec(1)], 0, 60)
        .await
        .expect("wanted");
    let lease = async |holder: &str, now_ms| {
        let key = key(1);
        let lease = ledger.lease(
            &run,
            &key,
            holder,
            now_ms,
            now_ms + 100,
            DeliveryKind::Redelivered,
        );
        lease.await.expect("an answer")
    };
    assert!(is_granted(&lease("a", 0).await));
    ledger.park_run(&run, true).await.expect("parked");
    assert!(!is_granted(&lease("b", 200).await), "a may renew it");
    assert_eq!(lease("b", 201 + grace).await, Lease::Parked);
    let open = ledger.open_tasks(&run).await.expect("open tasks");
    assert_eq!(open.first().and_then(|task| task.lease.clone()), None);
    ledger.park_run(&run, false).await.expect("goes on");
    assert!(is_granted(&lease("b", 300 + grace).await));
}
