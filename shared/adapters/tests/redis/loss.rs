//! Failures of a server, each on a private one.

use std::future::Future;
use std::time::{Duration, Instant};

use stemma_adapters::redis::{RedisClient, RedisLedger, RedisLimiter, RedisSettings};
use stemma_engine::ledger::{DeliveryKind, Ledger, ScheduledItem};
use stemma_store::limit::{Limiter, Permit, Quota, RequestCost};
use stemma_store::{Env, JobId, PortError, PortResult, Priority, RunId};

use crate::ledger::{done, key, task_spec};
use crate::server::{PrivateRedis, StallingProxy};

fn run() -> RunId {
    RunId("run".into())
}

/// Expects the call to fail with a transient error.
async fn expect_transient<T>(call: impl Future<Output = PortResult<T>>) -> PortError {
    let error = call.await.err().expect("a failure");
    assert!(error.is_transient(), "{error}");
    error
}

/// Retries until the call succeeds, like the engine.
async fn retry_until_ok<T, F: Future<Output = PortResult<T>>>(call: impl Fn() -> F) -> T {
    let started = Instant::now();
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert!(
                error.is_transient() && started.elapsed() < Duration::from_secs(120),
                "{error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls every operation of the ledger once.
async fn exercise_ledger(ledger: &RedisLedger) -> PortResult<()> {
    let job = JobId("job".into());
    ledger.outcomes(&run(), 0).await?;
    ledger.request_tasks(&run(), &[task_spec(1)], 0, 60).await?;
    ledger
        .lease(&run(), &key(1), "a", 0, 60, DeliveryKind::Published)
        .await?;
    ledger.release(&run(), &key(1), "a", None).await?;
    ledger.overdue(&run(), 60, 60).await?;
    ledger.open_tasks(&run()).await?;
    ledger.record(&run(), &key(1), done(1)).await?;
    ledger.add_watcher(&run(), &job).await?;
    ledger.watchers(&run()).await?;
    ledger.schedule(&ScheduledItem::Job(job.clone()), 0).await?;
    ledger.claim_due(0, 60, 10).await?;
    ledger.unschedule(&ScheduledItem::Job(job)).await?;
    ledger.forget_run(&run()).await
}

#[tokio::test]
async fn client_reconnects_after_server_restart() {
    let Some(mut server) = PrivateRedis::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    exercise_ledger(&ledger).await.unwrap();
    ledger.record(&run(), &key(1), done(1)).await.unwrap();
    let before = ledger.outcomes(&run(), 0).await.unwrap();
    server.kill();
    for _ in 0..5 {
        expect_transient(ledger.outcomes(&run(), before.next)).await;
        expect_transient(ledger.record(&run(), &key(2), done(2))).await;
    }
    server.restart();
    let run = run();
    let after = retry_until_ok(|| ledger.outcomes(&run, before.next)).await;
    assert!(after.epoch != before.epoch && after.entries.is_empty());
    exercise_ledger(&ledger).await.unwrap();
}

#[tokio::test]
async fn unresponsive_server_times_out() {
    let Some(server) = PrivateRedis::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.impatient_client());
    retry_until_ok(|| exercise_ledger(&ledger)).await;
    server.freeze(true);
    for _ in 0..4 {
        expect_transient(ledger.record(&run(), &key(1), done(1))).await;
    }
    server.freeze(false);
    retry_until_ok(|| exercise_ledger(&ledger)).await;
}

// Neither side learns that the other is gone, so nothing ever comes back on the old connection.
#[tokio::test]
async fn half_open_connections_are_replaced() {
    let Some(server) = PrivateRedis::start(&[]) else {
        return;
    };
    let proxy = StallingProxy::in_front_of(&server).await;
    let ledger = RedisLedger::new(proxy.client());
    let run = run();
    for _ in 0..3 {
        retry_until_ok(|| exercise_ledger(&ledger)).await;
        retry_until_ok(|| async { ledger.record(&run, &key(1), done(1)).await }).await;
        proxy.stall();
        expect_transient(ledger.outcomes(&run, 0)).await;
        let outcomes = retry_until_ok(|| ledger.outcomes(&run, 0)).await;
        assert_eq!(outcomes.entries.len(), 1, "the server kept what it has");
    }
}

#[tokio::test]
async fn lost_scripts_are_reloaded() {
    let Some(server) = PrivateRedis::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    let limiter = RedisLimiter::new(server.client(""), Env::system());
    let cost = RequestCost {
        priority: Priority::Bulk,
        tokens: 10,
    };
    for _ in 0..2 {
        exercise_ledger(&ledger).await.unwrap();
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
async fn flush_starts_new_epoch_and_grants_at_most_a_burst() {
    let Some(server) = PrivateRedis::start(&[]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    // The clock is paused, so no tokens are added to the burst.
    let limiter = RedisLimiter::with_caller_clock(server.client(""));
    let quota = Quota {
        burst_seconds: 3,
        ..Quota::per_minute(60, 60_000)
    };
    let cost = RequestCost {
        priority: Priority::Interactive,
        tokens: 10,
    };
    let grants = async || {
        let mut grants = 0;
        while limiter.acquire("model", quota, cost, 0).await.unwrap() == Permit::Granted {
            grants += 1;
        }
        grants
    };
    ledger.record(&run(), &key(1), done(1)).await.unwrap();
    let before = ledger.outcomes(&run(), 0).await.unwrap();
    let burst = grants().await;
    assert!(burst > 0);
    server.run("", &["FLUSHALL"]).await;
    let after = ledger.outcomes(&run(), before.next).await.unwrap();
    assert!(after.epoch != before.epoch && after.entries.is_empty() && after.next == 0);
    assert_eq!(grants().await, burst, "after a flush");
}

#[tokio::test]
async fn out_of_memory_is_a_transient_error() {
    let Some(server) = PrivateRedis::start(&["--maxmemory", "100kb"]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(""));
    expect_transient(ledger.record(&run(), &key(1), done(1))).await;
    server.run("", &["CONFIG", "SET", "maxmemory", "0"]).await;
    exercise_ledger(&ledger).await.unwrap();
}

#[tokio::test]
async fn wrong_password_is_permanent_until_fixed_and_hidden() {
    let Some(server) = PrivateRedis::start(&["--requirepass", "right"]) else {
        return;
    };
    let ledger = RedisLedger::new(server.client(":hunter2@"));
    for _ in 0..3 {
        let error = ledger.outcomes(&run(), 0).await.unwrap_err();
        assert!(
            !error.is_transient() && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
    let error = RedisLedger::new(server.client(""))
        .outcomes(&run(), 0)
        .await
        .unwrap_err();
    assert!(!error.is_transient(), "{error}");
    server
        .run(":right@", &["CONFIG", "SET", "requirepass", "hunter2"])
        .await;
    exercise_ledger(&ledger).await.unwrap();
}

// With TLS requested from a server without TLS, nothing is sent in plain text, and nothing panics.
#[tokio::test]
async fn tls_never_falls_back_to_plaintext() {
    let Some(server) = PrivateRedis::start(&[]) else {
        return;
    };
    let url = server.url("").replace("redis://", "rediss://");
    let timeout = Duration::from_millis(500);
    let settings = RedisSettings {
        timeout,
        ..RedisSettings::new(url.as_str().into())
    };
    expect_transient(RedisClient::open(&settings).unwrap().ping()).await;
}
