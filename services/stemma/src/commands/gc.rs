//! `stemma gc`: removes objects that no readable tree and no open run needs.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_answers::orphaned_answers;
use stemma_answers::tree_search::expired_replies;
use stemma_catalog::compaction;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_pipeline::gc::{self, GRACE_MS, GarbageObject, GarbageReport};
use stemma_retrieval::index::{schema, snapshot};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

const CONCURRENT_DELETES: usize = 16;
const MAX_KEYS_SHOWN: usize = 10;

/// Remove objects that are no longer needed.
///
/// Keeps the last two trees of each document with their text and correction, all data of open or failed documents, all model replies
/// of existing documents, and anything that was superseded less than seven days ago. Also keeps the last two index
/// snapshots and those of the last day, the last two snapshots of the catalog with the change records behind them, and
/// replies to questions of this and the previous month, unless a document was removed since. Answers are kept while all documents that they quote exist in the quoted versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma gc --dry-run
  stemma gc --yes")]
pub struct GcArgs {
    /// Show what would be removed, without removing it.
    #[arg(long)]
    pub dry_run: bool,
}

pub async fn run(args: GcArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    let store = context.open_store().await?;
    let GarbageReport {
        garbage: mut objects,
        removed_ms,
    } = gc::find_garbage(store.blobs.as_ref(), &context.collection, env.now_ms()).await?;
    let garbage_keys = objects.iter().map(|garbage| garbage.key.as_str()).collect();
    let orphaned =
        orphaned_answers(store.blobs.as_ref(), &context.collection, &garbage_keys).await?;
    objects.extend(orphaned.into_iter().map(|key| GarbageObject {
        key,
        reason: "answer without its documents",
    }));
    let revision = schema::doc_mapper().revision;
    let superseded =
        snapshot::superseded_keys(&store.blobs, &context.collection, revision, env.now_ms())
            .await?;
    objects.extend(superseded.into_iter().map(|key| GarbageObject {
        key,
        reason: "superseded index",
    }));
    let expired = expired_replies(
        store.blobs.as_ref(),
        &context.collection,
        removed_ms,
        env.now_ms(),
    )
    .await?;
    objects.extend(expired.into_iter().map(|key| GarbageObject {
        key,
        reason: "forgotten reply",
    }));
    // Last: what the records say about trees has been collected before.
    let superseded = compaction::superseded_keys(
        store.blobs.as_ref(),
        &context.collection,
        env.now_ms(),
        GRACE_MS,
    )
    .await?;
    let records = superseded.into_iter().map(|key| GarbageObject {
        key,
        reason: "superseded change record",
    });
    let records: Vec<GarbageObject> = records.collect();
    let count = objects.len() + records.len();
    if !args.dry_run && !context.yes && count > 0 {
        let message = format!("{count} objects would be removed");
        return Err(CommandError::new("gc.not_confirmed", message)
            .with_next("confirm with --yes, or preview with --dry-run"));
    }
    if !args.dry_run && count > 0 {
        let writer = context.open_writable_store(&env, "gc").await?;
        let blobs = writer.ports.blobs.raw();
        remove(blobs.as_ref(), &objects).await?;
        remove(blobs.as_ref(), &records).await?;
    }
    objects.extend(records);
    show(&objects, args.dry_run, context);
    Ok(Exit::nothing_if(objects.is_empty()))
}

async fn remove(blobs: &dyn Blobs, objects: &[GarbageObject]) -> Result<(), CommandError> {
    let removals = stream::iter(objects).map(|garbage| blobs.delete(&garbage.key));
    Ok(removals
        .buffer_unordered(CONCURRENT_DELETES)
        .try_collect::<()>()
        .await?)
}

fn show(objects: &[GarbageObject], dry_run: bool, context: &Context) {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for GarbageObject { key, reason: what } in objects {
        kinds.entry(what).or_default().push(key);
    }
    let output = &context.output;
    if !output.is_text() {
        let counts: BTreeMap<_, _> = kinds
            .iter()
            .map(|(what, keys)| (what, keys.len()))
            .collect();
        output.json(
            &serde_json::json!({ "dry_run": dry_run, "objects": objects.len(), "by_kind": counts }),
        );
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
    if objects.is_empty() {
        output.note("nothing to remove (kept for 7 days)");
    }
}
