//! A large job, which is divided into parts of one chunk each.
//!
//! Each part is claimed and followed by the coordinator that consumes the queue of its id, so the parts of a job spread over
//! all coordinators. The job's own coordinator holds its head: it wakes the parts, a bounded number at a time, adds up
//! their results, saves cursors, and writes the report.

use std::collections::BTreeSet;
use std::ops::Range;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::{Env, Millis};
use stemma_store::key::JobId;
use stemma_store::port_error::PortResult;

use super::ended_entries::{EndedEntries, cursor_prefix};
use super::{
    CHUNK_ENTRIES, Cancelled, EntryCounts, JobEndReason, JobManifest, JobReport, JobWaits,
};

// A cursor repeats up to a thousand failures. One for each tenth that ended since keeps all cursors of a job within a small
// multiple of the last, and a new coordinator reads a tenth of the results again at most.
const CURSOR_SHARE: u64 = 10;
// Parts of one job that are open at the same time: 32,000 entries, more than the slots of sixteen coordinators.
const PARTS_AT_ONCE: usize = 64;

/// The entries of a part.
pub(super) fn part_entries(manifest: &JobManifest, part: u64) -> Range<u64> {
    let chunk = CHUNK_ENTRIES as u64;
    (part * chunk).min(manifest.entries)..((part + 1) * chunk).min(manifest.entries)
}

/// The parts that have a result.
pub(super) async fn ended_parts(blobs: &dyn Blobs, job: &JobId) -> PortResult<Vec<u64>> {
    let prefix = format!("jobs/{job}/parts/");
    let keys = list_all(blobs, &prefix).await?;
    Ok(keys
        .iter()
        .filter_map(|key| {
            let name = key.strip_prefix(&prefix)?.strip_suffix(".json")?;
            name.parse().ok()
        })
        .collect())
}

pub(crate) struct JobHead {
    pub(crate) manifest: JobManifest,
    // The first part that was not woken yet.
    next: u64,
    // Woken, without a result.
    open: BTreeSet<u64>,
    // Last event; after a long silence another coordinator may own the job.
    pub(crate) last_event_ms: Millis,
    // Failed calls that hold it up.
    pub(crate) waits: JobWaits,
    ended: EndedEntries,
    saved_at: u64,
    close: JobEndReason,
}

/// A cursor to be saved.
pub(crate) struct Cursor {
    pub(crate) key: String,
    pub(crate) content: EndedEntries,
}

impl JobHead {
    // `with_result` are parts that have a result, which the cursor may not count yet.
    pub(super) fn new(
        env: &Env,
        manifest: JobManifest,
        cursor: EndedEntries,
        with_result: &[u64],
    ) -> Self {
        // The cursor of an older version may count some entries of a part. All are claimed again then, and end as before.
        let parts = 0..manifest.entries.div_ceil(CHUNK_ENTRIES as u64);
        let ended = if parts.into_iter().all(|part| {
            let mut entries = part_entries(&manifest, part).map(|number| cursor.contains(number));
            let first = entries.next();
            entries.all(|contained| first == Some(contained))
        }) {
            cursor
        } else {
            EndedEntries::default()
        };
        let open = with_result
            .iter()
            .copied()
            .filter(|part| !ended.contains(part_entries(&manifest, *part).start));
        Self {
            open: open.collect(),
            manifest,
            next: 0,
            last_event_ms: env.now_ms(),
            waits: JobWaits::default(),
            saved_at: ended.counts.ended(),
            ended,
            close: JobEndReason::Finished,
        }
    }

    pub(crate) fn counts(&self) -> &EntryCounts {
        &self.ended.counts
    }

    /// The parts that were woken and have no result.
    pub(crate) fn open_parts(&self) -> Vec<JobId> {
        self.open
            .iter()
            .map(|part| self.manifest.job.part(*part))
            .collect()
    }

    /// Takes the parts to be woken next.
    pub(crate) fn take_parts(&mut self) -> Vec<JobId> {
        let mut taken = Vec::new();
        while self.open.len() < PARTS_AT_ONCE {
            let entries = part_entries(&self.manifest, self.next);
            if entries.is_empty() {
                break;
            }
            if !self.ended.contains(entries.start) && self.open.insert(self.next) {
                taken.push(self.manifest.job.part(self.next));
            }
            self.next += 1;
        }
        taken
    }

    /// Adds the result of a part, unless it was added before.
    pub(crate) fn end_part(&mut self, part: u64, result: &EndedEntries) {
        if self.open.remove(&part) {
            let entries = part_entries(&self.manifest, part);
            self.ended.add_part(entries, result);
        }
    }

    /// Counts the entries of parts that were never woken as cancelled. False while parts are open, which end by themselves.
    pub(crate) fn close(&mut self, cancelled: Cancelled) -> bool {
        self.close = cancelled.reason.into();
        self.next = self.manifest.entries.div_ceil(CHUNK_ENTRIES as u64);
        if self.open.is_empty() {
            let counts = &mut self.ended.counts;
            counts.cancelled += self.manifest.entries.saturating_sub(counts.ended());
        }
        self.open.is_empty()
    }

    /// The cursor to save, if enough entries have ended since the last one.
    pub(crate) fn cursor_due(&self) -> Option<Cursor> {
        let ended = self.ended.counts.ended();
        let further = (CHUNK_ENTRIES as u64).max(self.saved_at / CURSOR_SHARE);
        let is_due = ended >= self.saved_at + further && ended < self.manifest.entries;
        is_due.then(|| Cursor {
            key: format!("{}{ended:012}.json", cursor_prefix(&self.manifest.job)),
            content: self.ended.clone(),
        })
    }

    pub(crate) fn cursor_saved(&mut self, cursor: &Cursor) {
        self.saved_at = cursor.content.counts.ended();
    }

    /// Whether every entry has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended.counts.ended() >= self.manifest.entries
    }

    /// The report, once all entries have ended.
    pub(crate) fn finished_report(&self, ended_ms: Millis) -> Option<JobReport> {
        self.is_complete()
            .then(|| self.ended.report(&self.manifest, self.close, ended_ms))
    }
}

#[cfg(test)]
mod tests {
    use stemma_store::key::Priority;

    use super::*;
    use crate::jobs::JobOptions;
    use crate::message::RunOutcome;

    fn manifest(entries: u64) -> JobManifest {
        JobManifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            priority: Priority::Bulk,
            entries,
            submitted_ms: 0,
            options: JobOptions::default(),
        }
    }

    fn result(entries: Range<u64>) -> EndedEntries {
        let mut result = EndedEntries::default();
        for number in entries {
            result.insert(number, "entry", &RunOutcome::Done);
        }
        result
    }

    #[test]
    fn results_of_parts_are_added_once() {
        let mut head = JobHead::new(
            &Env::simulated(1),
            manifest(1_200),
            EndedEntries::default(),
            &[],
        );
        assert_eq!(head.take_parts().len(), 3);
        assert!(head.take_parts().is_empty());
        for _ in 0..2 {
            head.end_part(0, &result(0..500));
            head.end_part(2, &result(1_000..1_200));
        }
        let cursor = head.cursor_due().unwrap();
        head.cursor_saved(&cursor);
        assert!(head.cursor_due().is_none() && head.finished_report(0).is_none());
        // Another coordinator goes on from the cursor. A part has ended since.
        let mut head = JobHead::new(
            &Env::simulated(1),
            manifest(1_200),
            cursor.content,
            &[0, 1, 2],
        );
        assert_eq!(head.open_parts(), [JobId("job+1".into())]);
        assert!(head.take_parts().is_empty());
        head.end_part(1, &result(500..1_000));
        assert_eq!(head.finished_report(0).unwrap().counts.done, 1_200);
    }

    #[test]
    fn number_of_cursors_grows_with_the_logarithm_of_the_entries() {
        let parts = 200;
        let entries = parts * CHUNK_ENTRIES as u64;
        let nothing = EndedEntries::default();
        let mut head = JobHead::new(&Env::simulated(1), manifest(entries), nothing, &[]);
        let mut cursors = 0;
        for part in 0..parts {
            head.take_parts();
            head.end_part(part, &result(part_entries(&head.manifest, part)));
            if let Some(cursor) = head.cursor_due() {
                let ended = head.counts().ended();
                assert!(ended - head.saved_at <= ended / 10 + CHUNK_ENTRIES as u64);
                head.cursor_saved(&cursor);
                cursors += 1;
            }
        }
        assert!(head.is_complete());
        assert!((30..50).contains(&cursors), "{cursors} cursors");
    }

    #[test]
    fn cursor_that_counts_half_a_part_starts_anew() {
        let older = result(0..700);
        let mut head = JobHead::new(&Env::simulated(1), manifest(1_200), older, &[]);
        assert_eq!((head.counts().ended(), head.take_parts().len()), (0, 3));
    }

    #[test]
    fn parts_that_were_never_woken_are_cancelled() {
        let entries = 100 * CHUNK_ENTRIES as u64;
        let mut head = JobHead::new(
            &Env::simulated(1),
            manifest(entries),
            EndedEntries::default(),
            &[],
        );
        assert_eq!(head.take_parts().len(), PARTS_AT_ONCE);
        let cancelled = Cancelled {
            reason: crate::jobs::CancelReason::Person,
            at_ms: 0,
        };
        assert!(!head.close(cancelled), "parts are open");
        for part in 0..PARTS_AT_ONCE as u64 {
            head.end_part(part, &result(part_entries(&head.manifest, part)));
        }
        assert!(head.close(cancelled));
        let report = head.finished_report(0).unwrap();
        assert_eq!(
            (report.counts.done, report.counts.cancelled),
            (32_000, 18_000)
        );
        assert_eq!(report.close, JobEndReason::Cancelled);
    }
}
