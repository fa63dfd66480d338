//! `stemma watch`: follows a job.

use stemma_boot::shutdown;

use super::follow::{FollowDisplay, exit, follow, print_end};
use super::open_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Watch a job until it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A terminal shows a progress bar; otherwise a line is printed every 15 seconds, and with --jsonl
an object for every change. Interrupting this command does not stop the job.

Examples:
  stemma watch j-1a1fba360ee4aa2
  stemma watch nightly-2026-11-21 --jsonl")]
pub struct WatchArgs {
    /// A job, by id or name.
    pub job: String,
}

pub async fn run(args: WatchArgs, context: &Context) -> Result<Exit, CommandError> {
    let stop = shutdown::listen();
    let operations = open_operations(context, "watch").await?;
    let manifest = operations.job(&args.job).await?;
    let display = FollowDisplay::new(context, manifest.entries, true);
    let view = follow(&operations, &manifest, display, &stop).await?;
    print_end(context, &view, operations.is_live);
    Ok(exit(&view))
}
