//! Progress of an ingest: a bar on a terminal, otherwise a line every 15 seconds.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stemma_pipeline::{ModelClient, ReadProgress};
use stemma_store::model_status::ModelBatch;

use super::summary::IngestTally;
use crate::commands::format::counts;
use crate::context::Context;

pub const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
// Without a terminal, one line per interval keeps logs of long runs short.
const LINE_INTERVAL: Duration = Duration::from_secs(15);
// Parts of the time, measured on annual reports: reading the files, finding their sections, indexing them.
const READING: f64 = 0.45;
const STRUCTURE: f64 = 0.35;
const INDEXING: f64 = 0.2;
const BAR_UNITS: u64 = 1_000;

/// Shows how far an ingest is.
pub struct IngestProgress<'a> {
    pub total: u64,
    total_bytes: u64,
    read: Arc<ReadProgress>,
    models: Vec<Arc<ModelClient>>,
    context: &'a Context,
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Cell<Instant>,
    // Documents of this ingest in the index.
    indexed: Arc<AtomicU64>,
}

impl<'a> IngestProgress<'a> {
    /// The progress of `total` documents with `total_bytes`.
    pub fn new(
        context: &'a Context,
        total: u64,
        total_bytes: u64,
        read: Arc<ReadProgress>,
        models: Vec<Arc<ModelClient>>,
    ) -> Self {
        let terminal = std::io::stderr().is_terminal() && context.output.quiet == 0;
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(BAR_UNITS),
                ProgressDrawTarget::stderr_with_hz(5),
            );
            let style = ProgressStyle::with_template("  {bar:20} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let now = Instant::now();
        Self {
            total,
            total_bytes,
            read,
            models,
            context,
            bar,
            began: now,
            last_line: Cell::new(now),
            indexed: Arc::default(),
        }
    }

    /// The count of documents of this ingest in the index, to be updated.
    pub fn indexed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.indexed)
    }

    /// Updates the bar, or prints a line if it is time for one.
    pub fn show(&self, tally: &IngestTally) {
        match &self.bar {
            Some(bar) => {
                bar.set_position((self.share(tally) * BAR_UNITS as f64) as u64);
                bar.set_message(self.message(tally));
            }
            None if self.last_line.get().elapsed() >= LINE_INTERVAL => {
                self.last_line.set(Instant::now());
                self.context.output.note(&self.message(tally));
            }
            None => {}
        }
    }

    // The share of the work that is done, the index included.
    fn share(&self, tally: &IngestTally) -> f64 {
        let ended = tally.ended_bytes;
        let read = self.read.bytes.load(Ordering::Relaxed).max(ended);
        let share = |bytes: u64| {
            let total = self
                .total_bytes
                .saturating_sub(tally.unchanged_bytes)
                .max(1);
            (bytes as f64 / total as f64).min(1.0)
        };
        let indexed = self.indexed.load(Ordering::Relaxed) as f64 / tally.created().max(1) as f64;
        READING * share(read) + (STRUCTURE + INDEXING * indexed) * share(ended)
    }

    fn message(&self, tally: &IngestTally) -> String {
        let elapsed = self.began.elapsed();
        let pages = self.read.pages.load(Ordering::Relaxed).max(tally.pages);
        let rate = pages as f64 / elapsed.as_secs_f64().max(0.001);
        // First what must fit on a narrow terminal.
        let mut message = String::new();
        if let Some(left) = time_left(elapsed, self.share(tally)) {
            message.push_str(&format!("eta {}  ", short_duration(left)));
        }
        message.push_str(&format!("documents {}/{}", tally.documents(), self.total));
        let indexed = self.indexed.load(Ordering::Relaxed);
        if indexed > 0 {
            message.push_str(&format!("  indexed {indexed}"));
        }
        message.push_str(&format!("  pages {pages} ({rate:.0}/s)"));
        let models = self.models.iter().map(|model| model.heartbeat());
        let batches: Vec<ModelBatch> = models.flat_map(|model| model.batches).collect();
        if !batches.is_empty() {
            let count = batches.len();
            let done: u64 = batches.iter().map(|batch| batch.done).sum();
            let requests: u64 = batches.iter().map(|batch| batch.requests).sum();
            message += &format!("  batches {count} ({done}/{requests} answered)");
        }
        for count in counts([
            (tally.with_gaps, "with warnings"),
            (tally.failed(), "failed"),
        ]) {
            message += &format!("  {count}");
        }
        message
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

// `None` while too little is done to tell.
fn time_left(elapsed: Duration, share_done: f64) -> Option<Duration> {
    const TOO_LITTLE: f64 = 0.02;
    (share_done >= TOO_LITTLE).then(|| elapsed.mul_f64((1.0 - share_done).max(0.0) / share_done))
}

fn short_duration(duration: Duration) -> String {
    match duration.as_secs() + 1 {
        seconds @ 0..=59 => format!("{seconds} s"),
        seconds @ 60..=3_599 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, OutputFormat};

    #[test]
    fn progress_counts_read_pages_and_the_index() {
        let context = Context {
            store: "none".parse().unwrap(),
            collection: Default::default(),
            config_file: None,
            output: Output::new(OutputFormat::Text, Vec::new(), 1, true),
            yes: false,
            loaded_config: Default::default(),
        };
        let read = Arc::new(ReadProgress::default());
        let progress = IngestProgress::new(&context, 2, 1_000, Arc::clone(&read), Vec::new());
        let tally = IngestTally::default();
        assert_eq!(progress.message(&tally), "documents 0/2  pages 0 (0/s)");
        read.pages.store(40, Ordering::Relaxed);
        read.bytes.store(500, Ordering::Relaxed);
        assert!((progress.share(&tally) - READING / 2.0).abs() < 1e-9);
        let message = progress.message(&tally);
        assert!(message.starts_with("eta "), "{message}");
        assert!(message.contains("  documents 0/2  pages 40 ("), "{message}");
        progress.indexed().store(3, Ordering::Relaxed);
        let message = progress.message(&tally);
        assert!(
            message.contains("  documents 0/2  indexed 3  pages 40 ("),
            "{message}"
        );
    }

    #[test]
    fn time_left_follows_the_share_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(time_left(minute, 0.0), None);
        assert_eq!(time_left(minute, 0.25), Some(3 * minute));
        assert_eq!(time_left(minute, 1.0), Some(Duration::ZERO));
    }
}
