//! `stemma status`: the current state of jobs, lanes, workers and limits.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join, try_join_all};
use serde::Serialize;
use stemma_boot::store::LockOwner;
use stemma_engine::blobs::Blobs;
use stemma_engine::diagnosis::{self, DiagnosisContext, Server, ServerTrouble};
use stemma_engine::env::Millis;
use stemma_engine::heartbeat::{Heartbeat, JobProgress, ModelBatch};
use stemma_engine::jobs::{EntryCounts, NewestJobs};
use stemma_engine::port_monitor::TroubleKind;
use stemma_engine::queue::{Depth, Lane};
use stemma_engine::{JobId, PortError, PortResult, Priority, dead_letter};

use super::JobContext;
use super::eta::duration;
use super::job_context::unknown_job;
use super::job_status::{JobView, job_view};
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
    // Servers that do not answer; what only they know is missing.
    troubles: Vec<ServerTrouble>,
    // The process that holds the lock of a folder store.
    writer: Option<LockOwner>,
    jobs: Vec<JobView>,
    processes: Vec<ProcessView>,
    // Lanes with workers or messages.
    lanes: Vec<LaneView>,
    // Work of the running processes, by stage.
    stages: BTreeMap<String, StageView>,
    models: BTreeMap<String, ModelView>,
    // Messages that could not be processed; `null` when the store does not answer.
    dead_letters: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ProcessView {
    process: String,
    service: String,
    version: String,
    since_ms: u64,
    draining: bool,
}

#[derive(Debug, Serialize)]
struct LaneView {
    lane: &'static str,
    class: Priority,
    ready: u64,
    unacked: u64,
    delayed: u64,
    // Processes that serve it.
    workers: usize,
    // Running tasks, and the most that can run.
    busy: u64,
    slots: u64,
    // Age of the oldest waiting task in milliseconds; `null` when none waits.
    oldest_ms: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
struct StageView {
    done: u64,
    failed: u64,
    retried: u64,
    per_second: f64,
    p50_ms: u64,
    p95_ms: u64,
}

#[derive(Debug, Default, Serialize)]
struct ModelView {
    requests_last_minute: u64,
    requests_limit: u32,
    tokens_last_minute: u64,
    tokens_limit: u32,
    waiting: u32,
    calling: u32,
    p95_ms: u64,
    breaker_open_until_ms: Option<u64>,
    paused_until_ms: Option<u64>,
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    batches: Vec<ModelBatch>,
}

// A job that was submitted this long ago has been taken up by a coordinator, if one is alive.
const TAKEN_UP_MS: u64 = 10_000;
// Coordinators post the progress of a job again within this time, also to a Redis that was emptied.
const PROGRESS_POSTED: Duration = Duration::from_millis(2_500);

pub async fn run(args: StatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let job_context = JobContext::observe(context, "status").await?;
    let (mut facts, stored) = join(gather(&job_context), stored_state(&job_context, &args)).await;
    let (jobs, dead_letters) = match stored {
        Ok((ids, dead_letters)) => match views(&job_context, &args, &ids, &mut facts).await {
            Ok(jobs) => (jobs, Some(dead_letters)),
            Err(error) => (
                jobs_without_store(&job_context, &args, &mut facts, error)?,
                None,
            ),
        },
        Err(error) => (
            jobs_without_store(&job_context, &args, &mut facts, error)?,
            None,
        ),
    };
    if let (Some(job), true, true) = (&args.job, jobs.is_empty(), dead_letters.is_some()) {
        return Err(unknown_job(job));
    }
    let now = job_context.env.now_ms();
    let view = StatusView {
        live: job_context.is_live,
        troubles: facts.troubles,
        writer: job_context.writer.clone(),
        jobs,
        lanes: lanes(&facts.processes, &facts.depths, now),
        stages: stages(&facts.processes),
        models: models(&facts.processes),
        processes: facts.processes.into_iter().map(process).collect(),
        dead_letters,
    };
    if context.output.is_text() {
        show(&view, &context.output, now);
    } else {
        context.output.json(&view);
    }
    Ok(Exit::nothing_if(view.jobs.is_empty()))
}

/// What the cluster knows; nothing without one.
pub async fn gather(job_context: &JobContext) -> DiagnosisContext {
    match job_context.is_live {
        true => diagnosis::gather_context(&job_context.ports, &job_context.env).await,
        false => DiagnosisContext::default(),
    }
}

// The ids of the jobs to look at, newest first, and the number of dead letters.
async fn stored_state(
    job_context: &JobContext,
    args: &StatusArgs,
) -> PortResult<(Vec<JobId>, u64)> {
    let ids = match &args.job {
        Some(job) => {
            let found = job_context.find(job).await?;
            found.into_iter().map(|manifest| manifest.job).collect()
        }
        None => newest_first(job_context.blobs(), job_context.env.now_ms()).await?,
    };
    Ok((ids, dead_letter::count(job_context.blobs()).await?))
}

// The first of these jobs that belong to the collection. A job that no coordinator reports although one must have taken it
// up is looked for again: Redis may just have been emptied.
async fn views(
    job_context: &JobContext,
    args: &StatusArgs,
    ids: &[JobId],
    facts: &mut DiagnosisContext,
) -> PortResult<Vec<JobView>> {
    let mut manifests = Vec::new();
    for job in ids {
        if manifests.len() == args.limit {
            break;
        }
        manifests.extend(job_context.find(&job.0).await?);
    }
    let read =
        |live: Vec<JobProgress>| {
            let views = manifests
                .iter()
                .map(move |manifest| (manifest, live.clone()));
            try_join_all(views.map(|(manifest, live)| async move {
                job_view(job_context, manifest, &live).await
            }))
        };
    let views = read(facts.jobs.clone()).await?;
    let now = job_context.env.now_ms();
    let is_unreported =
        |job: &JobView| job.state == "waiting" && job.submitted_ms + TAKEN_UP_MS < now;
    if !views.iter().any(is_unreported) || !has_coordinator(&facts.processes) {
        return Ok(views);
    }
    job_context.env.sleep(PROGRESS_POSTED).await;
    *facts = gather(job_context).await;
    read(facts.jobs.clone()).await
}

// While the store does not answer, the jobs that coordinators report.
fn jobs_without_store(
    job_context: &JobContext,
    args: &StatusArgs,
    facts: &mut DiagnosisContext,
    error: PortError,
) -> Result<Vec<JobView>, CommandError> {
    let trouble = ServerTrouble::from_error(&error).filter(|_| job_context.is_live);
    let Some(trouble) = trouble else {
        return Err(error.into());
    };
    facts.troubles.push(trouble);
    let owned = facts.jobs.iter().rev().filter(|job| job.entries > 0);
    let is_asked_for = |job: &&JobProgress| args.job.as_ref().is_none_or(|name| job.job.0 == *name);
    let jobs = owned.filter(is_asked_for).take(args.limit);
    Ok(jobs.map(JobView::from_progress).collect())
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

fn process(beat: Heartbeat) -> ProcessView {
    let Heartbeat {
        process,
        service,
        version,
        since_ms,
        draining,
        ..
    } = beat;
    ProcessView {
        process,
        service,
        version,
        since_ms,
        draining,
    }
}

fn lanes(
    beats: &[Heartbeat],
    depths: &BTreeMap<(Lane, Priority), Depth>,
    now: u64,
) -> Vec<LaneView> {
    let lanes = depths
        .iter()
        .map(|((lane, class), depth): (&(Lane, Priority), &Depth)| {
            let serving = beats.iter().filter_map(|beat| {
                let here = beat
                    .lanes
                    .iter()
                    .find(|here| here.lane == *lane && here.class == *class)?;
                Some((beat, here))
            });
            let sum = serving.clone().fold((0, 0), |(busy, slots), (_, here)| {
                (busy + u64::from(here.busy), slots + u64::from(here.slots))
            });
            // What waits was requested after the oldest unfinished task, and published after what was taken.
            let unfinished = beats.iter().flat_map(|beat| &beat.unfinished);
            let unfinished = unfinished
                .filter(|oldest| oldest.lane == *lane && oldest.class == *class)
                .map(|oldest| oldest.since_ms)
                .min();
            let taken = serving.clone().filter_map(|(_, here)| here.taken_ms).max();
            let oldest = unfinished.max(taken).filter(|_| depth.ready > 0);
            LaneView {
                lane: lane.name(),
                class: *class,
                ready: depth.ready,
                unacked: depth.unacked,
                delayed: depth.delayed,
                workers: serving.count(),
                busy: sum.0,
                slots: sum.1,
                oldest_ms: oldest.map(|since| now.saturating_sub(since)),
            }
        });
    lanes
        .filter(|lane| lane.workers > 0 || lane.ready + lane.unacked + lane.delayed > 0)
        .collect()
}

fn stages(beats: &[Heartbeat]) -> BTreeMap<String, StageView> {
    let mut sums: BTreeMap<String, StageView> = BTreeMap::new();
    for (name, stage) in beats.iter().flat_map(|beat| &beat.stages) {
        let sum = sums.entry(name.clone()).or_default();
        sum.done += stage.done;
        sum.failed += stage.failed;
        sum.retried += stage.retried;
        sum.per_second += stage.last_minute as f64 / 60.0;
        (sum.p50_ms, sum.p95_ms) = (sum.p50_ms.max(stage.p50_ms), sum.p95_ms.max(stage.p95_ms));
    }
    sums
}

fn models(beats: &[Heartbeat]) -> BTreeMap<String, ModelView> {
    let mut sums: BTreeMap<String, ModelView> = BTreeMap::new();
    for (name, model) in beats.iter().flat_map(|beat| &beat.models) {
        let sum = sums.entry(name.clone()).or_default();
        sum.requests_last_minute += model.requests_last_minute;
        sum.tokens_last_minute += model.tokens_last_minute;
        (sum.waiting, sum.calling) = (sum.waiting + model.waiting, sum.calling + model.calling);
        (sum.requests_limit, sum.tokens_limit) = (model.requests_limit, model.tokens_limit);
        sum.p95_ms = sum.p95_ms.max(model.p95_ms);
        sum.breaker_open_until_ms = sum.breaker_open_until_ms.max(model.breaker_open_until_ms);
        sum.paused_until_ms = sum.paused_until_ms.max(model.paused_until_ms);
        sum.last_error = model.last_error.clone().or(sum.last_error.take());
        sum.batches.extend(model.batches.iter().cloned());
    }
    sums
}

fn show(view: &StatusView, output: &Output, now: u64) {
    if let Some(writer) = &view.writer {
        output.line(&format!(
            "writer     process {} (stemma {})",
            writer.pid,
            clean(&writer.command)
        ));
    }
    show_troubles(&view.troubles, now, output);
    if view.jobs.is_empty() && view.dead_letters.is_some() {
        output.note("no jobs; start one with: stemma ingest FOLDER");
    } else if !view.jobs.is_empty() {
        show_jobs(view, output, now);
    }
    if view.live {
        show_lanes(view, output);
        show_rates(view, output, now);
    } else {
        output.note("no cluster is configured; status is from the store");
    }
    if let Some(count) = view.dead_letters.filter(|count| *count > 0) {
        output.note(&format!("{count} dead letters: stemma dead-letters list"));
    }
    if view.jobs.iter().any(|job| job.state == "interrupted") {
        output.note("run the same ingest again to resume an interrupted job");
    }
    let is_redis_away = view
        .troubles
        .iter()
        .any(|trouble| trouble.server == Server::Redis);
    if view.live
        && !is_redis_away
        && !view
            .processes
            .iter()
            .any(|process| process.service == "coordinator")
    {
        output.note("no coordinator is running: jobs make no progress until one starts");
    }
    if let Some(failed) = view.jobs.iter().find(|job| job.counts.failed > 0) {
        output.note(&format!(
            "reasons: stemma failures {} --by reason",
            failed.job
        ));
    }
}

// Above the jobs: what is missing below is not gone.
fn show_troubles(troubles: &[ServerTrouble], now: u64, output: &Output) {
    for trouble in troubles {
        let server = trouble.server;
        let since = trouble
            .since_ms
            .map(|at| format!(", for {}", duration(now.saturating_sub(at) as f64 / 1e3)));
        let says = format!("{}{}", trouble.says(), since.unwrap_or_default());
        output.line(&output.bold(&clean(&says)));
        let missing = match (trouble.kind, server) {
            (TroubleKind::Away, Server::Broker) => "lengths of lanes are unknown; ",
            (TroubleKind::Away, Server::Redis) => {
                "processes and rates are unknown, counts are those of the last checkpoint; "
            }
            (TroubleKind::Away, Server::S3) => "only what coordinators report is shown; ",
            _ => "",
        };
        output.line(&format!("  {missing}{}", server.remedy(trouble.kind)));
    }
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
        let rate = job
            .documents_per_second
            .filter(|_| !job.has_ended())
            .map(rate_text);
        table.row([
            job.name.clone().unwrap_or_else(|| job.job.to_string()),
            job.state.into(),
            format!("{}/{}", job.counts.ended(), job.total),
            format!("{done}/{done_with_gaps}/{unchanged}/{failed}"),
            rate.unwrap_or_default(),
            job.eta_seconds.map(duration).unwrap_or_default(),
            ago(now.saturating_sub(job.submitted_ms)),
            job.label.clone(),
        ]);
    }
    table.print(output);
    for job in &view.jobs {
        if let Some(wait) = &job.waiting {
            let since = duration(now.saturating_sub(wait.since_ms) as f64 / 1e3);
            let reason = clean(&wait.reason);
            output.line(&format!("{} waits for {since}: {reason}", job.job));
        }
    }
}

fn show_lanes(view: &StatusView, output: &Output) {
    use Column::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Right, Right, Right]);
    table.row(["lane", "waiting", "delayed", "workers", "busy", "oldest"]);
    for lane in &view.lanes {
        let class = if lane.class == Priority::Interactive {
            " (interactive)"
        } else {
            ""
        };
        table.row([
            format!("{}{class}", lane.lane),
            lane.ready.to_string(),
            lane.delayed.to_string(),
            lane.workers.to_string(),
            format!("{}/{}", lane.busy, lane.slots),
            lane.oldest_ms
                .map(|millis| duration(millis as f64 / 1e3))
                .unwrap_or_default(),
        ]);
    }
    output.line("");
    table.print(output);
}

fn show_rates(view: &StatusView, output: &Output, now: u64) {
    for (name, stage) in view
        .stages
        .iter()
        .filter(|(_, stage)| stage.done + stage.failed + stage.retried > 0)
    {
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
        let breaker = if model.breaker_open_until_ms.is_some() {
            "open"
        } else {
            "closed"
        };
        output.line(&format!(
            "model {}  {} requests, {} tokens in the last minute   {} calls, {} waiting   breaker {breaker}",
            clean(name),
            used_of_limit(model.requests_last_minute, model.requests_limit),
            used_of_limit(model.tokens_last_minute, model.tokens_limit),
            model.calling,
            model.waiting
        ));
        for batch in &model.batches {
            let ModelBatch {
                name,
                collection,
                requests,
                done,
                ..
            } = batch;
            let at = match batch.submitted_ms {
                Some(at_ms) => format!("submitted {}", ago(now.saturating_sub(at_ms))),
                None => "not submitted yet".into(),
            };
            output.line(&format!(
                "  batch {}  of {}   {done} of {requests} done   {at}",
                clean(name),
                clean(collection)
            ));
        }
    }
}

// `1.4/s`, `3.0/min`, `2.5/h`.
fn rate_text(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate if rate >= 1.0 / 60.0 => format!("{:.1}/min", rate * 60.0),
        rate => format!("{:.1}/h", rate * 3_600.0),
    }
}

/// `40 s ago`, `3 h ago`.
pub fn ago(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

// A limit of 0 is unknown.
fn used_of_limit(used: u64, limit: u32) -> String {
    if limit == 0 {
        used.to_string()
    } else {
        format!("{used}/{limit}")
    }
}
