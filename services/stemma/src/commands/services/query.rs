//! `stemma query`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use stemma_answers::tree_search::AnswerModel;
use stemma_archive::AnswerService;
use stemma_boot::health::Health;
use stemma_boot::telemetry::Metrics;
use stemma_boot::{process_name, shutdown};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_engine::heartbeat::HeartbeatReporter;
pub use stemma_query::{ServeError, ServerDeps, ServerSettings, serve};
use stemma_retrieval::embedding::SemanticRouter;

use super::ServiceArgs;
use crate::context::Context;
use crate::embeddings::{EmbeddingClient, EmbeddingsConfig};
use crate::error::{CommandError, Exit};
use crate::model_clients::answer_model;

/// Run a query server: documents, trees, pages and search over HTTP.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads published trees and needs no broker. Any number may run, over a folder or a bucket. New trees become
visible within two seconds. If a model is configured, the server also answers questions: it shares the model's
limits through Redis (if redis.url is set), and writes the call log and replies to the store.

If other machines can connect, clients need a key; query.keys holds the digests (see `stemma config query`).

Examples:
  stemma query
  stemma query --store s3://filings/stemma --listen 0.0.0.0:8080
  curl 127.0.0.1:8080/v1/documents")]
pub struct QueryArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Further collections to serve, besides --collection.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    also: Vec<Collection>,
    /// Allow access without a key.
    #[arg(long)]
    allow_anonymous: bool,
}

/// Answers until it is asked to stop.
pub async fn run(args: QueryArgs, context: &Context) -> Result<Exit, CommandError> {
    let stop = shutdown::listen();
    let config = context.config()?;
    let store = context.open_store().await?;
    let env = Env::system();
    let presence = HeartbeatReporter::new(&env, process_name::process_name("query", &env), "query");
    let health = Health::for_blobs(&env, &presence, &store.blobs);
    let limiter = config.servers.limiter(&env)?;
    let model = answer_model(config, &env, &limiter, presence.process())?;
    let embedding_client = config
        .embeddings
        .client(&env, &limiter, presence.process())?;
    let settings = settings(args, context, config.query.clone(), model);
    let meaning = semantic_routers(
        &config.embeddings,
        &embedding_client,
        &env,
        &store.blobs,
        &settings.collections,
        &settings.cache,
    );
    let listen = settings.listen;
    let answers = AnswerService::new(
        env.clone(),
        Arc::clone(&store.blobs),
        config.answer,
        stemma_mcp::agent_tools,
    );
    let deps = ServerDeps {
        semantic_routers: meaning,
        answerers: Some(Arc::new(answers)),
        ..ServerDeps::default()
    };
    let serving = serve(
        env,
        Arc::clone(&store.blobs),
        settings,
        deps,
        health,
        Metrics::install(),
        stop.clone(),
    )
    .await;
    let serving = serving.map_err(|error| serve_error(listen, &error))?;
    tracing::info!(store = %context.store, listen = %serving.address, "started");
    stop.cancelled().await;
    presence.start_draining();
    serving
        .join()
        .await
        .map_err(|error| CommandError::new("listen.ended", format!("{listen}: {error}")))?;
    tracing::info!("drained");
    Ok(Exit::Done)
}

/// Semantic routing for each collection.
pub(super) fn semantic_routers(
    embeddings: &EmbeddingsConfig,
    embedding_client: &EmbeddingClient,
    env: &Env,
    blobs: &Arc<dyn Blobs>,
    collections: &[Collection],
    cache_dir: &Path,
) -> Vec<(Collection, Arc<SemanticRouter>)> {
    collections
        .iter()
        .filter_map(|collection: &Collection| {
            let meaning =
                embeddings.semantic_router(embedding_client, env, blobs, collection, cache_dir)?;
            Some((collection.clone(), meaning))
        })
        .collect()
}

fn settings(
    args: QueryArgs,
    context: &Context,
    query: stemma_gateway::settings::QuerySettings,
    model: Option<AnswerModel>,
) -> ServerSettings {
    let mut collections = vec![context.collection.clone()];
    collections.extend(
        args.also
            .into_iter()
            .filter(|other| *other != context.collection),
    );
    let cache = context.cache_dir();
    ServerSettings {
        listen: args.service.listen,
        collections,
        query,
        allow_anonymous: args.allow_anonymous,
        cache,
        model,
    }
}

/// Errors at the start of the server, with the next step.
pub(super) fn serve_error(listen: SocketAddr, error: &ServeError) -> CommandError {
    let next = match error {
        ServeError::Anonymous { .. } => {
            "set query.keys, listen on 127.0.0.1, or pass --allow-anonymous"
        }
        ServeError::Key { .. } => "correct query.keys; compute the digest of a key with `b3sum`",
        _ => "choose another --listen",
    };
    CommandError::new("listen.refused", format!("{listen}: {error}")).with_next(next)
}
