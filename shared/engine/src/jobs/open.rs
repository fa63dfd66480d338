//! An open job, held by the coordinator that owns it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ended_entries::{EndedEntries, cursor_prefix, load_last};
use super::{
    CHUNK_ENTRIES, CancelReason, Cancelled, EntryCounts, JobEndReason, JobReport, JobWaits,
    chunk_key, manifest, report,
};
use crate::blobs::{get_json, put_json};
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::jobs::{JobEntry, JobManifest};
use crate::key::{JobId, RunHeader, RunId};
use crate::message::RunOutcome;
use crate::port_error::PortResult;
use crate::ports::RetryingBlobs;

// Its size grows with the number of open runs, not with the number of entries.
pub(crate) struct OpenJob {
    pub(crate) manifest: JobManifest,
    // Number of the first entry not loaded yet.
    next: u64,
    // Loaded, not claimed.
    upcoming: VecDeque<(u64, JobEntry)>,
    // Being claimed. Entries still here when the next admission starts belong to one that was interrupted.
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
    saved_at: u64,
    close: JobEndReason,
}

impl OpenJob {
    /// Loads a job from its last cursor; `None` if it has ended or was never submitted.
    pub(crate) async fn load(
        env: &Env,
        blobs: &RetryingBlobs,
        job: &JobId,
    ) -> PortResult<Option<Self>> {
        let Some(manifest) = manifest(blobs, job).await? else {
            return Ok(None);
        };
        if report(blobs, job).await?.is_some() {
            return Ok(None);
        }
        let tally = load_last(blobs, job).await?;
        Ok(Some(Self {
            manifest,
            next: tally.first_missing(),
            upcoming: VecDeque::new(),
            claiming: BTreeMap::new(),
            to_reclaim: BTreeSet::new(),
            open_runs: BTreeMap::new(),
            after_run: BTreeSet::new(),
            last_event_ms: env.now_ms(),
            paused: false,
            waits: JobWaits::default(),
            unstarted: BTreeSet::new(),
            saved_at: tally.counts.ended(),
            ended: tally,
            close: JobEndReason::Finished,
        }))
    }

    pub(crate) fn counts(&self) -> &EntryCounts {
        &self.ended.counts
    }

    /// The weight of the next entry to claim; `None` when none is left.
    pub(crate) async fn peek(
        &mut self,
        env: &Env,
        blobs: &RetryingBlobs,
    ) -> PortResult<Option<u64>> {
        while let Some(number) = self.to_reclaim.first().copied() {
            self.reload_entry(env, blobs, number).await?;
        }
        while self.upcoming.is_empty() && self.next < self.manifest.entries {
            self.load_chunk(env, blobs).await?;
        }
        Ok(self.upcoming.front().map(|(_, entry)| entry.weight))
    }

    /// Whether [`Self::peek`] would read from the store.
    pub(crate) fn needs_load(&self) -> bool {
        let is_chunk_due = self.upcoming.is_empty() && self.next < self.manifest.entries;
        is_chunk_due || !self.to_reclaim.is_empty()
    }

    /// Takes the entry that was last peeked at.
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

    /// Returns the entries of an interrupted admission.
    pub(crate) fn recover(&mut self) {
        while let Some((number, entry)) = self.claiming.pop_last() {
            self.upcoming.push_front((number, entry));
        }
    }

    async fn load_chunk(&mut self, env: &Env, blobs: &RetryingBlobs) -> PortResult<()> {
        let chunk = self.next / CHUNK_ENTRIES as u64;
        let skip = (self.next % CHUNK_ENTRIES as u64) as usize;
        let key = chunk_key(&self.manifest, chunk);
        let entries = get_json::<Vec<JobEntry>>(blobs, &key)
            .await?
            .unwrap_or_default();
        let end = ((chunk + 1) * CHUNK_ENTRIES as u64).min(self.manifest.entries);
        let mut entries = entries.into_iter().skip(skip);
        for number in self.next..end {
            match entries.next() {
                _ if self.ended.contains(number) => {}
                Some(entry) => self.upcoming.push_back((number, entry)),
                None => self.entry_missing(env, number, &key),
            }
        }
        self.next = end;
        Ok(())
    }

    async fn reload_entry(
        &mut self,
        env: &Env,
        blobs: &RetryingBlobs,
        number: u64,
    ) -> PortResult<()> {
        let key = chunk_key(&self.manifest, number / CHUNK_ENTRIES as u64);
        let entries = get_json::<Vec<JobEntry>>(blobs, &key)
            .await?
            .unwrap_or_default();
        self.to_reclaim.remove(&number);
        match entries
            .into_iter()
            .nth((number % CHUNK_ENTRIES as u64) as usize)
        {
            Some(entry) => self.upcoming.push_front((number, entry)),
            None => self.entry_missing(env, number, &key),
        }
        Ok(())
    }

    // The manifest counts an entry that its chunk does not hold: the store has lost an object.
    fn entry_missing(&mut self, env: &Env, number: u64, key: &str) {
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
        self.claiming.remove(&number);
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
            self.ended.tasks += tasks;
        }
        for number in &ended {
            self.end_entry(*number, &run.0, ending);
        }
        ended.len()
    }

    /// Ends an entry; `what` identifies it in the report.
    pub(crate) fn end_entry(&mut self, number: u64, what: &str, ending: &RunOutcome) {
        self.claiming.remove(&number);
        self.ended.insert(number, what, ending);
    }

    // A job whose entries have all ended is not stopped any more.
    pub(crate) fn exceeds_max_failed(&self) -> bool {
        let counts = &self.ended.counts;
        let allowed = self.manifest.terms.max_failed;
        counts.ended() < self.manifest.entries
            && allowed.is_some_and(|most| most.exceeded(counts.failed, self.manifest.entries))
    }

    /// Cancels all entries that have not ended. Returns the open runs.
    pub(crate) fn close(&mut self, cancelled: Cancelled) -> Vec<RunHeader> {
        self.close = match cancelled.reason {
            CancelReason::Person => JobEndReason::Cancelled,
            CancelReason::TooManyFailed => JobEndReason::TooManyFailed,
        };
        let rest = self
            .manifest
            .entries
            .saturating_sub(self.ended.counts.ended());
        self.ended.counts.cancelled += rest;
        self.upcoming.clear();
        self.to_reclaim.clear();
        self.next = self.manifest.entries;
        std::mem::take(&mut self.open_runs)
            .into_values()
            .map(|(_, header)| header)
            .collect()
    }

    /// Saves the cursor when enough entries have ended since the last one.
    pub(crate) async fn save(&mut self, blobs: &RetryingBlobs) -> PortResult<()> {
        let ended = self.ended.counts.ended();
        if ended >= self.saved_at + CHUNK_ENTRIES as u64 && ended < self.manifest.entries {
            let key = format!("{}{ended:012}.json", cursor_prefix(&self.manifest.job));
            put_json(blobs, &key, &self.ended).await?;
            self.saved_at = ended;
        }
        Ok(())
    }

    // Writes the report once all entries have ended. The first report written wins.
    pub(crate) async fn finish(
        &self,
        env: &Env,
        blobs: &RetryingBlobs,
    ) -> PortResult<Option<JobReport>> {
        if self.ended.counts.ended() < self.manifest.entries {
            return Ok(None);
        }
        let job = &self.manifest.job;
        let tally = self.ended.clone();
        let written = JobReport {
            job: job.clone(),
            close: self.close,
            counts: tally.counts,
            reasons: tally.reasons,
            failures: tally.failures,
            tasks: tally.tasks,
            submitted_ms: self.manifest.submitted_ms,
            ended_ms: env.now_ms(),
        };
        put_json(blobs, &super::report_key(job), &written).await?;
        report(blobs, job).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::Blobs;
    use crate::jobs::JobOptions;
    use crate::key::Priority;
    use crate::ports::Ports;

    async fn open_job(entries: u64) -> (Env, Ports, OpenJob) {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let manifest = JobManifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: Priority::Bulk,
            entries,
            submitted_ms: 0,
            terms: JobOptions::default(),
        };
        let listed: Vec<_> = (0..entries)
            .map(|n| JobEntry {
                weight: n,
                input: n.into(),
            })
            .collect();
        let manifest = super::super::submit(&env, &ports, &manifest, &listed)
            .await
            .unwrap();
        let open = OpenJob::load(&env, &ports.blobs, &manifest.job)
            .await
            .unwrap()
            .unwrap();
        (env, ports, open)
    }

    fn take_all(open: &mut OpenJob) -> Vec<u64> {
        std::iter::from_fn(|| open.take_next())
            .map(|(number, _)| number)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn interrupted_admission_loses_no_entry() {
        let (env, ports, mut open) = open_job(3).await;
        open.peek(&env, &ports.blobs).await.unwrap();
        open.take_next();
        open.take_next();
        open.recover();
        assert_eq!(take_all(&mut open), [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn loaded_job_resumes_at_its_last_cursor() {
        let (env, ports, mut open) = open_job(1_200).await;
        let blobs = &ports.blobs;
        for _ in 0..602 {
            open.peek(&env, blobs).await.unwrap();
            let (number, _) = open.take_next().unwrap();
            if number != 3 {
                open.end_entry(number, "entry", &RunOutcome::Done); // the third is slow
            }
            open.save(blobs).await.unwrap();
        }
        assert!(open.finish(&env, blobs).await.unwrap().is_none());
        let mut again = OpenJob::load(&env, blobs, &open.manifest.job)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(again.counts().done, 500);
        again.peek(&env, blobs).await.unwrap();
        assert_eq!(
            (
                again.take_next().unwrap().0,
                again.peek(&env, blobs).await.unwrap()
            ),
            (3, Some(501))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn lost_entries_fail_and_the_job_ends() {
        let (env, ports, mut open) = open_job(2).await;
        ports
            .blobs
            .delete(&chunk_key(&open.manifest, 0))
            .await
            .unwrap();
        assert_eq!(open.peek(&env, &ports.blobs).await.unwrap(), None);
        let report = open.finish(&env, &ports.blobs).await.unwrap().unwrap();
        assert_eq!((report.counts.failed, report.failures.len()), (2, 2));
        assert_eq!(report.reasons["engine.entry_missing"], 2);
    }

    #[tokio::test(start_paused = true)]
    async fn closed_job_counts_every_entry_once() {
        let (env, ports, mut open) = open_job(1_000).await;
        open.peek(&env, &ports.blobs).await.unwrap();
        for _ in 0..10 {
            let (number, _) = open.take_next().unwrap();
            open.end_entry(number, "entry", &RunOutcome::Done);
        }
        open.close(Cancelled {
            reason: CancelReason::Person,
            at_ms: 0,
        });
        assert_eq!(open.peek(&env, &ports.blobs).await.unwrap(), None);
        let report = open.finish(&env, &ports.blobs).await.unwrap().unwrap();
        assert_eq!(
            (report.counts.done, report.counts.cancelled, report.close),
            (10, 990, JobEndReason::Cancelled)
        );
    }
}
