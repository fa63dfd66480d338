//! The Redis ledger on a healthy server.

use std::sync::Arc;

use bytes::Bytes;
use stemma_adapters::redis::RedisLedger;
use stemma_engine::ledger::{
    DeliveryKind, Lease, Ledger, ScheduledItem, StatusRecord, StatusTopic, TaskOutcome, TaskSpec,
};
use stemma_engine::queue::Lane;
use stemma_engine_testing::ledger_conformance::{LedgerUnderTest, conformance};
use stemma_store::{JobId, RunId, TaskKey};

use crate::server::SharedRedis;

const WEEK_MS: i64 = 604_800_000;

pub fn key(n: u64) -> TaskKey {
    TaskKey::builder("redis", 1).number(n).finish()
}

pub fn task_spec(n: u64) -> TaskSpec {
    TaskSpec {
        key: key(n),
        stage: "summarize".into(),
        lane: Lane::Llm,
    }
}

pub fn done(n: u64) -> TaskOutcome {
    TaskOutcome::Done(Bytes::from(format!("{{\"n\":{n}}}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_ledger_conforms() {
    if SharedRedis::from_env().is_none() {
        return;
    }
    conformance(|| async {
        let server = Arc::new(SharedRedis::from_env().unwrap());
        let ledger = Arc::new(RedisLedger::new(server.redis.clone()));
        LedgerUnderTest {
            ledger,
            flush: Box::new(move || {
                let server = Arc::clone(&server);
                Box::pin(async move { server.flush().await }) as _
            }),
        }
    })
    .await;
}

// The outcomes of 12,000 tasks are read in several pages, complete and in order.
#[tokio::test]
async fn reads_long_runs_in_parts() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let ledger = RedisLedger::new(server.redis.clone());
    let run = RunId("long".into());
    let tasks: Vec<TaskSpec> = (0..12_000).map(task_spec).collect();
    assert_eq!(
        ledger
            .request_tasks(&run, &tasks, 0, 10)
            .await
            .unwrap()
            .len(),
        12_000
    );
    let overdue = ledger.overdue(&run, 10, 10).await.unwrap();
    assert_eq!(overdue.len(), 12_000);
    ledger.mark_republished(&run, &overdue, 10).await.unwrap();
    assert!(ledger.overdue(&run, 10, 10).await.unwrap().is_empty());
    assert_eq!(ledger.open_tasks(&run).await.unwrap().len(), 12_000);
    for part in 0..24 {
        futures::future::join_all((part * 500..(part + 1) * 500).map(|n: u64| {
            let ledger = ledger.clone();
            let run = run.clone();
            async move { ledger.record(&run, &key(n), done(n)).await.unwrap() }
        }))
        .await;
    }
    let large = TaskOutcome::Done(Bytes::from(format!("\"{}\"", "x".repeat(60_000))));
    for n in 0..50 {
        ledger
            .record(&run, &key(20_000 + n), large.clone())
            .await
            .unwrap();
    }
    let outcomes = ledger.outcomes(&run, 0).await.unwrap();
    assert_eq!(outcomes.entries.len(), 12_050);
    assert_eq!(outcomes.entries[12_049], (key(20_049), large));
    let mut numbers: Vec<_> = outcomes.entries[..12_000]
        .iter()
        .map(|(key, _)| *key)
        .collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 12_000);
    let nothing = ledger.outcomes(&run, outcomes.next).await.unwrap();
    assert!(nothing.entries.is_empty() && nothing.next == outcomes.next);
    ledger.record(&run, &key(30_000), done(0)).await.unwrap();
    let rest = ledger.outcomes(&run, outcomes.next).await.unwrap();
    assert_eq!(
        (rest.entries, rest.epoch),
        (vec![(key(30_000), done(0))], outcomes.epoch)
    );
    assert!(
        ledger
            .outcomes(&run, rest.next)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert!(ledger.open_tasks(&run).await.unwrap().is_empty());
    server.flush().await;
}

// Everything expires; a run with only leases expires soon.
#[tokio::test]
async fn all_keys_expire() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let ledger = RedisLedger::new(server.redis.clone());
    let run = |name: &str| RunId(name.into());
    ledger.outcomes(&run("looked-at"), 0).await.unwrap();
    ledger
        .lease(
            &run("leased"),
            &key(1),
            "a",
            0,
            60_000,
            DeliveryKind::Published,
        )
        .await
        .unwrap();
    ledger
        .record(&run("recorded"), &key(1), done(1))
        .await
        .unwrap();
    ledger
        .request_tasks(&run("wanted"), &[task_spec(1)], 0, 60_000)
        .await
        .unwrap();
    ledger
        .lease(
            &run("wanted"),
            &key(1),
            "a",
            0,
            60_000,
            DeliveryKind::Published,
        )
        .await
        .unwrap();
    ledger
        .add_watcher(&run("watched"), &JobId("job".into()))
        .await
        .unwrap();
    ledger
        .schedule(&ScheduledItem::Job(JobId("job".into())), 0)
        .await
        .unwrap();
    let record = StatusRecord {
        name: "n".into(),
        body: Bytes::from_static(b"{}"),
        until_ms: 5_000,
    };
    ledger
        .post_status(StatusTopic::Processes, record, 0)
        .await
        .unwrap();
    let keys = server.keys().await;
    assert_eq!(keys.len(), 5 * 5 + 1 + 2);
    for (key, ms) in keys {
        let soon = ["{looked-at}", "{leased}", "{processes}"]
            .iter()
            .any(|run| key.contains(run));
        let (from, to) = if soon {
            (1, 660_000)
        } else {
            (WEEK_MS - 60_000, WEEK_MS)
        };
        assert!((from..=to).contains(&ms), "{key} expires in {ms} ms");
    }
    server.flush().await;
}

// A server short of memory evicts single keys. The remaining keys of the run must not be trusted (I-1).
#[tokio::test]
async fn run_with_an_evicted_key_starts_a_new_epoch() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let ledger = RedisLedger::new(server.redis.clone());
    let run = RunId("torn".into());
    for what in ["log", "ended", "open", "due", "jobs"] {
        ledger.record(&run, &key(1), done(1)).await.unwrap();
        ledger
            .request_tasks(&run, &[task_spec(2)], 0, 60)
            .await
            .unwrap();
        let before = ledger.outcomes(&run, 0).await.unwrap();
        server
            .remove(&[format!("{}:{{torn}}:{what}", server.prefix)])
            .await;
        assert!(ledger.overdue(&run, 1_000, 1_000).await.unwrap().is_empty());
        assert_eq!(ledger.release(&run, &key(2), "a", None).await, Ok(0));
        let lease = ledger
            .lease(&run, &key(1), "a", 0, 60, DeliveryKind::Published)
            .await
            .unwrap();
        assert_eq!(
            lease,
            Lease::Granted {
                attempts: 0,
                crashes: 0,
                is_requested: false
            },
            "without {what}"
        );
        let after = ledger.outcomes(&run, before.next).await.unwrap();
        assert!(
            after.epoch != before.epoch && after.entries.is_empty(),
            "without {what}"
        );
        assert_eq!(
            ledger
                .request_tasks(&run, &[task_spec(2)], 0, 60)
                .await
                .unwrap(),
            [key(2)],
            "without {what}"
        );
        ledger.forget_run(&run).await.unwrap();
    }
    assert!(server.keys().await.is_empty());
}

// A promoted replica has lost the last outcome, and has received another one since. A reader whose cursor is not in the
// log must not continue as if nothing had happened.
#[tokio::test]
async fn run_with_a_truncated_log_starts_a_new_epoch() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let ledger = RedisLedger::new(server.redis.clone());
    let run = RunId("torn".into());
    for others in [0, 1, 2] {
        ledger.record(&run, &key(1), done(1)).await.unwrap();
        ledger.record(&run, &key(2), done(2)).await.unwrap();
        let before = ledger.outcomes(&run, 0).await.unwrap();
        let name = |what: &str| format!("{}:{{torn}}:{what}", server.prefix);
        server.run(&["RPOP", &name("log")]).await;
        server
            .run(&["SREM", &name("ended"), &key(2).to_string()])
            .await;
        for n in 0..others {
            ledger.record(&run, &key(10 + n), done(n)).await.unwrap();
        }
        let after = ledger.outcomes(&run, before.next).await.unwrap();
        assert!(
            after.epoch != before.epoch && after.entries.is_empty(),
            "with {others} since"
        );
        assert_eq!(
            ledger.outcomes(&run, after.next).await.unwrap().epoch,
            after.epoch
        );
        ledger.forget_run(&run).await.unwrap();
    }
}

// A topic holds a thousand records; those that expire first make room.
#[tokio::test]
async fn status_topics_are_bounded() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let ledger = RedisLedger::new(server.redis.clone());
    futures::future::join_all((0..1_100).map(|n: u64| {
        let record = StatusRecord {
            name: format!("{n:04}"),
            body: Bytes::from_static(b"{}"),
            until_ms: 10_000 + n,
        };
        let ledger = ledger.clone();
        async move {
            ledger
                .post_status(StatusTopic::Jobs, record, 0)
                .await
                .unwrap();
        }
    }))
    .await;
    let notices = ledger.status_records(StatusTopic::Jobs, 0).await.unwrap();
    assert_eq!((notices.len(), notices[0].name.as_str()), (1_000, "0100"));
    server.flush().await;
}
