//! A job in the hands of the coordinator that looks after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tally::{Tally, cursor_prefix, last};
use super::{
    CHUNK, CancelReason, Cancelled, Close, Counts, Report, chunk_key, get_json, manifest, put_json,
    report,
};
use crate::blobs::Blobs;
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::flow::{JobEntry, Manifest};
use crate::key::{JobId, RunHeader, RunId};
use crate::message::Ending;
use crate::port::{PortError, ask};

/// An open job. What it holds grows with the runs that are open, not with its entries.
pub(crate) struct OpenJob {
    pub(crate) manifest: Manifest,
    /// The first entry not loaded yet.
    next: u64,
    /// Loaded, not claimed.
    upcoming: VecDeque<(u64, JobEntry)>,
    /// Taken to be claimed. What is still here when the next admission begins was left by one that was cut off.
    claiming: BTreeMap<u64, JobEntry>,
    /// To be claimed again: their runs were cancelled by a job that is not this one.
    again: BTreeSet<u64>,
    /// Runs it waits for, with the entries that are this run: a document may be listed twice.
    pub(crate) open: BTreeMap<RunId, (Vec<u64>, RunHeader)>,
    /// When this coordinator last had news of it: another may have taken it over.
    pub(crate) heard_ms: Millis,
    /// Whether it was paused when this coordinator last looked.
    pub(crate) paused: bool,
    tally: Tally,
    saved_at: u64,
    close: Close,
}

impl OpenJob {
    /// Takes a job up where its last cursor left it; `None` when it has ended or was never submitted.
    pub(crate) async fn take_up(
        env: &Env,
        blobs: &dyn Blobs,
        job: &JobId,
    ) -> Result<Option<Self>, PortError> {
        let Some(manifest) = ask(env, || manifest(blobs, job)).await? else {
            return Ok(None);
        };
        if ask(env, || report(blobs, job)).await?.is_some() {
            return Ok(None);
        }
        let tally = ask(env, || last(blobs, job)).await?;
        Ok(Some(Self {
            manifest,
            next: tally.floor(),
            upcoming: VecDeque::new(),
            claiming: BTreeMap::new(),
            again: BTreeSet::new(),
            open: BTreeMap::new(),
            heard_ms: env.now_ms(),
            paused: false,
            saved_at: tally.counts.ended(),
            tally,
            close: Close::Finished,
        }))
    }

    /// How its entries ended so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.tally.counts
    }

    /// The weight of the next entry to claim; `None` when there is none left.
    pub(crate) async fn peek(
        &mut self,
        env: &Env,
        blobs: &dyn Blobs,
    ) -> Result<Option<u64>, PortError> {
        while let Some(number) = self.again.first().copied() {
            self.load_again(env, blobs, number).await?;
        }
        while self.upcoming.is_empty() && self.next < self.manifest.entries {
            self.load_chunk(env, blobs).await?;
        }
        Ok(self.upcoming.front().map(|(_, entry)| entry.weight))
    }

    /// Takes the entry last peeked at.
    pub(crate) fn take(&mut self) -> Option<(u64, JobEntry)> {
        let (number, entry) = self.upcoming.pop_front()?;
        self.claiming.insert(number, entry.clone());
        Some((number, entry))
    }

    /// Gives an entry back that could not be claimed yet.
    pub(crate) fn put_back(&mut self, number: u64) {
        if let Some(entry) = self.claiming.remove(&number) {
            self.upcoming.push_front((number, entry));
        }
    }

    /// Gives back what an admission that was cut off had taken.
    pub(crate) fn recover(&mut self) {
        while let Some((number, entry)) = self.claiming.pop_last() {
            self.upcoming.push_front((number, entry));
        }
    }

    async fn load_chunk(&mut self, env: &Env, blobs: &dyn Blobs) -> Result<(), PortError> {
        let chunk = self.next / CHUNK as u64;
        let skip = (self.next % CHUNK as u64) as usize;
        let key = chunk_key(&self.manifest, chunk);
        let entries = ask(env, || get_json::<Vec<JobEntry>>(blobs, &key))
            .await?
            .unwrap_or_default();
        let end = ((chunk + 1) * CHUNK as u64).min(self.manifest.entries);
        let mut entries = entries.into_iter().skip(skip);
        for number in self.next..end {
            match entries.next() {
                _ if self.tally.holds(number) => {}
                Some(entry) => self.upcoming.push_back((number, entry)),
                None => self.entry_missing(env, number, &key),
            }
        }
        self.next = end;
        Ok(())
    }

    async fn load_again(
        &mut self,
        env: &Env,
        blobs: &dyn Blobs,
        number: u64,
    ) -> Result<(), PortError> {
        let key = chunk_key(&self.manifest, number / CHUNK as u64);
        let entries = ask(env, || get_json::<Vec<JobEntry>>(blobs, &key))
            .await?
            .unwrap_or_default();
        self.again.remove(&number);
        match entries.into_iter().nth((number % CHUNK as u64) as usize) {
            Some(entry) => self.upcoming.push_front((number, entry)),
            None => self.entry_missing(env, number, &key),
        }
        Ok(())
    }

    /// An entry that a manifest counts and its chunk does not hold: a store that lost an object.
    fn entry_missing(&mut self, env: &Env, number: u64, key: &str) {
        let record = FailureRecord {
            code: "engine.entry_missing".into(),
            message: format!("{key} does not hold this entry"),
            next: Some("submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: env.now_ms(),
        };
        self.entry_ended(number, &format!("entry {number}"), &Ending::Failed(record));
    }

    pub(crate) fn opened(&mut self, number: u64, header: RunHeader) {
        self.claiming.remove(&number);
        let entries = &mut self
            .open
            .entry(header.at.run.clone())
            .or_insert_with(|| (Vec::new(), header))
            .0;
        entries.push(number);
    }

    /// A run it waits for ended, with outcomes of this many tasks; returns how many entries ended with it. None did
    /// when it did not wait for it any more, or when the run was cancelled without this job: then they are claimed
    /// again.
    pub(crate) fn run_ended(&mut self, run: &RunId, ending: &Ending, tasks: u64) -> usize {
        let Some((entries, _)) = self.open.remove(run) else {
            return 0;
        };
        if *ending == Ending::Cancelled {
            self.again.extend(entries);
            return 0;
        }
        self.tally.tasks += tasks;
        for number in &entries {
            self.entry_ended(*number, &run.0, ending);
        }
        entries.len()
    }

    /// An entry ended; `what` names it in the report.
    pub(crate) fn entry_ended(&mut self, number: u64, what: &str, ending: &Ending) {
        self.claiming.remove(&number);
        self.tally.add(number, what, ending);
    }

    /// Whether more entries failed than it allows, and it is not over anyway.
    pub(crate) fn failed_too_much(&self) -> bool {
        let counts = &self.tally.counts;
        let allowed = self.manifest.terms.max_failed;
        counts.ended() < self.manifest.entries
            && allowed.is_some_and(|most| most.exceeded(counts.failed, self.manifest.entries))
    }

    /// Ends it before its time: what has not ended is cancelled. Returns the runs it waited for.
    pub(crate) fn close(&mut self, cancelled: Cancelled) -> Vec<RunHeader> {
        self.close = match cancelled.reason {
            CancelReason::Person => Close::Cancelled,
            CancelReason::TooManyFailed => Close::TooManyFailed,
        };
        let rest = self
            .manifest
            .entries
            .saturating_sub(self.tally.counts.ended());
        self.tally.counts.cancelled += rest;
        self.upcoming.clear();
        self.again.clear();
        self.next = self.manifest.entries;
        std::mem::take(&mut self.open)
            .into_values()
            .map(|(_, header)| header)
            .collect()
    }

    /// Saves the cursor when enough entries have ended since the last time.
    pub(crate) async fn save(&mut self, env: &Env, blobs: &dyn Blobs) -> Result<(), PortError> {
        let ended = self.tally.counts.ended();
        if ended >= self.saved_at + CHUNK as u64 && ended < self.manifest.entries {
            let key = format!("{}{ended:012}.json", cursor_prefix(&self.manifest.job));
            put_json(env, blobs, &key, &self.tally).await?;
            self.saved_at = ended;
        }
        Ok(())
    }

    /// Writes the report once everything has ended; what counts is the report that is there first.
    pub(crate) async fn finish(
        &self,
        env: &Env,
        blobs: &dyn Blobs,
    ) -> Result<Option<Report>, PortError> {
        if self.tally.counts.ended() < self.manifest.entries {
            return Ok(None);
        }
        let job = &self.manifest.job;
        let tally = self.tally.clone();
        let written = Report {
            job: job.clone(),
            close: self.close,
            counts: tally.counts,
            reasons: tally.reasons,
            failures: tally.failures,
            tasks: tally.tasks,
            submitted_ms: self.manifest.submitted_ms,
            ended_ms: env.now_ms(),
        };
        put_json(env, blobs, &super::report_key(job), &written).await?;
        ask(env, || report(blobs, job)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Terms;
    use crate::key::Class;
    use crate::ports::Ports;

    async fn open_job(entries: u64) -> (Env, Ports, OpenJob) {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let manifest = Manifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: Class::Bulk,
            entries,
            submitted_ms: 0,
            terms: Terms::default(),
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
        let open = OpenJob::take_up(&env, ports.blobs.as_ref(), &manifest.job)
            .await
            .unwrap()
            .unwrap();
        (env, ports, open)
    }

    fn taken(open: &mut OpenJob) -> Vec<u64> {
        std::iter::from_fn(|| open.take())
            .map(|(number, _)| number)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_admission_that_was_cut_off_loses_no_entry() {
        let (env, ports, mut open) = open_job(3).await;
        open.peek(&env, ports.blobs.as_ref()).await.unwrap();
        open.take();
        open.take();
        open.recover();
        assert_eq!(taken(&mut open), [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_taken_up_goes_on_at_its_last_cursor() {
        let (env, ports, mut open) = open_job(1_200).await;
        let blobs = ports.blobs.as_ref();
        for _ in 0..602 {
            open.peek(&env, blobs).await.unwrap();
            let (number, _) = open.take().unwrap();
            if number != 3 {
                open.entry_ended(number, "entry", &Ending::Done); // the third is slow
            }
            open.save(&env, blobs).await.unwrap();
        }
        assert!(open.finish(&env, blobs).await.unwrap().is_none());
        let mut again = OpenJob::take_up(&env, blobs, &open.manifest.job)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(again.counts().done, 500);
        again.peek(&env, blobs).await.unwrap();
        assert_eq!(
            (
                again.take().unwrap().0,
                again.peek(&env, blobs).await.unwrap()
            ),
            (3, Some(501))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn entries_that_the_store_lost_end_failed_and_the_job_ends() {
        let (env, ports, mut open) = open_job(2).await;
        ports
            .blobs
            .delete(&chunk_key(&open.manifest, 0))
            .await
            .unwrap();
        assert_eq!(open.peek(&env, ports.blobs.as_ref()).await.unwrap(), None);
        let report = open
            .finish(&env, ports.blobs.as_ref())
            .await
            .unwrap()
            .unwrap();
        assert_eq!((report.counts.failed, report.failures.len()), (2, 2));
        assert_eq!(report.reasons["engine.entry_missing"], 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_closed_counts_every_entry_once() {
        let (env, ports, mut open) = open_job(1_000).await;
        open.peek(&env, ports.blobs.as_ref()).await.unwrap();
        for _ in 0..10 {
            let (number, _) = open.take().unwrap();
            open.entry_ended(number, "entry", &Ending::Done);
        }
        open.close(Cancelled {
            reason: CancelReason::Person,
            at_ms: 0,
        });
        assert_eq!(open.peek(&env, ports.blobs.as_ref()).await.unwrap(), None);
        let report = open
            .finish(&env, ports.blobs.as_ref())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (report.counts.done, report.counts.cancelled, report.close),
            (10, 990, Close::Cancelled)
        );
    }
}
