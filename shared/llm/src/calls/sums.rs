//! Sums of old call records: one row per run, stage, model and jobs of a day takes the place of its records.
//!
//! ```text
//! {collection}/call-sums/{day}/{part}.json    parts are numbered from 0; each names the records that it contains
//! ```
//!
//! A record counts once, whatever is interrupted and whoever reads meanwhile. A part is created before its records are deleted,
//! and whoever creates part `n` knows what the parts before it contain. Readers list records first and parts afterwards: a
//! record that was deleted before they listed is in a part that they find, and one that they listed is left out if a part
//! contains it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_store::blobs::{Blobs, PutOutcome, get_json, list_all, list_range, put_json};
use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;
use stemma_store::{JobId, PortResult, RunId};

use super::{CONCURRENT_READS, CallRecord, PAGE_SIZE};
use crate::prices::Prices;
use crate::request::TokenUsage;

/// Days that records are kept at least: a worker may store a reply late, and clocks differ.
pub const MIN_RECORD_DAYS: u64 = 2;
const MINUTES_PER_DAY: u64 = 1_440;
const DAY_MS: Millis = MINUTES_PER_DAY * 60_000;
// Days that are read at once.
const CONCURRENT_DAYS: usize = 8;
// Records in a part: some megabytes of memory, and some hundred kilobytes in the store.
const PART_RECORDS: usize = 5_000;

/// Replies of a day that have the same origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSum {
    /// Days since 1970-01-01 UTC.
    pub day: u64,
    pub run: RunId,
    pub stage: String,
    pub model: String,
    #[serde(default)]
    pub jobs: Vec<JobId>,
    /// Whether they came in batches, at the price of batches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    pub calls: u64,
    /// Replies that could not be used.
    pub useless: u64,
    pub prompt_tokens: u64,
    /// Prompt tokens that the provider had cached.
    pub cached_tokens: u64,
    pub output_tokens: u64,
}

impl CallSum {
    /// The cost at `prices`.
    pub fn cost(&self, prices: Prices) -> SpendAmount {
        let prices = if self.batch {
            prices.for_batch()
        } else {
            prices
        };
        prices.cost_of(self.prompt_tokens, self.cached_tokens, self.output_tokens)
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.useless += other.useless;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
    }
}

impl From<CallRecord> for CallSum {
    fn from(record: CallRecord) -> Self {
        let TokenUsage {
            prompt_tokens,
            cached_tokens,
            output_tokens,
        } = record.usage;
        Self {
            day: record.at_ms / DAY_MS,
            run: record.run,
            stage: record.stage,
            model: record.model,
            jobs: record.jobs,
            batch: record.batch,
            calls: 1,
            useless: u64::from(!record.useful),
            prompt_tokens: prompt_tokens.into(),
            cached_tokens: cached_tokens.into(),
            output_tokens: output_tokens.into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SumPart {
    // Digests of the keys of the records.
    records: Vec<u64>,
    // Records that could not be read.
    unreadable: u64,
    rows: Vec<CallSum>,
}

/// The parts of some days.
#[derive(Default)]
pub(super) struct CallSums {
    records: BTreeSet<u64>,
    pub(super) unreadable: u64,
    pub(super) rows: Vec<CallSum>,
    parts: usize,
    // Parts that cannot be read. Each counts as one unreadable record, because nobody knows how many it has.
    damaged_parts: usize,
}

impl CallSums {
    /// The parts of all days since `since_ms`.
    pub(super) async fn load(
        blobs: &dyn Blobs,
        collection: &str,
        since_ms: Millis,
    ) -> PortResult<Self> {
        let prefix = sums_prefix(collection);
        let since_day = since_ms / DAY_MS;
        let mut after = format!("{prefix}{since_day:06}");
        let mut sums = Self::default();
        loop {
            let keys = blobs.list(&prefix, Some(&after), PAGE_SIZE).await?;
            let Some(last) = keys.last() else {
                return Ok(sums);
            };
            after.clone_from(last);
            sums.add_parts(blobs, keys).await?;
        }
    }

    async fn load_day(blobs: &dyn Blobs, collection: &str, day: u64) -> PortResult<Self> {
        let prefix = sums_prefix(collection);
        let keys = list_all(blobs, &format!("{prefix}{day:06}/")).await?;
        let mut sums = Self::default();
        sums.add_parts(blobs, keys).await?;
        Ok(sums)
    }

    async fn add_parts(&mut self, blobs: &dyn Blobs, keys: Vec<String>) -> PortResult<()> {
        self.parts += keys.len();
        let mut parts = stream::iter(keys)
            .map(async |key: String| {
                let part = get_json::<SumPart>(blobs, &key).await;
                match part {
                    Err(error) if error.is_permanent() => Ok(Some(None)),
                    part => part.map(|part| part.map(Some)),
                }
            })
            .buffered(CONCURRENT_READS);
        while let Some(part) = parts.try_next().await? {
            let Some(part) = part else { continue };
            let Some(part) = part else {
                self.damaged_parts += 1;
                self.unreadable += 1;
                continue;
            };
            self.records.extend(part.records);
            self.unreadable += part.unreadable;
            self.rows.extend(part.rows);
        }
        Ok(())
    }

    /// Whether a part contains the record.
    pub(super) fn contains(&self, record: u64) -> bool {
        self.records.contains(&record)
    }
}

/// Names a record in a part.
pub(super) fn record_digest(key: &str) -> u64 {
    let name = key.rsplit_once("/calls/").map_or(key, |(_, name)| name);
    let hash = blake3::hash(name.as_bytes());
    u64::from_le_bytes(std::array::from_fn(|at| hash.as_bytes()[at]))
}

// The first day whose records may not be summed, given how long records stay.
fn first_record_day(now_ms: Millis, record_days: u64) -> u64 {
    (now_ms / DAY_MS).saturating_sub(record_days.max(MIN_RECORD_DAYS))
}

/// The first minute whose records cannot be in a sum. A day earlier than the rule, for clocks that differ.
pub(super) fn first_record_minute(now_ms: Millis) -> u64 {
    (first_record_day(now_ms, MIN_RECORD_DAYS) + 1) * MINUTES_PER_DAY
}

/// The days, oldest first, whose records are older than `record_days`.
pub async fn days_to_sum(
    blobs: &dyn Blobs,
    collection: &str,
    now_ms: Millis,
    kept_days: u64,
) -> PortResult<Vec<u64>> {
    let end = first_record_day(now_ms, kept_days);
    record_days(blobs, collection, 0..end).await
}

/// The number of records of a day.
pub async fn count_day(blobs: &dyn Blobs, collection: &str, day: u64) -> PortResult<u64> {
    Ok(list_day(blobs, collection, day).await?.len() as u64)
}

// The days that have records: one listing each.
async fn record_days(
    blobs: &dyn Blobs,
    collection: &str,
    range: Range<u64>,
) -> PortResult<Vec<u64>> {
    let prefix = records_prefix(collection);
    let mut days = Vec::new();
    let mut next = range.start;
    loop {
        // The first minute of the next day that has one. `~` sorts after the slash of the minute before.
        let after = (next * MINUTES_PER_DAY)
            .checked_sub(1)
            .map(|minute| format!("{minute:010}~"));
        let minutes = blobs.children(&prefix, after.as_deref(), 1).await?;
        let minute = minutes
            .first()
            .and_then(|minute| minute.trim_end_matches('/').parse::<u64>().ok());
        let day = minute.map(|minute| minute / MINUTES_PER_DAY);
        let Some(day) = day.filter(|day| range.contains(day)) else {
            return Ok(days);
        };
        days.push(day);
        next = day + 1;
    }
}

/// Sums the records of a day, and deletes them. Interrupted, it is completed by the next call. Returns how many it deleted.
pub async fn sum_day(blobs: &dyn Blobs, collection: &str, day: u64) -> PortResult<u64> {
    let prefix = records_prefix(collection);
    let end = format!("{prefix}{:010}", (day + 1) * MINUTES_PER_DAY);
    let mut deleted = 0;
    loop {
        // From the beginning: what was listed before is deleted.
        let start = format!("{prefix}{:010}", day * MINUTES_PER_DAY);
        let mut keys = blobs.list(&prefix, Some(&start), PART_RECORDS).await?;
        keys.truncate(keys.partition_point(|key| *key < end));
        if keys.is_empty() {
            return Ok(deleted);
        }
        let sums = CallSums::load_day(blobs, collection, day).await?;
        if sums.damaged_parts > 0 {
            return Ok(deleted); // it may contain these records
        }
        let fresh: Vec<String> = keys
            .iter()
            .filter(|key| !sums.contains(record_digest(key)))
            .cloned()
            .collect();
        if !fresh.is_empty() {
            let part = SumPart::read(blobs, fresh).await?;
            let number = sums.parts;
            let key = format!("{}{day:06}/{number:06}.json", sums_prefix(collection));
            // Another process was faster: what it summed must be known first.
            if put_json(blobs, &key, &part).await? == PutOutcome::Exists {
                continue;
            }
        }
        deleted += keys.len() as u64;
        stream::iter(&keys)
            .map(|key| blobs.delete(key))
            .buffer_unordered(CONCURRENT_READS)
            .try_collect::<()>()
            .await?;
    }
}

impl SumPart {
    async fn read(blobs: &dyn Blobs, keys: Vec<String>) -> PortResult<Self> {
        let records = keys.iter().map(|key| record_digest(key)).collect();
        let (rows, unreadable, _) = read_rows(blobs, keys).await?;
        Ok(Self {
            records,
            unreadable,
            rows,
        })
    }
}

// Run, stage, model, jobs, and whether in a batch.
type CallOrigin = (RunId, String, String, Vec<JobId>, bool);

// The rows of records, how many are unreadable, and how many are not there any more.
async fn read_rows(blobs: &dyn Blobs, keys: Vec<String>) -> PortResult<(Vec<CallSum>, u64, usize)> {
    let mut rows: BTreeMap<CallOrigin, CallSum> = BTreeMap::new();
    let mut unreadable = 0;
    let mut missing = 0;
    let mut records = stream::iter(keys)
        .map(async |key: String| blobs.get(&key).await)
        .buffered(CONCURRENT_READS);
    while let Some(json) = records.try_next().await? {
        let Some(json) = json else {
            missing += 1;
            continue;
        };
        let Ok(record) = serde_json::from_slice::<CallRecord>(&json) else {
            unreadable += 1;
            continue;
        };
        let sum = CallSum::from(record);
        let origin = (
            sum.run.clone(),
            sum.stage.clone(),
            sum.model.clone(),
            sum.jobs.clone(),
            sum.batch,
        );
        match rows.get_mut(&origin) {
            Some(row) => row.add(&sum),
            None => {
                rows.insert(origin, sum);
            }
        }
    }
    Ok((rows.into_values().collect(), unreadable, missing))
}

/// Reads what a collection has called since the day of `since_ms`, summed by day, run, stage, model and jobs. Returns the number
/// of unreadable records.
pub async fn read_sums(
    blobs: &dyn Blobs,
    collection: &str,
    since_ms: Millis,
    mut each: impl FnMut(CallSum) + Send,
) -> PortResult<u64> {
    let first_day = since_ms / DAY_MS;
    // Records first: a day whose records were all deleted by now has parts.
    let mut days: BTreeSet<u64> = record_days(blobs, collection, first_day..u64::MAX)
        .await?
        .into_iter()
        .collect();
    let prefix = sums_prefix(collection);
    let mut after = format!("{:06}", first_day.saturating_sub(1)) + "~";
    loop {
        let page = blobs.children(&prefix, Some(&after), PAGE_SIZE).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(last);
        days.extend(
            page.iter()
                .filter_map(|day| day.trim_end_matches('/').parse::<u64>().ok()),
        );
    }
    let mut unreadable = 0;
    let mut read = stream::iter(days)
        .map(|day| read_day(blobs, collection, day))
        .buffered(CONCURRENT_DAYS);
    while let Some((rows, unreadable_of_day)) = read.try_next().await? {
        unreadable += unreadable_of_day;
        rows.into_iter().for_each(&mut each);
    }
    Ok(unreadable)
}

async fn read_day(
    blobs: &dyn Blobs,
    collection: &str,
    day: u64,
) -> PortResult<(Vec<CallSum>, u64)> {
    loop {
        let mut keys = list_day(blobs, collection, day).await?;
        let sums = CallSums::load_day(blobs, collection, day).await?;
        keys.retain(|key| !sums.contains(record_digest(key)));
        let (mut rows, unreadable, missing) = read_rows(blobs, keys).await?;
        // Records that have gone since they were listed are in a part that was not there then.
        if missing == 0 {
            rows.extend(sums.rows);
            return Ok((rows, unreadable + sums.unreadable));
        }
    }
}

async fn list_day(blobs: &dyn Blobs, collection: &str, day: u64) -> PortResult<Vec<String>> {
    let prefix = records_prefix(collection);
    let end = format!("{prefix}{:010}", (day + 1) * MINUTES_PER_DAY);
    let start = format!("{prefix}{:010}", day * MINUTES_PER_DAY);
    list_range(blobs, &prefix, Some(&start), Some(&end)).await
}

fn records_prefix(collection: &str) -> String {
    format!("{collection}/calls/")
}

fn sums_prefix(collection: &str) -> String {
    format!("{collection}/call-sums/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_store::blobs::MemoryBlobs;

    use super::super::test_records::{COST, record};
    use super::*;

    const DAY: u64 = 20_000;

    async fn put(blobs: &MemoryBlobs, numbers: std::ops::Range<u64>, at_ms: Millis) {
        for n in numbers {
            let job = ["j-1", "j-2"][n as usize % 2];
            let record = record(at_ms + n, &[job]);
            let key = record.key("c/x", n, Some(COST));
            put_json(blobs, &key, &record).await.unwrap();
        }
    }

    async fn totals(blobs: &MemoryBlobs, since_ms: Millis) -> (u64, u64, usize) {
        let mut calls = 0;
        let mut tokens = 0;
        let mut rows = 0;
        let unreadable = read_sums(blobs, "c/x", since_ms, |sum| {
            calls += sum.calls;
            tokens += sum.prompt_tokens + sum.output_tokens;
            rows += 1;
        });
        assert_eq!(unreadable.await.unwrap(), 0);
        (calls, tokens, rows)
    }

    #[tokio::test]
    async fn sums_take_the_place_of_old_records() {
        let blobs = MemoryBlobs::default();
        put(&blobs, 0..7_000, DAY * DAY_MS).await;
        put(&blobs, 0..10, (DAY + 3) * DAY_MS).await;
        let now_ms = (DAY + 32) * DAY_MS;
        assert_eq!(totals(&blobs, 0).await, (7_010, 701_000, 4));
        let days = days_to_sum(&blobs, "c/x", now_ms, 30).await.unwrap();
        assert_eq!(days, [DAY], "the other day is 29 days old");
        assert_eq!(sum_day(&blobs, "c/x", DAY).await.unwrap(), 7_000);
        assert_eq!(blobs.snapshot().len(), 10 + 2, "two parts of two rows each");
        assert_eq!(totals(&blobs, 0).await, (7_010, 701_000, 6));
        assert_eq!(totals(&blobs, (DAY + 1) * DAY_MS).await, (10, 1_000, 2));
        assert_eq!(sum_day(&blobs, "c/x", DAY).await.unwrap(), 0);
    }

    // Whatever was done of a compaction when its process died, every record counts once.
    #[tokio::test]
    async fn interrupted_sums_count_every_record_once() {
        let all = MemoryBlobs::default();
        put(&all, 0..100, DAY * DAY_MS).await;
        let records = all.snapshot();
        sum_day(&all, "c/x", DAY).await.unwrap();
        for deleted in [0, 1, 50, 99] {
            let blobs = MemoryBlobs::default();
            for (key, bytes) in records.iter().skip(deleted).chain(&all.snapshot()) {
                blobs.put(key, bytes.clone()).await.unwrap();
            }
            put(&blobs, 200..210, DAY * DAY_MS).await; // stored late
            assert_eq!(totals(&blobs, 0).await.0, 110, "{deleted} deleted");
            let left = sum_day(&blobs, "c/x", DAY).await.unwrap();
            assert_eq!(left as usize, 110 - deleted);
            assert_eq!(totals(&blobs, 0).await.0, 110);
        }
    }

    /// F8 of the operator review, of the same kind: no costs were known any more.
    #[tokio::test]
    async fn a_damaged_part_hides_no_other_costs() {
        let blobs = MemoryBlobs::default();
        put(&blobs, 0..20, DAY * DAY_MS).await;
        sum_day(&blobs, "c/x", DAY).await.unwrap();
        put(&blobs, 20..30, (DAY + 1) * DAY_MS).await;
        sum_day(&blobs, "c/x", DAY + 1).await.unwrap();
        let part = format!("{}{DAY:06}/000000.json", sums_prefix("c/x"));
        blobs.delete(&part).await.unwrap();
        blobs.put(&part, vec![0, 1].into()).await.unwrap();
        // What the damaged part contains is not known, so nothing is summed with it.
        put(&blobs, 30..35, DAY * DAY_MS).await;
        assert_eq!(sum_day(&blobs, "c/x", DAY).await.unwrap(), 0);
        let mut calls = 0;
        let unreadable = read_sums(&blobs, "c/x", 0, |sum| calls += sum.calls);
        assert_eq!(unreadable.await.unwrap(), 1);
        assert_eq!(calls, 15);
    }

    #[tokio::test]
    async fn two_processes_sum_every_record_once() {
        let blobs = Arc::new(MemoryBlobs::default());
        put(&blobs, 0..300, DAY * DAY_MS).await;
        let one = sum_day(blobs.as_ref(), "c/x", DAY);
        let two = sum_day(blobs.as_ref(), "c/x", DAY);
        let _ = tokio::try_join!(one, two).unwrap();
        assert_eq!(totals(&blobs, 0).await.0, 300);
    }
}
