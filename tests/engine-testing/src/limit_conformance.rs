//! Conformance suite of the limiter port. Callers pass the time, so nothing waits.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

use std::future::Future;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use stemma_store::env::Millis;
use stemma_store::key::Priority;
use stemma_store::limit::{Limiter, Permit, Quota, ReportedLimits, RequestCost};

use crate::account_conformance;

const QUOTA: Quota = Quota {
    requests_per_minute: 120,
    tokens_per_minute: 60_000,
    burst_seconds: 15,
    token_burst_seconds: 15,
    interactive_percent: 20,
};
const START: Millis = 1_767_225_600_000;

/// Checks that an adapter keeps the guarantees of [`Limiter`]. `make` returns an unused limiter.
///
/// # Panics
/// When a guarantee is broken.
pub async fn conformance<F: Future<Output = Arc<dyn Limiter>>>(make: impl Fn() -> F) {
    keeps_the_limit_over_any_minute(make().await).await;
    grants_nearly_the_whole_limit(make().await).await;
    grants_a_burst_and_then_the_rate(make().await).await;
    reserves_a_share_for_interactive_work(make().await).await;
    rejects_oversized_requests(make().await).await;
    grants_one_request_at_any_rate(make().await).await;
    pauses(make().await).await;
    settles(make().await).await;
    keeps_buckets_apart(make().await).await;
    respects_provider_limits(make().await).await;
    reported_limits_expire(make().await).await;
    learns_unstated_limits(make().await).await;
    learns_once_per_rejection(make().await).await;
    raises_unconfirmed_rates(make().await).await;
    account_conformance::conformance(make).await;
}

async fn acquire(
    limiter: &Arc<dyn Limiter>,
    priority: Priority,
    tokens: u32,
    at: Millis,
) -> Permit {
    limiter
        .acquire("model", QUOTA, RequestCost { priority, tokens }, START + at)
        .await
        .expect("an answer")
}

/// Number of requests of `tokens` that are granted at once.
async fn count_granted(
    limiter: &Arc<dyn Limiter>,
    priority: Priority,
    tokens: u32,
    at: Millis,
) -> u32 {
    let mut count = 0;
    while acquire(limiter, priority, tokens, at).await == Permit::Granted {
        count += 1;
        assert!(count < 10_000, "no limit");
    }
    count
}

async fn keeps_the_limit_over_any_minute(limiter: Arc<dyn Limiter>) {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut grants: Vec<(Millis, u32)> = Vec::new();
    let mut at = 0;
    while at < 400_000 {
        at += if rng.random_ratio(1, 50) {
            rng.random_range(0..30_000)
        } else {
            rng.random_range(0..400)
        };
        let priority = if rng.random_ratio(1, 3) {
            Priority::Interactive
        } else {
            Priority::Bulk
        };
        let tokens = rng.random_range(0..2_000);
        match acquire(&limiter, priority, tokens, at).await {
            Permit::Granted => grants.push((at, tokens)),
            Permit::Wait { after_ms } => assert!(after_ms > 0 && after_ms < 60_000, "{after_ms}"),
            Permit::TooLarge {
                max_tokens: largest,
            } => assert!(largest < tokens, "{largest} could pass"),
        }
    }
    for (n, (from, _)) in grants.iter().enumerate() {
        let minute: Vec<_> = grants[n..]
            .iter()
            .take_while(|(at, _)| *at < from + 60_000)
            .collect();
        let tokens: u32 = minute.iter().map(|(_, tokens)| tokens).sum();
        assert!(
            minute.len() <= 120 + 30 + 1,
            "requests in the minute from {from}"
        );
        assert!(
            tokens <= 60_000 + 15_000 + 60,
            "{tokens} tokens in the minute from {from}"
        );
    }
    let all: u64 = grants.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
    assert!(all > 200_000, "the quota is used: {all}");
}

// Greedy workers get nearly the whole limit, and no sliding minute exceeds it.
async fn grants_nearly_the_whole_limit(limiter: Arc<dyn Limiter>) {
    let quota = Quota::per_minute(600, 10_000_000);
    let cost = RequestCost {
        priority: Priority::Bulk,
        tokens: 1_000,
    };
    let mut grants: Vec<Millis> = Vec::new();
    let mut at = 0;
    while at < 150_000 {
        match limiter
            .acquire("model", quota, cost, START + at)
            .await
            .expect("an answer")
        {
            Permit::Granted => grants.push(at),
            permit => at += wait_ms(&permit),
        }
    }
    for (n, from) in grants.iter().enumerate() {
        let minute = grants[n..]
            .iter()
            .take_while(|at| **at < from + 60_000)
            .count();
        assert!(minute <= 600, "{minute} requests in the minute from {from}");
    }
    assert!(
        (1_470..=1_500).contains(&grants.len()),
        "{} of 1,500 in 150 s",
        grants.len()
    );
}

async fn grants_a_burst_and_then_the_rate(limiter: Arc<dyn Limiter>) {
    let burst = count_granted(&limiter, Priority::Interactive, 0, 0).await;
    assert!((29..=31).contains(&burst), "15 s of 120 a minute: {burst}");
    let after_ms = wait_ms(&acquire(&limiter, Priority::Interactive, 0, 0).await);
    assert!((400..=600).contains(&after_ms), "{after_ms}");
    assert_eq!(
        acquire(&limiter, Priority::Interactive, 0, after_ms).await,
        Permit::Granted,
        "as promised"
    );
    let rested = count_granted(&limiter, Priority::Interactive, 0, 3_600_000).await;
    assert!(
        (29..=31).contains(&rested),
        "an idle hour earns one burst at most: {rested}"
    );
}

fn wait_ms(permit: &Permit) -> u64 {
    assert!(matches!(permit, Permit::Wait { .. }), "{permit:?}");
    if let Permit::Wait { after_ms } = permit {
        *after_ms
    } else {
        0
    }
}

fn max_tokens(permit: &Permit) -> u32 {
    assert!(matches!(permit, Permit::TooLarge { .. }), "{permit:?}");
    if let Permit::TooLarge {
        max_tokens: largest,
    } = permit
    {
        *largest
    } else {
        0
    }
}

async fn reserves_a_share_for_interactive_work(limiter: Arc<dyn Limiter>) {
    let bulk = count_granted(&limiter, Priority::Bulk, 1_000, 0).await;
    assert!((11..=12).contains(&bulk), "four fifths of 15,000: {bulk}");
    let people = count_granted(&limiter, Priority::Interactive, 1_000, 0).await;
    assert!((2..=4).contains(&people), "the rest: {people}");
    assert!(matches!(
        acquire(&limiter, Priority::Bulk, 1_000, 0).await,
        Permit::Wait { .. }
    ));
    for second in 1..120 {
        count_granted(&limiter, Priority::Bulk, 1_000, second * 1_000).await;
        let person = acquire(&limiter, Priority::Interactive, 500, second * 1_000).await;
        assert!(
            second < 5 || person == Permit::Granted,
            "bulk starved a person in second {second}"
        );
    }
}

async fn rejects_oversized_requests(limiter: Arc<dyn Limiter>) {
    let all = max_tokens(&acquire(&limiter, Priority::Interactive, 15_001, 0).await);
    assert!((14_990..=15_000).contains(&all), "{all}");
    assert_eq!(
        acquire(&limiter, Priority::Interactive, all, 0).await,
        Permit::Granted,
        "the reported maximum can pass"
    );
    let share = max_tokens(&acquire(&limiter, Priority::Bulk, 14_000, 0).await);
    assert!((11_990..=12_000).contains(&share), "{share}");
}

async fn grants_one_request_at_any_rate(limiter: Arc<dyn Limiter>) {
    let slow = Quota {
        requests_per_minute: 1,
        ..QUOTA
    };
    for priority in [Priority::Bulk, Priority::Interactive] {
        let cost = RequestCost {
            priority,
            tokens: 10,
        };
        let bucket = format!("slow-{priority:?}");
        let first = limiter
            .acquire(&bucket, slow, cost, START)
            .await
            .expect("an answer");
        assert_eq!(first, Permit::Granted);
        let second = limiter
            .acquire(&bucket, slow, cost, START + 1_000)
            .await
            .expect("an answer");
        assert_eq!(second, Permit::Wait { after_ms: 59_000 });
    }
}

async fn pauses(limiter: Arc<dyn Limiter>) {
    limiter
        .pause("model", START + 30_000)
        .await
        .expect("paused");
    limiter
        .pause("model", START + 10_000)
        .await
        .expect("paused"); // does not shorten the pause
    for priority in [Priority::Bulk, Priority::Interactive] {
        assert_eq!(
            acquire(&limiter, priority, 1, 0).await,
            Permit::Wait { after_ms: 30_000 }
        );
    }
    assert_eq!(
        acquire(&limiter, Priority::Bulk, 1, 30_000).await,
        Permit::Granted
    );
}

async fn settles(limiter: Arc<dyn Limiter>) {
    assert_eq!(
        acquire(&limiter, Priority::Interactive, 15_000, 0).await,
        Permit::Granted
    );
    assert!(matches!(
        acquire(&limiter, Priority::Interactive, 10_000, 0).await,
        Permit::Wait { .. }
    ));
    limiter
        .settle("model", QUOTA, 15_000, 2_000)
        .await
        .expect("settled");
    assert_eq!(
        acquire(&limiter, Priority::Interactive, 10_000, 0).await,
        Permit::Granted,
        "unused tokens are returned"
    );
    limiter
        .settle("model", QUOTA, 10_000, 40_000)
        .await
        .expect("settled");
    let after_ms = wait_ms(&acquire(&limiter, Priority::Interactive, 1_000, 0).await);
    assert!(
        after_ms > 20_000,
        "tokens beyond the estimate are charged: {after_ms}"
    );
}

async fn keeps_buckets_apart(limiter: Arc<dyn Limiter>) {
    count_granted(&limiter, Priority::Interactive, 1_000, 0).await;
    limiter
        .pause("model", START + 60_000)
        .await
        .expect("paused");
    let other = RequestCost {
        priority: Priority::Bulk,
        tokens: 1_000,
    };
    assert_eq!(
        limiter
            .acquire("other", QUOTA, other, START)
            .await
            .expect("an answer"),
        Permit::Granted
    );
}

/// Number of requests granted between two times to a worker that always asks again.
async fn granted_between(
    limiter: &Arc<dyn Limiter>,
    quota: Quota,
    from: Millis,
    to: Millis,
) -> u32 {
    let cost = RequestCost {
        priority: Priority::Bulk,
        tokens: 100,
    };
    let mut at = from;
    let mut count = 0;
    while at < to {
        match limiter
            .acquire("model", quota, cost, START + at)
            .await
            .expect("an answer")
        {
            Permit::Granted => count += 1,
            permit => at += wait_ms(&permit),
        }
    }
    count
}

const UNKNOWN_LIMITS: (u32, u32) = (Quota::UNKNOWN, Quota::UNKNOWN);

async fn report(limiter: &Arc<dyn Limiter>, quota: Quota, reported: ReportedLimits, at: Millis) {
    limiter
        .report_limits("model", quota, reported, START + at)
        .await
        .expect("reported");
}

async fn respects_provider_limits(limiter: Arc<dyn Limiter>) {
    let unknown = Quota::per_minute(UNKNOWN_LIMITS.0, UNKNOWN_LIMITS.1);
    let reported = ReportedLimits {
        requests_per_minute: Some(300),
        ..ReportedLimits::default()
    };
    report(&limiter, unknown, reported, 0).await;
    let granted = granted_between(&limiter, unknown, 0, 60_000).await;
    assert!((290..=310).contains(&granted), "reported: {granted}");
    let quota = Quota::per_minute(600, Quota::UNKNOWN);
    let granted = granted_between(&limiter, quota, 120_000, 180_000).await;
    assert!((290..=310).contains(&granted), "smaller one: {granted}");
    let reported = ReportedLimits {
        tokens_per_minute: Some(6_000),
        ..ReportedLimits::default()
    };
    report(&limiter, quota, reported, 180_000).await;
    let granted = granted_between(&limiter, quota, 240_000, 300_000).await;
    assert!((57..=63).contains(&granted), "tokens: {granted}");
    // After idle time a full burst is available, but the provider reports that nothing remains.
    let none = ReportedLimits {
        requests_remaining: Some(0),
        ..ReportedLimits::default()
    };
    report(&limiter, unknown, none, 400_000).await;
    let granted = granted_between(&limiter, unknown, 400_000, 400_001).await;
    assert!(granted <= 2, "nothing remains: {granted}");
}

// A limit that later replies no longer report was lifted, or came from a server that is gone.
async fn reported_limits_expire(limiter: Arc<dyn Limiter>) {
    let quota = Quota::per_minute(600, Quota::UNKNOWN);
    let reported = ReportedLimits {
        requests_per_minute: Some(60),
        ..ReportedLimits::default()
    };
    report(&limiter, quota, reported, 0).await;
    let granted = granted_between(&limiter, quota, 540_000, 599_000).await;
    assert!((50..=70).contains(&granted), "reported: {granted}");
    // The first minute after it pays the burst that the slow rate has granted ahead.
    granted_between(&limiter, quota, 600_000, 660_000).await;
    let granted = granted_between(&limiter, quota, 660_000, 720_000).await;
    assert!((590..=610).contains(&granted), "expired: {granted}");
}

// The provider accepts 600 requests per sliding minute, reports no limits and rejects the rest. After two minutes it
// must reject few, and its capacity must be used.
async fn learns_unstated_limits(limiter: Arc<dyn Limiter>) {
    let unknown = Quota::per_minute(UNKNOWN_LIMITS.0, UNKNOWN_LIMITS.1);
    let cost = RequestCost {
        priority: Priority::Bulk,
        tokens: 100,
    };
    let mut at: Millis = 0;
    let mut accepted: Vec<Millis> = Vec::new();
    let mut refused: Vec<Millis> = Vec::new();
    while at < 600_000 {
        if let Permit::Wait { after_ms } = limiter
            .acquire("model", unknown, cost, START + at)
            .await
            .expect("an answer")
        {
            at += after_ms;
            continue;
        }
        at += 20; // eight callers, 160 ms each
        let window = accepted
            .iter()
            .rev()
            .take_while(|t| **t + 60_000 > at)
            .count();
        if window < 600 {
            accepted.push(at);
        } else {
            refused.push(at);
            limiter
                .decrease_rate("model", 20, START + at)
                .await
                .expect("slower");
            limiter
                .settle("model", unknown, 100, 0)
                .await
                .expect("settled");
            limiter
                .pause("model", START + at + 1_000)
                .await
                .expect("paused");
        }
    }
    let late = accepted.iter().filter(|at| **at >= 180_000).count();
    let refusals = refused.iter().filter(|at| **at >= 180_000).count();
    assert!(
        late >= 7 * 600 * 90 / 100,
        "{late} of 4,200 in the last seven minutes"
    );
    assert!(refusals * 100 <= late * 2, "{refusals} refusals of {late}");
}

// Prompts become ten times as long while the provider counts only requests: a token rate learned from short prompts
// must not block long ones for long.
async fn raises_unconfirmed_rates(limiter: Arc<dyn Limiter>) {
    let unknown = Quota::per_minute(UNKNOWN_LIMITS.0, UNKNOWN_LIMITS.1);
    let mut at: Millis = 0;
    let mut accepted: Vec<Millis> = Vec::new();
    while at < 420_000 {
        let cost = RequestCost {
            priority: Priority::Bulk,
            tokens: if at < 180_000 { 500 } else { 5_000 },
        };
        let mut permit = limiter
            .acquire("model", unknown, cost, START + at)
            .await
            .expect("an answer");
        if let Permit::TooLarge {
            max_tokens: largest,
        } = permit
        {
            let largest = RequestCost {
                tokens: largest,
                ..cost
            };
            permit = limiter
                .acquire("model", unknown, largest, START + at)
                .await
                .expect("an answer");
            if permit == Permit::Granted {
                limiter
                    .settle("model", unknown, largest.tokens, cost.tokens)
                    .await
                    .expect("settled");
            }
        }
        if let Permit::Wait { after_ms } = permit {
            at += after_ms.min(500);
            continue;
        }
        at += 40;
        if accepted
            .iter()
            .rev()
            .take_while(|t| **t + 60_000 > at)
            .count()
            < 120
        {
            accepted.push(at);
        } else {
            limiter
                .decrease_rate("model", 40, START + at)
                .await
                .expect("slower");
            limiter
                .settle("model", unknown, cost.tokens, 0)
                .await
                .expect("settled");
            limiter
                .pause("model", START + at + 1_000)
                .await
                .expect("paused");
        }
    }
    let late = accepted.iter().filter(|t| **t >= 180_000).count();
    assert!(
        late >= 4 * 120 * 80 / 100,
        "{late} of 480 long ones in four minutes"
    );
}

async fn learns_once_per_rejection(limiter: Arc<dyn Limiter>) {
    let unknown = Quota::per_minute(UNKNOWN_LIMITS.0, UNKNOWN_LIMITS.1);
    for n in 0..600 {
        let cost = RequestCost {
            priority: Priority::Bulk,
            tokens: 100,
        };
        limiter
            .acquire("model", unknown, cost, START + n * 100)
            .await
            .expect("an answer");
    }
    for late in 0..8 {
        limiter
            .decrease_rate("model", 500 + late, START + 60_000 + late)
            .await
            .expect("slower");
    }
    let granted = granted_between(&limiter, unknown, 61_000, 121_000).await;
    assert!(
        (550..=600).contains(&granted),
        "one step from 600 a minute, not eight: {granted}"
    );
}
