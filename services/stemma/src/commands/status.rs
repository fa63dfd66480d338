//! `stemma status`: jobs and what became of their documents.

use serde::Serialize;
use stemma_boot::store::Holder;
use stemma_document::DocId;
use stemma_engine::blobs::Blobs;
use stemma_engine::flow::Manifest;
use stemma_engine::jobs::{self, Counts};
use stemma_engine::{Env, JobId};
use stemma_pipeline::Submission;
use stemma_query::Reader;
use stemma_search::catalogue::State;

use crate::context::{CommandError, Context, Exit};
use crate::output::clean;
use crate::table::{Align, Table};

/// Show jobs: how far they are, and what failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A job is what one `stemma ingest` asked for. A job that is neither finished nor being worked on was interrupted: the
same ingest goes on with it.

Examples:
  stemma status
  stemma status j-1a1fba360ee4aa2 --json")]
pub struct StatusArgs {
    /// A job; without one the latest jobs are shown.
    pub job: Option<String>,
    /// Jobs shown at most.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    pub limit: usize,
}

/// All jobs of a store, or one.
#[derive(Debug, Serialize)]
struct StatusView {
    /// Documents of the collection by state.
    documents: Documents,
    /// Who is writing to the store now.
    writer: Option<Holder>,
    /// Latest first.
    jobs: Vec<JobView>,
}

#[derive(Debug, Default, Serialize)]
struct Documents {
    queued: u64,
    running: u64,
    done: u64,
    done_with_gaps: u64,
    failed: u64,
}

#[derive(Debug, Serialize)]
struct JobView {
    job: JobId,
    /// `finished`, `running` or `interrupted`.
    state: &'static str,
    total: u64,
    counts: Counts,
    submitted_ms: u64,
    /// `null` while it is not finished.
    ended_ms: Option<u64>,
}

/// Runs the command.
pub async fn run(args: StatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let store = context.reader().await?;
    let writer = store.writer();
    let reader = Reader::open(store.blobs.clone(), context.collection.clone()).await?;
    let blobs = store.blobs.as_ref();
    let mut documents = Documents::default();
    for listed in reader.catalogue().documents() {
        *documents.count(listed.state) += 1;
    }
    let mut jobs = Vec::new();
    for job in wanted(blobs, &args).await? {
        if let Some(manifest) = jobs::manifest(blobs, &job).await?
            && manifest.collection == context.collection.as_str()
        {
            jobs.push(view(blobs, &reader, manifest, writer.is_some()).await?);
        }
    }
    if let (Some(job), true) = (&args.job, jobs.is_empty()) {
        return Err(CommandError::new("job.unknown", format!("there is no job `{job}` in this collection"))
            .with_next("see the jobs with `stemma status`"));
    }
    let view = StatusView { documents, writer, jobs };
    if context.output.is_text() {
        show(&view, context);
    } else {
        context.output.json(&view);
    }
    Ok(if view.jobs.is_empty() { Exit::Nothing } else { Exit::Done })
}

impl Documents {
    fn count(&mut self, state: State) -> &mut u64 {
        match state {
            State::Queued => &mut self.queued,
            State::Running => &mut self.running,
            State::Done => &mut self.done,
            State::DoneWithGaps => &mut self.done_with_gaps,
            State::Failed => &mut self.failed,
        }
    }
}

/// The jobs asked for, latest first.
async fn wanted(blobs: &dyn Blobs, args: &StatusArgs) -> Result<Vec<JobId>, CommandError> {
    const PAGE: usize = 10_000;
    if let Some(job) = &args.job {
        return Ok(vec![JobId(job.clone())]);
    }
    let mut all: Vec<JobId> = Vec::new();
    loop {
        let page = jobs::list(blobs, all.last(), PAGE).await?;
        let last = page.len() < PAGE;
        all.extend(page);
        if last {
            return Ok(all.into_iter().rev().take(args.limit).collect());
        }
    }
}

async fn view(blobs: &dyn Blobs, reader: &Reader, manifest: Manifest, writing: bool) -> Result<JobView, CommandError> {
    let (job, total, submitted_ms) = (manifest.job.clone(), manifest.entries, manifest.submitted_ms);
    if let Some(report) = jobs::report(blobs, &job).await? {
        let ended_ms = Some(report.ended_ms);
        return Ok(JobView { job, state: "finished", total, counts: report.counts, submitted_ms, ended_ms });
    }
    let mut counts = Counts::default();
    let chunks = manifest.entries.div_ceil(500);
    let mut entries = Vec::new();
    for chunk in 0..chunks {
        entries.extend(jobs::entries(blobs, &manifest, chunk).await?);
    }
    for entry in entries {
        let Ok(submission) = serde_json::from_value::<Submission>(entry.input) else { continue };
        let doc = DocId::of(&manifest.collection.parse().unwrap_or_default(), &submission.uri);
        let listed = reader.catalogue().get(doc).filter(|listed| listed.version().source == submission.source);
        match listed.map(|listed| listed.state) {
            Some(State::Done) => counts.done += 1,
            Some(State::DoneWithGaps) => counts.done_with_gaps += 1,
            Some(State::Failed) => counts.failed += 1,
            Some(State::Queued | State::Running) | None => {}
        }
    }
    let state = if writing { "running" } else { "interrupted" };
    Ok(JobView { job, state, total, counts, submitted_ms, ended_ms: None })
}

fn show(view: &StatusView, context: &Context) {
    let output = &context.output;
    let Documents { queued, running, done, done_with_gaps, failed } = view.documents;
    output.line(&format!(
        "documents  done {done} · with gaps {done_with_gaps} · failed {failed} · running {running} · queued {queued}"
    ));
    if let Some(writer) = &view.writer {
        output.line(&format!("writer     process {} (stemma {})", writer.pid, clean(&writer.command)));
    }
    if view.jobs.is_empty() {
        output.note("no jobs; start one with: stemma ingest FOLDER");
        return;
    }
    let mut table =
        Table::new(&[(Align::Left, 0), (Align::Left, 0), (Align::Right, 0), (Align::Left, 0), (Align::Left, 0)]);
    let heads = ["job", "state", "documents", "done/gaps/unchanged/failed", "submitted"];
    table.row(heads.map(String::from));
    let now = Env::system().now_ms();
    for job in &view.jobs {
        let Counts { done, done_with_gaps, unchanged, failed, .. } = job.counts;
        table.row([
            job.job.to_string(),
            job.state.into(),
            format!("{}/{}", job.counts.ended(), job.total),
            format!("{done}/{done_with_gaps}/{unchanged}/{failed}"),
            ago(now.saturating_sub(job.submitted_ms)),
        ]);
    }
    table.lines().iter().for_each(|line| output.line(line));
    if view.jobs.iter().any(|job| job.state == "interrupted") {
        output.note("an interrupted job goes on when the same ingest is run again");
    }
    if failed > 0 {
        output.note("what failed and why: stemma failures");
    }
}

/// `40 s ago`, `3 h ago`.
fn ago(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
