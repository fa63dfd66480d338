//! Streaming submission of a job: its entries are never all in memory.
//!
//! Each attempt writes its entries under its own prefix. The manifest is written last, create-only, and names the
//! attempt that counts. A repeated submission is therefore one job, even if the second listing found other documents.

use serde_json::json;

use super::{CHUNK_ENTRIES, manifest, manifest_key};
use crate::blobs::{get_json, put_json};
use crate::env::Env;
use crate::jobs::{JobEntry, JobManifest};
use crate::key::JobId;
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::port_error::PortResult;
use crate::ports::{Ports, RetryingBlobs};

/// Result of [`JobWriter::start`].
pub enum JobStart {
    /// Push the entries, then call [`JobWriter::finish`].
    New(JobWriter),
    /// The job was submitted before; push nothing.
    Existing(JobManifest),
}

/// A submission in progress. Holds at most 500 entries; without `finish` there is no job.
pub struct JobWriter {
    manifest: JobManifest,
    pending: Vec<JobEntry>,
}

impl JobWriter {
    /// Starts to submit `draft`; its number of entries and attempt are filled in later. Submitting an id twice is one
    /// job.
    ///
    /// # Errors
    /// [`crate::PortError`] when a port is unavailable; start again.
    pub async fn start(env: &Env, ports: &Ports, draft: JobManifest) -> PortResult<JobStart> {
        if let Some(existing) = manifest(&ports.blobs, &draft.job).await? {
            announce(env, ports, &existing.job).await?; // the first notification may have been lost
            return Ok(JobStart::Existing(existing));
        }
        let mut manifest = draft;
        manifest.entries = 0;
        manifest.terms.attempt = format!("{:016x}", env.random());
        Ok(JobStart::New(Self {
            manifest,
            pending: Vec::new(),
        }))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`crate::PortError`] when the store is unavailable; start again with the same id.
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

    /// Submits the job. Returns the manifest that counts, which is that of another attempt if that one was first.
    ///
    /// # Errors
    /// [`crate::PortError`] when a port is unavailable; start again with the same id.
    pub async fn finish(mut self, env: &Env, ports: &Ports) -> PortResult<JobManifest> {
        let blobs = &ports.blobs;
        self.write_chunk(blobs).await?;
        put_json(blobs, &manifest_key(&self.manifest.job), &self.manifest).await?;
        let first = manifest(blobs, &self.manifest.job).await?;
        announce(env, ports, &self.manifest.job).await?;
        Ok(first.unwrap_or(self.manifest))
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

/// Submits a job from a slice of entries. Submitting an id twice is one job.
///
/// # Errors
/// [`crate::PortError`] when a port is unavailable; submit again with the same id.
pub async fn submit(
    env: &Env,
    ports: &Ports,
    draft: &JobManifest,
    entries: &[JobEntry],
) -> PortResult<JobManifest> {
    match JobWriter::start(env, ports, draft.clone()).await? {
        JobStart::Existing(manifest) => Ok(manifest),
        JobStart::New(mut submitting) => {
            for entry in entries {
                submitting.push(&ports.blobs, entry.clone()).await?;
            }
            submitting.finish(env, ports).await
        }
    }
}

async fn announce(env: &Env, ports: &Ports, job: &JobId) -> PortResult<()> {
    let item = ScheduledItem::Job(job.clone());
    ports.ledger.schedule(&item, env.now_ms()).await?;
    notify_coordinator(ports, &CoordinatorMessage::Job(job.clone())).await
}

/// The job submitted under `name` in a collection: `fresh` if the name is new, else the job that has it already. One
/// name is therefore one job, however often it is submitted.
///
/// # Errors
/// [`crate::PortError`] when the store is unavailable, or the name is not valid in a key (see [`crate::blobs::Blobs`]).
pub async fn job_for_name(
    blobs: &RetryingBlobs,
    collection: &str,
    name: &str,
    fresh: Option<&JobId>,
) -> PortResult<Option<JobId>> {
    let key = format!("job-names/{collection}/{name}");
    if let Some(fresh) = fresh {
        put_json(blobs, &key, &json!({ "job": fresh })).await?;
    }
    let existing: Option<serde_json::Value> = get_json(blobs, &key).await?;
    Ok(existing.and_then(|existing| Some(JobId(existing["job"].as_str()?.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobOptions;
    use crate::jobs::entries;

    fn draft() -> JobManifest {
        JobManifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: crate::key::Priority::Bulk,
            entries: 0,
            submitted_ms: 0,
            terms: JobOptions::default(),
        }
    }

    async fn submit_entries(
        env: &Env,
        ports: &Ports,
        numbers: std::ops::Range<u64>,
        finish: bool,
    ) -> Option<JobManifest> {
        let mut submitting = match JobWriter::start(env, ports, draft()).await.unwrap() {
            JobStart::New(submitting) => submitting,
            JobStart::Existing(manifest) => return Some(manifest),
        };
        for n in numbers {
            let entry = JobEntry {
                weight: 1,
                input: n.into(),
            };
            submitting.push(&ports.blobs, entry).await.unwrap();
        }
        if finish {
            Some(submitting.finish(env, ports).await.unwrap())
        } else {
            None
        }
    }

    #[tokio::test]
    async fn interrupted_submission_leaves_no_entries_behind() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        assert!(
            submit_entries(&env, &ports, 0..1_100, false)
                .await
                .is_none()
        );
        assert!(
            manifest(&ports.blobs, &draft().job)
                .await
                .unwrap()
                .is_none()
        );
        let second = submit_entries(&env, &ports, 5_000..5_700, true)
            .await
            .unwrap();
        let third = submit_entries(&env, &ports, 0..3, true).await.unwrap();
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
            match JobWriter::start(&env, &ports, draft()).await.unwrap() {
                JobStart::New(submitting) => submitting,
                JobStart::Existing(_) => panic!("nothing was submitted"),
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
        let two = two.finish(&env, &ports).await.unwrap();
        let one = one.finish(&env, &ports).await.unwrap();
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
}
