//! The Redis limiter on a healthy server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stemma_adapters::redis::{RedisClient, RedisLimiter, RedisSettings};
use stemma_engine_testing::limit_conformance::conformance;
use stemma_store::limit::{AccountReservation, Limiter, Permit, Quota, RequestCost, Reservation};
use stemma_store::{Env, Priority};

use crate::server::{PATIENCE, SharedRedis};

#[tokio::test]
async fn redis_limiter_conforms() {
    if SharedRedis::from_env().is_none() {
        return;
    }
    conformance(|| async {
        let server = SharedRedis::from_env().unwrap();
        Arc::new(RedisLimiter::with_caller_clock(server.redis)) as Arc<dyn Limiter>
    })
    .await;
}

/// A client with its own connection, like another process.
fn new_client(server: &SharedRedis) -> RedisLimiter {
    let url = std::env::var("STEMMA_TEST_REDIS").unwrap();
    let settings = RedisSettings {
        prefix: server.prefix.clone(),
        timeout: PATIENCE,
        ..RedisSettings::new(url.into())
    };
    RedisLimiter::new(RedisClient::open(&settings).unwrap(), Env::system())
}

// Eight processes whose clocks differ by hours share one limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_share_one_limit() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let quota = Quota::per_minute(3_000, 60_000_000);
    let cost = RequestCost {
        priority: Priority::Interactive,
        tokens: 10_000,
    };
    let started = Instant::now();
    let clients = (0..8u64).map(|n| {
        let limiter = new_client(&server);
        tokio::spawn(async move {
            let mut grants = 0;
            let mut waits = 0;
            // One is told to wait when all that is there was granted to someone.
            while waits < 3 {
                match limiter
                    .acquire("model", quota, cost, n * 3_600_000)
                    .await
                    .unwrap()
                {
                    Permit::Granted => grants += 1,
                    Permit::Wait { after_ms } => {
                        waits += 1;
                        tokio::time::sleep(Duration::from_millis(after_ms)).await;
                    }
                    Permit::TooLarge { max_tokens } => assert!(max_tokens > 10_000),
                }
            }
            grants
        })
    });
    let mut granted = 0;
    for client in clients.collect::<Vec<_>>() {
        granted += client.await.unwrap();
    }
    let burst = f64::from(quota.burst_seconds) * 50.0;
    let bound = started.elapsed().as_secs_f64() * 50.0 + burst;
    assert!(
        f64::from(granted) <= bound + 1.0,
        "{granted} granted, {bound} is the bound"
    );
    assert!(
        f64::from(granted) >= burst,
        "{granted} granted of a burst of {burst}: the limit must be used"
    );
    server.flush().await;
}

// A pause lasts as long as the provider said, whatever the caller's clock, and applies to everyone.
#[tokio::test]
async fn pause_applies_to_all_clients() {
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let one = new_client(&server);
    let other = new_client(&server);
    let quota = Quota::per_minute(600, 60_000);
    let cost = RequestCost {
        priority: Priority::Interactive,
        tokens: 1,
    };
    const HOUR_MS: u64 = 3_600_000;
    one.pause("model", Env::system().now_ms() + HOUR_MS)
        .await
        .unwrap();
    let permit = other.acquire("model", quota, cost, 0).await.unwrap();
    // The test takes less than half of the pause.
    let Permit::Wait { after_ms } = permit else {
        panic!("{permit:?}")
    };
    assert!((HOUR_MS / 2..=HOUR_MS).contains(&after_ms), "{after_ms} ms");
    assert_eq!(
        other.acquire("another", quota, cost, 0).await.unwrap(),
        Permit::Granted
    );
    let keys = server.keys().await;
    assert_eq!(keys.len(), 2);
    assert!(
        keys.iter().all(|(_, ms)| (1..=2 * 3_600_000).contains(ms)),
        "idle buckets expire: {keys:?}"
    );
    server.flush().await;
}

#[tokio::test]
async fn accounts_in_use_do_not_expire() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let Some(server) = SharedRedis::from_env() else {
        return;
    };
    let limiter = new_client(&server);
    let opening = limiter.begin_opening("job", 1).await.unwrap();
    limiter.open_account("job", opening, 0).await.unwrap();
    for id in 0..2 {
        let call = AccountReservation {
            id,
            amount: 10,
            ttl_ms: 60_000,
        };
        let answer = limiter.reserve("job", 100, call, 0).await.unwrap();
        assert_eq!(answer, Reservation::Granted);
        let keys = server.keys().await;
        assert_eq!(keys.len(), 2, "the account and its calls: {keys:?}");
        for (key, ttl_ms) in keys {
            assert!(ttl_ms > 6 * DAY_MS, "{key} expires in {ttl_ms} ms");
            // The week is nearly over when the next call comes.
            server.run(&["PEXPIRE", &key, "60000"]).await;
        }
    }
}
