//! Conformance suite of the ledger port. Callers pass the time, so nothing waits.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

mod parking;
mod retries;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, join_all};

use stemma_engine::env::Millis;
use stemma_engine::failure::{Failure, FailureRecord};
use stemma_engine::key::{JobId, RunId, RunRef, TaskKey};
use stemma_engine::ledger::{
    DeliveryKind, Lease, Ledger, MAX_REPUBLISH_WAIT, RENEWAL_GRACE, Retry, ScheduledItem,
    StatusRecord, StatusTopic, TaskOutcome, TaskSpec,
};
use stemma_engine::queue::Lane;

pub struct LedgerUnderTest {
    pub ledger: Arc<dyn Ledger>,
    /// Makes the ledger lose everything.
    pub flush: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

/// Checks that an adapter keeps the guarantees of [`Ledger`]. `make` returns an empty ledger.
///
/// # Panics
/// When a guarantee is broken.
pub async fn conformance<F: Future<Output = LedgerUnderTest>>(make: impl Fn() -> F) {
    keeps_the_first_outcome(make().await.ledger).await;
    reads_on_from_a_cursor(make().await.ledger).await;
    requests_a_task_once(make().await.ledger).await;
    returns_overdue_tasks(make().await.ledger).await;
    leases_to_one_holder(make().await.ledger).await;
    counts_attempts_and_crashes(make().await.ledger).await;
    retries::refuses_copies_of_executed_retries(make().await.ledger).await;
    retries::accepts_any_message_after_a_loss(make().await.ledger).await;
    parking::parks_runs(make().await.ledger).await;
    parking::parks_tasks_of_lost_holders(make().await.ledger).await;
    schedules_by_time(make().await.ledger).await;
    stores_watchers(make().await.ledger).await;
    forgets_runs(make().await.ledger).await;
    holds_results(make().await.ledger).await;
    bounds_times_of_clocks_ahead(make().await.ledger).await;
    expires_status_records(make().await.ledger).await;
    survives_flush(make().await).await;
}

fn key(n: u64) -> TaskKey {
    TaskKey::builder("conformance", 1).number(n).finish()
}

fn task_spec(n: u64) -> TaskSpec {
    TaskSpec {
        key: key(n),
        stage: "summarize".into(),
        lane: Lane::Llm,
    }
}

/// A counted failure that is retried at 500.
fn failed() -> Retry {
    Retry {
        code: "test.failed".into(),
        next_ms: 500,
        counted: true,
    }
}

fn run() -> RunId {
    RunId("run-1".into())
}

fn done(n: u64) -> TaskOutcome {
    TaskOutcome::Done(Bytes::from(format!("{{\"n\":{n}}}")))
}

fn is_granted(lease: &Lease) -> bool {
    matches!(lease, Lease::Granted { .. })
}

async fn keeps_the_first_outcome(ledger: Arc<dyn Ledger>) {
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

async fn reads_on_from_a_cursor(ledger: Arc<dyn Ledger>) {
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
        "x".repeat(stemma_engine::artifact::MAX_OUTCOME_BYTES - 2)
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

async fn requests_a_task_once(ledger: Arc<dyn Ledger>) {
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

async fn returns_overdue_tasks(ledger: Arc<dyn Ledger>) {
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
    // Published by a process whose clock is a day ahead; a clock that lags on purpose is no reason.
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

async fn leases_to_one_holder(ledger: Arc<dyn Ledger>) {
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

async fn counts_attempts_and_crashes(ledger: Arc<dyn Ledger>) {
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

async fn schedules_by_time(ledger: Arc<dyn Ledger>) {
    let job = |n: u32| ScheduledItem::Job(JobId(format!("job-{n}")));
    let at = RunRef {
        run: run(),
        header: "c/x/h".into(),
        scope: "c/x".into(),
    };
    ledger.schedule(&job(1), 300).await.expect("scheduled");
    ledger.schedule(&job(2), 100).await.expect("scheduled");
    ledger
        .schedule(&ScheduledItem::Run(at.clone()), 200)
        .await
        .expect("scheduled");
    ledger.schedule(&job(2), 900).await.expect("scheduled"); // ignored: scheduled earlier already
    ledger.schedule(&job(1), 150).await.expect("scheduled");
    assert!(
        ledger
            .claim_due(99, 1_000, 10)
            .await
            .expect("due")
            .is_empty()
    );
    assert_eq!(
        ledger.claim_due(250, 1_000, 2).await.expect("due"),
        [job(2), job(1)],
        "earliest first, at most two"
    );
    assert_eq!(
        ledger.claim_due(250, 1_000, 2).await.expect("due"),
        [ScheduledItem::Run(at.clone())],
        "claimed items must not be returned again"
    );
    assert!(
        ledger
            .claim_due(999, 2_000, 10)
            .await
            .expect("due")
            .is_empty()
    );
    ledger.unschedule(&job(1)).await.expect("unscheduled");
    ledger.unschedule(&job(7)).await.expect("unscheduled");
    let mut again = ledger.claim_due(1_000, 2_000, 10).await.expect("due");
    again.sort();
    assert_eq!(again, [ScheduledItem::Run(at), job(2)]);
}

async fn stores_watchers(ledger: Arc<dyn Ledger>) {
    for job in ["b", "a", "b"] {
        ledger
            .add_watcher(&run(), &JobId(job.into()))
            .await
            .expect("watched");
    }
    let watchers = ledger.watchers(&run()).await.expect("watchers");
    assert_eq!(
        watchers,
        [JobId("a".into()), JobId("b".into())],
        "each once, in order"
    );
    assert!(
        ledger
            .watchers(&RunId("run-2".into()))
            .await
            .expect("watchers")
            .is_empty()
    );
}

// A process a day ahead must not keep others from its work for a day.
async fn bounds_times_of_clocks_ahead(ledger: Arc<dyn Ledger>) {
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

async fn holds_results(ledger: Arc<dyn Ledger>) {
    let run = run();
    let held = async |n, now_ms| {
        let held = ledger.held_result(&run, &key(n), now_ms).await;
        held.expect("an answer")
    };
    assert_eq!(held(1, 0).await, None);
    let result = Bytes::from_static(b"\0 a reply");
    for n in [1, 2] {
        ledger
            .hold_result(&run, &key(n), result.clone(), 0, 60_000)
            .await
            .expect("held");
    }
    assert_eq!(held(1, 1_000).await, Some(result.clone()));
    ledger.drop_result(&run, &key(1)).await.expect("dropped");
    assert_eq!(held(1, 1_000).await, None);
    assert_eq!(held(2, 1_000).await, Some(result), "of one task");
    ledger.drop_result(&run, &key(1)).await.expect("again");
}

async fn forgets_runs(ledger: Arc<dyn Ledger>) {
    let run = run();
    let other = RunId("run-2".into());
    for run in [&run, &other] {
        ledger
            .record(run, &key(1), done(1))
            .await
            .expect("recorded");
        ledger
            .request_tasks(run, &[task_spec(2)], 0, 60)
            .await
            .expect("wanted");
        ledger
            .add_watcher(run, &JobId("job".into()))
            .await
            .expect("watched");
    }
    let before = ledger.outcomes(&run, 0).await.expect("outcomes");
    ledger.forget_run(&run).await.expect("forgotten");
    ledger.forget_run(&run).await.expect("forgotten");
    let after = ledger.outcomes(&run, before.next).await.expect("outcomes");
    assert!(
        after.epoch != before.epoch && after.entries.is_empty(),
        "another memory"
    );
    assert!(ledger.watchers(&run).await.expect("watchers").is_empty());
    assert_eq!(
        ledger
            .request_tasks(&run, &[task_spec(2)], 0, 60)
            .await
            .expect("wanted"),
        [key(2)]
    );
    assert_eq!(
        ledger
            .outcomes(&other, 0)
            .await
            .expect("outcomes")
            .entries
            .len(),
        1,
        "others stay"
    );
}

async fn expires_status_records(ledger: Arc<dyn Ledger>) {
    let record = |name: &str, body: &str, until_ms| StatusRecord {
        name: name.into(),
        body: Bytes::from(body.to_string()),
        until_ms,
    };
    let names = |notices: Vec<StatusRecord>| {
        notices
            .into_iter()
            .map(|record| record.name)
            .collect::<Vec<_>>()
    };
    for (name, body, until) in [
        ("w-2", "{}", 2_000),
        ("w-1", "{}", 1_000),
        ("w-2", "{\"busy\":1}", 3_000),
    ] {
        ledger
            .post_status(StatusTopic::Processes, record(name, body, until), 0)
            .await
            .expect("posted");
    }
    ledger
        .post_status(StatusTopic::Jobs, record("j-1", "{}", 9_000), 0)
        .await
        .expect("posted");
    let processes = ledger
        .status_records(StatusTopic::Processes, 999)
        .await
        .expect("notices");
    assert_eq!(
        processes.last().map(|notice| notice.body.as_ref()),
        Some(&b"{\"busy\":1}"[..]),
        "the later record wins"
    );
    assert_eq!(
        names(processes),
        ["w-1", "w-2"],
        "in order of names, topics separate"
    );
    assert_eq!(
        names(
            ledger
                .status_records(StatusTopic::Processes, 1_000)
                .await
                .expect("notices")
        ),
        ["w-2"],
        "expired records are gone"
    );
    assert!(
        ledger
            .status_records(StatusTopic::Processes, 3_000)
            .await
            .expect("notices")
            .is_empty()
    );
}

async fn survives_flush(subject: LedgerUnderTest) {
    let LedgerUnderTest { ledger, flush } = subject;
    ledger
        .record(&run(), &key(1), done(1))
        .await
        .expect("recorded");
    ledger
        .schedule(&ScheduledItem::Job(JobId("job".into())), 0)
        .await
        .expect("scheduled");
    let before = ledger.outcomes(&run(), 0).await.expect("outcomes");
    let same = ledger
        .outcomes(&run(), before.next)
        .await
        .expect("outcomes");
    assert_eq!(before.epoch, same.epoch);
    flush().await;
    let after = ledger
        .outcomes(&run(), before.next)
        .await
        .expect("outcomes");
    assert_ne!(
        before.epoch, after.epoch,
        "the epoch must change, so that old cursors are detected"
    );
    assert!(
        ledger
            .outcomes(&run(), 0)
            .await
            .expect("outcomes")
            .entries
            .is_empty()
    );
    assert!(
        ledger
            .claim_due(1_000, 2_000, 10)
            .await
            .expect("due")
            .is_empty()
    );
    ledger
        .record(&run(), &key(1), done(2))
        .await
        .expect("recorded");
    assert_eq!(
        ledger.outcomes(&run(), 0).await.expect("outcomes").entries,
        [(key(1), done(2))]
    );
}
