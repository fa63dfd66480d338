//! Leases: one holder, attempts, crashes, clocks that are wrong.

use super::*;

pub(super) async fn grants_to_one_holder(ledger: Arc<dyn Ledger>) {
    let run = run();
    let unwanted = Lease::Granted {
        attempts: 0,
        crashes: 0,
        is_requested: false,
    };
    let racers = (0..8).map(|n| {
        let ledger = Arc::clone(&ledger);
        let run = run.clone();
        async move {
            ledger
                .lease(
                    &run,
                    &key(1),
                    &format!("worker-{n}"),
                    100,
                    200,
                    DeliveryKind::Published,
                )
                .await
                .expect("an answer")
        }
    });
    let granted_to = join_all(racers)
        .await
        .into_iter()
        .filter(is_granted)
        .count();
    assert_eq!(granted_to, 1, "one holder at a time");
    ledger
        .request_tasks(&run, &[task_spec(2)], 0, 60)
        .await
        .expect("wanted");
    let lease = ledger
        .lease(&run, &key(2), "a", 100, 200, DeliveryKind::Published)
        .await
        .expect("an answer");
    assert_eq!(
        lease,
        Lease::Granted {
            attempts: 0,
            crashes: 0,
            is_requested: true
        }
    );
    let second = ledger
        .lease(&run, &key(2), "b", 199, 300, DeliveryKind::Published)
        .await
        .expect("an answer");
    assert_eq!(
        second,
        Lease::LeasedElsewhere {
            holder: "a".into(),
            until_ms: 200
        }
    );
    assert!(
        is_granted(
            &ledger
                .lease(&run, &key(2), "a", 150, 400, DeliveryKind::Published)
                .await
                .expect("an answer")
        ),
        "renewed"
    );
    assert!(!is_granted(
        &ledger
            .lease(&run, &key(2), "b", 300, 500, DeliveryKind::Published)
            .await
            .expect("an answer")
    ));
    let open = ledger.open_tasks(&run).await.expect("open tasks");
    assert_eq!(
        open.iter()
            .find(|task| task.key == key(2))
            .and_then(|task| task.lease.clone()),
        Some(("a".into(), 400))
    );
    ledger
        .release(&run, &key(2), "b", None)
        .await
        .expect("released");
    assert!(
        !is_granted(
            &ledger
                .lease(&run, &key(2), "b", 300, 500, DeliveryKind::Published)
                .await
                .expect("an answer")
        ),
        "not b's to release"
    );
    ledger
        .release(&run, &key(2), "a", None)
        .await
        .expect("released");
    assert!(is_granted(
        &ledger
            .lease(&run, &key(2), "b", 300, 500, DeliveryKind::Published)
            .await
            .expect("an answer")
    ));
    ledger
        .record(&run, &key(2), done(2))
        .await
        .expect("recorded");
    assert_eq!(
        ledger
            .lease(&run, &key(2), "c", 300, 500, DeliveryKind::Published)
            .await
            .expect("an answer"),
        Lease::Ended
    );
    assert_eq!(
        ledger
            .lease(&run, &key(3), "c", 300, 500, DeliveryKind::Published)
            .await
            .expect("an answer"),
        unwanted
    );
}

pub(super) async fn counts_attempts_and_crashes(ledger: Arc<dyn Ledger>) {
    let run = run();
    ledger
        .request_tasks(&run, &[task_spec(1)], 0, 60)
        .await
        .expect("wanted");
    ledger
        .lease(&run, &key(1), "a", 0, 100, DeliveryKind::Published)
        .await
        .expect("leased");
    assert_eq!(
        ledger
            .release(&run, &key(1), "a", Some(&failed()))
            .await
            .expect("released"),
        1
    );
    assert_eq!(
        ledger
            .release(&run, &key(1), "a", Some(&failed()))
            .await
            .expect("released"),
        1,
        "asked twice, counted once"
    );
    let open = ledger.open_tasks(&run).await.expect("open tasks");
    assert_eq!(
        open.first().and_then(|task| task.retry.clone()),
        Some(failed()),
        "why it waits"
    );
    ledger
        .lease(&run, &key(1), "a", 10, 100, DeliveryKind::Published)
        .await
        .expect("leased");
    let open = ledger.open_tasks(&run).await.expect("open tasks");
    assert_eq!(
        open.first().and_then(|task| task.retry.clone()),
        None,
        "it is worked on"
    );
    let uncounted = Retry {
        counted: false,
        ..failed()
    };
    assert_eq!(
        ledger
            .release(&run, &key(1), "a", Some(&uncounted))
            .await
            .expect("released"),
        1,
        "not counted"
    );
    ledger
        .lease(&run, &key(1), "a", 15, 100, DeliveryKind::Published)
        .await
        .expect("leased");
    assert_eq!(
        ledger
            .release(&run, &key(1), "a", None)
            .await
            .expect("released"),
        1,
        "not counted"
    );
    ledger
        .lease(&run, &key(1), "a", 20, 100, DeliveryKind::Published)
        .await
        .expect("leased");
    let crashes_after = |lease: Lease| match lease {
        Lease::Granted { crashes, .. } => Some(crashes),
        _ => None,
    };
    let lease = async |holder: &str, now_ms, redelivered| {
        let until_ms = now_ms + 100;
        let delivery = match redelivered {
            true => DeliveryKind::Redelivered,
            false => DeliveryKind::Published,
        };
        ledger
            .lease(&run, &key(1), holder, now_ms, until_ms, delivery)
            .await
            .map(crashes_after)
            .expect("an answer")
    };
    let grace = RENEWAL_GRACE.as_millis() as Millis;
    assert_eq!(lease("b", 200, false).await, None, "a may renew it");
    assert_eq!(lease("c", 200 + grace - 1, false).await, None, "still");
    let now = 200 + grace;
    assert_eq!(
        lease("b", now, false).await,
        Some(0),
        "expired, but answered"
    );
    assert_eq!(
        lease("b", now + 200, true).await,
        Some(0),
        "its own expired lease"
    );
    assert_eq!(lease("c", now + 300, true).await, None, "b may renew it");
    let now = now + 300 + grace;
    assert_eq!(
        lease("c", now, false).await,
        Some(1),
        "redelivered and expired"
    );
    assert_eq!(
        lease("d", now + 50, true).await,
        None,
        "redelivered while leased"
    );
    assert_eq!(lease("d", now + 100, false).await, None, "c may renew it");
    let now = now + 100 + grace;
    assert_eq!(lease("d", now, false).await, Some(2), "and expired since");
    assert_eq!(
        lease("e", now + 50, true).await,
        None,
        "redelivered while leased"
    );
    assert_eq!(lease("e", now + 100, false).await, None, "d may renew it");
    assert_eq!(
        lease("d", now + 200, false).await,
        Some(2),
        "its holder is alive"
    );
    assert_eq!(
        lease("e", now + 300, false).await,
        None,
        "d may renew it again"
    );
    assert_eq!(
        lease("e", now + 300 + grace, false).await,
        Some(2),
        "and could not release it"
    );
}

// A process a day ahead must not keep others from its work for a day.
pub(super) async fn bounds_times_of_clocks_ahead(ledger: Arc<dyn Ledger>) {
    let run = run();
    let day = 86_400_000;
    let take = async |holder, now_ms, until_ms| {
        ledger
            .lease(
                &run,
                &key(1),
                holder,
                now_ms,
                until_ms,
                DeliveryKind::Published,
            )
            .await
            .expect("an answer")
    };
    assert!(is_granted(&take("ahead", day, day + 30_000).await));
    assert!(!is_granted(&take("b", 0, 30_000).await));
    let mut now_ms = 0;
    while !is_granted(&take("b", now_ms, now_ms + 30_000).await) {
        now_ms += 5_000;
        assert!(now_ms < 200_000, "it is leased to a crashed process");
    }
    let item = ScheduledItem::Job(JobId("ahead".into()));
    ledger.schedule(&item, day).await.expect("scheduled");
    let due = ledger.claim_due(1_000, 61_000, 10).await;
    assert_eq!(due.expect("claimed"), [item]);
    let due = ledger.claim_due(1_000, 61_000, 10).await;
    assert!(due.expect("claimed").is_empty());
}
