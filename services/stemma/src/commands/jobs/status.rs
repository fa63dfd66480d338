//! `stemma status`: the current state of jobs, lanes, workers and limits.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_boot::store::LockOwner;
use stemma_engine::blobs::Blobs;
use stemma_engine::heartbeat::{Heartbeat, JobProgress};
use stemma_engine::jobs::{self, EntryCounts};
use stemma_engine::queue::{Depth, Lane};
use stemma_engine::{JobId, Priority, dead_letter, diagnosis};

use super::JobContext;
use super::eta::duration;
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
    // Whether a cluster reported; otherwise all data is from the store.
    live: bool,
    // The process that holds the lock of a folder store.
    writer: Option<LockOwner>,
    jobs: Vec<JobView>,
    processes: Vec<ProcessView>,
    // Lanes with workers or messages.
    lanes: Vec<LaneView>,
    // Work of the running processes, by stage.
    stages: BTreeMap<String, StageView>,
    models: BTreeMap<String, ModelView>,
    // Messages that could not be processed.
    dead_letters: u64,
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
    // Age of the oldest running task that a heartbeat names, in milliseconds.
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
}

pub async fn run(args: StatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let job_context = JobContext::open(context, "status").await?;
    let facts = match job_context.is_live {
        true => diagnosis::gather_context(&job_context.ports, job_context.env.now_ms()).await?,
        false => diagnosis::DiagnosisContext::default(),
    };
    let jobs = match &args.job {
        Some(job) => vec![job_view(&job_context, &job_context.job(job).await?, &facts.jobs).await?],
        None => latest(&job_context, &facts.jobs, args.limit).await?,
    };
    let now = job_context.env.now_ms();
    let view = StatusView {
        live: job_context.is_live,
        writer: job_context.writer.clone(),
        jobs,
        lanes: lanes(&facts.processes, &facts.depths, now),
        stages: stages(&facts.processes),
        models: models(&facts.processes),
        processes: facts.processes.into_iter().map(process).collect(),
        dead_letters: dead_letter::count(job_context.blobs()).await?,
    };
    if context.output.is_text() {
        show(&view, &context.output, now);
    } else {
        context.output.json(&view);
    }
    Ok(Exit::nothing_if(view.jobs.is_empty()))
}

// The latest jobs of the collection. Ids sort by time of submission.
async fn latest(
    job_context: &JobContext,
    live: &[JobProgress],
    limit: usize,
) -> Result<Vec<JobView>, CommandError> {
    let mut views = Vec::new();
    for job in newest_first(job_context.blobs()).await? {
        if views.len() == limit {
            break;
        }
        if let Some(manifest) = job_context.find(&job.0).await? {
            views.push(job_view(job_context, &manifest, live).await?);
        }
    }
    Ok(views)
}

async fn newest_first(blobs: &dyn Blobs) -> Result<Vec<JobId>, CommandError> {
    const PAGE: usize = 10_000;
    let mut all: Vec<JobId> = Vec::new();
    loop {
        let page = jobs::list(blobs, all.last(), PAGE).await?;
        let last = page.len() < PAGE;
        all.extend(page);
        if last {
            all.reverse();
            return Ok(all);
        }
    }
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
            // Heartbeats do not name the lane of a task, so ages are known only for processes with one lane.
            let single = serving
                .clone()
                .filter(|(beat, _)| beat.lanes.iter().all(|other| other.lane == *lane));
            let oldest = single
                .flat_map(|(beat, _)| &beat.tasks)
                .map(|task| task.since_ms)
                .min();
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
    if view.jobs.is_empty() {
        output.note("no jobs; start one with: stemma ingest FOLDER");
    } else {
        show_jobs(view, output, now);
    }
    if view.live {
        show_lanes(view, output);
        show_rates(view, output);
    } else {
        output.note("no cluster is configured; status is from the store");
    }
    if view.dead_letters > 0 {
        output.note(&format!(
            "{} dead letters: stemma dead-letters list",
            view.dead_letters
        ));
    }
    if view.jobs.iter().any(|job| job.state == "interrupted") {
        output.note("run the same ingest again to resume an interrupted job");
    }
    if view.live
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
            .map(|rate| format!("{rate:.1}/s"));
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

fn show_rates(view: &StatusView, output: &Output) {
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
    }
}

// `40 s ago`, `3 h ago`.
fn ago(millis: u64) -> String {
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
