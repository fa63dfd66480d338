//! Measures calls per second of ledger and limiter in Redis: over one connection, with 64 calls in flight, in a run of
//! 20,000 tasks.
//!
//! `STEMMA_TEST_REDIS=redis://127.0.0.1:6379 cargo run --release -p stemma-adapters --example ledger_rate`

use std::future::Future;
use std::time::Instant;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_adapters::redis::{RedisClient, RedisLedger, RedisLimiter, RedisSettings};
use stemma_engine::ledger::{DeliveryKind, Ledger, TaskOutcome, TaskSpec};
use stemma_engine::limit::{Limiter, Quota, RequestCost};
use stemma_engine::queue::Lane;
use stemma_store::{Env, PortResult, Priority, RunId, TaskKey};

const CALLS: u64 = 20_000;
const AT_ONCE: usize = 64;

fn key(n: u64) -> TaskKey {
    TaskKey::builder("rate", 1).number(n).finish()
}

fn task_spec(n: u64) -> TaskSpec {
    TaskSpec {
        key: key(n),
        stage: "summarize".into(),
        lane: Lane::Llm,
    }
}

/// Prints how many times per second `call` completes.
async fn rate<T, F: Future<Output = PortResult<T>>>(
    what: &str,
    call: impl Fn(u64) -> F,
) -> PortResult<()> {
    let started = Instant::now();
    stream::iter(0..CALLS)
        .map(call)
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    println!(
        "{what:24} {:8.0} calls/s",
        CALLS as f64 / started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Prints the duration of one `call`.
async fn once<T>(what: &str, call: impl Future<Output = PortResult<T>>) -> PortResult<T> {
    let started = Instant::now();
    let result = call.await?;
    println!(
        "{what:24} {:8.1} ms",
        started.elapsed().as_secs_f64() * 1_000.0
    );
    Ok(result)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("STEMMA_TEST_REDIS").map_err(|_| "STEMMA_TEST_REDIS is not set")?;
    let settings = RedisSettings {
        prefix: format!("rate-{}", std::process::id()),
        ..RedisSettings::new(url.into())
    };
    let redis = RedisClient::open(&settings)?;
    redis.ping().await?;
    let ledger = RedisLedger::new(redis.clone());
    let limiter = RedisLimiter::new(redis, Env::system());
    let run = &RunId("rate".into());
    let many = &RunId("many".into());
    let tasks: Vec<TaskSpec> = (0..12_000).map(task_spec).collect();
    let outcome = Bytes::from(format!("\"{}\"", "x".repeat(200)));
    rate("want (one task)", |n| {
        let ledger = &ledger;
        async move { ledger.request_tasks(run, &[task_spec(n)], 0, 60).await }
    })
    .await?;
    rate("lease", |n| {
        let ledger = &ledger;
        async move {
            ledger
                .lease(run, &key(n), "worker", 0, 60_000, DeliveryKind::Published)
                .await
        }
    })
    .await?;
    rate("record (200 bytes)", |n| {
        let ledger = &ledger;
        let entry = TaskOutcome::Done(outcome.clone());
        async move { ledger.record(run, &key(n), entry).await }
    })
    .await?;
    let quota = Quota::per_minute(6_000_000, u32::MAX);
    let cost = RequestCost {
        class: Priority::Bulk,
        tokens: 100,
    };
    rate("acquire", |_| limiter.acquire("model", quota, cost, 0)).await?;
    rate("settle", |_| limiter.settle("model", quota, 100, 90)).await?;
    once("outcomes (20,000)", ledger.outcomes(run, 0)).await?;
    once(
        "want (12,000 tasks)",
        ledger.request_tasks(many, &tasks, 0, 60),
    )
    .await?;
    once("open_tasks (12,000)", ledger.open_tasks(many)).await?;
    let overdue = ledger.overdue(many, 60, 60).await?;
    once("overdue (12,000)", ledger.overdue(many, 60, 60)).await?;
    let marked = ledger.mark_republished(many, &overdue, 60);
    once("mark_republished (12,000)", marked).await?;
    once("overdue (none)", ledger.overdue(many, 60, 60)).await?;
    ledger.forget_run(run).await?;
    ledger.forget_run(many).await?;
    Ok(())
}
