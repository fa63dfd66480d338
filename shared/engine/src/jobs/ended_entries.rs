//! The ended entries of a job: counts, and the set of counted entries as compact ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_store::blobs::{Blobs, get_json, list_all};
use stemma_store::env::Millis;
use stemma_store::failure::FailureRecord;
use stemma_store::key::JobId;
use stemma_store::port_error::PortResult;

use super::{EntryCounts, JobEndReason, JobManifest, JobReport};
use crate::message::RunOutcome;

// Failures listed in a report; the counts are complete.
const MAX_FAILURES: usize = 1_000;
// Distinct error codes that are counted.
const MAX_REASONS: usize = 256;

/// Content of a cursor.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EndedEntries {
    pub(crate) counts: EntryCounts,
    pub(super) failures: Vec<(String, FailureRecord)>,
    #[serde(default)]
    pub(super) reasons: BTreeMap<String, u64>,
    #[serde(default)]
    pub(super) tasks: u64,
    #[serde(default)]
    ended: RangeSet,
}

impl EndedEntries {
    /// Counts an ended entry; false if it was counted before. `name` identifies it in the report.
    pub(super) fn insert(&mut self, number: u64, name: &str, ending: &RunOutcome) -> bool {
        if !self.ended.insert(number) {
            return false;
        }
        self.counts.add(ending);
        if let RunOutcome::Failed(record) = ending {
            self.record_failure(name, record);
        }
        true
    }

    /// Adds the results of the entries `numbers`, which are all that `part` counts.
    pub(super) fn add_part(&mut self, numbers: Range<u64>, part: &Self) {
        for number in numbers {
            self.ended.insert(number);
        }
        self.counts.add_all(&part.counts);
        self.tasks = self.tasks.saturating_add(part.tasks);
        for (code, count) in &part.reasons {
            let code = self.listed_reason(code);
            *self.reasons.entry(code).or_default() += count;
        }
        let room = MAX_FAILURES.saturating_sub(self.failures.len());
        self.failures
            .extend(part.failures.iter().take(room).cloned());
    }

    fn listed_reason(&self, code: &str) -> String {
        let is_listed = self.reasons.len() < MAX_REASONS || self.reasons.contains_key(code);
        let code = if is_listed { code } else { "other" };
        code.into()
    }

    fn record_failure(&mut self, name: &str, record: &FailureRecord) {
        let code = self.listed_reason(&record.code);
        *self.reasons.entry(code).or_default() += 1;
        if self.failures.len() < MAX_FAILURES {
            self.failures.push((name.into(), record.clone()));
        }
    }

    pub(super) fn report(
        &self,
        manifest: &JobManifest,
        close: JobEndReason,
        ended_ms: Millis,
    ) -> JobReport {
        let ended = self.clone();
        JobReport {
            job: manifest.job.clone(),
            close,
            counts: ended.counts,
            reasons: ended.reasons,
            failures: ended.failures,
            tasks: ended.tasks,
            submitted_ms: manifest.submitted_ms,
            ended_ms,
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.ended.contains(number)
    }

    pub(super) fn first_missing(&self) -> u64 {
        self.ended.0.get(&0).copied().unwrap_or(0)
    }
}

/// The last saved cursor of a job, or an empty one.
pub(super) async fn load_last(blobs: &dyn Blobs, job: &JobId) -> PortResult<EndedEntries> {
    let keys = list_all(blobs, &cursor_prefix(job)).await?;
    let Some(key) = keys.last() else {
        return Ok(EndedEntries::default());
    };
    let mut tally = get_json::<EndedEntries>(blobs, key)
        .await?
        .unwrap_or_default();
    if tally.ended.0.is_empty() && tally.counts.ended() > 0 {
        tally.ended.0.insert(0, tally.counts.ended()); // older cursors hold only a count: the first entries
    }
    Ok(tally)
}

// Cursors are named by the number of ended entries, so the last one is the newest.
pub(super) fn cursor_prefix(job: &JobId) -> String {
    format!("jobs/{job}/cursor/")
}

// A set of numbers as half-open ranges (start to end) that neither touch nor overlap.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    fn contains(&self, number: u64) -> bool {
        self.0
            .range(..=number)
            .next_back()
            .is_some_and(|(_, end)| number < *end)
    }

    /// False if the number is in the set already.
    fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let before = self
            .0
            .range(..number)
            .next_back()
            .filter(|(_, end)| **end == number)
            .map(|(start, _)| *start);
        let end = self.0.remove(&(number + 1)).unwrap_or(number + 1);
        self.0.insert(before.unwrap_or(number), end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_set_merges_adjacent_numbers() {
        let mut ranges = RangeSet::default();
        for number in [5, 0, 7, 6, 1, 3, 9] {
            assert!(ranges.insert(number) && !ranges.insert(number), "{number}");
        }
        assert_eq!(ranges.0, BTreeMap::from([(0, 2), (3, 4), (5, 8), (9, 10)]));
        assert_eq!((0..11).filter(|number| ranges.contains(*number)).count(), 7);
        ranges.insert(2);
        assert_eq!(ranges.0.get(&0), Some(&4));
    }

    #[test]
    fn failures_are_counted_beyond_the_list_limit() {
        let mut tally = EndedEntries::default();
        for number in 0..3_000 {
            let record = FailureRecord {
                code: format!("code.{}", number % 300),
                message: String::new(),
                next: None,
                stage: String::new(),
                attempts: 1,
                at_ms: 0,
            };
            tally.insert(number, "run", &RunOutcome::Failed(record));
        }
        assert_eq!(
            (
                tally.counts.failed,
                tally.failures.len(),
                tally.reasons.len()
            ),
            (3_000, 1_000, 257)
        );
        assert_eq!(tally.reasons.values().sum::<u64>(), 3_000);
    }
}
