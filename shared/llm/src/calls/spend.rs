//! What a job has spent, from the names of its call records.

use futures::{StreamExt, TryStreamExt, stream};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::spend::{SpendAmount, SpendMeasure};
use stemma_store::{JobId, PortResult};

use super::pages::for_each_page;
use super::sums::{CallSum, CallSums, first_record_minute, record_digest};
use super::{CONCURRENT_READS, CallRecord};

/// Sums what `job` has spent since `since_ms`: its submission. Records whose names do not say enough (of older releases, of
/// many jobs, or without a price that is asked for) are read, and `price` says what they and sums of old records cost.
pub async fn job_spend(
    blobs: &dyn Blobs,
    collection: &str,
    job: &JobId,
    (since_ms, now_ms): (Millis, Millis),
    measure: SpendMeasure,
    price: impl Fn(&CallSum) -> SpendAmount + Sync,
) -> PortResult<SpendAmount> {
    loop {
        let mut spend = JobSpend::list(blobs, collection, job, (since_ms, now_ms), measure).await?;
        if spend
            .add_rest(blobs, collection, job, since_ms, &price)
            .await?
        {
            return Ok(spend.total);
        }
    }
}

struct JobSpend {
    total: SpendAmount,
    // Records that may be in a sum, with what their names say.
    old: Vec<(u64, SpendAmount)>,
    // Records that have to be read.
    unclear: Vec<String>,
}

impl JobSpend {
    async fn list(
        blobs: &dyn Blobs,
        collection: &str,
        job: &JobId,
        (since_ms, now_ms): (Millis, Millis),
        measure: SpendMeasure,
    ) -> PortResult<Self> {
        let mut spend = Self {
            total: SpendAmount::NOTHING,
            old: Vec::new(),
            unclear: Vec::new(),
        };
        let minutes = (since_ms / 60_000, now_ms / 60_000);
        let prefix = format!("{collection}/calls/");
        let end_of_old = format!("{prefix}{:010}", first_record_minute(now_ms));
        for_each_page(blobs, &prefix, minutes, |names| {
            for name in names {
                let amount = match NameSpend::parse(&name, job, measure) {
                    NameSpend::OfOthers => continue,
                    NameSpend::Ours(amount) => amount,
                    NameSpend::Unclear => {
                        spend.unclear.push(name);
                        continue;
                    }
                };
                if name < end_of_old {
                    spend.old.push((record_digest(&name), amount));
                } else {
                    spend.total = spend.total.plus(amount);
                }
            }
        })
        .await?;
        Ok(spend)
    }

    // Adds sums of old records, and what only a look into a record says. False if a record has gone meanwhile: it became part of
    // a sum.
    async fn add_rest(
        &mut self,
        blobs: &dyn Blobs,
        collection: &str,
        job: &JobId,
        since_ms: Millis,
        price: impl Fn(&CallSum) -> SpendAmount + Sync,
    ) -> PortResult<bool> {
        let sums = CallSums::load(blobs, collection, since_ms).await?;
        let old = self
            .old
            .iter()
            .filter(|(record, _)| !sums.contains(*record));
        self.total = old.fold(self.total, |total, (_, amount)| total.plus(*amount));
        let rows = sums.rows.iter().filter(|sum| sum.jobs.contains(job));
        self.total = rows.fold(self.total, |total, sum| total.plus(price(sum)));
        self.unclear
            .retain(|name| !sums.contains(record_digest(name)));
        let mut records = stream::iter(std::mem::take(&mut self.unclear))
            .map(async |name: String| blobs.get(&name).await)
            .buffer_unordered(CONCURRENT_READS);
        while let Some(json) = records.try_next().await? {
            let Some(json) = json else { return Ok(false) };
            let record = serde_json::from_slice::<CallRecord>(&json).ok();
            if let Some(record) = record.filter(|record| record.jobs.contains(job)) {
                self.total = self.total.plus(price(&record.into()));
            }
        }
        Ok(true)
    }
}

// What the name of a record says about a job.
enum NameSpend {
    OfOthers,
    Ours(SpendAmount),
    // Written by an older release, for many jobs, or without the price that is asked for.
    Unclear,
}

impl NameSpend {
    fn parse(key: &str, job: &JobId, measure: SpendMeasure) -> Self {
        let name = key.strip_suffix(".json").unwrap_or(key);
        let mut parts = name.split('~').skip(1);
        let Some(tokens) = parts.next().and_then(|tokens| tokens.parse().ok()) else {
            return Self::Unclear;
        };
        let nanodollars: Option<u64> = parts.next().and_then(|amount| amount.parse().ok());
        if !parts.any(|part| part == job.0) {
            return Self::OfOthers;
        }
        if nanodollars.is_none() && measure == SpendMeasure::TokensAndCost {
            return Self::Unclear;
        }
        Self::Ours(SpendAmount {
            nanodollars,
            tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use stemma_store::Env;
    use stemma_store::blobs::{MemoryBlobs, PutOutcome, put_json};

    use super::super::sums::sum_day;
    use super::super::test_records::{COST, record};
    use super::*;

    #[tokio::test]
    async fn spending_is_summed_from_names_and_from_records_that_need_reading() {
        let blobs = MemoryBlobs::default();
        let job = JobId("j-01234567890abcdef0123456789".into());
        let others: Vec<String> = (0..8)
            .map(|n| format!("j-01234567890abcdef012345678{n}"))
            .collect();
        let many: Vec<&str> = others
            .iter()
            .map(String::as_str)
            .chain([job.0.as_str()])
            .collect();
        let unpriced = SpendAmount {
            nanodollars: None,
            ..COST
        };
        let now_ms = 600_000;
        let all = [
            (record(60_000, &[]), Some(COST)),
            (record(120_000, &[&job.0]), Some(COST)),
            (record(120_000, &[&others[0], &job.0]), Some(COST)),
            (record(180_000, &[&others[0]]), Some(COST)),
            (record(now_ms, &many), Some(COST)),
            (record(now_ms, &[&job.0]), Some(unpriced)),
            (record(now_ms + 300_000, &[&job.0]), Some(COST)),
        ];
        for (random, (record, cost)) in (0..).zip(&all) {
            put_json(&blobs, &record.key("c/x", random, *cost), record)
                .await
                .unwrap();
        }
        let old = record(120_000, &[&job.0]);
        let key = format!("c/x/calls/{:010}/{}-{}-0.json", 2, old.run, old.task);
        put_json(&blobs, &key, &old).await.unwrap();

        let price = |_: &CallSum| SpendAmount {
            nanodollars: Some(1_000),
            tokens: 100,
        };
        let measure = SpendMeasure::TokensAndCost;
        let spent = job_spend(&blobs, "c/x", &job, (0, now_ms), measure, price)
            .await
            .unwrap();
        assert_eq!(
            spent,
            SpendAmount {
                nanodollars: Some(3 * 7 + 3 * 1_000),
                tokens: 600
            },
            "three by their names; of many jobs, without a price, and of an older release by reading"
        );
        let later = job_spend(&blobs, "c/x", &job, (180_000, now_ms), measure, price)
            .await
            .unwrap();
        assert_eq!(later.tokens, 300);
    }

    // A log of `PER_MINUTE` replies a minute, whose store answers after 20 ms.
    struct SlowLog {
        env: Env,
        minutes: Range<u64>,
        price: &'static str,
        requests: AtomicU64,
    }

    const PER_MINUTE: u64 = 600;
    const REPLIES: u64 = 1_000_000;

    impl SlowLog {
        // As `CallRecord::key` names records; that would take most of the time of this test.
        fn key(&self, minute: u64, number: u64) -> String {
            const ID: &str = "0123456789abcdef0123456789abcdef";
            format!(
                "c/x/calls/{minute:010}/{ID}-1-{ID}-{number:016x}~100~{}~j-1.json",
                self.price
            )
        }
    }

    #[async_trait]
    impl Blobs for SlowLog {
        async fn list(
            &self,
            prefix: &str,
            after: Option<&str>,
            limit: usize,
        ) -> PortResult<Vec<String>> {
            if prefix != "c/x/calls/" {
                return Ok(Vec::new());
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.env.sleep(Duration::from_millis(20)).await;
            let mut parts = after.unwrap().split('/').skip(3);
            let minute: u64 = parts.next().unwrap().parse().unwrap();
            let next = parts.next().map_or(0, |name| {
                let id = name.split('~').next().unwrap().rsplit('-').next().unwrap();
                u64::from_str_radix(id, 16).unwrap() + 1
            });
            let (minute, next) = if minute < self.minutes.start {
                (self.minutes.start, 0)
            } else {
                (minute, next)
            };
            let first = (minute - self.minutes.start) * PER_MINUTE + next;
            let last = (first + limit as u64).min(REPLIES).max(first);
            Ok((first..last)
                .map(|n| self.key(self.minutes.start + n / PER_MINUTE, n % PER_MINUTE))
                .collect())
        }
        async fn put(&self, _: &str, _: Bytes) -> PortResult<PutOutcome> {
            unreachable!("a log that is only listed")
        }
        async fn get(&self, _: &str) -> PortResult<Option<Bytes>> {
            unreachable!("a log that is only listed")
        }
        async fn get_range(&self, _: &str, _: Range<u64>) -> PortResult<Option<Bytes>> {
            unreachable!("a log that is only listed")
        }
        async fn size(&self, _: &str) -> PortResult<Option<u64>> {
            unreachable!("a log that is only listed")
        }
        async fn children(&self, _: &str, _: Option<&str>, _: usize) -> PortResult<Vec<String>> {
            unreachable!("a log that is only listed")
        }
        async fn delete(&self, _: &str) -> PortResult<()> {
            unreachable!("a log that is only listed")
        }
        async fn barrier(&self) -> PortResult<()> {
            unreachable!("a log that is only listed")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spending_of_a_million_replies_is_known_within_seconds() {
        let unpriced = SpendAmount {
            nanodollars: None,
            ..COST
        };
        for (price, amount, measure) in [
            ("7", COST, SpendMeasure::TokensAndCost),
            ("7", COST, SpendMeasure::Tokens),
            ("", unpriced, SpendMeasure::Tokens),
        ] {
            let env = Env::simulated(1);
            let now_ms = env.now_ms();
            let end = now_ms / 60_000;
            let log = SlowLog {
                env: env.clone(),
                minutes: end - REPLIES.div_ceil(PER_MINUTE)..end,
                price,
                requests: AtomicU64::new(0),
            };
            let since_ms = log.minutes.start * 60_000;
            assert_eq!(
                log.key(5, 9),
                record(5 * 60_000, &["j-1"]).key("c/x", 9, Some(amount))
            );
            let no_price = |_: &CallSum| unreachable!("no record is read");
            let job = JobId("j-1".into());
            let spent = job_spend(&log, "c/x", &job, (since_ms, now_ms), measure, no_price)
                .await
                .unwrap();
            assert_eq!(spent.tokens, REPLIES * COST.tokens);
            assert_eq!(
                spent.nanodollars,
                amount.nanodollars.map(|each| REPLIES * each)
            );
            let requests = log.requests.load(Ordering::Relaxed);
            let took_ms = env.now_ms() - now_ms;
            assert!(took_ms <= 2_000, "{took_ms} ms for {requests} listings");
            assert!(requests <= 1_400, "{requests} listings");
        }
    }

    #[tokio::test]
    async fn spending_includes_sums_of_old_records() {
        const DAY_MS: Millis = 86_400_000;
        let blobs = MemoryBlobs::default();
        let day = 20_000;
        for n in 0..20 {
            for at_ms in [day * DAY_MS, (day + 40) * DAY_MS] {
                let record = record(at_ms + n, &[["j-1", "j-2"][n as usize % 2]]);
                put_json(&blobs, &record.key("c/x", n, Some(COST)), &record)
                    .await
                    .unwrap();
            }
        }
        let price = |sum: &CallSum| SpendAmount {
            nanodollars: Some(7 * sum.calls),
            tokens: sum.prompt_tokens + sum.output_tokens,
        };
        let job = JobId("j-1".into());
        let period = (day * DAY_MS, (day + 40) * DAY_MS + 1_000);
        let measure = SpendMeasure::TokensAndCost;
        let spend = || job_spend(&blobs, "c/x", &job, period, measure, price);
        let before = spend().await.unwrap();
        assert_eq!((before.tokens, before.nanodollars), (2_000, Some(140)));
        let records = blobs.snapshot();
        sum_day(&blobs, "c/x", day).await.unwrap();
        assert_eq!(spend().await.unwrap(), before);
        // The deletion was interrupted.
        for (key, bytes) in records.iter().take(15) {
            blobs.put(key, bytes.clone()).await.unwrap();
        }
        assert_eq!(spend().await.unwrap(), before);
    }
}
