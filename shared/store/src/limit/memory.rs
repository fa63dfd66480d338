//! In-memory limiter of one process.

use std::collections::BTreeMap;

use crate::env::Millis;
use crate::key::Priority;
use crate::port_error::PortResult;
use async_trait::async_trait;
use parking_lot::Mutex;

use super::aimd::{AdaptiveLimit, GrantWindow, LimitKind};
use super::gcra::{
    Burst, Increment, MeteredRequest, Rates, SLACK_REQUESTS, owed_ms, slack_tokens, tokens_ms,
};
use super::{
    AccountReservation, Limiter, Permit, Quota, REPORT_TTL_MS, ReportedLimits, RequestCost,
    Reservation, SETTLED_MS,
};

#[derive(Default)]
pub struct MemoryLimiter {
    buckets: Mutex<BTreeMap<String, LimitBucket>>,
    accounts: Mutex<BTreeMap<String, SpendAccount>>,
}

#[derive(Default)]
struct SpendAccount {
    // Before the account is opened: what was settled meanwhile.
    used: u64,
    is_open: bool,
    // The opening that was begun first. It is lost with the account.
    opening: Option<u64>,
    // Amount and end of each reservation, by id.
    calls: BTreeMap<u64, (u64, Millis)>,
    // Calls that were settled a moment ago, and until when they are known: a settlement is repeated when its answer was lost.
    settled: BTreeMap<u64, Millis>,
}

impl SpendAccount {
    // What calls hold now. Reservations whose time is over are given back.
    fn reserved(&mut self, now_ms: Millis) -> u64 {
        self.calls.retain(|_, (_, until_ms)| now_ms < *until_ms);
        self.calls
            .values()
            .fold(0, |sum: u64, (amount, _)| sum.saturating_add(*amount))
    }
}

#[derive(Default)]
struct LimitBucket {
    paused_until_ms: Millis,
    requests: GcraMeter,
    tokens: GcraMeter,
    reported_requests: Option<ReportedRate>,
    reported_tokens: Option<ReportedRate>,
    adaptive: Option<AdaptiveLimit>,
    grants: GrantWindow,
    // Time of the last request, because corrections come without one.
    now_ms: Millis,
}

// A rate per minute that the provider reported.
#[derive(Clone, Copy)]
struct ReportedRate {
    per_minute: u32,
    reported_ms: Millis,
}

impl ReportedRate {
    fn new(per_minute: Option<u32>, reported_ms: Millis) -> Option<Self> {
        per_minute.map(|per_minute| Self {
            per_minute,
            reported_ms,
        })
    }
}

impl LimitBucket {
    // The quota and the reported limits, or the learned rate where no quota is known.
    fn rates(&self, quota: Quota, now_ms: Millis) -> Rates {
        let unknown = f64::from(Quota::UNKNOWN);
        let learned = self
            .adaptive
            .map_or((unknown, unknown), |learned| learned.rates(now_ms));
        let rate = |quota: u32, reported: Option<ReportedRate>, learned: f64| {
            let valid = reported.filter(|rate| now_ms < rate.reported_ms + REPORT_TTL_MS);
            let rate = f64::from(valid.map_or(quota, |rate| quota.min(rate.per_minute)));
            let rate = if quota == Quota::UNKNOWN {
                rate.min(learned)
            } else {
                rate
            };
            rate.max(1.0)
        };
        Rates {
            requests: rate(quota.requests_per_minute, self.reported_requests, learned.0),
            tokens: rate(quota.tokens_per_minute, self.reported_tokens, learned.1),
        }
    }
}

// Theoretical arrival time in milliseconds: when everything granted so far will have been earned.
#[derive(Default)]
struct GcraMeter {
    arrival_ms: f64,
}

impl GcraMeter {
    /// Milliseconds until `span` fits; 0 if it fits now.
    fn wait_ms(&self, span: Increment, now: f64) -> f64 {
        (self.arrival_ms.max(now) + span.cost_ms - span.ahead_ms - now).max(0.0)
    }

    fn is_idle(&self, now: f64) -> bool {
        self.arrival_ms <= now
    }

    // Advances the arrival time to at least `owed_ms` from now.
    fn advance(&mut self, owed_ms: f64, now: f64) {
        self.arrival_ms = self.arrival_ms.max(now + owed_ms.max(0.0));
    }

    fn charge(&mut self, span: Increment, now: f64) {
        self.arrival_ms = self.arrival_ms.max(now) + span.cost_ms;
    }
}

impl MemoryLimiter {
    /// Loses all limits and accounts, like a server that starts empty.
    pub fn flush(&self) {
        self.buckets.lock().clear();
        self.accounts.lock().clear();
    }

    /// What calls hold on all accounts.
    pub fn reserved_total(&self, now_ms: Millis) -> u64 {
        let mut accounts = self.accounts.lock();
        let amounts = accounts
            .values_mut()
            .map(|account| account.reserved(now_ms));
        amounts.fold(0, u64::saturating_add)
    }

    /// Records a request that another limiter granted, so that refusals teach the rate at which this process asked.
    pub fn record_grant(&self, bucket: &str, cost: RequestCost, now_ms: Millis) {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(bucket.into()).or_default();
        bucket.now_ms = now_ms;
        bucket.grants.record_grant(cost.tokens, now_ms);
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: RequestCost,
        now_ms: Millis,
    ) -> PortResult<Permit> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(bucket.into()).or_default();
        bucket.now_ms = now_ms;
        let request = MeteredRequest::new(quota, bucket.rates(quota, now_ms), cost);
        if let Some(max_tokens) = request.exceeded_max() {
            return Ok(Permit::TooLarge { max_tokens });
        }
        let now = now_ms as f64;
        let paused = bucket.paused_until_ms.saturating_sub(now_ms) as f64;
        let requests = request.requests;
        let tokens = request.tokens;
        let waits = (
            bucket.requests.wait_ms(requests, now),
            bucket.tokens.wait_ms(tokens, now),
        );
        let wait = waits.0.max(waits.1).max(paused);
        if wait > 0.0 {
            let alone = match waits {
                (_, 0.0) if bucket.tokens.is_idle(now) => Some(LimitKind::Requests),
                (0.0, _) if bucket.requests.is_idle(now) => Some(LimitKind::Tokens),
                _ => None,
            };
            if let (Some(learned), Some(alone), true) = (&mut bucket.adaptive, alone, paused == 0.0)
            {
                learned.on_blocked(alone, now_ms);
            }
            return Ok(Permit::Wait {
                after_ms: wait.ceil() as u64,
            });
        }
        bucket.requests.charge(requests, now);
        bucket.tokens.charge(tokens, now);
        bucket.grants.record_grant(cost.tokens, now_ms);
        Ok(Permit::Granted)
    }

    async fn settle(
        &self,
        bucket: &str,
        quota: Quota,
        estimated: u32,
        used: u32,
    ) -> PortResult<()> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(bucket.into()).or_default();
        let now_ms = bucket.now_ms;
        let more = f64::from(used) - f64::from(estimated);
        bucket.tokens.arrival_ms += tokens_ms(bucket.rates(quota, now_ms), more);
        bucket.grants.add(0.0, more, now_ms);
        Ok(())
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> PortResult<()> {
        let mut buckets = self.buckets.lock();
        let paused = &mut buckets.entry(bucket.into()).or_default().paused_until_ms;
        *paused = (*paused).max(until_ms);
        Ok(())
    }

    async fn report_limits(
        &self,
        bucket: &str,
        quota: Quota,
        reported: ReportedLimits,
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(bucket.into()).or_default();
        let requests = ReportedRate::new(reported.requests_per_minute, now_ms);
        bucket.reported_requests = requests.or(bucket.reported_requests);
        let tokens = ReportedRate::new(reported.tokens_per_minute, now_ms);
        bucket.reported_tokens = tokens.or(bucket.reported_tokens);
        let rates = bucket.rates(quota, now_ms);
        let ahead = Burst::for_priority(quota, Priority::Bulk);
        let now = now_ms as f64;
        if let Some(remaining) = reported.requests_remaining {
            let owed = owed_ms(ahead.requests_ms, remaining, SLACK_REQUESTS, rates.requests);
            bucket.requests.advance(owed, now);
        }
        if let Some(remaining) = reported.tokens_remaining {
            let slack = slack_tokens(rates);
            let owed = owed_ms(ahead.tokens_ms, remaining, slack, rates.tokens);
            bucket.tokens.advance(owed, now);
        }
        Ok(())
    }

    async fn decrease_rate(&self, bucket: &str, age_ms: u64, now_ms: Millis) -> PortResult<()> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(bucket.into()).or_default();
        let now = now_ms as f64;
        let fault = match (bucket.requests.is_idle(now), bucket.tokens.is_idle(now)) {
            (false, true) => Some(LimitKind::Requests),
            (true, false) => Some(LimitKind::Tokens),
            _ => None,
        };
        bucket.adaptive = bucket
            .grants
            .on_rejected(bucket.adaptive, fault, age_ms, now_ms);
        Ok(())
    }

    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        call: AccountReservation,
        now_ms: Millis,
    ) -> PortResult<Reservation> {
        let mut accounts = self.accounts.lock();
        let account = accounts.get_mut(account).filter(|account| account.is_open);
        let Some(account) = account else {
            return Ok(Reservation::Unknown);
        };
        let reserved = account.reserved(now_ms);
        if account.calls.contains_key(&call.id) {
            return Ok(Reservation::Granted);
        }
        let with_call = account.used.saturating_add(call.amount);
        if with_call.saturating_add(reserved) > limit {
            return Ok(Reservation::Refused {
                may_fit_later: with_call <= limit,
            });
        }
        account
            .calls
            .insert(call.id, (call.amount, now_ms + call.ttl_ms));
        // A request of a batch that the provider refused is reserved again under its id.
        account.settled.remove(&call.id);
        Ok(Reservation::Granted)
    }

    async fn settle_reservation(
        &self,
        account: &str,
        call: AccountReservation,
        used: u64,
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(account.into()).or_default();
        account.settled.retain(|_, until_ms| now_ms < *until_ms);
        account.calls.remove(&call.id);
        let until_ms = now_ms + SETTLED_MS;
        if account.settled.insert(call.id, until_ms).is_none() {
            account.used = account.used.saturating_add(used);
        }
        Ok(())
    }

    async fn begin_opening(&self, account: &str, proposed: u64) -> PortResult<u64> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(account.into()).or_default();
        Ok(*account.opening.get_or_insert(proposed))
    }

    async fn open_account(&self, account: &str, opening: u64, used: u64) -> PortResult<()> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(account.into()).or_default();
        if !account.is_open && account.opening == Some(opening) {
            account.is_open = true;
            account.used = account.used.saturating_add(used);
        }
        Ok(())
    }
}
