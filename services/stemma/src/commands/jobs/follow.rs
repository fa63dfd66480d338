//! Follows a job until it ends.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stemma_engine::flow::JobManifest;
use stemma_engine::jobs::PauseReason;
use stemma_operations::text::duration;
use stemma_operations::{JobStatus, Operations};
use tokio_util::sync::CancellationToken;

use super::eta::Eta;
use crate::commands::format;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::OutputFormat;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
// Without a terminal, one line per interval keeps logs of long jobs short.
const LINE_INTERVAL_SECONDS: f64 = 15.0;
// The job goes on without its watcher, who therefore waits as long as an outage may last that harms no document: a quarter
// of an hour.
const MAX_FAILED_POLLS: u32 = 1_800;
// Failed polls in half a minute; one of them is logged.
const POLLS_PER_WARNING: u32 = 60;

/// Shows the progress of a job: a bar, lines or JSON objects.
pub struct FollowDisplay<'a> {
    context: &'a Context,
    bar: Option<ProgressBar>,
    eta: Eta,
    // The highest progress so far: the bar never moves back.
    max_done: f64,
    // Whether the total grew since: flows discover tasks while they run.
    total_grew: bool,
    began: std::time::Instant,
    last_line: Option<(f64, String)>,
    // Whether to print every change as a JSON object.
    events: bool,
}

impl<'a> FollowDisplay<'a> {
    /// The display of a job with `total` documents. With `events`, each change is a JSON object on standard output, if the format is JSON lines.
    pub fn new(context: &'a Context, total: u64, events: bool) -> Self {
        let terminal = std::io::stderr().is_terminal()
            && context.output.quiet == 0
            && context.output.is_text();
        let bar = terminal.then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("  documents {bar:24} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            context,
            bar,
            eta: Eta::default(),
            max_done: 0.0,
            total_grew: false,
            began: std::time::Instant::now(),
            last_line: None,
            events: events && context.output.format == OutputFormat::JsonLines,
        }
    }

    fn show(&mut self, view: &JobStatus) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.total_grew |= view.done() < self.max_done;
        self.max_done = self.max_done.max(view.done());
        self.eta.record(seconds, self.max_done);
        let line = self.line(view);
        if let Some(bar) = &self.bar {
            bar.set_position(self.max_done as u64);
            return bar.set_message(line);
        }
        let interval = if self.events {
            0.0
        } else {
            LINE_INTERVAL_SECONDS
        };
        let last = self.last_line.as_ref();
        if last.is_none_or(|(at, last)| seconds - at >= interval && *last != line) {
            match self.events {
                true => self.context.output.json(view),
                false => self.context.output.note(&format!("documents {line}")),
            }
            self.last_line = Some((seconds, line));
        }
    }

    fn line(&self, view: &JobStatus) -> String {
        let counts = &view.counts;
        let about = if self.total_grew { "~" } else { "" };
        let mut line = format!(
            "{}/{}   {} with warnings, {} failed   {} open",
            counts.ended(),
            view.total,
            counts.done_with_gaps,
            counts.failed,
            view.open
        );
        let tasks = view.tasks_present + view.tasks_missing;
        if tasks > 0 {
            line += &format!("   tasks {}/{about}{tasks}", view.tasks_present);
        }
        if let Some(eta) = self.eta.seconds(view.total as f64).or(view.eta_seconds) {
            line += &format!("   eta {about}{}", duration(eta));
        }
        if view.state != "running" {
            line += &format!("   {}", view.state);
        }
        line
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Follows a job until it ends or `stop` is cancelled; the job itself continues. Returns the last view.
pub async fn follow(
    operations: &Operations,
    manifest: &JobManifest,
    mut display: FollowDisplay<'_>,
    stop: &CancellationToken,
) -> Result<JobStatus, CommandError> {
    let mut failed = 0;
    loop {
        match operations.current_status(manifest).await {
            Ok(view) => {
                failed = 0;
                display.show(&view);
                if view.has_ended() || view.needs_attention() || stop.is_cancelled() {
                    display.clear();
                    return Ok(view);
                }
            }
            Err(error) if failed < MAX_FAILED_POLLS && !stop.is_cancelled() => {
                if failed.is_multiple_of(POLLS_PER_WARNING) {
                    tracing::warn!(%error, "cannot read the progress of the job; retrying");
                }
                failed += 1;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = operations.ports.env.sleep(POLL_INTERVAL) => {}
        }
    }
}

/// The exit code for the end of a job. A job that has not ended was interrupted.
pub fn exit(view: &JobStatus) -> Exit {
    match view.state {
        "cancelled" | "stopped" => Exit::Stopped,
        _ if view.needs_attention() => match view.paused.map(|paused| paused.reason) {
            Some(PauseReason::Credentials) => Exit::CheckFailed,
            _ => Exit::Stopped,
        },
        _ if !view.has_ended() => Exit::Interrupted,
        _ if view.counts.failed > 0 => Exit::SomeFailed,
        _ => Exit::Done,
    }
}

/// Prints how a job ended, and the next step.
///
/// `goes_on`: whether an unfinished job continues without this process.
pub fn print_end(context: &Context, view: &JobStatus, goes_on: bool) {
    let output = &context.output;
    if !output.is_text() {
        output.json(view);
        return;
    }
    let counts = &view.counts;
    let JobStatus {
        job, state, total, ..
    } = view;
    let took = view.ended_ms.map_or_else(String::new, |ended| {
        let seconds = ended.saturating_sub(view.submitted_ms) as f64 / 1e3;
        format!(" in {}", duration(seconds))
    });
    let mut parts = vec![format!("{} done", counts.done)];
    parts.extend(format::counts([
        (counts.done_with_gaps, "with warnings"),
        (counts.unchanged, "unchanged"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ]));
    let ended = counts.ended();
    let parts = parts.join(", ");
    output.line(&format!("{job} {state} {ended}/{total}{took}: {parts}"));
    if counts.failed > 0 {
        output.note(&format!("reasons: stemma failures {job} --by reason"));
    }
    if view.needs_attention() {
        let why = match view.paused.map(|paused| paused.reason) {
            Some(PauseReason::Budget) => "paused: budget used up; resume with a larger --budget",
            _ => {
                "paused: the provider rejects the key, the model name or the address; correct it, then resume with"
            }
        };
        output.note(&format!("{why}: stemma job resume {job}"));
    } else if !view.has_ended() && !goes_on {
        output.note("finished documents are saved; run the same command to resume");
    } else if !view.has_ended() {
        output.note(&format!(
            "the job continues; follow it with: stemma watch {job}; cancel it with: stemma cancel {job}"
        ));
    }
}
