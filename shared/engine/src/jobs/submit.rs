//! Submitting a job, entry by entry: millions of them are never held at once.
//!
//! Every attempt writes its entries in a place of its own, and the manifest, written last and once, says which attempt
//! counts. So a submission that is tried again is one job, even where the second listing found other documents than the
//! first.

use serde_json::json;

use super::{CHUNK, get_json, manifest, manifest_key, put_json};
use crate::blobs::Blobs;
use crate::env::Env;
use crate::flow::{JobEntry, Manifest};
use crate::key::JobId;
use crate::ledger::Due;
use crate::message::{News, encode};
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::QueueName;

/// What came of beginning to submit.
pub enum Begun {
    /// Push the entries, then finish.
    New(Submitting),
    /// The job was submitted before: nothing is to be pushed.
    Known(Manifest),
}

/// A submission under way. Holds at most 500 entries; one that is not finished is no job.
pub struct Submitting {
    manifest: Manifest,
    pending: Vec<JobEntry>,
}

impl Submitting {
    /// Begins to submit `draft`, whose number of entries and attempt are filled in here. The same id twice is one job.
    ///
    /// # Errors
    /// [`PortError`] when a port is away; begin again.
    pub async fn begin(env: &Env, ports: &Ports, draft: Manifest) -> Result<Begun, PortError> {
        if let Some(known) = ask(env, || manifest(ports.blobs.as_ref(), &draft.job)).await? {
            announce(env, ports, &known.job).await?; // the first word of it may have been lost
            return Ok(Begun::Known(known));
        }
        let mut manifest = draft;
        manifest.entries = 0;
        manifest.terms.attempt = format!("{:016x}", env.random());
        Ok(Begun::New(Self {
            manifest,
            pending: Vec::new(),
        }))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`PortError`] when the store is away; begin again, with the same id.
    pub async fn push(
        &mut self,
        env: &Env,
        blobs: &dyn Blobs,
        entry: JobEntry,
    ) -> Result<(), PortError> {
        self.manifest.entries += 1;
        self.pending.push(entry);
        if self.pending.len() == CHUNK {
            self.write_chunk(env, blobs).await
        } else {
            Ok(())
        }
    }

    /// Entries pushed so far.
    pub fn entries(&self) -> u64 {
        self.manifest.entries
    }

    /// Submits what was pushed; returns the manifest that counts, which is another attempt's when that was first.
    ///
    /// # Errors
    /// [`PortError`] when a port is away; begin again, with the same id.
    pub async fn finish(mut self, env: &Env, ports: &Ports) -> Result<Manifest, PortError> {
        let blobs = ports.blobs.as_ref();
        self.write_chunk(env, blobs).await?;
        put_json(
            env,
            blobs,
            &manifest_key(&self.manifest.job),
            &self.manifest,
        )
        .await?;
        let first = ask(env, || manifest(blobs, &self.manifest.job)).await?;
        announce(env, ports, &self.manifest.job).await?;
        Ok(first.unwrap_or(self.manifest))
    }

    async fn write_chunk(&mut self, env: &Env, blobs: &dyn Blobs) -> Result<(), PortError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = (self.manifest.entries - 1) / CHUNK as u64;
        put_json(
            env,
            blobs,
            &super::chunk_key(&self.manifest, chunk),
            &self.pending,
        )
        .await?;
        self.pending.clear();
        Ok(())
    }
}

/// Submits a job whose entries are at hand. The same id twice is one job.
///
/// # Errors
/// [`PortError`] when a port is away; submit again with the same id.
pub async fn submit(
    env: &Env,
    ports: &Ports,
    draft: &Manifest,
    entries: &[JobEntry],
) -> Result<Manifest, PortError> {
    match Submitting::begin(env, ports, draft.clone()).await? {
        Begun::Known(manifest) => Ok(manifest),
        Begun::New(mut submitting) => {
            for entry in entries {
                submitting
                    .push(env, ports.blobs.as_ref(), entry.clone())
                    .await?;
            }
            submitting.finish(env, ports).await
        }
    }
}

/// Puts the job on the due-time index, and tells its coordinator.
async fn announce(env: &Env, ports: &Ports, job: &JobId) -> Result<(), PortError> {
    let due = Due::Job(job.clone());
    ask(env, || ports.ledger.schedule(&due, env.now_ms())).await?;
    let news = encode(&News::Job(job.clone()))?;
    ask(env, || {
        ports
            .queue
            .publish(QueueName::flow(&job.0), vec![news.clone()])
    })
    .await
}

/// The job that `name` was given to in a collection: `fresh`, unless it was given to another before. So one name is one
/// job, however often it is submitted.
///
/// # Errors
/// [`PortError`] when the store is away, or the name is none (see [`Blobs`] for what a key may hold).
pub async fn named(
    env: &Env,
    blobs: &dyn Blobs,
    collection: &str,
    name: &str,
    fresh: Option<&JobId>,
) -> Result<Option<JobId>, PortError> {
    let key = format!("job-names/{collection}/{name}");
    if let Some(fresh) = fresh {
        put_json(env, blobs, &key, &json!({ "job": fresh })).await?;
    }
    let given: Option<serde_json::Value> = ask(env, || get_json(blobs, &key)).await?;
    Ok(given.and_then(|given| Some(JobId(given["job"].as_str()?.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Terms;
    use crate::jobs::entries;

    fn draft() -> Manifest {
        Manifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: crate::key::Class::Bulk,
            entries: 0,
            submitted_ms: 0,
            terms: Terms::default(),
        }
    }

    async fn submitted(
        env: &Env,
        ports: &Ports,
        numbers: std::ops::Range<u64>,
        finish: bool,
    ) -> Option<Manifest> {
        let mut submitting = match Submitting::begin(env, ports, draft()).await.unwrap() {
            Begun::New(submitting) => submitting,
            Begun::Known(manifest) => return Some(manifest),
        };
        for n in numbers {
            let entry = JobEntry {
                weight: 1,
                input: n.into(),
            };
            submitting
                .push(env, ports.blobs.as_ref(), entry)
                .await
                .unwrap();
        }
        if finish {
            Some(submitting.finish(env, ports).await.unwrap())
        } else {
            None
        }
    }

    #[tokio::test]
    async fn a_submission_that_was_cut_off_leaves_nothing_in_the_next() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        assert!(submitted(&env, &ports, 0..1_100, false).await.is_none());
        assert!(
            manifest(ports.blobs.as_ref(), &draft().job)
                .await
                .unwrap()
                .is_none()
        );
        let second = submitted(&env, &ports, 5_000..5_700, true).await.unwrap();
        let third = submitted(&env, &ports, 0..3, true).await.unwrap();
        assert_eq!(second, third);
        let mut read = Vec::new();
        for chunk in 0..3 {
            read.extend(entries(ports.blobs.as_ref(), &second, chunk).await.unwrap());
        }
        let read: Vec<u64> = read
            .iter()
            .map(|entry| entry.input.as_u64().unwrap())
            .collect();
        assert_eq!(read, (5_000..5_700).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn of_two_that_submit_at_once_one_counts_whole() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let begin = || async {
            match Submitting::begin(&env, &ports, draft()).await.unwrap() {
                Begun::New(submitting) => submitting,
                Begun::Known(_) => panic!("nothing was submitted"),
            }
        };
        let mut one = begin().await;
        let mut two = begin().await;
        let blobs = ports.blobs.as_ref();
        for n in 0..600_u64 {
            one.push(
                &env,
                blobs,
                JobEntry {
                    weight: 1,
                    input: n.into(),
                },
            )
            .await
            .unwrap();
            two.push(
                &env,
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
    async fn a_name_is_given_once() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let a = JobId("j-a".into());
        let b = JobId("j-b".into());
        let given =
            |collection, fresh| named(&env, ports.blobs.as_ref(), collection, "nightly", fresh);
        assert_eq!(given("x", None).await.unwrap(), None);
        assert_eq!(given("x", Some(&a)).await.unwrap(), Some(a.clone()));
        assert_eq!(given("x", Some(&b)).await.unwrap(), Some(a.clone()));
        assert_eq!(given("y", Some(&b)).await.unwrap(), Some(b));
        assert!(
            named(&env, ports.blobs.as_ref(), "x", "../../up", None)
                .await
                .is_err()
        );
    }
}
