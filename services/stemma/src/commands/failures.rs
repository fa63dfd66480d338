//! `stemma failures`: lists failed documents with reasons.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_archive::FailureReport;
use stemma_engine::flow::JobManifest;
use stemma_engine::{FailureRecord, JobId, RunId, jobs};

use crate::commands::jobs::JobContext;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, counted};

/// List failed documents, with reasons and next steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma failures                one by one
  stemma failures --by reason    grouped by reason, with examples and next steps
  stemma failures 8-K/2022       only in a folder
  stemma failures j-1a1fba36…    of a job, from its report")]
pub struct FailuresArgs {
    /// A document, folder or facet path, or a job by id or name.
    #[arg(value_name = "SCOPE|JOB", default_value = "/")]
    scope: String,
    /// Group failures.
    #[arg(long, value_enum)]
    by: Option<FailureGrouping>,
}

/// The key by which failures are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailureGrouping {
    /// The code of the failure.
    Reason,
}

pub async fn run(args: FailuresArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    let job_context = JobContext::observe(context, "failures").await?;
    if let Some(manifest) = job_context.find(&args.scope).await? {
        return job_failures(&job_context, &manifest, args.by, output).await;
    }
    let view = job_context.archive().await?.failures(&args.scope)?;
    match args.by {
        Some(_) => output.print(&view, &view.reasons, || show_reasons(&view, output)),
        None => output.print(&view, &view.failures, || show(&view, output)),
    }
    if view.total == 0 {
        output.note("no failures");
    }
    Ok(Exit::Done)
}

// Failures of a job, from its report or last checkpoint.
#[derive(Debug, Serialize)]
struct JobFailures {
    job: JobId,
    // Whether the job has ended; otherwise the counts are from its last checkpoint.
    complete: bool,
    total: u64,
    // Documents by code, most frequent first.
    reasons: Vec<FailureReasonCount>,
    // At most a thousand.
    failures: Vec<FailedRun>,
}

#[derive(Debug, Serialize)]
struct FailureReasonCount {
    code: String,
    documents: u64,
    message: Option<String>,
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct FailedRun {
    // Where the document lies, and its path below the submitted folder; `null` once `stemma gc` has removed the job's entries,
    // or the claim of a version that two others followed.
    uri: Option<String>,
    path: Option<String>,
    // The run, or the number of the entry if no run was opened.
    run: String,
    #[serde(flatten)]
    failure: FailureRecord,
}

async fn job_failures(
    job_context: &JobContext,
    manifest: &JobManifest,
    by: Option<FailureGrouping>,
    output: &Output,
) -> Result<Exit, CommandError> {
    let blobs = job_context.blobs();
    let job = manifest.job.clone();
    let (complete, counted, failures) = match jobs::report(blobs, &job).await? {
        Some(report) => (true, report.reasons, report.failures),
        None => {
            let saved = jobs::saved_progress(blobs, &job).await?;
            (false, saved.reasons, saved.failures)
        }
    };
    let mut reasons: Vec<FailureReasonCount> = counted
        .into_iter()
        .map(|(code, documents)| {
            let example = failures
                .iter()
                .map(|(_, record)| record)
                .find(|record| record.code == code);
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
    let documents = failed_documents(job_context, manifest, &failures).await?;
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
    let view = JobFailures {
        job,
        complete,
        total,
        reasons,
        failures,
    };
    match by {
        Some(_) => output.print(&view, &view.reasons, || show_job(&view, by, output)),
        None => output.print(&view, &view.failures, || show_job(&view, by, output)),
    }
    if total == 0 {
        output.note("no failures");
    }
    Ok(Exit::Done)
}

// The document of a run or of an entry.
#[derive(Debug, Clone, Deserialize)]
struct FailedDocument {
    uri: String,
    path: String,
}

// Concurrent reads of the headers of failed runs.
const READS_AT_ONCE: usize = 32;

/// The documents behind the failures of a job, in the same order: the report names runs, or entries that opened none.
async fn failed_documents(
    job_context: &JobContext,
    manifest: &JobManifest,
    failures: &[(String, FailureRecord)],
) -> Result<Vec<Option<FailedDocument>>, CommandError> {
    let entry_number = |name: &str| name.strip_prefix("entry ")?.parse::<u64>().ok();
    let numbers = failures.iter().filter_map(|(name, _)| entry_number(name));
    let entries = entry_documents(job_context, manifest, numbers).await?;
    let entries = &entries;
    let reads = failures.iter().map(|(name, _)| async move {
        if let Some(number) = entry_number(name) {
            return Ok(entries.get(&number).cloned());
        }
        let header = job_context.run_header(&RunId(name.clone())).await?;
        let input = header.map(|header| header.input);
        Ok::<_, CommandError>(input.and_then(|input| serde_json::from_value(input).ok()))
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads)
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await
}

async fn entry_documents(
    job_context: &JobContext,
    manifest: &JobManifest,
    numbers: impl Iterator<Item = u64>,
) -> Result<BTreeMap<u64, FailedDocument>, CommandError> {
    let size = jobs::CHUNK_ENTRIES as u64;
    let mut documents = BTreeMap::new();
    let mut chunk = (u64::MAX, Vec::new());
    for number in numbers {
        if chunk.0 != number / size {
            let entries = jobs::entries(job_context.blobs(), manifest, number / size).await?;
            chunk = (number / size, entries);
        }
        let entry = chunk.1.get((number % size) as usize);
        let input = entry.map(|entry| entry.input.clone());
        let document = input.and_then(|input| serde_json::from_value(input).ok());
        documents.extend(document.map(|document| (number, document)));
    }
    Ok(documents)
}

fn show_job(view: &JobFailures, by: Option<FailureGrouping>, output: &Output) {
    for reason in &view.reasons {
        output.line(&format!(
            "{}  {}",
            output.bold(&clean(&reason.code)),
            counted(reason.documents, "document")
        ));
        if let Some(message) = &reason.message {
            output.line(&format!("  e.g. {}", clean(message)));
        }
        if let Some(next) = &reason.next {
            output.line(&format!("  next {}", clean(next)));
        }
    }
    if by.is_none() {
        for failed in &view.failures {
            output.line(&format!(
                "{}  {}  {}",
                clean(failed.path.as_ref().unwrap_or(&failed.run)),
                clean(&failed.failure.code),
                clean(&failed.failure.message)
            ));
        }
    }
    if !view.complete {
        output.note("the job is still running; counts are from its last checkpoint");
    }
}

fn show(view: &FailureReport, output: &Output) {
    let mut table = Table::new([Column::Left, Column::Left, Column::Text]);
    for row in &view.failures {
        table.row([&row.locator, &row.failure.code, &row.failure.message]);
    }
    table.print(output);
    for reason in view.reasons.iter().filter(|reason| reason.next.is_some()) {
        let next = reason.next.as_deref().unwrap_or_default();
        output.note(&output.dim(&format!("{}: {}", clean(&reason.code), clean(next))));
    }
}

fn show_reasons(view: &FailureReport, output: &Output) {
    for reason in &view.reasons {
        output.line(&format!(
            "{}  {}",
            output.bold(&clean(&reason.code)),
            counted(reason.documents, "document")
        ));
        output.line(&format!(
            "  e.g. {}: {}",
            clean(&reason.example),
            clean(&reason.message)
        ));
        if let Some(next) = &reason.next {
            output.line(&format!("  next {}", clean(next)));
        }
    }
}
