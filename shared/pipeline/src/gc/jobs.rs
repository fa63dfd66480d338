//! Ended jobs: first their entries, cursors and control records, later the job as a whole. Those that are open, because
//! what they need stays. And submissions that were broken off.
//!
//! A submission writes its manifest last, so that one that was broken off looks like one that is under way. The first
//! collection that finds it marks it, and one a week later removes its entries: no submission takes that long. Each attempt
//! to submit a job has entries and a mark of its own, so that a later attempt is as young as it looks.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::Collection;
use stemma_engine::jobs;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;
use stemma_store::{JobId, PortResult};

use super::{GarbageObject, MAX_CONCURRENT_READS, delete_all, is_past_grace};

// What only a running job needs: its report says the rest.
const PARTS: [&str; 4] = ["entries/", "cursor/", "parts/", UNFINISHED];
// The marks of attempts to submit a job that were found without a manifest.
const UNFINISHED: &str = "unfinished/";

/// What is not needed of a job that ended, or of a submission that did not end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobGarbage {
    /// Marks to write: of submissions found unfinished for the first time.
    pub marks: Vec<String>,
    pub objects: Vec<GarbageObject>,
    // How many objects go first, and how many last, one after the other.
    first: usize,
    last: usize,
}

impl JobGarbage {
    /// Writes the marks and deletes the objects. A job without a report would be processed again, so its manifest goes before its report. The
    /// report goes last, because the next collection finds by it what an interrupted one left.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store is unavailable; the next collection deletes the rest.
    pub async fn remove(&self, blobs: &dyn Blobs) -> PortResult<()> {
        for mark in &self.marks {
            blobs.put(mark, "unfinished".into()).await?;
        }
        let last = self.objects.len() - self.last;
        delete_all(blobs, &self.objects[..self.first]).await?;
        delete_all(blobs, &self.objects[self.first..last]).await?;
        for object in &self.objects[last..] {
            blobs.delete(&object.key).await?;
        }
        Ok(())
    }
}

/// A job of the collection without a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenJob {
    pub(super) job: JobId,
    /// `None` while it is being submitted.
    pub(super) submitted_ms: Option<Millis>,
}

#[derive(Debug, Default)]
pub(super) struct FoundJobs {
    pub(super) garbage: Vec<JobGarbage>,
    pub(super) open: Vec<OpenJob>,
}

// A job that is kept, or that belongs to another collection, has neither.
type JobState = (Option<OpenJob>, Option<JobGarbage>);

/// Finds the open jobs of a collection, and what is not needed of those that ended.
pub(super) async fn find(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
    retention_ms: Millis,
) -> PortResult<FoundJobs> {
    const PAGE: usize = 1_000;
    let mut jobs = FoundJobs::default();
    let mut after: Option<JobId> = None;
    loop {
        let page = jobs::list(blobs, after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(jobs);
        };
        after = Some(last);
        let mut states = stream::iter(page)
            .map(|job| readable_state(blobs, collection, job, now_ms, retention_ms))
            .buffered(MAX_CONCURRENT_READS);
        while let Some((open, garbage)) = states.try_next().await? {
            jobs.open.extend(open);
            jobs.garbage.extend(garbage);
        }
    }
}

// Everything of a job that cannot be read is kept, with what it may still need: it counts as open since its id was made.
async fn readable_state(
    blobs: &dyn Blobs,
    collection: &Collection,
    job: JobId,
    now_ms: Millis,
    retention_ms: Millis,
) -> PortResult<JobState> {
    match job_state(blobs, collection, job.clone(), now_ms, retention_ms).await {
        Err(error) if error.is_permanent() => {
            tracing::warn!(%job, %error, "a job cannot be read; it is kept, and what was superseded after it was submitted");
            let submitted_ms = Some(job.time_ms().unwrap_or(0));
            Ok((Some(OpenJob { job, submitted_ms }), None))
        }
        state => state,
    }
}

async fn job_state(
    blobs: &dyn Blobs,
    collection: &Collection,
    job: JobId,
    now_ms: Millis,
    retention_ms: Millis,
) -> PortResult<JobState> {
    let Some(report) = jobs::report(blobs, &job).await? else {
        let open = |submitted_ms| {
            Some(OpenJob {
                job: job.clone(),
                submitted_ms,
            })
        };
        return Ok(match jobs::manifest(blobs, &job).await? {
            Some(manifest) if manifest.collection != collection.as_str() => (None, None),
            Some(manifest) => (open(Some(manifest.submitted_ms)), None),
            None => (open(None), unfinished(blobs, &job, now_ms).await?),
        });
    };
    if !is_past_grace(report.ended_ms, now_ms) {
        return Ok((None, None));
    }
    let garbage = job_garbage(blobs, collection, job, &report, now_ms, retention_ms).await?;
    Ok((None, garbage))
}

// The attempts to submit a job without a manifest: marks to write, and what to remove of those marked a week ago.
async fn unfinished(
    blobs: &dyn Blobs,
    job: &JobId,
    now_ms: Millis,
) -> PortResult<Option<JobGarbage>> {
    let prefix = format!("jobs/{job}/{UNFINISHED}");
    let mut marks: BTreeMap<String, Vec<(Millis, String)>> = BTreeMap::new();
    for key in list_all(blobs, &prefix).await? {
        let mark = key[prefix.len()..].rsplit_once('~');
        if let Some((attempt, Ok(at_ms))) = mark.map(|(name, at_ms)| (name, at_ms.parse())) {
            marks.entry(attempt.into()).or_default().push((at_ms, key));
        }
    }
    let entries = format!("jobs/{job}/entries/");
    let mut attempts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in list_all(blobs, &entries).await? {
        if let Some((attempt, _)) = key[entries.len()..].split_once('/') {
            attempts.entry(attempt.into()).or_default().push(key);
        }
    }
    let mut garbage = JobGarbage::default();
    for (attempt, entries) in attempts {
        match marks.get(&attempt) {
            None => garbage
                .marks
                .push(format!("{prefix}{attempt}~{now_ms:013}")),
            Some(found) if found.iter().any(|(at_ms, _)| is_past_grace(*at_ms, now_ms)) => {
                garbage
                    .objects
                    .extend(entries.into_iter().map(unfinished_submission));
            }
            Some(_) => {
                marks.remove(&attempt);
            }
        }
    }
    // The marks go last: an interrupted collection must not make an attempt look new.
    let marks: Vec<_> = marks.into_values().flatten().map(|(_, key)| key).collect();
    garbage.last = marks.len();
    garbage
        .objects
        .extend(marks.into_iter().map(unfinished_submission));
    let is_empty = garbage.marks.is_empty() && garbage.objects.is_empty();
    Ok((!is_empty).then_some(garbage))
}

fn unfinished_submission(key: String) -> GarbageObject {
    GarbageObject::new(key, "unfinished submission")
}

async fn job_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    job: JobId,
    report: &jobs::JobReport,
    now_ms: Millis,
    retention_ms: Millis,
) -> PortResult<Option<JobGarbage>> {
    let manifest = jobs::manifest(blobs, &job).await?;
    // A report without a manifest is left of a removal that was interrupted.
    if manifest
        .as_ref()
        .is_some_and(|manifest| manifest.collection != collection.as_str())
    {
        return Ok(None);
    }
    let prefix = format!("jobs/{job}/");
    let keys = list_all(blobs, &prefix).await?;
    let is_whole = report.ended_ms + retention_ms < now_ms;
    let manifest_key = format!("{prefix}manifest.json");
    let report_key = format!("{prefix}report.json");
    let mut ordered: Vec<String> = keys
        .iter()
        .filter(|key| {
            let part = &key[prefix.len()..];
            if is_whole {
                **key != manifest_key && **key != report_key
            } else {
                PARTS
                    .iter()
                    .any(|superfluous| part.starts_with(superfluous))
            }
        })
        .cloned()
        .collect();
    let mut first = 0;
    let mut last = 0;
    if is_whole {
        let name = manifest.and_then(|manifest| manifest.options.name);
        let name = match &name {
            Some(name) => named_job(blobs, collection, name, &job).await?,
            None => None,
        };
        let before: Vec<String> = name.into_iter().chain([manifest_key.clone()]).collect();
        first = before.len();
        ordered.splice(0..0, before);
        ordered.extend([format!("jobs-ended/{job}"), report_key]);
        last = 2;
    }
    let objects: Vec<GarbageObject> = ordered
        .into_iter()
        .map(|key| GarbageObject::new(key, "ended job"))
        .collect();
    Ok((!objects.is_empty()).then_some(JobGarbage {
        marks: Vec::new(),
        objects,
        first,
        last,
    }))
}

// The key of a job's name, if it still belongs to the job.
async fn named_job(
    blobs: &dyn Blobs,
    collection: &Collection,
    name: &str,
    job: &JobId,
) -> PortResult<Option<String>> {
    let named = jobs::find_job_name(blobs, collection.as_str(), name).await?;
    Ok((named.as_ref() == Some(job)).then(|| jobs::name_key(collection.as_str(), name)))
}
