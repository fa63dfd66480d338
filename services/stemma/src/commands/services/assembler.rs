//! `stemma assembler`.

use std::sync::Arc;

use super::ServiceArgs;
use super::host::ServiceHost;
use crate::context::Context;
use crate::embedded;
use crate::error::{CommandError, Exit};

/// Run an assembler: publishes finished trees and their change records.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The only service that needs permission to write trees and change records. Any number may run.

Example:
  stemma assembler --store s3://filings/stemma --listen 0.0.0.0:8080")]
pub struct AssemblerArgs {
    #[command(flatten)]
    service: ServiceArgs,
}

pub async fn run(args: AssemblerArgs, context: &Context) -> Result<Exit, CommandError> {
    let running = ServiceHost::start("assembler", args.service.listen, context).await?;
    let tools = embedded::cluster_deps(&running.config)?;
    let (ports, stop) = running.parts();
    stemma_roles::assembler::run(ports, Arc::new(tools), running.heartbeat(), stop).await;
    Ok(running.end().await)
}
