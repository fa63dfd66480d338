//! An open job, held by the coordinator that owns it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stemma_store::blobs::get_json;
use stemma_store::env::{Env, Millis};
use stemma_store::failure::FailureRecord;
use stemma_store::key::{JobId, RunHeader, RunId};
use stemma_store::port_error::PortResult;

use super::ended_entries::{EndedEntries, load_last};
use super::head::{JobHead, ended_parts, part_entries};
use super::{
    CHUNK_ENTRIES, Cancelled, EntryCounts, JobEndReason, JobReport, JobWaits, chunk_key, manifest,
    part_key, report,
};
use crate::jobs::{JobEntry, JobManifest};
use crate::message::RunOutcome;
use crate::ports::Ports;

// Its size grows with the number of open runs, not with the number of entries.
pub(crate) struct OpenJob {
    pub(crate) manifest: JobManifest,
    // The part of the job that this is; `None` for all of it.
    part: Option<u64>,
    // End of its entries.
    end: u64,
    // Number of the first entry not loaded yet.
    next: u64,
    // Whether its chunk is being read.
    is_loading: bool,
    // Loaded, not claimed.
    upcoming: VecDeque<(u64, JobEntry)>,
    // Being claimed.
    claiming: BTreeMap<u64, JobEntry>,
    // To be claimed again: their runs were cancelled on behalf of another job.
    to_reclaim: BTreeSet<u64>,
    // Open runs with the entries bound to each; a document may be listed twice.
    pub(crate) open_runs: BTreeMap<RunId, (Vec<u64>, RunHeader)>,
    // Entries that are claimed again when the run they are bound to has ended.
    after_run: BTreeSet<u64>,
    // Last event; after a long silence another coordinator may own the job.
    pub(crate) last_event_ms: Millis,
    // Whether it was paused at the last poll.
    pub(crate) paused: bool,
    // Failed calls that hold it up.
    pub(crate) waits: JobWaits,
    // Claimed runs whose start failed.
    pub(crate) unstarted: BTreeSet<RunId>,
    ended: EndedEntries,
    close: JobEndReason,
}

impl OpenJob {
    /// Loads a job or part of a job. A job that is divided into parts is loaded from its last cursor, others as well.
    pub(crate) async fn load(
        Ports { env, blobs, .. }: &Ports,
        id: &JobId,
    ) -> PortResult<LoadedJob> {
        let (job, part) = id.split();
        let (manifest, report) = tokio::try_join!(manifest(blobs, &job), report(blobs, &job))?;
        let Some(manifest) = manifest.filter(|_| report.is_none()) else {
            return Ok(LoadedJob::Ended);
        };
        let Some(part) = part else {
            let ended = load_last(blobs, &job).await?;
            return Ok(if manifest.entries > CHUNK_ENTRIES as u64 {
                let parts = ended_parts(blobs, &job).await?;
                LoadedJob::Head(Box::new(JobHead::new(env, manifest, ended, &parts)))
            } else {
                LoadedJob::Open(Box::new(Self::new(env, manifest, None, ended)))
            });
        };
        // A message may say any number, and write it in another way.
        let parts = manifest.entries.div_ceil(CHUNK_ENTRIES as u64);
        if parts < 2 || part >= parts || *id != job.part(part) {
            return Ok(LoadedJob::Ended);
        }
        let result: Option<EndedEntries> = get_json(blobs, &part_key(&job, part)).await?;
        Ok(match result {
            Some(_) => LoadedJob::PartEnded,
            None => {
                let nothing = EndedEntries::default();
                LoadedJob::Open(Box::new(Self::new(env, manifest, Some(part), nothing)))
            }
        })
    }

    fn new(env: &Env, manifest: JobManifest, part: Option<u64>, tally: EndedEntries) -> Self {
        let entries = match part {
            Some(part) => part_entries(&manifest, part),
            None => 0..manifest.entries,
        };
        Self {
            part,
            end: entries.end,
            next: tally.first_missing().max(entries.start),
            manifest,
            is_loading: false,
            upcoming: VecDeque::new(),
            claiming: BTreeMap::new(),
            to_reclaim: BTreeSet::new(),
            open_runs: BTreeMap::new(),
            after_run: BTreeSet::new(),
            last_event_ms: env.now_ms(),
            paused: false,
            waits: JobWaits::default(),
            unstarted: BTreeSet::new(),
            ended: tally,
            close: JobEndReason::Finished,
        }
    }

    /// Number of its entries.
    fn entries(&self) -> u64 {
        match self.part {
            Some(part) => {
                let entries = part_entries(&self.manifest, part);
                entries.end - entries.start
            }
            None => self.manifest.entries,
        }
    }

    pub(crate) fn is_part(&self) -> bool {
        self.part.is_some()
    }

    pub(crate) fn counts(&self) -> &EntryCounts {
        &self.ended.counts
    }

    /// Whether entries are left that have to be read.
    pub(crate) fn needs_load(&self) -> bool {
        let is_chunk_due = self.upcoming.is_empty() && self.next < self.end;
        !self.is_loading && (is_chunk_due || !self.to_reclaim.is_empty())
    }

    /// Begins to load entries: returns the key of the chunk that holds them. A job without parts has one chunk, as a part has.
    pub(crate) fn start_load(&mut self) -> String {
        self.is_loading = true;
        chunk_key(&self.manifest, self.part.unwrap_or(0))
    }

    /// Ends a load that failed.
    pub(crate) fn stop_load(&mut self) {
        self.is_loading = false;
    }

    /// Ends a load: adds what is still needed of the entries in the chunk. Entries to be claimed again come first.
    pub(crate) fn add_entries(&mut self, env: &Env, chunk: &[JobEntry]) {
        self.is_loading = false;
        let again = std::mem::take(&mut self.to_reclaim);
        for number in again.into_iter().rev() {
            match self.entry(chunk, number) {
                Some(entry) => self.upcoming.push_front((number, entry)),
                None => self.entry_missing(env, number),
            }
        }
        for number in self.next..self.end {
            match self.entry(chunk, number) {
                _ if self.ended.contains(number) => {}
                Some(entry) => self.upcoming.push_back((number, entry)),
                None => self.entry_missing(env, number),
            }
        }
        self.next = self.end;
    }

    fn entry(&self, chunk: &[JobEntry], number: u64) -> Option<JobEntry> {
        let first = self.part.unwrap_or(0) * CHUNK_ENTRIES as u64;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        chunk.get(index).cloned()
    }

    /// The weight of the next entry to claim; `None` when none has been read.
    pub(crate) fn next_weight(&self) -> Option<u64> {
        self.upcoming.front().map(|(_, entry)| entry.weight)
    }

    /// Number of open runs and claims.
    pub(crate) fn slots(&self) -> usize {
        self.open_runs.len() + self.claiming.len()
    }

    /// Whether every entry has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended.counts.ended() >= self.entries()
    }

    /// Takes the next entry.
    pub(crate) fn take_next(&mut self) -> Option<(u64, JobEntry)> {
        let (number, entry) = self.upcoming.pop_front()?;
        self.claiming.insert(number, entry.clone());
        Some((number, entry))
    }

    /// Returns an entry that could not be claimed yet.
    pub(crate) fn put_back(&mut self, number: u64) {
        if let Some(entry) = self.claiming.remove(&number) {
            self.upcoming.push_front((number, entry));
        }
    }

    /// Whether an entry may be claimed now. While the job waits, one claim at a time finds out whether it still has to.
    pub(crate) fn may_claim(&self, now: Millis) -> bool {
        self.waits.is_empty() || (!self.waits.holds(now) && self.claiming.is_empty())
    }

    // The manifest counts an entry that its chunk does not hold: the store has lost an object.
    fn entry_missing(&mut self, env: &Env, number: u64) {
        let key = chunk_key(&self.manifest, self.part.unwrap_or(0));
        let record = FailureRecord {
            code: "engine.entry_missing".into(),
            message: format!("{key} does not hold this entry"),
            next: Some("submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: env.now_ms(),
        };
        self.end_entry(
            number,
            &format!("entry {number}"),
            &RunOutcome::Failed(record),
        );
    }

    pub(crate) fn add_run(&mut self, number: u64, header: RunHeader) {
        if self.claiming.remove(&number).is_none() {
            return; // the job was closed meanwhile
        }
        let entries = &mut self
            .open_runs
            .entry(header.at.run.clone())
            .or_insert_with(|| (Vec::new(), header))
            .0;
        entries.push(number);
    }

    /// Binds an entry to the run that has to end before it can be claimed.
    pub(crate) fn wait_for_run(&mut self, number: u64, header: RunHeader) {
        self.after_run.insert(number);
        self.add_run(number, header);
    }

    // Ends the entries of a run; returns how many. None, if the job does not wait for the run. Entries are claimed again
    // that only waited for the run, and all of them if the run was superseded, or cancelled while this job was not.
    pub(crate) fn end_run(&mut self, run: &RunId, ending: &RunOutcome, tasks: u64) -> usize {
        let Some((entries, _)) = self.open_runs.remove(run) else {
            return 0;
        };
        self.unstarted.remove(run);
        let is_superseded = ending.is_superseded();
        let (again, ended): (Vec<u64>, Vec<u64>) = entries
            .into_iter()
            .partition(|number| self.after_run.remove(number) || is_superseded);
        self.to_reclaim.extend(again);
        if !ended.is_empty() {
            self.ended.tasks = self.ended.tasks.saturating_add(tasks);
        }
        for number in &ended {
            self.end_entry(*number, &run.0, ending);
        }
        ended.len()
    }

    /// Ends an entry that was to be claimed. `false` if the job was closed meanwhile, which has counted it as cancelled.
    pub(crate) fn end_claim(&mut self, number: u64, ending: &RunOutcome) -> bool {
        let is_open = self.claiming.contains_key(&number);
        if is_open {
            self.end_entry(number, &format!("entry {number}"), ending);
        }
        is_open
    }

    /// Ends an entry; `what` identifies it in the report.
    fn end_entry(&mut self, number: u64, what: &str, ending: &RunOutcome) {
        self.claiming.remove(&number);
        self.ended.insert(number, what, ending);
    }

    /// Cancels all entries that have not ended. Returns the open runs.
    pub(crate) fn close(&mut self, cancelled: Cancelled) -> Vec<RunHeader> {
        self.close = cancelled.reason.into();
        let rest = self.entries().saturating_sub(self.ended.counts.ended());
        self.ended.counts.cancelled += rest;
        self.upcoming.clear();
        self.claiming.clear();
        self.to_reclaim.clear();
        self.next = self.end;
        std::mem::take(&mut self.open_runs)
            .into_values()
            .map(|(_, header)| header)
            .collect()
    }

    /// The report of a job without parts, once all entries have ended.
    pub(crate) fn finished_report(&self, ended_ms: Millis) -> Option<JobReport> {
        let is_due = self.is_complete() && self.part.is_none();
        is_due.then(|| self.ended.report(&self.manifest, self.close, ended_ms))
    }

    /// The key and result of a part whose entries have all ended.
    pub(crate) fn finished_part(&self) -> Option<(String, EndedEntries)> {
        let part = self.part.filter(|_| self.is_complete())?;
        Some((part_key(&self.manifest.job, part), self.ended.clone()))
    }
}

/// A loaded job or part of a job.
pub(crate) enum LoadedJob {
    Open(Box<OpenJob>),
    /// A job that is divided into parts.
    Head(Box<JobHead>),
    /// The part has a result.
    PartEnded,
    /// The job has ended, or was never submitted.
    Ended,
}

#[cfg(test)]
mod tests {
    use stemma_store::blobs::Blobs;
    use stemma_store::key::Priority;

    use super::*;
    use crate::jobs::{CancelReason, JobOptions};

    async fn open_job(entries: u64) -> (Ports, OpenJob) {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let manifest = JobManifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            priority: Priority::Bulk,
            entries,
            submitted_ms: 0,
            options: JobOptions::default(),
        };
        let listed: Vec<_> = (0..entries)
            .map(|n| JobEntry {
                weight: n,
                input: n.into(),
            })
            .collect();
        let manifest = super::super::submit(&ports, &manifest, &listed)
            .await
            .unwrap();
        let open = load(&ports, &manifest.job).await;
        (ports, open)
    }

    async fn load(ports: &Ports, job: &JobId) -> OpenJob {
        match OpenJob::load(ports, job).await.unwrap() {
            LoadedJob::Open(open) => *open,
            _ => panic!("it has parts, or has ended"),
        }
    }

    async fn load_entries(ports: &Ports, open: &mut OpenJob) {
        if open.needs_load() {
            let key = open.start_load();
            assert!(!open.needs_load(), "one load at a time");
            let chunk: Option<Vec<JobEntry>> = get_json(&ports.blobs, &key).await.unwrap();
            open.add_entries(&ports.env, &chunk.unwrap_or_default());
        }
    }

    fn take_all(open: &mut OpenJob) -> Vec<u64> {
        std::iter::from_fn(|| open.take_next())
            .map(|(number, _)| number)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn entry_that_is_put_back_comes_first() {
        let (ports, mut open) = open_job(3).await;
        load_entries(&ports, &mut open).await;
        open.take_next();
        open.take_next();
        open.put_back(0);
        assert_eq!(take_all(&mut open), [0, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn part_has_the_entries_of_its_chunk() {
        let (ports, _) = open_job(400).await;
        let manifest = JobManifest {
            job: JobId("large".into()),
            ..open_job(400).await.1.manifest
        };
        let listed: Vec<_> = (0..1_200_u64)
            .map(|n| JobEntry {
                weight: 1,
                input: n.into(),
            })
            .collect();
        let manifest = super::super::submit(&ports, &manifest, &listed)
            .await
            .unwrap();
        let mut part = load(&ports, &manifest.job.part(2)).await;
        load_entries(&ports, &mut part).await;
        let numbers = take_all(&mut part);
        assert_eq!(numbers, (1_000..1_200).collect::<Vec<u64>>());
        assert!(part.finished_part().is_none());
        for number in numbers {
            part.end_claim(number, &RunOutcome::Done);
        }
        let (key, result) = part.finished_part().unwrap();
        assert_eq!(
            (key.as_str(), result.counts.done),
            ("jobs/large/parts/000002.json", 200)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn lost_entries_fail_and_the_job_ends() {
        let (ports, mut open) = open_job(2).await;
        ports
            .blobs
            .delete(&chunk_key(&open.manifest, 0))
            .await
            .unwrap();
        load_entries(&ports, &mut open).await;
        assert_eq!(open.next_weight(), None);
        let report = open.finished_report(0).unwrap();
        assert_eq!((report.counts.failed, report.failures.len()), (2, 2));
        assert_eq!(report.reasons["engine.entry_missing"], 2);
    }

    #[tokio::test(start_paused = true)]
    async fn closed_job_counts_every_entry_once() {
        let (ports, mut open) = open_job(400).await;
        load_entries(&ports, &mut open).await;
        for _ in 0..10 {
            let (number, _) = open.take_next().unwrap();
            open.end_claim(number, &RunOutcome::Done);
        }
        let (claimed, _) = open.take_next().unwrap();
        open.close(Cancelled {
            reason: CancelReason::Person,
            at_ms: 0,
        });
        // Its claim was under way.
        assert!(!open.end_claim(claimed, &RunOutcome::Unchanged));
        load_entries(&ports, &mut open).await;
        assert_eq!(open.next_weight(), None);
        let report = open.finished_report(0).unwrap();
        assert_eq!(
            (report.counts.done, report.counts.cancelled, report.close),
            (10, 390, JobEndReason::Cancelled)
        );
    }
}
