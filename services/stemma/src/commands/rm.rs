//! `stemma rm`: removes documents from the collection.

use stemma_store::Env;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

/// Remove documents from the collection.
///
/// Removes trees, never the source files. While the file of a removed document exists, the next
/// submission of its folder or prefix (a nightly one, `stemma watch`, a notification) adds it again
/// and processes it from scratch. To keep it away, remove the file too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma rm 3M_2022_10K              asks first
  stemma rm /@status/failed --dry-run
  stemma rm 10-K/2015 --yes          for scripts")]
pub struct RmArgs {
    /// Documents, folders or facet paths.
    #[arg(required = true, value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Show what would be removed, without removing it.
    #[arg(long)]
    pub dry_run: bool,
}

pub async fn run(args: RmArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    context.open_store().await?; // fails for a missing store, which opening for writing would create
    let store = context.open_writable_store(&env, "rm").await?;
    let reader = context.archive(store.ports.blobs.raw()).await?;
    let mut documents = Vec::new();
    for scope in &args.scopes {
        for listed in reader.documents_in_scope(scope)? {
            if !documents.iter().any(|(doc, _)| *doc == listed.doc()) {
                documents.push((listed.doc(), listed.label.clone()));
            }
        }
    }
    if documents.is_empty() {
        return Ok(Exit::Nothing);
    }
    let what = match documents.as_slice() {
        [(_, label)] => clean(label),
        more => format!("{} documents", more.len()),
    };
    if !args.dry_run && !context.confirm("rm.not_confirmed", &format!("remove {what}"))? {
        return Ok(Exit::Nothing);
    }
    if !args.dry_run {
        for (doc, _) in &documents {
            stemma_roles::assembler::remove_document(&store.ports, &context.collection, *doc)
                .await?;
        }
    }
    let labels: Vec<&str> = documents.iter().map(|(_, label)| label.as_str()).collect();
    let output = &context.output;
    output.show(
        &serde_json::json!({ "dry_run": args.dry_run, "removed": labels }),
        || {
            let word = if args.dry_run {
                "would remove"
            } else {
                "removed"
            };
            labels
                .iter()
                .for_each(|label| output.line(&format!("{word} {}", clean(label))));
        },
    );
    Ok(Exit::Done)
}
