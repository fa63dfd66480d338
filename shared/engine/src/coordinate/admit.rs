//! Jobs: taken up where their cursor left them, admitted fairly, closed when every entry has ended.

use std::collections::BTreeMap;

use futures::future::join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Coordinator, Event, JobTable};
use crate::env::Millis;
use crate::failure::FailureRecord;
use crate::flow::{Claim, Flow, JobEntry, Manifest};
use crate::jobs::OpenJob;
use crate::key::{Class, JobId, RunHeader, RunId};
use crate::ledger::Due;
use crate::measure;
use crate::message::Ending;
use crate::port::{PortError, ask};
use crate::run::PATIENCE_MS;

/// Entries claimed at once.
const CLAIMS_AT_ONCE: usize = 16;
/// Runs asked after at once.
const LOOKS_AT_ONCE: usize = 16;
/// An admission that takes longer says meanwhile how far its jobs are.
const LONG_ADMISSION_MS: Millis = 1_000;
/// A job that no news came of for so long was taken over by another coordinator: every job is woken each minute.
const HEARD_MS: Millis = 10 * PATIENCE_MS;

/// An entry on its way to a run.
struct Taken {
    manifest: Manifest,
    number: u64,
    entry: JobEntry,
}

impl<W: Flow> Coordinator<W> {
    /// Takes a job up, or looks whether runs it waits for ended unheard; then admits.
    pub(super) async fn look_after(&self, job: &JobId) -> Result<(), PortError> {
        let mut table = self.jobs.lock().await;
        match table.open.get_mut(job) {
            None => {
                let Some(open) =
                    OpenJob::take_up(&self.env, self.ports.blobs.as_ref(), job).await?
                else {
                    let due = Due::Job(job.clone());
                    return ask(&self.env, || self.ports.ledger.unschedule(&due)).await;
                };
                table.open.insert(job.clone(), open);
                let due = Due::Job(job.clone());
                let at = self.env.now_ms() + PATIENCE_MS;
                ask(&self.env, || self.ports.ledger.schedule(&due, at)).await?;
            }
            Some(open) => {
                open.heard_ms = self.env.now_ms();
                let waiting: Vec<RunHeader> = open
                    .open
                    .values()
                    .map(|(_, header)| header.clone())
                    .collect();
                for (run, ending) in self.look_for_endings(job, waiting).await? {
                    self.note_ending(&mut table, job, &run, &ending, 0);
                }
            }
        }
        self.admit(&mut table).await
    }

    /// Asks the blobs about runs that no one here holds, and makes sure that the ledger knows of all of them: it may
    /// have forgotten who waits for them, and that they are to be looked at (I-1).
    async fn look_for_endings(
        &self,
        job: &JobId,
        runs: Vec<RunHeader>,
    ) -> Result<Vec<(RunId, Ending)>, PortError> {
        let looks = stream::iter(runs).map(|header| async move {
            self.expect(job, &header).await?;
            if self.holds(&header.at.run) {
                return Ok(None);
            }
            let ending = W::ending(&self.env, &self.ports, &header).await?;
            Ok::<_, PortError>(ending.map(|ending| (header.at.run, ending)))
        });
        let endings: Vec<Option<_>> = looks.buffered(LOOKS_AT_ONCE).try_collect().await?;
        Ok(endings.into_iter().flatten().collect())
    }

    /// Notes in the ledger that `job` waits for a run, and that the run is to be looked at.
    async fn expect(&self, job: &JobId, header: &RunHeader) -> Result<(), PortError> {
        let ledger = &self.ports.ledger;
        ask(&self.env, || ledger.watch(&header.at.run, job)).await?;
        let due = Due::Run(header.at.clone());
        let look = self.env.now_ms() + PATIENCE_MS;
        ask(&self.env, || ledger.schedule(&due, look)).await
    }

    pub(super) async fn run_ended(
        &self,
        job: &JobId,
        run: &RunId,
        ending: &Ending,
        tasks: u64,
    ) -> Result<(), PortError> {
        let mut table = self.jobs.lock().await;
        let Some(open) = table.open.get_mut(job) else {
            drop(table);
            return self.look_after(job).await;
        };
        open.heard_ms = self.env.now_ms();
        self.note_ending(&mut table, job, run, ending, tasks);
        self.admit(&mut table).await
    }

    fn note_ending(
        &self,
        table: &mut JobTable,
        job: &JobId,
        run: &RunId,
        ending: &Ending,
        tasks: u64,
    ) {
        let Some(open) = table.open.get_mut(job) else {
            return;
        };
        let input = open
            .open
            .get(run)
            .map(|(_, header)| header.input.clone())
            .unwrap_or_default();
        for _ in 0..open.run_ended(run, ending, tasks) {
            measure::document(ending);
            let input = Box::new(input.clone());
            let ending = ending.clone();
            (self.observer)(Event::Ended {
                job: job.clone(),
                run: Some(run.clone()),
                input,
                ending,
            });
        }
    }

    /// Opens runs while there is room, fairly between collections; closes jobs that have nothing left.
    pub(super) async fn admit(&self, table: &mut JobTable) -> Result<(), PortError> {
        let heard_since = self.env.now_ms().saturating_sub(HEARD_MS);
        table.open.retain(|_, job| job.heard_ms >= heard_since);
        table.open.values_mut().for_each(OpenJob::recover);
        let mut posted_ms = self.env.now_ms();
        loop {
            self.close_cancelled(table).await?;
            if self.env.now_ms() > posted_ms + LONG_ADMISSION_MS {
                posted_ms = self.env.now_ms();
                self.post(table).await.ok(); // said again at the next look
            }
            let (batch, mut stopped) = self.next_entries(table).await;
            let claims = batch
                .iter()
                .map(|taken| W::claim(&self.env, &self.ports, &taken.manifest, &taken.entry));
            let claims = join_all(claims).await;
            let done = batch.is_empty();
            for (taken, claim) in batch.into_iter().zip(claims) {
                let claimed = match claim {
                    Ok(claim) => self.claimed(table, &taken, claim).await,
                    Err(error) => Err(error),
                };
                match claimed {
                    Err(error) if error.passing => {
                        if let Some(open) = table.open.get_mut(&taken.manifest.job) {
                            open.put_back(taken.number);
                        }
                        stopped = Err(error);
                    }
                    Err(error) => self.claim_failed(table, &taken, &error),
                    Ok(()) => {}
                }
            }
            stopped?; // what was put back is claimed when this news comes again
            if done {
                return self.finish_jobs(table).await;
            }
        }
    }

    fn open_runs(&self, table: &JobTable) -> usize {
        table.open.values().map(|job| job.open.len()).sum()
    }

    /// As many next entries as there is room for, at most [`CLAIMS_AT_ONCE`], and what stopped it early.
    async fn next_entries(&self, table: &mut JobTable) -> (Vec<Taken>, Result<(), PortError>) {
        let mut batch = Vec::new();
        while batch.len() < CLAIMS_AT_ONCE
            && self.open_runs(table) + batch.len() < self.open_documents
        {
            match self.next_entry(table).await {
                Ok(Some(entry)) => batch.push(entry),
                Ok(None) => break,
                Err(error) => return (batch, Err(error)),
            }
        }
        (batch, Ok(()))
    }

    /// The next entry by fairness, taken from its job: in each collection interactive jobs first, then the oldest.
    async fn next_entry(&self, table: &mut JobTable) -> Result<Option<Taken>, PortError> {
        let mut first: BTreeMap<String, (Class, JobId, u64)> = BTreeMap::new();
        for (id, job) in &mut table.open {
            let standing = self.standing(id).await?;
            let class = standing.class.unwrap_or(job.manifest.class);
            if !standing.is_running()
                || first
                    .get(&job.manifest.collection)
                    .is_some_and(|(best, ..)| *best >= class)
            {
                continue;
            }
            if let Some(weight) = job.peek(&self.env, self.ports.blobs.as_ref()).await? {
                first.insert(job.manifest.collection.clone(), (class, id.clone(), weight));
            }
        }
        let heads = first
            .iter()
            .map(|(name, (_, _, weight))| (name.clone(), *weight))
            .collect();
        let picked = table
            .fairness
            .next(&heads)
            .and_then(|name| first.remove(&name));
        let Some(job) = picked.and_then(|(_, id, _)| table.open.get_mut(&id)) else {
            return Ok(None);
        };
        Ok(job.take().map(|(number, entry)| Taken {
            manifest: job.manifest.clone(),
            number,
            entry,
        }))
    }

    async fn claimed(
        &self,
        table: &mut JobTable,
        taken: &Taken,
        claim: Claim,
    ) -> Result<(), PortError> {
        let job = &taken.manifest.job;
        match claim {
            Claim::Ended(ending) => self.entry_ended(table, taken, ending),
            Claim::Run(header) => {
                self.expect(job, &header).await?;
                self.wake(&header.at).await?;
                let Some(open) = table.open.get_mut(job) else {
                    return Ok(());
                };
                open.opened(taken.number, header.clone());
                (self.observer)(Event::Opened {
                    job: job.clone(),
                    header: Box::new(header),
                });
            }
        }
        Ok(())
    }

    /// An entry that cannot be claimed ends failed and visible; the job goes on (I-10).
    fn claim_failed(&self, table: &mut JobTable, taken: &Taken, error: &PortError) {
        let record = FailureRecord {
            code: "engine.claim".into(),
            message: error.to_string(),
            next: Some("check that the store can be written, then submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: self.env.now_ms(),
        };
        self.entry_ended(table, taken, Ending::Failed(record.clipped()));
    }

    fn entry_ended(&self, table: &mut JobTable, taken: &Taken, ending: Ending) {
        let Some(open) = table.open.get_mut(&taken.manifest.job) else {
            return;
        };
        measure::document(&ending);
        open.entry_ended(taken.number, &format!("entry {}", taken.number), &ending);
        let job = taken.manifest.job.clone();
        let input = Box::new(taken.entry.input.clone());
        (self.observer)(Event::Ended {
            job,
            run: None,
            input,
            ending,
        });
    }

    async fn finish_jobs(&self, table: &mut JobTable) -> Result<(), PortError> {
        let blobs = self.ports.blobs.as_ref();
        let mut finished = Vec::new();
        for (id, job) in &mut table.open {
            job.save(&self.env, blobs).await?;
            if let Some(report) = job.finish(&self.env, blobs).await? {
                finished.push((id.clone(), report));
            }
        }
        for (job, report) in finished {
            table.open.remove(&job);
            (self.observer)(Event::JobEnded(Box::new(report)));
            let due = Due::Job(job);
            ask(&self.env, || self.ports.ledger.unschedule(&due)).await?;
        }
        measure::open(table.open.len(), self.open_runs(table));
        Ok(())
    }
}
