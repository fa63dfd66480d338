//! `stemma gc`: removes what no tree that can be asked for, and no open run, stands on.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_answers::reason::forgotten;
use stemma_answers::unfounded;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_pipeline::garbage::{self, Found, Garbage};
use stemma_retrieval::index::{schema, snapshot};

use crate::context::{CommandError, Context, Exit};
use crate::output::clean;

/// Objects removed at once.
const AT_ONCE: usize = 16;
/// Keys shown to people.
const SHOWN: usize = 10;

/// Remove what is superseded.
///
/// Kept are the last two trees of each document with their text, everything of documents that are in work or failed, all
/// answers of models of documents that are there, and whatever became superfluous less than seven days ago. Of snapshots of
/// the index the last two are kept, and those of the last day; of replies to questions, those of this month and the last, unless a
/// document was removed since. Answers are kept as long as all documents that they quote are there in the versions they quote.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma gc --dry-run
  stemma gc --yes")]
pub struct GcArgs {
    /// Show what would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when it was not confirmed, or the store refuses.
pub async fn run(args: GcArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    let store = context.reader().await?;
    let Found {
        garbage: mut found,
        removed_ms,
    } = garbage::find(store.blobs.as_ref(), &context.collection, env.now_ms()).await?;
    let going = found.iter().map(|garbage| garbage.key.as_str()).collect();
    let unfounded = unfounded(store.blobs.as_ref(), &context.collection, &going).await?;
    found.extend(unfounded.into_iter().map(|key| Garbage {
        key,
        what: "answer without its documents",
    }));
    let revision = schema::shape().revision;
    let superseded =
        snapshot::superseded(&store.blobs, &context.collection, revision, env.now_ms()).await?;
    found.extend(superseded.into_iter().map(|key| Garbage {
        key,
        what: "superseded index",
    }));
    let forgotten = forgotten(
        store.blobs.as_ref(),
        &context.collection,
        removed_ms,
        env.now_ms(),
    )
    .await?;
    found.extend(forgotten.into_iter().map(|key| Garbage {
        key,
        what: "forgotten reply",
    }));
    if !args.dry_run && !context.yes && !found.is_empty() {
        let message = format!("{} objects would be removed", found.len());
        return Err(CommandError::new("gc.not_confirmed", message)
            .with_next("say so with --yes, or look with --dry-run"));
    }
    if !args.dry_run && !found.is_empty() {
        let writer = context.writer(&env, "gc").await?;
        remove(writer.ports.blobs.as_ref(), &found).await?;
    }
    show(&found, args.dry_run, context);
    Ok(if found.is_empty() {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

async fn remove(blobs: &dyn Blobs, found: &[Garbage]) -> Result<(), CommandError> {
    let removals = stream::iter(found).map(|garbage| blobs.delete(&garbage.key));
    Ok(removals
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?)
}

fn show(found: &[Garbage], dry_run: bool, context: &Context) {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Garbage { key, what } in found {
        kinds.entry(what).or_default().push(key);
    }
    let output = &context.output;
    if !output.is_text() {
        let counts: BTreeMap<_, _> = kinds
            .iter()
            .map(|(what, keys)| (what, keys.len()))
            .collect();
        output.json(
            &serde_json::json!({ "dry_run": dry_run, "objects": found.len(), "by_kind": counts }),
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
            .take(SHOWN)
            .for_each(|key| output.line(&format!("  {}", clean(key))));
    }
    if found.is_empty() {
        output.note("nothing is superfluous for more than seven days");
    }
}
