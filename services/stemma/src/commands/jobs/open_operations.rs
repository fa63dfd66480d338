//! Opens what commands on jobs need: the cluster if one is configured, and the store alone otherwise.

use stemma_boot::backends::Cluster;
use stemma_operations::{Operations, StoreWriter};
use stemma_store::Env;

use crate::context::Context;
use crate::error::CommandError;

/// Opens the store. `command` names this process to the servers.
pub async fn open_operations(context: &Context, command: &str) -> Result<Operations, CommandError> {
    let env = Env::system();
    let cluster = context.cluster(&env, command).await?;
    operations(context, env, cluster).await
}

/// Opens the store for a command that only looks, and answers whichever server is unavailable.
pub async fn observe_operations(
    context: &Context,
    command: &str,
) -> Result<Operations, CommandError> {
    let env = Env::system();
    let cluster = context.observed_cluster(&env, command).await?;
    operations(context, env, cluster).await
}

/// Like [`observe_operations`], for a server that only reads: where a setting of the cluster is missing, it shows the jobs as the
/// store has them.
pub async fn read_operations(context: &Context, service: &str) -> Result<Operations, CommandError> {
    let servers = &context.config()?.servers;
    match servers.cluster_store(&context.store) {
        Err(missing) if servers.is_cluster() => {
            tracing::warn!(missing, "jobs are shown without what the cluster reports");
            operations(context, Env::system(), None).await
        }
        _ => observe_operations(context, service).await,
    }
}

async fn operations(
    context: &Context,
    env: Env,
    cluster: Option<Cluster>,
) -> Result<Operations, CommandError> {
    let collection = context.collection.clone();
    if let Some(cluster) = cluster {
        let operations = Operations::live(cluster.ports.clone(), collection);
        return Ok(operations.with_connections(cluster));
    }
    let store = context.open_store().await?;
    let blobs = store.blobs.clone();
    Ok(Operations::stored(&env, blobs, collection, move || {
        store.writer().map(|owner| StoreWriter {
            pid: owner.pid,
            command: owner.command,
            since_ms: owner.since_ms,
        })
    }))
}
