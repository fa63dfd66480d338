//! Which documents of a job failed, and why.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_engine::flow::JobManifest;
use stemma_engine::jobs;
use stemma_store::{FailureRecord, JobId, PortResult, RunId};

use crate::Operations;

/// Failures of a job, from its report or last checkpoint.
#[derive(Debug, Serialize)]
pub struct JobFailures {
    pub job: JobId,
    /// Whether the job has ended; otherwise the counts are from its last checkpoint.
    pub complete: bool,
    pub total: u64,
    /// Documents that failed since the checkpoint, which the counts lack; `null` if no coordinator says. A job of up to 500
    /// documents has its first checkpoint at its end.
    pub uncounted: Option<u64>,
    /// Documents by code, most frequent first.
    pub reasons: Vec<FailureReasonCount>,
    /// At most a thousand.
    pub failures: Vec<FailedRun>,
}

#[derive(Debug, Serialize)]
pub struct FailureReasonCount {
    pub code: String,
    pub documents: u64,
    pub message: Option<String>,
    pub next: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct FailedRun {
    /// Where the document lies, and its path below the submitted folder; `null` once `stemma gc` has removed the job's entries,
    /// or the claim of a version that two others followed.
    pub uri: Option<String>,
    pub path: Option<String>,
    /// The run, or the number of the entry if no run was opened.
    pub run: String,
    #[serde(flatten)]
    pub failure: FailureRecord,
}

// The document of a run or of an entry.
#[derive(Debug, Clone, Deserialize)]
struct FailedDocument {
    uri: String,
    path: String,
}

// Concurrent reads of the headers of failed runs.
const READS_AT_ONCE: usize = 32;

impl Operations {
    /// The failures of a job, from its report or last checkpoint; the first `limit` are named.
    pub async fn job_failures(
        &self,
        manifest: &JobManifest,
        limit: usize,
    ) -> PortResult<JobFailures> {
        let blobs = self.blobs();
        let job = manifest.job.clone();
        let (complete, counted, mut failures) = match jobs::report(blobs, &job).await? {
            Some(report) => (true, report.reasons, report.failures),
            None => {
                let saved = jobs::saved_progress(blobs, &job).await?;
                (false, saved.reasons, saved.failures)
            }
        };
        let mut reasons: Vec<FailureReasonCount> = counted
            .into_iter()
            .map(|(code, documents)| {
                let mut records = failures.iter().map(|(_, record)| record);
                let example = records.find(|record| record.code == code);
                FailureReasonCount {
                    message: example.map(|record| record.message.clone()),
                    next: example.and_then(|record| record.next.clone()),
                    code,
                    documents,
                }
            })
            .collect();
        reasons.sort_by(|a, b| b.documents.cmp(&a.documents).then(a.code.cmp(&b.code)));
        let total = reasons.iter().map(|reason| reason.documents).sum();
        let uncounted = match complete {
            true => Some(0),
            false => self
                .live_failures(&job)
                .await
                .map(|failed| failed.saturating_sub(total)),
        };
        failures.truncate(limit);
        let documents = self.failed_documents(manifest, &failures).await?;
        let failures = failures
            .into_iter()
            .zip(documents)
            .map(|((run, failure), document)| {
                let (uri, path) = document.map(|found| (found.uri, found.path)).unzip();
                FailedRun {
                    uri,
                    path,
                    run,
                    failure,
                }
            })
            .collect();
        Ok(JobFailures {
            job,
            complete,
            total,
            uncounted,
            reasons,
            failures,
        })
    }

    // The failed documents of a running job, if a coordinator has reported.
    async fn live_failures(&self, job: &JobId) -> Option<u64> {
        let live = self.live_progress().await.ok()?;
        let progress = live.iter().find(|progress| progress.job == *job)?;
        Some(progress.counts.failed)
    }

    // The documents behind the failures of a job, in the same order: the report names runs, or entries that opened none.
    async fn failed_documents(
        &self,
        manifest: &JobManifest,
        failures: &[(String, FailureRecord)],
    ) -> PortResult<Vec<Option<FailedDocument>>> {
        let entry_number = |name: &str| name.strip_prefix("entry ")?.parse::<u64>().ok();
        let numbers = failures.iter().filter_map(|(name, _)| entry_number(name));
        let entries = self.entry_documents(manifest, numbers).await?;
        let entries = &entries;
        let reads = failures.iter().map(|(name, _)| async move {
            if let Some(number) = entry_number(name) {
                return Ok(entries.get(&number).cloned());
            }
            let header = self.run_header(&RunId(name.clone())).await?;
            let input = header.map(|header| header.input);
            Ok(input.and_then(|input| serde_json::from_value(input).ok()))
        });
        let reads: Vec<_> = reads.collect();
        stream::iter(reads)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn entry_documents(
        &self,
        manifest: &JobManifest,
        numbers: impl Iterator<Item = u64>,
    ) -> PortResult<BTreeMap<u64, FailedDocument>> {
        let size = jobs::CHUNK_ENTRIES as u64;
        let mut documents = BTreeMap::new();
        let mut chunk = (u64::MAX, Vec::new());
        for number in numbers {
            if chunk.0 != number / size {
                let entries = match jobs::entries(self.blobs(), manifest, number / size).await {
                    // The failures are known all the same.
                    Err(error) if error.is_permanent() => Vec::new(),
                    entries => entries?,
                };
                chunk = (number / size, entries);
            }
            let entry = chunk.1.get((number % size) as usize);
            let input = entry.map(|entry| entry.input.clone());
            let document = input.and_then(|input| serde_json::from_value(input).ok());
            documents.extend(document.map(|document| (number, document)));
        }
        Ok(documents)
    }
}
