//! Requested tasks of a run and their outcomes.

use super::*;

pub(super) async fn keeps_the_first_outcome(ledger: Arc<dyn Ledger>) {
    let failure = Failure::permanent("test.broken", "page 3 is broken, \"wholly\" é")
        .with_next("send it again");
    let failed = TaskOutcome::Failed(FailureRecord::new(failure, "paginate", 2, 1_234));
    ledger
        .record(&run(), &key(1), done(1))
        .await
        .expect("recorded");
    ledger
        .record(&run(), &key(1), done(2))
        .await
        .expect("recorded");
    ledger
        .record(&run(), &key(2), failed.clone())
        .await
        .expect("recorded");
    ledger
        .record(&run(), &key(2), done(2))
        .await
        .expect("recorded");
    let outcomes = ledger.outcomes(&run(), 0).await.expect("outcomes");
    assert_eq!(outcomes.entries, [(key(1), done(1)), (key(2), failed)]);
    let other = ledger
        .outcomes(&RunId("run-2".into()), 0)
        .await
        .expect("outcomes");
    assert!(other.entries.is_empty(), "runs must be separate");
}

pub(super) async fn reads_on_from_a_cursor(ledger: Arc<dyn Ledger>) {
    ledger
        .record(&run(), &key(1), done(1))
        .await
        .expect("recorded");
    let first = ledger.outcomes(&run(), 0).await.expect("outcomes");
    ledger
        .record(&run(), &key(1), done(1))
        .await
        .expect("recorded");
    let nothing = ledger.outcomes(&run(), first.next).await.expect("outcomes");
    assert!(nothing.entries.is_empty() && nothing.epoch == first.epoch);
    let large = TaskOutcome::Done(Bytes::from(format!(
        "\"{}\"",
        "x".repeat(stemma_store::artifact::MAX_OUTCOME_BYTES - 2)
    )));
    ledger
        .record(&run(), &key(2), large.clone())
        .await
        .expect("recorded");
    let second = ledger
        .outcomes(&run(), nothing.next)
        .await
        .expect("outcomes");
    assert_eq!(second.entries, [(key(2), large)]);
    join_all((10..60).map(|n| {
        let ledger = Arc::clone(&ledger);
        async move {
            ledger
                .record(&run(), &key(n), done(n))
                .await
                .expect("recorded");
        }
    }))
    .await;
    let third = ledger
        .outcomes(&run(), second.next)
        .await
        .expect("outcomes");
    assert_eq!(
        third.entries.len(),
        50,
        "a cursor must not skip concurrent records"
    );
}

pub(super) async fn requests_a_task_once(ledger: Arc<dyn Ledger>) {
    ledger
        .record(&run(), &key(9), done(9))
        .await
        .expect("recorded");
    let new = ledger
        .request_tasks(
            &run(),
            &[task_spec(2), task_spec(1), task_spec(9), task_spec(2)],
            0,
            60,
        )
        .await
        .expect("wanted");
    assert_eq!(
        new,
        [key(2), key(1)],
        "in the given order, without duplicates and ended tasks"
    );
    let new = ledger
        .request_tasks(&run(), &[task_spec(1), task_spec(3)], 5, 65)
        .await
        .expect("wanted");
    assert_eq!(new, [key(3)]);
    assert_eq!(
        ledger
            .request_tasks(&run(), &[], 0, 0)
            .await
            .expect("wanted"),
        []
    );
    let run_2 = RunId("run-2".into());
    let tasks = [task_spec(1)];
    let racers = join_all((0..8).map(|_| ledger.request_tasks(&run_2, &tasks, 0, 60))).await;
    let new: usize = racers
        .into_iter()
        .map(|new| new.expect("wanted").len())
        .sum();
    assert_eq!(new, 1, "new for one caller only");
    let open = ledger.open_tasks(&run()).await.expect("open tasks");
    let mut keys = vec![key(1), key(2), key(3)];
    keys.sort();
    assert_eq!(
        open.iter().map(|task| task.key).collect::<Vec<_>>(),
        keys,
        "in key order"
    );
    assert!(
        open.iter()
            .all(|task| task.lease.is_none() && task.retry.is_none() && task.attempts == 0)
    );
    assert!(
        open.iter()
            .all(|task| task.stage == "summarize" && task.lane == Lane::Llm)
    );
    assert!(
        ledger
            .open_tasks(&RunId("run-3".into()))
            .await
            .expect("open tasks")
            .is_empty()
    );
}

pub(super) async fn returns_overdue_tasks(ledger: Arc<dyn Ledger>) {
    let min = 60_000;
    let run = run();
    ledger
        .request_tasks(&run, &[task_spec(1), task_spec(2), task_spec(3)], 0, min)
        .await
        .expect("wanted");
    ledger
        .record(&run, &key(2), done(2))
        .await
        .expect("recorded");
    ledger
        .lease(
            &run,
            &key(3),
            "worker-1",
            0,
            min + 1,
            DeliveryKind::Published,
        )
        .await
        .expect("leased");
    let overdue = async |now_ms| ledger.overdue(&run, now_ms, now_ms).await.expect("overdue");
    let republish = async |keys: &[TaskKey], now_ms| {
        let marked = ledger.mark_republished(&run, keys, now_ms).await;
        marked.expect("marked");
    };
    let mut both = vec![key(1), key(3)];
    both.sort();
    assert!(overdue(min - 1).await.is_empty());
    assert_eq!(overdue(min).await, [key(1)], "no outcome, no lease, due");
    assert_eq!(
        overdue(min + 1).await,
        both,
        "a lease ran out; in key order"
    );
    assert_eq!(overdue(min + 1).await, both, "not published yet");
    republish(&[key(1)], min).await;
    republish(&[key(2), key(3)], min + 1).await;
    assert!(overdue(3 * min - 1).await.is_empty(), "the wait doubles");
    assert_eq!(overdue(3 * min + 2).await, both);
    republish(&both, 3 * min + 2).await;
    assert!(overdue(7 * min).await.is_empty(), "and doubles again");
    let longest = u64::try_from(MAX_REPUBLISH_WAIT.as_millis()).expect("a time");
    let mut now_ms = 3 * min + 2;
    for _ in 0..6 {
        now_ms += longest;
        assert_eq!(overdue(now_ms).await, both, "up to a bound");
        republish(&both, now_ms).await;
    }
    // Published by a process whose clock is a day ahead; a clock that lags on purpose is not a reason.
    republish(&both, now_ms + 86_400_000).await;
    assert_eq!(overdue(now_ms).await, both);
    republish(&both, now_ms).await;
    let lagging = ledger.overdue(&run, now_ms - 3_600_000, now_ms).await;
    assert!(lagging.expect("overdue").is_empty());
    let other = RunId("run-2".into());
    assert!(
        ledger
            .overdue(&other, 0, 0)
            .await
            .expect("overdue")
            .is_empty()
    );
    ledger
        .mark_republished(&other, &both, 0)
        .await
        .expect("no such run");
}
