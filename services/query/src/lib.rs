//! The query server: one process that mounts the REST, compatibility and MCP surfaces, and the pages for people, over the same
//! archives.
//!
//! Handlers read from a snapshot of each collection that is refreshed in the background. Access control runs before every
//! handler. A client error is a 4xx that says what to do; an unreachable store is a 503.

mod router;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use stemma_answers::tree_search::AnswerModel;
use stemma_archive::IndexSettings;
use stemma_boot::connections::ConnectionLimits;
use stemma_boot::health::{self, Health, HealthServer};
use stemma_boot::telemetry::Metrics;
use stemma_document::Collection;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use tokio_util::sync::CancellationToken;

use stemma_archive::collections::Collections;
use stemma_gateway::access_control::AccessControl;
use stemma_gateway::auth::{ApiKeys, InvalidKey};
use stemma_gateway::host_guard::HostGuard;
pub use stemma_gateway::{AppState, QuerySettings, ServerDeps};
use stemma_mcp::{McpServer, OptionalServices};

/// Settings of the query server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The collections it answers from; the first is meant where a request names none.
    pub collections: Vec<Collection>,
    /// The configuration.
    pub query: QuerySettings,
    /// Allow access without API keys from other machines.
    pub allow_anonymous: bool,
    /// Where and how this machine keeps the indexes.
    pub index: IndexSettings,
    /// The model that questions may be answered with; `None`: no model is asked.
    pub model: Option<AnswerModel>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could connect, and no one is asked for a key.
    #[error("{listen} can be reached from other machines, and no keys are configured")]
    Anonymous {
        /// The address.
        listen: SocketAddr,
    },
    /// A key that is not a digest.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// No collection to answer from.
    #[error("no collection to answer from")]
    NoCollection,
    /// The address cannot be listened on.
    #[error("{listen}: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

/// Serves `/v1`, `/mcp`, the pages, `/livez`, `/readyz` and `/metrics` until `stop`. Reads from `blobs` alone; with a model it also
/// adds to them what was paid for: call log, replies and answers.
///
/// # Errors
/// [`ServeError`] before anything is served.
pub async fn serve(
    env: Env,
    blobs: Arc<dyn Blobs>,
    settings: ServerSettings,
    deps: ServerDeps,
    health: Health,
    metrics: Option<Metrics>,
    stop: CancellationToken,
) -> Result<HealthServer, ServeError> {
    let ServerSettings {
        listen,
        collections,
        query,
        allow_anonymous,
        index,
        model,
    } = settings;
    let keys = ApiKeys::from_settings(&query.keys, env.clone())?;
    if keys.is_empty() && !listen.ip().is_loopback() && !allow_anonymous {
        return Err(ServeError::Anonymous { listen });
    }
    if collections.is_empty() {
        return Err(ServeError::NoCollection);
    }
    if model.is_some() && keys.is_asking_disabled() {
        tracing::info!(
            "a model is configured, but no key in query.keys has the scope `ask`, so no question uses it"
        );
    } else if model.is_some() && keys.is_empty() && !listen.ip().is_loopback() {
        tracing::warn!(%listen, "no keys are configured: anyone who can connect can use the model, which costs money");
    }
    let archive = Collections::start(
        &env,
        &blobs,
        collections,
        &deps.semantic_routers,
        &index,
        model.as_ref(),
        &stop,
    );
    let indexing = Arc::clone(&archive);
    health.add_troubles(move || indexing.index_troubles());
    let host_guard = HostGuard::new(listen, &query.hosts, &query.origins);
    let control = AccessControl::new(
        env.clone(),
        keys,
        listen.ip().is_loopback(),
        &host_guard,
        &query,
        Some(stemma_web::web_pages()),
    );
    // Who calls tools has a model of its own: without one here, searching serves it better than asking.
    let answering = deps.answerers.clone().filter(|_| model.is_some());
    let services = OptionalServices {
        answerers: answering,
        page_images: deps.page_images.clone(),
        vision: deps.vision.clone(),
    };
    let mcp_server = McpServer::with_access_control(env.clone(), Arc::clone(&archive), services);
    let mcp = stemma_mcp::service(mcp_server, &host_guard, query.max_body_bytes, &stop);
    let router = router::router(
        AppState {
            env,
            collections: archive,
            deps,
        },
        control,
        mcp,
    );
    let limits = ConnectionLimits {
        total: query.connections.max(1),
        per_address: query.connections_per_address.max(1),
        ..ConnectionLimits::default()
    };
    let serving = health::serve(listen, health, metrics, router, limits, stop).await;
    serving.map_err(|error| ServeError::Listen { listen, error })
}
