//! What a server can do to its clients, each on a server of its own.

use std::future::Future;
use std::time::{Duration, Instant};

use stemma_engine::ledger::{Due, Ledger, RedisLedger};
use stemma_engine::limit::{Cost, Limiter, Permit, Quota, RedisLimiter};
use stemma_engine::redis_client::{RedisClient, RedisSettings};
use stemma_engine::{Class, Env, JobId, PortError, RunId};

use crate::ledger::{done, key, want};
use crate::server::Private;

fn run() -> RunId {
    RunId("run".into())
}

/// The failure of a call, which comes soon and may pass.
async fn passing<T>(call: impl Future<Output = Result<T, PortError>>) -> PortError {
    let begun = Instant::now();
    let error = call.await.err().expect("a failure");
    assert!(error.passing, "{error}");
    assert!(
        begun.elapsed() < Duration::from_millis(1_000),
        "{error} after {:?}",
        begun.elapsed()
    );
    error
}

/// Asks until there is an answer, as the engine does.
async fn until_answered<T, F: Future<Output = Result<T, PortError>>>(call: impl Fn() -> F) -> T {
    let begun = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(
                error.passing && begun.elapsed() < Duration::from_secs(10),
                "{error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everything the ledger does, once.
async fn everything(ledger: &RedisLedger) -> Result<(), PortError> {
    let job = JobId("job".into());
    ledger.outcomes(&run(), 0).await?;
    ledger.want(&run(), &[want(1)], 0, 60).await?;
    ledger.lease(&run(), &key(1), "a", 0, 60).await?;
    ledger.release(&run(), &key(1), "a", None).await?;
    ledger.overdue(&run(), 60).await?;
    ledger.open_tasks(&run()).await?;
    ledger.record(&run(), &key(1), done(1)).await?;
    ledger.watch(&run(), &job).await?;
    ledger.watchers(&run()).await?;
    ledger.schedule(&Due::Job(job.clone()), 0).await?;
    ledger.due(0, 60, 10).await?;
    ledger.unschedule(&Due::Job(job)).await?;
    ledger.forget(&run()).await
}

#[tokio::test]
async fn killed_and_restarted_it_is_found_again() {
    let Some(mut server) = Private::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    everything(&ledger).await.unwrap();
    ledger.record(&run(), &key(1), done(1)).await.unwrap();
    let before = ledger.outcomes(&run(), 0).await.unwrap();
    server.kill();
    for _ in 0..5 {
        passing(ledger.outcomes(&run(), before.next)).await;
        passing(ledger.record(&run(), &key(2), done(2))).await;
    }
    server.restart();
    let run = run();
    let after = until_answered(|| ledger.outcomes(&run, before.next)).await;
    assert!(after.epoch != before.epoch && after.entries.is_empty());
    everything(&ledger).await.unwrap();
}

#[tokio::test]
async fn one_that_does_not_answer_is_not_waited_for() {
    let Some(server) = Private::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    everything(&ledger).await.unwrap();
    server.freeze(true);
    for _ in 0..4 {
        passing(ledger.record(&run(), &key(1), done(1))).await;
    }
    server.freeze(false);
    until_answered(|| everything(&ledger)).await;
}

#[tokio::test]
async fn scripts_that_are_lost_are_sent_again() {
    let Some(server) = Private::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    let limiter = RedisLimiter::new(server.client(""), Env::system());
    let cost = Cost {
        class: Class::Bulk,
        tokens: 10,
    };
    for _ in 0..2 {
        everything(&ledger).await.unwrap();
        limiter
            .acquire("model", Quota::per_minute(60, 60_000), cost, 0)
            .await
            .unwrap();
        limiter
            .settle("model", Quota::per_minute(60, 60_000), 10, 5)
            .await
            .unwrap();
        limiter.pause("model", 0).await.unwrap();
        server.run("", &["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn a_flush_is_another_memory_and_costs_a_burst_at_most() {
    let Some(server) = Private::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    let limiter = RedisLimiter::new(server.client(""), Env::system());
    let quota = Quota {
        burst_seconds: 3,
        ..Quota::per_minute(60, 60_000)
    }; // a burst of two
    let cost = Cost {
        class: Class::Interactive,
        tokens: 10,
    };
    let grants = async || {
        let mut grants = 0;
        while limiter.acquire("model", quota, cost, 0).await.unwrap() == Permit::Granted {
            grants += 1;
        }
        grants
    };
    let begun = Instant::now();
    ledger.record(&run(), &key(1), done(1)).await.unwrap();
    let before = ledger.outcomes(&run(), 0).await.unwrap();
    assert!(grants().await >= 2);
    server.run("", &["FLUSHALL"]).await;
    let after = ledger.outcomes(&run(), before.next).await.unwrap();
    assert!(after.epoch != before.epoch && after.entries.is_empty() && after.next == 0);
    let again = grants().await;
    assert!(
        again >= 2 && again <= 2 + begun.elapsed().as_secs(),
        "{again} after a flush"
    );
}

#[tokio::test]
async fn a_full_server_is_waited_for() {
    let Some(server) = Private::start(&["--maxmemory", "100kb"]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    passing(ledger.record(&run(), &key(1), done(1))).await;
    server.run("", &["CONFIG", "SET", "maxmemory", "0"]).await;
    everything(&ledger).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_lasts_until_it_is_put_right_and_is_never_told() {
    let Some(server) = Private::start(&["--requirepass", "right"]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(":hunter2@"));
    for _ in 0..3 {
        let error = ledger.outcomes(&run(), 0).await.unwrap_err();
        assert!(
            !error.passing && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
    let error = RedisLedger::new(server.client(""))
        .outcomes(&run(), 0)
        .await
        .unwrap_err();
    assert!(!error.passing, "{error}");
    server
        .run(":right@", &["CONFIG", "SET", "requirepass", "hunter2"])
        .await;
    everything(&ledger).await.unwrap();
}

/// With TLS asked for and none spoken, nothing is said in the clear, and nothing panics.
#[tokio::test]
async fn tls_is_not_given_up() {
    let Some(server) = Private::start(&[]) else {
        return;
    };
    let url = server.url("").replace("redis://", "rediss://");
    let timeout = Duration::from_millis(500);
    let settings = RedisSettings {
        timeout,
        ..RedisSettings::new(url.as_str().into())
    };
    passing(RedisClient::open(&settings).unwrap().ping()).await;
}
