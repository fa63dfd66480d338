//! Streaming submission of a job: its entries are never all in memory.
//!
//! Each attempt writes its entries under its own prefix. The manifest is written last, create-only, and names the
//! attempt that counts. A repeated submission is therefore one job, even if the second listing found other documents.

use serde_json::json;
use stemma_store::RetryingBlobs;
use stemma_store::blobs::{Blobs, get_json, put_json};
use stemma_store::key::JobId;
use stemma_store::port_error::{PortError, PortResult};

use super::{CHUNK_ENTRIES, JobEndReason, load_control, manifest, manifest_key, report};
use crate::jobs::{JobEntry, JobManifest};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::ports::Ports;

/// Result of [`JobWriter::start`].
pub enum JobStart {
    /// Push the entries, then call [`JobWriter::finish`].
    New(JobWriter),
    /// The same job was submitted before; push nothing.
    Existing(JobManifest),
    /// Another job has the name, or one that will not finish; push nothing.
    NameTaken(NameTaken),
}

/// Why a name cannot be used for a submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameTaken {
    #[error("the name `{name}` belongs to {job}, which is of `{label}`")]
    OtherDocuments {
        name: String,
        job: JobId,
        label: String,
    },
    #[error("{job}, which has the name `{name}`, was cancelled")]
    Cancelled { name: String, job: JobId },
    #[error("{job}, which has the name `{name}`, was stopped after too many failures")]
    Stopped { name: String, job: JobId },
}

impl From<NameTaken> for PortError {
    fn from(taken: NameTaken) -> Self {
        Self::permanent("jobs.submit", taken.to_string())
    }
}

/// A submission in progress. Holds at most 500 entries; without `finish` there is no job.
pub struct JobWriter {
    manifest: JobManifest,
    pending: Vec<JobEntry>,
}

impl JobWriter {
    /// Starts to submit `draft`; its number of entries and attempt are filled in later. Submitting the same draft twice
    /// is one job. If another submission has its id, the job gets another one.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when a port is unavailable; start again.
    pub async fn start(ports: &Ports, draft: JobManifest) -> PortResult<JobStart> {
        let mut draft = draft;
        if let Some(existing) = manifest(&ports.blobs, &draft.job).await? {
            if let Some(taken) = name_taken(&ports.blobs, &existing, &draft).await? {
                return Ok(JobStart::NameTaken(taken));
            }
            if is_same_submission(&existing, &draft) {
                announce(ports, &existing.job).await?; // the first notification may have been lost
                return Ok(JobStart::Existing(existing));
            }
            draft.job = JobId::new(ports.env.now_ms(), ports.env.random());
        }
        let mut manifest = draft;
        manifest.entries = 0;
        manifest.options.attempt = format!("{:016x}", ports.env.random());
        Ok(JobStart::New(Self {
            manifest,
            pending: Vec::new(),
        }))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store is unavailable; start again with the same id.
    pub async fn push(&mut self, blobs: &RetryingBlobs, entry: JobEntry) -> PortResult<()> {
        self.manifest.entries += 1;
        self.pending.push(entry);
        if self.pending.len() == CHUNK_ENTRIES {
            self.write_chunk(blobs).await
        } else {
            Ok(())
        }
    }

    pub fn entries(&self) -> u64 {
        self.manifest.entries
    }

    /// Submits the job. Returns the manifest that counts: of another attempt, if it was first.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when a port is unavailable; start again with the same id.
    pub async fn finish(mut self, ports: &Ports) -> PortResult<JobManifest> {
        let blobs = &ports.blobs;
        self.write_chunk(blobs).await?;
        put_json(blobs, &manifest_key(&self.manifest.job), &self.manifest).await?;
        let first = manifest(blobs, &self.manifest.job).await?;
        let first = first.unwrap_or_else(|| self.manifest.clone());
        if !is_same_submission(&first, &self.manifest) {
            let text = format!("another submission took the id {}; submit again", first.job);
            return Err(PortError::transient("jobs.submit", text));
        }
        announce(ports, &self.manifest.job).await?;
        Ok(first)
    }

    async fn write_chunk(&mut self, blobs: &RetryingBlobs) -> PortResult<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = (self.manifest.entries - 1) / CHUNK_ENTRIES as u64;
        put_json(
            blobs,
            &super::chunk_key(&self.manifest, chunk),
            &self.pending,
        )
        .await?;
        self.pending.clear();
        Ok(())
    }
}

// A name is unique in its collection. Unnamed submissions are the same if they were made at the same time of the same
// documents, as by a caller that tries again.
fn is_same_submission(existing: &JobManifest, draft: &JobManifest) -> bool {
    let is_same_source = existing.collection == draft.collection
        && existing.options.name == draft.options.name
        && existing.options.label == draft.options.label;
    is_same_source && (draft.options.name.is_some() || existing.submitted_ms == draft.submitted_ms)
}

async fn name_taken(
    blobs: &RetryingBlobs,
    existing: &JobManifest,
    draft: &JobManifest,
) -> PortResult<Option<NameTaken>> {
    let is_named =
        existing.collection == draft.collection && existing.options.name == draft.options.name;
    let Some(name) = draft.options.name.clone().filter(|_| is_named) else {
        return Ok(None);
    };
    let job = existing.job.clone();
    if !is_same_submission(existing, draft) {
        let label = existing.options.label.clone();
        return Ok(Some(NameTaken::OtherDocuments { name, job, label }));
    }
    let cancelled = load_control(blobs, &job).await?.cancelled;
    let report = report(blobs, &job).await?;
    Ok(match (report.map(|report| report.close), cancelled) {
        (Some(JobEndReason::Finished), _) | (None, None) => None,
        (Some(JobEndReason::TooManyFailed), _) => Some(NameTaken::Stopped { name, job }),
        (Some(JobEndReason::Cancelled), _) | (None, Some(_)) => {
            Some(NameTaken::Cancelled { name, job })
        }
    })
}

/// Submits a job from a slice of entries. Submitting the same draft twice is one job.
///
/// # Errors
/// [`stemma_store::PortError`] when a port is unavailable; submit again with the same id.
pub async fn submit(
    ports: &Ports,
    draft: &JobManifest,
    entries: &[JobEntry],
) -> PortResult<JobManifest> {
    match JobWriter::start(ports, draft.clone()).await? {
        JobStart::Existing(manifest) => Ok(manifest),
        JobStart::NameTaken(taken) => Err(taken.into()),
        JobStart::New(mut submitting) => {
            for entry in entries {
                submitting.push(&ports.blobs, entry.clone()).await?;
            }
            submitting.finish(ports).await
        }
    }
}

async fn announce(ports: &Ports, job: &JobId) -> PortResult<()> {
    let item = ScheduledItem::Job(job.clone());
    ports.ledger.schedule(&item, ports.env.now_ms()).await?;
    notify_coordinator(ports, &CoordinatorMessage::Job(job.clone())).await
}

/// The job submitted under `name` in a collection: `fresh` if the name is new, else the job that has it already. One
/// name is therefore one job, however often it is submitted.
///
/// # Errors
/// [`stemma_store::PortError`] when the store is unavailable, or the name is not valid in a key (see [`stemma_store::blobs::Blobs`]).
pub async fn job_for_name(
    blobs: &RetryingBlobs,
    collection: &str,
    name: &str,
    fresh: Option<&JobId>,
) -> PortResult<Option<JobId>> {
    if let Some(fresh) = fresh {
        let key = name_key(collection, name);
        put_json(blobs, &key, &json!({ "job": fresh })).await?;
    }
    find_job_name(blobs, collection, name).await
}

/// The job that has a name in a collection, if any.
///
/// # Errors
/// As [`job_for_name`].
pub async fn find_job_name(
    blobs: &dyn Blobs,
    collection: &str,
    name: &str,
) -> PortResult<Option<JobId>> {
    let existing: Option<serde_json::Value> = get_json(blobs, &name_key(collection, name)).await?;
    Ok(existing.and_then(|existing| Some(JobId(existing["job"].as_str()?.into()))))
}

/// The key under which the job of a name is recorded.
pub fn name_key(collection: &str, name: &str) -> String {
    format!("job-names/{collection}/{name}")
}

#[cfg(test)]
mod tests {
    use stemma_store::Env;

    use super::*;
    use crate::jobs::{JobOptions, entries};

    fn draft() -> JobManifest {
        JobManifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            priority: stemma_store::key::Priority::Bulk,
            entries: 0,
            submitted_ms: 0,
            options: JobOptions::default(),
        }
    }

    async fn submit_entries(
        ports: &Ports,
        numbers: std::ops::Range<u64>,
        finish: bool,
    ) -> Option<JobManifest> {
        let mut submitting = match JobWriter::start(ports, draft()).await.unwrap() {
            JobStart::New(submitting) => submitting,
            JobStart::Existing(manifest) => return Some(manifest),
            JobStart::NameTaken(taken) => panic!("{taken}"),
        };
        for n in numbers {
            let entry = JobEntry {
                weight: 1,
                input: n.into(),
            };
            submitting.push(&ports.blobs, entry).await.unwrap();
        }
        if finish {
            Some(submitting.finish(ports).await.unwrap())
        } else {
            None
        }
    }

    #[tokio::test]
    async fn interrupted_submission_leaves_no_entries_behind() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        assert!(submit_entries(&ports, 0..1_100, false).await.is_none());
        assert!(
            manifest(&ports.blobs, &draft().job)
                .await
                .unwrap()
                .is_none()
        );
        let second = submit_entries(&ports, 5_000..5_700, true).await.unwrap();
        let third = submit_entries(&ports, 0..3, true).await.unwrap();
        assert_eq!(second, third);
        let mut read = Vec::new();
        for chunk in 0..3 {
            read.extend(entries(&ports.blobs, &second, chunk).await.unwrap());
        }
        let read: Vec<u64> = read
            .iter()
            .map(|entry| entry.input.as_u64().unwrap())
            .collect();
        assert_eq!(read, (5_000..5_700).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn one_of_two_concurrent_submissions_wins_completely() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let begin = || async {
            match JobWriter::start(&ports, draft()).await.unwrap() {
                JobStart::New(submitting) => submitting,
                JobStart::Existing(_) | JobStart::NameTaken(_) => panic!("nothing was submitted"),
            }
        };
        let mut one = begin().await;
        let mut two = begin().await;
        let blobs = &ports.blobs;
        for n in 0..600_u64 {
            one.push(
                blobs,
                JobEntry {
                    weight: 1,
                    input: n.into(),
                },
            )
            .await
            .unwrap();
            two.push(
                blobs,
                JobEntry {
                    weight: 1,
                    input: (n / 2).into(),
                },
            )
            .await
            .unwrap();
        }
        let two = two.finish(&ports).await.unwrap();
        let one = one.finish(&ports).await.unwrap();
        assert_eq!(one, two);
        assert_eq!(entries(blobs, &one, 1).await.unwrap()[0].input, 250);
    }

    #[tokio::test]
    async fn job_name_maps_to_one_job_per_collection() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let a = JobId("j-a".into());
        let b = JobId("j-b".into());
        let lookup = |collection, fresh| job_for_name(&ports.blobs, collection, "nightly", fresh);
        assert_eq!(lookup("x", None).await.unwrap(), None);
        assert_eq!(lookup("x", Some(&a)).await.unwrap(), Some(a.clone()));
        assert_eq!(lookup("x", Some(&b)).await.unwrap(), Some(a.clone()));
        assert_eq!(lookup("y", Some(&b)).await.unwrap(), Some(b));
        assert!(
            job_for_name(&ports.blobs, "x", "../../up", None)
                .await
                .is_err()
        );
    }

    async fn start(ports: &Ports, draft: &JobManifest) -> JobStart {
        JobWriter::start(ports, draft.clone()).await.unwrap()
    }

    fn named(name: Option<&str>, label: &str) -> JobManifest {
        JobManifest {
            options: JobOptions {
                name: name.map(str::to_string),
                label: label.into(),
                ..JobOptions::default()
            },
            ..draft()
        }
    }

    /// D13 of the engine review: the second of two submissions with one id was silently dropped.
    #[tokio::test]
    async fn two_submissions_with_one_id_are_two_jobs() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let first = super::submit(&ports, &named(None, "a.pdf"), &[])
            .await
            .unwrap();
        let other = super::submit(&ports, &named(None, "b.pdf"), &[])
            .await
            .unwrap();
        assert_ne!(first.job, other.job);
        let again = super::submit(&ports, &named(None, "a.pdf"), &[])
            .await
            .unwrap();
        assert_eq!(first.job, again.job);
    }

    /// Finding 5 of the operator review: a name that was used swallowed another submission.
    #[tokio::test]
    async fn name_of_other_documents_or_of_a_cancelled_job_is_refused() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let nightly = named(Some("nightly"), "s3://filings/big/");
        super::submit(&ports, &nightly, &[]).await.unwrap();
        assert!(matches!(
            start(&ports, &nightly).await,
            JobStart::Existing(_)
        ));
        let other = named(Some("nightly"), "s3://filings/in/");
        let JobStart::NameTaken(taken) = start(&ports, &other).await else {
            panic!("accepted");
        };
        assert!(taken.to_string().contains("s3://filings/big/"), "{taken}");
        let person = crate::jobs::CancelReason::Person;
        crate::jobs::cancel(&ports, &nightly.job, person)
            .await
            .unwrap();
        let JobStart::NameTaken(taken) = start(&ports, &nightly).await else {
            panic!("accepted");
        };
        assert!(taken.to_string().ends_with("was cancelled"), "{taken}");
    }
}
