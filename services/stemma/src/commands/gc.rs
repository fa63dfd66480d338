//! `stemma gc`: removes objects that no readable tree and no open run needs.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_answers::orphaned_answers;
use stemma_answers::tree_search::expired_replies;
use stemma_catalog::compaction;
use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::{Env, dead_letter};
use stemma_llm::calls;
use stemma_pipeline::gc::{self, GarbageObject, GarbageReport};
use stemma_retrieval::index::{schema, snapshot};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

// Days that calls stay single: as long as someone may ask which of them failed.
const CALL_DAYS: u64 = 30;
const CONCURRENT_DOCUMENTS: usize = 4;
// Records of the call log that sums take the place of.
const SUMMED: &str = "summed call";
const DAY_MS: u64 = 24 * 3_600_000;
const MAX_KEYS_SHOWN: usize = 10;

/// Remove objects that are no longer needed.
///
/// Keeps the last two trees of each document with their text and correction, the claims of these and of the last two versions, all data of open or failed documents (also of those
/// submitted again meanwhile), copies of submitted files that these or an open job name (others are marked, and removed a week later), jobs that ended and dead letters that were written less than 90 days ago, all model replies of existing documents, and anything that was superseded less than seven days ago. Also keeps the last two index
/// snapshots and those of the last day, the last two snapshots of the catalog with the change records behind them, and replies to questions of this and the previous month, unless a document was
/// removed since. Answers are kept while all documents that they quote exist in the quoted versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma gc --dry-run
  stemma gc --yes")]
pub struct GcArgs {
    /// Show what would be removed, without removing it.
    #[arg(long)]
    pub dry_run: bool,
    /// Days that an ended job, its report and its name stay, and messages that could not be handled. Costs of documents stay.
    #[arg(long, default_value_t = gc::JOB_RETENTION_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(7..))]
    pub keep_jobs: u64,
    /// Days that single model calls stay in the call log. Older ones are summed by day, document, stage, model and job.
    #[arg(long, default_value_t = CALL_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(calls::MIN_RECORD_DAYS..))]
    pub keep_calls: u64,
}

pub async fn run(args: GcArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    let store = context.open_store().await?;
    let blobs = store.blobs.as_ref();
    let collection = &context.collection;
    let retention_ms = args.keep_jobs.saturating_mul(DAY_MS);
    let report = gc::find_garbage(blobs, collection, env.now_ms(), retention_ms).await?;
    let mut others = Vec::new();
    let revision = schema::doc_mapper().revision;
    let superseded =
        snapshot::superseded_keys(&store.blobs, collection, revision, env.now_ms()).await?;
    others.extend(superseded.into_iter().map(|key| GarbageObject {
        key,
        reason: "superseded index",
    }));
    let expired = expired_replies(blobs, collection, report.removed_ms, env.now_ms()).await?;
    others.extend(expired.into_iter().map(|key| GarbageObject {
        key,
        reason: "forgotten reply",
    }));
    let before_ms = env.now_ms().saturating_sub(retention_ms);
    let letters = dead_letter::older_than(blobs, &format!("c/{collection}/"), before_ms).await?;
    others.extend(letters.into_iter().map(|key| GarbageObject {
        key,
        reason: "old dead letter",
    }));
    let mut objects: Vec<GarbageObject> = report.objects().cloned().collect();
    let answers = orphans(blobs, collection, &objects).await?;
    objects.extend(answers);
    objects.extend(others.iter().cloned());
    // Last: what the records say about trees has been collected before.
    let superseded =
        compaction::superseded_keys(blobs, collection, env.now_ms(), gc::GRACE_MS).await?;
    let records = superseded.into_iter().map(|key| GarbageObject {
        key,
        reason: "superseded change record",
    });
    let records: Vec<GarbageObject> = records.collect();
    objects.extend(records.iter().cloned());
    let log = format!("c/{collection}");
    let days = calls::days_to_sum(blobs, &log, env.now_ms(), args.keep_calls).await?;
    let mut summed = 0;
    for day in &days {
        summed += calls::count_day(blobs, &log, *day).await?;
    }
    let count = objects.len() as u64 + summed;
    if !args.dry_run && !context.yes && count > 0 {
        let message = format!("{count} objects would be removed");
        return Err(CommandError::new("gc.not_confirmed", message)
            .with_next("confirm with --yes, or preview with --dry-run"));
    }
    let marks = report.marks();
    if !args.dry_run && (count > 0 || marks > 0) {
        let writer = context.open_writable_store(&env, "gc").await?;
        let blobs = writer.ports.blobs.raw().as_ref();
        objects = remove(blobs, collection, &report, others).await?;
        gc::delete_all(blobs, &records).await?;
        objects.extend(records);
        summed = 0;
        for day in days {
            summed += calls::sum_day(blobs, &log, day).await?;
        }
    }
    show(&objects, summed, args.dry_run, context);
    if marks > 0 {
        context.output.note(&format!(
            "{marks} copies of files or submissions are not in use; they are removed a week after gc marked them"
        ));
    }
    // Not `Exit::Nothing`: a scheduler would take it for a failure.
    Ok(Exit::Done)
}

async fn orphans(
    blobs: &dyn Blobs,
    collection: &Collection,
    going: &[GarbageObject],
) -> Result<Vec<GarbageObject>, CommandError> {
    let keys = going.iter().map(|garbage| garbage.key.as_str()).collect();
    let orphaned = orphaned_answers(blobs, collection, &keys).await?;
    let orphaned = orphaned.into_iter().map(|key| GarbageObject {
        key,
        reason: "answer without its documents",
    });
    Ok(orphaned.collect())
}

// Removes what is still garbage, and the answers over what was removed. Returns what it removed.
async fn remove(
    blobs: &dyn Blobs,
    collection: &Collection,
    report: &GarbageReport,
    others: Vec<GarbageObject>,
) -> Result<Vec<GarbageObject>, CommandError> {
    let mut removed = Vec::new();
    let mut documents = stream::iter(&report.documents)
        .map(|garbage| garbage.remove(blobs, collection))
        .buffered(CONCURRENT_DOCUMENTS);
    while let Some(objects) = documents.try_next().await? {
        removed.extend_from_slice(objects);
    }
    for job in &report.jobs {
        job.remove(blobs).await?;
        removed.extend_from_slice(&job.objects);
    }
    let answers = orphans(blobs, collection, &removed).await?;
    let rest: Vec<GarbageObject> = [answers, report.failures.clone(), others].concat();
    gc::delete_all(blobs, &rest).await?;
    removed.extend(rest);
    report.originals.remove(blobs).await?;
    removed.extend_from_slice(&report.originals.objects);
    Ok(removed)
}

fn show(objects: &[GarbageObject], summed: u64, dry_run: bool, context: &Context) {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for GarbageObject { key, reason: what } in objects {
        kinds.entry(what).or_default().push(key);
    }
    let output = &context.output;
    if !output.is_text() {
        let mut counts: BTreeMap<&str, u64> = kinds
            .iter()
            .map(|(what, keys)| (*what, keys.len() as u64))
            .collect();
        if summed > 0 {
            counts.insert(SUMMED, summed);
        }
        let all: u64 = counts.values().sum();
        output.json(&serde_json::json!({ "dry_run": dry_run, "objects": all, "by_kind": counts }));
        return;
    }
    let word = if dry_run {
        "would be removed"
    } else {
        "removed"
    };
    for (what, keys) in &kinds {
        output.line(&format!("{what}: {} objects {word}", keys.len()));
        keys.iter()
            .take(MAX_KEYS_SHOWN)
            .for_each(|key| output.line(&format!("  {}", clean(key))));
    }
    if summed > 0 {
        output.line(&format!("{SUMMED}: {summed} objects {word}"));
    }
    if objects.is_empty() && summed == 0 {
        output.note("nothing to remove (kept for 7 days)");
    }
}
