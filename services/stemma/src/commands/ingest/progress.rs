//! Progress of an ingest: a bar on a terminal, otherwise a line every 15 seconds.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::summary::IngestTally;
use crate::context::Context;

pub const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
// Without a terminal, one line per interval keeps logs of long runs short.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

/// Shows how far an ingest is.
pub struct IngestProgress<'a> {
    pub total: u64,
    context: &'a Context,
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Cell<Instant>,
}

impl<'a> IngestProgress<'a> {
    /// The progress of `total` documents.
    pub fn new(context: &'a Context, total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal() && context.output.quiet == 0;
        let bar = terminal.then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            let style =
                ProgressStyle::with_template("  documents {bar:24} {pos}/{len}  {msg}  eta {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let now = Instant::now();
        Self {
            total,
            context,
            bar,
            began: now,
            last_line: Cell::new(now),
        }
    }

    /// Updates the bar, or prints a line if it is time for one.
    pub fn show(&self, tally: &IngestTally) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(tally.documents());
                bar.set_message(self.message(tally));
            }
            None if self.last_line.get().elapsed() >= LINE_INTERVAL => {
                self.last_line.set(Instant::now());
                self.context.output.note(&format!(
                    "documents {}/{}  {}",
                    tally.documents(),
                    self.total,
                    self.message(tally)
                ));
            }
            None => {}
        }
    }

    fn message(&self, tally: &IngestTally) -> String {
        let rate = tally.pages() as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        format!(
            "{} with warnings, {} failed   pages {} ({rate:.0}/s)",
            tally.with_gaps(),
            tally.failed(),
            tally.pages()
        )
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
