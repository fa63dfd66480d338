//! Jobs: what was submitted, how far its entries are claimed, which of its runs are open, and its report.
//!
//! ```text
//! jobs/{job}/manifest.json          written last: a job without one was never submitted
//! jobs/{job}/entries/{chunk}.json   500 entries each
//! jobs/{job}/cursor/{entries}.json  counts of the first `entries` entries, all ended
//! jobs/{job}/report.json            the job ended
//! ```

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::blobs::{Blobs, list_all};
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::flow::{JobEntry, Manifest};
use crate::key::{JobId, RunHeader, RunId};
use crate::ledger::Due;
use crate::message::{Ending, News, encode};
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::QueueName;

const CHUNK: usize = 500;
/// Failures kept in a report; the counts are complete.
const FAILURES_KEPT: usize = 1_000;

/// How the entries of a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Finished with everything.
    pub done: u64,
    /// Finished with recorded gaps.
    pub done_with_gaps: u64,
    /// Finished before; nothing was done.
    pub unchanged: u64,
    /// Failed.
    pub failed: u64,
}

impl Counts {
    /// Entries that ended.
    pub fn ended(&self) -> u64 {
        self.done + self.done_with_gaps + self.unchanged + self.failed
    }

    fn add(&mut self, ending: &Ending) {
        match ending {
            Ending::Done => self.done += 1,
            Ending::DoneWithGaps(_) => self.done_with_gaps += 1,
            Ending::Unchanged => self.unchanged += 1,
            Ending::Failed(_) => self.failed += 1,
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The job.
    pub job: JobId,
    /// Its entries' endings.
    pub counts: Counts,
    /// Run (or entry number, where there was none) and failure; the first thousand.
    pub failures: Vec<(String, FailureRecord)>,
    /// When it was submitted.
    pub submitted_ms: Millis,
    /// When its last entry ended.
    pub ended_ms: Millis,
}

/// Submits a job: entries first, then the manifest, then a word to the coordinators. The same id twice is one job.
///
/// # Errors
/// [`PortError`] when a port is away; submit again with the same id.
pub async fn submit(env: &Env, ports: &Ports, manifest: &Manifest, entries: &[JobEntry]) -> Result<(), PortError> {
    for (chunk, entries) in entries.chunks(CHUNK).enumerate() {
        put_json(env, ports.blobs.as_ref(), &chunk_key(&manifest.job, chunk as u64), &entries).await?;
    }
    put_json(env, ports.blobs.as_ref(), &manifest_key(&manifest.job), manifest).await?;
    let due = Due::Job(manifest.job.clone());
    ask(env, || ports.ledger.schedule(&due, env.now_ms())).await?;
    let news = encode(&News::Job(manifest.job.clone()))?;
    ask(env, || ports.queue.publish(QueueName::flow(&manifest.job.0), vec![news.clone()])).await
}

/// The report of a job; `None` while it has not ended.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn report(blobs: &dyn Blobs, job: &JobId) -> Result<Option<Report>, PortError> {
    get_json(blobs, &report_key(job)).await
}

/// The manifest of a job; `None` when there is no such job.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn manifest(blobs: &dyn Blobs, job: &JobId) -> Result<Option<Manifest>, PortError> {
    get_json(blobs, &manifest_key(job)).await
}

/// The entries of a job.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn entries(blobs: &dyn Blobs, manifest: &Manifest) -> Result<Vec<JobEntry>, PortError> {
    let mut entries = Vec::new();
    for chunk in 0..manifest.entries.div_ceil(CHUNK as u64) {
        let part: Option<Vec<JobEntry>> = get_json(blobs, &chunk_key(&manifest.job, chunk)).await?;
        entries.extend(part.unwrap_or_default());
    }
    Ok(entries)
}

/// Ids of all jobs after `after`, at most `limit`, oldest first.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn list(blobs: &dyn Blobs, after: Option<&JobId>, limit: usize) -> Result<Vec<JobId>, PortError> {
    let after = after.map(|job| format!("{job}/"));
    let names = blobs.children("jobs/", after.as_deref(), limit).await?;
    Ok(names.into_iter().map(|name| JobId(name.trim_end_matches('/').into())).collect())
}

/// An entry that a manifest counts and its chunk does not hold: a store that lost an object.
fn entry_missing(key: &str, env: &Env) -> FailureRecord {
    FailureRecord {
        code: "engine.entry_missing".into(),
        message: format!("{key} does not hold this entry"),
        next: Some("submit again".into()),
        stage: "submit".into(),
        attempts: 1,
        at_ms: env.now_ms(),
    }
}

fn manifest_key(job: &JobId) -> String {
    format!("jobs/{job}/manifest.json")
}

fn report_key(job: &JobId) -> String {
    format!("jobs/{job}/report.json")
}

fn chunk_key(job: &JobId, chunk: u64) -> String {
    format!("jobs/{job}/entries/{chunk:06}.json")
}

async fn put_json(env: &Env, blobs: &dyn Blobs, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), PortError> {
    let json = serde_json::to_vec(value).map_err(|error| PortError::lasting("blobs", "put", error.to_string()))?;
    ask(env, || blobs.put(key, json.clone().into())).await.map(|_| ())
}

async fn get_json<T: serde::de::DeserializeOwned>(blobs: &dyn Blobs, key: &str) -> Result<Option<T>, PortError> {
    let Some(json) = blobs.get(key).await? else { return Ok(None) };
    serde_json::from_slice(&json)
        .map(Some)
        .map_err(|error| PortError::lasting("blobs", "get", format!("{key} cannot be read: {error}")))
}

/// The counts when all of the first entries had ended.
#[derive(Default, Serialize, Deserialize)]
struct Cursor {
    counts: Counts,
    failures: Vec<(String, FailureRecord)>,
}

impl Cursor {
    fn add(&mut self, what: String, ending: Ending) {
        self.counts.add(&ending);
        if let Ending::Failed(record) = ending
            && self.failures.len() < FAILURES_KEPT
        {
            self.failures.push((what, record));
        }
    }
}

/// A job in the hands of the coordinator that looks after it.
pub(crate) struct OpenJob {
    pub(crate) manifest: Manifest,
    /// The first entry not loaded yet.
    next: u64,
    /// Loaded, not claimed.
    upcoming: VecDeque<(u64, JobEntry)>,
    /// Taken to be claimed. What is still here when the next admission begins was left by one that was cut off.
    claiming: BTreeMap<u64, JobEntry>,
    /// Runs it waits for, with the entries that are this run: a document may be listed twice.
    pub(crate) open: BTreeMap<RunId, (Vec<u64>, RunHeader)>,
    /// When this coordinator last had news of it: another may have taken it over.
    pub(crate) heard_ms: Millis,
    /// Entries before this one have all ended and are counted.
    floor: u64,
    /// Endings of entries from `floor` on.
    beyond: BTreeMap<u64, (String, Ending)>,
    counted: Cursor,
    saved_at: u64,
}

impl OpenJob {
    /// Takes a job up where its last cursor left it; `None` when it has ended or was never submitted.
    pub(crate) async fn take_up(env: &Env, blobs: &dyn Blobs, job: &JobId) -> Result<Option<Self>, PortError> {
        let Some(manifest) = ask(env, || manifest(blobs, job)).await? else { return Ok(None) };
        if ask(env, || report(blobs, job)).await?.is_some() {
            return Ok(None);
        }
        let prefix = format!("jobs/{job}/cursor/");
        let counted = match ask(env, || list_all(blobs, &prefix)).await?.last() {
            Some(key) => ask(env, || get_json::<Cursor>(blobs, key)).await?.unwrap_or_default(),
            None => Cursor::default(),
        };
        let at = counted.counts.ended();
        Ok(Some(Self {
            manifest,
            next: at,
            upcoming: VecDeque::new(),
            claiming: BTreeMap::new(),
            open: BTreeMap::new(),
            heard_ms: env.now_ms(),
            floor: at,
            beyond: BTreeMap::new(),
            counted,
            saved_at: at,
        }))
    }

    /// The weight of the next entry to claim; `None` when there is none left.
    pub(crate) async fn peek(&mut self, env: &Env, blobs: &dyn Blobs) -> Result<Option<u64>, PortError> {
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
        let (chunk, skip) = (self.next / CHUNK as u64, (self.next % CHUNK as u64) as usize);
        let key = chunk_key(&self.manifest.job, chunk);
        let entries = ask(env, || get_json::<Vec<JobEntry>>(blobs, &key)).await?.unwrap_or_default();
        let end = ((chunk + 1) * CHUNK as u64).min(self.manifest.entries);
        let mut entries = entries.into_iter().skip(skip);
        for number in self.next..end {
            match entries.next() {
                Some(entry) => self.upcoming.push_back((number, entry)),
                None => self.entry_ended(number, format!("entry {number}"), Ending::Failed(entry_missing(&key, env))),
            }
        }
        self.next = end;
        Ok(())
    }

    pub(crate) fn opened(&mut self, number: u64, header: RunHeader) {
        self.claiming.remove(&number);
        let entries = &mut self.open.entry(header.at.run.clone()).or_insert_with(|| (Vec::new(), header)).0;
        entries.push(number);
    }

    /// A run it waits for ended; returns how many entries ended with it (none when it did not wait for it any more).
    pub(crate) fn run_ended(&mut self, run: &RunId, ending: &Ending) -> usize {
        let Some((entries, _)) = self.open.remove(run) else { return 0 };
        for number in &entries {
            self.entry_ended(*number, run.0.clone(), ending.clone());
        }
        entries.len()
    }

    /// An entry ended; `what` names it in the report.
    pub(crate) fn entry_ended(&mut self, number: u64, what: String, ending: Ending) {
        self.claiming.remove(&number);
        self.beyond.insert(number, (what, ending));
        while let Some((what, ending)) = self.beyond.remove(&self.floor) {
            self.counted.add(what, ending);
            self.floor += 1;
        }
    }

    /// Saves the cursor when enough entries have ended since the last time.
    pub(crate) async fn save(&mut self, env: &Env, blobs: &dyn Blobs) -> Result<(), PortError> {
        if self.floor >= self.saved_at + CHUNK as u64 && self.floor < self.manifest.entries {
            let key = format!("jobs/{}/cursor/{:012}.json", self.manifest.job, self.floor);
            put_json(env, blobs, &key, &self.counted).await?;
            self.saved_at = self.floor;
        }
        Ok(())
    }

    /// Writes the report once everything has ended; what counts is the report that is there first.
    pub(crate) async fn finish(&self, env: &Env, blobs: &dyn Blobs) -> Result<Option<Report>, PortError> {
        if self.floor < self.manifest.entries {
            return Ok(None);
        }
        let job = &self.manifest.job;
        let written = Report {
            job: job.clone(),
            counts: self.counted.counts.clone(),
            failures: self.counted.failures.clone(),
            submitted_ms: self.manifest.submitted_ms,
            ended_ms: env.now_ms(),
        };
        put_json(env, blobs, &report_key(job), &written).await?;
        ask(env, || report(blobs, job)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open_job(entries: u64) -> (Env, Ports, OpenJob) {
        let (env, ports) = (Env::simulated(1), Ports::memory());
        let manifest = Manifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: crate::key::Class::Bulk,
            entries,
            submitted_ms: 0,
        };
        let listed: Vec<_> = (0..entries).map(|n| JobEntry { weight: n, input: n.into() }).collect();
        submit(&env, &ports, &manifest, &listed).await.unwrap();
        let open = OpenJob::take_up(&env, ports.blobs.as_ref(), &manifest.job).await.unwrap().unwrap();
        (env, ports, open)
    }

    #[tokio::test(start_paused = true)]
    async fn an_admission_that_was_cut_off_loses_no_entry() {
        let (env, ports, mut open) = open_job(3).await;
        open.peek(&env, ports.blobs.as_ref()).await.unwrap();
        open.take();
        open.take();
        open.recover();
        let numbers: Vec<u64> = std::iter::from_fn(|| open.take()).map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_taken_up_goes_on_at_its_last_cursor() {
        let (env, ports, mut open) = open_job(1_200).await;
        let blobs = ports.blobs.as_ref();
        for _ in 0..600 {
            open.peek(&env, blobs).await.unwrap();
            let (number, _) = open.take().unwrap();
            open.entry_ended(number, format!("entry {number}"), Ending::Done);
            open.save(&env, blobs).await.unwrap();
        }
        assert!(open.finish(&env, blobs).await.unwrap().is_none());
        let mut again = OpenJob::take_up(&env, blobs, &open.manifest.job).await.unwrap().unwrap();
        assert_eq!(again.counted.counts.done, 500);
        assert_eq!(again.peek(&env, blobs).await.unwrap(), Some(500));
    }

    #[tokio::test(start_paused = true)]
    async fn entries_that_the_store_lost_end_failed_and_the_job_ends() {
        let (env, ports, mut open) = open_job(2).await;
        ports.blobs.delete(&chunk_key(&open.manifest.job, 0)).await.unwrap();
        assert_eq!(open.peek(&env, ports.blobs.as_ref()).await.unwrap(), None);
        let report = open.finish(&env, ports.blobs.as_ref()).await.unwrap().unwrap();
        assert_eq!((report.counts.failed, report.failures.len()), (2, 2));
    }
}
