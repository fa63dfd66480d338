//! Conformance suite of the ledger port. Callers pass the time, so nothing waits.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

mod leases;
mod parking;
mod retries;
mod tasks;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, join_all};

use stemma_engine::ledger::{
    DeliveryKind, Lease, Ledger, MAX_REPUBLISH_WAIT, RENEWAL_GRACE, Retry, ScheduledItem,
    StatusRecord, StatusTopic, TaskOutcome, TaskSpec,
};
use stemma_engine::queue::Lane;
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{JobId, RunId, RunRef, TaskKey};

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
    tasks::keeps_the_first_outcome(make().await.ledger).await;
    tasks::reads_on_from_a_cursor(make().await.ledger).await;
    tasks::requests_a_task_once(make().await.ledger).await;
    tasks::returns_overdue_tasks(make().await.ledger).await;
    leases::grants_to_one_holder(make().await.ledger).await;
    leases::counts_attempts_and_crashes(make().await.ledger).await;
    retries::refuses_copies_of_executed_retries(make().await.ledger).await;
    retries::accepts_any_message_after_a_loss(make().await.ledger).await;
    parking::parks_runs(make().await.ledger).await;
    parking::parks_tasks_of_lost_holders(make().await.ledger).await;
    schedules_by_time(make().await.ledger).await;
    stores_watchers(make().await.ledger).await;
    forgets_runs(make().await.ledger).await;
    holds_results(make().await.ledger).await;
    leases::bounds_times_of_clocks_ahead(make().await.ledger).await;
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
