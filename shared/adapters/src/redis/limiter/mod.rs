//! A limiter in Redis, shared by all workers. Requests and tokens of a bucket are charged in one script: both or none.
//!
//! It uses the server's clock. Clocks of workers differ, and the fastest would spend what is not earned yet and leave
//! the others waiting. Therefore [`Limiter::acquire`] ignores `now_ms`, and a pause lasts, from the moment of the call,
//! as long as the caller's clock says. Only tests pass the time.
//!
//! Losing Redis loses at most a full burst: an empty bucket grants one burst, then the rate. Idle buckets expire after
//! an hour.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Script, ScriptInvocation};
use stemma_store::env::{Env, Millis};
use stemma_store::key::Priority;
use stemma_store::limit::{
    AccountReservation, Burst, Limiter, Permit, Quota, ReportedLimits, RequestCost, Reservation,
    SETTLED_MS,
};
use stemma_store::port_error::PortResult;

use super::RedisClient;

/// Limits shared by all processes. Cheap to clone.
#[derive(Clone)]
pub struct RedisLimiter {
    redis: RedisClient,
    clock: LimiterClock,
    scripts: Arc<LimiterScripts>,
}

#[derive(Clone)]
enum LimiterClock {
    // The server's clock; the caller's clock only measures the length of a pause.
    Server(Env),
    #[cfg(feature = "testing")]
    Caller,
}

struct LimiterScripts {
    acquire: Script,
    settle: Script,
    pause: Script,
    report_limits: Script,
    decrease_rate: Script,
    reserve: Script,
    settle_reservation: Script,
    begin_opening: Script,
    open_account: Script,
}

impl Default for LimiterScripts {
    fn default() -> Self {
        let over_rates =
            |script: &str| Script::new(&format!("{}{script}", include_str!("rates.lua")));
        Self {
            acquire: over_rates(include_str!("acquire.lua")),
            settle: over_rates(include_str!("settle.lua")),
            pause: Script::new(include_str!("pause.lua")),
            report_limits: over_rates(include_str!("report_limits.lua")),
            decrease_rate: over_rates(include_str!("decrease_rate.lua")),
            reserve: over_rates(&format!(
                "{}{}",
                include_str!("account.lua"),
                include_str!("reserve.lua")
            )),
            settle_reservation: over_rates(&format!(
                "{}{}",
                include_str!("account.lua"),
                include_str!("settle_reservation.lua")
            )),
            begin_opening: Script::new(include_str!("begin_opening.lua")),
            open_account: Script::new(include_str!("open_account.lua")),
        }
    }
}

impl RedisLimiter {
    pub fn new(redis: RedisClient, env: Env) -> Self {
        Self {
            redis,
            clock: LimiterClock::Server(env),
            scripts: Arc::default(),
        }
    }

    /// Uses the time that callers pass; for tests, which control their clock.
    #[cfg(feature = "testing")]
    pub fn with_caller_clock(redis: RedisClient) -> Self {
        Self {
            redis,
            clock: LimiterClock::Caller,
            scripts: Arc::default(),
        }
    }

    fn bucket_key(&self, bucket: &str) -> String {
        self.redis.key(bucket, "limit")
    }

    // A call of a script on the keys of an account.
    fn account_script<'a>(&self, script: &'a Script, account: &str) -> ScriptInvocation<'a> {
        let mut invocation = script.prepare_invoke();
        for part in ["account", "calls", "late", "settled"] {
            invocation.key(self.redis.key(account, part));
        }
        invocation
    }

    /// The time argument of scripts; empty to use the server's clock.
    fn time_arg(&self, at_ms: Millis) -> String {
        match (&self.clock, at_ms) {
            (LimiterClock::Server(_), _) => String::new(),
            #[cfg(feature = "testing")]
            (LimiterClock::Caller, at_ms) => at_ms.to_string(),
        }
    }

    /// Milliseconds until `until_ms` on the caller's clock.
    fn remaining_ms(&self, until_ms: Millis) -> Millis {
        match &self.clock {
            LimiterClock::Server(env) => until_ms.saturating_sub(env.now_ms()),
            #[cfg(feature = "testing")]
            LimiterClock::Caller => 0,
        }
    }
}

#[async_trait]
impl Limiter for RedisLimiter {
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: RequestCost,
        now_ms: Millis,
    ) -> PortResult<Permit> {
        let ahead = Burst::for_priority(quota, cost.priority);
        let mut script = self.scripts.acquire.key(self.bucket_key(bucket));
        script
            .arg(self.time_arg(now_ms))
            .arg(quota.requests_per_minute)
            .arg(quota.tokens_per_minute);
        script
            .arg(ahead.requests_ms)
            .arg(ahead.tokens_ms)
            .arg(cost.tokens);
        match self.redis.invoke::<i64>("limiter.acquire", &script).await? {
            0 => Ok(Permit::Granted),
            after_ms @ 1.. => Ok(Permit::Wait {
                after_ms: after_ms.unsigned_abs(),
            }),
            largest => Ok(Permit::TooLarge {
                max_tokens: u32::try_from(-1 - largest).unwrap_or(0),
            }),
        }
    }

    async fn settle(
        &self,
        bucket: &str,
        quota: Quota,
        estimated: u32,
        used: u32,
    ) -> PortResult<()> {
        let mut script = self.scripts.settle.key(self.bucket_key(bucket));
        script
            .arg(quota.requests_per_minute)
            .arg(quota.tokens_per_minute);
        script.arg(i64::from(used) - i64::from(estimated));
        self.redis.invoke("limiter.settle", &script).await
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> PortResult<()> {
        let mut script = self.scripts.pause.key(self.bucket_key(bucket));
        script
            .arg(self.time_arg(until_ms))
            .arg(self.remaining_ms(until_ms));
        self.redis.invoke("limiter.pause", &script).await
    }

    async fn report_limits(
        &self,
        bucket: &str,
        quota: Quota,
        reported: ReportedLimits,
        now_ms: Millis,
    ) -> PortResult<()> {
        let ahead = Burst::for_priority(quota, Priority::Bulk);
        let mut script = self.scripts.report_limits.key(self.bucket_key(bucket));
        script
            .arg(self.time_arg(now_ms))
            .arg(quota.requests_per_minute)
            .arg(quota.tokens_per_minute);
        script.arg(ahead.requests_ms).arg(ahead.tokens_ms);
        for value in [
            reported.requests_per_minute,
            reported.tokens_per_minute,
            reported.requests_remaining,
            reported.tokens_remaining,
        ] {
            script.arg(value.map_or_else(String::new, |value| value.to_string()));
        }
        self.redis.invoke("limiter.report_limits", &script).await
    }

    async fn decrease_rate(&self, bucket: &str, age_ms: u64, now_ms: Millis) -> PortResult<()> {
        let mut script = self.scripts.decrease_rate.key(self.bucket_key(bucket));
        script.arg(self.time_arg(now_ms)).arg(age_ms);
        self.redis.invoke("limiter.decrease_rate", &script).await
    }

    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        call: AccountReservation,
        now_ms: Millis,
    ) -> PortResult<Reservation> {
        let mut script = self.account_script(&self.scripts.reserve, account);
        script.arg(self.time_arg(now_ms)).arg(limit);
        script
            .arg(call.amount)
            .arg(call_name(call))
            .arg(call.ttl_ms);
        Ok(
            match self.redis.invoke::<i64>("limiter.reserve", &script).await? {
                0 => Reservation::Granted,
                1 => Reservation::Unknown,
                code => Reservation::Refused {
                    may_fit_later: code == 2,
                },
            },
        )
    }

    async fn settle_reservation(
        &self,
        account: &str,
        call: AccountReservation,
        used: u64,
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut script = self.account_script(&self.scripts.settle_reservation, account);
        script.arg(self.time_arg(now_ms));
        script.arg(call_name(call)).arg(call.amount).arg(used);
        script.arg(SETTLED_MS);
        self.redis
            .invoke("limiter.settle_reservation", &script)
            .await
    }

    async fn begin_opening(&self, account: &str, proposed: u64) -> PortResult<u64> {
        let mut script = self.account_script(&self.scripts.begin_opening, account);
        script.arg(proposed);
        self.redis.invoke("limiter.begin_opening", &script).await
    }

    async fn open_account(&self, account: &str, opening: u64, used: u64) -> PortResult<()> {
        let mut script = self.account_script(&self.scripts.open_account, account);
        script.arg(used).arg(opening);
        self.redis.invoke("limiter.open_account", &script).await
    }
}

// A member of the set of calls. It carries the amount, so that giving it back needs no second key.
fn call_name(call: AccountReservation) -> String {
    format!("{:016x}:{}", call.id, call.amount)
}
