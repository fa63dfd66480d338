//! `stemma coordinator`.

use std::sync::Arc;

use stemma_adapters::s3::{BucketReader, S3};
use stemma_engine::Ports;
use stemma_engine::lane_metrics::observe_lanes;
use stemma_roles::coordinator::reindex::Reindex;
use stemma_roles::coordinator::run_reindex;

use super::ServiceArgs;
use super::host::ServiceHost;
use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Run a coordinator: accepts jobs and schedules their tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Any number may run; each job and each document is handled by one of them at a time. The store
must be a bucket, and broker.url and redis.url must be set (see `stemma config`). SIGTERM stops
it gracefully; a second SIGTERM stops it at once.

Example:
  stemma coordinator --store s3://filings/stemma --listen 0.0.0.0:8080")]
pub struct CoordinatorArgs {
    #[command(flatten)]
    service: ServiceArgs,
}

pub async fn run(args: CoordinatorArgs, context: &Context) -> Result<Exit, CommandError> {
    let running = ServiceHost::start("coordinator", args.service.listen, context).await?;
    let (ports, stop) = running.parts();
    let s3 = S3::connect(&running.config.servers.s3.settings()).await?;
    let ports = ports.with_objects(Arc::new(BucketReader::new(s3)));
    let reindex = reindex(&running, ports.clone())?;
    let reindex = run_reindex(reindex, running.heartbeat(), stop.clone());
    let open_documents = running.config.local.open_documents;
    let observer = stemma_roles::coordinator::no_observer();
    let heartbeat = running.heartbeat();
    let lanes = observe_lanes(ports.clone(), heartbeat.clone(), stop.clone());
    tokio::join!(
        stemma_roles::coordinator::run(ports, open_documents, observer, heartbeat, stop),
        lanes,
        reindex
    );
    Ok(running.end().await)
}

// Handles messages that request reindexing of documents.
fn reindex(running: &ServiceHost, ports: Ports) -> Result<Reindex, CommandError> {
    let config = &running.config;
    let sources = config
        .sources
        .iter()
        .map(|rule| rule.source())
        .collect::<Result<Vec<_>, _>>();
    let sources = sources.map_err(|wrong| CommandError::new("config.invalid", wrong))?;
    Ok(Reindex::new(ports, sources, config.job_settings()?))
}
