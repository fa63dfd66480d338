//! Finds the jobs that have not ended, without reading each of them each time.
//!
//! The first walk lists all jobs and the markers of ended jobs, a thousand a request; only jobs without a marker are read.
//! After it, only the open jobs are read again, and new ones are listed.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use stemma_store::blobs::{Blobs, list_range};
use stemma_store::env::Millis;
use stemma_store::key::JobId;
use stemma_store::port_error::PortResult;

use super::{list, report};

const PAGE: usize = 1_000;
const CONCURRENT_READS: usize = 16;
const MARKERS: &str = "jobs-ended/";
// Jobs submitted by a process whose clock is behind sort before others that were listed already.
const CLOCK_SKEW_MS: Millis = 3_600_000;

/// Notes that a job has its report.
///
/// # Errors
/// [`stemma_store::PortError`] when the store is unavailable; the scan reads the job instead, and notes it then.
pub(crate) async fn mark_ended(blobs: &dyn Blobs, job: &JobId) -> PortResult<()> {
    let marker = format!("{MARKERS}{job}");
    blobs.put(&marker, Bytes::new()).await.map(drop)
}

/// A repeated scan for jobs that have not ended.
#[derive(Default)]
pub(crate) struct JobScan {
    // Jobs that had not ended when they were last read.
    open: BTreeSet<JobId>,
    // The last job that was listed.
    listed: Option<JobId>,
    // The open job that was read last.
    read: Option<JobId>,
}

/// What one step of a scan found.
pub(crate) struct ScanStep {
    /// Jobs that have not ended; at most a thousand and those that were found first in this step.
    pub(crate) open: Vec<JobId>,
    /// Whether more jobs wait to be listed.
    pub(crate) more: bool,
}

impl JobScan {
    /// Lists the next thousand jobs, and reads open ones again: a thousand at most.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store is unavailable; the next step repeats this one.
    pub(crate) async fn step(&mut self, blobs: &dyn Blobs) -> PortResult<ScanStep> {
        let page = list(blobs, self.listed.as_ref(), PAGE).await?;
        let more = page.len() == PAGE;
        let ended = markers(blobs, self.listed.as_ref(), page.last()).await?;
        let unknown: Vec<JobId> = page
            .iter()
            .filter(|job| !ended.contains(job) && !self.open.contains(job))
            .cloned()
            .collect();
        for job in &ended {
            self.open.remove(job);
        }
        // Open jobs are read again at the end of each walk.
        let again: Vec<JobId> = match &self.read {
            _ if more => Vec::new(),
            Some(read) => self
                .open
                .range(read.clone()..)
                .skip_while(|job| *job == read)
                .take(PAGE)
                .cloned()
                .collect(),
            None => self.open.iter().take(PAGE).cloned().collect(),
        };
        let mut found = Vec::new();
        for (job, is_open) in read_all(blobs, unknown.iter().chain(&again)).await? {
            if is_open {
                self.open.insert(job.clone());
                found.push(job);
            } else {
                self.open.remove(&job);
            }
        }
        self.read = again.last().filter(|_| again.len() == PAGE).cloned();
        self.listed = match page.last() {
            Some(last) if more => Some(last.clone()),
            Some(last) => before(last),
            None => self.listed.as_ref().and_then(before),
        };
        Ok(ScanStep { open: found, more })
    }
}

// The ended jobs after `after`, up to `last`.
async fn markers(
    blobs: &dyn Blobs,
    after: Option<&JobId>,
    last: Option<&JobId>,
) -> PortResult<BTreeSet<JobId>> {
    let Some(last) = last else {
        return Ok(BTreeSet::new());
    };
    let after = after.map(|job| format!("{MARKERS}{job}"));
    let end = format!("{MARKERS}{last}\0");
    let keys = list_range(blobs, MARKERS, after.as_deref(), Some(&end)).await?;
    Ok(keys
        .iter()
        .filter_map(|key| key.strip_prefix(MARKERS))
        .map(|job| JobId(job.into()))
        .collect())
}

// Whether each job is open. Ended ones are marked; one whose report cannot be read has ended.
async fn read_all(
    blobs: &dyn Blobs,
    jobs: impl Iterator<Item = &JobId>,
) -> PortResult<Vec<(JobId, bool)>> {
    let reads = stream::iter(jobs.cloned().collect::<Vec<_>>()).map(async |job| {
        let is_open = match report(blobs, &job).await {
            Ok(Some(_)) => {
                // Without a marker it is read again after the next start.
                if let Err(error) = mark_ended(blobs, &job).await {
                    tracing::debug!(%job, %error, "an ended job is not marked");
                }
                false
            }
            Ok(None) => true,
            Err(error) if error.is_permanent() => {
                tracing::error!(%job, %error, "the report of a job cannot be read; it counts as ended");
                false
            }
            Err(error) => return Err(error),
        };
        Ok((job, is_open))
    });
    reads.buffered(CONCURRENT_READS).try_collect().await
}

// An id that sorts before those of the hour before `job`; the job itself where its id does not say its time.
fn before(job: &JobId) -> Option<JobId> {
    let time = submitted_ms(job).map(|at_ms| first_id(at_ms.saturating_sub(CLOCK_SKEW_MS)));
    Some(time.unwrap_or_else(|| job.clone()))
}

/// The time of submission in the id of a job (`j-{time}{random}`, hexadecimal).
fn submitted_ms(job: &JobId) -> Option<Millis> {
    let id = job.0.strip_prefix("j-")?;
    Millis::from_str_radix(id.get(..11)?, 16).ok()
}

fn first_id(at_ms: Millis) -> JobId {
    JobId(format!("j-{at_ms:011x}"))
}

/// Jobs from the newest on, in pages. Listings are in order of submission, so it lists the last minute first, then ten
/// minutes, and so on: whoever stops early never lists all.
pub struct NewestJobs {
    now_ms: Millis,
    window_ms: Option<Millis>,
    // Jobs from here on were returned.
    end: Option<JobId>,
}

impl NewestJobs {
    pub fn new(now_ms: Millis) -> Self {
        Self {
            now_ms,
            window_ms: Some(60_000),
            end: None,
        }
    }

    /// Only jobs that are older than `job`.
    #[must_use]
    pub fn before(mut self, job: &JobId) -> Self {
        self.now_ms = submitted_ms(job).unwrap_or(self.now_ms);
        self.end = Some(job.clone());
        self
    }

    /// The next older jobs, newest first; `None` after the oldest. A page may be empty.
    pub async fn next_page(&mut self, blobs: &dyn Blobs) -> PortResult<Option<Vec<JobId>>> {
        let Some(window_ms) = self.window_ms else {
            return Ok(None);
        };
        let start = self.now_ms.checked_sub(window_ms).map(first_id);
        let mut jobs: Vec<JobId> = Vec::new();
        loop {
            let after = jobs.last().or(start.as_ref());
            let page = list(blobs, after, PAGE).await?;
            let end = self.end.as_ref();
            let inside = page.partition_point(|job| end.is_none_or(|end| job < end));
            let is_last = page.len() < PAGE || inside < page.len();
            jobs.extend(page.into_iter().take(inside));
            if is_last {
                break;
            }
        }
        self.end = start.clone();
        self.window_ms = start.map(|_| window_ms.saturating_mul(10));
        jobs.reverse();
        Ok(Some(jobs))
    }
}

#[cfg(test)]
mod tests {
    use stemma_store::blobs::{MemoryBlobs, put_json};

    use super::*;
    use crate::jobs::{EntryCounts, JobEndReason, JobReport, manifest_key, report_key};

    fn id(n: u64) -> JobId {
        JobId(format!("j-{:011x}{n:016x}", 1_767_225_600_000 + n * 1_000))
    }

    async fn submit(blobs: &MemoryBlobs, job: &JobId) {
        blobs.put(&manifest_key(job), Bytes::new()).await.unwrap();
    }

    async fn end(blobs: &MemoryBlobs, job: &JobId) {
        let report = JobReport {
            job: job.clone(),
            close: JobEndReason::Finished,
            counts: EntryCounts::default(),
            reasons: Default::default(),
            failures: Vec::new(),
            tasks: 0,
            submitted_ms: 0,
            ended_ms: 0,
        };
        put_json(blobs, &report_key(job), &report).await.unwrap();
    }

    async fn walk(scan: &mut JobScan, blobs: &MemoryBlobs) -> (Vec<JobId>, usize) {
        let mut open = Vec::new();
        for steps in 1.. {
            let step = scan.step(blobs).await.unwrap();
            open.extend(step.open);
            if !step.more {
                return (open, steps);
            }
        }
        unreachable!("a walk ends")
    }

    #[tokio::test]
    async fn open_jobs_are_found_among_many_that_ended() {
        let blobs = MemoryBlobs::default();
        for n in 0..10_000 {
            submit(&blobs, &id(n)).await;
            if n % 2_500 != 7 {
                end(&blobs, &id(n)).await;
                // Half of them ended under an older release, which wrote no markers.
                if n < 5_000 {
                    mark_ended(&blobs, &id(n)).await.unwrap();
                }
            }
        }
        let open = [7, 2_507, 5_007, 7_507].map(id);
        let mut scan = JobScan::default();
        let (found, steps) = walk(&mut scan, &blobs).await;
        let found: BTreeSet<JobId> = found.into_iter().collect();
        assert_eq!(found, open.clone().into_iter().collect());
        assert!(steps <= 11, "{steps} steps");
        // From now on a job that stays open at the front costs one read, and new ones are found.
        submit(&blobs, &id(10_000)).await;
        end(&blobs, &id(7_507)).await;
        let late = JobId(format!(
            "j-{:011x}{:016x}",
            1_767_225_600_000_u64 + 9_000_000,
            1
        ));
        submit(&blobs, &late).await;
        let (found, steps) = walk(&mut scan, &blobs).await;
        let expected = [7, 2_507, 5_007, 10_000].map(id).into_iter().chain([late]);
        assert_eq!(
            found.into_iter().collect::<BTreeSet<_>>(),
            expected.collect()
        );
        assert!(
            steps <= 5,
            "one hour of jobs is listed again: {steps} steps"
        );
        let marked = blobs.list(MARKERS, None, 20_000).await.unwrap().len();
        assert_eq!(
            marked, 9_997,
            "jobs of older releases are marked when they are read"
        );
    }

    #[tokio::test]
    async fn newest_jobs_are_listed_without_walking_all() {
        let blobs = MemoryBlobs::default();
        for n in 0..5_000 {
            submit(&blobs, &id(n)).await;
        }
        let mut newest = NewestJobs::new(1_767_225_600_000 + 5_000 * 1_000);
        let mut all = newest.next_page(&blobs).await.unwrap().unwrap();
        assert!(
            (59..=61).contains(&all.len()),
            "{} in the last minute",
            all.len()
        );
        while let Some(page) = newest.next_page(&blobs).await.unwrap() {
            all.extend(page);
        }
        assert_eq!(all, (0..5_000).rev().map(id).collect::<Vec<_>>());
        let mut older = NewestJobs::new(0).before(&id(2_000));
        let mut found = Vec::new();
        while let Some(page) = older.next_page(&blobs).await.unwrap() {
            found.extend(page);
        }
        assert_eq!(found, all[3_000..]);
    }
}
