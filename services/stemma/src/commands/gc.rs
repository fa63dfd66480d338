//! `stemma gc`: removes objects that no readable tree and no open run needs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use stemma_answers::orphaned_answers;
use stemma_answers::tree_search::expired_replies;
use stemma_catalog::compaction::SupersededRecords;
use stemma_engine::dead_letter;
use stemma_llm::calls;
use stemma_pipeline::gc::{self, GarbageObject, GarbagePages};
use stemma_retrieval::index::doc_mapper::DocMapper;
use stemma_retrieval::index::snapshot;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

// Days that calls stay single: as long as someone may ask which of them failed.
const CALL_DAYS: u64 = 30;
// Records of the call log that sums take the place of.
const SUMMED: &str = "summed call";
const DAY_MS: u64 = 24 * 3_600_000;
const MAX_KEYS_SHOWN: usize = 10;

/// Remove objects that are no longer needed.
///
/// Keeps the last two trees of each document with their text and correction, the claims of these and of the last two versions, the results and model replies that these versions used, all data of open or failed documents (also of those
/// submitted again meanwhile), copies of submitted files that these or an open job name (others are marked, and removed a week later), jobs that ended and dead letters that were written less than 90 days ago, and anything that was superseded less than seven days ago. Also keeps the last two index
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

impl GcArgs {
    fn retention_ms(&self) -> u64 {
        self.keep_jobs.saturating_mul(DAY_MS)
    }
}

pub async fn run(args: GcArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    if args.dry_run || !context.yes {
        let store = context.open_store().await?;
        let found = collect(&store.blobs, &env, &args, false, context).await?;
        let count = found.count();
        if args.dry_run {
            found.show(true, context);
            return Ok(Exit::Done);
        }
        if count > 0 {
            let message = format!("{count} objects would be removed");
            return Err(CommandError::new("gc.not_confirmed", message)
                .with_next("confirm with --yes, or preview with --dry-run"));
        }
    }
    let writer = context.open_writable_store(&env, "gc").await?;
    let removed = collect(writer.ports.blobs.raw(), &env, &args, true, context).await?;
    removed.show(false, context);
    // Not `Exit::Nothing`: a scheduler would take it for a failure.
    Ok(Exit::Done)
}

/// What was found or removed, by kind. It keeps some names of each.
#[derive(Default)]
struct GarbageTally {
    kinds: BTreeMap<&'static str, (u64, Vec<String>)>,
    marks: usize,
}

impl GarbageTally {
    fn add(&mut self, object: &GarbageObject) {
        let (count, keys) = self.kinds.entry(object.reason).or_default();
        *count += 1;
        if keys.len() < MAX_KEYS_SHOWN {
            keys.push(object.key.clone());
        }
    }

    fn add_all<'a>(&mut self, objects: impl IntoIterator<Item = &'a GarbageObject>) {
        objects.into_iter().for_each(|object| self.add(object));
    }

    fn add_summed(&mut self, calls: u64) {
        if calls > 0 {
            self.kinds.entry(SUMMED).or_default().0 += calls;
        }
    }

    fn count(&self) -> u64 {
        self.kinds.values().map(|(count, _)| count).sum()
    }

    fn show(&self, dry_run: bool, context: &Context) {
        let output = &context.output;
        let count = self.count();
        let counts: BTreeMap<_, _> = (self.kinds.iter())
            .map(|(kind, (count, _))| (kind, count))
            .collect();
        let view = serde_json::json!({ "dry_run": dry_run, "objects": count, "by_kind": counts });
        output.show(&view, || {
            let word = if dry_run {
                "would be removed"
            } else {
                "removed"
            };
            for (kind, (count, keys)) in &self.kinds {
                output.line(&format!("{kind}: {count} objects {word}"));
                keys.iter()
                    .for_each(|key| output.line(&format!("  {}", clean(key))));
            }
            if count == 0 {
                output.note("nothing to remove (kept for 7 days)");
            }
        });
        if self.marks > 0 {
            output.note(&format!(
                "{} copies of files or submissions are not in use; they are removed a week after gc marked them",
                self.marks
            ));
        }
    }
}

// Finds what can go and, if asked, removes it, page by page: an interruption leaves less to the next run.
async fn collect(
    blobs: &Arc<dyn Blobs>,
    env: &Env,
    args: &GcArgs,
    removes: bool,
    context: &Context,
) -> Result<GarbageTally, CommandError> {
    let collection = &context.collection;
    let retention_ms = args.retention_ms();
    let now_ms = env.now_ms();
    let mut tally = GarbageTally::default();
    let pages = GarbagePages::start(blobs.as_ref(), collection, now_ms, retention_ms).await?;
    let removed_ms = pages.removed_ms;
    let as_of_ms = if removes { pages.as_of_ms() } else { now_ms };
    // The answers over trees that are only found go, too.
    let mut trees = HashSet::new();
    tally.marks = if removes {
        pages.remove_all(|object| tally.add(object)).await?
    } else {
        let marks = pages.find_all(|object| {
            tally.add(object);
            if object.key.contains("/trees/") {
                trees.insert(object.key.clone());
            }
        });
        marks.await?
    };
    let trees = trees.iter().map(String::as_str).collect();
    let orphaned = orphaned_answers(blobs.as_ref(), collection, &trees).await?;
    let mut rest = garbage_objects(orphaned, "answer without its documents");
    rest.extend(others(blobs, context, removed_ms, now_ms, retention_ms).await?);
    if removes {
        gc::delete_all(blobs.as_ref(), &rest).await?;
    }
    tally.add_all(&rest);
    // Last: what the records say about trees has been collected before.
    let mut records =
        SupersededRecords::start(blobs.as_ref(), collection, as_of_ms, gc::GRACE_MS).await?;
    while let Some(keys) = records.next_page().await? {
        let objects = garbage_objects(keys, "superseded change record");
        if removes {
            gc::delete_all(blobs.as_ref(), &objects).await?;
        }
        tally.add_all(&objects);
    }
    let log = format!("c/{collection}");
    for day in calls::days_to_sum(blobs.as_ref(), &log, now_ms, args.keep_calls).await? {
        tally.add_summed(match removes {
            true => calls::sum_day(blobs.as_ref(), &log, day).await?,
            false => calls::count_day(blobs.as_ref(), &log, day).await?,
        });
    }
    Ok(tally)
}

fn garbage_objects(keys: Vec<String>, reason: &'static str) -> Vec<GarbageObject> {
    let objects = keys.into_iter().map(|key| GarbageObject { key, reason });
    objects.collect()
}

// What belongs to no document.
async fn others(
    blobs: &Arc<dyn Blobs>,
    context: &Context,
    removed_ms: Option<Millis>,
    now_ms: Millis,
    retention_ms: u64,
) -> Result<Vec<GarbageObject>, CommandError> {
    let collection = &context.collection;
    let revision = DocMapper::current().revision;
    let shards = context.config()?.local.index_shards;
    let indexes = snapshot::superseded_keys(blobs, collection, revision, shards, now_ms).await?;
    let replies = expired_replies(blobs.as_ref(), collection, removed_ms, now_ms).await?;
    let before_ms = now_ms.saturating_sub(retention_ms);
    let scope = format!("c/{collection}/");
    let letters = dead_letter::older_than(blobs.as_ref(), &scope, before_ms).await?;
    Ok([
        garbage_objects(indexes, "superseded index"),
        garbage_objects(replies, "forgotten reply"),
        garbage_objects(letters, "old dead letter"),
    ]
    .concat())
}
