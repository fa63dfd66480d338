//! Results of an ingest: counts, failures, costs.

use std::collections::BTreeMap;

use serde_json::json;
use stemma_catalog::property::quality_value;
use stemma_document::rounding::rounded;
use stemma_document::{
    CatalogEntry, Collection, DocumentVersion, Extent, PublishedTree, TreeObject, blob_keys,
};
use stemma_engine::jobs::{EntryCounts, PauseReason};
use stemma_engine::message::RunOutcome;
use stemma_store::JobId;
use stemma_store::blobs::Blobs;

use super::collect::{FailedDocument, IngestBatch};
use crate::commands::format::word;
use crate::context::Context;
use crate::cost::ModelUsage;
use crate::error::Exit;
use crate::failure_groups::{self, FailureGroup};
use crate::output::{Output, clean};
use crate::table::counted;

// For each kind; `stemma failures` and JSON list all of them.
const MAX_FAILURES_SHOWN: usize = 20;

// Codes of gaps left by a model that did not answer, with the part that is missing or comes from rules.
const UNANSWERED: [(&str, &str); 3] = [
    ("model.summary_failed", "summaries"),
    ("model.describe_failed", "description"),
    ("model.window_failed", "structure"),
];

// Code of gaps left because the provider was unreachable for longer than `patience_seconds`.
const PROVIDER_UNREACHABLE: &str = "model.provider_unreachable";

/// Why following a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngestEnd {
    Finished,
    Interrupted,
    TooManyFailed,
    Cancelled,
    Paused(PauseReason),
}

/// Sums over finished documents. It keeps no list, because an archive may hold a million documents.
#[derive(Default)]
pub struct IngestTally {
    done: u64,
    /// Documents whose trees have recorded gaps.
    pub with_gaps: u64,
    unchanged: u64,
    /// Sizes of the files of changed documents that ended.
    pub ended_bytes: u64,
    /// Sizes of the files of unchanged documents, which cost no time.
    pub unchanged_bytes: u64,
    failures: Vec<FailedDocument>,
    /// Pages of the new trees.
    pub pages: u64,
    sections: u64,
    // Documents by quality of their tree.
    quality: BTreeMap<&'static str, u32>,
    methods: BTreeMap<String, u64>,
    // Documents in which the model left something unanswered, by the code of the gap.
    unanswered: BTreeMap<String, u64>,
    // Sections with text and without a summary.
    unsummarized: u64,
    // Documents processed while the provider was unreachable.
    without_model: u64,
    // Finished documents, kept only for `--show-trees` and JSON.
    entries: Option<Vec<CatalogEntry>>,
}

impl IngestTally {
    /// Starts with the files that could not be read, as failures. `keep_entries`: for a list of all finished documents.
    pub fn new(unreadable: &[FailedDocument], keep_entries: bool) -> Self {
        Self {
            failures: unreadable.to_vec(),
            entries: keep_entries.then(Vec::new),
            ..Self::default()
        }
    }

    pub fn documents(&self) -> u64 {
        self.done + self.with_gaps + self.unchanged + self.failed()
    }

    pub fn failed(&self) -> u64 {
        self.failures.len() as u64
    }

    /// Counts a finished document. `input` is its claimed version, or its submission if none was claimed.
    pub async fn record_end(
        &mut self,
        blobs: &dyn Blobs,
        collection: &Collection,
        input: &serde_json::Value,
        ending: RunOutcome,
    ) {
        let size = input["size_bytes"].as_u64().unwrap_or_default();
        match &ending {
            RunOutcome::Unchanged => self.unchanged_bytes += size,
            _ => self.ended_bytes += size,
        }
        match ending {
            RunOutcome::Done => self.done += 1,
            RunOutcome::DoneWithGaps(_) => self.with_gaps += 1,
            RunOutcome::Unchanged => return self.unchanged += 1,
            RunOutcome::Cancelled => return,
            RunOutcome::Failed(record) => {
                let path = input["path"].as_str().unwrap_or("?").to_owned();
                return self
                    .failures
                    .push(FailedDocument::from_record(path, record));
            }
        }
        if let Some(published) = published(blobs, collection, input).await {
            let tree = &published.tree;
            let sections = tree.walk().map(|(_, section)| section);
            let unsummarized =
                sections.filter(|section| section.summary.is_none() && section.tokens > 0);
            self.unsummarized += unsummarized.count() as u64;
            self.without_model +=
                u64::from((tree.gaps.iter()).any(|gap| gap.detail.contains(PROVIDER_UNREACHABLE)));
            self.add(&CatalogEntry::from_tree(&published));
        }
    }

    fn add(&mut self, entry: &CatalogEntry) {
        if let Extent::Pages(pages) = entry.extent {
            self.pages += u64::from(pages);
        }
        self.sections += u64::from(entry.sections);
        if let Some(doubt) = entry.doubt {
            *self.quality.entry(quality_value(doubt)).or_default() += 1;
        }
        *self.methods.entry(word(&entry.method)).or_default() += 1;
        for code in &entry.gaps {
            if UNANSWERED.iter().any(|(unanswered, _)| unanswered == code) {
                *self.unanswered.entry(code.clone()).or_default() += 1;
            }
        }
        if let Some(entries) = &mut self.entries {
            entries.push(entry.clone());
        }
    }

    // `  no answer from the model: summaries in 2 documents (14 sections have none), description in 1 document`.
    fn without_answers(&self) -> String {
        let open_parts = UNANSWERED.iter().filter_map(|(code, what)| {
            let documents = counted(*self.unanswered.get(*code)?, "document");
            let none = match (*code, self.unsummarized) {
                ("model.summary_failed", all @ 1..) => format!(" ({all} sections have none)"),
                _ => String::new(),
            };
            Some(format!("{what} in {documents}{none}"))
        });
        let open_parts = open_parts.collect::<Vec<_>>().join(", ");
        format!("  no answer from the model: {open_parts}")
    }

    /// Sorts failures by path: they are recorded in the order in which documents end.
    pub fn sort_failures(&mut self) {
        self.failures.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Documents with a new tree.
    pub fn created(&self) -> u64 {
        self.done + self.with_gaps
    }

    /// Finished documents, if they were kept.
    pub fn entries(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.iter().flatten()
    }
}

// The tree of a finished document; `None` only if it was removed meanwhile.
async fn published(
    blobs: &dyn Blobs,
    collection: &Collection,
    input: &serde_json::Value,
) -> Option<Box<PublishedTree>> {
    let version: DocumentVersion = serde_json::from_value(input.clone()).ok()?;
    let key = blob_keys::tree_key(collection, version.doc, version.seq);
    match serde_json::from_slice(&blobs.get(&key).await.ok()??).ok()? {
        TreeObject::Published(published) => Some(published),
        TreeObject::Removed => None,
    }
}

/// The end of an ingest.
pub struct IngestSummary<'a> {
    pub job: JobId,
    pub batch: &'a IngestBatch,
    pub tally: IngestTally,
    /// What became of the documents of the run before, if it was interrupted.
    pub before: Option<EntryCounts>,
    pub end: IngestEnd,
    pub seconds: f64,
    /// Model calls and their cost.
    pub usage: ModelUsage,
}

impl IngestSummary<'_> {
    /// The exit of the command.
    pub fn exit(&self) -> Exit {
        match self.end {
            IngestEnd::Interrupted => Exit::Interrupted,
            IngestEnd::Paused(PauseReason::Credentials) => Exit::CheckFailed,
            IngestEnd::TooManyFailed | IngestEnd::Cancelled | IngestEnd::Paused(_) => Exit::Stopped,
            IngestEnd::Finished if self.tally.failed() > 0 => Exit::SomeFailed,
            IngestEnd::Finished if self.tally.without_model > 0 => Exit::ModelAway,
            IngestEnd::Finished => Exit::Done,
        }
    }

    /// Prints counts and failures.
    pub fn show(&self, context: &Context) {
        let output = &context.output;
        if self.tally.without_model > 0 {
            output.note(&self.without_model());
        }
        output.show(&self.object(context), || {
            self.lines(output).iter().for_each(|line| output.line(line));
            list_skipped(self.batch, output);
        });
    }

    fn without_model(&self) -> String {
        let documents = counted(self.tally.without_model, "document");
        format!(
            "the model was unreachable ({PROVIDER_UNREACHABLE}): {documents} structured by rules, with gaps. When it is back, run the same command \
             with --rerun-failed"
        )
    }

    fn lines(&self, output: &Output) -> Vec<String> {
        let tally = &self.tally;
        let done = tally.done;
        let with_gaps = tally.with_gaps;
        let unchanged = tally.unchanged;
        let ended = tally.documents();
        let failed = tally.failed();
        let total = self.total();
        let took = duration(self.seconds);
        let word = match self.end {
            IngestEnd::Finished => "done",
            IngestEnd::Paused(PauseReason::Budget) => "paused: budget, at",
            _ => "stopped at",
        };
        let mut lines = vec![
            output.bold(&format!("{word} {ended}/{total} in {took}")),
            format!(
                "  new or changed {done}, with warnings {with_gaps}, unchanged {unchanged}, failed {failed}"
            ),
        ];
        if let Some(counts) = &self.before {
            let EntryCounts {
                done,
                done_with_gaps,
                failed,
                ..
            } = counts;
            lines.push(format!(
                "  together with the run that was interrupted: new or changed {done}, with warnings {done_with_gaps}, failed {failed}"
            ));
        }
        if tally.created() > 0 {
            let methods = tally
                .methods
                .iter()
                .map(|(name, count)| format!("{name} {count}"));
            let methods = methods.collect::<Vec<_>>().join(", ");
            // Texts have no pages.
            let read = match tally.pages {
                0 => String::new(),
                pages => {
                    let rate = pages as f64 / self.seconds.max(0.001);
                    format!("{pages} pages ({rate:.0}/s), ")
                }
            };
            let sections = tally.sections;
            let cost = self.cost_line();
            lines.push(format!("  {read}{sections} sections, {cost}"));
            let quality = ["good", "uncertain", "doubtful"].map(|quality| {
                let count = tally.quality.get(quality).copied().unwrap_or(0);
                format!("{quality} {count}")
            });
            let quality = quality.join(", ");
            lines.push(format!("  trees: {quality} · found by: {methods}"));
        }
        if !tally.unanswered.is_empty() {
            lines.push(tally.without_answers());
        }
        let groups = failure_groups::group(tally.failures.iter().map(FailedDocument::line));
        for group in groups.iter().take(MAX_FAILURES_SHOWN) {
            let words = ["failed"].into_iter().chain(std::iter::repeat("    "));
            let group = words.zip(group.lines());
            lines.extend(group.map(|(word, line)| format!("  {word}  {line}")));
        }
        let unshown = groups.iter().skip(MAX_FAILURES_SHOWN);
        let more: usize = unshown.map(FailureGroup::documents).sum();
        if more > 0 {
            lines.push(format!("  … and {more} more: stemma failures"));
        }
        lines
    }

    // Model calls and their cost.
    fn cost_line(&self) -> String {
        let tokens = self.usage.prompt_tokens + self.usage.output_tokens;
        match self.usage.calls {
            0 => "no model used, cost $0".into(),
            calls => format!(
                "{calls} calls, {tokens} tokens, {}",
                self.usage.cost_label()
            ),
        }
    }

    /// Prints how to go on.
    pub fn show_next_steps(&self, output: &Output) {
        output.note(match self.end {
            IngestEnd::Finished if self.tally.created() == 0 => return,
            IngestEnd::Finished => {
                "try: stemma ls · stemma tree NAME · stemma search \"…\" · stemma serve (in a browser)"
            }
            IngestEnd::Interrupted => {
                "finished documents are saved; run the same command to resume"
            }
            IngestEnd::Paused(PauseReason::Budget | PauseReason::Person) => {
                "paused: the next call would exceed the budget; raise --budget and run the same command to resume"
            }
            IngestEnd::Paused(PauseReason::Credentials) => {
                output.error("error: the provider rejects the key, the model name or the address");
                return output.error("next:  run `stemma doctor` to find out which, then run the same command to resume");
            }
            IngestEnd::Cancelled => {
                "the job was cancelled; finished documents are saved; run the same command to resume"
            }
            IngestEnd::TooManyFailed => {
                "stopped: too many documents failed; see `stemma failures`, then run the same command to resume"
            }
        });
    }

    fn total(&self) -> u64 {
        (self.batch.submissions.len() + self.batch.unreadable.len()) as u64
    }

    fn object(&self, context: &Context) -> serde_json::Value {
        let tally = &self.tally;
        let skipped = &self.batch.discovery.skipped;
        let refused = skipped
            .iter()
            .map(|(path, reason)| json!({ "path": path.to_string_lossy(), "reason": reason }));
        let duplicates = &self.batch.duplicates;
        let duplicates = duplicates
            .iter()
            .map(|(path, of)| json!({ "path": path, "of": of }));
        let documents = tally.entries().map(|entry| json!({ "doc_id": entry.version.doc, "path": entry.version.path, "sections": entry.sections, "gaps": entry.gaps }));
        json!({
            "job": self.job,
            "store": context.store.to_string(),
            "collection": context.collection,
            "finished": self.end == IngestEnd::Finished,
            "counts": {
                "total": self.total(),
                "done": tally.done,
                "done_with_gaps": tally.with_gaps,
                "unchanged": tally.unchanged,
                "failed": tally.failed(),
            },
            "documents": documents.collect::<Vec<_>>(),
            "unanswered": tally.unanswered,
            "sections_without_summary": tally.unsummarized,
            "pages": tally.pages,
            "paused": if let IngestEnd::Paused(reason) = self.end { Some(reason) } else { None },
            "cost": self.usage,
            "seconds": rounded(self.seconds, 3),
            "failures": tally.failures,
            "duplicates": duplicates.collect::<Vec<_>>(),
            "removed": self.batch.removed,
            "refused": refused.collect::<Vec<_>>(),
            "edgar": self.batch.discovery.filings,
        })
    }
}

/// Lists duplicates, deleted files and skipped files, shortened for people; JSON has all of them.
pub fn list_skipped(batch: &IngestBatch, output: &Output) {
    for (path, of) in batch.duplicates.iter().take(MAX_FAILURES_SHOWN) {
        output.note(&format!("  duplicate  {} and {}", clean(path), clean(of)));
    }
    for label in batch.removed.iter().take(MAX_FAILURES_SHOWN) {
        output.note(&format!(
            "  deleted file  {0}: its tree is kept; remove it with: stemma rm \"{0}\"",
            clean(label)
        ));
    }
    for (path, reason) in batch.discovery.skipped.iter().take(MAX_FAILURES_SHOWN) {
        let path = clean(&path.to_string_lossy());
        output.note(&format!("  skipped  {path}: {reason}"));
    }
    if let Some(line) = batch.discovery.filings.line() {
        output.note(&format!("  {line}"));
    }
    let others: Vec<String> = (batch.discovery.other.iter())
        .map(|(ending, count)| format!("{count} .{}", clean(ending)))
        .collect();
    if !others.is_empty() {
        let others = others.join(", ");
        output.note(&format!("  skipped {others}: unsupported format"));
    }
}

fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..=59 => format!("{seconds:.1} s"),
        60..=3599 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}
