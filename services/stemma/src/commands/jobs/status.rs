//! `stemma status`: the current state of jobs, lanes, workers and limits.

use std::time::Duration;

use futures::future::join;
use serde::Serialize;
use stemma_engine::dead_letter;
use stemma_engine::diagnosis::{DiagnosisContext, Server, ServerTrouble};
use stemma_engine::heartbeat::Heartbeat;
use stemma_engine::jobs::{EntryCounts, NewestJobs};
use stemma_operations::text::{ago, duration, rate};
use stemma_operations::{ClusterStatus, JobStatus, Operations, StoreWriter};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::port_monitor::TroubleKind;
use stemma_store::{JobId, PortError, PortResult, Priority};

use super::observe_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table};

/// Show the progress of jobs, and the workers and lanes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each `stemma submit` or `stemma ingest` creates a job. Without a cluster, the status comes from
the store: a job that is neither finished nor running was interrupted, and running the same
ingest again resumes it.

Examples:
  stemma status
  stemma status j-1a1fba360ee4aa2 --json")]
pub struct StatusArgs {
    /// A job, by id or name [default: the latest jobs].
    pub job: Option<String>,
    /// Number of jobs to show.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    pub limit: usize,
}

// Jobs, processes and queues.
#[derive(Debug, Serialize)]
struct StatusView {
    // Whether a cluster is configured; otherwise all data is from the store.
    live: bool,
    // The process that holds the lock of a folder store.
    writer: Option<StoreWriter>,
    jobs: Vec<JobStatus>,
    #[serde(flatten)]
    cluster: ClusterStatus,
    // Messages that could not be processed, counted up to a thousand; `null` when the store does not answer.
    dead_letters: Option<u64>,
}

// Dead letters that are counted: one listing.
const MAX_DEAD_LETTERS: usize = 1_000;
// A job that was submitted this long ago has been taken up by a coordinator, if one is alive.
const TAKEN_UP_MS: u64 = 10_000;
// Coordinators post the progress of a job again within this time, also to a Redis that was emptied.
const PROGRESS_POSTED: Duration = Duration::from_millis(2_500);

pub async fn run(args: StatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let operations = observe_operations(context, "status").await?;
    let (mut facts, stored) = join(operations.observe(), stored_state(&operations, &args)).await;
    let stored = match stored {
        Ok((ids, dead_letters)) => views(&operations, &args, &ids, &mut facts)
            .await
            .map(|jobs| (jobs, Some(dead_letters))),
        Err(error) => Err(error),
    };
    let (jobs, dead_letters) = match stored {
        Ok(stored) => stored,
        Err(error) => {
            let jobs = jobs_without_store(&operations, &args, &mut facts, error)?;
            (jobs, None)
        }
    };
    if let (Some(job), true, true) = (&args.job, jobs.is_empty(), dead_letters.is_some()) {
        let unknown = format!("unknown job `{job}` in this collection");
        return Err(
            CommandError::new("job.unknown", unknown).with_next("list jobs with `stemma status`")
        );
    }
    let now = operations.ports.env.now_ms();
    let view = StatusView {
        live: operations.is_live,
        writer: operations.writer(),
        jobs,
        cluster: ClusterStatus::new(facts, now),
        dead_letters,
    };
    let output = &context.output;
    output.show(&view, || show(&view, output, now));
    Ok(Exit::nothing_if(view.jobs.is_empty()))
}

// The ids of the jobs to look at, newest first, and the number of dead letters.
async fn stored_state(operations: &Operations, args: &StatusArgs) -> PortResult<(Vec<JobId>, u64)> {
    let ids = match &args.job {
        Some(job) => {
            let found = operations.find(job).await?;
            found.into_iter().map(|manifest| manifest.job).collect()
        }
        None => newest_first(operations.blobs(), operations.ports.env.now_ms()).await?,
    };
    let dead_letters = dead_letter::count(operations.blobs(), MAX_DEAD_LETTERS).await?;
    Ok((ids, dead_letters))
}

// The first of these jobs that belong to the collection. A job that no coordinator reports although one must have taken it
// up is looked for again: Redis may just have been emptied.
async fn views(
    operations: &Operations,
    args: &StatusArgs,
    ids: &[JobId],
    facts: &mut DiagnosisContext,
) -> PortResult<Vec<JobStatus>> {
    let limit = args.limit;
    let views = operations.job_statuses(ids, limit, &facts.jobs).await?;
    let now = operations.ports.env.now_ms();
    let is_unreported =
        |job: &JobStatus| job.state == "waiting" && job.submitted_ms + TAKEN_UP_MS < now;
    if !views.iter().any(is_unreported) || !has_coordinator(&facts.processes) {
        return Ok(views);
    }
    operations.ports.env.sleep(PROGRESS_POSTED).await;
    *facts = operations.observe().await;
    operations.job_statuses(ids, limit, &facts.jobs).await
}

// While the store does not answer, the jobs that coordinators report.
fn jobs_without_store(
    operations: &Operations,
    args: &StatusArgs,
    facts: &mut DiagnosisContext,
    error: PortError,
) -> Result<Vec<JobStatus>, CommandError> {
    let trouble = ServerTrouble::from_error(&error).filter(|_| operations.is_live);
    let Some(trouble) = trouble else {
        return Err(error.into());
    };
    facts.troubles.push(trouble);
    let owned = facts.jobs.iter().rev().filter(|job| job.entries > 0);
    let jobs = owned
        .filter(|job| args.job.as_ref().is_none_or(|name| job.job.0 == *name))
        .take(args.limit);
    Ok(jobs.map(JobStatus::from_progress).collect())
}

fn has_coordinator(beats: &[Heartbeat]) -> bool {
    beats.iter().any(|beat| beat.service == "coordinator")
}

// Jobs of all collections that are looked at: older ones of a small collection among many are found by their ids.
const MAX_JOBS_READ: usize = 2_000;

async fn newest_first(blobs: &dyn Blobs, now_ms: Millis) -> PortResult<Vec<JobId>> {
    let mut newest = NewestJobs::new(now_ms);
    let mut all = Vec::new();
    while all.len() < MAX_JOBS_READ
        && let Some(page) = newest.next_page(blobs).await?
    {
        all.extend(page);
    }
    all.truncate(MAX_JOBS_READ);
    Ok(all)
}

fn show(view: &StatusView, output: &Output, now: u64) {
    if let Some(StoreWriter { pid, command, .. }) = &view.writer {
        let command = clean(command);
        output.line(&format!("writer     process {pid} (stemma {command})"));
    }
    show_troubles(&view.cluster.troubles, now, output);
    if view.jobs.is_empty() && view.dead_letters.is_some() {
        output.note("no jobs; start one with: stemma ingest FOLDER");
    } else if !view.jobs.is_empty() {
        show_jobs(view, output, now);
    }
    if view.live {
        show_lanes(&view.cluster, output);
        show_rates(&view.cluster, output, now);
    } else {
        output.note("no cluster is configured; status is from the store");
    }
    if let Some(count) = view.dead_letters.filter(|count| *count > 0) {
        let is_counted = count < MAX_DEAD_LETTERS as u64;
        let or_more = if is_counted { "" } else { " or more" };
        output.note(&format!(
            "{count}{or_more} dead letters: stemma dead-letters list"
        ));
    }
    if view.jobs.iter().any(|job| job.state == "interrupted") {
        output.note("run the same ingest again to resume an interrupted job");
    }
    let ClusterStatus {
        troubles,
        processes,
        ..
    } = &view.cluster;
    let is_redis_away = troubles
        .iter()
        .any(|trouble| trouble.server == Server::Redis);
    let has_coordinator = processes
        .iter()
        .any(|process| process.service == "coordinator");
    if view.live && !is_redis_away && !has_coordinator {
        output.note("no coordinator is running: jobs make no progress until one starts");
    }
    if let Some(failed) = view.jobs.iter().find(|job| job.counts.failed > 0) {
        let job = &failed.job;
        output.note(&format!("reasons: stemma failures {job} --by reason"));
    }
}

// Above the jobs: what is missing below is not gone.
fn show_troubles(troubles: &[ServerTrouble], now: u64, output: &Output) {
    for trouble in troubles {
        let server = trouble.server;
        let mut says = trouble.says().to_string();
        if let Some(at) = trouble.since_ms {
            says += &format!(", for {}", elapsed(at, now));
        }
        output.line(&output.bold(&clean(&says)));
        let missing = match (trouble.kind, server) {
            (TroubleKind::Away, Server::Broker) => "lengths of lanes are unknown; ",
            (TroubleKind::Away, Server::Redis) => {
                "processes and rates are unknown, counts are from the last checkpoint; "
            }
            (TroubleKind::Away, Server::S3) => "only what coordinators report is shown; ",
            _ => "",
        };
        output.line(&format!("  {missing}{}", server.remedy(trouble.kind)));
    }
}

fn elapsed(since_ms: u64, now_ms: u64) -> String {
    duration(now_ms.saturating_sub(since_ms) as f64 / 1e3)
}

fn show_jobs(view: &StatusView, output: &Output, now: u64) {
    use Column::{Left, Right, Text};
    let mut table = Table::new([Left, Left, Right, Left, Right, Right, Left, Text]);
    table.row([
        "job",
        "state",
        "documents",
        "done/warnings/unchanged/failed",
        "rate",
        "eta",
        "submitted",
        "label",
    ]);
    for job in &view.jobs {
        let EntryCounts {
            done,
            done_with_gaps,
            unchanged,
            failed,
            ..
        } = job.counts;
        let per_second = job.documents_per_second.filter(|_| !job.has_ended());
        table.row([
            job.name.clone().unwrap_or_else(|| job.job.to_string()),
            job.state.into(),
            format!("{}/{}", job.counts.ended(), job.total),
            format!("{done}/{done_with_gaps}/{unchanged}/{failed}"),
            per_second.map(rate).unwrap_or_default(),
            job.eta_seconds.map(duration).unwrap_or_default(),
            ago(now.saturating_sub(job.submitted_ms)),
            job.label.clone(),
        ]);
    }
    table.print(output);
    for job in &view.jobs {
        if let Some(wait) = &job.waiting {
            let since = elapsed(wait.since_ms, now);
            let reason = clean(&wait.reason);
            output.line(&format!("{} waits for {since}: {reason}", job.job));
        }
        if let Some(problem) = &job.problem {
            output.line(&format!("{}: {}", job.job, clean(&problem.message)));
            output.line(&format!("  next: {}", problem.next));
        }
    }
}

fn show_lanes(view: &ClusterStatus, output: &Output) {
    use Column::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Right, Right, Right]);
    table.row(["lane", "waiting", "delayed", "workers", "busy", "oldest"]);
    for lane in &view.lanes {
        let priority = match lane.priority {
            Priority::Interactive => " (interactive)",
            Priority::Bulk => "",
        };
        let oldest = lane.oldest_ms.map(|millis| duration(millis as f64 / 1e3));
        table.row([
            format!("{}{priority}", lane.lane),
            lane.ready.to_string(),
            lane.delayed.to_string(),
            lane.workers.to_string(),
            format!("{}/{}", lane.busy, lane.slots),
            oldest.unwrap_or_default(),
        ]);
    }
    output.line("");
    table.print(output);
}

fn show_rates(view: &ClusterStatus, output: &Output, now: u64) {
    for (name, stage) in &view.stages {
        if stage.done + stage.failed + stage.retried == 0 {
            continue;
        }
        output.line(&format!(
            "stage {}  {:.1}/s   {} done, {} failed, {} retried   p50 {} ms, p95 {} ms",
            clean(name),
            stage.per_second,
            stage.done,
            stage.failed,
            stage.retried,
            stage.p50_ms,
            stage.p95_ms
        ));
    }
    for (name, model) in &view.models {
        let is_open = model.breaker_open_until_ms.is_some();
        let breaker = if is_open { "open" } else { "closed" };
        output.line(&format!(
            "model {}  {} requests, {} tokens in the last minute   {} calls, {} waiting   breaker {breaker}",
            clean(name),
            used_of_limit(model.requests_last_minute, model.requests_limit),
            used_of_limit(model.tokens_last_minute, model.tokens_limit),
            model.calling,
            model.waiting
        ));
        for batch in &model.batches {
            let name = clean(&batch.name);
            let collection = clean(&batch.collection);
            let done = batch.done;
            let requests = batch.requests;
            let at = match batch.submitted_ms {
                Some(at_ms) => format!("submitted {}", ago(now.saturating_sub(at_ms))),
                None => "not submitted yet".into(),
            };
            output.line(&format!(
                "  batch {name}  of {collection}   {done} of {requests} done   {at}"
            ));
        }
    }
}

// A limit of 0 is unknown.
fn used_of_limit(used: u64, limit: u32) -> String {
    match limit {
        0 => used.to_string(),
        limit => format!("{used}/{limit}"),
    }
}
