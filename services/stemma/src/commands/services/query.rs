//! `stemma query`.

use std::net::SocketAddr;
use std::sync::Arc;

use stemma_archive::AnswerService;
use stemma_boot::health::Health;
use stemma_boot::telemetry::Metrics;
use stemma_boot::{process_name, shutdown};
use stemma_document::Collection;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_gateway::ServerDeps;
use stemma_gateway::uploads::UploadPort;
use stemma_operations::Operations;
use stemma_query::{ServeError, ServerSettings, serve};
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use stemma_store::limit::Limiter;
use stemma_store::port_monitor::PortMonitor;
use tokio_util::sync::CancellationToken;

use super::ServiceArgs;
use crate::commands::doctor::server_checks;
use crate::commands::jobs::read_operations;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::model_clients::{self, ReadModels};
use crate::page_images::page_images;

/// Run a query server: documents, trees, pages and search over HTTP.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads published trees and needs no broker. Any number may run, over a folder or a bucket. New
trees become visible within two seconds. If a model is configured, the server also answers
questions: it shares the model's limits through Redis (if redis.url is set), and writes the call
log and replies to the store.

If other machines can connect, clients need a key; query.keys holds the digests (see `stemma
config query`).

Examples:
  stemma query
  stemma query --store s3://filings/stemma --listen 0.0.0.0:8080
  curl 127.0.0.1:8080/v1/documents")]
pub struct QueryArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Further collections to serve, in addition to --collection.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    also: Vec<Collection>,
    /// Allow access without a key.
    #[arg(long)]
    allow_anonymous: bool,
}

pub async fn run(mut args: QueryArgs, context: &Context) -> Result<Exit, CommandError> {
    let stop = shutdown::listen();
    let store = context.open_store().await?;
    let operations = read_operations(context, "query").await?;
    let env = Env::system();
    let mut collections = vec![context.collection.clone()];
    args.also.retain(|other| *other != context.collection);
    collections.extend(args.also);
    let server = QueryServer {
        service: "query",
        listen: args.service.listen,
        collections,
        allow_anonymous: args.allow_anonymous,
        blobs: store.blobs,
        limiter: context.config()?.servers.limiter(&env)?,
        operations,
        uploads: None,
        env,
        stop,
    };
    server.run(context, |_| ()).await
}

/// The HTTP server of `stemma query` and `stemma serve`.
pub(super) struct QueryServer {
    pub service: &'static str,
    pub listen: SocketAddr,
    pub collections: Vec<Collection>,
    pub allow_anonymous: bool,
    pub env: Env,
    pub blobs: Arc<dyn Blobs>,
    pub limiter: Arc<dyn Limiter>,
    pub operations: Operations,
    pub uploads: Option<Arc<dyn UploadPort>>,
    pub stop: CancellationToken,
}

impl QueryServer {
    /// Answers requests until `stop`. Calls `on_start` with the address.
    pub async fn run(
        self,
        context: &Context,
        on_start: impl FnOnce(SocketAddr),
    ) -> Result<Exit, CommandError> {
        let Self {
            listen, env, blobs, ..
        } = self;
        let config = context.config()?;
        let name = process_name::process_name(self.service, &env);
        let heartbeat = HeartbeatReporter::new(&env, name, self.service);
        let monitor = PortMonitor::default();
        let blobs = monitor.watch_blobs(&env, blobs);
        let health = Health::for_blobs(&env, &heartbeat, &blobs, &monitor);
        let models = ReadModels::connect(context, &env, &self.limiter, heartbeat.process())?;
        let semantic_routers = self
            .collections
            .iter()
            .filter_map(|collection| {
                let router = models.embeddings.router(&blobs, collection)?;
                Some((collection.clone(), router))
            })
            .collect();
        let vision = model_clients::vision(context, &env, &self.limiter, heartbeat.process())?;
        let answers = AnswerService::new(env.clone(), Arc::clone(&blobs), config.answer);
        let operations = self.operations.with_checks(server_checks(context));
        let deps = ServerDeps {
            semantic_routers,
            uploads: self.uploads,
            operations: Some(Arc::new(operations)),
            answerers: Some(Arc::new(answers.with_vision(vision.clone()))),
            page_images: Some(page_images(context)?),
            vision,
        };
        let settings = ServerSettings {
            listen,
            collections: self.collections,
            query: config.query.clone(),
            allow_anonymous: self.allow_anonymous,
            index: context.index_settings()?,
            model: models.answers,
        };
        let metrics = Metrics::install("query");
        let stop = self.stop.clone();
        let serving = serve(env, blobs, settings, deps, health, metrics, stop)
            .await
            .map_err(|error| serve_error(listen, &error))?;
        on_start(serving.address);
        tracing::info!(store = %context.store, listen = %serving.address, "started");
        self.stop.cancelled().await;
        heartbeat.start_draining();
        let ended = serving.join().await;
        ended.map_err(|error| CommandError::new("listen.failed", format!("{listen}: {error}")))?;
        tracing::info!("drained");
        Ok(Exit::Done)
    }
}

// Errors at the start of the server, with the next step.
fn serve_error(listen: SocketAddr, error: &ServeError) -> CommandError {
    let (message, next) = match error {
        ServeError::Anonymous { .. } => (
            error.to_string(),
            "set query.keys, or listen on 127.0.0.1; `stemma query` also has --allow-anonymous",
        ),
        ServeError::Key { .. } => (
            error.to_string(),
            "correct query.keys; `stemma key NAME` makes a key and its digest",
        ),
        _ => (format!("{listen}: {error}"), "choose another --listen"),
    };
    CommandError::new("listen.refused", message).with_next(next)
}
